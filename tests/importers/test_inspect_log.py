"""Formats are known by content; logs of Inspect without its library (tests/peers has it)."""

from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from support import quiz as quiz_module
from support.each import each

from harness.errors import ModelError
from harness.importers.formats import inspect_log, lm_eval_log, topical_chat

IS_HERE = find_spec("inspect_ai") is not None


@each(
    ("layout", "known", "unknown"),
    [
        (inspect_log, inspect_log.ZIPPED, ""),
        (inspect_log, '{"version": 2, "eval": {"packages": {"inspect_ai": "0.3.1"}}}', "[]"),
        (inspect_log, '{"eval": {"packages": {"another": 1}}}', '{"version": 2, "eval": {}}'),
        (topical_chat, '\n [{"all_responses"', '{"all_responses": []}'),
        (
            lm_eval_log,
            '{"doc_id": 0, "doc": {}, "arguments": {}, "resps": []}\n{',
            '{"doc_id": 0}\n{}',
        ),
    ],
)
def test_a_format_is_known_by_its_content(layout: ModuleType, known: str, unknown: str) -> None:
    assert layout.recognises(known)
    assert not layout.recognises(unknown)


@pytest.mark.skipif(IS_HERE, reason="inspect_ai is installed here")
@pytest.mark.parametrize("data", [b"PK\x03\x04\x00", b'{"eval": {"packages": {"inspect_ai": 1}}}'])
def test_without_the_library_the_install_line_is_reported(tmp_path: Path, data: bytes) -> None:
    quiz = quiz_module.build(tmp_path)
    path = tmp_path / "log.eval"
    path.write_bytes(data)

    with pytest.raises(ModelError, match=r'pip install -e "\.\[inspect\]"'):
        quiz.take(path)
