"""data fetch and check, against a server on loopback; and results of several runs."""

import hashlib
import json
import re
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from support.each import each
from support.stub_server import StubServer
from support.toy import Lines, Toy, lines

from harness.cli import main
from harness.storage.runs import read_table

CONTENT = "\n".join(lines(4)).encode()
SOURCE = """
about: Four toys.
repository: maker/toys
commit: 0123abc
licence: CC BY 4.0
citation: Maker 2020
url: {url}/{{repository}}/{{commit}}/{{path}}
files:
  - {{path: data/all.jsonl, name: toy.jsonl, sha256: {sha256}}}
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def source(toy: Toy) -> Iterator[Toy]:
    """A toy home whose source lies on a server, by commit."""
    served = toy.folder / "served/maker/toys/0123abc/data"
    served.mkdir(parents=True)
    (served / "all.jsonl").write_bytes(CONTENT)
    handler = partial(Quiet, directory=str(toy.folder / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url, digest = f"http://127.0.0.1:{server.server_port}", hashlib.sha256(CONTENT).hexdigest()
        toy.write("configs/data/toys.yaml", SOURCE.format(url=url, sha256=digest))
        yield toy
        server.shutdown()
        thread.join()


def data(toy: Toy, command: str, *arguments: str) -> int:
    return main(["data", command, *arguments, "--home", str(toy.home)])


def cached(toy: Toy) -> Path:
    return toy.folder / "cache/data/toys/toy.jsonl"


def test_fetched_data_lies_in_the_cache_and_is_used_by_runs(source: Toy, capsys: Lines) -> None:
    assert data(source, "fetch", "toys") == 0

    out, err = capsys.readouterr()
    assert cached(source).read_bytes() == CONTENT
    assert out.strip() == str(cached(source))
    assert "licence CC BY 4.0" in err
    assert source.run("--variant", "base") == 0
    assert "WARNING" not in capsys.readouterr().err
    assert json.loads((source.runs()[0] / "run.json").read_text())["samples"] == 4
    assert data(source, "check", "toys") == 0
    assert data(source, "check") == 1  # the shipped sources were not fetched


def test_data_is_fetched_into_the_folder_that_is_named(source: Toy) -> None:
    folder = source.folder / "mine"
    assert data(source, "fetch", "toys", "--data", str(folder)) == 0
    assert (folder / "toys/toy.jsonl").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("sha256: ", "sha256: 00", "hash"),
        ("0123abc", "ffff", "404"),
        ("127.0.0.1:", "127.0.0.1:1", ""),
    ],
    ids=["another hash", "not found", "no server"],
)
def test_no_other_is_kept(source: Toy, capsys: Lines, *, old: str, new: str, fact: str) -> None:
    source.edit("configs/data/toys.yaml", old, new)

    assert data(source, "fetch", "toys") == 2

    err = capsys.readouterr().err
    assert fact in err
    assert "could not be fetched" in err
    assert "Traceback" not in err
    assert [path for path in (source.folder / "cache").rglob("*") if path.is_file()] == []


def test_a_source_that_cannot_be_fetched_keeps_no_other_back(source: Toy, capsys: Lines) -> None:
    gone = (source.home / "configs/data/toys.yaml").read_text("utf-8").replace("0123abc", "ffff")
    source.write("configs/data/lost.yaml", gone)

    assert data(source, "fetch", "lost", "toys") == 2

    out, err = capsys.readouterr()
    assert out.rstrip().endswith("toy.jsonl")
    assert err.startswith("lost: toy.jsonl could not be fetched (")
    assert "harness: 1 of 2 sources: lost: toy.jsonl could not be fetched" in " ".join(err.split())


@pytest.mark.parametrize(
    ("content", "state", "code"), [(CONTENT, "ok", 0), (None, "missing", 1), (b"x", "differs", 1)]
)
def test_check_tells_the_state_of_each_file_and_how_to_get_what_is_missing(
    source: Toy, capsys: Lines, content: bytes | None, state: str, code: int
) -> None:
    cached(source).parent.mkdir(parents=True)
    if content is not None:
        cached(source).write_bytes(content)

    assert data(source, "check", "toys") == code

    out, err = capsys.readouterr()
    listed = f"{state:8} {cached(source)}\n"
    assert out == f"toys: 1 {state}\n" + listed * (state == "differs")
    way = "`harness data fetch toys` downloads it; or name another folder with --data"
    assert (way in err) == (state == "missing")
    data(source, "check", "toys", "--json")
    assert [part["state"] for part in json.loads(capsys.readouterr().out)] == [state]


def test_a_row_without_a_value_has_no_rank(toy: Toy, capsys: Lines, stub: StubServer) -> None:
    stub.reply = lambda _: "neither"
    for model in ("oracle", "literal"):
        toy.run("--variant", "base", "--judge", "choice", model=model)
    capsys.readouterr()

    assert main(["leaderboard", "--results", str(toy.results)]) == 0

    out, err = capsys.readouterr()
    [line] = [line for line in out.splitlines() if "literal" in line]
    assert line.split()[:3] == ["-", "literal", "-"]
    assert "no verdict that could be read: oracle 12 unparsed; literal 12 unparsed" in err


@each(
    ("chosen", "head"),
    [((), "model    base  think"), (("--variant", "think"), "rank  model   value")],
)
def test_a_board_has_the_chosen(
    toy: Toy, capsys: Lines, chosen: tuple[str, ...], head: str
) -> None:
    toy.run("--variant", "base,think")
    capsys.readouterr()

    assert main(["leaderboard", "--results", str(toy.results), *chosen]) == 0

    out = capsys.readouterr().out
    assert re.findall(r"^(?:rank|model) .*", out, re.MULTILINE)[0].startswith(head)
    assert out.count("accuracy by near") == 1
    written = {row.score.variant for row in read_table(toy.results / "leaderboard.csv")}
    assert written == {"base", "think"}


def test_controls_on_six_items_are_too_few_to_tell(toy: Toy, capsys: Lines) -> None:
    toy.run("--variant", "base", model="oracle,literal")
    main(["leaderboard", "--results", str(toy.results)])
    assert "too few samples to know whether it is fit (6 of 10)" in capsys.readouterr().err
