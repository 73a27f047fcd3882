"""Kinds that installed packages add: a small package is installed with pip and used as it is."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.each import rest_slow
from support.toy import Toy

import harness
from harness.errors import SpecError
from harness.specs import plugins

PACKAGE = Path(__file__).parent / "harness-shout"
CHECKOUT = Path(harness.__file__).parent.parent
JUDGE = "about: Is it shouted.\nkind: shouting\nshare: 0.9\n"
MODEL = "about: Shouts.\nkind: shouter\n"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed into, without a network."""
    folder = tmp_path_factory.mktemp("plugins")
    source = shutil.copytree(PACKAGE, folder / "source")  # a build writes next to its source
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    offline = ("--no-build-isolation", "--no-deps", "--no-index")
    target = folder / "site"
    subprocess.run([*pip, *offline, "--target", str(target), str(source)], check=True)
    return target


@pytest.fixture
def loud(toy: Toy) -> Toy:
    toy.write("configs/judges/loud.yaml", JUDGE)
    toy.write("configs/models/shouter.yaml", MODEL)
    return toy


def run(
    toy: Toy, installed: Path, *arguments: str, has_home: bool = True
) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own that finds the package."""
    path = os.pathsep.join((str(installed), str(CHECKOUT)))
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments, *["--home", str(toy.home)] * has_home],
        env={**os.environ, "PYTHONPATH": path},
        cwd=toy.folder,
        capture_output=True,
        text=True,
        check=False,
    )


def described(site: Path, package: str, points: str) -> None:
    """What an installed package leaves on the path of what it adds."""
    folder = site / f"{package}-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(points)


@pytest.mark.slow
def test_a_package_adds_a_judge_and_a_model_and_a_run_uses_both(loud: Toy, installed: Path) -> None:
    done = run(loud, installed, "run", "--task", "toy", "--model", "shouter", "--judge", "loud")

    assert done.returncode == 0, done.stderr
    [folder] = loud.runs()
    content = json.loads((folder / "run.json").read_text())
    assert content["model"]["kind"] == "shouter"
    assert "|source=" in content["model"]["identity"]
    assert content["judges"][0]["recipe"].startswith("loud:")
    assert content["judges"][0]["recipe"].endswith("|shouting")
    assert "shouted" in (folder / "scores.csv").read_text()


@pytest.mark.parametrize(
    "arguments", rest_slow([(("judge", "loud"),), (("model", "shouter"),)], kept=1)
)
def test_additions_keep_the_contract(
    loud: Toy, installed: Path, arguments: tuple[str, ...]
) -> None:
    done = run(loud, installed, "check", *arguments)
    assert (done.returncode, "FAILED" in done.stdout) == (0, False), done.stdout + done.stderr


def test_a_wrong_key_of_a_plugin_is_named_as_of_any_kind(loud: Toy, installed: Path) -> None:
    loud.write("configs/judges/loud.yaml", JUDGE.replace("share", "shrae"))
    done = run(loud, installed, "check", "judge", "loud")

    assert done.returncode == 2
    assert "unknown key `shrae`; did you mean share?" in done.stderr


@pytest.mark.slow
def test_an_unknown_kind_is_answered_with_that_of_a_plugin(loud: Toy, installed: Path) -> None:
    loud.write("configs/judges/loud.yaml", JUDGE.replace("shouting", "shuoting"))
    done = run(loud, installed, "check", "judge", "loud")

    assert "unknown kind 'shuoting'; did you mean shouting" in done.stderr
    assert "cosine" in done.stderr


@pytest.mark.slow
def test_the_schema_of_judges_knows_the_kinds_of_plugins(loud: Toy, installed: Path) -> None:
    done = run(loud, installed, "show", "schema", "judge", has_home=False)
    assert json.loads(done.stdout)["$defs"]["ShoutingSpec"]["properties"]["share"]["default"] == 1.0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder of installed packages that this process finds."""
    folder = tmp_path / "site"
    folder.mkdir()
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


def test_two_packages_of_one_kind_are_both_named(site: Path) -> None:
    for package in ("one", "other"):
        described(site, package, f"[harness.judges]\ntwice = {package}_module:Judge\n")

    with pytest.raises(SpecError, match=r"'twice' is added by package one and package other; unin"):
        plugins.plugin("harness.judges", "twice", known=(), where="j.yaml")


def test_a_broken_package_is_named_where_its_kind_is_asked_for_alone(site: Path, loud: Toy) -> None:
    described(site, "broken", "[harness.judges]\nbroken = no_such_module:Judge\n")
    registry = loud.space().registry
    loud.write("configs/judges/broken.yaml", "about: a\nkind: broken\n")

    assert registry.load("configs/judges", "near")
    with pytest.raises(SpecError, match=r"'broken' of package broken failed \(ModuleNotFoundError"):
        registry.load("configs/judges", "broken")


@pytest.mark.parametrize(
    ("source", "fact"),
    [
        ("class Judge: pass", "needs a class `Spec`"),
        (
            "from harness.specs.schema import Spec as S\n"
            "class Judge:\n"
            "    class Spec(S, frozen=True, tag_field='kind', tag='other'): pass",
            "declared with tag_field='kind', tag='odd{n}'",
        ),
    ],
)
def test_a_plugin_without_a_spec_of_its_kind_is_refused(
    site: Path, loud: Toy, source: str, fact: str, request: pytest.FixtureRequest
) -> None:
    number = len(source)
    (site / f"odd_module{number}.py").write_text(source)
    described(site, "odd", f"[harness.judges]\nodd{number} = odd_module{number}:Judge\n")
    loud.write("configs/judges/odd.yaml", f"about: a\nkind: odd{number}\n")

    with pytest.raises(SpecError) as caught:
        loud.space().registry.load("configs/judges", "odd")
    assert fact.replace("{n}", str(number)) in str(caught.value)


def test_a_package_adds_a_reader(site: Path, loud: Toy) -> None:
    (site / "reader_module.py").write_text(
        "from harness.core import Sample\n"
        "def read(files, overlay):\n"
        "    return [Sample(str(path.name), {'story': 's'}) for path in files]\n"
    )
    described(site, "reading", "[harness.readers]\nby_name = reader_module:read\n")
    registry = loud.space().registry
    loud.edit("tasks/toy.yaml", "reader: samples_jsonl", "reader: by_name")

    assert registry.load("tasks", "toy").data.reader == "by_name"
    assert [part.id for part in registry.read("by_name", [Path("a.txt")], None)] == ["a.txt"]
