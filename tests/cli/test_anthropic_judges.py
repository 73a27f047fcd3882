"""Judges that ask one of Anthropic's models, and such a model under test, through the command."""

import json
from collections.abc import Iterator

import pytest
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import CLAUDE, SAMPLES, Lines, Toy

from harness.storage.runs import read_table

KEY = "sk-ant-nobody-sees"
STARS = """
    about: From 0 to 5.
    kind: rating
    model: claude
    template: judges/stars
    scale: {low: 0, high: 5}
    replies: 3
    decoding: {temperature: 1, max_tokens: 40}
"""
FORM = json.dumps({"analysis": "as it says", "score": 4})
PLAIN = 'Analysis: as it says. {"score": 3}'


@pytest.fixture
def claude(toy: Toy) -> Toy:
    toy.write("configs/models/claude.yaml", CLAUDE)
    toy.write("configs/judges/stars.yaml", STARS)
    toy.write("prompts/judges/stars.user.j2", "Rate {{ response }}")
    return toy


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    with StubServer(Script(replies={"Rate": (FORM,), "Judge": ("1",)}, key=KEY)) as server:
        monkeypatch.setenv("CLAUDE_URL", server.url.removesuffix("/v1"))
        monkeypatch.setenv("CLAUDE_KEY", KEY)
        yield server


def overall(toy: Toy, metric: str) -> set[float | None]:
    rows = [row.score for row in read_table(toy.runs()[0] / "scores.csv")]
    return {score.value for score in rows if (score.metric, score.group) == (metric, "all")}


def test_a_rating_judge_reads_the_form_a_claude_fills_in(claude: Toy, stub: StubServer) -> None:
    assert claude.run("--variant", "base", "--judge", "stars") == 0

    assert overall(claude, "mean_rating") == {4.0}
    assert overall(claude, "parsed_share") == {1.0}
    # One answer of the control to each sample, the same at both temperatures; three replies.
    assert stub.stats()["requests"] == 3 * SAMPLES


@pytest.mark.parametrize(("reply", "value", "code"), [(PLAIN, 3.0, 0), ("four", None, 1)])
def test_a_claude_without_forms_is_read_by_its_words(
    claude: Toy, stub: StubServer, reply: str, value: float | None, code: int
) -> None:
    claude.edit("configs/models/claude.yaml", "attempts: 2", "is_structured_output: false")
    stub.script = Script(replies={"": (reply,)}, key=KEY)
    assert claude.run("--variant", "base", "--judge", "stars") == code

    assert overall(claude, "mean_rating") == {value}
    assert not any("tools" in body for body in stub.bodies)


def test_a_preference_judge_asks_a_claude_in_both_orders(claude: Toy, stub: StubServer) -> None:
    code = claude.run(
        "--variant", "base", "--judge", "choice", "--judge-model", "claude", "--seed", "1"
    )

    assert code == 0
    # The first option each time: half of the orders, never the same reference twice.
    assert (overall(claude, "accuracy"), overall(claude, "consistency")) == ({0.5}, {0.0})
    assert stub.stats()["requests"] == 2 * SAMPLES


def test_the_key_stands_in_no_file_or_message(claude: Toy, stub: StubServer, capsys: Lines) -> None:
    asking = ("--judge", "stars", "--allow-self-judge")
    claude.run("--variant", "base", *asking, model="claude")
    stub.script = Script(key="changed")

    assert claude.run("--variant", "think", *asking, model="claude") == 2

    told = capsys.readouterr()
    files = [path.read_bytes() for path in claude.results.rglob("*") if path.is_file()]
    assert "check the key in CLAUDE_KEY" in told.err
    assert KEY not in told.out + told.err
    assert not any(KEY.encode() in content for content in files)
