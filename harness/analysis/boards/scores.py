"""Runs to one frame of scores, each score once, and the headlines among them."""

import csv
import logging
from collections.abc import Mapping
from io import StringIO
from typing import Any

from harness.errors import HarnessError, StoreError
from harness.lazy import DataFrame, pandas
from harness.parts import Reason
from harness.pipeline.score import ALL, all_scores, rows_of
from harness.pipeline.score import HEADLINES as HEADLINES
from harness.storage.cells import formula_text, long_cells
from harness.storage.frames import frame_csv
from harness.storage.runs import COLUMNS, SCORES, RunFolder, table_text
from harness.storage.signature import Signature, clean_signature

_log = logging.getLogger(__name__)
BOARD_COLUMNS = (
    *COLUMNS,
    *("run", "data", "limit", "seed", "prompts", "version", "judge_version"),
    *("rank", "rank_group", "rank_items"),
)
"""The columns of leaderboard.csv."""
DIGITS = 6
"""The digits of a number in leaderboard.csv; the scores.csv of a run has all, and is read again."""
_FACTS = (
    *("data", "limit", "seed", "prompts", "version", "judge_version"),
    *("kind", "tested", "recipe", "alike"),
)
_NUMBERS = ("value", "low", "high", "chance", "cost_usd")
_COUNTS = ("n", "clusters", *(f"missing_{reason}" for reason in Reason))
_PLACE = ("task", "judge", "variant", "decoding", "model", "is_part", "group", "metric")


def score_text(folder: RunFolder, *, is_every: bool = False) -> str | None:
    """The headline scores of a run, or every one, as scores.csv has them.

    They are computed from its verdicts if scores.csv has changed. None, after a warning, if the
    verdicts have changed as well.
    """
    changed = [folder.path / name for name in folder.changed() if name != SCORES]
    try:
        text = table_text(all_scores(folder)) if is_every else folder.scores_text()
    except StoreError as error:
        fact = str(error).partition(";")[0]
        try:
            text = table_text(rows_of(folder.read(), folder.tables(), is_every=is_every))
        except HarnessError as other:
            _log.warning("%s; %s: the run is left out", fact, other)
            return None
        _log.warning("%s; its scores are computed from its verdicts", fact)
        return text
    words = "changed since it was written; its stored scores are shown; repeat the run"
    for path in changed:
        _log.warning("%s: %s", path, words)
    return text


def board_scores(texts: Mapping[str, str | None]) -> DataFrame:
    """The scores of some runs, each once: `texts` has what `score_text` gives by the run's name.

    The columns are those of scores.csv, then `run`, `missing` (the sum over reasons), and what the
    signature says: `tested` is the model with its version, `recipe` all but the model (rows of one
    recipe share a board), `alike` what headlines share. `attrs` has `lost`: runs without a text.
    """
    known = {run: text.partition("\n")[2] for run, text in texts.items() if text}
    kinds: dict[str, Any] = dict.fromkeys(COLUMNS, "category")
    kinds |= dict.fromkeys(_NUMBERS, "object") | dict.fromkeys(_COUNTS, "int64")
    body = StringIO("".join(known.values()))
    frame = pandas.read_csv(body, names=[*COLUMNS], dtype=kinds, na_filter=False, low_memory=False)
    numbers = list(_NUMBERS)  # as Python reads them, to the last digit
    frame[numbers] = frame[numbers].replace("", "nan").astype("float64")
    with long_cells(max(map(len, known.values()), default=0)):
        sizes = [sum(1 for _ in csv.reader(StringIO(text, newline=""))) for text in known.values()]
    runs = pandas.Series(list(known), dtype=object).repeat(sizes).astype("category")
    frame["run"] = runs.reset_index(drop=True)
    frame["group"] = frame["group"].cat.rename_categories(formula_text)
    frame["is_part"] = frame["group"] != ALL
    frame = frame.sort_values("n", ascending=False, kind="stable")
    frame = frame.drop_duplicates(["signature", "group", "metric"]).sort_index()
    frame = frame.sort_values([*_PLACE], kind="stable", ignore_index=True).drop(columns="is_part")
    frame["missing"] = frame[[f"missing_{reason}" for reason in Reason]].sum(axis=1)
    signatures = frame["signature"].cat
    facts = pandas.DataFrame(map(_facts, signatures.categories), columns=["signature", *_FACTS])
    facts = facts.astype("category").take(signatures.codes).set_axis(frame.index)
    found = pandas.concat([frame.drop(columns="signature"), facts], axis=1)
    found.attrs["lost"] = [run for run, text in texts.items() if text is None]
    return found


def _facts(text: str) -> tuple[str, ...]:
    signature = clean_signature(text)
    made, fields = Signature.parse(signature), signature.split("|")
    # All of a recipe but the temperatures of the decoding.
    drawn = f",n{made.repeats},s{made.seed}"
    return (
        *(signature, made.data, made.limit, made.seed, made.prompts),
        *(f"{made.kind}@{made.version}", made.judge.partition(":")[2], made.kind, fields[3]),
        "|".join([*fields[:3], *fields[4:]]),
        "|".join([*fields[:2], drawn, *fields[5:]]),
    )


def headlines(scores: DataFrame) -> DataFrame:
    """The rows of `board_scores` over all decodings together: one a run, variant and judge."""
    chosen = scores[(scores["group"] == ALL) & scores["metric"].isin(HEADLINES)]
    pooled = -chosen["decoding"].astype(object).str.count(r"\+").astype(int)
    chosen = chosen.loc[pooled.sort_values(kind="stable").index]
    key = ["task", "tested", "variant", "judge", "alike"]
    return chosen.drop_duplicates(key).sort_index()


def board_text(rows: DataFrame) -> str:
    """The leaderboard as CSV, for people: floats to 6 digits, what is missing is empty."""
    short = {name: [float(f"{cell:.{DIGITS}g}") for cell in rows[name]] for name in _NUMBERS}
    return frame_csv(rows.assign(**short))
