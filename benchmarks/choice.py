"""Choices scored four ways, one process at a time in turn: this program, lm-evaluation-harness's
HF back end, a loop over single choices in plain transformers, and a prefix tree by hand.

The prompts are those released by Hu et al. 2022: each item in five orders of its options, answered
with a digit or with an option's text. The models are random: only their shapes matter. Prints the
medians of the time it takes to score all prompts, without loading, and how far values are apart.
"""

import argparse
import csv
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

PHENOMENA = {
    "CoherenceInference": 2,
    "Deceits": 4,
    "Humour": 5,
    "IndirectSpeech": 4,
    "Irony": 4,
    "Maxims": 4,
    "Metaphor": 5,
}
"""How many options the items of each phenomenon have."""

SHAPES = {"tiny": (None, 256, 704, 4, 8, False), "small": (50257, 768, 2048, 12, 12, True)}
"""Rows of the vocabulary, width, inner width, layers, heads, and whether input is also output."""

Case = tuple[str, list[str]]
Scorer = Callable[[Sequence[Case]], list[float]]


def read_cases(data: Path, answers: str, items: int | None = None) -> list[Case]:
    """Contexts with their choices, the five orders of an item together.

    `answers` is "digits" or "texts"; of all items, `items` are taken, evenly spread.
    """
    found = dict[tuple[str, str], list[Case]]()
    for phenomenon, count in PHENOMENA.items():
        for seed in range(5):
            path = data / "hu2022" / "prompts" / f"{phenomenon}_prompts_seed{seed}_examples0.csv"
            for row in csv.DictReader(path.read_text("utf-8").splitlines(keepends=True)):
                context = row["prompt"].rstrip()
                options = map(str, range(1, count + 1))
                texts = options if answers == "digits" else options_of(context, count)
                case = (context, [f" {text}" for text in texts])
                found.setdefault((phenomenon, row["item_id"]), []).append(case)
    kept = list(found.values())
    step = 1 if items is None else max(len(kept) // items, 1)
    return [case for orders in kept[::step][:items] for case in orders]


def options_of(prompt: str, count: int) -> Iterator[str]:
    """The texts of the numbered lines in the last block of options."""
    block = prompt.rsplit("Options:" if "Options:" in prompt else "Punchlines:", 1)[1]
    block = block.rsplit("Answer:", 1)[0]
    places = [block.index(f"\n{number}) ") for number in range(1, count + 1)]
    for start, end in itertools.pairwise([*places, len(block)]):
        yield block[start:end].split(") ", 1)[1].strip()


def build_model(shape: str, texts: Sequence[str], folder: Path) -> Path:
    """A random Llama in the folder, its tokenizer trained on the texts."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM

    rows, width, inner, layers, heads, is_tied = SHAPES[shape]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4000,
        show_progress=False,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>"}
    settings |= {"bos_token": "<s>", "pad_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=rows or tokenizer.get_vocab_size(),
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        tie_word_embeddings=is_tied,
        initializer_range=0.05,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def by_program(folder: str) -> Scorer:
    """The back end of kind transformers, asked as the pipeline asks it."""
    from harness.core import Request
    from harness.models.local.transformers_lm import TransformersModel
    from harness.parts import Decoding, Message, Mode
    from harness.specs.models import TransformersSpec

    model = TransformersModel("random", TransformersSpec(model=folder), Path(folder))

    def score(cases: Sequence[Case]) -> list[float]:
        requests = [
            Request(
                sample_id=str(number),
                variant="",
                step="",
                model="",
                messages=(Message("user", context),),
                decoding=Decoding(max_tokens=1),
                mode=Mode.CHOOSE,
                choices=tuple(choices),
            )
            for number, (context, choices) in enumerate(cases)
        ]
        found = {response.key: response.choice_scores or () for response in model.answer(requests)}
        return [part.logprob for request in requests for part in found[request.key]]

    return score


def by_lm_eval(folder: str) -> Scorer:
    """lm-evaluation-harness's back end `hf`, called as its evaluator calls it."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    batch = int(os.environ["LM_EVAL_BATCH"])
    model = HFLM(pretrained=folder, dtype="float32", device="cpu", batch_size=batch)

    def score(cases: Sequence[Case]) -> list[float]:
        pairs = [(context, choice) for context, choices in cases for choice in choices]
        asked = [Instance("loglikelihood", {}, pair, 0) for pair in pairs]
        return [total for total, _ in model.loglikelihood(asked, disable_tqdm=True)]

    return score


def by_loop(folder: str) -> Scorer:
    """One choice of one prompt a forward pass."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def score_one(context: str, choice: str) -> float:
        first = len(tokenizer(context).input_ids)
        ids = torch.tensor([tokenizer(context + choice).input_ids])
        told = torch.log_softmax(model(ids[:, :-1]).logits[0, first - 1 :], -1)
        return float(told.gather(1, ids[0, first:, None]).sum())

    def score(cases: Sequence[Case]) -> list[float]:
        with torch.inference_mode():
            return [score_one(context, choice) for context, part in cases for choice in part]

    return score


def by_hand(folder: str) -> Scorer:
    """A Llama in plain torch, all prompts in one prefix tree: the best a script can do."""
    import torch
    from tokenizers import Tokenizer

    from harness.models.local.prefix_tree import ScoredRow, packs, passes, prefix_tree

    tokenizer, llama = Tokenizer.from_file(f"{folder}/tokenizer.json"), HandLlama(folder)

    def score(cases: Sequence[Case]) -> list[float]:
        rows = []
        for context, choices in cases:
            first = len(tokenizer.encode(context).ids)
            rows += [ScoredRow(tuple(tokenizer.encode(context + c).ids), first) for c in choices]
        tree = prefix_tree(rows)
        parts, values = packs(tree, 256), torch.empty(len(tree.reads))
        with torch.inference_mode():
            llama.begin(tree, parts)
            for batch in passes(tree, parts, most_nodes=2048, most_reads=1 << 20):
                states = llama.states(batch)
                for place, part in zip(batch, states, strict=True):
                    pack = parts[place]
                    reads = tree.read_within(pack.start, pack.stop)
                    if reads:
                        pairs = torch.tensor([tree.reads[at] for at in reads])
                        places, tokens = pairs[:, 0] - pack.start, pairs[:, 1]
                        values[reads.start : reads.stop] = llama.told(part, places, tokens)
        return [float(values[list(ids)].double().sum()) for ids in tree.reads_of]

    return score


class HandLlama:
    """A Llama with rotary embeddings and as many key heads as query heads, weights fused."""

    def __init__(self, folder: str) -> None:
        """Read configuration and weights."""
        import torch
        from safetensors.torch import load_file

        config = json.loads(Path(folder, "config.json").read_text("utf-8"))
        weights = load_file(f"{folder}/model.safetensors")
        self.heads, self.width = config["num_attention_heads"], config["hidden_size"]
        self.size, self.eps = self.width // self.heads, config["rms_norm_eps"]
        self.embedding = weights["model.embed_tokens.weight"]
        self.head = weights.get("lm_head.weight", self.embedding)
        self.norm = weights["model.norm.weight"]
        turns = 1e4 ** (-torch.arange(0, self.size, 2) / self.size)
        angles = torch.arange(config["max_position_embeddings"])[:, None] * turns
        self.cosine = torch.cat([angles.cos(), angles.cos()], -1)
        self.sine = torch.cat([-angles.sin(), angles.sin()], -1)
        self.layers = []
        for number in range(config["num_hidden_layers"]):
            own = {
                name.split(".", 3)[3].removesuffix(".weight"): part
                for name, part in weights.items()
                if name.startswith(f"model.layers.{number}.")
            }
            own["qkv"] = torch.cat([own[f"self_attn.{name}_proj"] for name in "qkv"])
            own["gate_up"] = torch.cat([own["mlp.gate_proj"], own["mlp.up_proj"]])
            self.layers.append(own)

    def begin(self, tree: Any, parts: Sequence[Any]) -> None:  # noqa: ANN401 - a prefix tree
        """Take the tree whose nodes are computed."""
        import torch

        self.parts, self.kept = parts, dict[tuple[int, int], Any]()
        self.tokens, self.depths, self.ends = map(
            torch.tensor, (tree.tokens, tree.depths, tree.ends)
        )

    def states(self, batch: Sequence[int]) -> Any:  # noqa: ANN401 - tensors
        """The last states of the nodes of some packs, pack by pack."""
        import torch
        from torch.nn import functional

        packs = [self.parts[place] for place in batch]
        sizes = [pack.size for pack in packs]
        nodes = torch.cat([torch.arange(pack.start, pack.stop) for pack in packs])
        masks = [self._mask(pack) for pack in packs]
        cosine = self.cosine[self.depths[nodes]][:, None]
        sine = self.sine[self.depths[nodes]][:, None]
        x = self.embedding[self.tokens[nodes]]
        for layer, own in enumerate(self.layers):
            mixed = functional.linear(self._normed(x, own["input_layernorm"]), own["qkv"])
            query, key, value = mixed.view(-1, 3, self.heads, self.size).unbind(1)
            query, key = (
                part * cosine + part.roll(self.size // 2, -1) * sine for part in (query, key)
            )
            turned = [part.transpose(0, 1) for part in (query, key, value)]
            split = zip(*(torch.split(part, sizes, 1) for part in turned), strict=True)
            taken = [
                self._taken(place, layer, qkv=qkv, mask=mask)
                for place, qkv, mask in zip(batch, split, masks, strict=True)
            ]
            x = x + functional.linear(torch.cat(taken), own["self_attn.o_proj"])
            inner = functional.linear(
                self._normed(x, own["post_attention_layernorm"]), own["gate_up"]
            )
            gate, up = inner.chunk(2, -1)
            x = x + functional.linear(functional.silu(gate) * up, own["mlp.down_proj"])
        return torch.split(self._normed(x, self.norm), sizes)

    def _taken(self, place: int, layer: int, *, qkv: Any, mask: Any) -> Any:  # noqa: ANN401 - tensors
        """What the nodes of a pack take from those above and from one another."""
        import torch
        from torch.nn import functional

        query, key, value = qkv
        pack = self.parts[place]
        if pack.is_above:
            self.kept[place, layer] = key, value
        above = [self.kept[each, layer] for each in pack.above]
        keys = torch.cat([*(pair[0] for pair in above), key], 1)[None]
        values = torch.cat([*(pair[1] for pair in above), value], 1)[None]
        found = functional.scaled_dot_product_attention(query[None], keys, values, attn_mask=mask)
        return found[0].transpose(0, 1).reshape(pack.size, self.width)

    def _mask(self, pack: Any) -> Any:  # noqa: ANN401 - tensors
        import torch

        spans = [*(self.parts[each] for each in pack.above), pack]
        nodes = torch.cat([torch.arange(span.start, span.stop) for span in spans])
        own = torch.arange(pack.start, pack.stop)[:, None]
        seen = (nodes <= own) & (own < self.ends[nodes])
        return torch.zeros(seen.shape).masked_fill_(~seen, -torch.inf)

    def _normed(self, x: Any, weight: Any) -> Any:  # noqa: ANN401 - tensors
        from torch.nn import functional

        return functional.rms_norm(x, (self.width,), weight, self.eps)

    def told(self, states: Any, places: Any, tokens: Any) -> Any:  # noqa: ANN401 - tensors
        """Log-probabilities of tokens behind the states at some places."""
        import torch

        distinct, line = torch.unique(places, return_inverse=True)
        logits = torch.nn.functional.linear(states[distinct], self.head)
        return logits[line, tokens] - logits.logsumexp(-1)[line]


@dataclass(frozen=True, slots=True)
class Way:
    """A way of scoring, and its line in the table."""

    title: str
    load: Callable[[str], Scorer]


WAYS = {
    "program": Way("(a) this program", by_program),
    "lm_eval": Way("(b) lm-evaluation-harness, hf", by_lm_eval),
    "loop": Way("(c) one choice a forward pass", by_loop),
    "hand": Way("(d) prefix tree by hand", by_hand),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds on the clock and of CPU that scoring took, and the log-probabilities."""

    clock: float
    spent: float
    values: list[float]


def measure(way: str, folder: Path, cases: Path) -> Measured:
    """One process that loads the model, scores one prompt, and then all under the clock."""
    command = [
        sys.executable,
        __file__,
        "--way",
        way,
        "--model",
        str(folder),
        "--cases",
        str(cases),
    ]
    said = subprocess.run(command, capture_output=True, text=True)
    if said.returncode:
        sys.exit(f"{WAYS[way].title} failed:\n{said.stderr[-3000:]}")
    return Measured(**json.loads(said.stdout.splitlines()[-1]))


def be(way: str, folder: str, cases: Sequence[Case]) -> Measured:
    """Score as one of the ways."""
    score = WAYS[way].load(folder)
    score(cases[:1])
    clock, spent = time.perf_counter(), time.process_time()
    values = score(cases)
    return Measured(time.perf_counter() - clock, time.process_time() - spent, values)


def compare(shape: str, answers: str, *, folder: Path, cases: Sequence[Case], options: Any) -> None:  # noqa: ANN401 - of argparse
    """All ways in turn, so many rounds; one line a way."""
    ways = options.ways.split(",")
    path = folder / "cases.json"
    path.write_text(json.dumps(cases), "utf-8")
    rounds: list[dict[str, Measured]] = []
    for _ in range(options.rounds):
        rounds.append({way: measure(way, folder, path) for way in ways})
    choices = sum(len(part) for _, part in cases)
    print(f"{shape} Llama, {answers}: {len(cases)} prompts, {choices} choices, medians of ", end="")
    print(f"{options.rounds} rounds")
    print(f"{'':32}{'seconds':>9}{'prompts/s':>11}{'x (a)':>8}{'CPU s':>9}{'apart':>10}")
    for way in ways:
        seen = [each[way] for each in rounds]
        clock = statistics.median(part.clock for part in seen)
        ratio = statistics.median(each[way].clock / each[ways[0]].clock for each in rounds)
        spent = statistics.median(part.spent for part in seen)
        pairs = zip(seen[0].values, rounds[0][ways[0]].values, strict=True)
        apart = max(abs(one - other) for one, other in pairs)
        print(
            f"{WAYS[way].title:32}{clock:9.2f}{len(cases) / clock:11.2f}{ratio:8.2f}{spent:9.2f}"
            f"{apart:10.1e}",
            flush=True,
        )


def main() -> None:
    """Compare the ways, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("HARNESS_DATA"))
    parser.add_argument("--shapes", default="tiny,small", help="of the models")
    parser.add_argument("--answers", default="digits,texts")
    parser.add_argument("--ways", default=",".join(WAYS), help="the first is what others are to")
    parser.add_argument("--items", type=int, help="so many items, each five prompts; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", default="16", help="rows in a batch of lm-evaluation-harness")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    parser.add_argument("--cases", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        found = be(options.way, options.model, json.loads(options.cases.read_text("utf-8")))
        print(json.dumps({"clock": found.clock, "spent": found.spent, "values": found.values}))
        return
    if options.data is None:
        parser.error("--data names the folder that holds hu2022/prompts")
    os.environ["LM_EVAL_BATCH"] = options.batch
    texts = [context for context, _ in read_cases(options.data, "digits")]
    for shape in options.shapes.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = build_model(shape, texts, Path(name))
            for answers in options.answers.split(","):
                cases = read_cases(options.data, answers, options.items)
                compare(shape, answers, folder=folder, cases=cases, options=options)


if __name__ == "__main__":
    main()
