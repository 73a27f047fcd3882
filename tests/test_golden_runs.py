"""Pins the numbers of golden runs: nobody who renames or moves code may change one.

Each scenario runs commands in an empty folder. Compared with golden/*.csv.gz, row by row, are the
scores by every metric, ranks and groups, verdicts, agreement, comparisons, rates, the keys of the
ledgers and the exit codes. Floats may differ by 1e-9; those that a neural network had a part in by
1e-4, since its last digits differ between machines.

    python tests/test_golden_runs.py --write              # take today's numbers for right
    python tests/test_golden_runs.py --write --only NAME  # those of one scenario
"""

import csv
import json
import os
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas
import pytest
from support.stub_script import Script
from support.stub_server import StubServer

from harness.analysis.curves import curve_rows, together
from harness.cli import main
from harness.parts import digest
from harness.pipeline.score import all_scores
from harness.storage.find_runs import run_folders
from harness.storage.frames import load, plain_rows
from harness.storage.runs import COLUMNS, RunFolder, cells_of

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[1]
SCORE = ("task", "model", "run", "variant", "decoding", "group", "judge", "metric")
VERDICT = ("run", "judge", "variant", "decoding", "reason")
COMPARED = (
    *("comparison", "statistic", "group", "model_a", "variant_a", "judge_a", "model_b"),
    *("variant_b", "judge_b"),
)
TABLES: Mapping[str, tuple[str, ...]] = {
    "scores": SCORE,
    "boards": SCORE,
    "verdicts": VERDICT,
    "agreement": ("task", "model", "variant", "judge", "statistic", "reason"),
    "comparisons": COMPARED,
    "rates": ("command", "place"),
    "ledgers": ("ledger", "digest"),
    "exits": ("command",),
}
"""The columns that name a row of each golden table; all others are numbers."""
LONG = frozenset(
    {
        *("along implicitness", "asked in words", "asked to choose", "boards of several models"),
        *("emphasis_choice", "emphasized_talk", "hate_speech", "impscore", "intent_detection"),
        *("intent_detection_pairs", "people"),
        *("ishate_implicit", "ishate_non_explicit", "ishate_non_implicit", "knowing and acting"),
        *("ludwig", "ludwig_dev", "moderation", "topical_chat", "imported", "ishate_subtle"),
    }
)
"""Scenarios that run with `-m slow`: a shorter one, or tests of their own, take the same paths."""


@dataclass(frozen=True)
class Scenario:
    """Commands, one after the other; `is_near` says that numbers come from a network.

    `@task/model` in a command is the folder of that run; `rate TASK` has people rate it.
    """

    name: str
    commands: tuple[str, ...]
    is_near: bool = False
    has_stub: bool = False


def task(name: str, models: str, options: str = "", *, is_near: bool = False) -> Scenario:
    """A task on its own sample set, by its control models and its own judges."""
    run = f"run --task {name} --model {models} {options} --json"
    return Scenario(name, (run, "leaderboard --json"), is_near)


def scenarios(text: str) -> list[Scenario]:
    """Names, with `near` or with `asked` if the stub server is, each above its commands."""
    found: list[Scenario] = []
    for line in text.strip("\n").splitlines():
        if line.startswith(" " * 12):
            found[-1] = replace(found[-1], commands=(*found[-1].commands, line.strip()))
        elif name := line.strip():
            kind = name.partition(", ")[2]
            found.append(Scenario(name.partition(", ")[0], (), kind == "near", kind == "asked"))
    return found


STUB = "--home ../given/home"
EXAMPLE = f"{ROOT}/docs/examples/option_probabilities.csv"
RESOLUTION = "--task intent_resolution --judge ngram-cosine"
RANDOM, THREE = "@intent_resolution/random", "pupil,umpire,third"
OWN_TEXTS = "--task hate_speech --map ../given/map.yaml --data ../given/texts.csv --scorer column"
SMALL = "--task intent_detection --model small --map option_probabilities"
TALK = "--task topical_chat --model umpire --data ../given/data"
PROFILE = "--label verdict --pairs 20"
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
    *scenarios(
        f"""
        topical_chat, asked
            run --task topical_chat --model pupil {STUB} --json
            leaderboard --json
        asked in words, asked
            run {PUPIL} {UMPIRE} {STUB} --dry-run --json
            run {PUPIL} {UMPIRE} {STUB} --json
            judge @intent_resolution/pupil --judge ngram-cosine {STUB} --json
            read @intent_resolution/pupil {STUB} --json
            compare @intent_resolution/pupil --json
            leaderboard --json
            list runs --json
        asked to choose, asked
            run --task intent_detection --model chooser --limit 7 {STUB} --json
            run --task emphasis_choice --model teller --limit 6 {STUB} --json
            run --task ishate_subtle --model chooser --answers written --limit 6 {STUB} --json
        built by a model, asked
            build chains ../given/stories.jsonl --model pupil -o out/chains.jsonl {STUB} --json
        people
            run {RESOLUTION} --model oracle,literal,echo,random --variant base --limit 9
            rate intent_resolution
            agree --ratings out/ratings.csv --draws 100 --json
            sheet ratings @intent_resolution/oracle {RANDOM} --limit 5 -o out/sheet.csv
            sheet ratings @intent_resolution/echo -o out/studio.csv
            compare @intent_resolution/oracle {RANDOM} --json
            leaderboard --json
        knowing and acting
            run --task intent_detection_pairs --model random
            run {RESOLUTION} --model random --variant base
            compare @intent_detection_pairs/random {RANDOM} --json
        imported
            import {EXAMPLE} {SMALL} --json
            import ../given/rated.json {TALK} --json
            agree --ratings results/ratings/topical_chat.csv --draws 100 --json
            read @topical_chat/umpire --json
            leaderboard --json
        along implicitness
            run --model random,constant-yes {OWN_TEXTS} --json
            curve @hate_speech/random @hate_speech/constant-yes --json
        perturbed
            perturb --task ishate_implicit --method adverbs,in_domain,eda --limit 12 -o out --json
            run --task ishate_implicit_perturbed --model random --home out --json
            perturb report @ishate_implicit_perturbed/random --json
        boards of several models, asked
            run --task ishate_subtle --model {THREE} --answers written --limit 60 {STUB}
            run {RESOLUTION} --model {THREE} --variant base,cot0 --limit 16 {STUB}
            leaderboard --json
            compare @intent_resolution/pupil @intent_resolution/umpire --json
            compare --gate @intent_resolution/pupil @intent_resolution/umpire
            compare --gate @intent_resolution/pupil @intent_resolution/pupil
        moderation
            run --model random,constant-yes {OWN_TEXTS}
            rates @hate_speech/random --by how,body --least 3 --json
            rates @hate_speech/random --fpr 0.2 --json
            drift @hate_speech/random @hate_speech/constant-yes --least 3 --json
        impscore, near
            impscore score ../given/texts.csv --column body -o out/scored.csv --json
            impscore profile ../given/texts.csv --column body {PROFILE} -o out --json
        tiny, near
            run --task ludwig --model tiny-random --variant template0 --limit 6 --json
            show tokens --task ludwig --model tiny-random --variant template0 --limit 6 --json
        """
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
  third: {input_usd: 2, output_usd: 4, batch_share: 0.5, read: "2026-01-01", source: a list}
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
    files = {
        f"home/configs/models/{n}.yaml": MODEL.format(name=n) for n in ("pupil", "umpire", "third")
    }
    files["home/configs/models/chooser.yaml"] = MODEL.format(name="chooser") + "choices: echo\n"
    teller = MODEL.format(name="teller") + "choices: top_logprobs\n"
    files["home/configs/models/teller.yaml"] = teller
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
        for folder in run_folders(Path("results")):
            if folder.path.parts[-3] != name:
                continue
            answers = load([folder], "answers", ["sample", "answer"])
            last = dict(zip(answers["sample"], answers["answer"], strict=True))
            for place, (sample, answer) in enumerate(last.items()):
                for n, who in enumerate(("ann", "bob", "cyd")):
                    value = (len(answer) + n * place) % 5
                    model = folder.path.parent.name
                    writer.writerow([name, sample, model, who, value, "base"])


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
    (folder / "work").mkdir(parents=True)
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


def carry_out(scenario: Scenario, folder: Path) -> dict[str, pandas.DataFrame]:
    """Run the commands below a folder; the tables of what they leave."""
    with ExitStack() as stack:
        stub = stack.enter_context(StubServer(SCRIPT)) if scenario.has_stub else None
        stack.enter_context(placed(folder, stub.url if stub else None))
        ended, rates = [], list[pandas.DataFrame]()
        for number, line in enumerate(scenario.commands):
            code, printed = step(line)
            ended.append({"command": number, "code": code})
            if printed and line.startswith(PRINTING):
                rates.append(numbers_of(number, json.loads(printed)))
        folders = run_folders(Path("results"))
        return {
            "scores": pandas.concat(map(scores_of, folders)) if folders else pandas.DataFrame(),
            "boards": ranked(Path("results/leaderboard.csv")),
            "verdicts": verdicts_of(folders),
            "agreement": read(Path("results/agreement.csv")),
            "comparisons": pandas.concat(
                [pandas.DataFrame(), *map(read, sorted(Path("results").glob("comparisons/*.csv")))]
            ),
            "rates": pandas.concat([pandas.DataFrame(), *rates]),
            "ledgers": ledgers_of(Path("results/calls")),
            "exits": pandas.DataFrame(ended),
        }


PRINTING = ("rates", "drift", "curve", "perturb report", "impscore")


def step(line: str) -> tuple[int, str]:
    """Run a command here; its exit code, and what it prints where that is JSON."""
    words = [found(word) for word in shlex.split(line)]
    if words[0] == "rate":
        rate(words[1])
        return 0, ""
    if words[0] == "curve":
        folders = [RunFolder(Path(name)) for name in words[1:-1]]
        rows = [curve_rows(one.read(), one.tables(), "gold") for one in folders]
        return 0, json.dumps(plain_rows(together(rows)))
    with redirect_stdout(StringIO()) as out:
        code = main(words)
    return code, out.getvalue() if "--json" in words else ""


def read(path: Path) -> pandas.DataFrame:
    """A table of results; none where there is no such file."""
    return pandas.read_csv(path) if path.exists() else pandas.DataFrame()


def scores_of(folder: RunFolder) -> pandas.DataFrame:
    """The scores of a run by every metric."""
    rows = [cells_of(row) for row in all_scores(folder)]
    made = pandas.DataFrame(rows, columns=COLUMNS).assign(run=folder.path.name)
    return made.astype(dict.fromkeys(("value", "low", "high", "chance", "cost_usd"), "float64"))


def ranked(path: Path) -> pandas.DataFrame:
    """The rows of a leaderboard that have a rank."""
    board = read(path)
    return board[board["rank"].notna()] if len(board) else board


def verdicts_of(folders: list[RunFolder]) -> pandas.DataFrame:
    """How many verdicts of a run have which reason, the sum and a weighed sum of their values."""
    if not folders:
        return pandas.DataFrame()
    frame = load(
        folders, "verdicts", [name for name in VERDICT if name != "run"] + ["sample", "value"]
    )
    frame["weight"] = [int(digest([name])[:4], 16) / 65536 for name in frame["sample"]]
    frame["weighed"] = frame["value"].fillna(0.0) * frame["weight"]
    frame["reason"] = frame["reason"].astype(object).where(frame["reason"].notna(), "none")
    found = frame.groupby(list(VERDICT), observed=True)
    return found.agg(
        verdicts=("weight", "size"),
        weight=("weight", "sum"),
        total=("value", "sum"),
        weighed=("weighed", "sum"),
    ).reset_index()


def numbers_of(command: int, printed: object) -> pandas.DataFrame:
    """All numbers that a command printed as JSON, from the least to the greatest."""
    left, numbers = [printed], list[float]()
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            left += part.values()
        elif isinstance(part, list):
            left += part
        elif isinstance(part, float):
            numbers.append(part)
    numbers.sort()
    places = range(len(numbers))
    return pandas.DataFrame({"command": command, "place": places, "value": numbers})


def ledgers_of(calls: Path) -> pandas.DataFrame:
    """How many calls each ledger has, and the digest of their keys."""
    keys: dict[str, set[str]] = {}
    for path in calls.glob("*/*.jsonl"):
        lines = path.read_text("utf-8").splitlines()
        keys.setdefault(path.parent.name, set()).update(json.loads(line)["key"] for line in lines)
    return pandas.DataFrame(
        {"ledger": name, "digest": digest(sorted(found)), "calls": len(found)}
        for name, found in sorted(keys.items())
    )


@cache
def kept(table: str) -> pandas.DataFrame:
    """A golden table of all scenarios."""
    return pandas.read_csv(GOLDEN / f"{table}.csv.gz", dtype={"run": str})


def differences(
    name: str, made: pandas.DataFrame, known: pandas.DataFrame, *, is_near: bool
) -> list[str]:
    """What differs between two tables, as sentences; [] where nothing does."""
    keys = list(TABLES[name])
    if made.empty or known.empty:
        return [] if len(made) == len(known) else [f"{name}: {len(made)} rows, not {len(known)}"]
    numbers = [c for c in known.select_dtypes("number").columns if c not in keys]
    if absent := [column for column in [*keys, *numbers] if column not in made.columns]:
        return [f"{name}: no column {', '.join(absent)}"]
    ours, theirs = (
        frame.astype({k: str for k in keys}).sort_values([*keys, *numbers], kind="stable")
        for frame in (made, known)
    )
    if ours[keys].to_numpy().tolist() != theirs[keys].to_numpy().tolist():
        both = ours[keys].merge(theirs[keys], how="outer", indicator="side").query("side != 'both'")
        return [f"{name}: {len(ours)} rows, not {len(theirs)}; {both.head(5).to_string()}"]
    found = []
    for column in numbers:
        one, other = (pandas.to_numeric(f[column]).to_numpy(float) for f in (ours, theirs))
        room = 1e-4 if is_near else 1e-9
        is_same = abs(one - other) <= room + room * abs(other)
        is_same |= pandas.isna(one) & pandas.isna(other)
        if not is_same.all():
            shown = ours[keys].assign(now=one, then=other)[~is_same].head(5).to_string()
            found.append(f"{name}, {column}: {(~is_same).sum()} differ; {shown}")
    return found


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(s, marks=[pytest.mark.slow] * (s.name in LONG)) for s in SCENARIOS],
    ids=lambda scenario: scenario.name,
)
def test_every_number_stays_as_it_was(scenario: Scenario, tmp_path: Path) -> None:
    made = carry_out(scenario, tmp_path)

    found = [
        line
        for name in TABLES
        for known in [kept(name).query("scenario == @scenario.name")]
        for line in differences(name, made[name], known, is_near=scenario.is_near)
    ]
    assert found == []


def test_every_shipped_task_is_pinned() -> None:
    tasks = {path.stem for path in (ROOT / "tasks").glob("*.yaml")}
    assert tasks <= {scenario.name for scenario in SCENARIOS}


def write(only: str | None = None, into: Path = GOLDEN) -> None:
    """Take the numbers of today for right: of one scenario, or of all."""
    names = [scenario.name for scenario in SCENARIOS]
    found = {name: [kept(name).query("scenario != @only")] if only else [] for name in TABLES}
    for scenario in (one for one in SCENARIOS if only in (None, one.name)):
        with TemporaryDirectory() as name:
            for table, frame in carry_out(scenario, Path(name).resolve()).items():
                if len(frame):
                    found[table].append(frame.assign(scenario=scenario.name))
    for table, frames in found.items():
        made = pandas.concat(frames).sort_values(
            "scenario", key=lambda own: own.map(names.index), kind="stable"
        )
        numbers = [c for c in made.select_dtypes("number").columns if c not in TABLES[table]]
        made[["scenario", *TABLES[table], *numbers]].to_csv(
            into / f"{table}.csv.gz",
            index=False,
            float_format="%.13g",
            compression={"method": "gzip", "mtime": 0},
        )


@pytest.mark.slow
def test_one_scenario_is_written_again_and_the_others_stay(tmp_path: Path) -> None:
    write("ishate_non_explicit", tmp_path)

    for name in TABLES:
        made = pandas.read_csv(tmp_path / f"{name}.csv.gz", dtype={"run": str})
        assert differences(name, made, kept(name), is_near=False) == []


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", required=True)
    parser.add_argument("--only", choices=[scenario.name for scenario in SCENARIOS])
    write(parser.parse_args().only)
