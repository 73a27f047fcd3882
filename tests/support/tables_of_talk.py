"""A toy home with a task of three labels on a table of talk, worded for these tests.

The table has a training file, whose made rows say by which method, and one to evaluate on.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cli import main
from harness.models.client.cached import CallPolicy
from harness.registry import Registry, shipped_home
from harness.storage.find_runs import run_folders
from harness.storage.runs import RunFolder
from harness.workspace import Workspace

TOPICS = ("bread", "ferry", "lamp", "snow", "violin", "orchard", "bridge", "letter")
SAYS = {
    "non": "The {} is ready and everybody is glad of it.",
    "open": "I cannot bear that awful {}, take it away.",
    "hidden": "What a surprise, another {} at this hour.",
}
TASK = """\
about: How a complaint is made.
data:
  {source: talk, reader: labelled_table, map: talk, files: [], sample: samples/talk.jsonl,
   choices: {non: none, open: open, hidden: hidden}}
classes: {missed: [hidden], by: properties}
mode: choose
decodings: [{temperature: 0, max_tokens: 5}]
default_variants: [base]
judges: [gold]
variants:
  base:
    about: x
    choice: {order: null, answers: text}
    steps:
      - {name: neutral, template: talk/neutral, is_unconditional: true}
      - {name: answer, template: talk/ask}
"""
MAP = """\
about: Talk.
source: talk
files: [dev.csv]
train: [train.csv]
text: text
label: {column: kind, classes: {non: [""], open: [open], hidden: [hidden]}}
properties: properties
keep: {way: way}
originals: {column: way, value: own}
optional: [way, properties]
duplicates: keep
"""
Line = tuple[str, str, str, str]
HEAD = ("text", "kind", "way", "properties")


@dataclass(frozen=True)
class Talk:
    """The toy home, its data folder, and a results folder beside them."""

    folder: Path

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def space(self) -> Workspace:
        homes = (self.folder / "home", shipped_home())
        registry = Registry(homes, {}, self.folder / "cache")
        return Workspace(
            registry, self.results, self.folder / "data", "corrected", lambda *_: None, CallPolicy()
        )

    def put(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def rows(self, name: str, lines: Sequence[Line]) -> Path:
        path = self.put(f"data/talk/{name}", "")
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([HEAD, *lines])
        return path

    def model(self, name: str, text: str) -> None:
        self.put(f"home/configs/models/{name}.yaml", text)

    def harness(self, *words: str) -> int:
        own = ("--home", str(self.folder / "home"), "--results", str(self.results))
        return main([*words, *own, "--data", str(self.folder / "data")])

    @property
    def run(self) -> RunFolder:
        [found] = run_folders(self.results)
        return found


def talk(topics: Sequence[str], way: str = "own") -> list[Line]:
    """A row of each label for each topic; a word tells the label."""
    return [
        (text.format(topic), "" if label == "non" else label, way, '["Irony"]')
        for topic in topics
        for label, text in SAYS.items()
    ]


def build(folder: Path) -> Talk:
    """The toy home below a folder: trained on four topics, evaluated on the other four."""
    made = Talk(folder)
    made.put("home/tasks/talk.yaml", TASK)
    made.put("home/tasks/samples/talk.jsonl", "")
    made.put("home/configs/tables/talk.yaml", MAP)
    made.put("home/prompts/talk/ask.user.j2", "Text: {{ text }}\nKind:\n")
    made.put("home/prompts/talk/neutral.user.j2", "Kind:\n")
    made.rows("train.csv", talk(TOPICS[:4]))
    made.rows("dev.csv", talk(TOPICS[4:]))
    for head in ("svm", "logistic"):
        made.model(
            f"grams-{head}",
            f"{{kind: sklearn, head: {head}, encoder: {{kind: char-ngrams}}, c: 9}}",
        )
    return made
