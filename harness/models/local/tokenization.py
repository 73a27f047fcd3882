"""Chat turns and choices to the token ids a checkpoint reads, whole, and replies back to text."""

import sys
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from jinja2 import TemplateError

from harness.core import Request, Response
from harness.errors import DataError, ModelError
from harness.lazy import PreTrainedTokenizerBase
from harness.models.boundary import choice_starts
from harness.models.custom import ModelContext, Resolvable
from harness.models.local.checkpoints import Checkpoint, device_of, dtype_of
from harness.models.spread import Needs, Spreadable
from harness.parts import ChoiceScore, Message, Mode, Reason, Usage, digest
from harness.specs.models import LocalSpec

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def prompt_tokens(messages: Sequence[Message], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Tokenize the prompt, with one BOS if any; TemplateError for turns that are refused."""
    text = prompt_text(messages, tokenizer)
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    if not begins_with_bos(tokenizer):
        return ids
    return [tokenizer.bos_token_id, *ids[_opening_bos(ids, tokenizer) :]]


def begins_with_bos(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the tokenizer puts a BOS before a text."""
    bos = tokenizer.bos_token_id
    return bos is not None and tokenizer("a")["input_ids"][0] == bos


def prompt_text(messages: Sequence[Message], tokenizer: PreTrainedTokenizerBase) -> str:
    """Render the prompt as text.

    If the template refuses or drops the system turn, its text goes to the head of the first user
    turn. Without a template the prompt is the turns' texts joined by line breaks.
    """
    if tokenizer.chat_template is None:
        return "\n".join(message.content for message in messages)

    def rendered(*turns: Message) -> str:
        given = [{"role": turn.role, "content": turn.content} for turn in turns]
        return str(tokenizer.apply_chat_template(given, add_generation_prompt=True, tokenize=False))

    first, *rest = messages
    if first.role != "system":
        return rendered(*messages)
    try:
        text = rendered(*messages)
    except TemplateError:
        text = ""
    if text and first.content.strip() in text:
        return text
    if rest and rest[0].role == "user":
        return rendered(Message("user", f"{first.content}\n\n{rest[0].content}"), *rest[1:])
    return rendered(Message("user", first.content), *rest)


_MARK = "said"


@dataclass(frozen=True, slots=True)
class ChoiceTokens:
    """Token ids of context and choice, and the first scored places.

    `spanned` counts the characters of the context that are scored with every choice.
    """

    rows: tuple[tuple[int, ...], ...]
    firsts: tuple[int, ...]
    spanned: int

    def scored(self, sums: Sequence[float], choices: Sequence[str]) -> tuple[ChoiceScore, ...]:
        """The choices' scores from the sum of the log-probabilities of each."""
        return tuple(
            ChoiceScore(total, len(row) - first, len(choice.encode()), self.spanned)
            for total, row, first, choice in zip(sums, self.rows, self.firsts, choices, strict=True)
        )


def choice_tokens(
    messages: Sequence[Message],
    choices: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    *,
    is_chat: bool,
) -> ChoiceTokens:
    """Tokenize each choice after its context, with one BOS where the tokenizer uses one, no EOS.

    The context is the turns' texts, joined by line breaks. With `is_chat` it is the chat
    template's text, and a choice opens the model's turn, without its leading space. TemplateError
    where the template refuses the turns, DataError for a choice without a word.
    """
    context = context_text(messages, tokenizer, is_chat=is_chat)
    answers = answer_texts(messages, choices, tokenizer, is_chat=is_chat)
    tokenized = [encoded(context + answer, tokenizer) for answer in answers]
    rows, offsets = (tuple(spans) for spans in zip(*tokenized, strict=True))
    for answer, spans in zip(answers, offsets, strict=True):
        if not spans or max(end for _, end in spans) <= len(context):
            raise DataError(
                f"the tokenizer makes no token of the choice {answer!r}: there is nothing to "
                "score; word it otherwise, or use another model"
            )
    firsts, spanned = choice_starts(offsets, len(context), tokens=rows)
    return ChoiceTokens(rows, firsts, spanned)


def context_text(
    messages: Sequence[Message], tokenizer: PreTrainedTokenizerBase, *, is_chat: bool
) -> str:
    """Render the text before the choices."""
    if not is_chat:
        return "\n".join(message.content for message in messages)
    if tokenizer.chat_template is None:
        fact = f"{tokenizer.name_or_path}: it has no chat template for choices to open a turn in"
        raise ModelError(f"{fact}; set `choice_prompt: plain`")
    return prompt_text(messages, tokenizer)


def answer_texts(
    messages: Sequence[Message],
    choices: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    *,
    is_chat: bool,
) -> list[str]:
    """Render the choices as they follow the context."""
    if blank := [choice for choice in choices if not choice.strip()]:
        raise DataError(
            f"a choice is {blank[0]!r}, and a choice without a word has no probability to be "
            "scored by; give every choice of the sample a text"
        )
    if not is_chat:
        return list(choices)
    # The blanks between the prompt and the model's words are the template's own: Llama 2 and
    # Mistral write a space there, Zephyr a line break.
    prompt, opening = prompt_text(messages, tokenizer), ""
    with suppress(TemplateError):
        text = prompt_text([*messages, Message("assistant", _MARK)], tokenizer)
        blanks, mark, _ = text.removeprefix(prompt).partition(_MARK)
        opening = blanks if mark and not blanks.strip() else ""
    return [opening + choice.lstrip() for choice in choices]


def encoded(
    text: str, tokenizer: PreTrainedTokenizerBase
) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    """Token ids and their offsets, with exactly one BOS where the tokenizer uses one."""
    tokenized = _bare(tokenizer).encode(text, add_special_tokens=False)
    if not begins_with_bos(tokenizer):
        return tuple(tokenized.ids), tokenized.offsets
    written = _opening_bos(tokenized.ids, tokenizer)
    end = tokenized.offsets[written - 1][1] if written else 0
    ids = tokenizer.bos_token_id, *tokenized.ids[written:]
    return ids, [(0, end), *tokenized.offsets[written:]]


@lru_cache(maxsize=2)
def _bare(tokenizer: PreTrainedTokenizerBase) -> "Tokenizer":
    """The tokenizer without its post-processor, which in some trims blanks off the offsets."""
    if not tokenizer.is_fast:
        fact = f"{tokenizer.name_or_path}: its tokenizer does not give the characters of a token"
        raise ModelError(f"{fact}; use a checkpoint with a fast tokenizer (tokenizer.json)")
    from tokenizers import Tokenizer

    # Its parts are shared: a copy would read the vocabulary again, which may take seconds.
    whole = tokenizer.backend_tokenizer
    bare = Tokenizer(whole.model)
    bare.normalizer, bare.pre_tokenizer = whole.normalizer, whole.pre_tokenizer
    bare.add_tokens([token for _, token in sorted(whole.get_added_tokens_decoder().items())])
    return bare


def reply_seed(request: Request, reply: int) -> int:
    """The seed of one reply of a request; decoding.seed is part of the request's key."""
    return int(digest((request.key, reply))[:15], 16)


def token_report(
    requests: Sequence[Request], tokenizer: PreTrainedTokenizerBase, *, is_chat: bool
) -> dict[str, float]:
    """Count how a tokenizer reads the choices of some requests, each distinct one once.

    `differing`: other tokens if context and choice are tokenized apart; `spanning`: scored with
    characters of the context; `single`: one scored token; `ungiven`: no token precedes it. The
    rest are scored tokens a choice.
    """
    distinct = {(each.messages, each.choices): each for each in requests if each.choices}
    counts, ungiven, spanning, differing = list[int](), 0, 0, 0
    for (messages, choices), request in distinct.items():
        try:
            joint = choice_tokens(messages, choices, tokenizer, is_chat=is_chat)
        except TemplateError as error:
            raise ModelError(
                f"{tokenizer.name_or_path}: its chat template refuses the turns of sample "
                f"{request.sample_id}: {error}; set `choice_prompt: plain`"
            ) from error
        context, _ = encoded(context_text(messages, tokenizer, is_chat=is_chat), tokenizer)
        answers = answer_texts(messages, choices, tokenizer, is_chat=is_chat)
        for row, first, answer in zip(joint.rows, joint.firsts, answers, strict=True):
            alone = tokenizer(answer, add_special_tokens=False, verbose=False)["input_ids"]
            differing += row != (*context, *alone)
            ungiven += first == 0
            counts.append(len(row) - first)
        spanning += len(choices) if joint.spanned else 0
    return {
        **{"requests": len(distinct), "choices": len(counts), "differing": differing},
        **{"spanning": spanning, "single": counts.count(1), "ungiven": ungiven},
        **{"fewest": min(counts), "median": median(counts), "most": max(counts)},
    }


def _opening_bos(row: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> int:
    bos = tokenizer.bos_token_id
    return next((at for at, token in enumerate(row) if token != bos), len(row))


CHARACTERS_A_TOKEN = 4  # about right for English prose; results are always labelled as estimates


def prompt_size(request: Request, tokenizer: PreTrainedTokenizerBase, *, is_chat: bool) -> int:
    """Count the tokens of a prompt; those before choices; 0 for a request that is refused."""
    try:
        if request.mode is Mode.CHOOSE:
            tokens = choice_tokens(request.messages, request.choices, tokenizer, is_chat=is_chat)
            return min(tokens.firsts)
        return len(prompt_tokens(request.messages, tokenizer))
    except (TemplateError, DataError):
        return 0


def characters(request: Request) -> int:
    """Count the characters of a prompt."""
    return sum(len(message.content) for message in request.messages)


def estimated(request: Request) -> int:
    """Estimate the tokens sent for a request from its characters; a choice resends its context."""
    sent = characters(request)
    if request.mode is Mode.CHOOSE:
        sent = sum(sent + len(choice) for choice in request.choices)
    return sent // CHARACTERS_A_TOKEN


AnySpec = TypeVar("AnySpec", bound=LocalSpec)


class CheckpointModel(Resolvable, Spreadable, Generic[AnySpec]):
    """What the back ends for checkpoints share; tokenizer and weights are opened when needed."""

    modes = frozenset({Mode.GENERATE, Mode.CHOOSE})

    def __init__(self, name: str, spec: AnySpec, cache: Path) -> None:
        """Keep what to run; `cache` is the folder for checkpoints that are built."""
        self.name, self._spec, self._cache = name, spec, cache

    @classmethod
    def build(cls, name: str, spec: AnySpec, context: ModelContext) -> Self:
        """Build the model of a spec."""
        return cls(name, spec, context.cache / "checkpoints")

    @property
    def needs(self) -> Needs:
        """What a copy of the model takes, as its YAML says."""
        return Needs.on(self._device, cpus=self._spec.cpus, gpus=self._spec.gpus)

    def prompt_size(self, request: Request) -> int:
        """Count the tokens of a request's prompt; no weights are loaded."""
        return prompt_size(request, self._checkpoint.tokenizer, is_chat=self._is_chat)

    @property
    @abstractmethod
    def _checkpoint(self) -> Checkpoint: ...

    @property
    def _is_chat(self) -> bool:
        return self._spec.choice_prompt == "chat"

    @property
    def _device(self) -> str:
        return device_of(self._spec.device)

    @property
    def _dtype(self) -> str:
        return dtype_of(self._spec.dtype, self._device, self._checkpoint.config)

    @property
    def _positions(self) -> int:
        config = self._checkpoint.config.get_text_config()
        return int(getattr(config, "max_position_embeddings", None) or sys.maxsize)

    def _prepared(self, request: Request) -> Any:  # noqa: ANN401 - each engine has its own
        """What the engine is given for a request, or the response that refuses it."""
        if request.mode not in self.modes:
            can = ", ".join(sorted(self.modes))
            return self._failed(request, f"cannot {request.mode}; it can {can}")
        tokenizer = self._checkpoint.tokenizer
        try:
            if request.mode is not Mode.CHOOSE:
                return self._writing(request)
            tokens = choice_tokens(
                request.messages, request.choices, tokenizer, is_chat=self._is_chat
            )
        except TemplateError as error:
            return self._failed(request, f"its chat template refuses these turns: {error}")
        except DataError as error:
            return self._failed(request, str(error))
        if min(tokens.firsts) < 1:
            return self._failed(
                request,
                "there is nothing before the choices, and this model's tokenizer puts no BOS "
                "there; put words before them, or use another model",
            )
        return self._choosing(request, tokens)

    @abstractmethod
    def _writing(self, request: Request) -> object: ...

    @abstractmethod
    def _choosing(self, request: Request, tokens: ChoiceTokens) -> object: ...

    def _failed(self, request: Request, fact: str, reason: Reason = Reason.UNSUPPORTED) -> Response:
        return Response.failed(request.key, reason, f"{self.name}: {fact}")

    def _scored(self, request: Request, tokens: ChoiceTokens, sums: Sequence[float]) -> Response:
        scores = tokens.scored(sums, request.choices)
        return Response(request.key, choice_scores=scores, usage=Usage(min(tokens.firsts), 0))

    def _replied(
        self, request: Request, prompt: int, replies: Sequence[tuple[Sequence[int], bool]]
    ) -> Response:
        decode = self._checkpoint.tokenizer.decode
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        # A cut reply has no end token.
        written = [list(tokens if is_cut else tokens[:-1]) for tokens, is_cut in replies]
        return Response(
            key=request.key,
            texts=tuple(str(decode(tokens, **options)) for tokens in written),
            stop="length" if any(is_cut for _, is_cut in replies) else "stop",
            usage=Usage(prompt, sum(len(tokens) for tokens, _ in replies)),
        )
