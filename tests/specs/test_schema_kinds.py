"""A kind that is no word is refused in one message."""

import pytest

from harness.errors import SpecError
from harness.specs.judges import JudgeSpec
from harness.specs.schema import load_spec


@pytest.mark.parametrize("kind", [["gold"], {"gold": 1}, 7, None])
def test_a_kind_that_is_no_word_is_refused(kind: object) -> None:
    with pytest.raises(SpecError, match=r"x\.yaml"):
        load_spec({"about": "A judge.", "kind": kind}, JudgeSpec, where="x.yaml")
