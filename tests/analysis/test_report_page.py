"""The page of runs: its data holds every answer, every number its recipe, and it asks no host."""

import base64
import gzip
import hashlib
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.hate_rows import run_of
from support.report_runs import Sketch, write_runs

from harness.cli import main
from harness.lazy import pandas
from harness.parts import Mode
from harness.present.page.items import PageParts
from harness.present.page.page import page_data, page_text, shell_text
from harness.present.page.tables import Board, asked, headline
from harness.storage.find_runs import run_folders
from harness.storage.runs import DataEntry

HOSTILE = (
    *("<script>window.hit = 1</script>", "</script><!-- <script> -->"),
    *("half \ufffd, line\u2028separator, nul \x00", "x" * 1_000_000),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    write_runs(folder, Sketch(samples=36, texts=HOSTILE))
    return folder


@pytest.fixture(scope="module")
def page(results: Path) -> str:
    return page_text(page_data(run_folders(results), results))


def data_of(page: str) -> dict[str, Any]:
    [block] = re.findall(r'<script type="application/octet-stream" id="data">(.*?)</script>', page)
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(block)))
    return found


def section(data: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [one for one in data["sections"] if one["name"] == name]
    return dict(found)


def test_the_title_stands_over_the_page_before_its_data_is_read(page: str) -> None:
    before_the_data = page[: page.index('id="data"')]

    [title] = re.findall("<title>(.*?)</title>", before_the_data)
    assert f'<h1 id="title">{title}</h1>' in before_the_data
    assert "@@" not in before_the_data


def test_samples_of_the_user_are_called_so_and_no_trial_where_they_are_the_data() -> None:
    run = run_of([], data=DataEntry("mine", "sample", "sample:d1", {"mine.jsonl": "0" * 64}))
    data = structs.replace(run.task.data, files=(), map=None, choices={}, reader="samples_jsonl")
    alone = structs.replace(run.task, data=data)

    lines = [*asked([replace(run, task=alone, samples=3)])]
    lines += asked([run])

    assert "Data: 3 samples of the task's own. " in lines[0]
    assert "Data: 0 samples of the task's own, for trying and not for measuring. " in lines[1]


def test_what_was_asked_says_how_answers_were_given_by_which_models() -> None:
    chosen = run_of([])
    written = replace(chosen, task=structs.replace(chosen.task, mode=Mode.GENERATE))
    label = replace(chosen, model=replace(chosen.model, name="grams", kind="sklearn"))
    runs = [chosen, written, label]

    [alone], [several] = asked(runs[1:2]), asked(runs)

    assert " Answers: written. Judges: " in alone
    assert (
        " Answers: chosen by log-probability (small), written (small), labels of a classifier "
        "(grams). "
    ) in several


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "words"),
    [
        ("ab", "that both have, of 4 independent items; `may be`: ranks that are not excluded"),
        ("abc", "all 3 have, of 4 independent items; `may be`: ranks that are not excluded"),
    ],
)
def test_words_on_ranks_are_for_two_models_or_more(tmp_path: Path, models: str, words: str) -> None:
    shares = tuple((name, 0.5) for name in models)
    write_runs(tmp_path, Sketch(models=shares, has_choices=False))
    page = data_of(page_text(page_data(run_folders(tmp_path), tmp_path)))

    assert words in section(page, "leaderboard")["tables"][0]["about"]


def test_two_versions_of_data_are_told_apart_by_their_labels() -> None:
    first = run_of([], data=DataEntry("posts", "released", "d1+meter@1", {}))
    first = replace(first, samples=3)
    second = run_of([], data=DataEntry("posts", "released", "d2", {}))
    third = run_of([], data=DataEntry("posts", "released", "d3", {}))

    [line] = asked([first, second, third])

    assert (
        "Data: 3 samples of posts, released, implicitness by meter, "
        "0 samples of posts, released (d2), 0 samples of posts, released (d3). "
    ) in line


@pytest.mark.slow
def test_the_page_does_not_depend_on_the_order_in_which_calls_arrived(tmp_path: Path) -> None:
    write_runs(tmp_path, Sketch(samples=6, texts=HOSTILE[:2], has_choices=False))
    before = page_text(page_data(run_folders(tmp_path), tmp_path))
    ledgers = list((tmp_path / "calls").rglob("*.jsonl"))

    for ledger in ledgers:
        ledger.write_bytes(b"".join(reversed(ledger.read_bytes().splitlines(keepends=True))))

    assert any(ledger.read_bytes().count(b"\n") > 1 for ledger in ledgers)
    assert page_text(page_data(run_folders(tmp_path), tmp_path)) == before


def test_the_headline_says_in_words_who_is_better_and_by_how_much(page: str) -> None:
    lines = section(data_of(page), "differences")["lines"]
    told = [line for line in lines if "by choice" in line]
    assert re.search(r"alpha is better than beta by \d+ to \d+ points, on \d+ ", told[0])


def test_the_top_has_one_sentence_a_picture_a_task_and_models_by_tasks(page: str) -> None:
    first, *_, asked, cost = data_of(page)["sections"]

    assert [one["name"] for one in (first, asked, cost)] == ["headline", "asked", "cost"]
    assert first["lines"] == [
        "Of 2 models, alpha may be the best on all 2 tasks; the only one: alpha on posed, stress."
    ]
    assert [one["title"] for one in first["dots"]] == [
        "posed: all, by gold",
        "stress: plain, by choice",
    ]
    assert first["dots"][1]["chance"] == [0.5]
    [(_, value, low, high, is_control), beta] = first["dots"][0]["rows"]
    assert low < value < high > beta[1]
    assert not is_control
    [table] = first["tables"]
    assert [one["name"] for one in table["columns"]] == ["model", "posed", "stress"]
    marks = [[cell[4] for cell in row[1:]] for row in table["rows"]]
    assert marks == [["\u25cf", "\u25cf"], ["", ""]]


def test_a_single_model_is_compared_with_the_chance_level_of_what_ranks_it() -> None:
    row = {"model": "my_mod", "metric": "accuracy", "rank": 1, "low": 0.375, "high": 0.581}
    row |= {"value": 0.478, "chance": 0.5, "task": "hate_speech"}
    said = []
    for by in ("tpr_less_fpr", "macro_f1", "mean"):
        rows = pandas.DataFrame([row | {"ranked_by": by}])
        said.append(
            headline(Board(rows, next(rows.itertuples()), "base"), []).partition("ranked. ")[2]
        )

    assert said == [
        "my_mod has TPR-FPR 0.478 (0.375 to 0.581): above chance, which is 0.000.",
        "my_mod has macro F1 0.478 (0.375 to 0.581).",
        "my_mod has accuracy 0.478 (0.375 to 0.581): not significantly different from chance, "
        "which is 0.500.",
    ]


def test_of_two_recipes_boards_are_named_by_what_differs_and_ranks_come_first(
    tmp_path: Path,
) -> None:
    write_runs(tmp_path, Sketch(has_choices=False))
    write_runs(tmp_path, Sketch(models=(("solo", 0.5),), decodings=("A1",), has_choices=False))

    data = data_of(page_text(page_data(run_folders(tmp_path), tmp_path)))

    tables = section(data, "leaderboard")["tables"]
    names = [table["pick"] for table in tables]
    assert names[:2] == ["plain, by choice, T0", "plain, by near, T0"]
    assert "plain, by choice, A1" in names
    lines = section(data, "headline")["lines"] + section(data, "differences")["lines"]
    assert lines[0].startswith("On stress (plain, by choice, T0), ")
    assert len(set(lines)) == len(lines)


def test_a_number_leads_to_its_recipe_its_missing_and_its_items(page: str) -> None:
    data = data_of(page)
    [table] = [t for t in section(data, "leaderboard")["tables"] if t["pick"] == "plain, by choice"]
    value = next(cell for cell in table["rows"][0] if isinstance(cell, list))

    why, texts = data["whys"][value[3]], data["texts"]
    assert texts[why["recipe"]].startswith("stress:9f31c2ab|data:sample:d1f3,all|plain|alpha")
    assert (why["n"], why["missing"]) == (36, [])
    assert [data["runs"][run]["label"] for run in why["runs"]] == ["alpha"]
    assert [texts[variant] for variant in why["variants"]] == ["plain"]


def test_the_counts_of_differences_name_their_samples(page: str) -> None:
    data = data_of(page)
    [table] = [t for t in section(data, "differences")["tables"] if t["pick"] == "plain, by choice"]

    heads = [column["name"] for column in table["columns"]]
    line = table["rows"][0]
    counts = [line[heads.index(name)] for name in ("both right", "A only right", "tie")]
    for count, _, _, why in counts:
        assert len(data["chosen"][data["whys"][why]["chosen"]]) == count
    assert sum(count[0] for count in counts) > 0


def test_every_answer_is_there_as_it_is_stored(page: str) -> None:
    data = data_of(page)
    answers = {data["texts"][item[4]] for run in data["items"] for item in run if item[4] >= 0}
    assert {text for text in HOSTILE} <= answers


def test_both_orders_of_a_verdict_have_their_prompt_and_their_reply(page: str) -> None:
    data = data_of(page)
    texts = data["texts"]
    run = next(i for i, run in enumerate(data["runs"]) if run["task"] == "stress")
    [verdict] = [v for v in data["items"][run][0][7] if v[0] == 0]

    calls = [data["calls"][place] for place, _ in verdict[6]]
    assert [texts[order] for order, _ in calls] == ["accept-first", "reject-first"]
    prompts = ["\n".join(texts[p] for p in data["prompts"][place][0][1:]) for _, place in calls]
    assert all("Which is nearer?" in prompt for prompt in prompts)
    assert prompts[0] != prompts[1]
    assert {texts[reply] for _, reply in verdict[6]} <= {"1", "2"}


def test_without_a_ledger_the_page_says_that_it_lacks_prompts(
    results: Path, tmp_path: Path
) -> None:
    shutil.copytree(results / "runs", tmp_path / "runs")
    data = page_data(run_folders(tmp_path), tmp_path)

    assert [note for note in data.notes if "calls ledger is not below" in note]
    assert set(data.calls) == {None}


def test_half_a_character_becomes_a_mark_and_does_no_harm() -> None:
    parts = PageParts(pandas.DataFrame())
    parts.text("cut \ud83d here")
    assert parts.texts == ["cut \ufffd here"]


def test_only_the_page_s_own_script_and_style_may_run(page: str) -> None:
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)

    for name, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert parts[name] == f"'sha256-{digest}'"
    assert parts["default-src"] == parts["connect-src"] == "'none'"
    assert "unsafe" not in policy


def test_nothing_of_page_or_shell_names_another_host(page: str) -> None:
    rest = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(r"https?://|//[a-z]+\.[a-z]", rest.partition('id="data"')[0])
    assert not re.findall(r"innerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", rest)

    shell = shell_text()
    assert "connect-src 'self'" in shell
    assert 'id="data"></script>' in shell


@pytest.mark.slow
def test_of_too_many_answers_a_page_has_the_same_samples_of_each_run_and_says_so(
    results: Path,
) -> None:
    folders = run_folders(results)

    whole, part = page_data(folders, results), page_data(folders, results, answers=20)

    shown, every = ([json.loads(bytes(items)) for items in made.items] for made in (part, whole))
    assert all(0 < len(own) < len(other) for own, other in zip(shown, every, strict=True))
    named = [{part.texts[part.samples[item[1]][1]] for item in own} for own in shown]
    assert named[0] <= named[1] or named[1] <= named[0]
    first = next(note for note in part.notes if str(part.runs[0]["model"]) in note)
    assert re.match(rf"Of the \d+ answers of .* the page shows {len(shown[0])}: those to", first)
    for one, other in zip(part.sections, whole.sections, strict=True):
        assert (one.name, one.tables, one.lines) == (other.name, other.tables, other.lines)
    assert not any("the page shows" in note for note in whole.notes)


def on_page(results: Path, name: str) -> list[str]:
    data = page_data(run_folders(results), results)
    return [line for part in data.sections if part.name == name for line in part.lines]


def on_screen(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
def test_alarms_and_judges_have_the_words_of_the_leaderboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs/models").mkdir(parents=True)
    never = "{about: a, kind: scripted, policy: constant-no}"
    (tmp_path / "configs/models/never.yaml").write_text(never, "utf-8")
    for task, models, more in (
        ("hate_speech", "never", "--limit 30"),
        ("intent_detection", "first", "--limit 21"),
        ("intent_resolution", "oracle,literal", "--judge ngram-cosine --variant base --limit 4"),
    ):
        words = ["run", "--task", task, "--model", models, *more.split()]
        assert main(words) == 0
    capsys.readouterr()
    assert main(["leaderboard", "--all"]) == 0
    screen = on_screen(capsys.readouterr().err)

    said = on_page(Path("results"), "alarms")

    facts = [re.split(r": |ngram-cosine ", line, maxsplit=1)[1].rstrip(".") for line in said]
    # The page adds the recipe of the boards that a judge is unfit on.
    facts = [fact.partition(": intent_resolution:")[0] for fact in facts]
    assert len(facts) == 3
    assert [fact for fact in facts if fact not in screen] == []
    assert any("nearly no text is flagged" in fact for fact in facts)
    assert any("too few samples" in fact for fact in facts)
