"""The command that takes in what other people's models answered: import."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.options import HOME, RESULTS, AsJson, Data, Home, Results
from harness.cli.output import echo, echo_json, echo_table, log
from harness.cli.run import DONE, DONE_WITH_MISSING, put_runs

if TYPE_CHECKING:
    from harness.importers.import_files import Imported


def import_files(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Files of stored answers.")
    ],
    task: Annotated[str, typer.Option("--task", help="Task they answer: a name in tasks/.")],
    model: Annotated[
        str, typer.Option("--model", help="What to call the model that answered; not run here.")
    ],
    column_map: Annotated[
        str | None,
        typer.Option(
            "--map", help="Column map: a name in configs/imports/, or the path of a YAML file."
        ),
    ] = None,
    data: Data = None,
    results: Results = RESULTS,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Take in other people's stored answers and have the task's judges read them.

    Nothing is asked. A file's layout is told by its content, or by a column map; importing it
    again changes nothing.
    """
    from harness.importers import import_files as imports

    space = options.workspace(home, results, data=data, terms=options.terms(is_offline=True))
    wanted = imports.ImportOptions(tuple(files), task, model, column_map)
    found = imports.import_answers(space, wanted)
    for note in found.notes:
        log(f"{note.path}: {note.rows} row{'s' * (note.rows != 1)} {note.what}")
    for path in found.replaced:
        log(f"run {path}: its answers stand in the run below now; removed")
    if is_json:
        return _put_json(found)
    code = put_runs([found.done], is_json=False)
    _put_counts(found)
    if found.ratings is not None:
        echo(f"ratings {found.ratings}")
    return code


def _put_counts(found: "Imported") -> None:
    """Print how many samples each variant has an answer to, and so for each group."""
    for count in found.counts:
        echo(f"{count.variant}: answers to {count.found} of {count.samples} samples")
    groups = sorted({part.group for part in found.groups})
    said = {(p.variant, p.group): f"{p.found} of {p.samples}" for p in found.groups}
    if len(groups) > 1:
        echo_table(
            "answers found, of the samples of each group",
            ("variant", *groups),
            [
                (count.variant, *(said.get((count.variant, group), "-") for group in groups))
                for count in found.counts
            ],
        )


def _put_json(found: "Imported") -> int:
    done = found.done
    told = {"folder": done.folder.path, "scores": done.scores, "counts": found.counts}
    echo_json({**told, "groups": found.groups, "ratings": found.ratings, "told": found.notes})
    return DONE_WITH_MISSING if done.missing else DONE
