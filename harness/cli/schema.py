"""The command schema: what each kind of YAML file may say, for editors."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.output import echo, log
from harness.errors import SpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            help="task, model, judge, scorer, recipe, table, perturbation, build, import, data, "
            "golden, overlay or prices."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write. Default: stdout.")
    ] = None,
) -> int:
    """Print the JSON schema of a kind of YAML file, with which editors complete and check it.

    The kinds of models and judges that installed packages add are part of it.
    """
    from harness.storage.files import write_whole

    text = schema_text(kind)
    if out is None:
        echo(text.removesuffix("\n"))
    else:
        write_whole(out, text.encode())
        log(f"{out}: the schema of a {kind} file")
    return 0


def schema_text(kind: str, *, has_plugins: bool = True) -> str:
    """Return the JSON schema of a kind of file as text, in one order of keys."""
    import msgspec

    from harness.specs.json_schema import json_schema

    known = _specs(has_plugins=has_plugins)
    if kind not in known:
        raise SpecError(f"no kind of file {kind!r}{did_you_mean(kind, list(known))}")
    content = msgspec.json.encode(json_schema(known[kind], title=f"harness {kind}"))
    return msgspec.json.format(content, indent=1).decode() + "\n"


def _specs(*, has_plugins: bool) -> "Mapping[str, Any]":
    """The spec, or the union of specs, of each kind of file."""
    from harness.registry import EXTENDED, KINDS, SPECS
    from harness.specs import plugins
    from harness.specs.data import OverlaySpec
    from harness.specs.hosted import PricesSpec

    found: dict[str, Any] = {"overlay": OverlaySpec, "prices": PricesSpec}
    for section, spec in SPECS.items():
        kind = section.removeprefix("configs/").removesuffix("s")
        found[kind] = spec
        group = EXTENDED.get(section)
        if has_plugins and group is not None:
            for name in sorted({*plugins.plugin_kinds(group)} - KINDS[group].keys()):
                added = plugins.plugin(group, name, known=(), where=group)
                found[kind] |= plugins.spec_of(added, name, where=group)
    return found
