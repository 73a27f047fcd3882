"""Logs of Inspect without its library; tests/peers reads real ones with it."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from support import quiz as quiz_module
from support.each import each

from harness.errors import ModelError
from harness.importers.formats.inspect_log import ZIPPED, recognises

IS_HERE = find_spec("inspect_ai") is not None


@each(
    ("text", "is_known"),
    [
        (ZIPPED, True),
        ('{"version": 2, "eval": {"packages": {"inspect_ai": "0.3.1"}}}', True),
        ('{"version": 2, "eval": {}}', False),
        ('[{"eval": {"packages": {"inspect_ai": "0.3.1"}}}]', False),
        ("", False),
    ],
)
def test_a_log_is_known_by_what_is_in_it(text: str, is_known: bool) -> None:
    assert recognises(text) is is_known


@pytest.mark.skipif(IS_HERE, reason="inspect_ai is installed here")
@pytest.mark.parametrize("data", [b"PK\x03\x04\x00", b'{"eval": {"packages": {"inspect_ai": 1}}}'])
def test_without_the_library_the_install_line_is_reported(tmp_path: Path, data: bytes) -> None:
    quiz = quiz_module.build(tmp_path)
    path = tmp_path / "log.eval"
    path.write_bytes(data)

    with pytest.raises(ModelError, match=r'pip install -e "\.\[inspect\]"'):
        quiz.take(path)
