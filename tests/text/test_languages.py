"""Texts in another language than a judge reads are found by what is declared, or by letters."""

import pytest

from harness.text.languages import mismatch

ENGLISH, GERMAN = ("It is late.",), ("Es ist spät, und nicht zum ersten Mal.",)
RUSSIAN, JAPANESE = ("Уже поздно, Anna.",), ("もう遅いですよ。",)


@pytest.mark.parametrize(
    ("languages", "declared", "texts", "why"),
    [
        (("en",), "de", ENGLISH, "declared as de"),
        (("en",), "en-GB", GERMAN, None),
        (("en", "de"), "DE_at", GERMAN, None),
        ((), "de", RUSSIAN, None),
        (("en",), None, GERMAN, None),
        (("en",), None, RUSSIAN, "mostly not in Latin letters"),
        (("en",), None, JAPANESE, "mostly not in Latin letters"),
        (("ru",), None, RUSSIAN, None),
        (("ru",), None, ENGLISH, None),
        (("en",), None, ("1, 2, 3!", ""), None),
    ],
)
def test_a_language_that_is_not_read_is_reported(
    languages: tuple[str, ...], declared: str | None, texts: tuple[str, ...], why: str | None
) -> None:
    assert mismatch(languages, declared, texts) == why
