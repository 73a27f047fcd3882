"""build: the file that is made, and how the command ends."""

import json
from pathlib import Path

import pytest
from support.stub_script import Script
from support.stub_server import StubServer

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
