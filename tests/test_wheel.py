"""The wheel carries the home folders, and an installed copy works outside the checkout."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

import harness

CHECKOUT = Path(harness.__file__).parent.parent
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--quiet", "--wheel-dir", str(folder)]
    subprocess.run([*PIP, "wheel", *options, str(CHECKOUT)], check=True)
    return next(folder.glob("*.whl"))


@pytest.mark.parametrize("folder", ["tasks", "configs", "prompts"])
def test_the_wheel_carries_every_file_of_a_home_folder(wheel: Path, folder: str) -> None:
    packed = {
        name for name in ZipFile(wheel).namelist() if name.startswith(f"harness/_home/{folder}/")
    }
    kept = (path for path in (CHECKOUT / folder).rglob("*") if path.is_file())

    assert packed == {f"harness/_home/{path.relative_to(CHECKOUT).as_posix()}" for path in kept}


@pytest.mark.parametrize(
    "name",
    [
        *("harness/py.typed", "harness/cli/app.py", "harness/present/page/assets/report.css"),
        *("harness/present/page/assets/report.html", "harness/present/page/assets/report.js"),
        "harness/implicitness/data/pairs.jsonl",
        "harness/implicitness/heads/impscore-minilm.json",
        "harness/implicitness/heads/impscore-minilm.safetensors",
    ],
)
def test_the_wheel_carries_the_package_and_no_tests(wheel: Path, name: str) -> None:
    names = ZipFile(wheel).namelist()
    assert name in names
    assert not [name for name in names if name.startswith(("tests/", "results/", "benchmarks/"))]


def test_an_installed_copy_lists_and_runs_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env/bin/python"
    command = [*PIP, "--python", str(python), "install", "--no-deps", "--quiet", str(wheel)]
    subprocess.run(command, check=True)
    # The packages it needs come from the environment the tests run in, the checkout does not.
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        check=True,
        text=True,
    )
    (Path(found.stdout.strip()) / "zz_deps.pth").write_text(sysconfig.get_path("purelib"))
    run = ["run", "--task", "intent_resolution", "--model", "oracle", "--judge", "ngram-cosine"]

    for arguments in (["list"], [*run, "--limit", "2"]):
        done = subprocess.run(
            [tmp_path / "env/bin/harness", *arguments],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert "intent_resolution" in done.stdout
    assert (tmp_path / "results/runs/intent_resolution/oracle").is_dir()
