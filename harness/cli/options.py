"""Options that commands share, and how records of them become parameters."""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from shutil import get_terminal_size
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer
from typer.models import OptionInfo

from harness.errors import ExitCode as ExitCode
from harness.errors import SpecError
from harness.present.screen import PAGE, ProgressLine, warn
from harness.storage.files import READ, check_output, files_named

if TYPE_CHECKING:
    from harness.registry import Registry
    from harness.specs.models import Backend
    from harness.workspace import Workspace

_T = TypeVar("_T", bound=str)
_RARE = """
answers backend data data_mode executor home is_batch is_self_judge_allowed is_status is_whole
judge_model prompts ray_address ray_workers results retry scorer seed shard table
"""
RARE = frozenset(_RARE.split())
"""The parameters that help shows last, if there is room on a screen."""


@dataclass(frozen=True)
class Only:
    """In `Annotated[Record, Only("a b")]`: the fields that are options; others keep defaults."""

    names: str


def option(about: str, default: object = None, *, flags: str = "", **rules: Any) -> Any:  # noqa: ANN401 - the field's type is its annotation
    """A field or a parameter that is an option; `flags`, as `-o --out`, replace its own name.

    It is required where the default is `...`.
    """
    made = typer.Option(default, *flags.split(), help=about, **rules)
    return _field(made, MISSING if default is ... else default)


def switch(name: str, about: str) -> Any:  # noqa: ANN401 - as of `option`
    """An option without a value, which is false where it is not given."""
    return option(about, False, flags=name)


def output(about: str, *endings: str, default: object = MISSING, flags: str = "-o --out") -> Any:  # noqa: ANN401 - as of `option`
    """An option that names a file to write, with one of some endings; without any, a folder."""
    value = ... if default is MISSING else default
    metavar = "FILE" if endings else "FOLDER"
    made = typer.Option(value, *flags.split(), help=about, metavar=metavar)
    return field(default=default, metadata={"typer": made, "endings": endings})


def argument(metavar: str, about: str, default: object = MISSING) -> Any:  # noqa: ANN401 - as of `option`
    """A field or a parameter that is a positional argument; it is required without a default."""
    value = ... if default is MISSING else default
    return _field(typer.Argument(value, metavar=metavar, help=about), default)


def _field(info: object, default: object) -> Any:  # noqa: ANN401 - as of `option`
    return field(default=default, metadata={"typer": info})


def expanded(function: Callable[..., object]) -> Callable[..., object]:
    """A command whose parameters are the fields of the records that `function` takes."""
    records: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    defaults: dict[str, object] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        kind, *notes = get_args(parameter.annotation) or (parameter.annotation,)
        if not is_dataclass(kind):
            parameters.append(_parameter(name, parameter.annotation, parameter.default))
            defaults[name] = parameter.default
            continue
        only = [part for note in notes if isinstance(note, Only) for part in note.names.split()]
        added = [part for part in fields(kind) if not only or part.name in only]
        records[name] = kind, [part.name for part in added]
        parameters += [_parameter(part.name, part.type, part) for part in added]
        defaults |= {part.name: part for part in added}
    parameters.append(_parameter("is_whole", bool, WHOLE))
    outputs = {
        name: part.metadata["endings"]
        for name, part in defaults.items()
        if isinstance(part, Field) and "endings" in part.metadata
    }

    def command(is_whole: bool = False, **given: object) -> object:
        lines = None if is_whole else get_terminal_size().lines
        PAGE.begin(lines, is_silent=bool(given.get("is_json")))
        token = READ.set(files_named(value for name, value in given.items() if name not in outputs))
        try:
            for name, endings in outputs.items():
                check_output(given[name], endings)
            for name, (record, names) in records.items():
                given[name] = record(**{field: given.pop(field) for field in names})
            return function(**given)
        finally:
            READ.reset(token)
            PAGE.end()

    command.__doc__ = function.__doc__
    command.__annotations__ = {part.name: part.annotation for part in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by inspect
    return command


def _parameter(name: str, kind: object, default: object) -> inspect.Parameter:
    if isinstance(default, Field):
        default = default.metadata.get("typer", default.default)
    for info in (default, *get_args(kind)):
        if isinstance(info, OptionInfo) and not (info.metavar or name.startswith("is_")):
            info.metavar = _placeholder(kind, info.help or "")
    value = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=kind)


def _placeholder(kind: object, about: str) -> str:
    if "Path" in (words := str(kind)):
        return "FOLDER" if about.startswith("Folder") else "FILE"
    if re.search(r"\b(int|float)\b", words):
        return "N"
    return "NAMES" if "comma-separated" in about else "NAME"


Home = Annotated[
    Path, typer.Option(help="Folder of your own tasks/, configs/ and prompts/; searched first.")
]
Results = Annotated[Path, typer.Option(help="Folder of the stored calls, runs and tables.")]
DATA = "Folder of data, with a subfolder for each source. Default: the fetched data."
DataFolder = Annotated[Path | None, typer.Option(envvar="HARNESS_DATA", help=DATA)]
Seed = Annotated[int, typer.Option(help="Seed of all random draws.")]
LIMIT = "Use at most this many samples; groups keep their proportions."
Limit = Annotated[int | None, typer.Option(min=1, help=LIMIT)]
LEAST = "Originals that a gap or a change needs on each side."
Least = Annotated[int, typer.Option(min=3, help=LEAST)]
Missing = Annotated[str, typer.Option(help="Missing verdicts: apart, or wrong (the least value).")]
BACKEND = "Program that runs a local model: transformers, vllm or server."
BackendName = Annotated[str | None, typer.Option(help=BACKEND)]
A_RUN = "Run: a folder, the beginning of a digest, TASK/MODEL, @TAG, TASK/MODEL@TAG or @last."
RunName = Annotated[str, typer.Argument(metavar="RUN", help=A_RUN)]
SOME_RUNS = A_RUN.replace("Run:", "Runs:").removesuffix(".") + "; @TAG is all that have it."
RunNames = Annotated[list[str], typer.Argument(metavar="RUN", help=SOME_RUNS)]
SCORER_NAME = "Scorer of implicitness: a name in configs/scorers/, or the path of weights."
ScorerName = Annotated[str, typer.Option(help=SCORER_NAME)]
TABLE_FILE = "File to write: .csv, .tsv, .jsonl or .parquet."
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
WHOLE = switch("--all", "Print everything, not what fits one screen alone.")
TAG = option("Name for the run, which commands then take as @NAME.")
HOME, RESULTS, SCORER = Path(), Path("results"), "impscore-minilm"


@dataclass(frozen=True, kw_only=True)
class Computing:
    """Where models and encoders compute whose weights are run here, and not by a server."""

    executor: str = option("Where local models compute: local, or ray for a Ray cluster.", "local")
    ray_address: str | None = option("Ray cluster, HOST:PORT. Default: RAY_ADDRESS, else own.")
    ray_workers: int | None = option("Workers of each model at most. Default: all.", min=1)

    def placed(self, registry: "Registry") -> "Registry":
        """The registry, what it builds computing where these options say."""
        if one_of("--executor", self.executor, "local", "ray") == "ray":
            from harness.models.ray.executor import RayExecutor

            return replace(registry, executor=RayExecutor(self.ray_address, self.ray_workers))
        for flag, value in {"address": self.ray_address, "workers": self.ray_workers}.items():
            if value is not None:
                fact = f"--ray-{flag} {value}: is for --executor ray"
                raise SpecError(f"{fact}; add that, or leave it out")
        return registry


@dataclass(frozen=True, kw_only=True)
class Calling(Computing):
    """Whether, where and at what cost a command may call models."""

    is_offline: bool = switch("--offline", "Make no call; what is not stored fails.")
    retry: str = option("Retry calls that failed; all: also refused or cut ones; none.", "failed")
    budget: float | None = option(
        "US dollars that all calls may cost at most, stored ones included.", min=0, metavar="USD"
    )
    is_batch: bool = switch("--batch", "Send calls in batches: cheaper; may take a day.")


OFFLINE = Calling(is_offline=True, retry="failed", budget=None, is_batch=False)


@dataclass(frozen=True, kw_only=True)
class Where:
    """The folders and files that a command works with."""

    data: Path | None = option(
        "Folder of data, a subfolder a source; or a table. Default: fetched data, else samples.",
        envvar="HARNESS_DATA",
        metavar="FOLDER",
    )
    data_mode: str = option("corrected: repair known defects; released: as it is.", "corrected")
    table: str | None = option("Column map of a table: a name or a path.", flags="--map")
    prompts: Path | None = option("Folder of templates that replace shipped ones.")
    results: Results = RESULTS
    home: Home = HOME

    def workspace(
        self,
        calling: Calling | None = None,
        results: Path | None = None,
        progress: ProgressLine | None = None,
    ) -> "Workspace":
        """The workspace of these options; in another results folder where one is given."""
        from harness.models.client.cached import Budget, CallPolicy, Retry
        from harness.workspace import DataMode, Workspace

        found = Workspace.open(
            self.home,
            results or self.results,
            data=self.data,
            data_mode=one_of("--data-mode", self.data_mode, *get_args(DataMode)),
            prompts=self.prompts,
            progress=progress or ProgressLine(),
        )
        if self.prompts is not None:
            _warn_of_pack(self.prompts, found.registry)
        if calling is None:
            return found
        retry = one_of("--retry", calling.retry, *get_args(Retry))
        budget = None if calling.budget is None else Budget(calling.budget)
        policy = CallPolicy(calling.is_offline, retry, budget, calling.is_batch)
        return replace(found, terms=policy, registry=calling.placed(found.registry))


def data_folder(data: Path | None, *, must_exist: bool = True) -> Path:
    """The data folder, which must exist if it is named; else that of the fetched data."""
    if must_exist and data is not None and not data.is_dir():
        raise SpecError(f"data folder {data}: no such folder; correct --data or HARNESS_DATA")
    return data or registry(Path()).cache / "data"


def registry(home: Path, prompts: Path | None = None) -> "Registry":
    """The registry of a home folder and of what ships."""
    from harness.registry import Registry

    return Registry.open(home, prompts)


def _warn_of_pack(pack: Path, registry: "Registry") -> None:
    """Say which templates a pack replaces, and which of its files are the name of none."""
    files = registry.prompts.overrides(pack)
    used = [re.sub(r"(\.user)?\.j2$", "", file) for file, is_known in files if is_known]
    count = f"replaces {len(used)} template{'s' * (len(used) != 1)}: "
    shown = shorten(", ".join(used), 400) or "overrides nothing; name its files as in prompts/"
    warn(f"prompts: {pack} {count * bool(used)}{shown}")
    unused = [file for file, is_known in files if not is_known]
    for file in unused:
        close = get_close_matches(file, set(registry.prompts.names()) - set(unused), 1, 0.5)
        hint = "".join(f"; did you mean {name}?" for name in close)
        warn(f"--prompts {pack}: {file} is the name of no template{hint}")


def names(given: str | Sequence[str] | None, option: str = "--variant") -> tuple[str, ...]:
    """The names in a comma-separated option, which may be repeated; none if it is not given."""
    text = given if isinstance(given, str) else ",".join(given or ())
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if given is not None and not found:
        raise SpecError(f"{option} {text!r}: give a name, or leave it out")
    return found


def plain_name(name: str, *, option: str) -> str:
    """A name that files can have, which is no path."""
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise SpecError(f"{option} {name!r}: use only letters, digits, `_`, `-`, `.` and `+`")
    return name


def checked_tag(tag: str | None) -> None:
    """Raise SpecError for a tag that no command could take as the name of a run."""
    if tag == "last":
        raise SpecError("--tag last: @last is the run that was written last; give another name")
    if tag is not None:
        plain_name(tag, option="--tag")


def one_of(option: str, value: str, *allowed: _T) -> _T:
    """The allowed value that an option gives."""
    for one in allowed:
        if one == value:
            return one
    raise SpecError(f"{option} {value!r}: give {', '.join(allowed[:-1])} or {allowed[-1]}")


def is_missing_wrong(value: str) -> bool:
    """Whether `--missing` counts missing verdicts as wrong."""
    return one_of("--missing", value, "apart", "wrong") == "wrong"


def backend(name: str | None) -> "Backend | None":
    """The backend that --backend names, if any."""
    from harness.specs.models import Backend

    return None if name is None else one_of("--backend", name, *get_args(Backend))
