"""tokens: how a tokenizer reads a task's choices, before anything is scored."""

import json

import pytest
from support.toy import Lines, Toy

from harness.cli import main

TASK = """
    about: Which reading?
    data: {source: picks, reader: samples_jsonl, files: [pick.jsonl], sample: samples/pick.jsonl}
    decodings: [{temperature: 0, max_tokens: 1}]
    default_variants: [number]
    variants:
      number:
        about: a number
        choice: {answers: number}
        steps: [{name: answer, template: pick/ask}]
      words:
        about: the words
        choice: {answers: text}
        steps: [{name: answer, template: pick/ask}]
    judges: [gold]
"""


@pytest.fixture
def picks(toy: Toy) -> Toy:
    toy.write("tasks/pick.yaml", TASK)
    toy.write("prompts/pick/ask.user.j2", "{{ story }} Answer:")
    samples = [
        {
            "group": "all",
            "fields": {"story": f"Story {number}."},
            "references": {},
            "choices": ["He is in.", "He is out and will be for long."],
            "gold": "He is in.",
        }
        for number in range(4)
    ]
    toy.write("tasks/samples/pick.jsonl", "\n".join(map(json.dumps, samples)))
    return toy


def tokens(toy: Toy, *options: str, task: str = "pick", model: str = "tiny-random") -> int:
    named = ("--task", task, "--model", model, "--home", str(toy.home))
    return main(["show", "tokens", *named, *options])


def test_a_table_has_a_row_a_variant(picks: Toy, capsys: Lines) -> None:
    assert tokens(picks, "--variant", "all") == 0

    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if line.startswith(("number ", "words "))]
    assert [(row[0], row[2]) for row in rows] == [("number", "8"), ("words", "8")]


@pytest.mark.parametrize(
    ("options", "choices"),
    [
        ((), {"number": 8}),
        (("--variant", "words"), {"words": 8}),
        (("--limit", "2"), {"number": 4}),
    ],
)
def test_json_holds_the_report_of_each_variant(
    picks: Toy, capsys: Lines, options: tuple[str, ...], choices: dict[str, int]
) -> None:
    assert tokens(picks, "--json", *options) == 0
    told = json.loads(capsys.readouterr().out)
    assert {name: report["choices"] for name, report in told.items()} == choices


def test_a_model_that_vllm_runs_is_read_by_its_tokenizer(picks: Toy, capsys: Lines) -> None:
    text = "kind: vllm\nmodel: t\nbuild: tiny-llama\nquantization: fp8\n"
    picks.write("configs/models/mine.yaml", text)

    assert tokens(picks, "--json", model="mine") == 0
    assert '"fewest"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("task", "model", "words"),
    [
        ("toy", "tiny-random", ["task toy, model tiny-random", "a task with choices"]),
        ("pick", "alpha", ["model alpha", "kind transformers or vllm"]),
        ("pick", "claude-3-sonnet", ["kind transformers or vllm"]),
        ("pick", "oracle", ["kind transformers or vllm"]),
        ("picks", "tiny-random", ["no task 'picks'"]),
    ],
)
def test_what_has_no_choices_or_no_tokenizer_is_refused_with_what_has(
    picks: Toy, capsys: Lines, task: str, model: str, words: list[str]
) -> None:
    assert tokens(picks, task=task, model=model) == 2
    said = capsys.readouterr().err
    assert [word for word in words if word not in said] == []


def test_a_variant_that_no_sample_fits_is_a_mistake(picks: Toy, capsys: Lines) -> None:
    picks.edit("tasks/pick.yaml", "about: the words", "about: the words\n    needs: [tune]")
    assert tokens(picks, "--variant", "words") == 2
    assert "has the fields it needs (tune)" in capsys.readouterr().err


def test_nothing_is_stored(picks: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(picks.folder)
    assert tokens(picks) == 0
    assert not (picks.folder / "results").exists()
