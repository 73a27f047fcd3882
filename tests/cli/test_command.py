"""How commands are found, how records become options, and how tables fit a terminal."""

import inspect
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated

import pytest
from support.each import each
from support.terminal import on_terminal

from harness.cli import main
from harness.cli.app import COMMANDS, GROUPS
from harness.cli.options import ExitCode, Only, expanded, option
from harness.cli.output import blocks, cell


@dataclass(frozen=True, kw_only=True)
class Drink:
    """What is served."""

    name: str = option("Its name.")
    size: int = option("Its size.", 2, flags="-s --size", min=1)


def test_a_record_becomes_an_option_for_each_field_and_is_built_of_them() -> None:
    def serve(drink: Drink, is_hot: bool = False) -> str:
        return f"{drink.name} {drink.size} {is_hot}"

    command = expanded(serve)

    assert [*inspect.signature(command).parameters] == ["name", "size", "is_hot"]
    assert command(name="tea", size=3, is_hot=True) == "tea 3 True"


def test_a_narrowed_record_keeps_the_defaults_of_its_other_fields() -> None:
    def serve(drink: Annotated[Drink, Only("name")]) -> int:
        return drink.size

    command = expanded(serve)

    assert [*inspect.signature(command).parameters] == ["name"]
    assert command(name="tea") == 2


@pytest.mark.parametrize("entries", [COMMANDS, GROUPS])
def test_every_line_in_the_list_of_commands_fits_and_leads_to_a_function(
    entries: dict[str, tuple[str, str]],
) -> None:
    places = [place.split(":") for place, _ in entries.values() if place]
    modules = {module: import_module(f"harness.cli.{module}") for module, _ in places}

    assert [place for place in places if not callable(getattr(modules[place[0]], place[1]))] == []
    assert [about for _, about in entries.values() if len(about) > 63] == []


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = (
        "import sys; from harness.cli import main; main(['--help']);"
        "sys.exit(str([m for m in sys.modules if m in ('harness.cli.run', 'harness.registry')]))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stderr.strip() == "[]"


def test_help_fits_80_columns_and_calls_values_by_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("", *GROUPS, *COMMANDS):
        main([*name.split(), "--help"])

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 or re.search(r"[<{]", line)] == []
    wanted = {
        "Usage: harness compare [OPTIONS] A [B]",
        "Usage: harness data fetch [OPTIONS] [SOURCE...]",
        "--judge NAMES Judges, comma-separated. Default: those of the task.",
        "--values LIST Numbers for words: yes=1,no=0.",
        "-o, --out FOLDER Folder for the files. Default: RESULTS/curves/.",
    }
    assert wanted - {" ".join(line.split()) for line in lines} == set()


def test_a_mistyped_command_is_a_mistake_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rnu"]) == ExitCode.USER_MISTAKE

    assert "No such command 'rnu'" in capsys.readouterr().err


@each(
    ("value", "text"),
    [
        (None, "-"),
        ((None, None), "-"),
        ((0.25, 1.0), "0.250 to 1.000"),
        (0.5, "0.500"),
        (3, "3"),
        (True, "yes"),
        ("word", "word"),
    ],
)
def test_a_cell_shows_a_value_as_every_table_does(value: object, text: str) -> None:
    assert cell(value) == text  # type: ignore[arg-type]  # each is a Cell


@pytest.mark.parametrize(
    ("widths", "keys", "expected"),
    [
        ([10, 10, 10], 1, [[0, 1, 2]]),
        ([10, 33, 33], 1, [[0, 1, 2]]),
        ([10, 33, 34, 10], 1, [[0, 1], [0, 2, 3]]),
        ([10, 90, 10], 1, [[0, 1], [0, 2]]),
        ([10], 1, [[0]]),
        ([10, 10, 30, 30], 2, [[0, 1, 2], [0, 1, 3]]),
        ([10, 10], 2, [[0, 1]]),
        ([22, 22, 32, 10, 8], 3, [[0, 1, 2], [0, 1, 3, 4]]),
        ([22, 22, 26, 10, 8], 3, [[0, 1, 2], [0, 1, 3, 4]]),
    ],
)
def test_a_wide_table_is_split_into_blocks_with_the_key_columns(
    widths: list[int], keys: int, expected: list[list[int]]
) -> None:
    assert blocks(widths, 80, keys) == expected


def test_a_table_on_a_terminal_of_80_columns_keeps_every_cell_in_one_line() -> None:
    title = "|".join(["a-task:8edc918c", *(f"field-{i}:0123456" for i in range(7)), "v1-2"])
    code = (
        "from harness.cli.output import echo_table\n"
        f"echo_table({title!r}, ['model', *(f'column-{{i}}' for i in range(12))],"
        " [['oracle', *(i * 1111 for i in range(12))]])"
    )
    lines, _ = on_terminal("-c", code)

    assert max(map(len, lines)) <= 80
    words = [line.split() for line in lines]
    assert [sum(f"column-{i}" in line for line in words) for i in range(12)] == [1] * 12
    assert sum("oracle" in line for line in words) == 2
    assert lines[0].endswith("|")
    assert lines[0] + lines[1].strip() == title


def test_a_long_message_is_broken_between_words_on_a_terminal_alone() -> None:
    said = "alarm: " + "the accuracy of a-long-name depends on places " * 5
    code = f"from harness.cli.output import log; log({said!r})"

    _, lines = on_terminal("-c", code)
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert len(lines) > 2
    assert max(map(len, lines)) <= 80
    assert " ".join(line.strip() for line in lines) == said.strip()
    assert piped.stderr == f"{said}\n"


def test_what_needs_attention_is_coloured_where_colours_are_wanted() -> None:
    code = (
        "import os\n"
        "from harness.cli.output import Marked, echo_table, log\n"
        "for name, value in (('NO_COLOR', ''), ('NO_COLOR', '1'), ('TERM', 'dumb')):\n"
        "    os.environ |= {'NO_COLOR': '', name: value}\n"
        "    echo_table('a table', ['missing'], [[0], [Marked(3)]])\n"
        "    log('alarm: all alike')"
    )

    out, err = on_terminal("-c", code, keeps_escapes=True)

    assert [line for line in out if "3" in line] == ["\x1b[33m3      \x1b[0m", "3", "3"]
    assert sum("\x1b" in line for line in out) == 1
    assert err[0].endswith("\x1b[33malarm\x1b[0m: all alike")
    assert err[1:] == ["\x1b[Kalarm: all alike", "alarm: all alike"]
