"""A stored run to views: one judge's score of each sample, under one variant or pool of orders."""

from dataclasses import dataclass

import numpy as np

from harness.errors import StoreError
from harness.lazy import DataFrame, pandas
from harness.pipeline import verdict_frame as frames
from harness.pipeline.choice_scores import permuted
from harness.pipeline.score import signature
from harness.pipeline.verdict_frame import Files
from harness.stats.estimate import Clusters
from harness.storage.read_tables import arrow_table, column_names
from harness.storage.runs import JudgeEntry, RunFile, RunFolder
from harness.storage.schema import FIELD, REFERENCE

ABSENT = -1
"""Of a text that is not there: Python hashes nothing to -1."""


@dataclass(frozen=True, slots=True, eq=False)
class ComparedRun:
    """A run with its `verdict_frame` (and the sample's `id`), and the number of its answers.

    `said` has a row a sample, by its id: hashes of its fields and references, in this process.
    """

    file: RunFile
    verdicts: DataFrame
    said: DataFrame
    answers: int

    @classmethod
    def read(cls, folder: RunFolder) -> "ComparedRun":
        """The run of a folder; StoreError where its tables were changed."""
        return cls.of(folder.read(), folder.tables())

    @classmethod
    def of(cls, file: RunFile, files: Files) -> "ComparedRun":
        """A run from the files of its tables."""
        verdicts = frames.verdict_frame(files, file.task)
        ids = np.array(sorted({*map(str, _cells(files, "verdicts", "sample"))}), dtype=object)
        verdicts["id"] = ids[verdicts["sample"].to_numpy()]
        texts = (n for n in column_names(files["samples"]) if n.startswith((FIELD, REFERENCE)))
        hashes = {name: [*map(_hash, _cells(files, "samples", name))] for name in texts}
        index = pandas.Index(_cells(files, "samples", "sample"))
        said = pandas.DataFrame(hashes, index=index).reindex(ids)
        return cls(file, verdicts, said, len(_cells(files, "answers", "variant")))


def _cells(files: Files, table: str, column: str) -> list[object]:
    cells: list[object] = arrow_table(files[table], [column]).column(column).to_pylist()
    return cells


def _hash(cell: object) -> int:
    if cell is None:
        return ABSENT
    return hash(tuple(cell)) if isinstance(cell, list) else hash(cell)


def ways(verdicts: DataFrame) -> list[tuple[str, str]]:
    """The variants and decodings of some verdicts, in the order in which they come."""
    found = verdicts[["variant", "decoding"]].drop_duplicates()
    return list(found.itertuples(index=False, name=None))


@dataclass(frozen=True, slots=True, eq=False)
class RunView:
    """One judge's scores of a run under a variant or pool, a row a sample.

    `scores` has `id`, `cluster`, `group`, `sample_choices` and `value`. `snapshots` are those of
    the model under test and of the judge model, empty where unknown.
    """

    file: RunFile
    judge: JudgeEntry
    variant: str
    decoding: str
    snapshots: tuple[str, str]
    scores: DataFrame
    is_pool: bool = False

    def signature(self, decoding: str) -> str:
        """The recipe of these scores in one line, under the name of its decodings."""
        recipe = {"variant": self.variant, "decoding": decoding}
        return signature(self.file, self.judge, **recipe, snapshots=self.snapshots)


def views(run: ComparedRun, judge: JudgeEntry) -> list[RunView]:
    """Every view of a run by a judge: its variants, then the pools that are whole."""
    read = run.verdicts[run.verdicts["judge"] == judge.name]
    parts = [*frames.by_snapshot(read)]
    if len(parts) > 1:
        names = "; ".join(" by ".join(name or "unknown" for name in pair) for pair, _ in parts)
        raise StoreError(
            f"{describe_run(run.file)}, judge {judge.name}: its verdicts are of several snapshots "
            f"({names}), which share no row; name one in the model's YAML and repeat the run"
        )
    single, pools, found = set(read["decoding"].unique()), frames.averages(run.file.task), []
    for snapshots, own in parts:
        for block in frames.blocks(own, run.file.task, has_groups=False):
            is_pool, verdicts = block.is_average, block.verdicts
            # A pool is whole if all of its variants were asked in this way.
            members = pools[block.variant] if is_pool else ()
            if block.decoding in single and {*members} <= {*verdicts["variant"].unique()}:
                of = (run.file, judge, block.variant, block.decoding, snapshots)
                found.append(RunView(*of, _scores(verdicts, is_pool=is_pool), is_pool))
    return found


def _scores(verdicts: DataFrame, *, is_pool: bool) -> DataFrame:
    """A row a sample with its score; over several orders, by averaged probability if known."""
    codes, samples = verdicts["sample"].factorize()
    sums, sizes = Clusters(codes, len(samples)).exact_sums(verdicts["value"].to_numpy())
    found, is_first = sums / sizes, ~verdicts["sample"].duplicated()
    if is_pool:
        likeliest = permuted(verdicts)[is_first]
        found = np.where(np.isnan(found) | np.isnan(likeliest), found, likeliest)
    facts = ["id", "cluster", "group", "sample_choices"]
    return verdicts.loc[is_first, facts].assign(value=found)


def describe_run(file: RunFile) -> str:
    """A run in words, for messages."""
    return f"run {file.digest[:12]} ({file.model.name} on {file.run.task})"
