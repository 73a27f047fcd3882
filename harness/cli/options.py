"""The options that several commands share, and the workspace they describe."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.errors import SpecError

if TYPE_CHECKING:
    from harness.models.client.cached import CallPolicy
    from harness.pipeline.answer_modes import AnswerMode
    from harness.registry import Registry
    from harness.specs.models import Backend
    from harness.workspace import Workspace

Home = Annotated[
    Path,
    typer.Option(
        "--home", help="Folder with your own tasks/, configs/ and prompts/, searched first."
    ),
]
Results = Annotated[
    Path, typer.Option("--results", help="Folder that keeps calls, runs and tables.")
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar="HARNESS_DATA",
        help="Data folder, one subfolder a source; or the file of a table. Default: fetched data, "
        "else our own samples.",
    ),
]
PromptPack = Annotated[
    Path | None,
    typer.Option("--prompts", help="Folder whose templates override shipped ones by name."),
]
DataMode = Annotated[
    str,
    typer.Option(
        "--data-mode",
        help="corrected: released data with its named defects repaired; released: as it is.",
    ),
]
Offline = Annotated[
    bool, typer.Option("--offline", help="Make no call; a missing one is an error.")
]
Retry = Annotated[
    str,
    typer.Option(
        "--retry",
        help="failed: ask again what got no reply; all: also what was refused, filtered or cut; "
        "none: nothing.",
    ),
]
BudgetUsd = Annotated[
    float | None,
    typer.Option(
        "--budget",
        min=0,
        help="US dollars that the calls this command plans may cost, those stored included.",
    ),
]
Batch = Annotated[
    bool,
    typer.Option(
        "--batch", help="Ask hosted models in batches: cheaper, and up to a day later each."
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="So many samples, every group its share.")
]
BackendName = Annotated[
    str | None,
    typer.Option("--backend", help="transformers, vllm or server, for local models."),
]
TableMap = Annotated[
    str | None,
    typer.Option("--map", help="Column map of a table: a name in configs/tables/, or a YAML file."),
]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run folder, or the start of a run's digest.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]

HOME, RESULTS = Path(), Path("results")


def cache_folder() -> Path:
    """Where fetched data and built checkpoints are kept: HARNESS_CACHE, else the user's cache."""
    if named := os.environ.get("HARNESS_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pragmatics-harness"


def data_folder(data: Path | None) -> Path | None:
    """The data folder a command is told of, which must be there."""
    if data is not None and not data.is_dir():
        raise SpecError(f"data folder {data}: no such folder; correct --data or HARNESS_DATA")
    return data


def plain_name(name: str, *, option: str) -> str:
    """A name that files are called by, which is no path."""
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise SpecError(f"{option} {name!r}: give a name of letters, digits, `_`, `-`, `.` and `+`")
    return name


def registry(home: Path, prompts: Path | None = None) -> "Registry":
    """The registry of a home folder, then of what ships."""
    from harness.registry import Registry, shipped_home

    if not home.is_dir():
        raise SpecError(f"--home {home}: no such folder")
    homes = dict.fromkeys([home.resolve(), shipped_home().resolve()])
    return Registry(tuple(homes), os.environ, cache_folder(), prompts)


def workspace(
    home: Path,
    results: Path,
    *,
    data: Path | None = None,
    data_mode: str = "corrected",
    prompts: Path | None = None,
    terms: "CallPolicy | None" = None,
) -> "Workspace":
    """The workspace that a command's options describe."""
    from harness.cli.output import ProgressLine
    from harness.models.client.cached import CallPolicy
    from harness.workspace import Workspace

    if data is None or not data.is_file():
        data_folder(data)
    mode = _data_mode(data_mode)
    found = registry(home, prompts)
    if prompts is not None:
        _tell_of_pack(prompts, found)
    return Workspace(found, results, data, mode, ProgressLine(), terms or CallPolicy())


def terms(
    *,
    is_offline: bool = False,
    retry: str = "failed",
    budget_usd: float | None = None,
    is_batch: bool = False,
) -> "CallPolicy":
    """On what terms a command may call models."""
    from harness.models.client.cached import CallPolicy
    from harness.models.client.pricing import Budget

    budget = None if budget_usd is None else Budget(budget_usd)
    match retry:
        case "failed" | "all" | "none":
            return CallPolicy(is_offline, retry, budget, is_batch)
        case _:
            raise SpecError(f"--retry {retry!r}: give failed, all or none")


def _tell_of_pack(pack: Path, registry: "Registry") -> None:
    """Say which templates of a prompt pack take the place of none."""
    from difflib import get_close_matches

    from harness.cli.output import log

    prompts = registry.prompts
    found = prompts.overrides(pack)
    known = sorted(set(prompts.names()) - {file for file, is_known in found if not is_known})
    if not any(is_known for _, is_known in found):
        log(f"--prompts {pack}: overrides nothing; its files must be named as in prompts/ are")
    for file in (file for file, is_known in found if not is_known):
        close = get_close_matches(file, known, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else ""
        log(f"--prompts {pack}: {file} has the name of no template here{hint}")


def names(text: str | None) -> tuple[str, ...]:
    """The names in --variant; none where it is not given."""
    found = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if text is not None and not found:
        raise SpecError(f"--variant {text!r}: name a variant, or leave it out")
    return found


def backend(name: str | None) -> "Backend | None":
    """The back end an option names."""
    match name:
        case None | "transformers" | "vllm" | "server":
            return name
        case _:
            raise SpecError(f"--backend {name!r}: give transformers, vllm or server")


def answer_mode(name: str | None) -> "AnswerMode | None":
    """The way of answering choices that an option names."""
    from harness.pipeline.answer_modes import AnswerMode

    try:
        return AnswerMode(name) if name is not None else None
    except ValueError:
        raise SpecError(f"--answers {name!r}: give logprob, top_logprobs or written") from None


def _data_mode(name: str) -> Literal["corrected", "released"]:
    match name:
        case "corrected" | "released":
            return name
        case _:
            raise SpecError(f"--data-mode {name!r}: give corrected or released")
