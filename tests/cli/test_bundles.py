"""Bundles: runs to a zip that a reviewer derives the same numbers from, offline."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support import stored_tables
from support.each import rest_slow
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Lines, Toy, build

from harness.cli import main
from harness.storage.bundle import MOST_FILES, pack, unpack

Change = Callable[[dict[str, bytes]], None]


def bundle(toy: Toy, out: Path, *options: str) -> int:
    return toy.main("bundle", *map(str, toy.runs()), "-o", str(out), *options)


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def changed(path: Path, change: Change) -> Path:
    files = contents(path)
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
    return Path(shutil.copy(made, tmp_path / "x.zip"))


def test_runs_by_gold_and_by_spelling_are_derived_the_same(controls: Path, capsys: Lines) -> None:
    capsys.readouterr()
    assert main(["bundle", "--check", str(controls)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(": the same (derived again from " in line for line in lines)


@pytest.mark.slow
def test_any_kernel_of_openblas_derives_the_same_numbers_and_slopes(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    toy = build(tmp_path_factory.mktemp("kernels"))
    toy.main("run", "--task", "hate_speech", "--model", "random")
    assert bundle(toy, toy.folder / "made.zip") == 0
    board = ["leaderboard", "--metrics", "--json", "--results", str(toy.results)]

    found = []
    for kernel in ("Haswell", "SkylakeX", "Zen", "Prescott", "Nehalem"):
        environment = {**os.environ, "OPENBLAS_CORETYPE": kernel}
        for command in (["bundle", "--check", str(toy.folder / "made.zip")], board):
            line = [sys.executable, "-m", "harness", *command]
            done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
            found.append(done.stdout)

    assert set(found[2::2]) == {found[0]}
    assert "the same (derived again" in found[0]
    assert set(found[3::2]) == {found[1]}
    assert '"slope_fpr_p"' in found[1]


@pytest.mark.slow
def test_averages_and_imports_are_derived_again(toy: Toy, tmp_path: Path, capsys: Lines) -> None:
    words = ("--task", "intent_detection", "--model")
    example = Path(__file__).parents[2] / "docs/examples/option_probabilities.csv"
    toy.main("import", str(example), *words, "small", "--map", "option_probabilities")
    toy.main("run", *words, "random", "--variant", "all", "--limit", "7")
    toy.main("judge", str(toy.runs()[0]), "--judge", "gold")

    assert bundle(toy, tmp_path / "x.zip") == 0
    assert "the same" in capsys.readouterr().out


def test_a_bundle_holds_the_calls_and_files_of_its_runs_alone(toy: Toy, tmp_path: Path) -> None:
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
    }
    assert "harness bundle --check FILE.zip" in (readme := files["README.md"].decode())
    assert "- toy, oracle: 6 samples, 12 answers, judged by near; missing: nothing" in readme


def test_the_readme_of_a_bundle_says_what_is_missing_of_each_run(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = {"Story number 3": ("500",) * 9, "Judge yes 2": ("500",) * 9}
    with StubServer(Script(replies={"Story number 2": ("yes 2",)}, faults=faults)) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        toy.run("--judge", "choice", "--variant", "base", model="alpha")
        assert bundle(toy, tmp_path / "x.zip") == 0

    readme = contents(tmp_path / "x.zip")["README.md"].decode()
    assert "; missing: 2 answers failed, 2 verdicts of choice failed" in readme


def test_bundles_elsewhere_are_equal(
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


def replaced(end: str, old: bytes, new: bytes) -> Change:
    """Put other bytes into the first file whose name ends so, of the run of texts if of a run."""

    def change(files: dict[str, bytes]) -> None:
        name = next(n for n in files if n.endswith(end) and ("/runs/" not in n or "/toy/" in n))
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return change


def in_table(table: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    return lambda files: edited(files, table, lambda rows: [row | change(row) for row in rows])


def other_place(files: dict[str, bytes]) -> None:
    for name in [name for name in files if name.startswith("results/runs/toy/")]:
        files[name.replace("/toy/", "/atoy/")] = files.pop(name)


def no_scores(files: dict[str, bytes]) -> None:
    del files[next(n for n in files if "/toy/" in n and n.endswith("scores.csv"))]
    name = next(n for n in files if "/toy/" in n and n.endswith("/SHA256SUMS"))
    lines = files[name].splitlines(keepends=True)
    files[name] = b"".join(line for line in lines if b"scores.csv" not in line)


def lost_call(files: dict[str, bytes]) -> None:
    name = "results/calls/oracle/calls.jsonl"
    files[name] = b"".join(files[name].splitlines(keepends=True)[1:])


def with_file(name: str, data: bytes) -> Change:
    return lambda files: files.update({name: data})


@pytest.mark.parametrize(
    ("change", "facts"),
    rest_slow(
        [
            (
                replaced("scores.csv", b",1.0,", b",0.9,"),
                ["near accuracy: '0.9' is stored, '1.0' derived"],
            ),
            (
                in_table(
                    "answers", lambda row: {"answer": row["answer"].replace("yes 3", "never 3")}
                ),
                ["answers.parquet: answer of ", ": 'never 3' is stored, 'yes 3' derived"],
            ),
            (
                in_table("verdicts", lambda row: {"note": "as I say"} if row["row"] == 0 else {}),
                ["verdicts.parquet: note of ", " near: 'as I say' is stored, None derived"],
            ),
            (
                in_table("verdicts", lambda row: {"cluster": "one"}),
                ["verdicts.parquet: cluster of ", "(and 11 more rows)"],
            ),
            (
                with_file("home/prompts/toy/base.user.j2", b"Story {{ story }} What else is said?"),
                ["differs"],
            ),
            (lost_call, ["are not stored"]),
            (no_scores, ["scores.csv: 0 rows are stored"]),
            (other_place, ["run.json: is of run toy/oracle/"]),
            (
                with_file("results/leaderboard.csv", b"model,value\noracle,0.1\n"),
                ["results/leaderboard.csv: nothing derives it"],
            ),
        ],
        kept=slice(None, None, 3),
    ),
)
def test_a_change_is_found(controls: Path, change: Change, facts: list[str], capsys: Lines) -> None:
    assert main(["bundle", "--check", str(changed(controls, change))]) == 1

    out = capsys.readouterr().out
    assert [fact for fact in facts if fact not in out] == []
    assert re.search(f"{re.escape(facts[0])}.*\n(.*\n)*quiz/random/.*: the same", out)


@pytest.mark.slow
def test_code_in_a_bundle_is_never_run(toy: Toy, tmp_path: Path, capsys: Lines) -> None:
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
    code = "from pathlib import Path\n\nclass Own:\n    def encode(self, texts):\n        "
    code += (
        f"return Path({str(tmp_path / 'ran.txt')!r}).write_text('x') and [[1, 2] for _ in texts]"
    )
    (tmp_path / "own.py").write_text(code)
    near = (toy.home / "configs/judges/near.yaml").read_text("utf-8")
    own = f"{{kind: python, entry: '{tmp_path / 'own.py'}:Own'}}"
    toy.write("configs/judges/hidden.yaml", near.replace("{kind: char-ngrams}", own))
    assert toy.run("--judge", "mine,near,hidden") == 0
    (tmp_path / "ran.txt").unlink()

    assert bundle(toy, tmp_path / "x.zip") == 1
    assert main(["bundle", "--check", str(tmp_path / "x.zip")]) == 1

    assert not (tmp_path / "ran.txt").exists()
    out = capsys.readouterr().out
    assert "not derived: judge mine: it is code of its own" in out
    assert "not derived: judge hidden: it is code of its own" in out
    assert "differs" not in out
    assert "home/configs/judges/mine.py" in contents(tmp_path / "x.zip")


def test_keys_and_paths_of_this_machine_stop_a_bundle(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Lines
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


def test_the_value_of_a_header_of_a_moderation_model_stops_a_bundle(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Lines
) -> None:
    toy.write(
        "configs/models/mod.yaml", "kind: moderation\nmodel: m\nheaders_env: {X-Team: TEAM}\n"
    )
    toy.run("--judge", "near")
    monkeypatch.setenv("TEAM", "What is said next?")

    assert bundle(toy, tmp_path / "x.zip") == 2
    assert "the key in TEAM in it" in capsys.readouterr().err


def test_the_path_of_a_column_map_stops_a_bundle(toy: Toy, tmp_path: Path, capsys: Lines) -> None:
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

    assert bundle(toy, tmp_path / "x.zip") == 2

    assert "the path of a column map" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    ["../out.txt", "/etc/out.txt", "a/../../out.txt", "a\\..\\out.txt", "C:out.txt", "../folder/"],
)
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str, capsys: Lines) -> None:
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), b"x")

    assert main(["bundle", "--check", str(path)]) == 2

    assert "may lead out" in capsys.readouterr().err
    assert not (tmp_path / "out.txt").exists()


def test_links_twins_bombs_and_what_is_no_zip_are_refused(tmp_path: Path, capsys: Lines) -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    for name, entries, fact in (
        ("link.zip", [(link, b"/etc/passwd")], "is a link"),
        ("many.zip", [(f"f{n}", b"") for n in range(MOST_FILES + 1)], "more than 10000"),
        ("other.zip", [("a", b"1")], "no run in it"),
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


def test_a_bundle_zipped_again_with_its_folders_is_read(controls: Path, tmp_path: Path) -> None:
    files = contents(controls)
    with zipfile.ZipFile(tmp_path / "again.zip", "w") as archive:
        archive.writestr("results/", b"")
        for name, data in files.items():
            archive.writestr(name, data)

    assert main(["bundle", "--check", str(tmp_path / "again.zip")]) == 0
