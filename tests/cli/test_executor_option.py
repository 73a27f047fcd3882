"""--executor, --ray-address and --ray-workers, where no cluster is needed."""

from importlib.metadata import packages_distributions

import pytest
from support.toy import Lines, Toy


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--executor", "dask"], "--executor 'dask': give local or ray"),
        (["--ray-address", "h:6379"], "--ray-address h:6379: is for --executor ray; add that"),
        (["--ray-workers", "2"], "--ray-workers 2: is for --executor ray; add that"),
    ],
)
def test_what_does_not_fit_is_refused(toy: Toy, capsys: Lines, words: list[str], said: str) -> None:
    assert toy.main("run", "--task", "toy", "--model", "oracle", *words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.skipif("ray" in packages_distributions(), reason="Ray is installed here")
def test_without_ray_a_run_says_what_to_install(toy: Toy, capsys: Lines) -> None:
    assert toy.main("run", "--task", "toy", "--model", "oracle", "--executor", "ray") == 2
    assert 'pip install -e ".[ray]"' in capsys.readouterr().err


def test_in_this_process_is_the_default(toy: Toy) -> None:
    assert toy.main("run", "--task", "toy", "--model", "oracle", "--executor", "local") == 0
