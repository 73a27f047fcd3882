"""Requests to the number of tokens that their prompts are, before anything is asked.

By a checkpoint's own tokenizer and chat template where one is at hand, else estimated from
characters. Nothing here opens a checkpoint.
"""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from jinja2 import TemplateError

from harness.core import Request
from harness.errors import DataError
from harness.models.local.choice_tokens import choice_tokens
from harness.models.local.tokenization import prompt_tokens
from harness.parts import Mode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CHARACTERS_A_TOKEN = 4
"""English prose runs at about so many; told as an estimate wherever it is shown."""


@runtime_checkable
class Sizing(Protocol):
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
