"""What the pages say is there, and what is there is on a page."""

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
import yaml
from msgspec.structs import fields

from harness.cli import main
from harness.cli.app import COMMANDS
from harness.specs.models import ModelSpec, OpenAISpec
from harness.specs.schema import load_spec

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[list[str]]:
    """The words behind `harness` in each such line of a page's shell blocks."""
    lines = "\n".join(blocks(text, "sh")).replace("\\\n", " ").splitlines()
    if text in (page("see-it.md"), page("papers.md")):
        lines += re.findall("`(harness [^`]+)`", text)
    parts = [part for line in lines for part in re.split(r" && | \| ", line)]
    words = [shlex.split(part, comments=True) for part in parts]
    return [part[part.index("harness") + 1 :] for part in words if "harness" in part]


def test_links_lead_to_files() -> None:
    lost = [
        f"{path.name}: {link}"
        for path in PAGES
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8"))
        if not (path.parent / link).exists()
    ]

    assert lost == []


def test_extras_are_installed_from_the_folder_as_the_package_is_on_no_index() -> None:
    files = [*PAGES, *(ROOT / "harness").rglob("*.py")]
    assert [f.name for f in files if "pragmatics-harness[" in f.read_text("utf-8")] == []


def test_every_page_is_linked_from_the_index() -> None:
    linked = set(re.findall(r"\]\(([^)]+)\)", page("index.md"))) | {"index.md"}
    assert {path.name for path in DOCS.glob("*.md")} - linked == set()


def test_the_readme_can_be_read_in_five_minutes() -> None:
    assert len(README.splitlines()) <= 170


def test_the_layouts_name_the_packages_there_are() -> None:
    packages = {path.parent.name for path in (ROOT / "harness").glob("*/__init__.py")}
    layout = README.split("## Layout")[1].split("```")[1]

    assert set(re.findall(r"^(\w+)/ ", layout, re.MULTILINE)) == packages
    assert set(re.findall(r"^\| `(\w+)/` ", page("architecture.md"), re.MULTILINE)) == packages


def test_pages_name_modules_and_folders_there_are() -> None:
    text = page("architecture.md")
    to_come = set(re.findall(r"[\w/]+\.py", "".join(re.findall(r"<!-- to come.*?-->", text))))
    named = {f"harness/{name}" for name in set(re.findall(r"`([\w/]+\.py)`", text)) - to_come}
    named = {name.replace("harness/tests/", "tests/") for name in named}
    for path in PAGES:
        named |= set(re.findall(r"\bharness/[\w/]+(?:\.\w+)?", path.read_text("utf-8")))

    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_every_command_line_of_a_page_is_one_of_the_program() -> None:
    lines = {shlex.join(line): line for path in PAGES for line in commands(path.read_text("utf-8"))}
    with contextlib.redirect_stdout(io.StringIO()):  # --help parses the other options first
        wrong = [text for text, line in lines.items() if main([*line, "--help"]) != 0]

    assert wrong == []


def test_python_in_the_readme_and_the_tutorial_is_python() -> None:
    for text in blocks(README, "python") + blocks(page("tutorial.md"), "python"):
        compile(text, "page", "exec")


def test_the_python_of_the_readme_runs_without_a_model_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [text] = blocks(README, "python")
    quick = text.replace("minilm-cosine", "ngram-cosine").replace("limit=8", "limit=2")

    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(compile(quick, "README.md", "exec"), {})

    head, *rows = [line.split() for line in shown.getvalue().splitlines() if line.strip()]
    table = [line.removeprefix("#").split() for line in text.splitlines() if line.startswith("# ")]
    assert head == table[0]
    assert [row[0] for row in rows[-2:]] == [row[0] for row in table[1:]]


def test_every_task_judge_and_source_has_its_words() -> None:
    folders = {
        "tasks.md": "tasks",
        "judges.md": "configs/judges",
        "data.md": "configs/data",
        "impscore.md": "configs/scorers",
    }
    unsaid = [
        f"{name}: {path.stem}"
        for name, folder in folders.items()
        for path in (ROOT / folder).glob("*.yaml")
        if path.stem not in page(name)
    ]

    assert unsaid == []


def test_every_kind_and_key_of_a_model_is_on_its_page() -> None:
    text = page("models.md")
    specs = get_args(ModelSpec)
    keys = {field.name for spec in specs for field in fields(spec)}
    kinds = {str(spec.__struct_config__.tag) for spec in specs}

    assert sorted(name for name in keys | kinds if f"`{name}`" not in text) == []


def test_every_example_of_a_server_is_a_model() -> None:
    for text in blocks(page("servers.md"), "yaml"):
        spec = load_spec(yaml.safe_load(text), ModelSpec, where="servers.md")
        assert isinstance(spec, OpenAISpec)


def test_every_slot_of_a_shipped_template_is_listed() -> None:
    listed = page("tasks.md")
    texts = [path.read_text("utf-8") for path in (ROOT / "prompts").rglob("*.j2")]
    slots = {slot for text in texts for slot in re.findall(r"{{ *(\w+)", text)}

    assert sorted(slot for slot in slots if f"`{slot}`" not in listed) == []


def test_every_command_is_on_a_page() -> None:
    text = "\n".join(path.read_text("utf-8") for path in PAGES)
    assert [name for name in COMMANDS if f"harness {name}" not in text] == []


def test_every_source_states_its_licence_in_the_readme() -> None:
    for path in (ROOT / "configs/data").glob("*.yaml"):
        licence = re.search(r"^licence: (.+)$", path.read_text("utf-8"), re.MULTILINE)
        assert licence is not None
        assert f"`{path.stem}`" in README.split("## Licences")[1]
        assert licence[1] in README


def test_every_module_that_tests_share_is_on_their_page() -> None:
    folder = ROOT / "tests" / "support"
    text = (folder / "README.md").read_text("utf-8")
    names = {path.stem for path in folder.glob("[!_]*.py") if not path.stem.startswith("test_")}

    assert sorted(name for name in names if f"`{name}`" not in text) == []
