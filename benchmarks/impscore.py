"""Implicitness beside what it cannot do without: encoding each sentence once.

`scoring`: the scores of a file's texts beside each different text encoded once by hand (length
order, batches of so many tokens, nothing else) and beside sentence-transformers' own `encode` of
all texts. Matrices are random: only their shapes matter. Ways take turns in one process, the
encoder is loaded before the clock runs; seconds on the clock and of CPU are printed.

`training`: 30 epochs on 20,000 pairs whose sentences are encoded beforehand, as this program
trains, beside encoding all sentences again in each epoch, as the released code does. One such
epoch is measured, on a tenth of the sentences, and counted for all; that is said in the output.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

BATCH_TOKENS = 4096
FEATURES = 64

Way = Callable[[Sequence[str]], np.ndarray]


def read_texts(data: Path | None) -> list[str]:
    """The texts of the released development split, or those of our own samples."""
    if data is None:
        import json

        lines = [
            line
            for path in sorted((ROOT / "tasks/samples").glob("*.jsonl"))
            for line in path.read_text("utf-8").splitlines()
        ]
        return [text for line in lines for text in json.loads(line)["fields"].values()]
    from pyarrow import parquet

    table = parquet.read_table(data / "ishate" / "ishate_dev.parquet.gzip", columns=["text"])
    return table.column("text").to_pylist()


def random_head(width: int) -> "Head":  # noqa: F821  # imported where it is used
    """A head of the published shape and form, with random matrices."""
    from harness.implicitness.formula import Maps
    from harness.implicitness.scorer import Head
    from harness.models.encoders.encoders import MiniLM
    from harness.specs.models import MiniLMSpec

    normal = np.random.default_rng(0).standard_normal
    shapes = ((width, FEATURES), (width, FEATURES), (FEATURES, FEATURES))
    maps = Maps(*(normal(shape).astype(np.float32) for shape in shapes))
    return Head(
        name="random", members=(maps,), encoder=MiniLMSpec(), encoder_digest=MiniLM().digest
    )


def by_program() -> Way:
    """The program: Scorer.score."""
    from harness.implicitness.scorer import Scorer
    from harness.models.encoders.encoders import MiniLM

    encoder = MiniLM()
    encoder.encode(["loaded"])
    scorer = Scorer("random", random_head(384), encoder)
    return lambda texts: np.array([one.value or np.nan for one in scorer.score(texts)])


def by_hand() -> Way:
    """Each different text once, in the order of their tokens, by plain transformers."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from harness.models.encoders.encoders import PACKAGE, package_folder

    folder = package_folder(PACKAGE)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    head = random_head(model.config.hidden_size)

    def score(texts: Sequence[str]) -> np.ndarray:
        different = sorted(set(texts))
        ids = tokenizer(different, truncation=True, max_length=256)["input_ids"]
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        rows = np.empty((len(ids), model.config.hidden_size), np.float32)
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and len(ids[order[end]]) * (end - start + 1) <= BATCH_TOKENS:
                end += 1
            batch = order[start:end]
            padded = torch.nn.utils.rnn.pad_sequence(
                [torch.tensor(ids[place]) for place in batch], batch_first=True
            )
            mask = (
                torch.arange(padded.shape[1]) < torch.tensor([len(ids[p]) for p in batch])[:, None]
            )
            with torch.inference_mode():
                states = model(input_ids=padded, attention_mask=mask.long())[0]
                sums = (states * mask[:, :, None]).sum(1)
                rows[batch] = torch.nn.functional.normalize(sums, dim=1).numpy()
            start = end
        scores = dict(zip(different, head.implicitness(rows), strict=True))
        return np.array([scores[text] for text in texts])

    return score


def by_sentence_transformers() -> Way:
    """All texts by sentence-transformers' `encode`, as the metric's package does."""
    from sentence_transformers import SentenceTransformer

    from harness.models.encoders.encoders import PACKAGE, package_folder

    model = SentenceTransformer(str(package_folder(PACKAGE)), device="cpu")
    head = random_head(384)
    return lambda texts: head.implicitness(model.encode(list(texts), show_progress_bar=False))


WAYS: dict[str, Callable[[], Way]] = {
    "each text once, by hand": by_hand,
    "sentence-transformers": by_sentence_transformers,
    "this program": by_program,
}


def scoring(data: Path | None, rounds: int) -> None:
    """The ways in turn; medians, and the median of each round's ratio to the way by hand."""
    texts = read_texts(data)
    ways = {name: build() for name, build in WAYS.items()}
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    scores: dict[str, np.ndarray] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            clock, spent = time.perf_counter(), time.process_time()
            scores[name] = way(texts)
            seen[name].append((time.perf_counter() - clock, time.process_time() - spent))
    print(f"scoring: {len(texts)} texts, {len(set(texts))} different, medians of {rounds} turns")
    first = next(iter(ways))
    for name, times in seen.items():
        clock, spent = (statistics.median(column) for column in zip(*times, strict=True))
        pairs = zip(times, seen[first], strict=True)
        ratios = [(a[0] / b[0], a[1] / b[1]) for a, b in pairs]
        by_clock, by_cpu = (statistics.median(column) for column in zip(*ratios, strict=True))
        apart = np.nanmax(np.abs(scores[name] - scores[first]))
        print(
            f"  {name:26} {clock:8.2f} s  x{by_clock:.2f}   CPU {spent:8.2f} s  x{by_cpu:.2f}   "
            f"apart {apart:.1e}"
        )


def invented_pairs(count: int) -> "list[TrainingPair]":  # noqa: F821  # imported where it is used
    """Pairs of random words, none of which are alike; as long as those that ship, on average."""
    from harness.implicitness.pairs import TrainingPair

    draw = np.random.default_rng(0)
    known = sorted({word for text in read_texts(None) for word in text.split()})
    lengths = draw.integers(6, 30, size=(count, 2))
    sides = [[" ".join(draw.choice(known, size=n)) for n in row] for row in lengths]
    return [
        TrainingPair(implicit=implicit, explicit=explicit, source=str(at % 100))
        for at, (implicit, explicit) in enumerate(sides)
    ]


def training(data: Path | None, rounds: int) -> None:
    """Training on cached rows beside encoding anew in each epoch; the median of the rounds."""
    from harness.implicitness.losses import Embedded, examples, train
    from harness.implicitness.pairs import with_negatives
    from harness.models.encoders.encoders import MiniLM
    from harness.specs.implicitness import SettingsSpec

    settings, encoder = SettingsSpec(), MiniLM()
    pairs = with_negatives(invented_pairs(20_000), 0)
    texts = list(dict.fromkeys(text for pair in pairs for text in pair.sentences))
    rows = np.random.default_rng(0).standard_normal((len(texts), 384)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    known = examples(pairs, Embedded(rows, {text: at for at, text in enumerate(texts)}))
    encoder.encode(texts[:64])
    seconds, spent = [], []
    for _ in range(rounds):
        clock, used = time.perf_counter(), time.process_time()
        train(known, settings, seed=0)
        seconds.append(time.perf_counter() - clock)
        spent.append(time.process_time() - used)
    some = texts[::10]
    clock = time.perf_counter()
    encoder.encode(some)
    epoch = (time.perf_counter() - clock) * len(texts) / len(some)
    cached = statistics.median(seconds)
    again = cached + settings.epochs * epoch
    print(f"training: {len(pairs)} pairs, {len(texts)} sentences, {settings.epochs} epochs")
    print(
        f"  encoded once              {epoch:8.2f} s (from a tenth), and "
        f"{cached:.2f} s of training, CPU {statistics.median(spent):.2f} s"
    )
    print(f"  encoded in each epoch     {again:8.2f} s (from one tenth of one epoch)")
    print(f"  ratio, training alone     {again / cached:8.1f}")
    print(f"  ratio, all in all         {again / (cached + epoch):8.1f}")


PARTS: dict[str, Callable[[Path | None, int], None]] = {"scoring": scoring, "training": training}


def main() -> None:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder that holds ishate/ (default: samples)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", choices=[*PARTS, "all"], default="all")
    options = parser.parse_args()
    for name, part in PARTS.items():
        if options.part in (name, "all"):
            part(options.data, options.rounds)


if __name__ == "__main__":
    main()
