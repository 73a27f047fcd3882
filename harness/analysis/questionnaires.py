"""Sentences of files to sheets that people rate, rank or choose from: CSV, and a page to print.

A row shows one thing to be judged: a pair, a set of graded sentences, one sentence of a set, or
one choice. Neither level nor source stands in it; the key has both. Ratings come back by
`harness sheet read-ratings`, as those of any sheet.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from harness.analysis.sheets import (
    ANSWER,
    ITEM,
    QUESTION,
    Packet,
    RatedAnswer,
    Sheet,
    SheetEntry,
    SheetForm,
)
from harness.core import Sample
from harness.data.ratings import RATING
from harness.errors import SpecError
from harness.implicitness.pairs import Item, Items, TrainingPair
from harness.parts import digest
from harness.storage.cells import csv_text
from harness.storage.tables import BOM

_STYLE = (
    "body{font:16px/1.4 sans-serif;max-width:46em;margin:2em auto;padding:0 1em}"
    "pre{white-space:pre-wrap;font:inherit}section{break-inside:avoid;margin:2em 0}"
    "td{border:1px solid #777;padding:.4em .6em;vertical-align:top;white-space:pre-wrap}"
    "td:first-child{width:9em;font-size:.75em;color:#555}td:last-child{width:6em}"
    "table{border-collapse:collapse;width:100%;table-layout:fixed}"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """What one row asks of: the fields that the form's templates see, and the text to judge.

    Units of one `block` stand together: the sentences of a set, the choices of one sentence.
    `model` is what units of one sample differ in, or where a pair is from.
    """

    block: str
    model: str
    fields: dict[str, str]
    answer: str


def unit_names(items: Sequence[Item]) -> list[str]:
    """A name for each set: its topic, with a number from the second one of a topic on."""
    seen: Counter[str] = Counter()
    names = []
    for item in items:
        seen[item.topic] += 1
        more = f" ({seen[item.topic]})" if seen[item.topic] > 1 else ""
        names.append(f"{item.topic}{more}")
    return names


def pair_units(pairs: Sequence[TrainingPair], each: int | None, seed: int) -> list[Unit]:
    """A unit for each pair, named by its place from 1; `each` pairs of a source, by the seed."""
    by_source: dict[str, list[Unit]] = {}
    for place, pair in enumerate(pairs, 1):
        fields = {"implicit": pair.implicit, "explicit": pair.explicit}
        unit = Unit(str(place), pair.source or "all", fields, pair.explicit)
        by_source.setdefault(unit.model, []).append(unit)
    drawn = (sorted(own, key=lambda one: digest((seed, one.fields))) for own in by_source.values())
    return [unit for own in drawn for unit in own[:each]]


def item_units(of: str, items: Items) -> list[Unit]:
    """The units of graded sentences and choices: whole sets, their sentences, or choices."""
    if of == "choices":
        named = zip(unit_names(items.choices), items.choices, strict=True)
        return [
            Unit(
                name, str(place), {"topic": one.topic, "sentence": str(one.sentences[0])}, str(text)
            )
            for name, one in named
            for place, text in enumerate(one.sentences[1:], 1)
        ]
    named_sets = zip(unit_names(items.rankings), map(_rising, items.rankings), strict=True)
    sets = [(name, {"topic": name}, texts) for name, texts in named_sets]
    if of == "rankings":
        return [
            Unit(name, "set", fields, "\n".join(f"{at}. {t}" for at, t in enumerate(texts, 1)))
            for name, fields, texts in sets
        ]
    return [
        Unit(name, str(place), fields, text)
        for name, fields, texts in sets
        for place, text in enumerate(texts, 1)
    ]


def _rising(ranking: Item) -> list[str]:
    order = sorted(range(len(ranking.levels)), key=ranking.levels.__getitem__)
    return [str(ranking.sentences[at]) for at in order]


def draw(name: str, form: SheetForm, units: Sequence[Unit], seed: int) -> Sheet:
    """The sheet of some units; SpecError without any, or where a set has more texts than marks."""
    of = form.spec.of
    if not units:
        raise SpecError(f"{form.place}: asks of {of}, and the file has none; give another file")
    most = max(Counter(unit.block for unit in units).values())
    if of == "sentences" and most > len(form.marks):
        raise SpecError(
            f"{form.place}: has {len(form.marks)} marks, and a set has {most} sentences; give its "
            "`scale` a mark for each"
        )
    entries = [
        SheetEntry(
            id=f"r{digest((seed, name, unit.block, unit.model, unit.answer))[:15]}",
            fields=form.fields(Sample(id=unit.block, fields=unit.fields)),
            answer=unit.answer,
            rated=(RatedAnswer(name, unit.block, unit.model, "", "", of),),
        )
        for unit in units
    ]
    return Sheet(tuple(entries), 0, (), (), form.spec.scale)


def dealt(sheet: Sheet, raters: Sequence[str], seed: int) -> list[Packet]:
    """A packet for each rater, in an order of their own, the rows of one block together."""
    return [
        Packet(
            rater,
            None,
            tuple(
                sorted(
                    sheet.entries,
                    key=lambda one: (
                        digest((seed, rater, one.sample_id)),
                        digest((seed, rater, one.id)),
                    ),
                )
            ),
        )
        for rater in raters or ("",)
    ]


def packet_csv(packet: Packet) -> str:
    """A packet as CSV, formula-safe, with a blank last column for the rater."""
    head = ("row", ITEM, QUESTION, ANSWER, packet.rater or RATING)
    rows = ((e.id, e.fields[ITEM], e.fields[QUESTION], e.answer, None) for e in packet.entries)
    return BOM + csv_text(head, rows)


def packet_page(packet: Packet, guide: str) -> str:
    """A packet as a page to print: the guide, then a table a block with room for the marks."""
    body = "".join(_block(entries) for entries in _blocks(packet))
    rater = f"<p>{escape(packet.rater)}</p>" if packet.rater else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>Sheet</title>'
        f"<style>{_STYLE}</style>{rater}<pre>{escape(guide)}</pre>{body}</html>\n"
    )


def _blocks(packet: Packet) -> Iterator[list[SheetEntry]]:
    found: dict[str, list[SheetEntry]] = {}
    for entry in packet.entries:
        found.setdefault(entry.sample_id, []).append(entry)
    yield from found.values()


def _block(entries: Sequence[SheetEntry]) -> str:
    shown = entries[0].fields
    rows = "".join(
        f"<tr><td>{escape(one.id)}<td>{escape(one.answer)}<td></tr>\n" for one in entries
    )
    return (
        f"<section><pre>{escape(shown[ITEM])}</pre><p>{escape(shown[QUESTION])}</p>\n"
        f"<table>{rows}</table></section>\n"
    )
