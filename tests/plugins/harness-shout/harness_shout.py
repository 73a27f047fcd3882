"""A judge that finds shouting, and a model that shouts: two kinds for YAML files."""

from collections.abc import Sequence

from harness.core import Case, Verdict
from harness.judges.custom import ComputedJudge
from harness.models.custom import TextModel
from harness.parts import Message, Reason
from harness.specs.schema import Spec


class ShoutingSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="shouting"):
    """The share of an answer's letters that are capitals is at least `share`."""

    about: str
    share: float = 1.0


class ShoutingJudge(ComputedJudge):
    """1 where an answer is shouted, 0 where it is not."""

    Spec = ShoutingSpec
    metric = "shouted"

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """Give one verdict a case."""
        return [self._verdict(case) for case in cases]

    def _verdict(self, case: Case) -> Verdict:
        letters = [letter for letter in (case.response.texts or ("",))[0] if letter.isalpha()]
        if not letters:
            return Verdict(case.response.key, self.name, None, Reason.EMPTY)
        share = sum(letter.isupper() for letter in letters) / len(letters)
        return Verdict(case.response.key, self.name, float(share >= self._spec.share))


class ShouterSpec(Spec, frozen=True, kw_only=True, tag_field="kind", tag="shouter"):
    """Writes the prompt in capitals, its first `letters` letters."""

    about: str = ""
    letters: int = 20


class Shouter(TextModel):
    """A model that writes the prompt in capitals."""

    Spec = ShouterSpec

    def reply(self, messages: Sequence[Message]) -> str:
        """Write one reply."""
        return messages[-1].content[: self._spec.letters].upper()
