"""Chat turns to the token ids a local checkpoint is prompted with, by its own chat template.

Shared by every back end that feeds token ids. It never truncates, and it never puts a word of
its own beside what the template and the turns say.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from harness.parts import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def prompt_tokens(messages: Sequence[Message], tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """The prompt's token ids, with exactly one BOS where the tokenizer uses one.

    Raises jinja2.TemplateError where the template takes the turns in no form.
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
    """The prompt as text.

    A template that refuses or drops the system turn gets its text at the head of the first
    user turn. Without a template the prompt is the turns' texts joined by line breaks.
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
    """The template's text, up to where the answer begins."""
    turns = [{"role": message.role, "content": message.content} for message in messages]
    return str(tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False))


def _folded(messages: Sequence[Message]) -> list[Message]:
    """The turns with the leading system text at the head of the first user turn."""
    system, *turns = messages
    if not turns or turns[0].role != "user":
        return [Message("user", system.content), *turns]
    return [Message("user", f"{system.content}\n\n{turns[0].content}"), *turns[1:]]
