"""All ratios in one command: this program against its peers and against limits by hand.

    python -m benchmarks --data DIR

Ways take turns as whole processes, at least three times each. Prints the page as it grows, and
writes results.json, results.md and the table of speed in the README. A loaded machine is
refused unless that is forced.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent

from benchmarks import api, bertscore, choice, implicitness, machine, results, scale, turns  # noqa: E402
from benchmarks.results import Comparison, Row, Setting  # noqa: E402
from benchmarks.server import ServerProcess  # noqa: E402
from benchmarks.turns import Turned, Way, WayFailed  # noqa: E402

LEAST_TURNS = 3
PARTS = ("choices", "calls", "bertscore", "implicitness", "scale")
Part = Callable[[argparse.Namespace], Iterator[tuple[str, str, str, list[Turned]]]]
"""Gives the name and title of each comparison, its work in words, and what was measured."""


def choices(args: argparse.Namespace) -> Iterator[tuple[str, str, str, list[Turned]]]:
    """Log-probabilities of choices: a digit, and the text of an option."""
    data = choice.released(args.data)
    if data is None:
        raise WayFailed("choices: --data DIR names the folder that holds hu2022/prompts")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = choice.model_of(folder / "model", data.absolute())
        for answers in choice.ANSWERS:
            cases = tuple(choice.read_cases(data, answers, args.items))
            job = choice.Job(model, cases, peers=args.peers, vllm=args.vllm)
            if job.peers is not None:
                (folder / answers).mkdir()
                job = replace(job, batch=choice.fair_batch(job, folder / answers))
            work = f"124 million parameters, {len(cases)} prompts, {job.choices} choices"
            seen = turns.take_turns(choice.ways(job), args.turns)
            title = f"Choices by log-probability, answered with {answers}"
            yield f"choices-{answers}", title, work, seen


def calls(args: argparse.Namespace) -> Iterator[tuple[str, str, str, list[Turned]]]:
    """Calls of a hosted model, by the ways of api.py."""
    needing = () if args.peers else ("inspect", "lm_eval")
    names = [name for name in api.WAYS if name not in needing]
    own, sys.executable = sys.executable, str(args.peers or sys.executable)  # api.py starts that
    seen: dict[str, list[turns.Seen]] = {name: [] for name in names}
    os.environ |= {"OPENAI_API_KEY": "none", "PYTHONPATH": str(ROOT), "DELAY_S": "0.2"}
    with ServerProcess() as server:
        os.environ["OPENAI_BASE_URL"] = server.url
        for turn in range(args.turns):
            for name in names:
                with tempfile.TemporaryDirectory() as folder:
                    job = api.Job(Path(folder), args.calls, 200)
                    api.prepare(job)
                    one = api.measure(name, job, server)
                seen[name].append(turns.Seen(one.whole_s, one.cpu_s, one.most_mb))
                print(f"  turn {turn + 1}, {name}: {one.whole_s:.2f} s, CPU {one.cpu_s:.2f} s")
    sys.executable = own
    titles = {name: title.partition(") ")[2] for name, (title, _) in api.WAYS.items()}
    kept = {"aiohttp": results.LIMIT}  # bare aiohttp is the limit here
    found = [
        Turned(Way(kept.get(name, name), titles[name], _unused), tuple(seen[name]), ())
        for name in names
    ]
    work = f"{args.calls:,} calls, 200 in flight, against a server that answers after 200 ms"
    yield "calls", "Calls of a hosted model", work, found


def _unused(folder: Path) -> turns.Command:
    raise AssertionError(f"{folder}: api.py starts its processes itself")


def bert(args: argparse.Namespace) -> Iterator[tuple[str, str, str, list[Turned]]]:
    """BERTScore of answers."""
    cases = bertscore.read_cases(args.data)
    pairs = sum(len(texts) for _, texts in cases)
    seen = turns.take_turns(bertscore.ways(cases), args.turns)
    yield "bertscore", "BERTScore", f"{len(cases)} answers, {pairs} pairs, MiniLM", seen


def implicit(args: argparse.Namespace) -> Iterator[tuple[str, str, str, list[Turned]]]:
    """Scores of implicitness."""
    texts = implicitness.read_texts(args.data)
    work = f"{len(texts):,} texts, {len(set(texts)):,} different, `impscore-minilm`"
    seen = turns.take_turns(implicitness.ways(texts), args.turns)
    yield "implicitness", "Implicitness", work, seen


MEASURES: dict[str, Part] = {
    "choices": choices,
    "calls": calls,
    "bertscore": bert,
    "implicitness": implicit,
}


def compared(
    name: str, title: str, work: str, *, seen: Sequence[Turned], setting: Setting
) -> Comparison:
    """The numbers of one comparison, as they are kept."""
    ours = next(one.values for one in seen if one.way.name == results.OURS)
    rows = tuple(
        Row(
            way=one.way.name,
            title=one.way.title,
            wall_s=tuple(part.wall_s for part in one.seen),
            cpu_s=tuple(part.cpu_s for part in one.seen),
            most_mb=tuple(part.most_mb for part in one.seen),
            apart=apart(one.values, ours),
        )
        for one in seen
    )
    return Comparison(name, title, work, replace(setting, others=others(seen)), rows)


def apart(values: Sequence[float], ours: Sequence[float]) -> float | None:
    """The largest difference; None where either has none. ValueError if lengths differ."""
    if not values or not ours:
        return None
    return max(abs(one - other) for one, other in zip(values, ours, strict=True))


def others(seen: Sequence[Turned]) -> float | None:
    """The share of the machine that other processes used, the median over all processes."""
    parts = [part for one in seen for part in one.seen if part.others_s is not None]
    shares = [(part.others_s or 0.0) / (part.wall_s * machine.cores()) for part in parts]
    return median(shares) if shares else None


def peers_of(args: Path) -> Path | None:
    """The interpreter of an environment; None, and a line that says so, where there is none."""
    python = args / "bin" / "python"
    if python.exists():
        return python.absolute()
    print(f"{args}: not there, so peers are left out; tests/peers/install.sh {args} makes it")
    return None


def options() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    where = os.environ.get("HARNESS_DATA")
    parser.add_argument("--data", type=Path, default=where, help="released data (HARNESS_DATA)")
    parser.add_argument("--only", default=",".join(PARTS[:4]), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--turns", type=int, default=LEAST_TURNS)
    parser.add_argument("--items", type=int, default=34, help="of the choices, five prompts each")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--sizes", default="1000,10000,100000", help="of the scale")
    parser.add_argument("--peers", type=Path, default=ROOT / ".venv-peers")
    parser.add_argument("--vllm", type=Path, help="environment that has vllm")
    parser.add_argument("--force", action="store_true", help="measure on a loaded machine, too")
    args = parser.parse_args()
    if unknown := sorted(set(args.only.split(",")) - set(PARTS)):
        parser.error(f"--only {', '.join(unknown)}: give {', '.join(PARTS)}")
    if args.turns < LEAST_TURNS and not args.force:
        parser.error(f"--turns {args.turns}: {LEAST_TURNS} at least, or --force")
    return args


def alike() -> None:
    """Keep from all ways what this shell would have them find or recompile."""
    for name in ("HARNESS_DATA", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)


def main() -> None:
    """Measure the parts that are asked for; each is written as soon as it is done."""
    args = options()
    alike()
    try:
        is_idle = machine.check_idle(os.getloadavg()[0], machine.cores(), is_forced=args.force)
    except machine.Busy as busy:
        sys.exit(str(busy))
    args.peers = peers_of(args.peers)
    args.vllm = peers_of(args.vllm) if args.vllm else None
    packages = machine.versions()
    for name, number in (machine.versions_of(args.peers) if args.peers else {}).items():
        if packages.setdefault(name, number) != number:
            packages[f"{name} of the peers"] = number
    setting = Setting(machine.described(), packages, str(date.today()), is_idle)
    for part in args.only.split(","):
        if part == "scale":
            sizes = [int(size) for size in args.sizes.split(",")]
            found = scale.measured(sizes, scale.WORKERS, is_idle=is_idle)
            results.write(replace(results.read(), scale=found), root=ROOT)
            continue
        for name, title, work, seen in MEASURES[part](args):
            one = compared(name, title, work, seen=seen, setting=setting)
            results.write(results.read().having(one), root=ROOT)
            print(results.section(one), flush=True)


if __name__ == "__main__":
    main()
