"""Drift of two tables or runs, and the card of a moderation model, from the command line."""

import csv
import json
import re
from pathlib import Path

import pytest
from support.hate_rows import run_of, text
from support.packages import needs
from support.toy import MY_TEXTS, Lines, Toy, csv_rows, taking

from harness.cli import main
from harness.storage.runs import RunFolder

COLUMNS = ("--flag", "removed", "--implicitness", "score", "--by", "topic")


def table(path: Path, *, flagged: int, shift: float = 0.0) -> Path:
    """Sixty texts of two topics, of which the first ones were flagged, with their implicitness."""
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(("text", "removed", "topic", "score"))
        for n in range(60):
            said = "yes" if n < flagged else "no"
            out.writerow((f"{path.stem} text {n}", said, "ab"[n % 2], n / 60 + shift))
    return path


def of_two(toy: Toy) -> None:
    """Runs of two models on a table of the user's own, with a hostile name among its columns."""
    toy.write("configs/tables/mine.yaml", MY_TEXTS)
    path = toy.folder / "mine.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        sides = ("left", "<b>|right")
        rows = [(f"Text {n} x{n}.", str(n % 2), sides[n // 2 % 2]) for n in range(80)]
        csv.writer(file).writerows([("body", "verdict", "aimed_at"), *rows])
    options = ("--data", str(path), "--map", "mine", "--scorer", "none")
    for model in ("oracle", "constant-no"):
        assert toy.main("run", "--task", "hate_speech", "--model", model, *options) == 0


ran = taking(of_two)


def test_drift_of_two_tables_has_one_alarm_for_all_tests(tmp_path: Path, capsys: Lines) -> None:
    old = table(tmp_path / "may.csv", flagged=12)
    new = table(tmp_path / "june.csv", flagged=45, shift=0.4)
    out = tmp_path / "drift.csv"

    assert main(["drift", str(old), str(new), *COLUMNS, "--alarm", "-o", str(out)]) == 1

    said = capsys.readouterr().out
    assert "june.csv - may.csv" in said
    assert "drift beyond chance in 4 of 4 tests" in said
    rows = csv_rows(out)
    found = [f"{row['what']} {row['group']}" for row in rows]
    assert found == ["implicitness all", "flagged all", "flagged a", "flagged b"]
    assert float(rows[1]["change"]) == pytest.approx(33 / 60)
    assert main(["drift", str(old), str(old), *COLUMNS, "--alarm", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drift"] is False


def test_drift_of_two_runs_compares_hits_and_false_alarms(ran: Toy, capsys: Lines) -> None:
    runs = ("hate_speech/oracle", "hate_speech/constant-no")

    assert ran.main("drift", *runs, "--by", "target", "--json") == 0

    rows = json.loads(capsys.readouterr().out)["rows"]
    found = {(row["what"], row["group"]): row for row in rows}
    assert found["tpr", "all"]["change"] == -1
    assert found["tpr", "left"]["p_holm"] < 0.05
    assert found["fpr", "all"]["change"] == 0


def test_a_card_says_what_was_run_rates_and_limits(ran: Toy, capsys: Lines) -> None:
    out = ran.folder / "card.md"

    options = ("--by", "target", "-o", str(out))
    assert ran.main("rates", "--card", "hate_speech/constant-no", *options) == 0

    page = out.read_text("utf-8")
    assert page.startswith("# Moderation card: constant-no on hate\\_speech")
    assert "| all | 0.000 (0.000 to 0.088), n 40 | 0.000 (0.000 to 0.088), n 40 |" in page
    assert "## Limits" in page
    assert "50% of the texts are to be detected" in page
    assert "&lt;b&gt;\\|right" in page
    assert "<b>" not in page
    assert "Text 3" not in page
    assert "| Model | constant-no (a control, no model): scripted:constant-no@" in page
    assert not re.search("[0-9a-f]{40}", page)
    assert "| Texts | 80, asked by the prompt of variant base |" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("may.csv", "no-such-run"), "no-such-run is no file"),
        (("may.csv", "may.csv", "--flag", "topic", "--implicitness", "score"), "write 1, yes"),
        (("may.csv", "may.csv", "--implicitness", "topic"), "no number"),
        (("may.csv", "may.csv", *COLUMNS[:-1], "topics"), "did you mean topic"),
    ],
)
def test_what_cannot_be_compared_is_said(
    tmp_path: Path, words: tuple[str, ...], said: str, capsys: Lines
) -> None:
    path = str(table(tmp_path / "may.csv", flagged=12))
    assert main(["drift", *(path if word == "may.csv" else word for word in words)]) == 2
    assert said in capsys.readouterr().err


def test_a_card_at_a_wanted_rate_is_of_all_texts(tmp_path: Path, capsys: Lines) -> None:
    """Eighty benign texts, forty of which choose the threshold; twenty hateful ones."""
    rows = [
        text(f"t{n}", is_hateful=n < 20, at=0.5, said=0.0, sure=(n * 37 % 100) / 100)
        for n in range(100)
    ]
    file = run_of(rows)
    folder = RunFolder(tmp_path / "runs" / "toy" / "small" / file.digest[:16])
    folder.write(file, rows, [])
    out, where = tmp_path / "card.md", ("--fpr", "0.1", "--results", str(tmp_path))

    assert main(["rates", "--card", str(folder.path), *where, "-o", str(out)]) == 0
    assert main(["rates", str(folder.path), *where]) == 0

    page, said = out.read_text("utf-8"), capsys.readouterr().out
    assert "20% of the texts are to be detected" in page
    assert "60 answers measured, 40 left out to choose the threshold" in page
    point = "the rates are of the 60 of 100 texts that had no part in it"
    assert point in " ".join(said.split())
    assert point in page
    assert "flagged above probability 0." in page
    assert "flagged from" not in page


@pytest.mark.slow
def test_a_card_explains_its_rates_and_names_the_programs_samples(toy: Toy, capsys: Lines) -> None:
    assert toy.main("run", "--task", "hate_speech", "--model", "constant-no") == 0
    out = toy.folder / "card.md"

    options = ("--by", "target,group,target_kind", "-o", str(out))
    assert toy.main("rates", "--card", "hate_speech/constant-no", *options) == 0

    page = out.read_text("utf-8")
    assert "| Data | the task's own samples, hate\\_speech.jsonl (sha256 " in page
    assert "ishate" not in page
    assert "TPR is the share of the texts to detect that was flagged" in page
    assert page.count("95% interval over originals") == 1
    assert "none (no positive text)" in page
    assert re.search(r"None of the \d+ gaps that were tested is beyond chance", page)
    assert "Gaps of TPR and of FPR are tested. Those of precision are not: it depends on" in page
    assert (
        "Too few originals for a test of all their gaps: target (followers of the Ninth Bell, "
        in page
    )


@needs("sklearn")
def test_a_card_of_a_classifier_speaks_of_no_prompt(ran: Toy, capsys: Lines) -> None:
    table = (ran.folder / "mine.csv").read_text("utf-8").replace("Text", "Post")
    (ran.folder / "train.csv").write_text(table, "utf-8")
    ran.write(
        "configs/models/grams.yaml",
        "{about: a, kind: sklearn, head: logistic, encoder: {kind: char-ngrams}}",
    )
    task = ("--task", "hate_speech", "--map", "mine")
    data = ("--data", str(ran.folder / "mine.csv"), "--scorer", "none")
    out = ran.folder / "card.md"
    assert ran.main("train", "grams", *task, "--data", str(ran.folder / "train.csv")) == 0
    assert ran.main("run", *task, "--model", "grams", *data) == 0

    assert ran.main("rates", "--card", "hate_speech/grams", "-o", str(out)) == 0

    page = out.read_text("utf-8")
    assert "| Texts | 80, read as they are, without a prompt |" in page
    assert "this prompt" not in page


def test_drift_tells_how_many_texts_a_rate_is_of_in_80_columns(
    tmp_path: Path, capsys: Lines
) -> None:
    old, new = (table(tmp_path / f"{n}.csv", flagged=12, shift=0.1) for n in ("may", "june"))

    assert main(["drift", str(old), str(new), *COLUMNS]) == 0

    lines = capsys.readouterr().out.splitlines()
    [line] = [one for one in lines if one.startswith("topic: a")]
    assert line.split()[2:6] == ["0.200", "30", "0.200", "30"]
    rows = lines[1:6]
    assert rows[0].split()[:3] == ["of", "old", "n"]
    assert max(map(len, rows)) <= 80


def test_drift_by_groups_needs_something_to_compare(tmp_path: Path, capsys: Lines) -> None:
    old = table(tmp_path / "may.csv", flagged=12)
    assert main(["drift", str(old), str(old), "--implicitness", "score", "--by", "topic"]) == 2

    said = capsys.readouterr().err
    assert "--by: splits rates by groups" in said
    assert "--flag COLUMN" in said


def test_drift_that_could_not_be_tested_is_not_called_no_drift(
    tmp_path: Path, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.csv").write_text("text,gone,score\none,1,0.2\nother,0,0.4\n", "utf-8")
    words = ("drift", "two.csv", "two.csv", "--implicitness", "score", "--flag", "gone")

    assert main([*words, "--alarm"]) == 0

    said = capsys.readouterr()
    assert "no drift" not in said.out
    assert "nothing was tested: too few texts" in said.out
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["drift"] is None


def test_flags_in_numbers_are_read(
    tmp_path: Path, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of 1 and 0 with blank cells becomes 1.0 and 0.0 where pandas writes it."""
    monkeypatch.chdir(tmp_path)
    for name, cells in (("may", ["1.0", "0.0", "nan"]), ("june", ["1", "0", "0"])):
        lines = [f"{name} {n},{cells[n % 3]},{n or 'nan'}" for n in range(60)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,gone,score", *lines]), "utf-8")

    columns = ("--implicitness", "score", "--flag", "gone")
    assert main(["drift", "may.csv", "june.csv", *columns, "--json"]) == 0

    told = json.loads(capsys.readouterr().out)["rows"]
    [row] = [r for r in told if r["what"] == "flagged"]
    assert (row["old"], row["n_old"]) == (0.5, 40)
    assert (row["new"], row["n_new"]) == (pytest.approx(1 / 3), 60)
    assert [r["n_old"] for r in told if r["what"] == "implicitness"] == [59]


def test_drift_of_two_runs_by_a_column_not_kept_reads_both_files(toy: Toy, capsys: Lines) -> None:
    toy.write("configs/tables/mine.yaml", MY_TEXTS.replace("keep: {target: aimed_at}", ""))
    for tag in ("may", "june"):
        lines = [f"{tag} text {n} x{n}.,{n % 2},{'ab'[n // 2 % 2]}" for n in range(80)]
        path = toy.folder / f"{tag}.csv"
        path.write_text("\n".join(["body,verdict,aimed_at", *lines]), "utf-8")
        options = ("--data", str(path), "--map", "mine", "--scorer", "none", "--tag", tag)
        assert toy.main("run", "--task", "hate_speech", "--model", "constant-no", *options) == 0
    words = ("drift", "hate_speech/constant-no@may", "hate_speech/constant-no@june")
    capsys.readouterr()

    assert toy.main(*words, "--by", "aimed_at", "--json") == 0

    assert {"a", "b"} <= {row["group"] for row in json.loads(capsys.readouterr().out)["rows"]}
    (toy.folder / "june.csv").unlink()
    assert toy.main(*words, "--by", "aimed_at") == 2
    said = capsys.readouterr().err
    assert "june.csv" in said
    assert "keep:" in said
