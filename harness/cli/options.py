"""The options that several commands share, with their help texts; and the values they mean."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from harness.cli.command import option
from harness.errors import SpecError

if TYPE_CHECKING:
    from harness.models.client.cached import CallPolicy
    from harness.pipeline.plan import AnswerMode
    from harness.registry import Registry
    from harness.specs.models import Backend
    from harness.workspace import Workspace

_T = TypeVar("_T", bound=str)
DataMode = Literal["corrected", "released"]

Home = Annotated[
    Path,
    typer.Option(
        "--home", help="Your folder with tasks/, configs/ and prompts/; searched before ours."
    ),
]
Results = Annotated[
    Path, typer.Option("--results", help="Folder that keeps calls, runs and tables.")
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        envvar="HARNESS_DATA",
        help="Data folder with a subfolder for each source. Default: the fetched data.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of all random draws.")]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", min=1, help="Use at most so many samples; groups keep their proportions."
    ),
]
BackendName = Annotated[
    str | None,
    typer.Option(
        "--backend", help="Program that runs a local model: transformers, vllm or server."
    ),
]
RunName = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Run folder, or the first characters of a run's digest."),
]
RunNames = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Run folders, or the first characters of their digests."),
]
ScorerName = Annotated[
    str,
    typer.Option(
        "--scorer",
        help="Scorer of implicitness: a name in configs/scorers/, or the path of a trained head "
        "or of published weights.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
HOME, RESULTS, SCORER = Path(), Path("results"), "impscore-minilm"


@dataclass(frozen=True, kw_only=True)
class Calling:
    """Whether and at what cost a command may call models."""

    is_offline: bool = option("--offline", "Make no call; a call that is not stored fails.", False)
    retry: str = option(
        "--retry",
        "failed: retry calls that failed; all: also those that were refused, filtered or cut; "
        "none: retry nothing.",
        "failed",
    )
    budget: float | None = option(
        "--budget",
        "Most US dollars for the calls of this command; calls already stored count too.",
        None,
        min=0,
    )
    is_batch: bool = option(
        "--batch", "Send calls to hosted models in batches: cheaper; a batch may take a day.", False
    )

    def policy(self) -> "CallPolicy":
        """The call policy of these options."""
        from harness.models.client.cached import Budget, CallPolicy

        budget = None if self.budget is None else Budget(self.budget)
        return CallPolicy(
            self.is_offline,
            one_of("--retry", self.retry, "failed", "all", "none"),
            budget,
            self.is_batch,
        )


OFFLINE = Calling(is_offline=True, retry="failed", budget=None, is_batch=False)


@dataclass(frozen=True, kw_only=True)
class Where:
    """The folders and files that a command works with."""

    data: Path | None = option(
        "--data",
        "Data folder with a subfolder for each source, or a table's file. Default: the fetched "
        "data, else the samples that ship.",
        None,
        envvar="HARNESS_DATA",
    )
    data_mode: str = option(
        "--data-mode",
        "corrected: repair the known defects of released data; released: use it as it is.",
        "corrected",
    )
    table: str | None = option(
        "--map",
        "Column map of a table: a name in configs/tables/, or the path of a YAML file.",
        None,
    )
    prompts: Path | None = option(
        "--prompts",
        "Folder of templates; each replaces the shipped template of the same name.",
        None,
    )
    results: Results = RESULTS
    home: Home = HOME

    def registry(self) -> "Registry":
        """The registry of the home folder and of what ships."""
        return registry(self.home, self.prompts)

    def workspace(self, calling: Calling | None = None, results: Path | None = None) -> "Workspace":
        """The workspace of these options; in another results folder where one is given."""
        from harness.cli.output import ProgressLine
        from harness.workspace import Workspace

        workspace = Workspace.open(
            self.home,
            results or self.results,
            data=self.data,
            data_mode=one_of("--data-mode", self.data_mode, "corrected", "released"),
            prompts=self.prompts,
            progress=ProgressLine(),
        )
        if self.prompts is not None:
            _warn_of_unused(self.prompts, workspace.registry)
        return workspace if calling is None else replace(workspace, terms=calling.policy())


def data_folder(data: Path | None) -> Path | None:
    """The data folder, which must exist if it is named."""
    if data is not None and not data.is_dir():
        raise SpecError(f"data folder {data}: no such folder; correct --data or HARNESS_DATA")
    return data


def registry(home: Path, prompts: Path | None = None) -> "Registry":
    """The registry of a home folder and of what ships."""
    from harness.registry import Registry

    return Registry.open(home, prompts)


def _warn_of_unused(pack: Path, registry: "Registry") -> None:
    """Warn of the templates in a prompt pack that replace no shipped one."""
    from difflib import get_close_matches

    from harness.cli.output import log

    prompts = registry.prompts
    files = prompts.overrides(pack)
    unused = [file for file, is_known in files if not is_known]
    known = sorted(set(prompts.names()) - set(unused))
    if len(unused) == len(files):
        log(f"--prompts {pack}: overrides nothing; name its files as in prompts/")
    for file in unused:
        close = get_close_matches(file, known, n=1, cutoff=0.5)
        hint = f"; did you mean {close[0]}?" if close else ""
        log(f"--prompts {pack}: {file} is the name of no template{hint}")


def names(text: str | None, option: str = "--variant") -> tuple[str, ...]:
    """The names in a comma-separated option; none where it is not given."""
    found = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if text is not None and not found:
        raise SpecError(f"{option} {text!r}: give a name, or leave it out")
    return found


def plain_name(name: str, *, option: str) -> str:
    """A name that files can have, which is no path."""
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise SpecError(f"{option} {name!r}: use only letters, digits, `_`, `-`, `.` and `+`")
    return name


def one_of(option: str, value: str, *allowed: _T) -> _T:
    """The allowed value that an option gives."""
    for one in allowed:
        if one == value:
            return one
    raise SpecError(f"{option} {value!r}: give {', '.join(allowed[:-1])} or {allowed[-1]}")


def backend(name: str | None) -> "Backend | None":
    """The backend that --backend names, if any."""
    if name is None:
        return None
    found: Backend = one_of("--backend", name, "transformers", "vllm", "server")
    return found


def answer_mode(name: str | None) -> "AnswerMode | None":
    """The mode of answering choices that --answers names, if any."""
    from harness.pipeline.plan import AnswerMode

    if name is None:
        return None
    return AnswerMode(one_of("--answers", name, *AnswerMode))
