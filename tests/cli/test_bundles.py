"""Bundles: runs to a zip that a reviewer derives the same numbers from, offline."""

import io
import shutil
import zipfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support import stored_tables
from support.stub_server import StubServer
from support.toy import Toy, build

from harness.cli import main
from harness.storage.bundle import MOST_FILES, pack, unpack

Change = Callable[[dict[str, bytes]], None]


def bundle(toy: Toy, out: Path, *options: str) -> int:
    return toy.main("bundle", *map(str, toy.runs()), "-o", str(out), *options)


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def changed(path: Path, change: Change) -> Path:
    """The bundle with some files changed, and every sum made to fit again."""
    files = contents(path)
    del files["SHA256SUMS"]
    change(files)
    for name in [name for name in files if name.endswith("/SHA256SUMS")]:
        folder = name.rpartition("/")[0]
        lines = files[name].decode().splitlines()
        names = [line.split("  ")[1] for line in lines]
        sums = [f"{sha256(files[f'{folder}/{one}']).hexdigest()}  {one}\n" for one in names]
        files[name] = "".join(sums).encode()
    other = path.with_name("changed.zip")
    other.write_bytes(pack(files))
    return other


def edited(
    files: dict[str, bytes],
    table: str,
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
) -> None:
    """Change the rows of a table of the run of texts, and the sums of its folder."""
    name = next(n for n in files if "/toy/" in n and n.endswith(f"{table}.parquet"))
    start = name.removesuffix(f"{table}.parquet")
    with TemporaryDirectory() as place:
        folder = Path(place)
        for part in (n for n in files if n.startswith(start)):
            (folder / part.removeprefix(start)).write_bytes(files[part])
        stored_tables.edit(folder, table, change)
        stored_tables.renew_sums(folder)
        for part in (n for n in files if n.startswith(start)):
            files[part] = (folder / part.removeprefix(start)).read_bytes()


def one(files: Mapping[str, bytes], end: str) -> str:
    [name] = [name for name in files if name.endswith(end)]
    return name


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a run that choices answer and of one that texts do."""
    toy = build(tmp_path_factory.mktemp("made"))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("HARNESS_DATA", raising=False)
        assert toy.main("run", "--task", "quiz", "--model", "random", "--limit", "6") == 0
        assert toy.run("--judge", "near", "--variant", "base") == 0
        assert bundle(toy, toy.folder / "x.zip") == 0
    return toy.folder / "x.zip"


@pytest.fixture
def controls(made: Path, tmp_path: Path) -> Path:
    """A copy of that bundle."""
    return Path(shutil.copy(made, tmp_path / "x.zip"))


def test_runs_by_gold_and_by_spelling_are_derived_again_to_the_same_bytes(
    controls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert main(["bundle", "--check", str(controls)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(": the same (derived again from " in line for line in lines)


@pytest.mark.slow
def test_averages_and_imported_answers_are_derived_again(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--task", "intent_detection", "--model")
    example = Path(__file__).parents[2] / "docs/examples/option_probabilities.csv"
    toy.main("import", str(example), *words, "small", "--map", "option_probabilities")
    toy.main("run", *words, "random", "--variant", "all", "--limit", "7")
    toy.main("judge", str(toy.runs()[0]), "--judge", "gold")

    assert bundle(toy, tmp_path / "x.zip") == 0
    assert "the same" in capsys.readouterr().out


def test_a_bundle_holds_the_calls_of_its_runs_alone_and_what_they_used(
    toy: Toy, tmp_path: Path
) -> None:
    toy.run("--variant", "base")
    [run] = toy.runs()
    toy.run("--variant", "think")
    whole = b"".join(p.read_bytes() for p in (toy.results / "calls" / "oracle").iterdir())

    assert toy.main("bundle", str(run), "-o", str(tmp_path / "x.zip")) == 0

    files = contents(tmp_path / "x.zip")
    calls = files["results/calls/oracle/calls.jsonl"].splitlines()
    assert len(calls) == 12 < len(whole.splitlines())
    assert set(calls) <= set(whole.splitlines())
    assert {name for name in files if name.startswith("home/")} == {
        "home/configs/judges/near.yaml",
        "home/prompts/toy/base.user.j2",
        "home/tasks/toy.yaml",
    }
    assert "harness bundle --check FILE.zip" in files["README.md"].decode()


def test_a_bundle_made_in_another_folder_has_the_same_bytes(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.run("--judge", "near")
    bundle(toy, tmp_path / "x.zip")
    other = build(tmp_path / "elsewhere" / "far")
    shutil.copytree(toy.results, other.results)
    for path in (other.results / "calls" / "oracle").iterdir():
        path.rename(path.with_name(path.name.replace("-", "-another-", 1)))
    monkeypatch.chdir(other.folder)

    assert bundle(other, tmp_path / "y.zip") == 0

    assert (tmp_path / "x.zip").read_bytes() == (tmp_path / "y.zip").read_bytes()


def test_a_judge_that_asked_a_server_is_derived_with_no_server_and_no_key(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StubServer(reply=lambda prompt: "1" if "Judge" in prompt else "Yes.") as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        assert toy.run("--judge", "choice,near", "--limit", "4", model="alpha") == 0
        assert bundle(toy, tmp_path / "x.zip") == 0
        asked = len(stub.bodies)
    monkeypatch.delenv("HARNESS_SERVER_URL")
    shutil.rmtree(toy.home)
    shutil.rmtree(toy.results)

    assert main(["bundle", "--check", str(tmp_path / "x.zip")]) == 0

    assert asked > 0
    assert "results/calls/umpire/calls.jsonl" in contents(tmp_path / "x.zip")


def test_a_number_that_was_changed_is_found_though_all_sums_fit(
    controls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def better(files: dict[str, bytes]) -> None:
        name = next(name for name in files if "/toy/" in name and name.endswith("scores.csv"))
        assert b",1.0," in files[name]
        files[name] = files[name].replace(b",1.0,", b",0.9,", 1)

    assert main(["bundle", "--check", str(changed(controls, better))]) == 1

    out = capsys.readouterr().out
    assert "scores.csv: other values are derived" in out
    assert "score accuracy of base, all by near: 1.0 is derived" in out
    assert "quiz/random" in out
    assert ": the same" in out


def test_an_answer_that_was_changed_is_found_in_the_calls(
    controls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(files: dict[str, bytes]) -> None:
        edited(files, "answers", lambda rows: [r | {"answer": said(r["answer"])} for r in rows])

    def said(answer: str) -> str:
        return "never 3" if answer == "yes 3" else answer

    assert main(["bundle", "--check", str(changed(controls, other))]) == 1

    assert "answer 'never 3' is stored, 'yes 3' derived" in capsys.readouterr().out


def test_a_verdict_that_was_changed_is_told_by_what_differs(
    controls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(files: dict[str, bytes]) -> None:
        edited(files, "verdicts", lambda rows: [rows[0] | {"note": "as I say"}, *rows[1:]])

    assert main(["bundle", "--check", str(changed(controls, other))]) == 1

    out = capsys.readouterr().out
    assert "near 1.0: note 'as I say' is stored, '' derived" in out


def test_prompts_that_were_not_asked_are_found(
    controls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(files: dict[str, bytes]) -> None:
        files["home/prompts/toy/base.user.j2"] = b"Story {{ story }} What else is said?"

    assert main(["bundle", "--check", str(changed(controls, other))]) == 1

    assert "differs" in capsys.readouterr().out


def test_a_lost_call_and_a_file_without_a_fitting_sum_are_told(
    controls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def lost(files: dict[str, bytes]) -> None:
        name = "results/calls/oracle/calls.jsonl"
        files[name] = b"".join(files[name].splitlines(keepends=True)[1:])

    assert main(["bundle", "--check", str(changed(controls, lost))]) == 1
    assert "are not stored" in capsys.readouterr().out
    with zipfile.ZipFile(controls, "a") as archive:
        archive.writestr("more.txt", "more")
    assert main(["bundle", "--check", str(controls)]) == 1
    assert "changed: more.txt: not in SHA256SUMS" in capsys.readouterr().out


def test_a_run_its_scores_or_words_of_the_index_that_were_taken_or_made_up_are_found(
    controls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_run(files: dict[str, bytes]) -> None:
        for name in [name for name in files if name.startswith("results/runs/toy/")]:
            del files[name]

    def no_scores(files: dict[str, bytes]) -> None:
        del files[next(n for n in files if "/toy/" in n and n.endswith("scores.csv"))]
        name = next(n for n in files if "/toy/" in n and n.endswith("/SHA256SUMS"))
        lines = files[name].splitlines(keepends=True)
        files[name] = b"".join(line for line in lines if b"scores.csv" not in line)

    def other_model(files: dict[str, bytes]) -> None:
        files["bundle.json"] = files["bundle.json"].replace(b'"random"', b'"gpt-9"')

    def other_judge(files: dict[str, bytes]) -> None:
        files["bundle.json"] = files["bundle.json"].replace(b'"near"', b'"people"')

    def no_list(files: dict[str, bytes]) -> None:
        files["bundle.json"] = b'{"runs": 3}'

    def own_board(files: dict[str, bytes]) -> None:
        files["results/leaderboard.csv"] = b"model,value\noracle,0.1\n"

    for change, fact in (
        (no_run, "changed: bundle.json: names the run toy/oracle/"),
        (no_scores, "scores.csv: other values are derived"),
        (other_model, "changed: bundle.json: names the run quiz/gpt-9/"),
        (other_judge, "changed: bundle.json: says otherwise of the run toy/oracle/"),
        (no_list, "changed: bundle.json: says otherwise of the run toy/oracle/"),
        (own_board, "changed: results/leaderboard.csv: nothing derives this file"),
    ):
        assert main(["bundle", "--check", str(changed(controls, change))]) == 1, fact
        assert fact in capsys.readouterr().out


def test_code_in_a_bundle_is_never_run(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.write("configs/judges/mine.yaml", "about: Mine.\nkind: python\nentry: mine.py:Mine\n")
    toy.write(
        "configs/judges/mine.py",
        f"""
        from pathlib import Path
        from harness.core import Verdict
        from harness.judges.custom import ComputedJudge

        Path({str(tmp_path / "ran.txt")!r}).write_text("ran")

        class Mine(ComputedJudge):
            metric = "accuracy"

            def read(self, cases):
                return [Verdict(case.response.key, self.name, 1.0) for case in cases]
        """,
    )
    assert toy.run("--judge", "mine,near") == 0
    (tmp_path / "ran.txt").unlink()

    assert bundle(toy, tmp_path / "x.zip") == 1
    assert main(["bundle", "--check", str(tmp_path / "x.zip")]) == 1

    assert not (tmp_path / "ran.txt").exists()
    out = capsys.readouterr().out
    assert "not derived: judge mine: it is code of its own" in out
    assert "differs" not in out
    assert "home/configs/judges/mine.py" in contents(tmp_path / "x.zip")


def test_keys_and_paths_of_this_machine_stop_a_bundle(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy.run("--judge", "near")
    monkeypatch.setenv("OPENAI_API_KEY", "What is said next?")

    assert bundle(toy, tmp_path / "x.zip") == 2
    assert "the key in OPENAI_API_KEY in it" in capsys.readouterr().err
    monkeypatch.delenv("OPENAI_API_KEY")
    toy.write(
        "configs/judges/near.yaml",
        f"# {toy.home}\n" + (toy.home / "configs/judges/near.yaml").read_text("utf-8"),
    )
    assert bundle(toy, tmp_path / "x.zip") == 2
    assert "a path of this machine" in capsys.readouterr().err
    assert not (tmp_path / "x.zip").exists()


def test_a_column_map_named_by_a_path_is_named_without_it(toy: Toy, tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text("body,verdict\nOne.,1\nTwo.,0\nThree.,0\n", "utf-8")
    path = tmp_path / "maps" / "own.yaml"
    path.parent.mkdir()
    path.write_text(
        "about: Mine.\nsource: mine\ntext: body\n"
        'label: {column: verdict, classes: {hateful: ["1"], benign: ["0"]}}\n',
        "utf-8",
    )
    options = ("--data", str(table), "--map", str(path), "--scorer", "none")
    assert toy.main("run", "--task", "hate_speech", "--model", "random", *options) == 0

    assert bundle(toy, tmp_path / "x.zip") == 0

    files = contents(tmp_path / "x.zip")
    assert "home/configs/tables/own.yaml" in files
    assert not any(str(tmp_path).encode() in data for data in files.values())


@pytest.mark.parametrize(
    ("name", "fact"),
    [
        ("../out.txt", "may lead out"),
        ("/etc/out.txt", "may lead out"),
        ("a/../../out.txt", "may lead out"),
        ("a\\..\\out.txt", "may lead out"),
        ("C:out.txt", "may lead out"),
        ("../folder/", "may lead out"),
    ],
)
def test_a_name_that_leads_out_of_the_folder_is_refused(
    tmp_path: Path, name: str, fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), b"x")

    assert main(["bundle", "--check", str(path)]) == 2

    assert fact in capsys.readouterr().err
    assert not (tmp_path / "out.txt").exists()


def test_links_twins_bombs_and_what_is_no_zip_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    for name, entries, fact in (
        ("link.zip", [(link, b"/etc/passwd")], "is a link"),
        ("twins.zip", [("a", b"1"), ("A", b"2")], "holds 'A' twice"),
        ("many.zip", [(f"f{n}", b"") for n in range(MOST_FILES + 1)], "more than 10000"),
        ("other.zip", [("a", b"1")], "no bundle.json or no run in it"),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for entry, data in entries:
                archive.writestr(entry, data)
        assert main(["bundle", "--check", str(tmp_path / name)]) == 2
        assert fact in capsys.readouterr().err
    (tmp_path / "no.zip").write_bytes(b"no zip")
    assert main(["bundle", "--check", str(tmp_path / "no.zip")]) == 2
    assert main(["bundle", "--check", str(tmp_path / "gone.zip")]) == 2


def test_a_bomb_is_stopped_by_what_comes_out_of_it_not_by_what_it_states(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    path.write_bytes(pack({"a": bytes(3 << 20)}))
    assert path.stat().st_size < 10_000
    (folder := tmp_path / "in").mkdir()

    with pytest.raises(Exception, match="unpacks to more than"):
        unpack(path, folder, most_bytes=1 << 20)

    assert sum(p.stat().st_size for p in folder.iterdir()) <= 1 << 20


def test_a_bundle_that_was_zipped_again_with_its_folders_is_read(
    controls: Path, tmp_path: Path
) -> None:
    files = contents(controls)
    with zipfile.ZipFile(tmp_path / "again.zip", "w") as archive:
        archive.writestr("results/", b"")
        for name, data in files.items():
            archive.writestr(name, data)

    assert main(["bundle", "--check", str(tmp_path / "again.zip")]) == 0


def test_packing_heeds_neither_order_nor_clock() -> None:
    first = pack({"b": b"2", "a": b"1"})

    assert first == pack({"a": b"1", "b": b"2"})
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        assert archive.namelist() == ["SHA256SUMS", "a", "b"]
