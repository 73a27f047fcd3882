"""`harness items`: answers are read side by side, and cannot harm a screen, a page or a sheet."""

import json
from pathlib import Path

import pytest
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Lines, Toy, csv_rows, taking

from harness.cli import main
from harness.storage.frames import load
from harness.storage.runs import RunFolder


def shown(toy: Toy, capsys: Lines, *arguments: str) -> str:
    """What `items` prints of all runs, in their order, or of those that are named."""
    named = [word for word in arguments if Path(word).is_dir()]
    rest = [word for word in arguments if word not in named]
    runs = named or [str(path) for path in toy.runs()]
    capsys.readouterr()
    assert main(["items", *runs, *rest, "--results", str(toy.results)]) == 0
    return capsys.readouterr().out


def of_pairs(toy: Toy) -> None:
    """Two controls that are always right, and always wrong; of minimal pairs of stories."""
    toy.group("even", "odd")
    path = toy.home / "tasks/samples/toy.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for place, row in enumerate(rows):
        row["cluster"] = f"d{place // 2}"
        row["fields"] |= {"before": "It was ", "emphasis": f"Rosa {place}", "after": ", I think."}
        row["fields"] |= {"aside": "Then."}
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    toy.edit("prompts/toy/base.user.j2", "{{ story }}", "{{ story }} {{ before }}{{ emphasis }}")
    for model in ("oracle", "literal"):
        assert toy.run("--variant", "base", model=model) == 0


judged = taking(of_pairs)


def test_the_wrong_answers_are_shown_with_what_was_expected(judged: Toy, capsys: Lines) -> None:
    oracle, literal = judged.runs()[1], judged.runs()[0]

    said = shown(judged, capsys, str(literal), "--where", "wrong", "--limit", "1")

    assert "story           number 0." in said
    assert "expected        yes 0" in said
    assert "literal         never 0" in said
    assert "  near          wrong" in said
    assert said.endswith("12 of 12 items, 1 shown (more: --limit N, --all, --csv FILE)\n")
    assert shown(judged, capsys, str(oracle), "--where", "wrong") == "0 of 12 items\n"


def test_an_item_that_flips_between_runs_stands_once_with_both(judged: Toy, capsys: Lines) -> None:
    said = shown(judged, capsys, "--where", "flip", "--limit", "1")

    assert said.count("number 0.") == 1
    lines = [line.strip() for line in said.splitlines()]
    assert lines.index("literal         never 0") < lines.index("oracle          yes 0")
    alone = ["items", str(judged.runs()[0]), "--where", "flip", "--results", str(judged.results)]
    assert main(alone) == 2
    assert "name two runs, or a run of several variants" in capsys.readouterr().err
    assert "12 of 12 items" in said


def test_the_second_run_has_lost_what_the_first_had_right(judged: Toy, capsys: Lines) -> None:
    literal, oracle = map(str, judged.runs())
    counts = {
        (where, first): shown(judged, capsys, first, other, "--where", where).split("\n")[-2][:5]
        for where in ("lost", "won")
        for first, other in ((oracle, literal), (literal, oracle))
    }

    assert [way for way, count in counts.items() if count == "12 of"] == [
        ("lost", oracle),
        ("won", literal),
    ]
    assert main(["items", oracle, "--where", "lost", "--results", str(judged.results)]) == 2
    assert "compares two runs; name two, not 1" in capsys.readouterr().err


def test_without_a_limit_as_many_items_are_shown_as_fit_a_screen_of_80_columns(
    judged: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for lines in ("24", "40"):
        monkeypatch.setenv("LINES", lines)
        said = shown(judged, capsys).splitlines()
        assert int(lines) / 2 < len(said) <= int(lines)
        assert max(map(len, said)) <= 80
        assert "shown (more: --limit N, --all, --csv FILE)" in said[-1]
    whole = shown(judged, capsys, "--all")
    assert whole.endswith(f"\n{said[-1].partition(',')[0]}\n")
    assert len(whole.splitlines()) > 40


def test_minimal_pairs_stand_together_with_the_stress_marked(judged: Toy, capsys: Lines) -> None:
    said = shown(judged, capsys, "--pairs", "--limit", "3")

    turns = [line.split(maxsplit=1)[1] for line in said.splitlines() if line.startswith("turn")]
    assert turns == [f"It was *Rosa {n}*, I think." for n in range(3)]
    heads = [line for line in said.splitlines() if line.startswith("-- ")]
    assert [head.strip("- ")[-2:] for head in heads] == ["d0", "d0", "d1"]


def test_the_worst_answers_by_a_judge_come_first(judged: Toy, capsys: Lines) -> None:
    literal, oracle = map(str, judged.runs())
    said = shown(judged, capsys, oracle, literal, "--sort", "worst", "--judge", "near", "--below=1")

    assert "12 of 12 items" in said
    assert main(["items", oracle, "--below", "1", "--results", str(judged.results)]) == 0
    assert "0 of 12 items" in capsys.readouterr().out


def test_answers_are_chosen_by_the_mean_of_people(judged: Toy, capsys: Lines) -> None:
    _, oracle = map(str, judged.runs())
    ids = load([RunFolder(judged.runs()[1])], "samples", ["sample"])["sample"]
    values = {ids[0]: "13", ids[1]: "44"}
    rows = [f"toy,{n},oracle,{at},{v},a" for n, own in values.items() for at, v in enumerate(own)]
    head = "task,sample_id,model,rater,value,scale"
    file = judged.write("rated.csv", "\n".join([head, *rows]))

    said = shown(judged, capsys, oracle, "--ratings", str(file), "--below", "3")

    assert "people 2.00" in said
    assert "people 4.00" not in said


def test_the_library_has_a_flat_table_of_answers(judged: Toy) -> None:
    import harness as ph

    frame = ph.items(ph.load_runs(judged.results, judged.space()))

    literal = frame[frame["model"] == "literal"]
    assert len(literal) == 12
    assert literal["expected"].iloc[0] == "yes 0"
    texts = [line.split(":")[0] for line in literal["item"].iloc[0].splitlines()]
    assert texts == ["story", "aside", "turn"]  # as in the data: not by the alphabet
    assert literal["reason_near"].isna().all()
    assert frame.groupby("model")["value_near"].mean().to_dict() == {"literal": 0.0, "oracle": 1.0}


def test_files_hold_all_answers_without_harm(toy: Toy, tmp_path: Path, capsys: Lines) -> None:
    evil = "=HYPERLINK(1) \x1b[31m<script>alert(1)</script>"
    out = tmp_path / "x.csv"
    with StubServer(Script(replies={"": (evil,)})) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_SERVER_URL", server.url)
        toy.run("--variant", "base", "--judge", "choice", model="alpha")

    said = shown(toy, capsys, "--csv", str(out), "--where", "missing", "--limit", "4")

    rows = csv_rows(out)
    assert [row["reason_choice"] for row in rows] == ["unparsed"] * 4
    assert {row["answer"][:2] for row in rows} == {"'="}
    assert "\x1b" not in said
    assert "choice        missing, unparsed: " in said


def in_two_orders(toy: Toy) -> None:
    """Choices in two orders, answered by the one that is shown first."""
    path = toy.home / "tasks/samples/quiz.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for row in rows:
        row["choices"] = [f"{one} And so the story of this item goes on." for one in row["choices"]]
        row["gold"] += " And so the story of this item goes on."
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert toy.main("run", "--task", "quiz", "--model", "first") == 0


asked = taking(in_two_orders)


def test_choices_are_numbered_as_they_were_shown(asked: Toy, capsys: Lines) -> None:
    wrong = shown(asked, capsys, "--variant", "order0", "--where", "wrong", "--limit", "1")

    lines = {line[:17].strip(): line[17:] for line in wrong.splitlines()}
    assert lines["first"] == f"1: {lines['choice 1']}"
    assert "choice 1, right" not in lines


def test_an_item_whose_answer_flips_by_order_shows_all_orders(asked: Toy, capsys: Lines) -> None:
    said = shown(asked, capsys, "--where", "flip", "--limit", "1")

    labels = [line.strip().partition("  ")[0] for line in said.splitlines()]
    assert {"choice", "choice, right", "order0", "order1"} <= set(labels)
    assert "choice 1" not in labels
    assert {line.split()[1] for line in said.splitlines() if line.startswith("  gold")} == {
        *("right", "wrong")
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--where", "disagree"),
            "no two judges of these runs are on one scale (judged by near (accuracy))",
        ),
        (("--group", "evn"), "'evn': no answer of these runs is of it; did you mean even?"),
    ],
)
def test_what_runs_lack_is_told(
    judged: Toy, capsys: Lines, words: tuple[str, ...], told: str
) -> None:
    run = str(judged.runs()[0])
    assert main(["items", run, *words, "--results", str(judged.results)]) == 2
    assert told in capsys.readouterr().err
