"""WordNet where one is installed, and what is said where none is."""

import pytest

from harness.errors import SpecError
from harness.text.words import is_installed, synonyms


@pytest.mark.skipif(is_installed(), reason="a WordNet package is installed")
def test_without_a_wordnet_the_error_says_what_to_install() -> None:
    with pytest.raises(SpecError, match="no WordNet is installed; `pip install wn`"):
        synonyms("adjective")


@pytest.mark.skipif(not is_installed(), reason="no WordNet is installed")
def test_a_word_is_no_synonym_of_its_own() -> None:
    try:
        lookup = synonyms("adjective")
    except SpecError as error:
        pytest.skip(f"the data of wn is missing: {error}")

    assert "big" not in lookup("big")
    assert "large" in lookup("big")
