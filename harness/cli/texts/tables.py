"""The commands that make tables of tables: split and clean."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.cli import options
from harness.cli.options import AsJson, ExitCode, argument, one_of, option, output, switch
from harness.data import split as parting
from harness.data.split import STRATUM, counts_of_parts, leaks, split_rows
from harness.errors import SpecError
from harness.implicitness.scorer import Flag, text_of
from harness.lazy import DataFrame, pandas
from harness.present.screen import PAGE, say, show, show_json, show_rows, warn
from harness.storage import tables
from harness.storage.frames import plain_rows
from harness.storage.tables import FileFormat
from harness.text.cleaning import chosen_steps
from harness.text.cleaning import clean as clean_text

SHARED = {
    **{"part": "rows of", "other": "that are in", "rows": "of"},
    **{"same_words": "same words", "near": "nearly or quite the same"},
}
NAMES = ("train", "dev", "test")
MOST_SHOWN = 8  # strata on the screen; JSON has all
MOST_OF_A_UNIT, LEAST_OF_A_UNIT = 0.1, 10
"""The share of all rows, and the rows, above which one unit decides what the parts look like."""


@dataclass(frozen=True, kw_only=True)
class SplitChoice:
    """Which table is split, by what, and where the parts go."""

    files: list[str] = argument("TABLE", "Table to split; with --check the parts there are.")
    by: str | None = option("Columns whose values each part has alike, comma-separated.")
    shares: str = option("Shares of the parts.", "70,15,15", metavar="LIST")
    group: str | None = option("Columns, comma-separated: equal values stay in one part.")
    link: str = option(
        "What stays in one part: near: rows of nearly the same words, and so on from row to row; "
        "same: those of the same words; none: rows linked by --group alone.",
        "near",
    )
    column: str | None = option("Column of the texts. Default: text.")
    is_check: bool = switch("--check", "Only count what the given files share.")
    out: Path | None = output("Folder for the parts.", default=None)
    seed: options.Seed = 0


def split(choice: SplitChoice, is_json: AsJson = False) -> int:
    """Split a table into parts, stratified, with near-duplicates and groups kept together.

    Every row is in exactly one part, in its own words; the same seed gives the same parts. What
    parts share all the same is counted, as for parts that others made with --check.

    \b
    Examples:
      harness data split posts.csv --by kind --shares 70,15,15 -o parts
      harness data split train.parquet dev.parquet --check
    """
    if choice.is_check:
        return _check(choice, is_json=is_json)
    if choice.out is None or len(choice.files) > 1:
        raise SpecError("split: name one table and a folder with -o, or parts with --check")
    table, where = tables.read_input(choice.files[0], None, has_column=choice.column is not None)
    shares = _shares(choice.shares)
    named = {2: NAMES[::2], 3: NAMES}
    names = named.get(len(shares), [f"part{at}" for at in range(1, len(shares) + 1)])
    link = one_of("--link", choice.link, *parting.LINKS)
    ways = (options.names(choice.by, "--by"), options.names(choice.group, "--group"))
    rows = parting.rows_of(table, choice.column, *ways, where=where, has_links=link != "none")
    found = split_rows(rows, shares, link=link, seed=choice.seed)
    places = [list(found.index[found["part"] == at]) for at in range(len(names))]
    target = FileFormat.CSV if table.file_format is FileFormat.LINES else table.file_format
    paths = [choice.out / f"{name}.{target}" for name in names]
    for path, part in zip(paths, places, strict=True):
        tables.write_named(
            path, tables.extended(parting.picked(table, part), pandas.DataFrame(), target)
        )
    texts = [(name, found["text"][part].tolist()) for name, part in zip(names, places, strict=True)]
    shared = leaks(texts)
    show_json(counts_of_parts(found, names) | {"leaks": plain_rows(shared)}, is_json)
    _put(choice, found, names)
    show(shared.rename(columns=SHARED), "Shared texts")
    say(f"wrote {', '.join(map(str, paths))}")
    return ExitCode.DONE


def _shares(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(found) < 2 or not all(0 < share < float("inf") for share in found):
        raise SpecError(f"--shares {text!r}: give two or more positive numbers, such as 70,15,15")
    return found


def _check(choice: SplitChoice, *, is_json: bool) -> int:
    if len(choice.files) < 2:
        raise SpecError("--check: name two files or more, the one to train on first")
    parts = []
    for file in choice.files:
        table, where = tables.read_input(file, None, has_column=choice.column is not None)
        cells = tables.column_of(table, choice.column, where=where)
        parts.append((Path(file).name, [cell if isinstance(cell, str) else "" for cell in cells]))
    found = leaks(parts)
    show_json(plain_rows(found), is_json)
    show(found.rename(columns=SHARED), "Shared texts")
    return ExitCode.of(found["near"].any())


def _put(choice: SplitChoice, found: DataFrame, names: Sequence[str]) -> None:
    counts = pandas.crosstab(found[STRATUM], found["part"])
    strata = found[STRATUM].value_counts().index
    sizes = found["part"].value_counts().sort_index()
    lines = [["all", *sizes.tolist()], ["share", *(f"{n / len(found):.3f}" for n in sizes)]]
    shown = strata[: None if PAGE.is_whole else MOST_SHOWN]
    lines += [[name, *counts.loc[name].tolist()] for name in shown if name]
    show_rows("Rows", (choice.by or "rows", *names), lines)
    if more := len(strata) - len(shown):
        say(f"--all prints {more} more strata")
    largest = int(found["unit"].value_counts().max())
    say(f"{len(found)} rows in {found['unit'].nunique()} units, the largest of {largest} rows")
    if largest > max(MOST_OF_A_UNIT * len(found), LEAST_OF_A_UNIT):
        warn(
            f"WARNING: one group holds {largest} of {len(found)} rows, and lies in one part: rows "
            "are linked by --group and, one to the next, by nearly the same words, as those of a "
            "template; --link same links those of the same words alone"
        )


def clean(
    file: str = argument("FILE", "Table, or - for stdin."),
    column: str | None = option("Column of the texts. Default: text."),
    steps: str | None = option(
        "Steps, comma-separated. Default: those of the cleaned texts of ISHate."
    ),
    name: str = option("Name of the new column.", "cleaned", flags="--as"),
    out: Path = output(options.TABLE_FILE, *tables.TABLE_ENDINGS),
    is_json: AsJson = False,
) -> int:
    """Clean the texts of a table by named steps, and write its rows with the cleaned texts.

    A second new column says why a text is missing: it was absent, no text, empty, or emptied by
    a step, which is named. Exit code 1: some are missing.

    \b
    Examples:
      harness data clean posts.csv -o cleaned.csv
      harness data clean posts.csv --steps urls,emojis,spaces -o cleaned.csv
    """
    target, chosen = tables.output_format(out), chosen_steps(options.names(steps, "--steps"))
    table, where = tables.read_input(file, None, has_column=column is not None)
    cells = map(text_of, tables.column_of(table, column, where=where))
    found = [(None, str(c), ()) if isinstance(c, Flag) else clean_text(c, chosen) for c in cells]
    texts, notes, _ = zip(*found, strict=True)
    added = pandas.DataFrame({name: texts, f"{name}_note": notes}, dtype=object)
    tables.write_named(out, tables.extended(table, added, target))
    missing = Counter(note for note in notes if note)
    changed = Counter(step for _, _, own in found for step in own)
    of = {step: changed[step] for step in chosen}
    show_json({"rows": len(found), "changed": of, "missing": missing, "out": str(out)}, is_json)
    show_rows(f"{len(found)} texts", ("step", "texts changed"), [*of.items()])
    say(f"wrote {len(found)} rows to {out}, with columns {name}, {name}_note")
    if missing:
        said = ", ".join(f"{count} {why}" for why, count in missing.most_common())
        warn(f"without a cleaned text: {said}; their cells are blank; see {name}_note")
    return ExitCode.of(missing)
