"""Folders of trained classifiers from strangers: one message, nothing read outside, nothing run."""

import os
import pickle
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save
from support.each import each

from harness.errors import ModelError
from harness.models.local.checkpoints import explain
from harness.models.local.classifiers import ClassifierCard, read_trained
from harness.models.local.heads import load_head, scores

CARD = ClassifierCard(
    *("svm", "sklearn", "toy", ("a", "b"), "recipe", 0, "data", {}, "text", {}, {}, {}, {})
)


def folder(path: Path, content: bytes = b"x", sums: Mapping[str, str] | None = None) -> Path:
    """A folder with a head and a card that fits it, but for some further checksums."""
    (path / "texts.txt").write_text("one two", "utf-8")
    (path / "head.safetensors").write_bytes(content)
    own = {
        n: sha256((path / n).read_bytes()).hexdigest() for n in ("texts.txt", "head.safetensors")
    }
    card = replace(CARD, checksums=own | {**(sums or {})})
    (path / "card.json").write_bytes(msgspec.json.encode(card))
    return path


class Bomb:
    """What leaves a file behind where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize(
    "name",
    ["../secret", "/etc/hostname", "/dev/zero", "a/../../secret", "nothing", "pipe", ".", ""],
)
def test_a_card_that_names_no_file_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("x", "utf-8")
    (path := tmp_path / "trained").mkdir()
    os.mkfifo(path / "pipe")

    with pytest.raises(ModelError, match="is no file in it"):
        read_trained(folder(path, sums={name: "0" * 64}), model="svm", task="toy")


@pytest.mark.parametrize(
    "card",
    [b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"model": 1}', b"[" * 100_000, b'{"a":' * 100_000],
)
def test_a_card_that_is_none_is_refused(tmp_path: Path, card: bytes) -> None:
    (folder(tmp_path) / "card.json").write_bytes(card)
    with pytest.raises(ModelError, match="damaged"):
        read_trained(tmp_path, model="svm", task="toy")


def test_a_changed_file_is_refused_and_texts_that_are_none_as_well(tmp_path: Path) -> None:
    (folder(tmp_path) / "head.safetensors").write_bytes(b"other")
    with pytest.raises(ModelError, match="is not the file of its card"):
        read_trained(tmp_path, model="svm", task="toy")

    (tmp_path / "texts.txt").unlink()
    with pytest.raises(ModelError, match="damaged"):
        read_trained(tmp_path, model="svm", task="toy")


def test_pickled_weights_are_refused_with_the_remedy() -> None:
    with pytest.raises(ModelError, match="pickled weights are not loaded; convert"), explain("m"):
        pickle.loads(b"no pickle")


def test_a_pickle_in_the_place_of_weights_is_not_run(tmp_path: Path) -> None:
    content = pickle.dumps(Bomb(tmp_path / "ran"))
    read_trained(folder(tmp_path, content), model="svm", task="toy")

    with pytest.raises(ModelError):
        load_head(tmp_path, 2)
    assert not (tmp_path / "ran").exists()


def test_a_head_whose_header_is_huge_is_refused(tmp_path: Path) -> None:
    folder(tmp_path, b"\xff" * 8 + b"{}")
    with pytest.raises(ModelError):
        load_head(tmp_path, 2)


@each(
    ("weights", "offsets"),
    [
        *(((3, 4), (2,)), ((2, 4), (3,)), ((2,), (2,)), ((2, 4, 1), (2,)), ((0, 4), (0,))),
        *(((2, 4), ()), ((), (2,)), ((4, 2), (2,))),
    ],
)
def test_a_head_of_another_shape_fails(weights: tuple[int, ...], offsets: tuple[int, ...]) -> None:
    with TemporaryDirectory() as name:
        arrays = {"weights": np.ones(weights), "offsets": np.ones(offsets)}
        folder(Path(name), save(arrays))

        with pytest.raises(ModelError, match="train it again"):
            load_head(Path(name), 2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_head_that_is_not_finite_is_refused(tmp_path: Path, value: float) -> None:
    weights = np.ones((2, 4))
    weights[1, 2] = value
    folder(tmp_path, save({"weights": weights, "offsets": np.zeros(2)}))

    with pytest.raises(ModelError, match="finite"):
        load_head(tmp_path, 2)


def test_a_head_of_vectors_of_another_width_is_refused() -> None:
    with pytest.raises(ModelError, match="another width"):
        scores({"weights": np.ones((2, 4)), "offsets": np.ones(2)}, np.ones((3, 5), np.float32))
