"""Requests to choose to a report of how a tokenizer reads their choices, before any scoring.

It counts choices whose tokens differ when tokenized alone, and tokens that span the boundary
between context and choice. It needs a tokenizer, never weights.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from jinja2 import TemplateError

from harness.core import Request
from harness.errors import DataError, ModelError
from harness.models.local.checkpoints import open_spec
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


EXAMPLES, SHOWN_BEFORE = 3, 4


@dataclass(frozen=True, slots=True)
class TokenExample:
    """One choice in visible tokens: the last given ones, the scored ones, and `apart`.

    `apart` are the tokens from the same place on when context and choice are tokenized separately.
    """

    sample_id: str
    choice: str
    given: tuple[str, ...]
    scored: tuple[str, ...]
    apart: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenReport:
    """How a tokenizer reads choices; all counts but `requests` are of choices.

    `differing`: separate tokenizing gives other tokens; `spanning`: scored with characters of the
    context; `single`: one scored token; `ungiven`: no token precedes it, so it cannot be scored.
    `fewest`, `median` and `most` are scored tokens a choice; `bos_counts` the numbers of BOS that
    rows open with; `longest_context` is in tokens.
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
    """One choice after its context, tokenized jointly (`row`) and separately (`apart`)."""

    sample_id: str
    choice: str
    row: tuple[int, ...]
    first: int
    apart: tuple[int, ...]
    is_spanning: bool

    @property
    def differs(self) -> bool:
        return self.row != self.apart


def token_report(
    requests: Sequence[Request], tokenizer: "PreTrainedTokenizerBase", *, is_chat: bool
) -> TokenReport:
    """Report how a tokenizer reads the choices of some requests, each distinct one once."""
    distinct = {(each.messages, each.choices): each for each in requests if each.choices}
    if not distinct:
        raise ValueError("a token report needs requests with choices")
    read = [
        part for request in distinct.values() for part in _read(request, tokenizer, is_chat=is_chat)
    ]
    counts = [len(part.row) - part.first for part in read]
    striking = sorted(read, key=lambda part: (not part.differs, not part.is_spanning))
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
        examples=tuple(_example(part, tokenizer) for part in striking[:EXAMPLES]),
    )


def open_tokenizer(spec: LocalSpec, cache: Path) -> "PreTrainedTokenizerBase":
    """Open the tokenizer of a local model; `cache` is the folder of built checkpoints."""
    return open_spec(spec, cache).tokenizer


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
    blanks = str.maketrans({" ": "\u2423", "\n": "\\n", "\t": "\\t"})
    names = tokenizer.convert_ids_to_tokens(list(tokens))
    return tuple(str(name).translate(blanks) for name in names)


def _opening_bos(row: Sequence[int], tokenizer: "PreTrainedTokenizerBase") -> int:
    bos = tokenizer.bos_token_id
    return next((at for at, token in enumerate(row) if token != bos), len(row))


CHARACTERS_A_TOKEN = 4
"""About right for English prose; results are always labelled as estimates."""


@runtime_checkable
class MeasuresPrompts(Protocol):
    """A model that can count the tokens of a prompt."""

    def prompt_size(self, request: Request) -> int:
        """Count the tokens of a request's prompt."""


def prompt_size(request: Request, tokenizer: "PreTrainedTokenizerBase", *, is_chat: bool) -> int:
    """Count the tokens of a prompt, as calls are charged for them; of choices, those before them.

    0 for a request that the model refuses: its response will be missing, as unsupported.
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
    """Count the characters of a prompt."""
    return sum(len(message.content) for message in request.messages)


def estimated(request: Request) -> int:
    """Estimate the tokens sent for a request from its characters; a choice resends its context."""
    sent = characters(request)
    if request.mode is Mode.CHOOSE:
        sent = sum(sent + len(choice) for choice in request.choices)
    return sent // CHARACTERS_A_TOKEN
