"""What a run says of a judge model that its provider shuts down, and of an old price."""

from datetime import date, timedelta

import pytest
from support.stub_server import StubServer
from support.toy import PRICES, Lines, Toy

TODAY = date.today()


def umpire(toy: Toy, ends: date) -> None:
    text = (toy.home / "configs/models/umpire.yaml").read_text("utf-8")
    toy.write("configs/models/umpire.yaml", f"{text}\nends: {ends}\n")


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (TODAY - timedelta(days=3), "its provider shut it down on"),
        (TODAY + timedelta(days=20), "its provider shuts it down on"),
        (TODAY + timedelta(days=200), None),
    ],
)
def test_a_model_past_its_end_is_told_before_it_is_asked(
    toy: Toy, stub: StubServer, capsys: Lines, ends: date, words: str | None
) -> None:
    umpire(toy, ends)

    toy.run("--judge", "choice", "--dry-run", model="alpha")

    told = [line for line in capsys.readouterr().err.splitlines() if "model umpire" in line]
    assert [f"{words} {ends}" in line for line in told] == ([True] if words else [])
    assert stub.stats()["answered"] == 0


def test_an_old_price_is_told_with_its_age(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    old, fresh = TODAY - timedelta(days=91), TODAY - timedelta(days=90)
    priced = PRICES.replace("2026-01-01", f"{old}", 1).replace("umpire", "beta")
    priced = priced.replace("2026-01-01", f"{fresh}")
    toy.write("configs/prices.yaml", priced)

    toy.run("--dry-run", model="alpha")
    toy.run("--dry-run", model="beta")

    told = [line for line in capsys.readouterr().err.splitlines() if "price was read" in line]
    assert [f"read on {old}, 91 days ago" in line for line in told] == [True]


def test_a_run_that_asks_nothing_warns_of_nothing(toy: Toy, capsys: Lines) -> None:
    umpire(toy, TODAY - timedelta(days=3))

    assert toy.main("list", "judges") == 0

    assert "WARNING" not in capsys.readouterr().err
