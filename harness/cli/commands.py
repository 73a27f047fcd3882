"""A function to a command: its parameters to options, its docstring to help that fits a screen."""

import re
from collections.abc import Callable
from textwrap import shorten, wrap
from typing import Any

import typer
from typer.core import TyperCommand

from harness.cli.options import RARE, expanded

SCREEN = 23  # lines of a help that leave room for the prompt on a screen of 80 x 24
Command = Callable[[list[str]], object]


def command(name: str, function: Callable[..., object], ends: str, *, has_all: bool) -> Command:
    """What runs a function with the options in some words; `ends` are the last lines of help."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    cls, settings = TyperCommand if has_all else OneScreen, {"help_option_names": ["-h", "--help"]}
    added = app.command(name, cls=cls, epilog=ends or None, context_settings=settings)
    added(expanded(function))
    made: Any = typer.main.get_command(app)
    for one in made.params:
        one.hidden = not has_all and one.name in RARE
        if one.param_type_name == "argument":  # RUN, where typer has {RUN} and RUN <str>
            usage = one.metavar + "..." * (one.nargs != 1)
            usage = usage if one.required else f"[{usage}]"
            one.display_type_rich = lambda ctx: None
            one.get_usage_pieces = lambda ctx, usage=usage: [usage]

    def run(words: list[str]) -> object:
        try:
            return made(args=words, prog_name=f"harness {name}", standalone_mode=False)
        except typer.Abort:
            raise KeyboardInterrupt from None

    return run


class OneScreen(TyperCommand):
    """A command whose help fits a screen: examples, and as many options, a line each, as fit."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - of typer's click
        """Write what the command does, an example or three, and its options in a line each."""
        about, *_ = (self.help or "").split("\n\n")
        examples = (self.help or "").partition("Example")[2].splitlines()[1:]
        head = [*wrap(" ".join(about.split()), formatter.width), *examples]
        found = [(one, record[0]) for one in self.params if (record := one.get_help_record(ctx))]
        ends = self.epilog or ""
        kept = found[: SCREEN - len(head) - 4 - len(ends.splitlines())]
        self.format_usage(ctx, formatter)
        formatter.write("\n" + "\n".join(head) + "\n\n")
        width = max(len(names) for _, names in kept)
        for one, names in kept:
            about = _brief(getattr(one, "help", None) or "", formatter.width - width - 4)
            formatter.write(f"  {names:{width}}  {about}\n")
        formatter.write(f"\n{ends}\n")


def _brief(about: str, width: int) -> str:
    """What an option does in one line: all of it, or its beginning up to a mark."""
    for mark in (r"(?<!\.)[.;]", "[:,]") if len(about) > width else ():
        if ends := [one.start() for one in re.finditer(f"{mark}(?= |$)", about[: width + 1])]:
            return about[: ends[-1]]
    return shorten(about, width, placeholder=" ...")
