"""All commands together, and what an error becomes: one message and an exit code.

0 done; 1 done with missing items; 2 the user's mistake; 70 a bug of ours, with its traceback;
130 interrupted, or out of budget, to be resumed by the same command.
"""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence

import typer

from harness import __version__
from harness.cli import (
    build_train,
    compare,
    curve,
    data,
    import_,
    impscore,
    leaderboard,
    list_show,
    perturb,
    profile,
    ratings,
    run,
    tokens,
    verify,
)
from harness.cli.output import OncePerCommand, log
from harness.errors import BudgetReached, HarnessError

USER_MISTAKE, OUR_BUG, INTERRUPTED = 2, 70, 130

app = typer.Typer(
    name="harness",
    help="Measures how well language models handle meaning beyond the literal.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("judge")(run.judge)
app.command("read")(run.read)
app.command("tokens")(tokens.tokens)
app.command("train")(build_train.train)
app.command("import")(import_.import_files)
app.command("build")(build_train.build)
app.command("leaderboard")(leaderboard.leaderboard)
app.command("agree")(ratings.agree)
app.command("compare")(compare.compare)
app.command("curve")(curve.curve)
app.command("profile")(profile.profile)
app.command("verify")(verify.verify)
app.command("list")(list_show.list_names)
app.command("show")(list_show.show)
app.add_typer(data.app, name="data")
app.add_typer(impscore.app, name="impscore")
app.add_typer(ratings.export_app, name="export")
app.add_typer(perturb.app, name="perturb")
app.add_typer(ratings.ratings_app, name="ratings")


@app.callback(invoke_without_command=True)
def version(is_wanted: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    """Measures how well language models handle meaning beyond the literal."""
    if is_wanted:
        typer.echo(__version__)
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code says how it ended."""
    shown = logging.StreamHandler(sys.stderr)
    shown.addFilter(OncePerCommand())
    logging.basicConfig(format="%(levelname)s: %(message)s", handlers=[shown], force=True)
    return outcome(lambda: app(args=arguments, prog_name="harness", standalone_mode=False))


def outcome(command: Callable[[], object]) -> int:
    """The exit code of a command; what it raises becomes a message."""
    try:
        code = command()
        sys.stdout.flush()
        if code == INTERRUPTED:  # what typer makes of a KeyboardInterrupt
            raise KeyboardInterrupt
    except BudgetReached as error:
        log(f"harness: {error}")
        return INTERRUPTED
    except HarnessError as error:
        log(f"harness: {error}")
        return USER_MISTAKE
    except (KeyboardInterrupt, typer.Abort):
        log("harness: interrupted; finished calls are stored, the same command goes on from here")
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # whoever read our output wants no more of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except Exception as error:  # the last boundary: a bug of ours is shown whole
        if hasattr(error, "exit_code") and hasattr(error, "show"):
            error.show()
            return USER_MISTAKE
        traceback.print_exc()
        log("harness: this is a bug of the harness, not yours; what was stored is safe")
        return OUR_BUG
    return code if isinstance(code, int) else 0
