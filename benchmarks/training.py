"""Training of a scorer of implicitness on sentences encoded once, against encoding in each epoch.

30 epochs on 20,000 pairs, as this program trains, against encoding all sentences again in each
epoch, as the released code does. One such epoch is measured, on a tenth of the sentences, and
counted for all; that is said in the output. The loop alone is timed, not a process.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))


def known_words() -> list[str]:
    """The words of our sample sets."""
    lines = [
        line
        for path in sorted((ROOT / "tasks/samples").glob("*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]
    texts = [text for line in lines for text in json.loads(line)["fields"].values()]
    return sorted({word for text in texts for word in text.split()})


def invented_pairs(count: int) -> "list[TrainingPair]":  # noqa: F821  # imported where it is used
    """Pairs of random words, no two alike; as long as those that ship, on average."""
    from harness.implicitness.pairs import TrainingPair

    draw = np.random.default_rng(0)
    known = known_words()
    lengths = draw.integers(6, 30, size=(count, 2))
    sides = [[" ".join(draw.choice(known, size=n)) for n in row] for row in lengths]
    return [
        TrainingPair(implicit=implicit, explicit=explicit, source=str(at % 100))
        for at, (implicit, explicit) in enumerate(sides)
    ]


def training(rounds: int) -> None:
    """Training on cached rows against encoding again in each epoch; the median of the rounds."""
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


def main() -> None:
    """Measure the training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    training(parser.parse_args().rounds)


if __name__ == "__main__":
    main()
