"""The commands for people who mark stressed words: export stress, ratings stress."""

from pathlib import Path

import msgspec

from harness.cli import options
from harness.cli.options import ExitCode, argument, option
from harness.cli.output import echo
from harness.data import stress
from harness.data.readers.samples_jsonl import read
from harness.errors import DataError
from harness.storage.files import refuse_source, write_new, write_whole


def export_stress(
    file: Path = argument("FILE", "Turns, such as `harness build turns` chooses: JSON lines."),
    raters: str = option("Names of the annotators: ann,bob. Each gets a file.", "annotator"),
    out: Path = option("File to write: NAME.csv becomes NAME-ann.csv.", flags="-o --out"),
) -> int:
    """Write sheets on which people mark stressed words and say what the stress brings out.

    \b
    Example:
      harness export stress turns.jsonl --raters ann,bob -o stress.csv
    """
    turns = read([file], None)
    text = stress.sheet_text(turns).encode()
    for name in options.names(raters, "--raters"):
        options.plain_name(name, option="--raters")
        path = out.with_name(f"{out.stem}-{name}.csv")
        write_new(path, text)
        echo(f"wrote {len(turns)} rows to {path}")
    guide = out.with_name(f"{out.stem}.guide.txt")
    write_new(guide, stress.GUIDE.encode())
    echo(f"what annotators read first is in {guide}")
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
      harness ratings stress stress-ann.csv stress-bob.csv --turns turns.jsonl -o meanings.jsonl
    """
    for file in (*files, turns):
        refuse_source(out, file)
    lines = stress.read_sheets(files, read([turns], None))
    if not lines:
        raise DataError(f"{', '.join(map(str, files))}: no stress is marked; nothing written")
    encoded = [msgspec.json.encode(line, order="deterministic") for line in lines]
    write_whole(out, b"".join(line + b"\n" for line in encoded))
    several = sum(len(line["references"]["implication"]) > 1 for line in lines)
    echo(f"wrote {len(lines)} samples to {out}; {several} have several meanings")
    return ExitCode.DONE
