"""A stdout that is closed, full or cannot show a name: no traceback, and the right exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.each import rest_slow
from support.toy import Toy

COMMAND = f"{sys.executable} -W error -m harness"
RUN = "run --task toy --model oracle --variant base"


def shell(
    toy: Toy, line: str, *, results: str = "", **environ: str
) -> subprocess.CompletedProcess[bytes]:
    """A line of a shell, in which $H is the command and $F the folders."""
    folders = f"--home '{toy.home}' --results \"{results or toy.results}\""
    line = line.replace("$H", COMMAND).replace("$F", folders)
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, env={**os.environ, **environ}, check=False
    )


@pytest.mark.parametrize(
    "command",
    rest_slow([f"{RUN} $F", "list", "--help", "list --json", "--version"], kept=slice(1, 2)),
)
def test_a_closed_stdout_changes_no_exit_code(toy: Toy, command: str) -> None:
    done = shell(toy, f"$H {command} >&-")
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert b"Exception ignored" not in done.stderr


@pytest.mark.slow
def test_what_goes_to_a_closed_stdout_goes_into_no_file(toy: Toy) -> None:
    done = shell(toy, f"$H {RUN} --json $F <&- >&- 2>&-")

    assert done.returncode == 0
    stored = [path.read_bytes() for path in toy.results.rglob("*") if path.is_file()]
    assert stored
    assert not any(b'"redrawn"' in content and b'"folder"' in content for content in stored)


@pytest.mark.slow
def test_a_closed_stderr_leaves_stdout_to_the_result(toy: Toy) -> None:
    done = shell(toy, f"$H {RUN} --json $F 2>&-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["redrawn"] == 0


@pytest.mark.parametrize(
    "command", rest_slow([f"{RUN} $F", f"{RUN} --json $F", "list", "--help", "--version"], kept=1)
)
def test_a_full_stdout_is_one_message_and_exit_code_2(toy: Toy, command: str) -> None:
    done = shell(toy, f"$H {command} > /dev/full")

    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    told = b"harness: the result cannot be written to stdout (No space left on device)"
    assert told in done.stderr


@pytest.mark.slow
def test_a_full_stderr_costs_nothing_but_its_messages(toy: Toy) -> None:
    done = shell(toy, f"$H {RUN} $F 2> /dev/full")
    assert done.returncode == 0
    assert b"toy, oracle" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("io", ["utf-8:strict", "latin-1:strict"])
def test_a_folder_of_bytes_is_told(toy: Toy, tmp_path: Path, io: str) -> None:
    results = f"{tmp_path}/r$(printf '\\377\\342')"

    done = shell(toy, f"$H {RUN} $F", results=results, PYTHONIOENCODING=io)

    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert b"run " in done.stdout
