"""A stored run to the card of a moderation model: what it was run on, its rates, and their limits.

It holds numbers and names, and none of the texts; the template escapes names.
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from math import inf, isnan
from typing import Any

from harness.analysis.boards.ranked import CONTROL
from harness.analysis.flags import RateQuery, positive_labels
from harness.analysis.rates import PRECISION, point_words
from harness.lazy import DataFrame
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS
from harness.pipeline.score import ALL
from harness.present.document import form
from harness.specs.models import CLASSIFIERS
from harness.stats.estimate import NoValue
from harness.storage.find_runs import data_words, is_trial
from harness.storage.frames import load
from harness.storage.runs import RunFolder
from harness.storage.signature import short_labels

LEVEL = 0.05
_HEADS = {HITS: "found (TPR)", FALSE_ALARMS: "flagged falsely (FPR)", "precision": "precision"}


def card_markdown(
    folder: RunFolder, query: RateQuery, texts: DataFrame, rates: DataFrame, gaps: DataFrame
) -> str:
    """The card of a run as a page of Markdown, by the template `forms/card.md.j2`.

    `texts` are its flagged texts, `rates` and `gaps` the rates of these by group.
    """
    tested = gaps[gaps["p_holm"].notna()]
    sure = [
        (
            f"{gap.column}: {gap.group} less {gap.against}",
            gap.rate,
            f"{gap.gap:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})",
            f"{gap.p_holm:.3g}",
        )
        for gap in tested[tested["p_holm"] < LEVEL]
        .sort_values("p_holm", kind="stable")
        .itertuples()
    ]
    facts = _facts(folder, query, texts, rates)
    found = {"file": folder.read(), "facts": facts, "rates": _rates(rates), "sure": sure}
    limits = _limits(folder, texts, rates, gaps)
    return "".join(form("card.md", tested=len(tested), **found, **limits))


def _facts(
    folder: RunFolder, query: RateQuery, texts: DataFrame, rates: DataFrame
) -> list[tuple[str, str]]:
    """What was run, by name."""
    file = folder.read()
    model, data, variants = file.model, file.data, file.run.variants
    kind = "a control, no model" if model.kind == CONTROL else model.kind
    # Digests are as long as elsewhere.
    identity = re.sub(r"[0-9a-f]{40,}", lambda found: found[0][:16], model.identity)
    files = ", ".join(f"{name} (sha256 {digest[:16]})" for name, digest in data.files.items())
    is_set = data.mode == "sample"
    source = f"{data_words(file)}, " if is_set else f"{data.source}, {data.label}: "
    asked = f"asked by the prompt of variant{'s' * (len(variants) > 1)} {', '.join(variants)}"
    if model.kind in CLASSIFIERS:
        asked = "read as they are, without a prompt"
    for _, own in texts.groupby("signature", sort=False):
        if left_out := int((~own["is_measured"]).sum()):
            measured = len(own) - left_out
            asked += f"; {measured} answers measured, {left_out} left out to choose the threshold"
    points = rates[rates["threshold"].notna()].to_dict("records")
    facts = {
        "Model": f"{model.name} ({kind}): {identity}"
        + (f", revision {model.revision}" if model.revision else ""),
        "Task": f"{file.run.task}: {file.task.about}",
        "Data": f"{source}{files}".rstrip(" :,"),
        "Texts": f"{file.samples}, {asked}",
        "To detect": ", ".join(query.positive or positive_labels(folder)),
        "Judge": query.judge,
        "Run": f"{file.digest[:16]}, harness {file.version}",
        "Operating point": "; ".join(sorted({point_words(row) for row in points})),
    }
    return [(name, said) for name, said in facts.items() if said]


def _rates(rates: DataFrame) -> Iterator[tuple[str, list[str], list[tuple[str, ...]]]]:
    """The title, the head and the lines of the rates of each recipe by each column."""
    called = short_labels(dict.fromkeys(rates["signature"], ""))
    for (signature, column), own in rates.groupby(["signature", "column"], sort=False):
        cells = {(row["group"], row["rate"]): _rate(row) for row in own.to_dict("records")}
        lines = [(g, *(cells[g, rate] for rate in _HEADS)) for g in own["group"].unique()]
        title = f"{called[signature]}, {f'by {column}' if column else 'all texts'}"
        yield title, [column or "texts", *_HEADS.values()], lines


def _rate(row: Mapping[Hashable, Any]) -> str:
    if isnan(row["value"]):
        return f"none ({row['note']})"
    ends = "" if isnan(row["low"]) else f" ({row['low']:.3f} to {row['high']:.3f})"
    lost = f", {row['missing']} missing" if row["missing"] else ""
    return f"{row['value']:.3f}{ends}, n {row['n']}{lost}"


def _limits(
    folder: RunFolder, texts: DataFrame, rates: DataFrame, gaps: DataFrame
) -> dict[str, object]:
    """What limits the rates: counts and names that the template words."""
    file = folder.read()
    flags = load([folder], "samples", ["sample", "flags"])
    is_known = [own is not None and "scorer_trained_on" in own for own in flags["flags"]]
    answers = load([folder], "answers", ["sample"])["sample"]
    is_few = (gaps["note"] == NoValue.TOO_FEW) & (gaps["rate"] != PRECISION)
    few = gaps[is_few].groupby("column")["group"].unique()
    is_whole = (rates["group"] == ALL) & (rates["rate"] == HITS)
    return {
        "data_set": data_words(file) if is_trial(file) else "",
        "of": "this data" + ", this prompt" * (file.model.kind not in CLASSIFIERS),
        "lost": int(texts["flagged"].isna().sum()),
        "texts": len(texts),
        "positive": int(texts["is_positive"].sum()),
        "trained_on": int(answers.isin(set(flags["sample"][is_known])).sum()),
        "few": "; ".join(f"{column} ({', '.join(sorted(own))})" for column, own in few.items()),
        "originals": rates[is_whole]["clusters"].min() if is_whole.any() else inf,
    }
