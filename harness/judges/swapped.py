"""Any judge, shown each answer under another sample of its cluster.

Its verdicts then cannot depend on what the samples of a cluster differ in. The mean of the judge
as it is, less its mean when swapped, shows how far it heeds that difference.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.core import Case, Judge, Request, Response, Sample, Verdict
from harness.judges.label import JudgeLabel
from harness.parts import Reason


@dataclass(frozen=True, slots=True)
class Swapped:
    """A judge that is shown, for each sample, the partner of that sample.

    A sample without a partner has no verdict: it is unsupported.
    """

    judge: Judge
    partners: Mapping[str, Sample]

    @property
    def name(self) -> str:
        """The judge's name, marked as swapped."""
        return str(replace(JudgeLabel.parse(self.judge.name), is_swapped=True))

    @property
    def metric(self) -> str:
        """What the mean of the judge's verdicts is called."""
        return self.judge.metric

    @property
    def recipe(self) -> str:
        """The judge's recipe under the marked name."""
        return self.name + self.judge.recipe.removeprefix(self.judge.name)

    def ask(self, sample: Sample, response: Response) -> tuple[Request, ...]:
        """What the judge asks about the response as one to the sample's partner."""
        partner = self.partners.get(sample.id)
        return self.judge.ask(partner, response) if partner else ()

    def read(self, cases: Sequence[Case]) -> list[Verdict]:
        """One verdict a case, in the order of the cases."""
        partners = [self.partners.get(case.sample.id) for case in cases]
        pairs = zip(cases, partners, strict=True)
        swapped = [replace(case, sample=partner) for case, partner in pairs if partner]
        verdicts = iter(self.judge.read(swapped) if swapped else [])
        return [
            replace(next(verdicts), judge=self.name) if partner else self._alone(case)
            for case, partner in zip(cases, partners, strict=True)
        ]

    def _alone(self, case: Case) -> Verdict:
        note = "no other sample of its cluster to swap it with"
        return Verdict(case.response.key, self.name, None, Reason.UNSUPPORTED, note=note)


def partners(samples: Iterable[Sample]) -> dict[str, Sample]:
    """The partner of each sample by its id: the next of its cluster, by id and cyclic.

    A sample that shows the same, or shares a reference text, would swap nothing: it is passed
    over. Samples without any other have no partner.
    """
    clusters: dict[str, dict[str, Sample]] = {}
    for sample in samples:
        clusters.setdefault(sample.cluster, {})[sample.id] = sample
    found: dict[str, Sample] = {}
    for members in clusters.values():
        ordered = [members[name] for name in sorted(members)]
        for place, sample in enumerate(ordered):
            others = ordered[place + 1 :] + ordered[:place]
            if partner := next((one for one in others if _differs(sample, one)), None):
                found[sample.id] = partner
    return found


def _differs(one: Sample, other: Sample) -> bool:
    return one.fields != other.fields and not _texts(one) & _texts(other)


def _texts(sample: Sample) -> set[str]:
    texts = (text for texts in sample.references.values() for text in texts)
    return {text.strip().casefold() for text in texts}
