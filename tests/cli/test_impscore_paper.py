"""What the paper on implicitness did, by commands: collect, build, train, rate, rank, list."""

import csv
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.each import each
from support.impscore_heads import random_head
from support.packages import needs
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Lines, csv_rows
from support.training_pairs import THINGS, about

from harness.cli import main
from harness.data.readers.samples_jsonl import read
from harness.implicitness.pairs import read_pairs
from harness.implicitness.scorer import save_head
from harness.storage.tables import read_file

SAID = ("It is cold in here.", "Nice of you to come at noon.", "The bin is full again.")
LEVEL = range(1, 5)
LEVELS = ("Close the window.", "Could you close it?", "It is cold in here.", "Brr, November.")


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def built(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, Path],
    reply: Callable[[str], str],
) -> tuple[int, list[dict[str, Any]]]:
    """What a job makes of a file with a scripted model."""
    job, source = words
    out = folder / f"{job}.jsonl"
    with StubServer(Script(), reply=reply) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        options = ("--model", "local-server", "-o", str(out), "--results", str(folder / "r"))
        code = main(["build", job, str(source), *options])
    return code, lines(out)


@each(
    ("name", "column", "more", "asked"),
    [
        ("ishate", "text", {"implicit_layer": "Implicit HS"}, "more openly"),
        ("ludwig", "Response utterance", {"Context utterance": "Warm?"}, "Warm?"),
        ("sarcasm-corpus", "text", {"class": "sarc"}, "in earnest"),
        ("sarcasm-headlines", "headline", {"is_sarcastic": 1}, "satirical"),
    ],
)
def test_sentences_of_a_source_become_pairs_that_training_reads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Lines,
    *,
    name: str,
    column: str,
    more: dict[str, Any],
    asked: str,
) -> None:
    table = written(tmp_path / "table.jsonl", [{column: said} | more for said in SAID])
    sentences, heard = tmp_path / "sentences.jsonl", list[str]()
    assert main(["impscore", "collect", name, str(table), "-o", str(sentences), "--json"]) == 0
    job = json.loads(capsys.readouterr().out)["job"]

    def reply(prompt: str) -> str:
        heard.append(prompt)
        return f"Outright, {len(heard)}."

    code, made = built(tmp_path, monkeypatch, (job, sentences), reply)

    assert code == 0
    assert [line["group"] for line in made] == [name] * 3
    assert all(asked in prompt for prompt in heard)
    assert len(read_pairs(read_file(tmp_path / f"{job}.jsonl"), where="x")) == 3
    capsys.readouterr()


def test_a_refusal_is_no_counterpart_of_a_text_for_moderation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"group": "g", "fields": {"sentence": SAID[0]}, "references": {}}]
    source = written(tmp_path / "in.jsonl", rows)

    code, made = built(tmp_path, monkeypatch, ("pairs-hate", source), lambda _: "I can't do that.")
    assert (code, made) == (1, [])
    # People decline in such words, too: elsewhere it is a text.
    code, made = built(tmp_path, monkeypatch, ("pairs", source), lambda _: "I can't do that.")
    assert (code, len(made)) == (0, 1)


@each(
    ("job", "field", "reply", "reference"),
    [
        ("graded", "topic", "\n".join(f"{n}. {one}" for n, one in enumerate(LEVELS, 1)), "levels"),
        ("closest", "sentence", '- "Shut it."\n- It is old.\n\n- Cold tea.\n', "choices"),
    ],
)
def test_a_chat_model_writes_sets_that_eval_reads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Lines,
    *,
    job: str,
    field: str,
    reply: str,
    reference: str,
) -> None:
    save_head(random_head(), tmp_path / "own")
    rows = [{"group": "g", "fields": {field: "cold"}, "references": {}}]
    source = written(tmp_path / "in.jsonl", rows)

    code, made = built(tmp_path, monkeypatch, (job, source), lambda _: reply)

    assert code == 0
    expected = list(LEVELS) if job == "graded" else ["Shut it.", "It is old.", "Cold tea."]
    assert made[0]["references"][reference] == expected
    capsys.readouterr()
    words = ("--scorer", str(tmp_path / "own.json"), "--json")
    assert main(["impscore", "evaluate", str(tmp_path / f"{job}.jsonl"), *words]) == 0
    measured = {one["metric"]: one for one in json.loads(capsys.readouterr().out)["measured"]}
    assert measured["tau" if job == "graded" else "closest"]["n"] == 1


@each("reply", ["One line alone.", "\n".join([*LEVELS, "A fifth."]), ""])
def test_a_set_with_too_few_or_too_many_lines_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reply: str
) -> None:
    rows = [{"group": "g", "fields": {"topic": "cold"}, "references": {}}]
    source = written(tmp_path / "in.jsonl", rows)
    assert built(tmp_path, monkeypatch, ("graded", source), lambda _: reply) == (1, [])


@pytest.fixture
def graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sets, two choices and a scorer that needs no weights, in the working folder."""
    monkeypatch.chdir(tmp_path)
    save_head(random_head(), tmp_path / "own")
    rows: list[dict[str, Any]] = [
        {"topic": "late", "levels": ["You are late.", "A bit late?", "It is noon.", "Soup?"]},
        {"topic": "cold", "levels": list(LEVELS)},
        {"topic": "a", "sentence": SAID[0], "choices": ["Shut it.", "Old.", "Tea."], "answer": 0},
    ]
    return written(tmp_path / "graded.jsonl", rows)


def fill(folder: Path, name: str, mark: Callable[[str, dict[str, str]], str]) -> str:
    """Rate a sheet: `mark` sees the answer that is shown and the row of the key."""
    sheet = folder / name
    key = sheet.with_name(f"{sheet.stem.partition('-')[0]}.key.csv")
    by_row = {row["row"]: row for row in csv_rows(key)}
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        head, *rows = csv.reader(file)
    filled = [[*row[:-1], mark(row[3], by_row[row[0]])] for row in rows]
    with sheet.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *filled])
    out = f"{sheet.stem}.rated.csv"
    given = ("--key", str(key), "-o", str(folder / out))
    assert main(["sheet", "read-ratings", str(sheet), *given]) == 0
    return out


def beside(capsys: Lines, *ratings: str) -> dict[str, dict[str, Any]]:
    """What eval says of people and the scorer, by name."""
    given = [word for name in ratings for word in ("--ratings", name)]
    capsys.readouterr()
    words = ("--scorer", "own.json", "--json")
    assert main(["impscore", "evaluate", "graded.jsonl", *given, *words]) in (0, 1)
    told = capsys.readouterr().out
    Path("beside.json").write_text(told)
    return {one["who"]: one for one in json.loads(told)["people"]}


def test_a_questionnaire_is_blind_and_read_back_as_rankings(graded: Path, capsys: Lines) -> None:
    folder = graded.parent
    words = ("impscore_rank", "graded.jsonl", "--raters", "ann,bob")
    assert main(["sheet", "questions", *words, "-o", "rank.csv"]) == 0
    words = ("impscore_closest", "graded.jsonl", "--raters", "ann")
    assert main(["sheet", "questions", *words, "-o", "near.csv"]) == 0
    ann, bob = (csv_rows(folder / f"rank-{who}.csv") for who in ("ann", "bob"))
    assert [row["answer"] for row in ann] != [row["answer"] for row in bob]
    assert set(ann[0]) == {"row", "item", "question", "answer", "ann"}
    items = [row["item"] for row in ann]
    assert items == sorted(items, key=items.index), "the sentences of a set stand together"
    page = (folder / "rank-ann.html").read_text()
    assert page.count("<tr>") == 8
    assert page.count("<section>") == 2

    own = fill(folder, "rank-ann.csv", lambda _, key: key["model"])
    swapped = {"1": "1", "2": "3", "3": "2", "4": "4"}
    other = fill(folder, "rank-bob.csv", lambda _, key: swapped[key["model"]])
    near = fill(folder, "near-ann.csv", lambda said, _: "yes" if said == "Shut it." else "")

    found = beside(capsys, own, other, near)
    assert (found["ann"]["tau"], found["ann"]["rho"], found["ann"]["sets"]) == (1, 1, 2)
    assert found["bob"]["tau"] == pytest.approx(4 / 6)
    assert found["ann"]["tau_people"] == found["bob"]["tau_people"] == pytest.approx(4 / 6)
    assert found["people"]["tau"] == pytest.approx(5 / 6)
    assert found["ann"]["closest"] == 1
    scorer = next(who for who in found if who.startswith("random"))
    assert found[scorer]["sets"] == 2
    asked = (("impscore-4", "0.67"), ("impscore-5-people", "0.83"), ("impscore-8", "mean"))
    ranks = (("impscore-8-people", "gold"), ("impscore-9-people", "accuracy"))
    for layout, cell in (*asked, *ranks):
        capsys.readouterr()
        assert main(["table", layout, "--data", "beside.json"]) == 0
        out = capsys.readouterr().out
        assert cell in out
        assert "8" not in layout or out.index("late  ") < out.index("cold  "), "as in the file"


def rated(path: Path, rows: Sequence[str], scale: str = "sentences") -> None:
    """Ratings in long form; a row has rater, topic, place and rank."""
    cells = [row.split(",") for row in rows]
    lines = [f"graded,{topic},{place},{who},{rank},{scale}" for who, topic, place, rank in cells]
    path.write_text("\n".join(["task,sample_id,model,rater,value,scale", *lines]), "utf-8")


def test_rankings_and_choices_of_others_are_read_in_long_form(graded: Path, capsys: Lines) -> None:
    ranks = [("ann", 1, 2, 3, 4), ("bob", 4, 3, 2, 1)]
    rows = [f"{who},cold,{at},{rank}" for who, *own in ranks for at, rank in enumerate(own, 1)]
    rated(graded.parent / "ranks.csv", rows)
    rated(graded.parent / "chosen.csv", ["ann,a,1,1", "bob,a,2,1"], "choices")

    found = beside(capsys, "ranks.csv", "chosen.csv")

    assert [found[who]["tau"] for who in ("ann", "bob", "people")] == [1, -1, 0]
    assert [found[who]["closest"] for who in ("ann", "bob", "people")] == [1, 0, 0.5]


def test_halves_of_a_study_are_told_apart_by_who_ranked_what(graded: Path, capsys: Lines) -> None:
    people = {"ann": "cold", "bob": "cold", "cyd": "late", "dan": "late"}
    rows = [f"{who},{topic},{n},{n}" for who, topic in people.items() for n in LEVEL]
    rated(graded.parent / "two.csv", rows)
    found = beside(capsys, "two.csv")

    assert found["ann"]["part"] == found["bob"]["part"] != found["cyd"]["part"]


def test_a_set_ranked_in_part_is_missing_and_strangers_refused(graded: Path, capsys: Lines) -> None:
    path = graded.parent / "some.csv"
    rated(path, ["ann,cold,1,1", "ann,cold,2,2", "ann,late,1,1"])
    assert beside(capsys, "some.csv")["ann"]["missing"] == 2

    rated(path, [f"ann,cold,{level},2" for level in LEVEL])
    found = beside(capsys, "some.csv")["ann"]
    assert (found["tau"], found["sets"], found["missing"]) == (None, 0, 1)

    rated(path, ["ann,clod,1,1"])
    words = ("--scorer", "own.json", "--ratings", "some.csv")
    assert main(["impscore", "evaluate", "graded.jsonl", *words]) == 2
    assert "did you mean cold?" in capsys.readouterr().err


def test_a_linguist_rates_pairs_of_each_source_and_graded_sets(graded: Path, capsys: Lines) -> None:
    folder = graded.parent
    pairs = [
        {"source": source, "implicit": f"{said} {n}", "explicit": f"Outright {n} {source}."}
        for source in ("forum", "talk")
        for n, said in enumerate(SAID)
    ]
    written(folder / "pairs.jsonl", pairs)
    words = ("impscore_pairs", "pairs.jsonl", "--each", "2")
    assert main(["sheet", "questions", *words, "-o", "fit.csv"]) == 0
    shown = (folder / "fit.csv").read_text() + (folder / "fit.html").read_text()
    assert "forum" not in shown.replace("forum.", "")
    rated = fill(folder, "fit.csv", lambda said, _: "5" if "talk" in said else "2")
    capsys.readouterr()
    assert main(["table", "impscore-7", "--data", rated]) == 0
    out = capsys.readouterr().out
    assert "2.00" in out
    assert "5.00" in out

    words = ("impscore_fit", "pairs.jsonl", "--each", "2")
    assert main(["sheet", "questions", *words, "-o", "share.csv"]) == 0
    assert "(negative: the two" in (folder / "share.csv").read_text()
    rated = fill(folder, "share.csv", lambda _, key: "no" if "neg" in key["scale"] else "fits")
    assert main(["table", "impscore-7", "--data", rated]) == 0
    assert dict(re.findall(r"(?m)^(\w+)  +(\d\.\d+)", capsys.readouterr().out))["forum"] == "3.00"
    assert main(["table", "impscore-7", "--data", rated, "--rows", "source,pair"]) == 0
    means = re.findall(r"(?m)^forum  +(\w+)  +(\d\.\d+)", capsys.readouterr().out)
    assert means == [("positive", "5.00"), ("negative", "1.00")]

    for sheet in ("impscore_levels", "impscore_order"):
        assert main(["sheet", "questions", sheet, "graded.jsonl", "-o", f"{sheet}.csv"]) == 0
        fill(folder, f"{sheet}.csv", lambda _, key: "4" if key["sample_id"] == "cold" else "3")
    data = [w for s in ("levels", "order") for w in ("--data", f"impscore_{s}.rated.csv")]
    capsys.readouterr()
    assert main(["table", "impscore-11", *data]) == 0
    assert "in order of 6" in capsys.readouterr().out


@each(
    ("words", "told"),
    [
        (("emphasized_talk", "graded.jsonl", "-o", "s.csv"), "sheet ratings"),
        (("impscore_rank", "graded.jsonl", "-o", "s.txt"), ".csv"),
        (("impscore_rank", "five.jsonl", "-o", "s.csv"), "a mark for each"),
        (("impscore_closest", "five.jsonl", "-o", "s.csv"), "the file has none"),
    ],
)
def test_a_sheet_that_cannot_be_made_says_why(
    graded: Path, capsys: Lines, *, words: tuple[str, ...], told: str
) -> None:
    written(graded.parent / "five.jsonl", [{"topic": "cold", "levels": [*LEVELS, "Hm."]}])
    assert main(["sheet", "questions", *words]) == 2
    assert told in capsys.readouterr().err


def test_texts_of_others_are_no_markup_and_no_formula_in_a_sheet(graded: Path) -> None:
    rows = [{"topic": "<b>x", "levels": ["=1+1", "<script>a</script>"]}]
    written(graded.parent / "odd.jsonl", rows)

    assert main(["sheet", "questions", "impscore_rank", "odd.jsonl", "-o", "s.csv"]) == 0

    page = (graded.parent / "s.html").read_text()
    assert "<script>" not in page
    assert "<b>" not in page
    assert "'=1+1" in (graded.parent / "s.csv").read_text()


def test_the_figure_of_raters_is_drawn_of_a_file_that_people_ranked(graded: Path) -> None:
    rows = [f"{who},{t},{n},{n}" for who in ("ann", "bob") for t in ("cold", "late") for n in LEVEL]
    rated(graded.parent / "ranks.csv", rows)

    words = ("graded.jsonl", "--ratings", "ranks.csv", "--scorer", "own.json", "-o", "raters.svg")
    assert main(["plot", "impscore-9", *words]) == 0

    cells = csv_rows(graded.parent / "raters.csv")
    assert {row["panel"] for row in cells} == {"Kendall's tau-b", "Spearman's rho"}
    found = [row["z"] for row in cells if (row["x_name"], row["y_name"]) == ("ann", "bob")]
    assert found == ["1.0", "1.0"]


def test_near_copies_are_listed_by_group_with_how_alike_they_are(
    graded: Path, capsys: Lines
) -> None:
    said = ["A cold day in May it was", "a cold day in may, it was really!", "Tea?", "", "tea"]
    rows = [{"text": text, "how": str(n)} for n, text in enumerate(said)]
    written(graded.parent / "texts.jsonl", rows)

    words = ("texts.jsonl", "--keep", "how", "-o", "copies.csv", "--json")
    assert main(["export", "copies", *words]) == 0

    counts = json.loads(capsys.readouterr().out)
    assert counts == {"rows": 5, "copies": 4, "groups": 2, "largest": 2}
    listed = csv_rows(graded.parent / "copies.csv")
    cells = [(row["group"], row["row"], row["how"]) for row in listed]
    assert cells == [("1", "1", "0"), ("1", "2", "1"), ("2", "3", "2"), ("2", "5", "4")]
    assert [float(row["likeness"]) for row in listed] == [1, 0.875, 1, 1]


def test_lengths_of_pairs_are_told_by_source_in_each_form_read(graded: Path, capsys: Lines) -> None:
    own = [{"source": "forum", "implicit": "abcd", "explicit": "ab"}]
    made = [{"group": "talk", "fields": {"sentence": "abc"}, "references": {"explicit": ["a"]}}]
    for name, rows in (("own", own), ("made", made)):
        written(graded.parent / f"{name}.jsonl", rows)
        capsys.readouterr()
        assert main(["table", "impscore-1", "--data", f"{name}.jsonl"]) == 0
        last = capsys.readouterr().out.strip().splitlines()[-1].split()
        assert last == (["forum", "4.0", "2.0"] if name == "own" else ["talk", "3.0", "1.0"])


@pytest.mark.parametrize(("reply", "ended"), [("You are late.", (0, 1)), ("", (1, 0))])
def test_the_samples_made_can_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reply: str, ended: tuple[int, int]
) -> None:
    rows = [{"group": "g", "fields": {"sentence": SAID[1]}, "references": {}}]
    source = written(tmp_path / "in.jsonl", rows)

    code, made = built(tmp_path, monkeypatch, ("pairs", source), lambda _: reply)

    assert (code, len(made)) == ended
    for line in made:
        assert read([tmp_path / "pairs.jsonl"], None)[0].references == {"explicit": (reply,)}
        assert line["provenance"]["explicit"]["template"].startswith("build/explicit")


@needs("torch", "safetensors")
def test_built_pairs_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Lines) -> None:
    said = [f"one wonders {about(thing, 'i', n)}" for thing in THINGS for n in range(2)]
    rows = [{"group": "g", "fields": {"sentence": one}, "references": {}} for one in said]
    source, recipe = written(tmp_path / "in.jsonl", rows), tmp_path / "small.yaml"
    recipe.write_text(
        "about: A test's.\nencoder: {kind: char-ngrams}\nsettings: {features: 4, epochs: 1}\n"
    )

    def reply(prompt: str) -> str:
        (said,) = [line for line in prompt.splitlines() if line.startswith("one wonders")]
        return said.replace("one wonders", "I demand")

    assert built(tmp_path, monkeypatch, ("pairs", source), reply)[0] == 0
    trained = ("-o", str(tmp_path / "heads"), "--recipe", str(recipe), "--json")
    capsys.readouterr()
    assert main(["impscore", "train", str(tmp_path / "pairs.jsonl"), *trained]) == 0

    told = capsys.readouterr()
    assert json.loads(told.out)["metrics"]["test pairs"] == 3  # one in ten of 32
    assert "sentences: 64 of 64 done" in told.err


def test_a_chain_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    intentions = {"true_intention": ["Shut it."], "literal_intention": ["It is cold."]}
    fields = {"speaker": "Ann", "listener": "Bo", "context": "The window is open."}
    rows = [{"group": "g", "fields": fields, "references": intentions}]
    source, asked = written(tmp_path / "in.jsonl", rows), list[str]()

    def reply(prompt: str) -> str:
        asked.append(prompt)
        return "Said."

    assert built(tmp_path, monkeypatch, ("chains", source), reply)[0] == 0

    replies = [words for words in asked if "answers, helpfully" in words]
    assert sorted("The window is open." in words for words in replies) == [False, True]
    assert sorted(read([tmp_path / "chains.jsonl"], None)[0].references) == sorted(
        [*intentions, "turn1_literal", "turn1_true", "turn2_literal", "turn2_true"]
    )
