"""Requests to choose to how a tokenizer reads their choices, before anything is scored.

Counts where a choice tokenised by itself would be other tokens than behind its context, and where
a token reaches across the boundary between the two. Needs a tokenizer, never weights.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from jinja2 import TemplateError

from harness.core import Request
from harness.errors import DataError, ModelError
from harness.models.local.checkpoints import open_checkpoint
from harness.models.local.tiny_llama import build_tiny_llama
from harness.models.local.tokenization import (
    answer_texts,
    choice_tokens,
    context_text,
    encoded,
    prompt_tokens,
)
from harness.parts import Mode
from harness.specs.models import LocalSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


EXAMPLES, SHOWN_BEFORE = 3, 4


@dataclass(frozen=True, slots=True)
class TokenExample:
    """One choice in visible token pieces: the last it is given, those scored, those apart.

    `apart` are what context and choice come to from the same place on, tokenised one by one.
    """

    sample_id: str
    choice: str
    given: tuple[str, ...]
    scored: tuple[str, ...]
    apart: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenReport:
    """How a tokenizer reads choices; all counts but `requests` are of choices.

    `differing`: context and choice tokenised one by one are other tokens; `spanning`: scored
    with characters of the context; `single`: one scored token; `ungiven`: no token stands before
    it, so it cannot be scored. `fewest`, `median` and `most` are scored tokens a choice;
    `bos_counts` the numbers of BOS that rows open with; `longest_context` is in tokens.
    """

    requests: int
    choices: int
    differing: int
    spanning: int
    single: int
    ungiven: int
    fewest: int
    median: float
    most: int
    bos_counts: tuple[int, ...]
    longest_context: int
    examples: tuple[TokenExample, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    """One choice behind its context, tokenised jointly (`row`) and one by one (`apart`)."""

    sample_id: str
    choice: str
    row: tuple[int, ...]
    first: int
    apart: tuple[int, ...]
    is_spanning: bool

    @property
    def differs(self) -> bool:
        """Whether tokenising one by one gives other tokens."""
        return self.row != self.apart


def token_report(
    requests: Sequence[Request], tokenizer: "PreTrainedTokenizerBase", *, is_chat: bool
) -> TokenReport:
    """What a tokenizer makes of the choices of some requests, each distinct one once."""
    distinct = {(each.messages, each.choices): each for each in requests if each.choices}
    if not distinct:
        raise ValueError("a token report needs requests with choices")
    read = [
        part for request in distinct.values() for part in _read(request, tokenizer, is_chat=is_chat)
    ]
    counts = [len(part.row) - part.first for part in read]
    telling = sorted(read, key=lambda part: (not part.differs, not part.is_spanning))
    return TokenReport(
        requests=len(distinct),
        choices=len(read),
        differing=sum(part.differs for part in read),
        spanning=sum(part.is_spanning for part in read),
        single=counts.count(1),
        ungiven=sum(part.first == 0 for part in read),
        fewest=min(counts),
        median=float(median(counts)),
        most=max(counts),
        bos_counts=tuple(sorted({_opening_bos(part.row, tokenizer) for part in read})),
        longest_context=max(part.first for part in read),
        examples=tuple(_example(part, tokenizer) for part in telling[:EXAMPLES]),
    )


def open_tokenizer(spec: LocalSpec, cache: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer of a local model; `cache` is the folder for checkpoints that are built."""
    source = spec.model if spec.build is None else str(build_tiny_llama(cache))
    return open_checkpoint(
        source, revision=spec.revision, trust_remote_code=spec.trust_remote_code
    ).tokenizer


def _read(
    request: Request, tokenizer: "PreTrainedTokenizerBase", *, is_chat: bool
) -> Iterator[_Read]:
    messages, choices = request.messages, request.choices
    try:
        joint = choice_tokens(messages, choices, tokenizer, is_chat=is_chat)
    except TemplateError as error:
        raise ModelError(
            f"{tokenizer.name_or_path}: its chat template refuses the turns of sample "
            f"{request.sample_id}: {error}; set `choice_prompt: plain`"
        ) from error
    context, _ = encoded(context_text(messages, tokenizer, is_chat=is_chat), tokenizer)
    answers = answer_texts(messages, choices, tokenizer, is_chat=is_chat)
    for answer, row, first in zip(answers, joint.rows, joint.firsts, strict=True):
        alone = tokenizer(answer, add_special_tokens=False, verbose=False)["input_ids"]
        yield _Read(
            sample_id=request.sample_id,
            choice=answer,
            row=row,
            first=first,
            apart=(*context, *alone),
            is_spanning=joint.spanned > 0,
        )


def _example(part: _Read, tokenizer: "PreTrainedTokenizerBase") -> TokenExample:
    return TokenExample(
        sample_id=part.sample_id,
        choice=part.choice,
        given=_pieces(part.row[max(part.first - SHOWN_BEFORE, 0) : part.first], tokenizer),
        scored=_pieces(part.row[part.first :], tokenizer),
        apart=_pieces(part.apart[part.first :], tokenizer),
    )


def _pieces(tokens: Sequence[int], tokenizer: "PreTrainedTokenizerBase") -> tuple[str, ...]:
    """The tokenizer's own names of tokens, blanks made visible."""
    blanks = str.maketrans({" ": "\u2423", "\n": "\\n", "\t": "\\t"})
    names = tokenizer.convert_ids_to_tokens(list(tokens))
    return tuple(str(name).translate(blanks) for name in names)


def _opening_bos(row: Sequence[int], tokenizer: "PreTrainedTokenizerBase") -> int:
    """How many BOS a row opens with."""
    bos = tokenizer.bos_token_id
    return next((at for at, token in enumerate(row) if token != bos), len(row))


CHARACTERS_A_TOKEN = 4
"""English prose runs at about so many; told as an estimate wherever it is shown."""


@runtime_checkable
class MeasuresPrompts(Protocol):
    """A model that has its tokenizer at hand."""

    def prompt_size(self, request: Request) -> int:
        """How many tokens the prompt of a request is."""


def prompt_size(request: Request, tokenizer: "PreTrainedTokenizerBase", *, is_chat: bool) -> int:
    """The tokens of a prompt, as calls are charged for them; of choices, those before them.

    0 for a request that the model refuses to read: it will be missing, as unsupported.
    """
    try:
        if request.mode is Mode.CHOOSE:
            tokens = choice_tokens(request.messages, request.choices, tokenizer, is_chat=is_chat)
            return min(tokens.firsts)
        if request.mode is Mode.EMBED:
            text = "\n".join(message.content for message in request.messages)
            return len(tokenizer(text, verbose=False)["input_ids"])
        return len(prompt_tokens(request.messages, tokenizer))
    except (TemplateError, DataError):
        return 0


def characters(request: Request) -> int:
    """How long the texts of a prompt are."""
    return sum(len(message.content) for message in request.messages)


def estimated(request: Request) -> int:
    """The tokens that are sent for a request, from characters; choices are sent with contexts."""
    sent = characters(request)
    if request.mode is Mode.CHOOSE:
        sent = sum(sent + len(choice) for choice in request.choices)
    return sent // CHARACTERS_A_TOKEN
