"""A stored run to the card of a moderation model: what it was run on, its rates, and their limits.

The card is Markdown. It holds numbers and names, and none of the texts; names from data and models
are escaped.
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isnan
from typing import Any

from harness.analysis.boards.ranked import CONTROL
from harness.analysis.flags import RateQuery, positive_labels, sample_cells
from harness.analysis.rates import PRECISION, names, point_words
from harness.lazy import DataFrame
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS
from harness.pipeline.score import ALL
from harness.present.document import form
from harness.specs.models import CLASSIFIERS
from harness.stats.estimate import NoValue
from harness.storage.find_runs import data_words, is_trial
from harness.storage.frames import load
from harness.storage.runs import RunFile, RunFolder
from harness.text.cleanup import for_display

MOST_GROUPS, MOST_MISSED, LEAST_MISSED, LEVEL = 20, 8, 5, 0.05
_HEADS = {HITS: "found (TPR)", FALSE_ALARMS: "flagged falsely (FPR)", "precision": "precision"}
_SPECIAL = re.compile(r"([\\`*_\[\]|#~])")
_OURS = ("label", "perturbed_from", "perturbed_by", "keeps_meaning")


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a card says: the run, its flagged texts, their rates, and the gaps between groups."""

    folder: RunFolder
    file: RunFile
    query: RateQuery
    texts: DataFrame
    rates: DataFrame
    gaps: DataFrame


def card_columns(folder: RunFolder) -> tuple[str, ...]:
    """The kept columns of two to twenty values, by which a card splits rates without --by."""
    cells, found = sample_cells(folder), []
    known = load([folder], "samples", ["sample", "gold"])
    gold = known.set_index(known["sample"].astype(object))["gold"]
    for name in cells:
        own = cells[name].explode().dropna()
        is_ours = name in _OURS or re.fullmatch(r"order\d+", name) is not None
        # Groups that are the labels under other names have a rate each, that of all texts.
        labels = set(zip(own, gold.loc[own.index], strict=True))
        is_label = len(labels) == own.nunique() == len({label for _, label in labels})
        if 2 <= own.nunique() <= MOST_GROUPS and not is_ours and not is_label:
            found.append(name)
    return tuple(found)


def card_markdown(card: ModelCard) -> str:
    """The card as a page of Markdown, by the template `forms/card.md.j2`."""
    tested = card.gaps[card.gaps["p_holm"].notna()]
    sure = tested[tested["p_holm"] < LEVEL].sort_values("p_holm", kind="stable")
    gaps = [
        (
            plain(f"{gap.column}: {gap.group} less {gap.against}"),
            gap.rate,
            f"{gap.gap:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})",
            f"{gap.p_holm:.3g}",
        )
        for gap in sure.itertuples()
    ]
    parts = {"facts": _facts(card), "rates": [*_rates(card)], "missed": _missed(card)}
    limits = {"tested": len(tested), "sure": gaps, **_limits(card)}
    return "".join(form("card.md", file=card.file, plain=plain, **parts, **limits))


def plain(text: str) -> str:
    """A text on one line without anything that Markdown or HTML would act on."""
    shown = " ".join(for_display(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(r"\\\1", shown)


def _facts(card: ModelCard) -> list[tuple[str, str]]:
    """What was run, by name."""
    file = card.file
    model, data = file.model, file.data
    labels = card.query.positive or positive_labels(card.folder)
    revision = f", revision {model.revision}" if model.revision else ""
    files = ", ".join(f"{name} (sha256 {digest[:16]})" for name, digest in data.files.items())
    is_set = data.mode == "sample"
    source = data_words(file) if is_set else f"{data.source}, {data.label}"
    joint = ", " if is_set else ": "
    facts = {
        "Model": f"{model.name} ({_kind(card)}): {_short(model.identity)}{revision}",
        "Task": f"{file.run.task}: {file.task.about}",
        "Data": source + (f"{joint}{files}" if files else ""),
        "Texts": f"{file.samples}, {_asked(card)}",
        "To detect": ", ".join(labels),
        "Judge": card.query.judge,
        "Run": f"{file.digest[:16]}, harness {file.version}",
    }
    chosen = card.rates[card.rates["threshold"].notna()].to_dict("records")
    points = {point_words(row) for row in chosen}
    if points:
        facts["Operating point"] = "; ".join(sorted(points))
    return [(name, plain(said)) for name, said in facts.items()]


def _kind(card: ModelCard) -> str:
    kind = card.file.model.kind
    return "a control, no model" if kind == CONTROL else kind


def _reads_text(card: ModelCard) -> bool:
    return card.file.model.kind in CLASSIFIERS


def _short(identity: str) -> str:
    """What a model is, its digests as long as elsewhere."""
    return re.sub(r"[0-9a-f]{40,}", lambda found: found[0][:16], identity)


def _asked(card: ModelCard) -> str:
    variants = card.file.run.variants
    said = f"asked by the prompt of variant{'s' * (len(variants) > 1)} {', '.join(variants)}"
    said = "read as they are, without a prompt" if _reads_text(card) else said
    for _, own in card.texts.groupby("signature", sort=False):
        if left_out := int((~own["is_measured"]).sum()):
            measured = len(own) - left_out
            said += f"; {measured} answers measured, {left_out} left out to choose the threshold"
    return said


def _rates(card: ModelCard) -> Iterator[tuple[str, list[str], list[tuple[str, ...]]]]:
    """The title, the head and the lines of the rates of each recipe by each column."""
    called = names(card.rates["signature"].unique())
    for (signature, column), own in card.rates.groupby(["signature", "column"], sort=False):
        cells = {(row["group"], row["rate"]): _rate(row) for row in own.to_dict("records")}
        lines = [(plain(g), *(cells[g, rate] for rate in _HEADS)) for g in own["group"].unique()]
        by = f"by {column}" if column else "all texts"
        title = f"{plain(called[signature])}, {plain(by)}"
        yield title, [plain(column) or "texts", *_HEADS.values()], lines


def _rate(row: Mapping[Hashable, Any]) -> str:
    if isnan(row["value"]):
        return f"none ({row['note']})"
    ends = "" if isnan(row["low"]) else f" ({row['low']:.3f} to {row['high']:.3f})"
    lost = f", {row['missing']} missing" if row["missing"] else ""
    return f"{row['value']:.3f}{ends}, n {row['n']}{lost}"


def _missed(card: ModelCard) -> list[tuple[str, ...]]:
    """The kinds of texts with the greatest shares of missed ones."""
    rows = card.rates
    is_known = (rows["column"] != "") & (rows["rate"] == HITS) & (rows["n"] >= LEAST_MISSED)
    missed = rows[is_known & (rows["value"] < 1)].sort_values("value", kind="stable")
    return [
        (plain(f"{row.column}: {row.group}"), _share_missed(row), f"{row.n}")
        for row in missed[:MOST_MISSED].itertuples()
    ]


def _share_missed(row: Any) -> str:  # noqa: ANN401 - a row of a frame
    if isnan(row.low):
        return f"{1 - row.value:.3f} ({row.note})"
    return f"{1 - row.value:.3f} ({1 - row.high:.3f} to {1 - row.low:.3f})"


def _limits(card: ModelCard) -> dict[str, object]:
    """What limits the rates: counts and names that the template words."""
    file, texts = card.file, card.texts
    flags = load([card.folder], "samples", ["sample", "flags"])
    is_known = [own is not None and "scorer_trained_on" in own for own in flags["flags"]]
    answers = load([card.folder], "answers", ["sample"])["sample"]
    is_few = (card.gaps["note"] == NoValue.TOO_FEW) & (card.gaps["rate"] != PRECISION)
    few = card.gaps[is_few].groupby("column")["group"].unique()
    is_whole = (card.rates["group"] == ALL) & (card.rates["rate"] == HITS)
    return {
        "data_set": data_words(file) if is_trial(file) else "",
        "of": "this data" if _reads_text(card) else "this data, this prompt",
        "lost": int(texts["flagged"].isna().sum()),
        "texts": len(texts),
        "positive": int(texts["is_positive"].sum()),
        "trained_on": int(answers.isin(set(flags["sample"][is_known])).sum()),
        "few": "; ".join(f"{column} ({', '.join(sorted(own))})" for column, own in few.items()),
        "originals": card.rates[is_whole]["clusters"].min() if is_whole.any() else inf,
    }
