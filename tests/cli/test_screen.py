"""What reaches stdout, stderr and the files: JSON alone, no escapes, no key."""

import csv
import json
import os
import re
import subprocess
import sys
from math import ceil
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest
from support.stub_server import StubServer
from support.toy import Lines, Toy

from harness.cli import main

SCREENS = """
list | list tasks | list models | list judges | list layouts | list models llama | list runs | plot
show intent_resolution | show hu2022 | table @s0 | rates --help | leaderboard | items @last | verify
compare @s0 @s1 | run --task toy --model oracle --dry-run | judge @s0 --judge choice --dry-run
run --task toy --model oracle,literal --dry-run | run --task toy --model oracle,literal
"""
HOSTILE = "=HYPERLINK(1)\x1b[31m\x9b2J never yes\x07"


def test_json_output_is_json_and_nothing_else(toy: Toy, capsys: Lines) -> None:
    toy.run("--variant", "base")
    results, home = ("--results", str(toy.results)), ("--home", str(toy.home))
    for words in (
        *("run --task toy --model oracle", "run --task toy --model oracle --dry-run", "read RUN"),
        *("judge RUN --judge near", "leaderboard", "list", "list runs", "list data", "data check"),
    ):
        folders = (*results * ("data" not in words), *home * (words != "leaderboard"))
        capsys.readouterr()
        main([*words.replace("RUN", str(toy.runs()[0])).split(), "--json", *folders])
        assert json.loads(capsys.readouterr().out), words


@pytest.mark.slow
def test_every_command_fits_a_screen_and_says_how_much_all_prints(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(toy.home)
    for seed in range(3):
        main(f"run --task toy --model oracle --limit 2 --tag s{seed} --seed {seed}".split())
    [first, *_] = Path("results/runs/toy/oracle").iterdir()
    for number in range(20):
        copytree(first, first.with_name(f"{number:016x}"), ignore=ignore_patterns("tag"))
    cut = set()
    for words in (part.strip() for part in SCREENS.strip().replace("\n", "|").split("|")):
        shown = []
        for more in ([], ["--all"]):
            capsys.readouterr()
            assert main([*words.split(), *more]) in (0, 1), words
            shown.append(capsys.readouterr().out.splitlines())
        part, whole = shown
        assert sum(max(1, ceil(len(line) / 80)) for line in part) <= 24, words
        if found := re.fullmatch(r"--all prints (\d+) more lines", part[-1]):
            cut.add(words)
            assert len(part) - 2 + int(found[1]) == len(whole)

    assert {"list runs", "show hu2022"} <= cut
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "1")
    assert main(["list", "models"]) == 0
    assert "--all prints" in capsys.readouterr().out


def test_a_file_gets_everything_and_a_pipe_says_on_stderr_what_is_cut(
    toy: Toy, capfd: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    words = [sys.executable, "-m", "harness", "show", "hu2022"]
    environ = dict(os.environ)  # without the COLUMNS that readline sets beneath Python
    piped = subprocess.run(words, capture_output=True, text=True, check=True, env=environ)
    toy.main("show", "hu2022")
    whole = capfd.readouterr().out.splitlines()
    assert piped.stderr.endswith(f"--all prints {len(whole) - 21} more lines\n")


def test_progress_goes_to_stderr_alone_and_without_escapes(toy: Toy, capsys: Lines) -> None:
    toy.run()

    out, err = capsys.readouterr()
    assert "24 of 24 stored" in err
    assert "stored" not in out
    assert "\x1b" not in out + err


def test_hostile_words_of_a_model_are_harmless_where_they_are_shown(
    toy: Toy, capsys: Lines, stub: StubServer
) -> None:
    stub.reply = lambda _: HOSTILE
    toy.run("--variant", "base", model="alpha")
    turned = ("accept: right, reject: wrong", "accept: wrong, reject: right")
    toy.edit("configs/judges/near.yaml", *turned)
    toy.main("read", str(toy.runs()[0]))
    toy.main("read", str(toy.runs()[0]), "--json")
    toy.main("show", toy.runs()[0].name)

    shown = "".join(capsys.readouterr())
    assert not {character for character in shown if not character.isprintable()} - {"\n"}


def test_a_prompt_is_shown_with_its_delimiters_as_they_are_sent(toy: Toy, capsys: Lines) -> None:
    toy.write("prompts/toy/base.user.j2", "<<<{{ story }}>>> [INST] What is said next?")
    toy.run("--dry-run", "--variant", "base")
    assert "<<<number 0.>>> [INST] What is said next?" in capsys.readouterr().out


def test_no_cell_of_a_table_is_a_formula(toy: Toy) -> None:
    toy.group("even", "=1+1")
    toy.run()

    with (toy.runs()[0] / "scores.csv").open(newline="") as file:
        cells = {cell for row in csv.reader(file) for cell in row}
    assert "'=1+1" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t"))]
