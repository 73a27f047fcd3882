"""Published checkpoints: their files to the scores that their formula gives, or to a refusal."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import convert, structs
from support import tiny_mpnet
from support.each import rest_slow
from support.impscore_heads import plain_distance, plain_implicitness, random_maps
from support.packages import needs
from support.tiny_mpnet import MOST_TOKENS, WIDTH, Released, write_mpnet, write_released

from harness.errors import HarnessError, ModelError
from harness.implicitness.formula import FORMS, PUBLISHED
from harness.implicitness.published import published_scorer
from harness.implicitness.scorer import Flag, Scorer
from harness.specs.implicitness import Direction, Form, PublishedSpec

pytestmark = needs("torch", "transformers", "sentence_transformers")

TEXTS = ["it is cold in here.", "please shut the window.", "nice weather, is it not?"]


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder as stocked: architecture, tokenizer, and weights nobody should see."""
    return write_mpnet(tmp_path_factory.mktemp("stock"))


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder whose weights are in the checkpoints."""
    return write_mpnet(tmp_path_factory.mktemp("tuned"), seed=1)


def opened(folder: Path, stock: Path, **settings: Any) -> Scorer:  # noqa: ANN401 - YAML
    given = {"about": "a test", "model": str(folder), "encoder": str(stock), **settings}
    return published_scorer("published", convert(given, PublishedSpec))


def scores(scorer: Scorer, texts: list[str] = TEXTS) -> list[float | None]:
    return [scored.value for scored in scorer.score(texts)]


def expected(folder: Path, form: Form = PUBLISHED) -> list[float]:
    """The scores by plain numpy of unit-length means by transformers alone."""
    rows = tiny_mpnet.mean_vectors(folder, TEXTS).double().numpy()
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    maps = random_maps(WIDTH, form=form)
    return [plain_implicitness(row, maps, form) for row in unit]


@pytest.mark.parametrize(
    "form",
    rest_slow(FORMS, kept=slice(None, None, 5)),
    ids=lambda form: "-".join(map(str, vars_of(form))),
)
def test_every_form_equals_plain_numpy(
    form: Form, stock: Path, tuned: Path, tmp_path: Path
) -> None:
    maps = random_maps(WIDTH, form=form)
    folder = write_released(tmp_path, maps, tuned=tuned)
    scorer = opened(folder, stock, form=structs.asdict(form))

    distances = scorer.distances([(TEXTS[0], TEXTS[1])])

    rows = tiny_mpnet.mean_vectors(tuned, TEXTS).double().numpy()
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert scores(scorer) == pytest.approx(expected(tuned, form), rel=1e-6, abs=1e-6)
    assert distances[0].value == pytest.approx(
        plain_distance(unit[0], unit[1], maps, form), rel=1e-6, abs=1e-6
    )


def vars_of(form: Form) -> tuple[str, ...]:
    return form.direction.value, form.implicitness.value, form.pragmatic.value


@pytest.mark.parametrize(
    "layout",
    rest_slow(
        [
            Released(),
            Released(prefix="module."),
            Released(encoder="encoder.0.model."),
            Released(encoder="sentence_model.0.auto_model."),
            Released(suffix="", is_linear=False),
            Released(suffix=".weight", is_linear=False),
            Released(suffix="", is_linear=True),
            Released(nested="model_state_dict", file="best.pt"),
            Released(nested="state_dict", file="model.ckpt"),
        ],
        kept=slice(None, None, 4),
    ),
    ids=str,
)
def test_names_and_layouts_of_a_state_dict_do_not_matter(
    layout: Released, stock: Path, tuned: Path, tmp_path: Path
) -> None:
    folder = write_released(tmp_path, random_maps(WIDTH), tuned=tuned, layout=layout)
    assert scores(opened(folder, stock)) == pytest.approx(expected(tuned), abs=1e-6)


def test_without_an_encoder_in_it_the_stocked_one_serves(stock: Path, tmp_path: Path) -> None:
    folder = write_released(tmp_path, random_maps(WIDTH))
    assert scores(opened(folder, stock)) == pytest.approx(expected(stock), abs=1e-6)


def test_digests_tell_encoders_and_matrices_apart(stock: Path, tuned: Path, tmp_path: Path) -> None:
    digests = []
    for at, (seed, encoder) in enumerate([(0, None), (1, None), (0, tuned), (0, None)]):
        maps = random_maps(WIDTH, seed=seed)
        folder = write_released(tmp_path / str(at), maps, tuned=encoder)
        digests.append(opened(folder, stock).head.digest)

    assert len(set(digests)) == 3
    assert digests[3] == digests[0]


def test_texts_beyond_the_encoders_tokens_are_flagged(stock: Path, tmp_path: Path) -> None:
    scorer = opened(write_released(tmp_path, random_maps(WIDTH)), stock)
    fits, cut = scorer.score(["a " * (MOST_TOKENS - 2), "a " * (MOST_TOKENS - 1)])

    assert (fits.flag, cut.flag) == (None, Flag.CUT)
    assert cut.value == pytest.approx(fits.value, abs=1e-6)


# --- the YAML corrects what the files do not say ---


def test_the_form_of_the_yaml_wins(stock: Path, tuned: Path, tmp_path: Path) -> None:
    folder = write_released(tmp_path, random_maps(WIDTH), tuned=tuned)
    other = structs.replace(PUBLISHED, direction=Direction.TO_PRAGMATIC)
    scorer = opened(folder, stock, form={"direction": "s2p"})

    assert scorer.head.form == other
    assert scores(scorer) == pytest.approx(expected(tuned, other), abs=1e-6)


def test_matrices_of_other_names_are_found_through_the_yaml(stock: Path, tmp_path: Path) -> None:
    import torch

    folder = write_released(tmp_path, random_maps(WIDTH))
    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    state["bridge.weight"] = state.pop("weight_t.weight")
    torch.save(state, folder / "pytorch_model.bin")

    with pytest.raises(ModelError, match=r"no matrix transfer .*bridge\.weight \[8, 8\].*`keys:`"):
        opened(folder, stock)
    found = opened(folder, stock, keys={"transfer": "bridge.weight"})
    assert scores(found) == pytest.approx(expected(stock), abs=1e-6)


# --- what is refused, and how ---


def add(folder: Path, **entries: Any) -> None:  # noqa: ANN401 - whatever torch saves
    import torch

    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    torch.save(state | entries, folder / "pytorch_model.bin")


def break_bias(folder: Path) -> None:
    import torch

    add(folder, **{"weight_s.bias": torch.ones(8)})


def break_twice(folder: Path) -> None:
    import torch

    add(folder, Ws=torch.ones(8, WIDTH))


def break_shape(folder: Path) -> None:
    import torch

    add(folder, **{"weight_t.weight": torch.ones(4, 4)})


def break_code(folder: Path) -> None:
    import torch

    torch.save({"weights": Released()}, folder / "pytorch_model.bin")


def break_content(folder: Path) -> None:
    add(folder, epoch=3)


def break_file(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")


def break_choice(folder: Path) -> None:
    (folder / "other.pt").write_bytes(b"")


def break_nothing_left(folder: Path) -> None:
    (folder / "pytorch_model.bin").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_bias, r"weight_s\.bias is added to a feature"),
        (break_twice, r"weight_s\.weight and Ws may each be the matrix semantic.*`keys:`"),
        (break_shape, r"\(8, 8\)|\(4, 4\).*`keys:`"),
        (break_code, "not a file of weights alone"),
        (break_content, "epoch is no tensor"),
        (break_file, "not a file of weights alone"),
        (break_choice, r"there are: other\.pt, pytorch_model\.bin; name one in `weights:`"),
        (break_nothing_left, "there are: none"),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_the_fact(
    damage: Any,  # noqa: ANN401 - one of the functions above
    message: str,
    stock: Path,
    tmp_path: Path,
) -> None:
    folder = write_released(tmp_path, random_maps(WIDTH))
    damage(folder)

    with pytest.raises(HarnessError, match=message):
        opened(folder, stock)


def test_an_encoder_of_another_shape_is_refused(stock: Path, tuned: Path, tmp_path: Path) -> None:
    folder = write_released(tmp_path, random_maps(WIDTH), tuned=tuned)
    add(folder, **_renamed(folder))

    with pytest.raises(ModelError, match=r"1 unknown \(weight_q\.weight \[8, 48\]\).*`ignore:`"):
        opened(folder, stock).score(TEXTS)
    assert scores(opened(folder, stock, ignore=["weight_q.weight"])) == pytest.approx(
        expected(tuned), abs=1e-6
    )


def _renamed(folder: Path) -> dict[str, Any]:
    import torch

    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    return {"weight_q.weight": state["weight_s.weight"]}


def test_part_of_an_encoder_is_refused(stock: Path, tuned: Path, tmp_path: Path) -> None:
    import torch

    folder = write_released(tmp_path, random_maps(WIDTH), tuned=tuned)
    state = torch.load(folder / "pytorch_model.bin", weights_only=True)
    del state["text_encoder.0.auto_model.embeddings.word_embeddings.weight"]
    torch.save(state, folder / "pytorch_model.bin")

    with pytest.raises(ModelError, match=r": 1 missing \(.*word_embeddings\.weight\)"):
        opened(folder, stock).score(TEXTS)
