"""The commands export, for other programs, and bundle, for reviewers."""

from pathlib import Path
from typing import Annotated

from harness.cli import options
from harness.cli.options import RESULTS, ExitCode, Results, argument, option, output
from harness.implicitness.scorer import Flag, text_of
from harness.pipeline import exports
from harness.present.screen import ProgressLine, say, show_json, warn
from harness.storage.bundle import limited
from harness.storage.cells import cell_text, csv_text, json_text
from harness.storage.find_runs import find_run, find_runs
from harness.storage.runs import StoredRun, read_table
from harness.storage.tables import column_of, read_input, write_named
from harness.text.dedup import near_copies


def export_inspect(
    run: options.RunName,
    out: Path = output("Log to write: FILE.json.", ".json"),
    results: Results = RESULTS,
) -> None:
    """Write a run as a log of Inspect, to look at its answers in `inspect view`."""
    folder = find_run(results, run)
    stored = StoredRun.read(folder, with_prompts=True)
    log = exports.inspect_log(stored, read_table(folder.scores), folder.written)
    write_named(out, _json(log))
    say(f"wrote {len(stored.rows)} answers to {out}")


def export_copies(
    file: str = argument("FILE", "Table of texts: CSV, TSV, JSON lines, Parquet or plain lines."),
    out: Path = output("CSV file to write.", ".csv"),
    column: str | None = option("Column of the texts. Default: text."),
    keep: str | None = option("Further columns of the list, comma-separated."),
    is_json: options.AsJson = False,
) -> None:
    """List the texts of a table that nearly repeat others, by groups of near copies.

    Two texts are near copies where they share six of ten of their words (Jaccard index .6). A group
    is all that such links lead to.
    """
    names = options.names(keep, "--keep")
    table, source = read_input(file, None, has_column=column is not None or bool(names))
    cells = column_of(table, column, where=source)
    texts = ["" if isinstance(read := text_of(cell), Flag) else read for cell in cells]
    kept = [column_of(table, name, where=source) for name in names]
    found = near_copies(texts)
    head = ("group", "size", "row", "likeness", "text", *names)
    rows = [
        [*own, place + 1, round(like, 3), texts[place], *(cell_text(one[place]) for one in kept)]
        for *own, place, like in found.itertuples(index=False)
    ]
    write_named(out, csv_text(head, rows).encode())
    groups, largest = (0, 0) if found.empty else map(int, found[["group", "size"]].max())
    if is_json:
        show_json({"rows": len(texts), "copies": len(found), "groups": groups, "largest": largest})
    of = f"{groups} group{'s' * (groups != 1)}, the largest of {largest}" if groups else "0 groups"
    say(f"{len(found)} of {len(texts)} texts have near copies: {of}\nlisted in {out}")


def export_every_eval_ever(
    run: options.RunName,
    out: Path = output("Folder to write below, as data/TASK/KIND/MODEL/ID.json."),
    organization: str = option("Who made the evaluation.", "not stated"),
    results: Results = RESULTS,
) -> None:
    """Write a run as a record of Every Eval Ever."""
    folder = find_run(results, run)
    file, scores = folder.read(), read_table(folder.scores)
    path, record = exports.every_eval_ever(file, scores, folder.written, organization)
    write_named(out / path, _json(record))
    say(f"wrote {len(record['evaluation_results'])} results to {out / path}")


def _json(value: exports.Json) -> bytes:
    return f"{json_text(value, indent=1)}\n".encode("utf-8", "replace")


def bundle(
    runs: options.RunNames,
    where: Annotated[options.Where, options.Only("prompts results home")],
    *,
    out: Path = output("Zip to write.", ".zip"),
) -> int:
    """Put runs into a zip with all that derives their numbers again, offline.

    It holds the runs, their calls, the task, judges and prompts that were used, and no keys and
    no paths of this machine. It is then proved at once, as `harness bundle --check` does.

    \b
    Example:
      harness bundle 3f9a 81c2 -o results.zip
    """
    from harness.pipeline.bundle import prove_bundle, write_bundle

    folders = find_runs(where.results, runs)
    results = folders[0].results(where.results)
    count, size = write_bundle(where.workspace(options.OFFLINE, results), folders, out)
    _, proofs = prove_bundle(out, ProgressLine())
    for proof in proofs:
        for line in (*proof.unproven, *proof.differences):
            warn(f"{proof.run}: {line}")
    say(f"wrote {count} files, {size:,} bytes, to {out}")
    check, is_same = f"`harness bundle --check {out.name}`", all(one.is_same for one in proofs)
    if is_same:
        say(f"{check} derives every number again: the same")
    else:
        warn(f"{check} will say so too; repeat the run to mend what differs")
    return ExitCode.of(not is_same)


def prove(
    file: Path = argument("FILE", "Bundle to prove."), is_json: options.AsJson = False
) -> int:
    """Derive every number of a bundle again from its calls, offline, and compare all bytes.

    Exit code 0: the same. 1: something differs, or was not derived. 2: it is no bundle.

    \b
    Example:
      harness bundle --check results.zip
    """
    from harness.pipeline.bundle import prove_bundle

    with limited(str(file)):  # its prompts are templates, which may compute anything
        others, proofs = prove_bundle(file, ProgressLine())
    show_json({"others": others, "runs": proofs}, is_json)
    said = [*others]  # what is the same comes last: a screen may cut it off
    said += [f"{one.run}: differs: {line}" for one in proofs for line in one.differences]
    said += [f"{one.run}: not derived: {line}" for one in proofs for line in one.unproven]
    said += [f"{p.run}: the same (derived again from {p.calls} calls)" for p in proofs if p.is_same]
    for line in said:
        say(line)
    return ExitCode.of(others or not all(proof.is_same for proof in proofs))
