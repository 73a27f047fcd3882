"""What a stub server answers: texts and faults, each a function of the request and the script.

Pure but for the clock of a Retry-After date. A further API is a further shape in SHAPES.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from random import Random
from typing import Any

Shape = Callable[["Script", dict[str, Any], str], dict[str, Any]]

ADJECTIVES = ("quiet", "patient", "crooked", "early", "borrowed", "salty", "second", "tired")
NOUNS = ("ferry", "teapot", "ladder", "neighbour", "harvest", "umbrella", "violin", "market")
VERBS = ("waits for", "forgives", "outlives", "follows", "mistrusts", "greets", "remembers")


@dataclass(frozen=True)
class Script:
    """What the server does.

    `replies` and `faults` go by the first marker the prompt contains ("" is in every prompt): of
    the replies one is taken by the prompt's digest, of the faults the k-th at the k-th attempt,
    "" and nothing left meaning none. `shares` are the probabilities of further faults, drawn from
    seed, prompt and attempt. A fault is a status ("500", "429", "429-date", "429-quota",
    "400-filter", "400-CODE=PARAM"), a name known to `Faults.of_body`, a name in CHOICES, VECTORS
    or ECHOES or KEYED, "empty-choices", "finish=WORD", "late", "n-ignored", "no-choices",
    "no-data" or "no-logprobs". `nexts` are the likeliest first tokens of every chat reply.
    """

    models: tuple[Mapping[str, Any], ...] = ({"id": "stub-model"},)
    replies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    delay_s: float = 0.0
    late_s: float = 1.0
    retry_after_s: float = 0.02
    key: str | None = None
    models_status: int | str = 200
    nexts: Mapping[str, float] = field(default_factory=lambda: {"1": -0.4, " 2": -1.4, "A": -3.0})

    def fault(self, prompt: str, digest: str, attempt: int) -> str:
        """The fault of one attempt, "" for none."""
        listed = next((names for mark, names in self.faults.items() if mark in prompt), ())
        if attempt <= len(listed):
            return listed[attempt - 1]
        draw = Random(f"{self.seed}:{digest}:{attempt}").random()
        for name, share in self.shares.items():
            draw -= share
            if draw < 0:
                return name
        return ""

    def text(self, prompt: str, digest: str) -> str:
        """The answer to a prompt, a function of these two alone."""
        listed = next((texts for mark, texts in self.replies.items() if mark in prompt), ())
        if listed:
            return listed[int(digest, 16) % len(listed)]
        pick = Random(digest)
        subject, object_ = pick.choice(NOUNS), pick.choice(NOUNS)
        return f"The {pick.choice(ADJECTIVES)} {subject} {pick.choice(VERBS)} the {object_}."


@dataclass(frozen=True)
class Reply:
    """One HTTP reply; `cut` closes the connection half-way through, `wait_s` is asked for.

    With another `version` it is none; with an empty one nothing is sent.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    wait_s: float = 0.0
    version: str = "HTTP/1.1"


def as_json(status: int, value: object) -> Reply:
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


class Faults:
    CODES: Mapping[str, str] = {"400-filter": "content_filter", "429-quota": "insufficient_quota"}

    @classmethod
    def of_status(cls, name: str, *, wait_s: float, key: str) -> Reply:
        """An error reply; 401 says which key it was sent, as careless servers do."""
        status, _, variant = name.partition("-")
        message = f"scripted fault {name}" + f": no such key: {key}" * (status == "401")
        error = {"message": message, "code": cls.CODES.get(name)}
        code, _, param = variant.partition("=")
        if param:
            error |= {"code": code, "param": param}
        reply = as_json(int(status), {"error": error})
        if variant == "date":
            date = time.time() // 1 + 1 + wait_s // 1
            told, wait_s = formatdate(date, usegmt=True), date - time.time()
        elif status == "429":
            told = str(wait_s)
        else:
            return reply
        return replace(reply, headers={**reply.headers, "Retry-After": told}, wait_s=wait_s)

    @staticmethod
    def of_body(name: str, body: dict[str, Any]) -> Reply:
        """A reply with status 200, its body damaged if the name is that of such a fault."""
        sound = as_json(200, body)
        if name == "cut":
            return Reply(200, sound.body, sound.headers, cut=True)
        if name == "hung-up":
            return replace(sound, version="", cut=True)
        if name == "malformed":
            return Reply(200, sound.body[: len(sound.body) // 2], sound.headers)
        if name == "non-utf8":
            return Reply(200, sound.body.replace(b"The", b"\xff\xfe"), sound.headers)
        if name == "garbled-head":
            return replace(sound, version="HTTP/?")
        if name == "long-header":
            return replace(sound, headers={**sound.headers, "X-Long": "x" * 10_000})
        if name == "html":
            return Reply(200, b"<html>busy</html>", {"Content-Type": "text/html"})
        if name == "mislabelled":
            return Reply(200, sound.body, {"Content-Type": "text/html"})
        if name == "error-200":
            return as_json(200, {"error": {"message": "upstream is busy", "code": 502}})
        return sound


# Where a fault has the server repeat the key it was sent: in what a client may keep of a reply.
KEYED: Mapping[str, set[str]] = {
    "key-told": {"content", "text", "model", "stop_reason", "refusal"},
    "key-stop": {"finish_reason", "reason"},
}


def with_key(value: Any, key: str, fault: str) -> Any:  # noqa: ANN401 - any JSON
    """A reply that repeats the key it was sent, if the fault is that."""
    names = KEYED.get(fault, set())
    if isinstance(value, list):
        return [with_key(part, key, fault) for part in value]
    if not (names and isinstance(value, dict)):
        return value
    return {
        name: f"{part} {key}"
        if name in names and isinstance(part, str)
        else with_key(part, key, fault)
        for name, part in value.items()
    }


# What a fault changes in a choice of an OpenAI-shaped answer, and in its message.
CHOICES: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "content-filter": ({"finish_reason": "content_filter"}, {"content": None}),
    "refusal": ({}, {"refusal": "I would rather not say.", "content": None}),
    "length": ({"finish_reason": "length"}, {}),
    "null": ({}, {"content": None}),
    "reasoned-away": ({"finish_reason": "length"}, {"content": ""}),
    "not-text": ({}, {"content": {"parts": [1, 2]}}),
    "huge": ({}, {"content": "so " * 3_500_000}),
    "surrogate": ({}, {"content": "half an emoji: \ud83d"}),
}


# What a fault adds to the account of the tokens of an OpenAI-shaped answer.
DETAILS: Mapping[str, dict[str, Any]] = {
    "reasoned-away": {"completion_tokens_details": {"reasoning_tokens": 12}},
    "reasoned": {"completion_tokens_details": {"reasoning_tokens": 4}},
    "details-odd": {"completion_tokens_details": ["none"]},
}


def openai_answer(script: Script, asked: dict[str, Any], fault: str) -> dict[str, Any]:
    count = 1 if fault == "n-ignored" else asked.get("n", 1)
    choices: list[dict[str, Any]] = []
    for index in range(count):
        text = script.text(prompt_of(asked), digest_of({**asked, "index": index}))
        choice, message = CHOICES.get(fault, ({}, {}))
        if fault.startswith("finish="):
            choice = {"finish_reason": fault.removeprefix("finish=") or None}
        message = {"role": "assistant", "content": text} | message
        choice = {"index": index, "message": message, "finish_reason": "stop"} | choice
        choices.append(choice | {"logprobs": told_nexts(script, asked, fault)})
    usage = {"prompt_tokens": len(prompt_of(asked).split()), "completion_tokens": 6 * count}
    body = {"id": "stub", "object": "chat.completion", "created": 0, "model": asked["model"]}
    body |= {"usage": usage | {"total_tokens": sum(usage.values())} | DETAILS.get(fault, {})}
    if fault == "empty-choices":
        choices = []
    # Backwards: a client must go by the index.
    return body if fault == "no-choices" else body | {"choices": choices[::-1]}


def told_nexts(script: Script, asked: dict[str, Any], fault: str) -> dict[str, Any] | None:
    if not asked.get("logprobs") or fault == "no-logprobs":
        return None
    told = [{"token": token, "logprob": value} for token, value in script.nexts.items()]
    return {"content": [told[0] | {"top_logprobs": told}] if told else []}


# What a fault changes in the tokens of an echoed prompt and in their log-probabilities.
Echo = tuple[list[str], list[float | None]]
ECHOES: Mapping[str, Callable[[list[str], list[float | None]], Echo]] = {
    "trimmed": lambda tokens, told: (
        ["<s>", *(token.removeprefix(" ") for token in tokens)],
        [None, -9.0, *told[1:]],
    ),
    "mangled": lambda tokens, told: ([token.replace("e", "\ufffd") for token in tokens], told),
    "undrawn": lambda tokens, told: (tokens[:-1], told[:-1]),
    "cut-logprobs": lambda tokens, told: (tokens, told[:-2]),
    "cut-tokens": lambda tokens, told: (tokens[:-3], told[:-3]),
    "no-echo": lambda tokens, told: (tokens[-1:], told[-1:]),
    "null-logprob": lambda tokens, told: (tokens, [*told[:-2], None, told[-1]]),
    "nan-logprob": lambda tokens, told: (tokens, [*told[:-2], float("nan"), told[-1]]),
    "odds": lambda tokens, told: (tokens, [*told[:-2], 0.5, told[-1]]),
}


def openai_completion(script: Script, asked: dict[str, Any], fault: str) -> dict[str, Any]:
    """The body of a completion that echoes its prompts, a token drawn behind each."""
    choices: list[dict[str, Any]] = []
    for index, prompt in enumerate(
        asked["prompt"][:1] if fault == "n-ignored" else asked["prompt"]
    ):
        tokens = [*tokens_of(prompt), " the"]
        told = [None, *(logprob_of(tokens[: at + 1]) for at in range(1, len(tokens)))]
        if fault in ECHOES:
            tokens, told = ECHOES[fault](tokens, told)
        logprobs = {"tokens": tokens, "token_logprobs": told, "text_offset": []}
        choices.append({"index": index, "text": prompt, "logprobs": logprobs})
        if fault == "no-logprobs":
            choices[-1] |= {"logprobs": None}
    body: dict[str, Any] = {"object": "text_completion", "model": asked["model"]}
    body |= {"usage": {"prompt_tokens": 9, "completion_tokens": len(choices)}}
    # Backwards: a client must go by the index.
    return body if fault == "no-choices" else body | {"choices": choices[::-1]}


def tokens_of(text: str) -> list[str]:
    """Words with the space before them, signs, and whatever else there is, one by one."""
    return re.findall(r" ?\w+|.", text, re.DOTALL)


def logprob_of(tokens: list[str]) -> float:
    """The log-probability of the last of some tokens given the others."""
    return -1.0 - int(digest_of(tokens), 16) % 1000 / 100


# What a fault changes in the vector of an embedding.
VECTORS: Mapping[str, list[Any]] = {
    "nan-vector": [1.0, float("nan")],
    "zero-vector": [0.0, 0.0],
    "empty-vector": [],
    "text-vector": ["1.0"],
}


def openai_embedding(script: Script, asked: dict[str, Any], fault: str) -> dict[str, Any]:
    """The body of an embedding: eight numbers drawn from the text, of any length."""
    draw = Random(asked["input"])
    vector = VECTORS.get(fault, [round(draw.gauss(), 6) for _ in range(8)])
    tokens = len(asked["input"].split())
    body = {"object": "list", "model": asked["model"]}
    body |= {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    data = [{"object": "embedding", "index": 0, "embedding": vector}]
    return body if fault == "no-data" else body | {"data": data}


SHAPES: Mapping[str, Shape] = {
    "/v1/chat/completions": openai_answer,
    "/v1/completions": openai_completion,
    "/v1/embeddings": openai_embedding,
}


def prompt_of(asked: Mapping[str, Any]) -> str:
    """All words of a request's messages, its prompts, or the text to embed."""
    if isinstance(asked.get("input"), str):
        return str(asked["input"])
    if "prompt" in asked:
        return "\n".join(asked["prompt"]) if isinstance(asked["prompt"], list) else asked["prompt"]
    return "\n".join(str(message["content"]) for message in asked.get("input") or asked["messages"])


def digest_of(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
