"""The commands bundle and prove: runs to a zip for a reviewer, and back to the same numbers."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from harness.cli import options
from harness.cli.options import OFFLINE, AsJson, ExitCode, Only, Where, argument, option
from harness.cli.output import ProgressLine, echo, echo_json, log
from harness.errors import SpecError, StoreError
from harness.storage import bundle as zips
from harness.storage.files import write_whole
from harness.storage.runs import find_run, run_folders

if TYPE_CHECKING:
    from harness.pipeline.prove import Proof


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
    from harness.pipeline.bundle import bundle_files

    if out.suffix.lower() != ".zip":
        raise SpecError(f"-o {out}: a bundle is a zip; end its name in .zip")
    folders = [find_run(where.results, name) for name in runs]
    results = folders[0].results(where.results)
    files = bundle_files(where.workspace(OFFLINE, results), folders)
    data = zips.pack(files)
    write_whole(out, data)
    proofs = _prove(out)[1]
    for proof in proofs:
        for line in (*proof.unproven, *proof.differences):
            log(f"{proof.run}: {line}")
    echo(f"wrote {len(files) + 1} files, {len(data):,} bytes, to {out}")
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
    faults, proofs = _prove(file)
    if is_json:
        echo_json({"changed": faults, "runs": proofs})
    else:
        _put(faults, proofs)
    is_same = not faults and all(proof.is_same for proof in proofs)
    return ExitCode.of(not is_same)


def _prove(path: Path) -> "tuple[list[str], list[Proof]]":
    """What is not as the bundle's sums say, and the proof of each of its runs."""
    from harness.pipeline import bundle as made
    from harness.pipeline.prove import prove as derive
    from harness.registry import Registry
    from harness.workspace import Workspace

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with TemporaryDirectory(prefix="harness-prove-") as place:
        folder = Path(place)
        zips.unpack(path, folder)
        if not (folder / made.INDEX).is_file():
            raise StoreError(
                f"{path}: no {made.INDEX} in it; name a zip that `harness bundle` made"
            )
        faults = list(zips.changed(folder))
        (home := folder / made.HOME).mkdir(exist_ok=True)
        # Only what the bundle brings is used, no file of this home, and no key.
        own = replace(Registry.open(home), homes=(home.resolve(),), environ={})
        space = Workspace(own, folder / made.RESULTS, None, "corrected", ProgressLine())
        folders = run_folders(space.results)
        if not folders:
            raise StoreError(f"{path}: no run in it; name one that `harness bundle` made")
        proofs = [derive(space, one) for one in folders]
        shown = [_without(place, one) for one in proofs]
    return faults, shown


def _without(place: str, proof: "Proof") -> "Proof":
    """A proof whose lines do not name the folder that the bundle was unpacked to."""
    place = os.path.join(os.path.realpath(place), "")
    lines = [
        tuple(line.replace(place, "") for line in part)
        for part in (proof.differences, proof.unproven)
    ]
    return replace(proof, differences=lines[0], unproven=lines[1])


def _put(faults: Sequence[str], proofs: "Sequence[Proof]") -> None:
    for fault in faults:
        echo(f"changed: {fault}")
    for proof in proofs:
        if proof.is_same:
            echo(f"{proof.run}: the same (derived again from {proof.calls} calls)")
        for line in proof.differences:
            echo(f"{proof.run}: differs: {line}")
        for line in proof.unproven:
            echo(f"{proof.run}: not derived: {line}")
