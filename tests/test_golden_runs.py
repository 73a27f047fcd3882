"""Pins what golden runs store and print as JSON: nobody who renames or moves code may change it.

Each scenario runs commands in an empty folder, through the command line alone, and compares the
files that they leave with the digests in golden/runs.json. Taken out before are only what no two
runs share: the versions of the program and of packages, the digests of files that say them, the
time of a call, the names of a ledger's segments.

A file is compared byte for byte, unless a neural network had a part in it: there the last digits
of floats differ between machines, so that the digest is of all else, and the floats are compared
by their number and by two sums.

    PYTHONPATH=. python tests/test_golden_runs.py --write      # take what is stored today for right
    PYTHONPATH=. python tests/test_golden_runs.py --write DIR  # only leave the compared files there
"""

import csv
import hashlib
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support.stub_script import Script
from support.stub_server import StubServer

from harness.cli import main

GOLDEN = Path(__file__).parent / "golden" / "runs.json"
ROOT = Path(__file__).parents[1]
WRITE = "PYTHONPATH=. python tests/test_golden_runs.py --write"
FLOAT = re.compile(r"(?<![\w.])-?\d+(?:\.\d+(?:e[+-]\d+)?|e[+-]\d+)(?![\w.])")
Known = str | list[Any]
"""What is kept of a file: its digest; or that of all but its floats, their number and two sums."""
LONG = frozenset(
    {
        *("along implicitness", "emphasized_talk", "hate_speech", "intent_detection"),
        *("intent_detection_pairs", "ludwig"),
    }
)
"""Scenarios of many answers, which run with `-m slow`; a shorter one takes the same paths."""


@dataclass(frozen=True)
class Scenario:
    """Commands, one after the other; `near` are the folders whose floats come from a network.

    `@task/model` in a command stands for the folder of that run; `rate TASK` has people rate it.
    """

    name: str
    commands: tuple[str, ...]
    near: tuple[str, ...] = ()
    has_stub: bool = False


def task(name: str, models: str, options: str = "", *, is_near: bool = False) -> Scenario:
    """A task on its own sample set, by its control models and its own judges."""
    run = f"run --task {name} --model {models} {options} --json"
    near = ("runs", "stdout", "leaderboard.csv", "cache") if is_near else ()
    return Scenario(name, (run, "leaderboard --json"), near)


STUB = "--home ../given/home"
PUPIL = "--task intent_resolution --model pupil --variant base,cot0,cot3,cot5 --limit 6"
UMPIRE = "--judge gpt4-contextual --judge gpt4-inferred-intention --judge-model umpire"
SCENARIOS = (
    task("emphasis_choice", "oracle,blind,first,random", "--limit 60"),
    task("emphasized_talk", "oracle,literal,echo,blind", "--limit 32", is_near=True),
    task("hate_speech", "oracle,constant-yes,constant-no,random", is_near=True),
    task("intent_detection", "oracle,first,random", "--variant all --limit 21"),
    task("intent_detection_pairs", "oracle,literal,first,random"),
    task("intent_resolution", "oracle,literal,echo", "--limit 8", is_near=True),
    task("ishate_implicit", "oracle,first,random", "--variant all"),
    task("ishate_non_explicit", "oracle,first,random"),
    task("ishate_non_implicit", "oracle,first,random"),
    task("ishate_subtle", "oracle,first,random", "--variant all"),
    task("ludwig", "oracle,first,random"),
    task("ludwig_dev", "oracle,first,random", "--answers written"),
    Scenario(
        "topical_chat",
        (f"run --task topical_chat --model pupil {STUB} --json", "leaderboard --json"),
        has_stub=True,
    ),
    Scenario(
        "asked in words",
        (
            f"run {PUPIL} {UMPIRE} {STUB} --dry-run --json",
            f"run {PUPIL} {UMPIRE} {STUB} --json",
            f"judge @intent_resolution/pupil --judge ngram-cosine {STUB} --json",
            f"read @intent_resolution/pupil {STUB} --json",
            "compare @intent_resolution/pupil --draws 200 --json",
            "leaderboard --json",
            "list runs --json",
        ),
        has_stub=True,
    ),
    Scenario(
        "asked to choose",
        (
            f"run --task intent_detection --model chooser --limit 7 {STUB} --json",
            f"run --task emphasis_choice --model teller --limit 6 {STUB} --json",
            f"run --task ishate_subtle --model chooser --answers written --limit 6 {STUB} --json",
        ),
        has_stub=True,
    ),
    Scenario(
        "built by a model",
        (f"build chains ../given/stories.jsonl --model pupil -o out/chains.jsonl {STUB} --json",),
        has_stub=True,
    ),
    Scenario(
        "people",
        (
            "run --task intent_resolution --model oracle,literal,echo,random --judge ngram-cosine"
            " --variant base --limit 9",
            "rate intent_resolution",
            "agree --ratings out/ratings.csv --draws 100 --json",
            "export ratings @intent_resolution/oracle @intent_resolution/random --format csv"
            " --limit 5 -o out/sheet.csv",
            "export ratings @intent_resolution/echo --format labelstudio -o out/studio.json",
            "compare @intent_resolution/oracle @intent_resolution/random --draws 200 --json",
            "leaderboard --json",
        ),
    ),
    Scenario(
        "knowing and acting",
        (
            "run --task intent_detection_pairs --model random",
            "run --task intent_resolution --model random --judge ngram-cosine --variant base",
            "compare @intent_detection_pairs/random @intent_resolution/random --draws 200 --json",
        ),
    ),
    Scenario(
        "imported",
        (
            f"import {ROOT}/docs/examples/option_probabilities.csv --task intent_detection"
            " --model small --map option_probabilities --json",
            "import ../given/rated.json --task topical_chat --model umpire --data ../given/data"
            " --json",
            "agree --ratings results/ratings/topical_chat.csv --draws 100 --json",
            "read @topical_chat/umpire --json",
            "leaderboard --json",
        ),
    ),
    Scenario(
        "along implicitness",
        (
            "run --task hate_speech --model random,constant-yes --map ../given/map.yaml"
            " --data ../given/texts.csv --scorer column --json",
            "curve @hate_speech/random @hate_speech/constant-yes --json",
        ),
    ),
    Scenario(
        "perturbed",
        (
            "perturb --task ishate_implicit --method adverbs,in_domain,eda --limit 12"
            " -o out --json",
            "run --task ishate_implicit_perturbed --model random --home out --json",
            "perturb report @ishate_implicit_perturbed/random --json",
        ),
    ),
    Scenario(
        "impscore",
        (
            "impscore score ../given/texts.csv --column body -o out/scored.csv --json",
            "impscore pairs ../given/texts.csv --columns body,other -o out/pairs.jsonl --json",
            "profile ../given/texts.csv --column body --label verdict --pairs 20 -o out --json",
        ),
        near=("out", "stdout", "cache"),
    ),
    Scenario(
        "tiny",
        (
            "run --task ludwig --model tiny-random --variant template0 --limit 6 --json",
            "tokens --task ludwig --model tiny-random --variant template0 --limit 6 --json",
        ),
        near=("",),
    ),
)
MODEL = """about: Behind the stub server.
kind: openai
model: {name}
base_url: http://127.0.0.1:9/v1
base_url_env: HARNESS_SERVER_URL
key_env: null
"""
PRICES = """prices:
  pupil: {input_usd: 2, output_usd: 4, batch_share: 0.5, read: "2026-01-01", source: a list}
  umpire: {input_usd: 10, output_usd: 30, read: "2026-01-01", source: a list}
"""
MAP = """about: Our own texts.
source: ours
text: body
label: {column: verdict, classes: {hateful: ["1"], benign: ["0"]}}
implicitness: how
"""
SCRIPT = Script(
    replies={
        "Answer with the number alone": ("1", "2", "Option 1", "neither of them"),
        "Write your rating as a number": ("1", "2", "3", "Rating: 2", "I cannot say"),
        "plain, subtle": ("none", "plain", "subtle", "perhaps"),
    }
)


def texts() -> Iterator[list[str]]:
    """A table of labelled texts that says how implicit each of them is."""
    yield ["body", "other", "verdict", "how"]
    for n in range(40):
        said = f"The {('red', 'old', 'far')[n % 3]} boats number {n * n} by now."
        yield [said, f"Some {n} boats are late.", str(n * 7 % 3 % 2), f"{n * 11 % 40 / 20:.3f}"]


def rated() -> Iterator[dict[str, Any]]:
    """Replies that people and a model rated, in the layout of the Topical-Chat release."""
    for n, talk in enumerate(("Is it raining?\nSince noon.\n\n", "Who baked it?\nMy aunt.\n\n")):
        for m, system in enumerate(("quick", "slow", "late")):
            reply = f"The {system} one says: so I thought. "
            yield {
                "source": talk,
                "system_id": system,
                "system_output": reply,
                "context": "Rain falls at some thirty kilometres an hour.\n",
                "scores": {"naturalness": 1.0 + (2 * n + m) % 3, "coherence": 7 / 3},
                "prompt": "Rate a reply.\n\nNaturalness (1-3) Is it natural?\n- 1 is low.\n\n"
                f"Said:\n{talk}\nReply:\n{reply}",
                "all_responses": ["2", f"{1 + (n + m) % 3}", "no"],
            }


def lay_out(given: Path) -> None:
    """Write the files that commands are given."""
    files = {f"home/configs/models/{n}.yaml": MODEL.format(name=n) for n in ("pupil", "umpire")}
    files["home/configs/models/chooser.yaml"] = MODEL.format(name="chooser") + "choices: echo\n"
    files["home/configs/models/teller.yaml"] = (
        MODEL.format(name="teller") + "choices: top_logprobs\n"
    )
    files |= {"home/configs/prices.yaml": PRICES, "map.yaml": MAP}
    parts = list(rated())
    files["rated.json"] = json.dumps(parts[1:])
    files["data/topical_chat/topical_chat.json"] = json.dumps(
        [{k: v for k, v in part.items() if k not in ("prompt", "all_responses")} for part in parts]
    )
    stories = (ROOT / "tasks/samples/intent_resolution.jsonl").read_text("utf-8").splitlines()[:4]
    bare = [json.loads(line) for line in stories]
    for story in bare:
        story["references"] = {
            k: v for k, v in story["references"].items() if k[-9:] == "intention"
        }
    files["stories.jsonl"] = "".join(json.dumps(story) + "\n" for story in bare)
    for name, text in files.items():
        (given / name).parent.mkdir(parents=True, exist_ok=True)
        (given / name).write_text(text, "utf-8")
    with (given / "texts.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(texts())


def rate(name: str) -> None:
    """Have three people rate each answer of each run of a task, all in different ways."""
    Path("out").mkdir()
    with Path("out/ratings.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "sample_id", "model", "rater", "value", "scale"])
        for path in sorted(Path().glob(f"results/runs/{name}/*/*/samples.jsonl")):
            rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            first = {row["sample"]["id"]: row["answer"] for row in rows}
            for place, (sample, answer) in enumerate(first.items()):
                for n, who in enumerate(("ann", "bob", "cyd")):
                    value = (len(answer) + n * place) % 5
                    writer.writerow([name, sample, path.parts[3], who, value, "base"])


def found(name: str) -> str:
    """An argument, the name of a run replaced by its folder."""
    if not name.startswith("@"):
        return name
    [path] = Path("results/runs").glob(f"{name[1:]}/*")
    return str(path)


@contextmanager
def placed(folder: Path, url: str | None) -> Iterator[None]:
    """Work in an empty folder and an environment that names nothing but a stub server."""
    lay_out(folder / "given")
    (folder / "work/stdout").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("HARNESS_") or name.endswith("_API_KEY"):
                patch.delenv(name)
        patch.setenv("HARNESS_CACHE", str(folder / "work/cache"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        if url:
            patch.setenv("HARNESS_SERVER_URL", url)
        patch.chdir(folder / "work")
        yield


def carry_out(scenario: Scenario, folder: Path) -> dict[str, str]:
    """Run the commands below a folder; the normalised files that they leave, by name."""
    with ExitStack() as stack:
        stub = stack.enter_context(StubServer(SCRIPT)) if scenario.has_stub else None
        stack.enter_context(placed(folder, stub.url if stub else None))
        codes = {line: step(number, line) for number, line in enumerate(scenario.commands)}
        Path("stdout/codes").write_text(json.dumps(codes, indent=1), "utf-8")
    return normalised(folder)


def step(number: int, line: str) -> int:
    """Run a command here, and keep what it prints where that is JSON; its exit code."""
    words = [found(word) for word in shlex.split(line)]
    if words[0] == "rate":
        rate(words[1])
        return 0
    with redirect_stdout(StringIO()) as out:
        code = main(words)
    if "--json" in words:
        Path(f"stdout/{number}-{words[0]}").write_text(out.getvalue(), "utf-8")
    return code


def normalised(folder: Path) -> dict[str, str]:
    """The files below work/ without what no two runs share."""
    files: dict[str, str] = {}
    records: dict[str, set[str]] = {}
    for path in sorted((folder / "work").rglob("*")):
        name = path.relative_to(folder / "work").as_posix().removeprefix("results/")
        # How matplotlib draws changes with its version, and the CSV beside a picture is compared.
        is_picture = path.suffix in (".svg", ".png", ".pdf")
        if not path.is_file() or is_picture or name.startswith("cache/checkpoints/"):
            continue
        if path.name == "data_paths.json" or "manifests" in path.parts:  # of this machine
            continue
        if path.name == "SHA256SUMS":  # of files that say the version
            continue
        text = path.read_bytes().decode().replace(str(folder), "TMP").replace(str(ROOT), "ROOT")
        if name.startswith("calls/"):
            lines = {re.sub(r',"time":[\d.e+]+\}$', "}", line) for line in text.split("\n")}
            records.setdefault(str(Path(name).parent), set()).update(lines)
        else:
            text = re.sub(r'("version": ?)"[^"]+"', r'\1"VERSION"', text)
            text = re.sub(r',\s*"packages": ?\{[^}]*\}', "", text)
            files[name] = re.sub(r"\|v\d+\.\d+\.\w+", "|vVERSION", text)
    return files | {name: "\n".join(sorted(lines)) for name, lines in records.items()}


def known(text: str, *, is_near: bool) -> Known:
    """What is kept of a file."""
    if not is_near:
        return hashlib.sha256(text.encode()).hexdigest()
    floats = [float(number) for number in FLOAT.findall(text)]
    rest = hashlib.sha256(FLOAT.sub("FLOAT", text).encode()).hexdigest()
    weighed = sum(number * (1 + place % 97 / 97) for place, number in enumerate(floats))
    return [rest, len(floats), round(sum(floats), 6), round(weighed, 6)]


def known_all(scenario: Scenario, files: Mapping[str, str]) -> dict[str, Known]:
    """What is kept of the files of a scenario."""
    return {
        name: known(text, is_near=name.startswith(scenario.near) if scenario.near else False)
        for name, text in files.items()
    }


def is_same(one: Known | None, other: Known | None) -> bool:
    """Whether two files are equal, the floats of a network nearly so."""
    if not isinstance(one, list) or not isinstance(other, list) or one[:2] != other[:2]:
        return one == other
    room = 1e-4 + 1e-6 * float(one[1])
    return all(abs(a - b) <= room for a, b in zip(one[2:], other[2:], strict=True))


def leave(files: Mapping[str, str], folder: Path) -> None:
    """Write normalised files below a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8", newline="")


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(s, marks=[pytest.mark.slow] * (s.name in LONG)) for s in SCENARIOS],
    ids=lambda scenario: scenario.name,
)
def test_what_is_stored_stays_as_it_was(scenario: Scenario, tmp_path: Path) -> None:
    files = carry_out(scenario, tmp_path)

    made, kept = known_all(scenario, files), json.loads(GOLDEN.read_text("utf-8"))[scenario.name]
    other = [n for n in sorted({*made, *kept}) if not is_same(made.get(n), kept.get(n))]
    leave({name: files[name] for name in other if name in files}, tmp_path / "differs")
    assert not other, (
        f"{scenario.name}: these stored files are not as they were: {', '.join(other)}. As they "
        f"are now, they lie in {tmp_path}/differs; `{WRITE} DIR`, in a checkout of the old code "
        f"and in this one, gives two folders to diff. Where the change is wanted: `{WRITE}`"
    )


def test_every_shipped_task_is_pinned() -> None:
    tasks = {path.stem for path in (ROOT / "tasks").glob("*.yaml")}

    assert tasks <= {scenario.name for scenario in SCENARIOS}


def write(folder: Path | None) -> None:
    """Take what is stored today for right; or only leave the normalised files below a folder."""
    kept = {}
    for scenario in SCENARIOS:
        with TemporaryDirectory() as name:
            files = carry_out(scenario, Path(name).resolve())
        kept[scenario.name] = known_all(scenario, files)
        if folder is not None:
            leave(files, folder / scenario.name)
    if folder is None:
        GOLDEN.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        sys.exit(f"usage: {WRITE} [DIR]")
    if ROOT not in Path(main.__code__.co_filename).parents:
        sys.exit(f"another checkout's code is imported; in {ROOT}: {WRITE} [DIR]")
    write(Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None)
