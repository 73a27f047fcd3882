"""Where the CPU seconds of choices by log-probability go, for one checkpoint, stage by stage.

    python -m benchmarks.profile_choices --model DIR --data DIR --items 8

Stages of start-up first, each with what it adds; then all prompts by each way of scoring them: the
prefix tree in packs and passes of several sizes, batches of rows of like length, and row by row;
and what the prefix tree spends its seconds on.
CPU seconds are of all threads, so that other processes disturb them less than the clock.
"""

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import choice

if TYPE_CHECKING:
    from harness.models.local.choice_scoring import ChoiceScorer
    from harness.models.local.prefix_tree import ScoredRow


def timed(name: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever the work gives
    """Print the CPU seconds and the seconds on the clock that some work takes."""
    clock, spent = time.perf_counter(), time.process_time()
    found = work()
    clock, spent = time.perf_counter() - clock, time.process_time() - spent
    print(f"{name:44}{spent:9.2f} CPU s {clock:9.2f} s", flush=True)
    return found


def imported(*names: str) -> None:
    """Import modules."""
    for name in names:
        __import__(name)


def start(folder: Path, cases: Sequence[choice.Case]) -> "tuple[ChoiceScorer, list[ScoredRow]]":
    """Import, load and tokenize as a run does it."""
    timed("import torch", lambda: imported("torch"))
    timed("import transformers", lambda: imported("transformers.models.auto.tokenization_auto"))
    from harness.models.local import checkpoints, tokenization
    from harness.models.local.choice_scoring import ChoiceScorer
    from harness.models.local.prefix_tree import ScoredRow
    from harness.parts import Message

    checkpoint = timed(
        "configuration and tokenizer",
        lambda: checkpoints.open_checkpoint(str(folder), revision=None, trust_remote_code=False),
    )
    timed("identity", lambda: checkpoint.identity)
    model = timed(
        "weights", lambda: checkpoints.load_weights(checkpoint, dtype="float32", device="cpu")
    )
    scorer = ChoiceScorer(model, batch_tokens=16384)
    mode = timed("trial of the prefix tree", lambda: scorer.mode)
    print(f"choices are scored {mode.value}")

    def rows() -> Iterator[ScoredRow]:
        for context, choices in cases:
            turns = (Message("user", context),)
            read = tokenization.choice_tokens(turns, choices, checkpoint.tokenizer, is_chat=False)
            yield from map(ScoredRow, read.rows, read.firsts)

    return scorer, timed("tokens", lambda: list(rows()))


def score(scorer: "ChoiceScorer", rows: "Sequence[ScoredRow]", args: argparse.Namespace) -> None:
    """Score all rows by each way, and say how far the values are from those row by row."""
    from harness.models.local.choice_scoring import token_batches
    from harness.models.local.prefix_tree import prefix_tree

    distinct = sorted(set(rows))
    nodes = len(prefix_tree(distinct).tokens)
    fed = len({row.tokens[:-1] for row in distinct})
    print(
        f"{len(rows)} rows, {fed} different, {sum(r.fed for r in distinct)} tokens, {nodes} nodes"
    )
    by_itself = [[row] for row in distinct] if args.alone else []
    alone = timed("row by row", lambda: [scorer._padded(one)[0] for one in by_itself]) or None
    found = {}
    for pack, most in itertools.product(args.packs, args.nodes):
        name = f"prefix tree, packs of {pack}, passes of {most}"
        found[name] = timed(name, lambda p=pack, m=most: scorer._as_tree(distinct, p, m))
    for most in args.nodes:

        def padded(most: int = most) -> list[float]:
            batches = token_batches(distinct, most, shape=lambda row: (0, row.fed))
            sums = dict(
                itertools.chain.from_iterable(
                    zip(batch, scorer._padded(batch), strict=True) for batch in batches
                )
            )
            return [sums[row] for row in distinct]

        found[f"batches of like length, {most} tokens"] = timed(
            f"batches of like length, {most} tokens", padded
        )
    first = alone or next(iter(found.values()))
    for name, values in found.items():
        apart = max(abs(one - other) for one, other in zip(values, first, strict=True))
        print(f"{name:44}{apart:9.1e} nats apart")


def parts(scorer: "ChoiceScorer", rows: "Sequence[ScoredRow]") -> None:
    """Print what the time of a prefix tree is spent on, by torch's own profiler."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        scorer.sums(rows)
    shares = Counter[str]()
    for event in seen.key_averages(group_by_input_shape=True):
        shapes = [shape for shape in event.input_shapes if shape]
        is_vocabulary = any(scorer._vocabulary in shape for shape in shapes)
        shares[part_of(event.key, is_vocabulary)] += event.self_cpu_time_total
    for name, spent in shares.most_common():
        print(f"  {name:42}{spent / shares.total():9.1%}")


def part_of(operation: str, is_vocabulary: bool) -> str:
    """The part of scoring that an operation of torch belongs to."""
    is_product = operation.removeprefix("aten::") in ("mm", "addmm", "bmm")
    if is_product:
        return "matrix products of the head" if is_vocabulary else "matrix products of the layers"
    if "attention" in operation:
        return "attention"
    return "normalising and reading logits" if is_vocabulary else "norms, rotations, masks, rest"


def main() -> None:
    """Print the stages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", type=Path, required=True, help="folder of a checkpoint")
    parser.add_argument("--data", type=Path, help="folder that holds hu2022/prompts")
    parser.add_argument("--answers", choices=choice.ANSWERS, default="texts")
    parser.add_argument("--items", type=int, default=8)
    parser.add_argument("--packs", default="128,256,512")
    parser.add_argument("--nodes", default="1024,2048,4096")
    parser.add_argument("--alone", action="store_true", help="row by row, too: slow")
    args = parser.parse_args()
    data = choice.released(args.data)
    if data is None:
        sys.exit("--data DIR names the folder that holds hu2022/prompts")
    args.packs, args.nodes = ([int(n) for n in o.split(",")] for o in (args.packs, args.nodes))
    cases = choice.read_cases(data, args.answers, args.items)
    scorer, rows = start(args.model, cases)
    parts(scorer, rows)
    score(scorer, rows, args)


if __name__ == "__main__":
    main()
