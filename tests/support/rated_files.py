"""Rated replies of our own wording in the layout of the Topical-Chat release, to import."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cli import main
from harness.importers.import_files import Imported
from harness.storage.run_tables import SampleRecord
from support.quiz import Quiz
from support.toy import csv_rows

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


@dataclass(frozen=True)
class Desk(Quiz):
    """A data folder, a results folder, and imports from the one to the other."""

    def __post_init__(self) -> None:
        parts = [rated(talk, system) for talk in TALKS for system in SYSTEMS]
        self.put("data/topical_chat/topical_chat.json", parts)
        self.home.mkdir(exist_ok=True)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def put(self, name: str, content: object) -> Path:
        return super().put(name, content if isinstance(content, str) else json.dumps(content))

    def take(
        self,
        *files: Path,
        task: str = "topical_chat",
        model: str = "umpire",
        column_map: str | None = None,
    ) -> Imported:
        return super().take(*files, task=task, model=model, column_map=column_map)

    def main(self, *arguments: str) -> int:
        return main([*arguments, "--results", str(self.results)])

    def rows(self) -> list[SampleRecord]:
        return self.every_row()

    def ratings(self) -> list[dict[str, str]]:
        return csv_rows(self.results / "ratings" / "topical_chat.csv")
