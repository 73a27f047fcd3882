from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from support.each import rest_slow

from harness.errors import ModelError
from harness.models.local.choice_scoring import ChoiceScorer, ScoringMode
from harness.models.local.prefix_tree import ScoredRow, prefix_tree

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

SHAPE = {
    "vocab_size": 90,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ALTERNATING = ["sliding_attention", "full_attention", "sliding_attention"]
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 4,
    "long_factor": [9.0] * 4,
}
FOLLOW: dict[str, dict[str, Any]] = {
    "llama": {},
    "gpt2": {},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32, "init_std": 0.3},
    "gpt_neox": {},
    "mistral": {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 5},
    "qwen3": {"num_key_value_heads": 1, "head_dim": 16},
    "gemma3_text": {"head_dim": 8, "sliding_window": 4, "layer_types": ALTERNATING},
    "cohere2": {"num_key_value_heads": 2, "sliding_window": 6, "layer_types": ALTERNATING},
    "llama4_text": {
        "head_dim": 8,
        "attention_chunk_size": 7,
        "intermediate_size_mlp": 48,
        "num_key_value_heads": 2,
        "num_local_experts": 2,
        "layer_types": ["chunked_attention", "full_attention", "chunked_attention"],
    },
    "mixtral": {"num_local_experts": 3, "num_key_value_heads": 2},
    "phi3": {"rope_parameters": LONGROPE, "original_max_position_embeddings": 16},
}
"""Kinds of models that can follow a prefix tree, with windows shorter than the rows."""

FALL_BACK: dict[str, dict[str, Any]] = {
    "bloom": {"n_layer": 3, "n_head": 4},
    "mpt": {"d_model": 32, "n_layers": 3, "n_heads": 4},
    "gemma2": {"head_dim": 8, "num_key_value_heads": 2, "sliding_window": 5},
    "gpt_oss": {
        "head_dim": 8,
        "num_key_value_heads": 2,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "layer_types": ALTERNATING,
    },
    "lfm2": {"num_key_value_heads": 2, "layer_types": ["conv", "full_attention", "conv"]},
    "mamba": {"state_size": 4},
    "openai-gpt": {"n_positions": 64},
}
"""Kinds that cannot: ALiBi, soft-capped, with sinks, part convolution, recurrent, older code."""

REASONS = dict.fromkeys(FALL_BACK, "its attention cannot be exchanged") | {
    "gemma2": "its attention has softcap",
    "gpt_oss": "its attention has s_aux",
    "lfm2": "1 of its 3 layers use the exchanged attention",
}


def build(kind: str, **settings: object) -> PreTrainedModel:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **SHAPE | settings)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]  # unannotated
    model.train(False)
    return model


def rows_of(items: int, seed: int = 1) -> list[ScoredRow]:
    """Items with a context each, laid out in three ways, each with three choices."""
    random, rows = Random(seed), []
    for _ in range(items):
        story = draw(random, 9)
        for context in (story + draw(random, 4 + 3 * order) for order in range(3)):
            for length in (1, 1, 4):
                rows.append(ScoredRow(context + draw(random, length), len(context)))
    return rows


def draw(random: Random, count: int) -> tuple[int, ...]:
    return tuple(random.choices(range(3, 90), k=count))


ROWS = rows_of(4)


def by_itself(model: PreTrainedModel, row: ScoredRow) -> float:
    """The definition: one row in one plain forward pass, all its logits, in double precision."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([row.tokens[:-1]])).logits[0].double()
    told = torch.log_softmax(logits, -1)
    places = range(row.first, len(row.tokens))
    return sum(told[place - 1, row.tokens[place]].item() for place in places)


def apart(found: Sequence[float | None], expected: Sequence[float]) -> float:
    import torch

    pairs = zip(found, expected, strict=True)
    return max(abs(one - other) if one is not None else torch.inf for one, other in pairs)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # idle threads of so small a model only wait for each other
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def llama() -> PreTrainedModel:
    return build("llama")


@pytest.fixture(scope="module")
def expected(llama: PreTrainedModel) -> list[float]:
    return [by_itself(llama, row) for row in ROWS]


@pytest.mark.parametrize("kind", rest_slow(FOLLOW, kept=slice(None, None, 3)))
def test_a_prefix_tree_gives_each_row_what_it_gives_by_itself(kind: str) -> None:
    model = build(kind, **FOLLOW[kind])
    chooser, own = ChoiceScorer(model, batch_tokens=60), model.config._attn_implementation
    found = chooser.sums(ROWS)

    assert (chooser.mode, model.config._attn_implementation) == (ScoringMode.TREE, own)
    assert apart(found, [by_itself(model, row) for row in ROWS]) < 5e-5


@pytest.mark.parametrize("kind", rest_slow(FALL_BACK, kept=2))
def test_a_model_that_cannot_follow_a_tree_is_scored_right_all_the_same(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = build(kind, **FALL_BACK[kind])
    chooser = ChoiceScorer(model, batch_tokens=60)

    found = chooser.sums(ROWS) + chooser.sums(ROWS[:3])

    assert chooser.mode is ScoringMode.PADDED
    assert apart(found, [by_itself(model, row) for row in ROWS + ROWS[:3]]) < 5e-5
    told = [
        record.getMessage()
        for record in caplog.records
        if record.name == "harness.models.local.choice_scoring"
    ]
    assert told == [f"choices are scored in padded batches by this {kind} model: {REASONS[kind]}"]


@pytest.mark.parametrize("way", [ScoringMode.TREE, ScoringMode.PADDED])
@pytest.mark.parametrize("batch_tokens", [1, 50, 10**6])
@pytest.mark.parametrize("seed", [1, 2])
def test_order_and_batch_size_change_nothing_but_rounding(
    llama: PreTrainedModel, expected: list[float], way: ScoringMode, batch_tokens: int, seed: int
) -> None:
    chooser = ChoiceScorer(llama, batch_tokens=batch_tokens)
    chooser.mode = way
    order = Random(seed).sample(range(len(ROWS)), len(ROWS))
    found = chooser.sums([ROWS[place] for place in order])

    assert apart(found, [expected[place] for place in order]) < 1e-5


@pytest.mark.parametrize("batch_tokens", [40, 10**6])
def test_each_node_is_computed_once_and_only_what_is_read_is_projected(batch_tokens: int) -> None:

    model, seen = build("llama"), dict[str, int]()

    def count(name: str) -> Callable[..., None]:
        def hook(_: object, given: tuple[torch.Tensor], __: object) -> None:
            seen[name] = seen.get(name, 0) + given[0].shape[1]
            seen["passes"] = seen.get("passes", 0) + (name == "projected")

        return hook

    chooser = ChoiceScorer(model, batch_tokens=batch_tokens)
    assert chooser.mode is ScoringMode.TREE
    model.model.embed_tokens.register_forward_hook(count("computed"))
    model.lm_head.register_forward_hook(count("projected"))
    chooser.sums(ROWS)
    tree = prefix_tree(ROWS)

    assert seen["computed"] == len(tree.tokens) < sum(row.fed for row in ROWS) / 3
    # a pass that reads nothing projects one place
    assert 0 <= seen["projected"] - len({node for node, _ in tree.reads}) <= seen["passes"]


def cramped(room: int) -> PreTrainedModel:
    """The model, without memory for more than some tokens at a time."""
    import torch

    def check(_: object, __: object, given: dict[str, Any]) -> None:
        if given["input_ids"].numel() > room:
            raise torch.OutOfMemoryError(f"no room for {given['input_ids'].shape}")

    return hooked(check)


def hooked(hook: Callable[..., object]) -> PreTrainedModel:
    model = build("llama")
    model.register_forward_pre_hook(hook, with_kwargs=True)
    return model


@pytest.mark.parametrize("way", ScoringMode)
def test_a_row_too_long_for_memory_is_missing_and_the_others_are_not(
    expected: list[float], way: ScoringMode
) -> None:
    chooser = ChoiceScorer(cramped(18), batch_tokens=10**6)
    chooser.mode = way

    found = chooser.sums(ROWS)

    fits = [row.fed <= 18 for row in ROWS]
    assert [total is not None for total in found] == fits
    assert {True, False} == set(fits)
    assert (
        apart(*zip(*[(f, e) for f, e in zip(found, expected, strict=True) if f], strict=True))
        < 1e-5
    )


def test_a_tree_that_is_refused_for_long_rows_is_left_for_these_alone(
    expected: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    def want_more(_: object, args: object, given: dict[str, Any]) -> Any:  # noqa: ANN401 - a pair
        wanted = {"indices": given["input_ids"]} if given["input_ids"].shape[1] > 12 else {}
        return args, given | wanted

    chooser = ChoiceScorer(hooked(want_more), batch_tokens=10**6)
    fresh = ChoiceScorer(hooked(want_more), batch_tokens=10**6)
    short = [ScoredRow(tuple(range(1, 9)), 5), ScoredRow((1, 2, 3, 9), 2)]

    assert apart(chooser.sums(ROWS), expected) < 1e-5
    assert chooser.sums(short) == fresh.sums(short)
    assert chooser.mode is fresh.mode is ScoringMode.TREE
    assert "its attention has indices" in caplog.text


def test_a_model_that_looks_ahead_is_refused() -> None:
    chooser = ChoiceScorer(build("bert", initializer_range=1.0), batch_tokens=100)
    with pytest.raises(ModelError, match="this bert model is not causal"):
        chooser.sums(ROWS)


@pytest.mark.parametrize(("dtype", "most"), [("bfloat16", 0.5), ("float16", 0.05)])
def test_half_types_follow_the_tree_within_their_rounding(dtype: str, most: float) -> None:
    import torch

    model = build("llama").type(getattr(torch, dtype))
    chooser = ChoiceScorer(model, batch_tokens=100)

    assert apart(chooser.sums(ROWS), [by_itself(model, row) for row in ROWS]) < most
    assert chooser.mode is ScoringMode.TREE
