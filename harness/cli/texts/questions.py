"""The commands that ask people about sentences and stresses: sheets out, marked sheets back."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.analysis import questionnaires, sheets
from harness.analysis.sheets import SheetForm
from harness.cli import options
from harness.cli.impscore import read_input
from harness.cli.options import HOME, ExitCode, Home, argument, option
from harness.data.annotation import GUIDE, read_sheets, sheet_text
from harness.data.readers.samples_jsonl import read as read_samples
from harness.errors import DataError, SpecError
from harness.implicitness.pairs import read_items, read_pairs
from harness.present.screen import say, warn
from harness.storage.files import refuse_source, write_new, write_whole


@dataclass(frozen=True, kw_only=True)
class QuestionnaireChoice:
    """What people are asked of the sentences of a file, who they are, and where it goes."""

    name: str = argument("SHEET", "Sheet: a name in configs/sheets/ that asks of sentences.")
    file: str = argument("FILE", "Pairs, graded sentences or choices, as impscore eval reads them.")
    each: int | None = option(
        "Pairs of each source, or of each topic where the file has no column source. Default: all.",
        None,
        min=1,
    )
    raters: str | None = option("Names of the raters: ann,bob. Each gets a file.", None)
    seed: options.Seed = 0
    out: Path = option("File to write: CSV. A page to print goes with it.", flags="-o --out")
    home: Home = HOME


def export_sheet(choice: QuestionnaireChoice) -> int:
    """Write a questionnaire on sentences: pairs to rate, sets to rank, or choices of the nearest.

    Each rater has another order, by the seed. `harness sheet read-ratings` reads the answers.
    """
    refuse_source(choice.out, Path(choice.file))
    if choice.out.suffix != ".csv":
        raise SpecError(f"-o {choice.out}: give a name that ends in .csv; a page goes with it")
    registry = options.registry(choice.home)
    place = registry.file("configs/sheets", choice.name)
    form = SheetForm(registry.load("configs/sheets", choice.name), str(place), registry.prompts)
    raters = options.names(choice.raters, "--raters")
    for name in raters:
        options.plain_name(name, option="--raters")
    if taken := sorted({*sheets.OWN_COLUMNS, sheets.ITEM, sheets.QUESTION} & set(raters)):
        raise SpecError(f"--raters: {taken[0]!r} is a column of the sheet; use another name")
    units = _units(choice, form.spec.of)
    sheet = questionnaires.draw(choice.name, form, units, choice.seed)
    key = choice.out.with_name(f"{choice.out.stem}.key.csv")
    write_new(key, sheets.key_text(sheet).encode())
    for packet in questionnaires.dealt(sheet, raters, choice.seed):
        file = choice.out.with_name(f"{choice.out.stem}{packet.ending}.csv")
        write_new(file, questionnaires.packet_csv(packet).encode())
        page = questionnaires.packet_page(packet, form.guide())
        write_new(file.with_suffix(".html"), page.encode())
        say(f"wrote {len(packet.entries)} rows to {file}, and a page to print with it")
    warn(f"{key} says what each row is: do not show it to the raters")
    return ExitCode.DONE


def _units(choice: QuestionnaireChoice, of: str) -> list[questionnaires.Unit]:
    if of == "answers":
        raise SpecError(f"sheet {choice.name!r} asks of answers: make it by `export ratings RUN`")
    table, source = read_input(choice.file, None, has_column=True)
    if of == "pairs":
        pairs = read_pairs(table, where=source)
        return questionnaires.pair_units(pairs, choice.each, choice.seed)
    if choice.each is not None:
        raise SpecError(f"--each: sheet {choice.name!r} asks of {of}, which have no source")
    return questionnaires.item_units(of, read_items(table, where=source))


def export_stress(
    file: Path = argument("FILE", "Turns, such as `harness build turns` chooses: JSON lines."),
    raters: str = option("Names of the annotators: ann,bob. Each gets a file.", "annotator"),
    out: Path = option("File to write: NAME.csv becomes NAME-ann.csv.", flags="-o --out"),
) -> int:
    """Write sheets on which people mark stressed words and say what the stress brings out.

    \b
    Example:
      harness sheet stress turns.jsonl --raters ann,bob -o stress.csv
    """
    turns = read_samples([file], None)
    text = sheet_text(turns).encode()
    for name in options.names(raters, "--raters"):
        options.plain_name(name, option="--raters")
        path = out.with_name(f"{out.stem}-{name}.csv")
        write_new(path, text)
        say(f"wrote {len(turns)} rows to {path}")
    guide = out.with_name(f"{out.stem}.guide.txt")
    write_new(guide, GUIDE.encode())
    say(f"what annotators read first is in {guide}")
    return ExitCode.DONE


def import_stress(
    files: list[Path] = argument("FILE", "Marked sheets: CSV or XLSX."),
    turns: Path = option("The file of turns that the sheets were made of."),
    out: Path = option("File for the samples, JSON lines.", flags="-o --out"),
) -> int:
    """Read marked sheets back as samples of emphasized_talk: one a stressed part, with meanings.

    A part that several annotators stress is one sample with the meanings of all; `harness build
    agreement` then keeps those that agree.

    \b
    Example:
      harness sheet read-stress ann.csv bob.csv --turns turns.jsonl -o out.jsonl
    """
    for file in (*files, turns):
        refuse_source(out, file)
    lines = read_sheets(files, read_samples([turns], None))
    if not lines:
        raise DataError(f"{', '.join(map(str, files))}: no stress is marked; nothing written")
    encoded = [msgspec.json.encode(line, order="deterministic") for line in lines]
    write_whole(out, b"".join(line + b"\n" for line in encoded))
    several = sum(len(line["references"]["implication"]) > 1 for line in lines)
    say(f"wrote {len(lines)} samples to {out}; {several} have several meanings")
    return ExitCode.DONE
