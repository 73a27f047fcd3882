"""A text is measured once, whatever runs it is in, and its words are not kept."""

from pathlib import Path

import pytest
from test_implicitness import Standin

from harness.remembered import Remembered


def test_a_text_is_measured_once_in_all_processes(tmp_path: Path) -> None:
    first, second = Standin(), Standin()

    one = Remembered(first, tmp_path).score(["abc", "", None, "abc"])
    two = Remembered(second, tmp_path).score(["abc", "abcd", None])

    assert [part.value for part in one] == [0.3, None, None, 0.3]
    assert [(part.value, part.flag) for part in two] == [(0.3, None), (0.4, None), (None, "empty")]
    assert (first.heard, second.heard) == (["abc", "", None], ["abcd"])


def test_scorers_of_other_digests_share_nothing(tmp_path: Path) -> None:
    other = Standin(signature="standin@99999999")
    Remembered(Standin(), tmp_path).score(["abc"])

    Remembered(other, tmp_path).score(["abc"])

    assert other.heard == ["abc"]


def test_the_words_of_a_text_are_not_kept(tmp_path: Path) -> None:
    Remembered(Standin(), tmp_path).score(["mostly harmless"])

    [path] = tmp_path.iterdir()
    assert b"harmless" not in path.read_bytes()


@pytest.mark.parametrize("content", [b"{", b'{"key": 5}\n', b"\xff\xfe"])
def test_a_damaged_file_is_made_again(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "00112233.jsonl").write_bytes(content)
    scorer = Standin()

    assert [part.value for part in Remembered(scorer, tmp_path).score(["abc"])] == [0.3]
    assert Remembered(scorer, tmp_path).score(["abc"])[0].value == 0.3
    assert scorer.heard == ["abc"]


def test_a_folder_that_cannot_be_written_is_told_of_and_does_not_stop_a_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")

    found = Remembered(Standin(), tmp_path / "file").score(["abc", "\ud800"])

    assert [part.value for part in found] == [0.3, 0.1]
    assert "the texts will be measured again" in caplog.text


def test_name_digest_and_what_was_seen_are_the_scorers() -> None:
    scorer = Standin(seen=frozenset({"0011"}))

    held = Remembered(scorer, Path())

    assert (held.signature, held.seen) == (scorer.signature, scorer.seen)
