"""A server that goes by an endless or a broken name takes no table with it."""

from pathlib import Path

import pytest
from support.batch_bench import Bench, Kind
from support.batch_bench import request as asked
from support.each import each
from support.hostile import HostileServer, with_parts
from support.stub_script import Script
from support.toy import Toy

from harness.cli import main
from harness.models.client.replies import LONGEST_NAME, read_served

LONG = "v" * 300_000


@each("served", ["m" * 201, "m" * 5000 + "\ud83d", "é" * 10_000, "m " * 400])
def test_a_long_name_is_cut_and_another_long_name_stays_another(served: str) -> None:
    cut = read_served({"model": served})

    assert cut is not None
    assert len(cut) == LONGEST_NAME == 200
    assert cut != read_served({"model": served + "!"})
    assert cut.encode("utf-8")


def test_a_judge_model_with_an_endless_name_leaves_the_leaderboard_readable(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(replies={"Judge": ("1",)})
    with HostileServer(with_parts(model=LONG), script=script) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        toy.run("--variant", "base", "--judge", "choice", model="alpha")

    assert main(["leaderboard", "--results", str(toy.results)]) == 0
    assert (toy.runs()[0] / "scores.csv").stat().st_size < 20_000


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_batch_by_an_endless_name_and_end_keeps_neither(kind: Kind, tmp_path: Path) -> None:
    with HostileServer(with_parts(model=LONG, stop_reason=LONG)) as stub:
        [response] = Bench(kind, stub, tmp_path).answers([asked("words")]).values()

    assert len(response.served or "") == LONGEST_NAME
    assert len(response.stop or "") <= LONGEST_NAME


@each("field", ["id", "root"])
def test_a_server_of_one_model_with_an_endless_name_is_not_asked(
    toy: Toy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    toy.write("configs/models/own.yaml", "kind: openai\nmodel: auto\nbase_url: http://h/v1\n"
              "base_url_env: HARNESS_SERVER_URL\nkey_env: null\n")  # fmt: skip
    entry = {"id": "m", "root": "m"} | {field: LONG}
    with HostileServer(script=Script(models=(entry,))) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        code = toy.run("--variant", "base", model="own")

    assert (code, stub.stats()["requests"]) == (2, 0)
    assert len(err := capsys.readouterr().err) < 2000
    assert "a name up to 200 characters" in err
