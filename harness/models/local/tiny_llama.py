"""Build the tiny random Llama: a checkpoint folder any back end can load, without a network.

Its answers mean nothing. The bytes are equal on every machine: no library's initialiser, trainer
or version string takes part.
"""

import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from string import ascii_letters
from typing import Any

from harness.lazy import Tensor, torch

RECIPE = "tiny-llama-1"  # the folder's name; counts up whenever the bytes change

SPECIALS = ("<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>")
BOS, EOS = 0, 1
HIDDEN, INNER, LAYERS, HEAD, POSITIONS = 64, 128, 2, 32, 4096

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "<|{{ message['role'] }}|>{{ message['content'] }}</s>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

CONFIG: dict[str, Any] = {
    **{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu"},
    **{"max_position_embeddings": POSITIONS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0},
    **{"tie_word_embeddings": False, "dtype": "float32"},
}
TOKENIZER: dict[str, Any] = {
    **{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": POSITIONS},
    **{"bos_token": SPECIALS[BOS], "eos_token": SPECIALS[EOS], "pad_token": SPECIALS[EOS]},
    **{"clean_up_tokenization_spaces": False, "chat_template": CHAT_TEMPLATE},
}
WORDS = (
    "the and of to in is it you that he she we they was for on are with as his her not this have "
    "from or one had by but what all were when your can said there use an each which do how if "
    "will up other about out many then them these so some would make like him into time has look "
    "two more go see no way could my than first been call who its now find long down day did get "
    "come made may part"
)
SYLLABLES = (
    "th he in er an re on at en nd ti es or te ed is it al ar st to nt ng se ha as ou io le ve co "
    "me de hi ri ro ic ne ea ra ce li ch ll be ma si om ur ing ent ion ter ver per est ers ate "
    "ight ain all ess ant ous ment ness able ful ly ty"
)


def build_tiny_llama(cache: Path) -> Path:
    """Return the folder of the tiny random Llama under `cache`, built on first use."""
    folder = cache / RECIPE
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{RECIPE}-", dir=cache))
    try:
        _write(unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another process was first
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _write(folder: Path) -> None:
    from safetensors.torch import save
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary, merges = _vocabulary()
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": EOS}
    shape = {"vocab_size": len(vocabulary), "hidden_size": HIDDEN, "intermediate_size": INNER}
    shape |= {"num_hidden_layers": LAYERS, "num_attention_heads": HIDDEN // HEAD}
    shape |= {"num_key_value_heads": HIDDEN // HEAD, "head_dim": HEAD}
    files = {
        "config.json": CONFIG | shape | ids,
        "generation_config.json": ids,
        "tokenizer_config.json": TOKENIZER,
    }
    for name, content in files.items():
        text = json.dumps(content, indent=2, sort_keys=True) + "\n"
        (folder / name).write_text(text, "utf-8")
    weights = save(dict(_weights(len(vocabulary))), metadata={"format": "pt"})
    (folder / "model.safetensors").write_bytes(weights)


def _vocabulary() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Markers, the 256 bytes, then every prefix of a word or syllable, with the merges."""
    from tokenizers.pre_tokenizers import ByteLevel

    names = [*SPECIALS, *sorted(ByteLevel.alphabet())]
    vocabulary = {name: index for index, name in enumerate(names)}
    merges = []
    starts = [*ascii_letters, *WORDS.split()]
    for piece in [f"Ġ{start}" for start in starts] + SYLLABLES.split():
        for end in range(1, len(piece)):
            if piece[: end + 1] not in vocabulary:
                vocabulary[piece[: end + 1]] = len(vocabulary)
                merges.append((piece[:end], piece[end]))
    return vocabulary, merges


def _weights(vocabulary_size: int) -> Iterator[tuple[str, Tensor]]:
    """Uniform noise of unit gain, ones for the norms."""
    # `torch.rand` rounds nothing, so it is equal on every processor, unlike a normal draw.
    generator = torch.Generator().manual_seed(2)

    def noise(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator) * 2 - 1

    def scaled(*shape: int) -> Tensor:
        return noise(*shape) * math.sqrt(3 / shape[1])

    yield "model.embed_tokens.weight", scaled(vocabulary_size, HIDDEN)
    for index in range(LAYERS):
        layer = f"model.layers.{index}"
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield f"{layer}.self_attn.{name}.weight", scaled(HIDDEN, HIDDEN)
        yield f"{layer}.mlp.gate_proj.weight", scaled(INNER, HIDDEN)
        yield f"{layer}.mlp.up_proj.weight", scaled(INNER, HIDDEN)
        yield f"{layer}.mlp.down_proj.weight", scaled(HIDDEN, INNER)
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}.{name}.weight", torch.ones(HIDDEN)
    yield "model.norm.weight", torch.ones(HIDDEN)
    # Output rows favour words and syllables, end at times, and avoid other markers. Single bytes
    # get a small share of the spread of logits: most of them are no text alone.
    rows = noise(vocabulary_size, HIDDEN) * 0.6
    rows[len(SPECIALS) : len(SPECIALS) + 256] *= 0.25
    rows[EOS] *= 1.6
    rows[[at for at in range(len(SPECIALS)) if at != EOS]] = 0.0
    yield "lm_head.weight", rows
