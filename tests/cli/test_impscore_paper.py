"""What the paper on implicitness did, by commands: collect, build, rate, rank, list near copies."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.each import each
from support.stub_script import Script
from support.stub_server import StubServer

from harness.cli import main

SAID = ("It is cold in here.", "Nice of you to come at noon.", "The bin is full again.")
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
    capsys: pytest.CaptureFixture[str],
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
    capsys.readouterr()
    assert main(["impscore", "lint", str(tmp_path / f"{job}.jsonl"), "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)[0]["value"] == 3


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
    capsys: pytest.CaptureFixture[str],
    *,
    job: str,
    field: str,
    reply: str,
    reference: str,
) -> None:
    source = written(
        tmp_path / "in.jsonl", [{"group": "g", "fields": {field: "cold"}, "references": {}}]
    )

    code, made = built(tmp_path, monkeypatch, (job, source), lambda _: reply)

    assert code == 0
    expected = list(LEVELS) if job == "graded" else ["Shut it.", "It is old.", "Cold tea."]
    assert made[0]["references"][reference] == expected
    capsys.readouterr()
    assert main(["impscore", "eval", str(tmp_path / f"{job}.jsonl"), "--json"]) == 0
    measured = {one["metric"]: one for one in json.loads(capsys.readouterr().out)["measured"]}
    assert measured["tau" if job == "graded" else "closest"]["n"] == 1


@each("reply", ["One line alone.", "\n".join([*LEVELS, "A fifth."]), ""])
def test_a_set_with_too_few_or_too_many_lines_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reply: str
) -> None:
    rows = [{"group": "g", "fields": {"topic": "cold"}, "references": {}}]
    source = written(tmp_path / "in.jsonl", rows)

    assert built(tmp_path, monkeypatch, ("graded", source), lambda _: reply) == (1, [])
