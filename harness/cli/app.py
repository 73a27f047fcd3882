"""The table of commands, loaded when asked for; and an error to one message and an exit code."""

import gc
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ctypes import CDLL
from functools import cache
from importlib import import_module
from inspect import signature
from io import StringIO

from harness import __version__
from harness.errors import BudgetReached, ExitCode, HarnessError, SpecError, did_you_mean
from harness.present import screen
from harness.present.screen import PAGE, Messages, ProgressLine, say, stream_fault, warn
from harness.text.renamed import SUCCESSORS, of_others

KEPT = "what was stored stays: repeat the command with another stdout"
ABOUT = "Measures how well language models handle meaning beyond the literal."
EPILOG = "Try: harness run --task intent_detection --model oracle,random"

ALL_OPTIONS = "--help-all"
Entry = tuple[str, str]
"""Where a command's function is, as module:function, and its line in the list of commands."""
PANELS: Mapping[str, Mapping[str, Entry]] = {
    "Measure": {
        "run": ("run:run", "Answer a task with models, judge the answers and score them."),
        "judge": ("run:judge", "Judge a stored run with more judges."),
        "read": ("run:read", "Parse a run's stored replies again; list changed verdicts."),
        "merge": ("run:merge", "Make the runs of shards from their stored calls."),
    },
    "See": {
        "leaderboard": ("boards:leaderboard", "Rank the models of all runs."),
        "items": ("items:items", "Show answers with their verdicts, side by side."),
        "compare": ("compare:compare", "Compare two runs, or two parts of a run."),
        "table": ("documents:table", "Make the tables of a paper from runs, ratings or data."),
        "plot": ("plot:plot", "Draw a figure of runs, ratings or texts."),
        "report": ("documents:report", "Write or serve one HTML page of runs and answers."),
    },
    "People and judges": {
        "agree": ("ratings:agree", "Measure how well judges agree with people."),
        "sheet": ("", "Write sheets for people to fill in, and read them back."),
    },
    "Moderation": {
        "rates": ("rates:rates", "Show hits and false alarms by columns of the data."),
        "drift": ("texts.moderation:drift", "Test what has moved between tables or runs."),
    },
    "Metric of implicitness": {
        "impscore": ("", "Measure implicitness; train and evaluate scorers of it.")
    },
    "Data": {
        "data": ("", "Fetch and check released data; split and clean tables."),
        "build": ("make:build", "Let a model make new samples from samples."),
        "perturb": ("make:perturb", "Change texts of a task slightly, to test robustness."),
        "import": ("run:import_files", "Make a run from answers of another program."),
        "export": ("", "Write lists, and runs for other programs."),
    },
    "Program": {
        "list": ("catalogue:list_names", "List tasks, models, judges, runs and more."),
        "show": ("catalogue:show", "Show the YAML file of a name, or a stored run."),
        "rm": ("list_runs:remove", "Delete runs, and stored calls with --calls."),
        "check": ("", "Try a judge, a model or a task of your own."),
        "train": ("make:train", "Train a classifier on a task's training texts."),
        "verify": ("catalogue:verify", "Recompute published numbers from their data."),
        "bundle": ("exports:bundle", "Put runs into a zip that derives their numbers."),
    },
}
"""The commands of the first level, in the groups of `harness --help`."""
DAILY = ("run", "judge", "leaderboard", "items", "compare", "report", "agree", "list")
"""The commands that have a line of their own there."""
BELOW: Mapping[str, Entry] = {
    "compare --gate": ("compare:gate", "Fail if a run has dropped against another."),
    "rates --card": ("texts.moderation:card", "Write the card of a moderation model."),
    "train --grid": ("make:grid", "Train and evaluate models under each augmentation."),
    "bundle --check": ("exports:prove", "Derive the numbers of a bundle again, offline."),
    "show schema": ("catalogue:schema", "Print the JSON schema of a kind of YAML file."),
    "show tokens": ("catalogue:tokens", "Show how a tokenizer reads a task's choices."),
    "perturb report": ("make:report", "Count the verdicts that perturbations change."),
    "check judge": ("check:judge", "Try a judge on made-up answers."),
    "check model": ("check:model", "Try a model on made-up prompts."),
    "check task": ("check:task", "Read a task's data and fill its prompts."),
    "data fetch": ("catalogue:fetch", "Download sources and verify their checksums."),
    "data check": ("catalogue:check", "Verify the checksums of files."),
    "data split": ("texts.tables:split", "Split a table into parts without shared texts."),
    "data clean": ("texts.tables:clean", "Clean the texts of a table by named steps."),
    "impscore score": ("impscore:score", "Score the implicitness of texts."),
    "impscore profile": ("impscore:profile", "Describe how implicit and varied texts are."),
    "impscore evaluate": ("impscore:evaluate", "Evaluate a scorer on human data."),
    "impscore train": ("impscore:train", "Train a scorer on sentence pairs."),
    "impscore ablate": ("impscore:ablate", "Compare settings of the scorer."),
    "impscore collect": ("impscore:collect", "Collect sentences of public data."),
    "impscore probe": ("impscore:probe", "Find what a scorer knows and does not."),
    "sheet ratings": ("ratings:export_ratings", "Write a blind rating sheet."),
    "sheet labels": ("ratings:export_annotation", "Write sheets to label texts."),
    "sheet stress": ("ratings:export_stress", "Write sheets to mark stresses on."),
    "sheet questions": ("ratings:export_sheet", "Write a questionnaire on sentences."),
    "sheet read-ratings": ("ratings:import_ratings", "Convert ratings to long form."),
    "sheet read-labels": ("ratings:import_labels", "Read filled sheets of labels."),
    "sheet read-stress": ("ratings:import_stress", "Read marked stresses as samples."),
    "export copies": ("exports:export_copies", "List the near copies among texts."),
    "export inspect": ("exports:export_inspect", "Write a run as a log of Inspect."),
    "export every-eval-ever": ("exports:export_every_eval_ever", "Write a run for that site."),
    "export errors": ("rates:export_errors", "Write the texts a run missed or flagged."),
}
"""The commands below another one: by a second word, or by an option that makes it another."""
TOP = {name: entry for panel in PANELS.values() for name, entry in panel.items()}
COMMANDS = {name: place for name, (place, _) in {**TOP, **BELOW}.items() if place}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    screen.prepare_streams()
    logging.basicConfig(handlers=[messages := Messages()], force=True)
    if arguments is None:  # the process is ours
        gc.set_threshold(50_000, 20, 10)  # a run makes many records, hardly any in cycles
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # its own keeps what is freed
        with suppress(AttributeError):  # glibc's malloc alone keeps what was a large array
            CDLL(None).mallopt(-3, 1 << 15)  # M_MMAP_THRESHOLD
    words = list(sys.argv[1:] if arguments is None else arguments)
    code = outcome(lambda: _run(words))
    stream_fault(sys.stderr)
    return code or ExitCode.of(messages.has_missing)


def _run(words: list[str]) -> object:
    name, rest = command_of(words)
    has_all = ALL_OPTIONS in rest
    if name in COMMANDS:
        rest = ["--help" if word == ALL_OPTIONS else word for word in rest]
        return _command(name, has_all=has_all)(rest)
    if rest[:1] == ["--version"]:
        say(__version__)
    elif set(rest[:1]) <= {"-h", "--help", ALL_OPTIONS}:
        say(_overview(has_all=has_all) if not name else _below(name), is_raw=True)
    else:
        known = [key.split()[1] for key in BELOW if key.split()[0] == name] if name else [*TOP]
        others = [key for key in BELOW if key.split()[1].strip("-") == rest[0]]
        hint = f"; did you mean {others[0]}?" if others else did_you_mean(rest[0], known)
        hint = SUCCESSORS.get(" ".join(words[:2])) or SUCCESSORS.get(words[0]) or hint
        raise SpecError(f"No such command {f'{name} {rest[0]}'.strip()!r}{hint}")
    return ExitCode.DONE


def parameters_of(words: Sequence[str]) -> set[str]:
    """The parameters of a command of a plan; SpecError if there is none, or it may ask models."""
    from harness.cli.options import expanded

    name, _ = command_of(words)
    if name not in COMMANDS:
        raise SpecError(f"`before` and `after` of a plan: no such command {' '.join(words)!r}")
    names = {*signature(expanded(_function(name))).parameters}
    if "budget" in names:
        fact = f"`before` and `after` of a plan: {name} may ask models"
        raise SpecError(f"{fact}; name a task instead")
    return names


def inner(words: Sequence[str], where: Mapping[str, object]) -> int:
    """The exit code of a command within another, whose folders it is given where it takes them."""
    given = [(f"--{name}", where[name]) for name in sorted(parameters_of(words) & {*where})]
    more = [word for flag, one in given if one and flag not in words for word in (flag, str(one))]
    page = vars(PAGE).copy()  # its own page begins and ends meanwhile
    PAGE.begin(None)
    try:
        return outcome(lambda: _run([*words, *more]))
    finally:
        vars(PAGE).update(page)


def command_of(words: Sequence[str]) -> tuple[str, list[str]]:
    """The command that some words call, which is empty if they call none, and the other words."""
    for name in BELOW:
        first, second = name.split()
        place = words.index(second) if second in words else 0
        if words[:1] == [first] and (place == 1 or (place and second.startswith("-"))):
            return name, [*words[1:place], *words[place + 1 :]]
    return (words[0], [*words[1:]]) if words and words[0] in TOP else ("", [*words])


def _overview(*, has_all: bool) -> str:
    lines = ["Usage: harness COMMAND [OPTIONS]", "", ABOUT, ""]
    lines += [] if has_all else [*(f"  {name:11}  {TOP[name][1]}" for name in DAILY), ""]
    for title, entries in PANELS.items():
        others = ", ".join(name for name in entries if name not in DAILY)
        each = [f"{title}:", *(f"  {name:11}  {about}" for name, (_, about) in entries.items()), ""]
        lines += each if has_all else [f"  {title:23}  {others}"]
    more = [] if has_all else ["", f"All, a line each: harness {ALL_OPTIONS}"]
    return "\n".join([*lines, *more, EPILOG])


def _below(name: str) -> str:
    own = [(key.split()[1], about) for key, (_, about) in BELOW.items() if key.split()[0] == name]
    lines = [f"Usage: harness {name} COMMAND [OPTIONS]", "", TOP[name][1], ""]
    return "\n".join([*lines, *(f"  {word:15}  {about}" for word, about in own)])


def outcome(command: Callable[[], object]) -> int:
    """The exit code of a command; an exception becomes a message."""
    try:
        code = command()
        sys.stdout.flush()
        if code == 130 and not isinstance(code, ExitCode):  # typer's, of a KeyboardInterrupt
            raise KeyboardInterrupt
    except HarnessError as error:
        warn(f"harness: {error}")
        is_spent = isinstance(error, BudgetReached)
        return ExitCode.INTERRUPTED if is_spent else ExitCode.USER_MISTAKE
    except KeyboardInterrupt:
        warn("harness: interrupted; finished calls are stored: repeat the command to resume")
        return ExitCode.INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.INTERRUPTED
    except Exception as error:  # the last boundary: a bug of ours is shown whole
        if hasattr(error, "exit_code") and hasattr(error, "show"):
            more = of_others(error)
            if "valid integer" in str(getattr(error, "message", "")):
                error.__dict__["message"] = "give a whole number, such as 20"
            if more and hasattr(error, "possibilities"):  # they are of other things
                error.possibilities = []
            error.show(shown := StringIO())
            warn(shown.getvalue().removesuffix("\n") + more)
            return ExitCode.USER_MISTAKE
        if isinstance(error, OSError) and (why := stream_fault(sys.stdout, is_tried=True)):
            warn(f"harness: the result cannot be written to stdout ({why}); {KEPT}")
            return ExitCode.USER_MISTAKE
        warn(traceback.format_exc())
        warn("harness: this is a bug of the harness, not your mistake; stored calls are safe")
        return ExitCode.OUR_BUG
    finally:
        ProgressLine.close()
    return code if isinstance(code, int) else ExitCode.DONE


@cache  # for a program that calls `main` again and again
def _command(name: str, *, has_all: bool) -> Callable[[list[str]], object]:
    from harness.cli.commands import command  # takes longer than to show `harness --help`

    below = ", ".join(f"harness {own}" for own in BELOW if own.startswith(f"{name} "))
    ends = [] if has_all else [f"More options, and more of each: harness {name} {ALL_OPTIONS}"]
    ends += [f"See also: {below}"] if below else []
    return command(name, _function(name), "\n".join(ends), has_all=has_all)


def _function(name: str) -> Callable[..., object]:
    module, _, function = COMMANDS[name].partition(":")
    found: Callable[..., object] = getattr(import_module(f"harness.cli.{module}"), function)
    return found
