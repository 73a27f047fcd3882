"""What software computed a run: named in run.json by what the run is, told by show and compare."""

import json
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

from support import stored_tables
from support.toy import Lines, Toy

from harness.cli import main
from harness.storage.environment import PACKAGES
from harness.storage.runs import RunFolder

JUDGED = ("--variant", "base", "--judge", "choice", "--judge", "near")


def change(folder: Path, name: str, to: str) -> None:
    path = folder / "run.json"
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    content["packages"][name] = to
    path.write_text(json.dumps(content), "utf-8")
    stored_tables.renew_sums(folder)


def named(folder: Path) -> dict[str, str]:
    return dict(RunFolder(folder).read().packages)


def test_a_run_names_python_and_what_can_change_its_numbers(toy: Toy) -> None:
    toy.run()
    found = named(toy.runs()[0])

    assert found["python"] == python_version()
    assert {"numpy", "scipy", "torch"} <= found.keys() <= {"python", *PACKAGES}
    assert found["torch"] == version("torch")


def test_show_and_compare_name_in_one_line_what_has_other_versions(toy: Toy, capsys: Lines) -> None:
    for model in ("oracle", "literal"):
        toy.run(model=model)
    change(next(one for one in toy.runs() if "literal" in one.parts), "numpy", "1.0.9")
    capsys.readouterr()

    toy.main("show", "toy/literal")
    main(["compare", "toy/literal", "toy/oracle", "--results", str(toy.results)])

    out, err = capsys.readouterr()
    now = version("numpy")
    assert f"# computed with other versions than are here: numpy 1.0.9, here {now}\n" in out
    assert (
        "computed with other versions, which may be part of a difference: "
        f"numpy 1.0.9 in A, {now} in B\n"
    ) in err
