"""The command that shows how a model's tokenizer reads choices: tokens."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options
from harness.cli.options import HOME, RESULTS, AsJson, Data, DataMode, Home, PromptPack
from harness.cli.output import echo, echo_json, echo_table

if TYPE_CHECKING:
    from harness.models.local.token_report import TokenReport

EXAMPLES, WIDEST = 3, 12
HEAD = (
    "variant",
    "choices",
    "tokens a choice (min/median/max)",
    "one token",
    "other tokens apart",
    "token across",
    "nothing before",
    "BOS",
    "longest context",
)


def tokens(
    task: Annotated[str, typer.Option("--task", help="Task: a name in tasks/, with choices.")],
    model: Annotated[str, typer.Option("--model", help="Local model: a name in configs/models/.")],
    variant: Annotated[
        str | None,
        typer.Option(
            "--variant", help="Variants, comma-separated, or all. Default: the task's own."
        ),
    ] = None,
    limit: options.Limit = None,
    data: Data = None,
    data_mode: DataMode = "corrected",
    prompts: PromptPack = None,
    home: Home = HOME,
    is_json: AsJson = False,
) -> int:
    """Show how a local model's tokenizer reads a task's choices; no weights are opened."""
    from harness.pipeline.dry_run import check_tokens
    from harness.pipeline.resolve import RunOptions

    space = options.workspace(home, RESULTS, data=data, data_mode=data_mode, prompts=prompts)
    chosen = RunOptions(task=task, model=model, variants=options.names(variant), limit=limit)
    reports = check_tokens(space, chosen)
    if is_json:
        echo_json(reports)
        return 0
    echo_table(f"{task}, {model}", HEAD, [_cells(*pair) for pair in reports.items()])
    _put_examples(reports)
    return 0


def _cells(variant: str, report: "TokenReport") -> Sequence[str]:
    return (
        variant,
        str(report.choices),
        f"{report.fewest} / {report.median:g} / {report.most}",
        str(report.single),
        str(report.differing),
        str(report.spanning),
        str(report.ungiven),
        " or ".join(map(str, report.bos_counts)),
        str(report.longest_context),
    )


def _put_examples(reports: "dict[str, TokenReport]") -> None:
    """Three choices, those that are other tokens when tokenised apart first."""
    found = [
        (part.scored == part.apart, place, name, part)
        for name, report in reports.items()
        for place, part in enumerate(report.examples)
    ]
    for _, _, name, part in sorted(found, key=lambda entry: entry[:2])[:EXAMPLES]:
        echo(f"{name}, sample {part.sample_id}, choice {part.choice!r}")
        echo(f"  given  {_shown(part.given)}")
        echo(f"  scored {_shown(part.scored)}")
        echo(f"  apart  {_shown(part.apart)}")


def _shown(pieces: Sequence[str]) -> str:
    more = f" and {len(pieces) - WIDEST} more" if len(pieces) > WIDEST else ""
    return " ".join(f"[{piece}]" for piece in pieces[:WIDEST]) + more
