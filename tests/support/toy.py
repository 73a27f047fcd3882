"""A toy home folder of its own: two tasks, two judges, three models behind one server.

`toy`: six samples; variant `base` has one step, `think` two; two decodings.
`quiz`: choices, by number or by text, in two orders; two groups of two and of three choices.
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from harness.cli import main
from harness.registry import Registry, shipped_home
from harness.workspace import Workspace

Lines = pytest.CaptureFixture[str]
HOSTED = ("alpha", "beta", "umpire")
SAMPLES, DECODINGS, STEPS = 6, 2, {"base": 1, "think": 2}
FILES: Mapping[str, str] = {
    "tasks/toy.yaml": """
        about: A toy.
        data: {source: toys, reader: samples_jsonl, files: [toy.jsonl], sample: samples/toy.jsonl}
        decodings:
          - {temperature: 0, max_tokens: 20}
          - {temperature: 0.5, max_tokens: 20}
        default_variants: [base, think]
        variants:
          base:
            about: one step
            steps: [{name: response, template: toy/base}]
          think:
            about: two steps
            steps:
              - {name: thought, template: toy/think}
              - {name: response, template: toy/after}
        judges: [near]
        controls:
          oracle: {thought: [right], response: [right]}
          literal: {thought: [wrong], response: [wrong]}
    """,
    "prompts/toy/base.user.j2": "Story {{ story }} What is said next?",
    "prompts/toy/think.user.j2": "Story {{ story }} What is meant?",
    "prompts/toy/after.user.j2": "Story {{ story }} Meant: {{ thought }} What is said next?",
    "prompts/judges/choice.user.j2": "Judge {{ response }} 1 {{ option_1 }} 2 {{ option_2 }}",
    "configs/judges/near.yaml": """
        about: By spelling.
        kind: cosine
        encoder: {kind: char-ngrams}
        options: {accept: right, reject: wrong}
    """,
    "configs/judges/choice.yaml": """
        about: By asking.
        kind: preference
        model: umpire
        template: judges/choice
        options: {accept: right, reject: wrong}
        decoding: {temperature: 0, max_tokens: 4}
    """,
}
QUIZ_SAMPLES, QUIZ_ORDERS = 24, 2
QUIZ: Mapping[str, str] = {
    "tasks/quiz.yaml": """
        about: A toy with choices.
        data: {source: toys, reader: samples_jsonl, files: [quiz.jsonl], sample: samples/quiz.jsonl}
        mode: choose
        decodings: [{temperature: 0, max_tokens: 8}]
        default_variants: [order0, order1]
        variants:
          order0:
            about: a number
            choice: {order: 0}
            averaged_over: all
            steps:
              - {name: neutral, template: quiz/neutral, is_unconditional: true}
              - {name: answer, template: quiz/number}
          order1:
            about: a number, in another order
            choice: {order: 1}
            averaged_over: all
            steps:
              - {name: neutral, template: quiz/neutral, is_unconditional: true}
              - {name: answer, template: quiz/number}
          "text:own":
            about: words, in the samples' own order
            choice: {answers: text}
            averaged_over: "text:all"
            steps: [{name: answer, template: quiz/text}]
          hinted:
            about: with a hint, where there is one
            choice: {order: 0}
            needs: [hint]
            steps: [{name: answer, template: quiz/hinted}]
        judges: [gold]
        controls:
          oracle: {answer: [gold]}
          first: {answer: [first]}
          random: {answer: [any]}
          undecided: {}
    """,
    "configs/models/undecided.yaml": """
        about: Finds all choices alike.
        kind: scripted
        policy: undecided
    """,
    "prompts/quiz/neutral.user.j2": "Answer:",
    "prompts/quiz/number.user.j2": "{{ story }} 1 {{ option_1 }} 2 {{ option_2 }} Answer:",
    "prompts/quiz/text.user.j2": "{{ story }} Answer:",
    "prompts/quiz/hinted.user.j2": "{{ story }} {{ hint }} Answer:",
}
MODEL = """
    kind: openai
    model: {name}
    base_url: http://127.0.0.1:9/v1
    base_url_env: HARNESS_SERVER_URL
    key_env: null
    attempts: 1
"""
PRICES = """
    prices:
      alpha: {input_usd: 2, output_usd: 4, batch_share: 0.5, read: "2026-01-01", source: a list}
      umpire: {input_usd: 10, output_usd: 30, read: "2026-01-01", source: a list}
"""
MY_TEXTS = """
    about: My texts.
    source: mine
    text: body
    label: {column: verdict, classes: {hateful: ["1"], benign: ["0"]}}
    keep: {target: aimed_at}
"""
"""The column map of a table of one's own."""
CLAUDE = """
    about: Behind the stub.
    kind: anthropic
    model: claude-of-the-stub
    base_url: http://127.0.0.1:9
    base_url_env: CLAUDE_URL
    key_env: CLAUDE_KEY
    attempts: 2
"""
BY_VECTORS = """
    about: By a server's vectors.
    kind: cosine
    encoder: {kind: hosted, model: umpire}
    options: {accept: right, reject: wrong}
"""
BOTH_PRICED = PRICES + '      beta: {input_usd: 1, output_usd: 2, read: "2026-01-01", source: a}\n'
"""Prices of alpha and beta."""


@dataclass(frozen=True)
class Toy:
    """A home folder, a results folder beside it, and how commands are run on them."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(unindented(text), "utf-8")
        return path

    def group(self, *groups: str) -> None:
        """Put the samples of `toy` into these groups by turns."""
        self.write("tasks/samples/toy.jsonl", "\n".join(lines(groups=groups)))

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.home / name
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")

    def main(self, *arguments: str) -> int:
        return main([*arguments, "--home", str(self.home), "--results", str(self.results)])

    def run(self, *arguments: str, model: str = "oracle") -> int:
        return self.main("run", "--task", "toy", "--model", model, *arguments)

    def runs(self) -> list[Path]:
        return sorted(path.parent for path in self.results.glob("runs/*/*/*/run.json"))

    def bytes(self) -> dict[str, bytes]:
        """Every file below results, calls left out."""
        paths = sorted((self.results / "runs").rglob("*"))
        return {str(path): path.read_bytes() for path in paths if path.is_file()}

    def take(self, fill: Callable[["Toy"], object]) -> None:
        """Begin with what a function makes of a toy home, which is called once for all tests."""
        copytree(_filled(fill, self.folder.parent), self.folder, dirs_exist_ok=True)

    def space(self, environ: Mapping[str, str] | None = None) -> Workspace:
        homes = (self.home, shipped_home())
        registry = Registry(homes, environ or {}, self.folder / "cache")
        return Workspace(registry, self.results, None, "corrected", lambda *_: None)


def lines(count: int = SAMPLES, groups: Sequence[str] = ("all",)) -> list[str]:
    """The lines of the sample set of `toy`, in several groups by turns."""
    return [
        json.dumps(
            {
                "group": groups[number % len(groups)],
                "fields": {"story": f"number {number}."},
                "references": {"right": [f"yes {number}"], "wrong": [f"never {number}"]},
            }
        )
        for number in range(count)
    ]


def quiz_lines() -> list[str]:
    """The lines of the sample set with choices; a third of it has a hint."""
    return [
        json.dumps(
            {
                "group": "three" if number % 2 else "two",
                "fields": {"story": f"Number {number}."}
                | ({} if number % 3 else {"hint": f"Not {number + 1}."}),
                "references": {"labels": ["Right", "Wrong", "Odd"][: 2 + number % 2]},
                "choices": [f"It is {number}.", f"It is {number + 1}.", "It is late."][
                    : 2 + number % 2
                ],
                "gold": f"It is {number}.",
            }
        )
        for number in range(QUIZ_SAMPLES)
    ]


def csv_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by the names of its columns."""
    return list(csv.DictReader(StringIO(path.read_text("utf-8-sig"), newline="")))


def unindented(text: str) -> str:
    """A text without the blanks that its first line begins with, on any line."""
    lines = text.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


@cache
def home_files() -> dict[str, bytes]:
    """The files of the toy home, by name; hundreds of tests write them."""
    models = {f"configs/models/{m}.yaml": MODEL.replace("{name}", m) for m in HOSTED}
    samples = {"quiz": quiz_lines(), "toy": lines()}
    sets = {f"tasks/samples/{name}.jsonl": "\n".join(rows) for name, rows in samples.items()}
    texts = {**FILES, **QUIZ, **models, **sets}
    return {name: unindented(text).encode() for name, text in texts.items()}


def taking(fill: Callable[[Toy], object]) -> Any:  # noqa: ANN401 - what pytest makes of a fixture
    """A fixture: the toy home as a function fills it, which is called once for all tests."""

    @pytest.fixture
    def taken(toy: Toy) -> Toy:
        toy.take(fill)
        return toy

    return taken


@cache
def _filled(fill: Callable[[Toy], object], folder: Path) -> Path:
    toy = build(folder / f"{fill.__module__}.{fill.__name__}")
    fill(toy)
    return toy.folder


def build(folder: Path) -> Toy:
    toy = Toy(folder)
    for inner in dict.fromkeys(name.rpartition("/")[0] for name in home_files()):
        (toy.home / inner).mkdir(parents=True, exist_ok=True)
    for name, data in home_files().items():
        (toy.home / name).write_bytes(data)
    return toy


def isolated(folder: Path, patch: pytest.MonkeyPatch) -> Toy:
    """The toy home below a folder, in an environment that names no data, no key and no server."""
    for name in ("HARNESS_DATA", "HARNESS_SERVER_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        patch.delenv(name, raising=False)
    patch.setenv("HARNESS_CACHE", str(folder / "cache"))
    patch.setenv("HF_HUB_OFFLINE", "1")
    return build(folder)
