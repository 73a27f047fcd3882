"""`harness report` writes a page; with --serve it is for this machine alone."""

import http.client
import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest
from support.report_runs import Sketch, write_runs
from support.stub_server import StubServer
from support.toy import Lines, Toy

from harness.cli import main
from harness.present.page.page import PageServer, page_data
from harness.storage.find_runs import run_folders


def test_report_writes_a_page_of_all_runs(toy: Toy, capsys: Lines) -> None:
    toy.run("--variant", "base")
    capsys.readouterr()

    assert main(["report", "--results", str(toy.results)]) == 0

    page = toy.results / "report.html"
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert "<noscript>" in page.read_text("utf-8")
    assert "Without a script: <code>leaderboard.csv</code> has the" in page.read_text("utf-8")
    assert capsys.readouterr().out.startswith(f"wrote 1 runs, 0.1 MB, to {page}; open it")


def test_a_page_of_labels_has_rates_by_group(toy: Toy) -> None:
    own = ("--results", str(toy.results), "--scorer", "none", "--limit", "12")
    assert main(["run", "--task", "hate_speech", "--model", "constant-yes", *own]) == 0

    sections = page_data(run_folders(toy.results), toy.results).sections
    (table,) = next(one for one in sections if one.name == "rates").tables
    names = [column["name"] for column in table.columns]

    assert names == ["group", "model", "TPR", "FPR", "precision"]
    assert table.rows[0][:2] == ["all", "constant-yes"]
    assert "1.0, 1.0" in re.sub(r"\((1.0), [^)]*\)", r"\1", str(table.rows[0]))


def test_no_task_is_called_unranked_if_a_recipe_of_it_is_ranked(toy: Toy, stub: StubServer) -> None:
    stub.reply = lambda prompt: "Yes."
    assert toy.run("--judge", "near", "--variant", "base", model="alpha") == 0
    assert toy.run("--judge", "near", "--variant", "base", "--limit", "2") == 0

    runs = run_folders(toy.results)
    lines = [line for one in page_data(runs, toy.results).sections for line in one.lines]
    assert any("one model is ranked" in line for line in lines)
    assert not any("No model is ranked" in line for line in lines)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    with PageServer(0, tmp_path, lambda: run_folders(tmp_path)) as made:
        thread = Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def asked(
    server: PageServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=names)
    reply = connection.getresponse()
    found = reply.status, dict(reply.getheaders()), reply.read()
    connection.close()
    return found


def test_a_server_listens_on_loopback_at_three_addresses_and_only_reads(server: PageServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert asked(server, "/")[0] == 200
    for path in ("/runs/", "/../", "/data/", "/calls", "/favicon.ico", "/state?x"):
        assert asked(server, path)[0] == 404, path
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert asked(server, "/", method)[0] == 501, method


def test_a_hundred_browsers_wait_in_line(tmp_path: Path) -> None:
    with PageServer(0, tmp_path, list) as busy, ExitStack() as opened:  # it answers none yet
        for _ in range(100):
            here = ("127.0.0.1", busy.server_port)
            opened.enter_context(socket.create_connection(here, timeout=1))


def test_a_page_of_another_site_gets_nothing(server: PageServer) -> None:
    assert asked(server, "/state", Host="evil.example")[0] == 403
    assert asked(server, "/state", Host=f"evil.example:{server.server_port}")[0] == 403
    assert asked(server, "/state", Sec_Fetch_Site="cross-site")[0] == 403
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest("GET", "/state")
    connection.putheader("Host", "evil.example")  # behind its own
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()
    status, headers, _ = asked(server, "/state", Origin="http://evil.example")
    assert status == 200
    assert not [name for name in headers if name.lower().startswith("access-control")]
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_a_run_that_ends_while_a_page_is_open_shows_up(server: PageServer, tmp_path: Path) -> None:
    before = json.loads(asked(server, "/state")[2])

    write_runs(tmp_path, Sketch(samples=6, models=(("alpha", 0.9),), has_choices=False))

    after = json.loads(asked(server, "/state")[2])
    assert (before["runs"], after["runs"]) == (0, 1)
    assert before["stamp"] != after["stamp"]
    status, headers, body = asked(server, "/data")
    assert (status, headers["Content-Type"], body[:2]) == (200, "application/gzip", b"\x1f\x8b")


def test_a_damaged_run_is_refused_without_its_path(server: PageServer, tmp_path: Path) -> None:
    write_runs(tmp_path, Sketch(samples=3, models=(("alpha", 0.9),), has_choices=False))
    next(tmp_path.glob("runs/*/*/*/answers.parquet")).write_text("{", "utf-8")
    status, _, body = asked(server, "/data")

    assert status == 503
    assert str(tmp_path) not in body.decode()


def test_of_a_browser_that_goes_away_nothing_is_said(
    server: PageServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for error in (ConnectionResetError, BrokenPipeError):
        try:
            raise error
        except ConnectionError:
            server.handle_error(None, ("127.0.0.1", 1))

    assert capfd.readouterr() == ("", "")


def test_a_port_not_to_be_had_is_named(server: PageServer, tmp_path: Path, capsys: Lines) -> None:
    for port in (server.server_port, 70000):
        assert main(["report", "--serve", "--port", str(port), "--results", str(tmp_path)]) == 2
        assert f"port {port}: " in capsys.readouterr().err


def test_page_and_exports_show_the_prompts_that_the_ledger_has(toy: Toy, tmp_path: Path) -> None:
    toy.run("--variant", "base")
    out = tmp_path / "x.json"

    assert main(["export", "inspect", str(toy.runs()[0]), "-o", str(out)]) == 0

    [first, *_] = json.loads(out.read_text("utf-8"))["samples"]
    assert [turn["role"] for turn in first["input"]] == ["user"]
    data = page_data(run_folders(toy.results), toy.results)
    assert len(data.prompts) == 6
