"""Chat turns and choices to the token ids a local checkpoint reads, and replies back to text.

The checkpoint's own chat template renders the turns. Nothing here truncates, or adds words to
what the template and the turns contain.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from harness.errors import DataError, ModelError
from harness.models.boundary import choice_starts
from harness.parts import ChoiceScore, Message

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase


def prompt_tokens(messages: Sequence[Message], tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """Tokenize the prompt, with exactly one BOS where the tokenizer uses one.

    Raises jinja2.TemplateError where the template accepts the turns in no form.
    """
    text = prompt_text(messages, tokenizer)
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    if not begins_with_bos(tokenizer):
        return ids
    bos = tokenizer.bos_token_id
    written = next((at for at, token in enumerate(ids) if token != bos), len(ids))
    return [bos, *ids[written:]]


def begins_with_bos(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether the tokenizer puts a BOS before a text."""
    bos = tokenizer.bos_token_id
    return bos is not None and tokenizer("a")["input_ids"][0] == bos


def prompt_text(messages: Sequence[Message], tokenizer: "PreTrainedTokenizerBase") -> str:
    """Render the prompt as text.

    If the template refuses or drops the system turn, its text goes to the head of the first user
    turn. Without a template the prompt is the turns' texts joined by line breaks.
    """
    if tokenizer.chat_template is None:
        return "\n".join(message.content for message in messages)
    if messages[0].role != "system":
        return _render(messages, tokenizer)
    try:
        text = _render(messages, tokenizer)
    except TemplateError:
        return _render(_folded(messages), tokenizer)
    return text if messages[0].content.strip() in text else _render(_folded(messages), tokenizer)


def _render(messages: Sequence[Message], tokenizer: "PreTrainedTokenizerBase") -> str:
    turns = [{"role": message.role, "content": message.content} for message in messages]
    return str(tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False))


def _folded(messages: Sequence[Message]) -> list[Message]:
    system, *turns = messages
    if not turns or turns[0].role != "user":
        return [Message("user", system.content), *turns]
    return [Message("user", f"{system.content}\n\n{turns[0].content}"), *turns[1:]]


def reply_text(tokens: Sequence[int], tokenizer: "PreTrainedTokenizerBase", *, is_cut: bool) -> str:
    """Decode a reply, without the end token, which a cut reply lacks, and other markers."""
    return str(
        tokenizer.decode(
            list(tokens if is_cut else tokens[:-1]),
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
    )


_MARK = "said"


@dataclass(frozen=True, slots=True)
class ChoiceTokens:
    """Token ids of context and choice, a row a choice; `firsts` are the first scored places.

    The tokens before them are equal in all rows. `spanned` counts the characters of the context
    that are scored with every choice.
    """

    rows: tuple[tuple[int, ...], ...]
    firsts: tuple[int, ...]
    spanned: int

    def scored(self, sums: Sequence[float], choices: Sequence[str]) -> tuple[ChoiceScore, ...]:
        """Build the choices' scores from the sum of the log-probabilities of each."""
        return tuple(
            ChoiceScore(total, len(row) - first, len(choice.encode()), self.spanned)
            for total, row, first, choice in zip(sums, self.rows, self.firsts, choices, strict=True)
        )


def choice_tokens(
    messages: Sequence[Message],
    choices: Sequence[str],
    tokenizer: "PreTrainedTokenizerBase",
    *,
    is_chat: bool,
) -> ChoiceTokens:
    """Tokenize each choice after its context, with one BOS where the tokenizer uses one, no EOS.

    The context is the turns' texts, joined by line breaks. With `is_chat` it is the chat
    template's text, and a choice opens the model's turn: without its leading space, after the
    blanks that the template itself writes there. Raises jinja2.TemplateError where the template
    accepts the turns in no form, DataError for a choice without a word.
    """
    context = context_text(messages, tokenizer, is_chat=is_chat)
    answers = answer_texts(messages, choices, tokenizer, is_chat=is_chat)
    tokenized = [encoded(context + answer, tokenizer) for answer in answers]
    rows, offsets = (tuple(spans) for spans in zip(*tokenized, strict=True))
    for answer, spans in zip(answers, offsets, strict=True):
        _check_reaches(answer, spans, beyond=len(context))
    firsts, spanned = choice_starts(offsets, len(context), tokens=rows)
    return ChoiceTokens(rows, firsts, spanned)


def context_text(
    messages: Sequence[Message], tokenizer: "PreTrainedTokenizerBase", *, is_chat: bool
) -> str:
    """Render the text before the choices."""
    if not is_chat:
        return "\n".join(message.content for message in messages)
    if tokenizer.chat_template is None:
        raise ModelError(
            f"{tokenizer.name_or_path}: it has no chat template for choices to open a turn in; "
            "set `choice_prompt: plain`"
        )
    return prompt_text(messages, tokenizer)


def answer_texts(
    messages: Sequence[Message],
    choices: Sequence[str],
    tokenizer: "PreTrainedTokenizerBase",
    *,
    is_chat: bool,
) -> list[str]:
    """Render the choices as they follow the context."""
    for choice in choices:
        if not choice.strip():
            raise DataError(
                f"a choice is {choice!r}, and a choice without a word has no probability to be "
                "scored by; give every choice of the sample a text"
            )
    if not is_chat:
        return list(choices)
    blanks = _opening(messages, tokenizer)
    return [blanks + choice.lstrip() for choice in choices]


def _opening(messages: Sequence[Message], tokenizer: "PreTrainedTokenizerBase") -> str:
    """The blanks a template writes between the end of its prompt and the model's words.

    Llama 2 and Mistral write a space there, Zephyr a line break: theirs to generate.
    """
    prompt = prompt_text(messages, tokenizer)
    try:
        text = prompt_text([*messages, Message("assistant", _MARK)], tokenizer)
    except TemplateError:
        return ""
    blanks, mark, _ = text.removeprefix(prompt).partition(_MARK)
    return blanks if mark and not blanks.strip() else ""


def encoded(
    text: str, tokenizer: "PreTrainedTokenizerBase"
) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    """Token ids and their offsets, with exactly one BOS where the tokenizer uses one."""
    tokenized = _bare(tokenizer).encode(text, add_special_tokens=False)
    if not begins_with_bos(tokenizer):
        return tuple(tokenized.ids), tokenized.offsets
    bos = tokenizer.bos_token_id
    written = next(
        (at for at, token in enumerate(tokenized.ids) if token != bos), len(tokenized.ids)
    )
    end = tokenized.offsets[written - 1][1] if written else 0
    return (bos, *tokenized.ids[written:]), [(0, end), *tokenized.offsets[written:]]


@lru_cache(maxsize=2)
def _bare(tokenizer: "PreTrainedTokenizerBase") -> "Tokenizer":
    """The tokenizer without its post-processor, which in some trims blanks off the offsets."""
    if not tokenizer.is_fast:
        raise ModelError(
            f"{tokenizer.name_or_path}: its tokenizer does not say which characters a token "
            "stands for; use a checkpoint with a fast tokenizer (tokenizer.json)"
        )
    bare: Tokenizer = deepcopy(tokenizer.backend_tokenizer)
    bare.post_processor = None
    bare.no_truncation()
    bare.no_padding()
    return bare


def _check_reaches(answer: str, offsets: Sequence[tuple[int, int]], *, beyond: int) -> None:
    if not offsets or max(end for _, end in offsets) <= beyond:
        raise DataError(
            f"the tokenizer makes no token of the choice {answer!r}: there is nothing to score; "
            "word it otherwise, or use another model"
        )
