"""Where runs cannot be written is found out before the first call is paid."""

import pytest
from support.stub_server import StubServer
from support.toy import Lines, Toy


@pytest.mark.parametrize("place", ["runs", "runs/toy", "runs/toy/beta"])
def test_a_file_in_the_place_of_a_folder_of_runs_is_told_before_any_call(
    toy: Toy, stub: StubServer, capsys: Lines, place: str
) -> None:
    path = toy.results / place
    path.parent.mkdir(parents=True)
    path.write_text("in the way", "utf-8")

    assert toy.run(model="alpha,beta") == 2

    assert f"{path}: runs cannot be written there" in capsys.readouterr().err
    assert stub.stats()["requests"] == 0
    assert path.read_text("utf-8") == "in the way"
    path.unlink()
    path.symlink_to(toy.folder / "nowhere")
    assert toy.run(model="alpha,beta") == 2
    assert "runs cannot be written there" in capsys.readouterr().err
    assert stub.stats()["requests"] == 0


def test_a_judge_is_not_paid_for_a_run_that_cannot_be_written(toy: Toy, stub: StubServer) -> None:
    assert toy.run("--variant", "base") == 0
    [folder] = toy.runs()
    before = stub.stats()["requests"]
    (folder / "scores.csv").unlink()
    (folder / "scores.csv").mkdir()

    assert toy.main("judge", str(folder), "--judge", "choice") == 2

    assert stub.stats()["requests"] == before


def test_what_can_be_written_is_left_as_it_is_where_the_run_breaks_off(toy: Toy) -> None:
    assert toy.run("--offline", model="oracle") == 2
    assert not toy.results.exists()
