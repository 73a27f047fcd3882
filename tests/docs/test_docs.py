"""What the pages say is there, and what is there is on a page."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml
from msgspec.structs import fields

from docs.generate import commands_page
from harness.cli.app import COMMANDS, GROUPS
from harness.specs.models import ModelSpec, OpenAISpec
from harness.specs.schema import load_spec

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))

    assert all((page.parent / link).exists() for link in links)


@pytest.mark.parametrize(
    ("page", "folder"),
    [
        ("tasks.md", "tasks"),
        ("judges.md", "configs/judges"),
        ("data.md", "configs/data"),
        ("impscore.md", "configs/scorers"),
    ],
)
def test_every_task_judge_and_source_has_its_words(page: str, folder: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")

    assert [p.stem for p in (ROOT / folder).glob("*.yaml") if p.stem not in text] == []


def test_every_kind_of_model_is_on_its_page() -> None:
    kinds = {
        re.search(r"^kind: (\w+)", path.read_text("utf-8"), re.MULTILINE)[1]  # type: ignore[index]  # every model has a kind
        for path in (ROOT / "configs/models").glob("*.yaml")
    }

    assert all(f"`{kind}`" in (ROOT / "docs/models.md").read_text("utf-8") for kind in kinds)


@pytest.mark.parametrize("spec", get_args(ModelSpec), ids=lambda spec: spec.__name__)
def test_every_key_of_a_model_is_on_its_page(spec: type) -> None:
    page = (ROOT / "docs/models.md").read_text("utf-8")

    assert [field.name for field in fields(spec) if f"`{field.name}`" not in page] == []


@pytest.mark.parametrize(
    "text",
    re.findall(r"```yaml\n(.+?)```", (ROOT / "docs/servers.md").read_text("utf-8"), re.DOTALL),
)
def test_every_example_of_a_server_is_a_model(text: str) -> None:
    assert isinstance(load_spec(yaml.safe_load(text), ModelSpec, where="servers.md"), OpenAISpec)


def test_every_slot_of_a_shipped_template_is_listed() -> None:
    listed = (ROOT / "docs/prompts.md").read_text("utf-8")
    texts = [path.read_text("utf-8") for path in (ROOT / "prompts").rglob("*.j2")]
    slots = {slot for text in texts for slot in re.findall(r"{{ *(\w+)", text)}

    assert sorted(slot for slot in slots if f"`{slot}`" not in listed) == []


def test_the_page_of_commands_is_the_help_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")

    assert (ROOT / "docs/commands.md").read_text("utf-8") == commands_page()


def test_every_command_is_on_the_page() -> None:
    page = (ROOT / "docs/commands.md").read_text("utf-8")

    assert [name for name in [*COMMANDS, *GROUPS] if f"## harness {name}\n" not in page] == []


def test_every_source_states_its_licence_in_the_readme() -> None:
    for path in (ROOT / "configs/data").glob("*.yaml"):
        licence = re.search(r"^licence: (.+)$", path.read_text("utf-8"), re.MULTILINE)
        assert licence is not None
        assert f"`{path.stem}`" in README.split("## Licences")[1]
        assert licence[1] in README
