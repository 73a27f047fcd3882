"""A text is measured once, whatever runs it is in, and its words are not kept."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.impscore_heads import Standin

from harness.implicitness.open import AT_ONCE, CachedScorer
from harness.implicitness.scorer import Scored


def test_a_text_is_measured_once_in_all_processes(tmp_path: Path) -> None:
    first, second = Standin(), Standin()

    one = CachedScorer(first, tmp_path).score(["abc", "", None, "abc"])
    two = CachedScorer(second, tmp_path).score(["abc", "abcd", None])

    assert [part.value for part in one] == [0.3, None, None, 0.3]
    assert [(part.value, part.flag) for part in two] == [(0.3, None), (0.4, None), (None, "empty")]
    assert (first.heard, second.heard) == (["abc", "", None], ["abcd"])


class Mortal(Standin):
    """A scorer that ends with its third share of texts."""

    def score(self, texts: Sequence[object]) -> list[Scored]:
        if len(self.heard) >= 2 * AT_ONCE:
            raise KeyboardInterrupt
        return super().score(texts)


MANY = [f"text {n}" for n in range(3 * AT_ONCE + 1)]


def test_what_is_measured_before_an_end_is_not_measured_again(tmp_path: Path) -> None:
    second = Standin()
    with pytest.raises(KeyboardInterrupt):
        CachedScorer(Mortal(), tmp_path).score(MANY)

    found = CachedScorer(second, tmp_path).score(MANY)

    assert second.heard == MANY[2 * AT_ONCE :]
    assert [part.value for part in found] == [len(text) / 10 for text in MANY]


def test_the_words_of_a_text_are_not_kept(tmp_path: Path) -> None:
    CachedScorer(Standin(), tmp_path).score(["mostly harmless"])
    [path] = tmp_path.iterdir()
    assert b"harmless" not in path.read_bytes()


@pytest.mark.parametrize("torn", [b"[", b"[5]\n", b"\xff\xfe", b'\n["00",0.'])
def test_a_damaged_line_costs_no_other(tmp_path: Path, torn: bytes) -> None:
    scorer = Standin()
    CachedScorer(scorer, tmp_path).score(["abc"])
    with (tmp_path / "00112233-3.jsonl").open("ab") as file:
        file.write(torn)

    CachedScorer(scorer, tmp_path).score(["abcd"])

    assert CachedScorer(scorer, tmp_path).score(["abc", "abcd"])[1].value == 0.4
    assert scorer.heard == ["abc", "abcd"]


def test_a_folder_that_cannot_be_written_is_reported_and_does_not_stop_a_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"")
    found = CachedScorer(Standin(), tmp_path / "file").score(["abc", "\ud800"])

    assert [part.value for part in found] == [0.3, 0.1]
    assert "the texts will be scored again" in caplog.text
