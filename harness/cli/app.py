"""The table of commands, loaded when asked for; and an error to one message and an exit code."""

import atexit
import gc
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from io import StringIO
from typing import Any, NamedTuple

import typer

from harness import __version__
from harness.cli.options import ExitCode, expanded
from harness.cli.output import take_words
from harness.errors import BudgetReached, HarnessError
from harness.present.screen import Messages, Progress, prepare_streams, stream_fault
from harness.present.screen import warn as log

KEPT = "what was stored stays: repeat the command with another stdout"
ABOUT = "Measures how well language models handle meaning beyond the literal."


class Entry(NamedTuple):
    """Where a command's function is, as module:function, and its line in the list of commands."""

    place: str
    about: str


COMMANDS: Mapping[str, Entry] = {
    "run": Entry("run:run", "Answer a task with models, judge the answers and score them."),
    "judge": Entry("run:judge", "Judge a stored run with more judges."),
    "merge": Entry("clusters.merge:merge", "Make the runs of shards from their stored calls."),
    "slurm": Entry("clusters.slurm:slurm", "Print a Slurm script that runs a plan in shards."),
    "read": Entry("run:read", "Parse a run's stored replies again; list changed verdicts."),
    "import": Entry("run:import_files", "Make a run from answers that another program stored."),
    "tokens": Entry("catalogue:tokens", "Show how a tokenizer reads a task's choices."),
    "split": Entry("texts.tables:split", "Split a table into parts without shared texts."),
    "clean": Entry("texts.tables:clean", "Clean the texts of a table by named steps."),
    "train": Entry("make:train", "Train a classifier on a task's training texts."),
    "grid": Entry("make:grid", "Train models under each augmentation and evaluate them."),
    "build": Entry("make:build", "Let a model make new samples from samples."),
    "leaderboard": Entry("boards:leaderboard", "Rank the models of all runs."),
    "agree": Entry("ratings:agree", "Measure how well judges agree with people."),
    "items": Entry("items:items", "Show answers with their verdicts, side by side."),
    "compare": Entry("compare:compare", "Compare two runs, or two parts of a run."),
    "gate": Entry("plans.gate:gate", "Tell whether a run has dropped against another."),
    "table": Entry("table:table", "Make the tables of a paper from runs, ratings or data."),
    "curve": Entry("compare:curve", "Plot hits and false alarms against implicitness."),
    "plot": Entry("plot:plot", "Draw a figure of runs, ratings or texts."),
    "rates": Entry("rates:rates", "Show hits and false alarms by columns of the data."),
    "drift": Entry("texts.moderation:drift", "Test what has moved between two tables or runs."),
    "card": Entry("texts.moderation:card", "Write the card of a moderation model."),
    "profile": Entry("impscore:profile", "Describe how implicit and varied texts are."),
    "report": Entry("report:report", "Write one HTML page of runs and their answers."),
    "view": Entry("report:view", "Show that page in a browser while runs go on."),
    "bundle": Entry("exports:bundle", "Put runs into a zip that derives their numbers."),
    "prove": Entry("exports:prove", "Derive the numbers of a bundle again, offline."),
    "verify": Entry("catalogue:verify", "Recompute published numbers from their data."),
    "list": Entry("catalogue:list_names", "List tasks, models, judges and other names."),
    "show": Entry("catalogue:show", "Show the YAML file of a name, or a stored run."),
    "schema": Entry("catalogue:schema", "Print the JSON schema of a kind of YAML file."),
    "check judge": Entry("check:judge", "Try a judge on made-up answers."),
    "check model": Entry("check:model", "Try a model on made-up prompts."),
    "check reader": Entry("check:reader", "Try a reader on some files."),
    "check scorer": Entry("check:scorer", "Try a scorer of implicitness on made-up texts."),
    "data list": Entry("catalogue:list_sources", "List sources, licences and origins."),
    "data fetch": Entry("catalogue:fetch", "Download sources and verify their checksums."),
    "data check": Entry("catalogue:check", "Verify the checksums of files."),
    "impscore score": Entry("impscore:score", "Score the implicitness of texts."),
    "impscore pairs": Entry("impscore:pairs", "Measure the distance of two texts in meaning."),
    "impscore eval": Entry("impscore:evaluate", "Evaluate a scorer on human data."),
    "impscore train": Entry("impscore_training:train", "Train a scorer on sentence pairs."),
    "impscore ablate": Entry(
        "impscore_training:ablate", "Compare forms and settings of the scorer."
    ),
    "impscore collect": Entry(
        "impscore_training:collect", "Collect sentences of public data sets, for pairs."
    ),
    "impscore lint": Entry("impscore_training:lint", "Look for surface cues in sentence pairs."),
    "impscore probe": Entry("impscore_training:probe", "Find what a scorer knows and does not."),
    "export ratings": Entry("ratings:export_ratings", "Write a blind rating sheet."),
    "export annotation": Entry(
        "texts.annotation:export_annotation", "Write sheets to label texts step by step."
    ),
    "export stress": Entry("texts.questions:export_stress", "Write sheets to mark stresses on."),
    "export sheet": Entry("texts.questions:export_sheet", "Write a questionnaire on sentences."),
    "export copies": Entry("exports:export_copies", "List the near copies among texts."),
    "export inspect": Entry("exports:export_inspect", "Write a run as a log of Inspect."),
    "export parquet": Entry("exports:export_parquet", "Write the records of a run as Parquet."),
    "export lm-eval": Entry("exports:export_lm_eval", "Write scores for lm-evaluation-harness."),
    "export every-eval-ever": Entry(
        "exports:export_every_eval_ever", "Write a run for Every Eval Ever."
    ),
    "export errors": Entry("rates:export_errors", "Write the texts a run missed or flagged."),
    "perturb report": Entry("make:report", "Count the verdicts that perturbations change."),
    "ratings labels": Entry(
        "texts.annotation:import_labels", "Read filled sheets of labels into a table."
    ),
    "ratings import": Entry("ratings:import_ratings", "Convert ratings to long form."),
    "ratings stress": Entry("texts.questions:import_stress", "Read marked stresses as samples."),
}
GROUPS: Mapping[str, Entry] = {
    "check": Entry("", "Try a judge, model, reader or scorer of your own."),
    "data": Entry("", "List, download and check released data sets."),
    "impscore": Entry("", "Measure implicitness; train and evaluate scorers of it."),
    "export": Entry("", "Write sheets for people, lists, and runs for other programs."),
    "perturb": Entry("make:perturb", "Change texts of a task slightly, to test robustness."),
    "ratings": Entry("", "Convert ratings by people from other formats."),
}
"""The first words of commands with two; one with a place is a command by itself, too."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    prepare_streams()
    # What is left at the end of the process is freed with it: looking for garbage among the
    # objects of torch and transformers first would take as long as a quarter of importing them.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    # Records hold no circles: seldom looked for, garbage costs a tenth less of a large run.
    gc.set_threshold(50_000, 20, 10)
    logging.basicConfig(handlers=[Messages()], force=True)
    words = list(sys.argv[1:] if arguments is None else arguments)
    take_words(words)
    command = _command(next((word for word in words if not word.startswith("-")), ""))
    code = outcome(lambda: command(args=words, prog_name="harness", standalone_mode=False))
    stream_fault(sys.stderr)
    return code


def outcome(command: Callable[[], object]) -> int:
    """The exit code of a command; an exception becomes a message."""
    try:
        code = command()
        sys.stdout.flush()
        if code == ExitCode.INTERRUPTED:  # what typer makes of a KeyboardInterrupt
            raise KeyboardInterrupt
    except BudgetReached as error:
        log(f"harness: {error}")
        return ExitCode.INTERRUPTED
    except HarnessError as error:
        log(f"harness: {error}")
        return ExitCode.USER_MISTAKE
    except (KeyboardInterrupt, typer.Abort):
        log("harness: interrupted; finished calls are stored: repeat the command to resume")
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.INTERRUPTED
    except Exception as error:  # the last boundary: a bug of ours is shown whole
        if hasattr(error, "exit_code") and hasattr(error, "show"):
            error.show(shown := StringIO())
            log(shown.getvalue().removesuffix("\n"))
            return ExitCode.USER_MISTAKE
        if isinstance(error, OSError) and (why := stream_fault(sys.stdout, is_tried=True)):
            log(f"harness: the result cannot be written to stdout ({why}); {KEPT}")
            return ExitCode.USER_MISTAKE
        log(traceback.format_exc())
        log("harness: this is a bug of the harness, not your mistake; stored calls are safe")
        return ExitCode.OUR_BUG
    finally:
        Progress.close()
    return code if isinstance(code, int) else ExitCode.DONE


@cache  # for a program that calls `main` again and again
def _command(first: str) -> Callable[..., object]:
    return _plain(typer.main.get_command(_app(first)))  # type: ignore[no-any-return]  # of typer


def _app(first: str) -> typer.Typer:
    """All commands for typer; only those that begin with the word `first` are imported."""
    app = _typer(help=ABOUT, no_args_is_help=True, epilog=EPILOG)
    app.callback(invoke_without_command=True)(_version)
    groups = {"": app}
    for name, (place, about) in GROUPS.items():
        callback = _loaded(place) if place and name == first else None
        groups[name] = _typer(no_args_is_help=not place)
        app.add_typer(
            groups[name],
            name=name,
            help=callback.__doc__ if callback else about,
            short_help=about,
            callback=callback,
            invoke_without_command=bool(place),
        )
    for name, (place, about) in COMMANDS.items():
        group, _, own = name.rpartition(" ")
        function = _loaded(place) if name.split()[0] == first else _unloaded
        groups[group].command(own, short_help=about)(function)
    return app


EPILOG = "Try: harness run --task intent_resolution --model oracle,literal"


def _typer(**settings: object) -> typer.Typer:
    return typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,  # type: ignore[arg-type]  # each is a setting of typer
    )


def _plain(command: Any) -> Any:  # noqa: ANN401 - typer has its own copy of click
    """A command whose help calls an argument RUN, where typer has {RUN} and RUN <str>."""
    for one in command.params:
        if one.param_type_name == "argument":
            usage = one.metavar + "..." * (one.nargs != 1)
            usage = usage if one.required else f"[{usage}]"
            one.display_type_rich = lambda ctx: None
            one.get_usage_pieces = lambda ctx, usage=usage: [usage]
    for inner in getattr(command, "commands", {}).values():
        _plain(inner)
    return command


def _loaded(place: str) -> Callable[..., object]:
    module, _, function = place.partition(":")
    return expanded(getattr(import_module(f"harness.cli.{module}"), function))


def _unloaded() -> None:
    """Is listed for a command that is not asked for, and never called."""


def _version(is_wanted: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if is_wanted:
        typer.echo(__version__)
        raise typer.Exit
