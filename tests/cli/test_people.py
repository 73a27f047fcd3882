"""The commands for people's ratings, from runs to a sheet, its ratings and agreement.csv."""

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support.toy import Lines, Toy, csv_rows, taking

from harness.cli import main
from harness.storage.runs import RunFolder


def controls(toy: Toy) -> None:
    toy.run("--variant", "base", model="oracle,literal")


ran = taking(controls)


def export(toy: Toy, name: str, *more: str) -> int:
    given = ("-o", str(toy.folder / name), "--results", str(toy.results))
    return main(["sheet", "ratings", *map(str, toy.runs()), *given, *more])


def bring(toy: Toy, name: str, *more: str) -> int:
    key = toy.folder / f"{Path(name).stem}.key.csv"
    given = ("--key", str(key), "-o", str(toy.folder / "r.csv"))
    return main(["sheet", "read-ratings", str(toy.folder / name), *given, *more])


def agree(toy: Toy, *more: str) -> int:
    given = ("--results", str(toy.results), "--draws", "50")
    return main(["agree", "--ratings", str(toy.folder / "r.csv"), *given, *more])


def table(toy: Toy) -> list[dict[str, str]]:
    return csv_rows(toy.results / "agreement.csv")


def rate(toy: Toy, name: str) -> None:
    """Fill a CSV sheet: 1 for a yes, 0 for a never."""
    with (toy.folder / name).open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    rated = [[*row[:-1], "1" if row[-2].startswith("yes") else "0"] for row in rows]
    with (toy.folder / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rated])


@pytest.fixture
def rated_sheet(ran: Toy) -> Toy:
    """Both runs, with the ratings of a sheet of them."""
    assert export(ran, "sheet.csv") == 0
    rate(ran, "sheet.csv")
    assert bring(ran, "sheet.csv") == 0
    return ran


def test_a_sheet_goes_out_is_rated_and_comes_to_agreement(ran: Toy) -> None:
    codes = [export(ran, "sheet.csv")]
    assert bring(ran, "sheet.csv") == 2  # nobody has filled it in
    assert not (ran.folder / "r.csv").exists()
    rate(ran, "sheet.csv")
    codes += [bring(ran, "sheet.csv"), agree(ran)]

    assert codes == [0, 0, 0]
    [row] = [row for row in table(ran) if row["statistic"] == "pearson_dataset"]
    assert float(row["value"]) == pytest.approx(1)
    assert (row["documents"], row["systems"], row["n"]) == ("6", "2", "12")
    sheet = ran.folder / "sheet.csv"
    worked_in = sheet.read_text()
    assert export(ran, "sheet.csv") == 2
    assert sheet.read_text() == worked_in
    assert not any(word in worked_in for word in ("oracle", "literal", "near", "T0"))


def test_answers_under_another_token_limit_are_not_rated_by_ratings_of_the_first(
    rated_sheet: Toy, capsys: Lines
) -> None:
    rated_sheet.edit(
        "tasks/toy.yaml", "{temperature: 0, max_tokens: 20}", "{temperature: 0, max_tokens: 30}"
    )
    assert rated_sheet.run(model="oracle") == 0
    capsys.readouterr()

    assert agree(rated_sheet) == 0

    assert "recipes, which are not compared" not in capsys.readouterr().err
    assert [row["systems"] for row in table(rated_sheet) if row["statistic"] == "acc_eq"] == ["2"]


def test_rows_of_other_tasks_stay_in_the_table_and_json_has_those_of_this_one(
    rated_sheet: Toy, capsys: Lines
) -> None:
    path = rated_sheet.results / "agreement.csv"
    path.write_text("task,statistic,value,signature\nother,pearson_dataset,-0.5,a|b\n", "utf-8")
    capsys.readouterr()

    agree(rated_sheet, "--json")

    printed = json.loads(capsys.readouterr().out)
    *rows, other = table(rated_sheet)
    assert [row["statistic"] for row in printed] == [row["statistic"] for row in rows]
    assert (other["task"], other["value"], other["signature"]) == ("other", "-0.5", "a|b")
    assert (other["judge"], other["p_holm"]) == ("", "")


def test_a_judge_of_two_orders_is_read_by_one_of_them(rated_sheet: Toy, capsys: Lines) -> None:
    ran = rated_sheet
    assert agree(ran, "--orders", "first") == 2
    assert "no verdict of task toy was asked for in two orders" in capsys.readouterr().err
    for folder in ran.runs():
        run = RunFolder(folder)
        detail = {"slot1_share": 1.0, "consistency": 0.0}
        rows = [
            replace(row, verdicts={"near": replace(row.verdicts["near"], value=0.5, detail=detail)})
            for row in run.read_rows()
        ]
        run.write(run.read(), rows, run.read_scores())
    shares = {}
    for orders in ("both", "first", "second"):
        assert agree(ran, "--orders", orders) == 0
        [row] = [row for row in table(ran) if row["statistic"] == "agreement_pairwise_judge"]
        shares[orders] = float(row["value"])
        assert (orders == "both") == ("24 verdicts are .5" in row["note"])
        assert (f"{orders} order of the options alone" in row["averaging"]) == (orders != "both")

    # Half the answers are right: all are accepted in the first order, none in the second.
    assert shares == {"both": 0.0, "first": 0.5, "second": 0.5}
    capsys.readouterr()


SHEET = """
    about: What is said next.
    item: "{{ story }} What is meant: {{ right }}"
    question: Is it said?
    shows: [right]
    scale:
      - {value: 1, word: "yes", means: it is said}
      - {value: 0, word: "no", means: something else is said}
"""


def fill(path: Path, marks: Mapping[str, str]) -> str:
    """Rate a file as a European spreadsheet saves it, by how answers begin; its last column."""
    head, *rows = csv.reader(path.read_text("utf-8-sig").splitlines())
    rated = [[*row[:-1], marks[row[-2].split()[0]]] for row in rows]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows([head, *rated])
    return head[-1]


def test_three_raters_rate_a_tasks_own_sheet_in_files_of_five_rows(ran: Toy, capsys: Lines) -> None:
    ran.write("configs/sheets/toy.yaml", SHEET)
    dealt = ["--raters", "ann,bob,cyd", "--per-answer", "2", "--per-file", "5"]
    assert export(ran, "s.csv", *dealt, "--home", str(ran.home)) == 0
    files = sorted(ran.folder.glob("s-*.csv"))
    told = capsys.readouterr()
    raters = [fill(path, {"yes": "yes", "never": "no"}) for path in files]

    key = ["--key", str(ran.folder / "s.key.csv"), "-o", str(ran.folder / "r.csv")]
    code = main(["sheet", "read-ratings", *map(str, files), *key])

    assert (code, agree(ran)) == (0, 0)
    assert raters == ["ann", "ann", "bob", "bob", "cyd", "cyd"]
    assert "raters: ann (8), bob (8), cyd (8)" in capsys.readouterr().out
    assert "it is said" in (ran.folder / "s.guide.txt").read_text("utf-8")
    assert "variant base, T0 (others: --variant, --temperature)" in told.err
    [row] = [row for row in table(ran) if row["statistic"] == "pearson_dataset"]
    assert float(row["value"]) == pytest.approx(1)


def test_answers_that_are_equal_at_two_temperatures_are_rated_once(ran: Toy, capsys: Lines) -> None:
    assert export(ran, "s.csv", "--temperature", "0,0.5") == 0
    rate(ran, "s.csv")

    assert bring(ran, "s.csv") == 0

    told = capsys.readouterr()
    assert "wrote 12 rows" in told.out
    assert "24 answers, equal ones in one row" in told.err
    assert "wrote 24 ratings" in told.out
    assert "raters: s (24)" in told.out


def test_decodings_and_fields_are_named_in_order_of_plan_and_data(toy: Toy, capsys: Lines) -> None:
    toy.edit("tasks/toy.yaml", "temperature: 0,", "temperature: 0.7,")
    samples = toy.home / "tasks/samples/toy.jsonl"
    samples.write_text(samples.read_text("utf-8").replace('."}', '.", "aside": "so"}'), "utf-8")
    assert toy.run("--variant", "base") == 0
    capsys.readouterr()

    assert export(toy, "s.csv", "--temperature", "all") == 0
    assert main(["show", str(toy.runs()[0]), "--results", str(toy.results)]) == 0

    out, err = capsys.readouterr()
    assert "variant base, T0.7, T0.5; 12 answers" in err
    assert "temperatures 0.7, 0.5;" in out
    assert (toy.folder / "s.csv").read_text("utf-8-sig").startswith("row,story,aside,answer,")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--per-answer", "2"], "name as many with --raters"),
        (["--raters", "../ann"], "--raters '../ann'"),
        (["--temperature", "hot"], "--temperature Thot: not in all"),
        (["--temperature", "0.7"], "T0.7: not in all of these runs; did you mean"),
    ],
)
def test_what_a_sheet_cannot_be_is_said(
    ran: Toy, capsys: Lines, more: list[str], message: str
) -> None:
    ran.write("configs/sheets/toy.yaml", SHEET)
    assert export(ran, "s.csv", "--home", str(ran.home), *more) == 2
    assert message in capsys.readouterr().err


def test_judges_have_a_sentence_and_a_line_the_raters_one(rated_sheet: Toy, capsys: Lines) -> None:
    agree(rated_sheet)

    said = capsys.readouterr().out
    assert re.search(r"^near: r 1\.00.*, on 12 cells; rates 100% as a rater does", said, re.M)
    assert "raters: no agreement is known: one rater" in said
    assert re.search(r"^judge +r +95% interval .*\nnear +1\.000 ", said, re.M)
    assert "kendall_document" not in said
    assert said.count("mean over raters; each answer at T0 by itself") == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "1 of 1 ratings match no response"),
        (["--rater-kind", "alien"], "give expert, skilled or crowd"),
        (["--level", "ratio"], "give nominal, ordinal or interval"),
        (["--orders", "third"], "give both, first or second"),
        (["--judge", "neer"], "did you mean near"),
        (["--task", "tye"], "no rating of task 'tye'"),
        (["--task", "toy,tye"], "no rating of task 'tye'"),
        (["--judge", "near, neer"], "by judge 'neer'"),
    ],
)
def test_a_mistake_is_one_message_and_ratings_of_nothing_have_an_exit_code(
    ran: Toy, capsys: Lines, more: list[str], message: str
) -> None:
    lines = "task,sample_id,model,rater,value,scale\ntoy,gone,oracle,ann,3,base\n"
    (ran.folder / "r.csv").write_text(lines, "utf-8")

    code = agree(ran, *more)

    assert code == (2 if more else 1)
    assert message in capsys.readouterr().err
    assert more or {row["value"] for row in table(ran)} == {""}
