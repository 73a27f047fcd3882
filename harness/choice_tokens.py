"""The choices of a request to token ids, each with its context, and where each is scored from.

Shared by every back end that has the tokenizer at hand. It never truncates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.boundary import choice_starts, tiles
from harness.chat_tokens import begins_with_bos, prompt_text
from harness.errors import ModelError
from harness.parts import ChoiceScore, Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class ChoiceTokens:
    """Token ids of context and choice, a row a choice; `firsts` are the first scored places.

    `spanned` counts the characters of the context that are scored with every choice.
    """

    rows: tuple[tuple[int, ...], ...]
    firsts: tuple[int, ...]
    spanned: int

    def scored(self, sums: Sequence[float], choices: Sequence[str]) -> tuple[ChoiceScore, ...]:
        """The scores of the choices, given the sum of the log-probabilities of each."""
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
    """Each choice behind its context, with exactly one BOS where the tokenizer uses one, no EOS.

    The context is the turns' texts as they stand, joined by line breaks; with `is_chat` it is
    what the chat template makes of them, and a choice opens the model's turn: without its
    leading space. Raises jinja2.TemplateError where the template takes the turns in no form.
    """
    context = context_text(messages, tokenizer, is_chat=is_chat)
    answers = [choice.lstrip() if is_chat else choice for choice in choices]
    encoded = [_encoded(context + answer, tokenizer) for answer in answers]
    firsts, spanned = choice_starts([offsets for _, offsets in encoded], len(context))
    return ChoiceTokens(tuple(ids for ids, _ in encoded), firsts, spanned)


def context_text(
    messages: Sequence[Message], tokenizer: "PreTrainedTokenizerBase", *, is_chat: bool
) -> str:
    """What choices stand behind."""
    if is_chat:
        return prompt_text(messages, tokenizer)
    return "\n".join(message.content for message in messages)


def _encoded(
    text: str, tokenizer: "PreTrainedTokenizerBase"
) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    """Token ids and their offsets, with exactly one BOS where the tokenizer uses one."""
    if not tokenizer.is_fast:
        raise ModelError(
            f"{tokenizer.name_or_path}: its tokenizer does not say which characters a token "
            "stands for; use a checkpoint with a fast tokenizer (tokenizer.json)"
        )
    read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    ids, offsets = list(read["input_ids"]), tiles(read["offset_mapping"])
    if not begins_with_bos(tokenizer):
        return tuple(ids), offsets
    bos = tokenizer.bos_token_id
    written = next((at for at, token in enumerate(ids) if token != bos), len(ids))
    return (bos, *ids[written:]), [(0, 0), *offsets[written:]]
