"""An instruction and a text to the tokens an LLM2Vec checkpoint reads.

It follows llm2vec 0.2.3, whose habits are part of what such a checkpoint was tuned on.
Nothing here runs a model.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SEPARATOR: Final = "!@#$%^&*()"
"""What the package puts between instruction and text, then takes out again."""

TEXT_TOKENS: Final = 400
"""The package's `doc_max_length`: a longer text loses words at its end."""

TURNS: Final = {
    "meta-llama/Meta-Llama-3-8B-Instruct": (
        "<|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|>",
    ),
    "meta-llama/Llama-2-7b-chat-hf": ("[INST] ", " [/INST]"),
}
"""What the package writes around instruction and text, by the model the adapters were tuned on."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A prepared text: its tokens, and how many of the last ones are pooled."""

    ids: list[int]
    pooled: int


@dataclass(frozen=True, slots=True)
class Preparation:
    """The package's text preparation; `turn` is what stands before and after, null for nothing."""

    tokenizer: "PreTrainedTokenizerBase"
    turn: tuple[str, str] | None
    instruction: str
    max_length: int

    def read(self, text: str) -> Tokens:
        """The tokens of instruction and text, those of the text and the turn's end pooled.

        Where there are none, for the empty text outside a turn, all are pooled.
        """
        lead = f"{self.instruction.strip()} " if self.instruction.strip() else ""
        before, after, *rest = self._wrapped(lead + SEPARATOR + self._shortened(text)).split(
            SEPARATOR
        )
        ids = self._ids("".join([before, after, *rest]), has_start=True)
        ids = ids or [self.tokenizer.eos_token_id]
        return Tokens(ids, min(len(self._ids(after)), len(ids)) or len(ids))

    def _wrapped(self, text: str) -> str:
        """The text as a user's turn."""
        return text if self.turn is None else self.turn[0] + text.strip() + self.turn[1]

    def _shortened(self, text: str) -> str:
        """The text without the words that pass the package's limit.

        The package drops all of a long text that has hardly any blanks; here it is cut.
        """
        while (length := len(self._ids(text))) > TEXT_TOKENS:
            words = text.split()
            kept = int(len(words) * TEXT_TOKENS / length)
            if kept == 0:
                return self._cut(text)
            text = " ".join(words[:kept])
        return text

    def _cut(self, text: str) -> str:
        """The characters before the last token within the limit, which may be part of one."""
        spans: list[tuple[int, int]] = self.tokenizer(
            text,
            add_special_tokens=False,
            truncation=True,
            max_length=TEXT_TOKENS,
            return_offsets_mapping=True,
        )["offset_mapping"]
        return text[: spans[-1][0]]

    def _ids(self, text: str, *, has_start: bool = False) -> list[int]:
        """The token numbers of a text, those the tokenizer adds by itself only at its start."""
        ids: list[int] = self.tokenizer(
            text, add_special_tokens=has_start, truncation=True, max_length=self.max_length
        )["input_ids"]
        return ids
