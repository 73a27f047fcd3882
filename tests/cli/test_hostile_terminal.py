"""Whatever a server or a file calls itself, a terminal never obeys it."""

import logging

import pytest
from support.each import each
from support.hostile import ESCAPES, HostileServer, with_parts
from support.stub_script import Script
from support.toy import Lines, Toy

from harness.cli import main
from harness.cli.app import outcome
from harness.present.screen import ProgressLine, say, show_json, show_rows, warn

OBEYED = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n", "\t"}
OBEYED |= {chr(code) for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F))}
OBEYED |= {chr(code) for code in range(0x2066, 0x206A)}


def obeyed(text: str) -> set[str]:
    return OBEYED & set(text)


def test_a_judge_models_server_that_names_itself_in_escapes_shows_none(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(replies={"Judge": ("1",)})
    with HostileServer(with_parts(model=f"m{ESCAPES}"), script=script) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        toy.run("--variant", "base", "--judge", "choice", model="alpha")
    main(["leaderboard", "--results", str(toy.results)])
    main(["leaderboard", "--results", str(toy.results), "--json"])
    toy.main("list", "runs")

    tables = [path.read_text("utf-8") for path in toy.results.rglob("*.csv")]
    assert len(tables) == 2
    assert [obeyed(text) for text in (*capsys.readouterr(), *tables)] == [set()] * 4


def test_stored_escapes_of_an_earlier_version_are_not_shown(toy: Toy, capsys: Lines) -> None:
    toy.run("--variant", "base")
    scores = toy.runs()[0] / "scores.csv"
    scores.write_text(scores.read_text("utf-8").replace("|near:", f"|near{ESCAPES}:"), "utf-8")
    assert main(["leaderboard", "--results", str(toy.results)]) == 0

    assert [obeyed(text) for text in capsys.readouterr()] == [set(), set()]


@each(
    "put",
    [
        lambda: show_rows(ESCAPES, [ESCAPES], [[ESCAPES]]),
        *(lambda: say(ESCAPES), lambda: show_json({ESCAPES: [ESCAPES]}), lambda: warn(ESCAPES)),
        lambda: ProgressLine()(ESCAPES, 1, 1),
        lambda: main(["run", "--task", ESCAPES, "--model", ESCAPES]),
        lambda: main([ESCAPES]),
        lambda: main(["impscore", "score", ESCAPES]),
        lambda: outcome(lambda: dict[str, int]()[ESCAPES]),
    ],
)
def test_nothing_that_is_put_on_a_screen_holds_an_escape(put: object, capsys: Lines) -> None:
    assert callable(put)
    put()

    out, err = capsys.readouterr()
    assert out + err != ""
    assert obeyed(out + err) == set()


def test_a_message_of_a_library_holds_no_escape(capsys: Lines) -> None:
    main(["list"])
    logging.getLogger("harness.models.client").warning("batch %s: odd", ESCAPES)

    assert "odd" in (err := capsys.readouterr().err)
    assert obeyed(err) == set()
