"""build: the file that is made, and how the command ends."""

import json
from pathlib import Path

import pytest
from support.packages import needs
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Lines
from support.training_pairs import THINGS, about

from harness.cli import main
from harness.data.readers.samples_jsonl import read

SENTENCES = (
    '{"group": "g", "fields": {"sentence": "Nice of you to come at noon."}, "references": {}}'
)


@pytest.mark.parametrize(("reply", "code", "made"), [("You are late.", 0, 1), ("", 1, 0)])
def test_the_samples_made_can_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reply: str, code: int, made: int
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(SENTENCES)

    with StubServer(Script(), reply=lambda _: reply) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        options = ("--model", "local-server", "-o", str(out), "--results", str(tmp_path / "r"))
        assert main(["build", "pairs", str(source), *options]) == code

    lines = out.read_text().splitlines()
    assert len(lines) == made
    if made:
        assert read([out], None)[0].references == {"explicit": (reply,)}
        assert json.loads(lines[0])["provenance"]["explicit"]["template"].startswith(
            "build/explicit"
        )


@needs("torch", "safetensors")
def test_built_pairs_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Lines) -> None:
    source, out, recipe = (tmp_path / name for name in ("in.jsonl", "pairs.jsonl", "small.yaml"))
    lines = [
        {"group": "g", "fields": {"sentence": f"one wonders {about(thing, 'i', n)}"}}
        for thing in THINGS
        for n in range(2)
    ]
    source.write_text("".join(json.dumps(line | {"references": {}}) + "\n" for line in lines))
    recipe.write_text(
        "about: A test's.\nencoder: {kind: char-ngrams}\nsettings: {features: 4, epochs: 1}\n"
    )

    def reply(prompt: str) -> str:
        (said,) = [line for line in prompt.splitlines() if line.startswith("one wonders")]
        return said.replace("one wonders", "I demand")

    with StubServer(Script(), reply=reply) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        options = ("--model", "local-server", "-o", str(out), "--results", str(tmp_path / "r"))
        assert main(["build", "pairs", str(source), *options]) == 0
    trained = ("-o", str(tmp_path / "heads"), "--recipe", str(recipe), "--json")
    capsys.readouterr()
    assert main(["impscore", "train", str(out), *trained]) == 0

    told = capsys.readouterr()
    assert json.loads(told.out)["metrics"]["test pairs"] == 3  # one in ten of 32
    assert "sentences: 64 of 64 done" in told.err


def test_a_chain_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    intentions = {"true_intention": ["Shut it."], "literal_intention": ["It is cold."]}
    fields = {"speaker": "Ann", "listener": "Bo", "context": "The window is open."}
    source.write_text(json.dumps({"group": "g", "fields": fields, "references": intentions}))

    with StubServer(Script(), reply=lambda _: "Said.") as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        options = ("--model", "local-server", "-o", str(out), "--results", str(tmp_path / "r"))
        assert main(["build", "chains", str(source), *options]) == 0
        asked = [body["messages"][-1]["content"] for body in stub.bodies]

    replies = [words for words in asked if "answers, helpfully" in words]
    assert sorted("The window is open." in words for words in replies) == [False, True]
    assert sorted(read([out], None)[0].references) == sorted(
        [*intentions, "turn1_literal", "turn1_true", "turn2_literal", "turn2_true"]
    )
