"""The commands bundle and prove: runs to a zip for a reviewer, and back to the same numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from harness.cli import options
from harness.cli.options import OFFLINE, AsJson, ExitCode, Only, Where, argument, option
from harness.cli.output import ProgressLine, echo, echo_json, log
from harness.errors import SpecError
from harness.storage.runs import find_run

if TYPE_CHECKING:
    from harness.pipeline.bundle import BundleProof


def bundle(
    runs: options.RunNames,
    where: Annotated[Where, Only("prompts results home")],
    *,
    out: Path = option("Zip to write.", flags="-o --out"),
) -> int:
    """Put runs into a zip with all that derives their numbers again, offline.

    It holds the runs, their calls, the task, judges and prompts that were used, and no keys and
    no paths of this machine. It is then proved at once, as `harness prove` does.

    \b
    Example:
      harness bundle 3f9a 81c2 -o results.zip
    """
    from harness.pipeline.bundle import prove_bundle, write_bundle

    if out.suffix.lower() != ".zip":
        raise SpecError(f"-o {out}: a bundle is a zip; end its name in .zip")
    folders = [find_run(where.results, name) for name in runs]
    results = folders[0].results(where.results)
    count, size = write_bundle(where.workspace(OFFLINE, results), folders, out)
    proofs = prove_bundle(out, ProgressLine()).runs
    for proof in proofs:
        for line in (*proof.unproven, *proof.differences):
            log(f"{proof.run}: {line}")
    echo(f"wrote {count} files, {size:,} bytes, to {out}")
    if all(proof.is_same for proof in proofs):
        echo(f"`harness prove {out.name}` derives every number again: the same")
        return ExitCode.DONE
    log(f"`harness prove {out.name}` will say so too; repeat the run to mend what differs")
    return ExitCode.CHECK_FAILED


def prove(file: Path = argument("FILE", "Bundle to prove."), is_json: AsJson = False) -> int:
    """Derive every number of a bundle again from its calls, offline, and compare all bytes.

    Exit code 0: the same. 1: something differs, or was not derived. 2: it is no bundle.

    \b
    Example:
      harness prove results.zip
    """
    from harness.pipeline.bundle import prove_bundle

    found = prove_bundle(file, ProgressLine())
    if is_json:
        echo_json(found)
    else:
        _put(found)
    return ExitCode.of(not found.is_same)


def _put(found: "BundleProof") -> None:
    for fault in found.changed:
        echo(f"changed: {fault}")
    for proof in found.runs:
        if proof.is_same:
            echo(f"{proof.run}: the same (derived again from {proof.calls} calls)")
        for line in proof.differences:
            echo(f"{proof.run}: differs: {line}")
        for line in proof.unproven:
            echo(f"{proof.run}: not derived: {line}")
