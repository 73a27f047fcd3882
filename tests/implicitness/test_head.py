"""Heads come back from their two files as they were, and what is damaged is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.impscore_heads import plain_implicitness, random_head

from harness.errors import HarnessError, ModelError, SpecError
from harness.implicitness.formula import FORMS
from harness.implicitness.scorer import HeadCard, load_head, save_head
from harness.models.encoders.encoders import CharNgrams
from harness.registry import Registry
from harness.specs.implicitness import Direction, Form, PythonEncoderSpec
from harness.text.dedup import fingerprint

pytest.importorskip("safetensors")

CARD = HeadCard(
    data="ten sentences",
    data_digest="ab",
    split="by topic",
    seeds=(0, 1),
    settings={"rate": 0.01},
    metrics={"tau": 0.5, "unmeasured": None},
)
ROWS = CharNgrams().encode(["It is cold.", "Close the window.", "Nice weather."])


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_head_comes_back_as_it_was(form: Form, tmp_path: Path) -> None:
    seen = frozenset(map(fingerprint, ["a", "b", "it is cold"]))
    head = replace(random_head(form=form, seeds=(0, 1)), card=CARD, seen=seen)

    path = save_head(head, tmp_path / "mine")

    again = load_head(path)
    assert (again.name, again.card, again.form, again.digest) == (
        *(head.name, CARD, form),
        head.digest,
    )
    assert again.seen == seen
    assert (again.implicitness(ROWS) == head.implicitness(ROWS)).all()


def test_an_ensemble_has_the_mean_of_its_members() -> None:
    head = random_head(seeds=(0, 1, 2))
    single = [random_head(seeds=(seed,)) for seed in (0, 1, 2)]

    mean = np.mean([one.implicitness(ROWS) for one in single], axis=0)
    apart = np.mean([one.pragmatic_distance(ROWS, ROWS[::-1]) for one in single], axis=0)

    assert head.implicitness(ROWS) == pytest.approx(mean, abs=1e-12)
    assert head.pragmatic_distance(ROWS, ROWS[::-1]) == pytest.approx(apart, abs=1e-12)


def test_a_heads_scores_are_those_of_the_formula_spelled_out() -> None:
    head = random_head()
    plain = [plain_implicitness(row, head.members[0], head.form) for row in ROWS]
    assert head.implicitness(ROWS) == pytest.approx(plain, abs=1e-9)


@each(
    ("change", "is_other"),
    [
        ({"name": "other", "card": CARD, "seen": frozenset(["a" * 16])}, False),
        ({"encoder_digest": "other"}, True),
        ({"form": Form(direction=Direction.TO_PRAGMATIC)}, True),
        ({"members": random_head(seeds=(1,)).members}, True),
        ({"members": random_head(seeds=(0, 0)).members}, True),
    ],
)
def test_the_digest_covers_what_changes_a_score(change: dict[str, Any], is_other: bool) -> None:
    assert (replace(random_head(), **change).digest != random_head().digest) == is_other


# --- what is refused ---


def change_json(path: Path, **content: object) -> None:
    file = path.with_suffix(".json")
    file.write_text(json.dumps(json.loads(file.read_text()) | content))


def other_weights(path: Path) -> None:
    save_head(random_head(seeds=(9,)), path.with_name("other"))
    path.with_name("other.safetensors").replace(path.with_suffix(".safetensors"))


DAMAGES = {
    "no weights": lambda p: p.with_suffix(".safetensors").unlink(),
    "no card": lambda p: p.with_suffix(".json").unlink(),
    "weights": lambda p: p.with_suffix(".safetensors").write_bytes(b"no tensors"),
    "json": lambda p: p.with_suffix(".json").write_text("{"),
    "format": lambda p: change_json(p, format="impscore-head/9"),
    "key": lambda p: change_json(p, colour="red"),
    "form": lambda p: change_json(
        p, form={"direction": "s2p", "implicitness": "cosine", "pragmatic": "cosine"}
    ),
    "members": lambda p: change_json(p, members=2),
    "other": other_weights,
}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("no weights", r"mine\.safetensors: damaged .*copy it again, next to mine\.json"),
        ("no card", r"mine\.json: cannot be read .*two files side by side"),
        ("weights", r"mine\.safetensors: damaged"),
        ("json", r"mine\.json: not JSON"),
        ("format", r"its `format` is not 'impscore-head/1'"),
        ("key", r"mine\.json: .*unknown.*`colour`"),
        ("form", r"do not belong together: digest \w{12}, expected \w{12}"),
        ("members", r"not the matrices of .*semantic"),
        ("other", r"do not belong together"),
    ],
)
def test_damaged_files_are_named_by_their_fact(damage: str, message: str, tmp_path: Path) -> None:
    save_head(random_head(), tmp_path / "mine")
    DAMAGES[damage](tmp_path / "mine")

    with pytest.raises(HarnessError, match=message):
        load_head(tmp_path / "mine")


def test_embeddings_of_another_width_are_refused() -> None:
    with pytest.raises(ModelError, match=r"takes embeddings \[n, 4096\], got \[3, 7\]"):
        random_head().implicitness(np.zeros((3, 7), np.float32))


def nan_maps() -> Any:  # noqa: ANN401 - a member
    maps = random_head().members[0]
    return replace(maps, transfer=maps.transfer * np.nan)


def test_code_that_a_head_names_as_its_encoder_is_not_run(tmp_path: Path) -> None:
    own = PythonEncoderSpec(entry=f"{tmp_path / 'own.py'}:Own")
    path = save_head(replace(random_head(), encoder=own), tmp_path / "mine")

    with pytest.raises(SpecError, match=r"its encoder is code .*; read it, then name it"):
        Registry.open(tmp_path).scorer(str(path))
