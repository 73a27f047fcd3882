"""Scorers are found by name or by path, and what cannot be one is reported."""

from pathlib import Path

import pytest
from support.impscore_heads import random_head, random_maps
from support.tiny_mpnet import WIDTH, write_mpnet, write_released
from support.toy import Toy

from harness.errors import HarnessError
from harness.implicitness.open import SHIPPED
from harness.implicitness.scorer import Scorer, save_head
from harness.registry import shipped_home
from harness.text.dedup import fingerprint

pytest.importorskip("safetensors")

HEAD = "{about: a test, kind: head, head: mine}"


@pytest.fixture
def scorers(toy: Toy) -> Toy:
    """A toy home with a head of its own, and a scorer that names it."""
    save_head(random_head(), toy.home / "configs/scorers/mine")
    toy.write("configs/scorers/own.yaml", HEAD)
    return toy


def opened(toy: Toy, name: str) -> Scorer:
    return toy.space().registry.scorer(name)


def test_a_name_is_that_of_a_yaml_whose_head_is_in_its_folder(scorers: Toy) -> None:
    found = opened(scorers, "own")
    assert (found.name, found.head.digest) == ("own", random_head().digest)
    assert found.encoder is opened(scorers, "own").encoder


@pytest.mark.parametrize("ending", ["mine.json", "mine.safetensors", "own.yaml"])
def test_a_path_is_that_of_a_head_or_of_a_yaml(ending: str, scorers: Toy) -> None:
    found = opened(scorers, str(scorers.home / "configs/scorers" / ending))
    assert found.head.digest == random_head().digest
    assert found.name == ("own" if ending == "own.yaml" else "random")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{about: a, kind: head, head: yours}", r"own\.yaml: no head 'yours' in its folder"),
        ("{about: a, kind: head}", "missing required key `head`"),
        ("{about: a, kind: heed, head: a}", "unknown kind 'heed'.*head"),
        ("{about: a, kind: published, modle: x}", "unknown key `modle`.*did you mean model"),
        ("{about: a, kind: published}", "weights are gated .* set `model:`"),
        ("{about: a, kind: published, model: ./none}", "no such folder"),
        ("{about: a, kind: published, form: {direction: up}}", "'up'.*known: p2s, s2p, third"),
        ("{about: a, kind: published, trained_on: x.csv}", r"x\.csv: no such file"),
        (
            "{about: a, kind: head, head: mine, encoder: {kind: minilm}}",
            "trained on the encoder of digest .*name that encoder",
        ),
    ],
)
def test_a_yaml_that_is_wrong_is_reported(content: str, message: str, scorers: Toy) -> None:
    scorers.write("configs/scorers/own.yaml", content)
    with pytest.raises(HarnessError, match=message):
        opened(scorers, "own")


def test_unknown_names_and_paths_are_named_with_the_nearest(scorers: Toy) -> None:
    with pytest.raises(HarnessError, match=r"no scorer 'owl' .*did you mean own"):
        opened(scorers, "owl")

    head = scorers.home / "configs/scorers/mine"
    with pytest.raises(HarnessError, match=rf"{head}: .*no such folder.*whole name"):
        opened(scorers, str(head))


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (shipped_home() / "configs/scorers").glob("*.yaml"))
)
def test_every_scorer_that_ships_is_one(name: str, toy: Toy) -> None:
    if name == "impscore-published":
        with pytest.raises(HarnessError, match="gated"):
            opened(toy, name)
    elif not (SHIPPED / f"{name}.json").is_file():
        pytest.skip(f"{name} does not ship yet")
    else:
        assert opened(toy, name).name == name


def test_published_weights_are_found_by_their_folder(toy: Toy, tmp_path: Path) -> None:
    for package in ("torch", "sentence_transformers"):
        pytest.importorskip(package)
    (tmp_path / "released").mkdir()

    with pytest.raises(HarnessError, match=r"released: one file of weights is needed"):
        opened(toy, str(tmp_path / "released"))


@pytest.mark.parametrize("given", ["", "trained_on: all_data.csv"])
def test_published_weights_name_what_they_were_trained_on_where_a_table_says_it(
    toy: Toy, tmp_path: Path, given: str
) -> None:
    for package in ("torch", "transformers", "sentence_transformers"):
        pytest.importorskip(package)
    stock = write_mpnet(tmp_path / "stock")
    released = write_released(tmp_path / "released", random_maps(WIDTH))
    toy.write("configs/scorers/all_data.csv", "pos_implicit,text\nA b.,C.\n")
    spec = f"about: a\nkind: published\nmodel: {released}\nencoder: {stock}\n{given}"
    toy.write("configs/scorers/own.yaml", spec)

    found = opened(toy, "own")

    assert found.seen == ({fingerprint("a B"), fingerprint("c")} if given else frozenset())
