"""The command that takes in what other people's models answered: import."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.evaluate import DONE, DONE_WITH_MISSING, put_runs
from harness.cli.options import HOME, RESULTS, AsJson, Data, Home, Results
from harness.cli.screen import put, put_json

if TYPE_CHECKING:
    from harness.imports import Imported


def import_files(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Files of stored answers.")
    ],
    task: Annotated[str, typer.Option("--task", help="Task they answer: a name in tasks/.")],
    model: Annotated[
        str, typer.Option("--model", help="What to call the model that answered; not run here.")
    ],
    data: Data = None,
    results: Results = RESULTS,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Take in other people's stored answers and have the task's judges read them.

    Nothing is asked. A file's layout is told by its content; importing it again changes nothing.
    """
    from harness import imports

    space = options.workspace(home, results, data=data, terms=options.terms(is_offline=True))
    found = imports.import_answers(space, imports.ImportOptions(tuple(files), task, model))
    if is_json:
        return _put_json(found)
    code = put_runs([found.done], is_json=False)
    for count in found.counts:
        put(f"{count.variant}: answers to {count.found} of {count.samples} samples")
    if found.ratings is not None:
        put(f"ratings {found.ratings}")
    return code


def _put_json(found: "Imported") -> int:
    done = found.done
    told = {"folder": done.folder.path, "scores": done.scores, "counts": found.counts}
    put_json({**told, "ratings": found.ratings})
    return DONE_WITH_MISSING if done.missing else DONE
