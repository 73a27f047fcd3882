"""A toy home folder with a quiz of choices and a task of replies, and imports of answers to them.

Three questions, the choices in three orders; two stories to reply to. Worded for these tests.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cli import main
from harness.importers.import_files import Imported, import_answers
from harness.models.client.cached import CallPolicy
from harness.registry import Registry, shipped_home
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import RunFolder, ScoreRow
from harness.workspace import Workspace

QUESTIONS: tuple[dict[str, object], ...] = (
    {
        "id": "tea",
        "group": "warm",
        "fields": {"story": "The pot is cold. Ada says: lovely tea!", "bare": "Lovely tea!"},
        "choices": ["She likes it.", "She wants it hot.", "She wants milk."],
        "gold": "She wants it hot.",
        "references": {
            "order0": ["2", "3", "1"],
            "order1": ["1", "2", "3"],
            "order2": ["3", "1", "2"],
        },
    },
    {
        "id": "ice",
        "group": "cold",
        "fields": {"story": "The lake cracks. Ben says: solid ground.", "bare": "Solid ground."},
        "choices": ["He is afraid.", "He is safe."],
        "gold": "He is afraid.",
        "references": {"order0": ["2", "1"], "order1": ["1", "2"], "order2": ["2", "1"]},
    },
    {
        "id": "fog",
        "group": "cold",
        "fields": {"story": "Nobody sees the road. Cleo says: what a view."},
        "choices": ["She enjoys it.", "She sees nothing."],
        "gold": "She sees nothing.",
        "references": {"order0": ["1", "2"], "order1": ["2", "1"], "order2": ["1", "2"]},
    },
)
STORIES = (
    {
        "id": "rain",
        "group": "warm",
        "fields": {"story": "It pours. Dia says: dry, is it not?"},
        "references": {"right": ["Yes, awful weather."], "wrong": ["Yes, very dry."]},
    },
    {
        "id": "wind",
        "group": "cold",
        "fields": {"story": "A storm. Eli says: calm today."},
        "references": {"right": ["Hold on to your hat."], "wrong": ["Not a leaf stirs."]},
    },
)
VARIANTS = {
    **{f"order{n}": ("number", n, "averaged_over: all", "number") for n in range(3)},
    "text:order0": ("text", 0, "averaged_over: text", "text"),
    "bare:order0": ("number", 0, "needs: [bare]", "bare"),
}
SOURCE = "reader: samples_jsonl, files: [{0}.jsonl], sample: samples/{0}.jsonl"


def _variant(name: str) -> str:
    answers, order, more, template = VARIANTS[name]
    return (
        f'  "{name}": {{about: x, choice: {{order: {order}, answers: {answers}}}, {more}, steps: '
        f"[{{name: neutral, template: quiz/neutral, is_unconditional: true}}, "
        f"{{name: answer, template: quiz/{template}}}]}}\n"
    )


QUIZ = f"""\
about: A quiz.
data: {{source: quizzes, {SOURCE.format("quiz")}}}
decodings: [{{temperature: 0, max_tokens: 5}}]
default_variants: [order0]
judges: [gold]
mode: choose
variants:
{"".join(map(_variant, VARIANTS))}"""
SAY = f"""\
about: Replies.
data: {{source: replies, {SOURCE.format("say")}}}
decodings: [{{temperature: 0.3, max_tokens: 30}}, {{temperature: 0.5, max_tokens: 30}}]
default_variants: [base]
judges: [near]
chance: 0.5
variants:
  base: {{about: x, steps: [{{name: response, template: say/base}}]}}
  think:
    about: x
    steps: [{{name: thought, template: say/base}}, {{name: response, template: say/after}}]
"""
LINES = "{% for option in options %}\n{{ loop.index }}) {{ option }}\n{% endfor %}\nAnswer:\n"
FILES = {
    "tasks/quiz.yaml": QUIZ,
    "tasks/say.yaml": SAY,
    "tasks/samples/quiz.jsonl": "\n".join(map(json.dumps, QUESTIONS)),
    "tasks/samples/say.jsonl": "\n".join(map(json.dumps, STORIES)),
    "prompts/quiz/neutral.user.j2": "Answer:\n",
    "prompts/quiz/number.user.j2": "Which?\n{{ story }}\n" + LINES,
    "prompts/quiz/bare.user.j2": "Which, of the words alone?\n{{ bare }}\n" + LINES,
    "prompts/quiz/text.user.j2": "Which, in words?\n{{ story }}\n" + LINES,
    "prompts/say/base.user.j2": "{{ story }} What do you reply?\n",
    "prompts/say/after.user.j2": "{{ story }} ({{ thought }}) What do you reply?\n",
    "configs/judges/near.yaml": (
        "{about: x, kind: cosine, encoder: {kind: char-ngrams}, "
        "options: {accept: right, reject: wrong}}"
    ),
}


@dataclass(frozen=True)
class Quiz:
    """The toy home, a results folder beside it, and imports from files in between."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def data(self) -> Path | None:
        return None

    def put(self, name: str, content: object) -> Path:
        """Write a file: text as it is, a list of objects as JSON lines."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else "\n".join(map(json.dumps, _list(content)))
        path.write_text(text, "utf-8")
        return path

    def take(
        self, *files: Path, task: str = "quiz", model: str = "m", column_map: str | None = None
    ) -> Imported:
        registry = Registry((self.home, shipped_home()), {}, self.folder / "cache")
        space = Workspace(
            registry,
            self.results,
            self.data,
            "corrected",
            lambda *_: None,
            CallPolicy(is_offline=True),
        )
        return import_answers(space, files, task, model, column_map)

    def main(self, *arguments: str) -> int:
        return main([*arguments, "--home", str(self.home), "--results", str(self.results)])

    def rows(self) -> list[SampleRecord]:
        """The rows of the only run here that have an answer."""
        return [row for row in self.every_row() if row.answer is not None]

    def every_row(self) -> list[SampleRecord]:
        [path] = self.results.glob("runs/*/*/*")
        return RunFolder(path).read_rows(with_prompts=True)

    def answers(self) -> dict[tuple[str, str], str | None]:
        return {(row.variant, row.sample.id): row.answer for row in self.rows()}

    def bytes(self) -> dict[str, bytes]:
        paths = sorted(self.results.rglob("*"))
        return {
            str(path.relative_to(self.results)): path.read_bytes()
            for path in paths
            if path.is_file()
        }


def build(folder: Path) -> Quiz:
    quiz = Quiz(folder)
    for name, text in FILES.items():
        quiz.put(f"home/{name}", text)
    return quiz


def value(rows: Sequence[ScoreRow], variant: str, metric: str = "accuracy") -> float | None:
    [found] = [
        row.score.value
        for row in rows
        if (row.score.variant, row.score.metric, row.score.group) == (variant, metric, "all")
    ]
    return found


def _list(content: object) -> list[object]:
    return content if isinstance(content, list) else [content]
