"""The schemas that editors check YAML by: as the command prints them, and as strict as specs."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.each import each

from harness.cli import main
from harness.registry import schema_text
from harness.specs.schema import read_yaml

HOME = Path(__file__).parents[2]
SCHEMAS = HOME / "configs/schemas"
KINDS = {
    "tasks": "task",
    "tasks/overlays": "overlay",
    "configs": "prices",
    **{
        f"configs/{folder}": folder.removesuffix("s")
        for folder in (
            *("annotations", "builds", "data", "golden", "imports", "judges", "layouts", "models"),
            *("pairs", "perturbations", "plans", "recipes", "scorers", "sheets", "tables"),
        )
    },
}
SHIPPED = sorted([*(HOME / "tasks").rglob("*.yaml"), *(HOME / "configs").rglob("*.yaml")])
JUDGE = {"kind": "cosine", "about": "a", "encoder": {"kind": "minilm"}}
OPTIONS = {"options": {"accept": "a", "reject": "b"}}


def validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((SCHEMAS / f"{kind}.json").read_text("utf-8")))


def kind_of(path: Path) -> str:
    return KINDS[path.parent.relative_to(HOME).as_posix()]


def test_shipped_schemas_are_those_that_the_command_prints() -> None:
    shipped = {path.stem: path.read_text("utf-8") for path in SCHEMAS.glob("*.json")}
    # `harness show schema KIND > configs/schemas/KIND.json` writes one anew.
    assert shipped == {kind: schema_text(kind, has_plugins=False) for kind in KINDS.values()}


@each("kind", sorted(KINDS.values()))
def test_a_schema_is_sound_and_describes_its_file(kind: str) -> None:
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text("utf-8"))

    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert all(part["description"] for part in schema["$defs"].values())
    objects = [part for part in schema["$defs"].values() if "properties" in part]
    assert all(part["additionalProperties"] is False for part in objects)


def test_every_shipped_file_fits_its_schema_and_names_it() -> None:
    wrong = []
    for path in SHIPPED:
        first = path.read_text("utf-8").partition("\n")[0]
        named = path.parent / first.removeprefix("# yaml-language-server: $schema=")
        errors = [error.message for error in validator(kind_of(path)).iter_errors(read_yaml(path))]
        if errors or named.resolve() != SCHEMAS / f"{kind_of(path)}.json":
            wrong.append((path, first, errors))

    assert wrong == []


@each(
    ("kind", "content", "is_right"),
    [
        ("judge", JUDGE | OPTIONS, True),
        ("judge", JUDGE, False),
        ("judge", JUDGE | OPTIONS | {"optoins": {}}, False),
        ("judge", JUDGE | OPTIONS | {"kind": "cosin"}, False),
        ("judge", JUDGE | OPTIONS | {"about": 3}, False),
        ("judge", JUDGE | OPTIONS | {"encoder": {"kind": "minilm", "layer": 3}}, False),
        ("judge", {"kind": "python", "about": "a", "entry": "a.py:B", "settings": {"n": 1}}, True),
        ("model", {"kind": "openai", "model": "m", "api": "chatt"}, False),
        ("model", {"kind": "openai", "model": "m", "attempts": 0}, False),
        ("prices", {"prices": {"a": {"input_usd": -1}}}, False),
        ("recipe", {"about": "a", "split": [8, 1]}, False),
        ("recipe", {"about": "a", "split": [8, 1, 1]}, True),
    ],
)
def test_a_wrong_key_or_value_is_refused_by_the_schema_too(
    kind: str, content: dict[str, Any], is_right: bool
) -> None:
    assert validator(kind).is_valid(content) == is_right


def test_a_key_is_described_by_what_its_spec_says_of_it() -> None:
    schema = json.loads((SCHEMAS / "judge.json").read_text("utf-8"))
    assert "earlier" in schema["$defs"]["CosineSpec"]["properties"]["step"]["description"]


def test_the_command_prints_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "schema", "judge"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "harness judge"


def test_an_unknown_kind_of_file_is_told_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "schema", "jugde"]) == 2
    assert "no kind of file 'jugde'; did you mean judge" in capsys.readouterr().err
