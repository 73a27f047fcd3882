"""A stored run to the card of a moderation model: what it was run on, its rates, and their limits.

The card is Markdown. It holds numbers and names, and none of the texts; names from data and models
are escaped.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.analysis.boards.ranked import CONTROL
from harness.analysis.rates import (
    GROUP,
    FlaggedBlock,
    RateGap,
    RateQuery,
    RateRow,
    known_columns,
    names,
    point_words,
    positive_labels,
)
from harness.pipeline.choice_scores import FALSE_ALARMS, HITS
from harness.pipeline.score import ALL
from harness.specs.models import CLASSIFIERS
from harness.stats.estimate import NoValue
from harness.storage.find_runs import data_words, is_trial
from harness.storage.runs import StoredRun
from harness.text.cleanup import for_display

MOST_GROUPS, MOST_MISSED, LEAST_MISSED = 20, 8, 5
_HEADS = {HITS: "found (TPR)", FALSE_ALARMS: "flagged falsely (FPR)", "precision": "precision"}
_SPECIAL = re.compile(r"([\\`*_\[\]|#~])")
_OURS = ("label", "perturbed_from", "perturbed_by", "keeps_meaning")


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a card says: the run, its readings, their rates, and the gaps between groups."""

    run: StoredRun
    blocks: Sequence[FlaggedBlock]
    rows: Sequence[RateRow]
    gaps: Sequence[RateGap]
    query: RateQuery


def card_columns(run: StoredRun) -> tuple[str, ...]:
    """The kept columns of two to twenty values, by which a card tells rates without --by."""
    found = []
    for name in known_columns(run):
        samples = [row.sample for row in run.rows]
        cells = [(s.group,) if name == GROUP else s.references.get(name, ()) for s in samples]
        values = {text for texts in cells for text in texts}
        is_ours = name in _OURS or re.fullmatch(r"order\d+", name) is not None
        # Groups that are the labels under other names have a rate each, that of all texts.
        labels = {(text, s.gold) for s, texts in zip(samples, cells, strict=True) for text in texts}
        is_label = len(labels) == len(values) == len({gold for _, gold in labels})
        if 2 <= len(values) <= MOST_GROUPS and not is_ours and not is_label:
            found.append(name)
    return tuple(found)


def card_markdown(card: ModelCard) -> str:
    """The card as a page of Markdown."""
    file = card.run.file
    title = f"# Moderation card: {plain(file.model.name)} on {plain(file.run.task)}\n"
    parts = [title, _about(card), "## Rates\n", *_rates(card), *_gaps(card), *_missed(card)]
    limits = "".join(f"- {line}\n" for line in _limits(card))
    return "\n".join([*parts, f"## Limits\n\n{limits}"])


def plain(text: str) -> str:
    """A text on one line without anything that Markdown or HTML would act on."""
    shown = " ".join(for_display(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    return _SPECIAL.sub(r"\\\1", shown)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _about(card: ModelCard) -> str:
    file = card.run.file
    model, data = file.model, file.data
    labels = card.query.positive or positive_labels(card.run)
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
    points = {point_words(row) for row in card.rows if row.threshold is not None}
    if points:
        facts["Operating point"] = "; ".join(sorted(points))
    return _table(("", "what was run"), [(name, plain(said)) for name, said in facts.items()])


def _kind(card: ModelCard) -> str:
    kind = card.run.file.model.kind
    return "a control, no model" if kind == CONTROL else kind


def _reads_text(card: ModelCard) -> bool:
    return card.run.file.model.kind in CLASSIFIERS


def _short(identity: str) -> str:
    """What a model is, its digests as long as elsewhere."""
    return re.sub(r"[0-9a-f]{40,}", lambda found: found[0][:16], identity)


def _asked(card: ModelCard) -> str:
    variants = card.run.file.run.variants
    said = f"asked by the prompt of variant{'s' * (len(variants) > 1)} {', '.join(variants)}"
    said = "read as they are, without a prompt" if _reads_text(card) else said
    parts = {(len(one.readings), len(one.left_out)) for one in card.blocks if one.left_out}
    for measured, left_out in sorted(parts):
        said += f"; {measured} answers measured, {left_out} left out to choose the threshold"
    return said


def _rates(card: ModelCard) -> Iterator[str]:
    yield (
        "TPR is the share of the texts to detect that was flagged, FPR that of the other texts, "
        "and precision the share of the flagged texts that is to be detected. In brackets: the 95% "
        "interval over originals (texts of the same words are one). n counts texts.\n"
    )
    called = names(card.rows)
    for signature, label in called.items():
        own = [row for row in card.rows if row.signature == signature]
        for column in dict.fromkeys(row.column for row in own):
            rows = [row for row in own if row.column == column]
            groups = dict.fromkeys(row.group for row in rows)
            cells = {(row.group, row.rate): _rate(row) for row in rows}
            lines = [(plain(g), *(cells[g, rate] for rate in _HEADS)) for g in groups]
            by = f"by {column}" if column else "all texts"
            yield f"**{plain(label)}, {plain(by)}**\n"
            yield _table((plain(column) or "texts", *_HEADS.values()), lines)


def _rate(row: RateRow) -> str:
    if row.value is None:
        return f"none ({row.note})"
    ends = f" ({row.low:.3f} to {row.high:.3f})" if row.low is not None else ""
    lost = f", {row.missing} missing" if row.missing else ""
    return f"{row.value:.3f}{ends}, n {row.n}{lost}"


def _gaps(card: ModelCard) -> Iterator[str]:
    yield "## Gaps between groups\n"
    yield (
        "Gaps of TPR and of FPR are tested. Those of precision are not: it depends on the share of "
        "the texts to detect, which differs between groups, and so differs for a coin too.\n"
    )
    tested = [gap for gap in card.gaps if gap.p_holm is not None]
    sure = sorted((g for g in tested if (g.p_holm or 0) < 0.05), key=lambda g: g.p_holm or 0)
    if not tested:
        yield "No two groups have enough originals for a test.\n"
        return
    if not sure:
        yield (
            f"None of the {len(tested)} gaps that were tested is beyond chance (Holm's method over "
            "all of them). Smaller gaps than these texts can show may be there.\n"
        )
        return
    yield (
        f"{len(sure)} of the {len(tested)} gaps that were tested are beyond chance (Holm's method "
        "over all of them).\n"
    )
    lines = [
        (
            plain(f"{gap.column}: {gap.group} less {gap.against}"),
            gap.rate,
            f"{gap.gap:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})",
            f"{gap.p_holm:.3g}",
        )
        for gap in sure
    ]
    yield _table(("groups", "rate", "gap (95% interval)", "p (Holm)"), lines)


def _missed(card: ModelCard) -> Iterator[str]:
    """The kinds of texts of which the greatest shares are missed."""
    yield "## What it misses most\n"
    rows = [r for r in card.rows if r.column and r.rate == HITS and r.value is not None]
    known = sorted((r for r in rows if r.n >= LEAST_MISSED), key=lambda r: r.value or 0)
    missed = [row for row in known if (row.value or 0) < 1][:MOST_MISSED]
    if not missed:
        yield "No kind of text with five texts or more is missed.\n"
        return
    lines = [
        (plain(f"{row.column}: {row.group}"), _share_missed(row), f"{row.n}") for row in missed
    ]
    yield (
        "Of the texts to detect of a kind, the share that was not flagged. Kinds overlap: a text "
        "is of one in every column.\n"
    )
    yield _table(("kind", "share missed (95% interval)", "texts"), lines)


def _share_missed(row: RateRow) -> str:
    if row.low is None or row.high is None:
        return f"{1 - (row.value or 0):.3f} ({row.note})"
    return f"{1 - (row.value or 0):.3f} ({1 - row.high:.3f} to {1 - row.low:.3f})"


def _limits(card: ModelCard) -> Iterator[str]:
    file = card.run.file
    if is_trial(file):
        yield (
            f"The data is {data_words(file)}, which show how the task works: these rates say "
            "nothing about real texts."
        )
    of = "this data" if _reads_text(card) else "this data, this prompt"
    yield f"Rates are of {of} and this operating point, and of no others."
    readings = [one for block in card.blocks for one in (*block.readings, *block.left_out)]
    if lost := sum(one.flagged is None for one in readings):
        yield f"{lost} of {len(readings)} answers are missing: no rate counts them."
    positive = sum(one.is_positive for one in readings)
    if 0 < positive < len(readings):
        yield (
            f"{positive / len(readings):.0%} of the texts are to be detected; where fewer are, "
            "precision is lower."
        )
    known = sum("scorer_trained_on" in row.sample.flags for row in card.run.rows)
    if known:
        yield f"The scorer of implicitness was trained on the texts of {known} answers."
    if few := _few(card.gaps):
        said = "; ".join(f"{column} ({', '.join(names)})" for column, names in few.items())
        yield f"Too few originals for a test of all their gaps: {plain(said)}."
    whole = {row.clusters for row in card.rows if row.group == ALL and row.rate == HITS}
    if whole and min(whole) < 100:
        yield f"Only {min(whole)} originals are to be detected: intervals are wide."
    yield (
        "Nothing here says how the model fares on texts that are reworded to pass unflagged; "
        "`harness perturb` makes some."
    )


def _few(gaps: Sequence[RateGap]) -> dict[str, list[str]]:
    """The groups by column whose gaps have too few originals for a test."""
    found: dict[str, set[str]] = {}
    for gap in gaps:
        if gap.note == NoValue.TOO_FEW and gap.rate in (HITS, FALSE_ALARMS):
            found.setdefault(gap.column, set()).add(gap.group)
    return {column: sorted(names) for column, names in sorted(found.items())}
