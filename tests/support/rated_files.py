"""Rated replies of our own wording in the layout of the Topical-Chat release, to import."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cli import main
from harness.importers.import_files import Imported, import_answers
from harness.models.client.cached import CallPolicy
from harness.registry import Registry, shipped_home
from harness.storage.run_tables import SampleRecord
from harness.storage.runs import RunFolder
from harness.workspace import Workspace

TALKS = ("Is it raining?\nSince noon.\n\n", "Who baked this?\nMy aunt did.\n\n")
SYSTEMS = ("quick", "slow")
SCORES = {"naturalness": 3.0, "coherence": 2.3333333333, "groundedness": 0.0}


def rated(talk: str, system: str) -> dict[str, Any]:
    return {
        "source": talk,
        "system_id": system,
        "system_output": f"The {system} one says: so I thought. ",
        "context": "Rain falls at some thirty kilometres an hour.\n",
        "scores": SCORES,
    }


def prompt(criterion: str, part: Mapping[str, Any]) -> str:
    """A prompt that names its criterion as the release does."""
    return f"Rate a reply.\n\n{criterion}\n- 1 is low.\n\nSaid:\n{part['source']}\nReply:\n" + str(
        part["system_output"]
    )


def answered(
    criterion: str = "Naturalness (1-3) Is it natural?", texts: Sequence[str] = ("2", "3")
) -> list[dict[str, Any]]:
    """Every rated reply with a prompt and the texts that answered it."""
    parts = [rated(talk, system) for talk in TALKS for system in SYSTEMS]
    return [
        {**part, "prompt": prompt(criterion, part), "all_responses": list(texts)} for part in parts
    ]


@dataclass
class Desk:
    """A data folder, a results folder, and imports from the one to the other."""

    folder: Path

    def __post_init__(self) -> None:
        parts = [rated(talk, system) for talk in TALKS for system in SYSTEMS]
        self.put("data/topical_chat/topical_chat.json", parts)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def put(self, name: str, content: object) -> Path:
        """Write a file: text as it is, anything else as JSON."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, "utf-8")
        return path

    def take(self, *files: Path, model: str = "umpire", task: str = "topical_chat") -> Imported:
        registry = Registry((shipped_home(),), {}, self.folder / "cache")
        space = Workspace(
            registry,
            self.results,
            self.folder / "data",
            "corrected",
            lambda *_: None,
            CallPolicy(is_offline=True),
        )
        return import_answers(space, files, task, model)

    def main(self, *arguments: str) -> int:
        return main([*arguments, "--results", str(self.results)])

    def rows(self) -> list[SampleRecord]:
        [path] = self.results.glob("runs/*/*/*")
        return RunFolder(path).read_rows(with_prompts=True)

    def ratings(self) -> list[dict[str, str]]:
        with (self.results / "ratings" / "topical_chat.csv").open(encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def bytes(self) -> dict[str, bytes]:
        paths = sorted(self.results.rglob("*"))
        return {str(path): path.read_bytes() for path in paths if path.is_file()}
