"""How commands are found, and how records become options."""

import inspect
import re
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated

import pytest
from support.toy import Lines

from harness.cli import main
from harness.cli.app import BELOW, COMMANDS, TOP, command_of
from harness.cli.options import ExitCode, Only, expanded, option
from harness.text.renamed import SUCCESSORS

OF_0_1 = """run, judge, merge, slurm, read, import, tokens, split, clean, train, grid, build,
leaderboard, agree, items, compare, gate, table, curve, plot, rates, drift, card, profile, report,
view, bundle, prove, verify, list, show, schema, check judge, check model, check reader, check
scorer, data list, data fetch, data check, impscore score, impscore pairs, impscore eval, impscore
train, impscore ablate, impscore collect, impscore lint, impscore probe, export ratings, export
annotation, export stress, export sheet, export copies, export inspect, export parquet, export
lm-eval, export every-eval-ever, export errors, perturb, perturb report, ratings labels, ratings
import, ratings stress"""
"""The commands of the version before this one."""


@dataclass(frozen=True, kw_only=True)
class Drink:
    """What is served."""

    name: str = option("Its name.", ...)
    size: int = option("Its size.", 2, flags="-s --size", min=1)


def test_a_record_becomes_an_option_for_each_field_and_is_built_of_them() -> None:
    def serve(drink: Drink, is_hot: bool = False) -> str:
        return f"{drink.name} {drink.size} {is_hot}"

    command = expanded(serve)

    assert [*inspect.signature(command).parameters] == ["name", "size", "is_hot", "is_whole"]
    assert command(name="tea", size=3, is_hot=True) == "tea 3 True"


def test_a_narrowed_record_keeps_the_defaults_of_its_other_fields() -> None:
    def serve(drink: Annotated[Drink, Only("name")]) -> int:
        return drink.size

    command = expanded(serve)

    assert [*inspect.signature(command).parameters] == ["name", "is_whole"]
    assert command(name="tea") == 2


@pytest.mark.parametrize("entries", [TOP, BELOW])
def test_every_command_fits_and_leads_to_a_function(entries: dict[str, tuple[str, str]]) -> None:
    places = [place.split(":") for place, _ in entries.values() if place]
    modules = {module: import_module(f"harness.cli.{module}") for module, _ in places}

    assert [place for place in places if not callable(getattr(modules[place[0]], place[1]))] == []
    assert [about for _, about in entries.values() if len(about) > 63] == []


def test_help_fits_80_columns_and_has_words(monkeypatch: pytest.MonkeyPatch, capsys: Lines) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("", *TOP, *BELOW):
        main([*name.split(), "--help"])
        main([*name.split(), "--help-all"])

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 or re.search(r"[<{]", line)] == []
    wanted = {
        "Usage: harness compare [OPTIONS] A [B]",
        "Usage: harness data fetch [OPTIONS] [SOURCE...]",
        "--judge NAMES Judges, comma-separated. Default: those of the task.",
    }
    assert wanted - {" ".join(line.split()) for line in lines} == set()


def helps(capsys: Lines, *words: str) -> list[str]:
    codes = [(main([*words, way]), capsys.readouterr().out) for way in ("--help", "--help-all")]
    assert {code for code, _ in codes} == {0}
    return [text for _, text in codes]


def test_there_are_27_commands_in_groups(capsys: Lines) -> None:
    short, whole = helps(capsys)

    assert len(TOP) == 27
    assert [name for name in TOP if f"\n  {name} " not in whole] == []
    assert [name for name in TOP if not re.search(rf"\b{name}\b", short)] == []
    assert re.findall(r"(?m)^(\S.*):$", whole)[:2] == ["Measure", "See"]


def test_an_old_command_says_its_new_name(capsys: Lines) -> None:
    for words in (name.split() for name in OF_0_1.split(",")):
        name, rest = command_of(words)
        if rest or name not in COMMANDS:
            assert main([*words, "x"]) == ExitCode.USER_MISTAKE
            said = " ".join(capsys.readouterr().err.split())
            near = re.search(r"did you mean (.+)\?", said)
            assert near[1] in BELOW if near else SUCCESSORS[" ".join(words)] in said, said


@pytest.mark.parametrize("old", SUCCESSORS)
def test_what_is_gone_leads_to_commands_that_there_are(old: str, capsys: Lines) -> None:
    assert main(old.split()) == ExitCode.USER_MISTAKE

    assert SUCCESSORS[old] in " ".join(capsys.readouterr().err.split())
    for new in re.findall(r"harness ([^,]+)", SUCCESSORS[old]):
        name, rest = command_of(new.split())
        _, whole = helps(capsys, *name.split())
        assert [word for word in rest if word[:2] == "--" and word not in whole] == []
        assert name in COMMANDS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--quiet", "No such option: --quiet; instead: 2> /dev/null hides all but the result"),
        (
            "--batch-size 8",
            "--batch-size; instead: `batch_tokens`, or `batch`, in the model's YAML",
        ),
        ("--temperature 1", "instead: `decodings` in the task's YAML"),
        ("--limit 10%", "Invalid value for '--limit': give a whole number, such as 20"),
        ("--limt 10", "No such option: --limt (Possible options: --limit)"),
    ],
)
def test_options_of_other_programs_lead_to_ours(words: str, said: str, capsys: Lines) -> None:
    assert main(["run", *words.split()]) == ExitCode.USER_MISTAKE
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", ["", *TOP, *BELOW])
def test_a_help_fits_a_screen(name: str, capsys: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main([*name.split(), "--help"])
    assert len(capsys.readouterr().out.splitlines()) <= 24


def test_rare_options_are_in_the_whole_help(capsys: Lines) -> None:
    short, whole = helps(capsys, "run")

    assert "--ray-address" not in short
    assert "--ray-address" in whole
    assert "harness run --help-all" in short.splitlines()[-1]
