"""Log-probabilities of choices, whole processes in turn: this program's `run`, the same through
vLLM, lm-evaluation-harness, and a prefix tree by hand.

The prompts are those released by Hu et al. 2022: each item in five orders of its options, answered
with a digit or with an option's text. The model is random: only its shape matters.
"""

import csv
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.turns import Command, Seen, Way, measure

ROOT = Path(__file__).parent.parent
HERE = Path(__file__).parent
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
ANSWERS = ("digits", "texts")
SHAPES = {"tiny": (None, 256, 704, 4, 8, False), "small": (50257, 768, 2048, 12, 12, True)}
"""Rows of the vocabulary, width, inner width, layers, heads, and whether input is also output."""
BATCHES = (1, 4, 16)
"""Rows in a batch of lm-evaluation-harness that are tried; the fastest is measured."""
TRIED = 20
"""The cases that batch sizes are tried on."""

Case = tuple[str, list[str]]

TASK = """
about: Choices between two or more texts.
data: {source: bench, reader: samples_jsonl, files: [none.jsonl], sample: samples/bench.jsonl}
mode: choose
decodings: [{temperature: 0, max_tokens: 1}]
default_variants: [base]
variants:
  base:
    about: as it stands
    choice: {answers: text}
    steps: [{name: answer, template: bench/ask}]
judges: [gold]
controls:
  oracle: {answer: [gold]}
"""
"""The task here and in `scale`."""
MODEL = """
about: A random Llama.
kind: KIND
model: FOLDER
dtype: float32
"""
LM_EVAL = """
task: bench
dataset_path: json
dataset_kwargs: {data_files: {test: CASES}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{context}}"
doc_to_choice: "{{choices}}"
doc_to_target: 0
target_delimiter: ""
num_fewshot: 0
metric_list: [{metric: acc}]
"""


@dataclass(frozen=True, slots=True)
class Job:
    """What is scored with which model, by which interpreters.

    `peers` and `vllm` are the interpreters of other environments; None where there are none.
    """

    model: Path
    cases: tuple[Case, ...]
    python: str = sys.executable
    peers: Path | None = None
    vllm: Path | None = None
    batch: int = BATCHES[0]

    @property
    def choices(self) -> int:
        """The number of choices."""
        return sum(len(part) for _, part in self.cases)


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


def build_model(folder: Path, texts: Sequence[str], shape: str = "small") -> Path:
    """A random Llama of 124 million parameters (tiny: 5), its tokenizer trained on the texts."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM

    vocabulary, width, inner, layers, heads, is_tied = SHAPES[shape]
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
        vocab_size=vocabulary or tokenizer.get_vocab_size(),
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


def by_program(job: Job, folder: Path, kind: str = "transformers") -> Command:
    """This program, from its data to its table of scores."""
    samples = [
        {
            "id": f"{number:05}",
            "group": "all",
            "fields": {"words": context},
            "choices": [choice.removeprefix(" ") for choice in choices],
            "gold": choices[0].removeprefix(" "),
            "references": {},
        }
        for number, (context, choices) in enumerate(job.cases)
    ]
    texts = {
        "tasks/bench.yaml": TASK,
        "tasks/samples/bench.jsonl": "\n".join(map(json.dumps, samples)),
        "prompts/bench/ask.user.j2": "{{ words }}",
        "configs/models/random.yaml": MODEL.replace("KIND", kind).replace("FOLDER", str(job.model)),
    }
    for name, text in texts.items():
        path = folder / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    python = str(job.vllm) if kind == "vllm" else job.python
    words = [python, "-m", "harness", "run", "--task", "bench", "--model", "random"]
    words += ["--home", str(folder / "home"), "--results", str(folder / "results")]
    environment = {"PYTHONPATH": str(ROOT), "VLLM_CPU_KVCACHE_SPACE": "1"}
    return Command(words, folder, environment, read=lambda: stored(folder / "results"))


def stored(results: Path) -> list[float]:
    """The log-probabilities that a run has stored, by sample."""
    [path] = results.glob("runs/*/*/*/answers.parquet")
    rows = map(json.loads, path.read_text("utf-8").splitlines())
    found = {row["sample"]["id"]: row["steps"][-1]["choice_scores"] for row in rows}
    return [score["logprob"] for _, scores in sorted(found.items()) for score in scores]


def by_lm_eval(job: Job, folder: Path) -> Command:
    """lm-evaluation-harness's back end `hf`, from its data to its table of scores."""
    rows = [{"context": context, "choices": choices} for context, choices in job.cases]
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    task = LM_EVAL.replace("CASES", str(folder / "cases.jsonl"))
    (folder / "bench.yaml").write_text(task, "utf-8")
    words = [
        *(str(job.peers), "-m", "lm_eval", "run", "--tasks", "bench", "--model", "hf"),
        *("--model_args", f"pretrained={job.model},dtype=float32", "--device", "cpu"),
        *("--include_path", str(folder), "--batch_size", str(job.batch)),
        *("--output_path", str(folder / "logs"), "--log_samples"),
    ]
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache")}
    return Command(words, folder, environment, read=lambda: logged(folder / "logs"))


def logged(folder: Path) -> list[float]:
    """The log-probabilities in the log of lm-evaluation-harness, by its own number of a case."""
    [path] = folder.glob("**/samples_*.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows.sort(key=lambda row: int(row["doc_id"]))
    return [float(reply[0][0]) for row in rows for reply in row["resps"]]


def by_script(job: Job, folder: Path, script: str) -> Command:
    """A script of benchmarks/by_hand/ that imports nothing of this program."""
    (folder / "cases.json").write_text(json.dumps(job.cases), "utf-8")
    out = folder / "out.json"
    words = [job.python, str(HERE / "by_hand" / script), str(job.model)]
    words += [str(folder / "cases.json"), str(out)]
    return Command(words, folder, read=lambda: json.loads(out.read_text("utf-8")))


def ways(job: Job) -> list[Way]:
    """The ways that can be measured here, this program first."""
    found = [Way("program", "this program", lambda folder: by_program(job, folder))]
    if job.peers is not None:
        title = f"lm-evaluation-harness, `hf`, batches of {job.batch}"
        found.append(Way("lm_eval", title, lambda folder: by_lm_eval(job, folder)))
    if job.vllm is not None:
        title = "this program, kind `vllm`"
        found.append(Way("vllm", title, lambda folder: by_program(job, folder, "vllm")))
    found.append(Way("hand", "by hand", lambda folder: by_script(job, folder, "choices.py")))
    return found


def fair_batch(job: Job, folder: Path) -> int:
    """The batch size with which lm-evaluation-harness is fastest on some of the cases."""
    few = replace(job, cases=job.cases[:: max(len(job.cases) // TRIED, 1)])
    tried: Mapping[int, Seen] = {}
    for batch in BATCHES:
        own = folder / f"batch{batch}"
        own.mkdir()
        tried = {**tried, batch: measure(by_lm_eval(replace(few, batch=batch), own))}
    return min(tried, key=lambda batch: tried[batch].wall_s)


def released(data: Path | None) -> Path | None:
    """The folder of released data that holds the prompts; None where they are not at hand."""
    folder = data or Path(os.environ.get("HARNESS_DATA", "none"))
    return folder if (folder / "hu2022" / "prompts").is_dir() else None


def model_of(folder: Path, data: Path) -> Path:
    """The random model in a folder, built by a process of its own.

    A process that is started counts what its parent held before as its own: this one stays small.
    """
    words = [sys.executable, "-m", "benchmarks.choice", str(folder), str(data)]
    subprocess.run(words, check=True, capture_output=True, cwd=ROOT)
    return folder


if __name__ == "__main__":
    FOLDER, DATA = map(Path, sys.argv[1:])
    FOLDER.mkdir(parents=True, exist_ok=True)
    build_model(FOLDER, [context for context, _ in read_cases(DATA, "digits")])
