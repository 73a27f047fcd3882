"""Shards of a run, put together: the bytes of one undisturbed run; scripts that start them."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from support.each import rest_slow
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Lines, Toy, lines

from harness.cli import main
from harness.core import Sample
from harness.pipeline.studies.shards import Shard

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"
JUDGED = ("--judge", "choice", "--judge", "near")
PLAN = """
    about: Two models behind a server, of which one is paid, and a control.
    models: [alpha, beta]
    controls: [oracle]
    tasks:
      - {task: toy, judges: [near, choice/beta], variants: [base, think]}
      - {task: quiz, answers: written}
    allow_self_judge: true
    budget_usd: 9
"""


def results(toy: Toy, name: str) -> Toy:
    """The same home folder, with results of another name."""
    other = Toy(toy.folder / name)
    other.folder.mkdir()
    (other.folder / "home").symlink_to(toy.home)
    return other


def gather(home: Toy, machines: Iterable[Toy]) -> None:
    """Copy the stored calls of some machines into the results of another."""
    for one in (one for one in machines if (one.results / "calls").is_dir()):
        shutil.copytree(one.results / "calls", home.results / "calls", dirs_exist_ok=True)


def files(toy: Toy) -> dict[str, bytes]:
    return {
        str(path.relative_to(toy.results)): path.read_bytes()
        for place in ("runs", "plans")
        for path in sorted(toy.results.glob(f"{place}/**/*"))
        if path.is_file()
    }


def test_a_cluster_is_in_one_shard_of_each_split_and_its_samples_stay_together() -> None:
    samples = [Sample(str(n), {"text": str(n)}, cluster=f"pair {n // 2}") for n in range(200)]

    for count in (1, 2, 7):
        shards = [Shard(number, count) for number in range(1, count + 1)]
        found = [[part.number for part in shards if part.has(one, 3)] for one in samples]
        assert all(len(one) == 1 for one in found)
        assert [one for one in found[::2]] == [one for one in found[1::2]]
        assert len({one[0] for one in found}) == count


@pytest.mark.parametrize("count", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 7))])
def test_shards_in_any_order_equal_one_run(toy: Toy, stub: StubServer, count: int) -> None:
    assert toy.run(*JUDGED, model="alpha") == 0
    whole, asked = files(toy), stub.stats()["answered"]
    other = results(toy, "shards")

    for number in sorted(range(1, count + 1), key=lambda n: n * 5 % 7):
        assert other.run(*JUDGED, "--shard", f"{number}/{count}", model="alpha") == 0
        assert files(other) == {}
    assert other.main("merge", "--task", "toy", "--model", "alpha", *JUDGED) == 0

    assert files(other) == whole
    assert stub.stats()["answered"] == 2 * asked


@pytest.mark.slow
def test_shards_are_copied_and_calls_made_twice_count_once(toy: Toy, stub: StubServer) -> None:
    assert toy.main("run", "--task", "quiz", "--model", "alpha", "--answers", "written") in (0, 1)
    given = ("--task", "quiz", "--model", "alpha", "--answers", "written")
    assert toy.run(*JUDGED, model="alpha") == 0
    whole, home = files(toy), results(toy, "home0")
    # Shard 1 twice, as by a task that Slurm began again before its first process had ended.
    numbers, machines = (1, 2, 1), [results(toy, f"machine{n}") for n in range(3)]

    for number, machine in zip(numbers, machines, strict=True):
        machine.main("run", *given, "--shard", f"{number}/2")
        machine.run(*JUDGED, "--shard", f"{number}/2", model="alpha")
    gather(home, machines)
    for words in (given, ("--task", "toy", "--model", "alpha", *JUDGED)):
        assert home.main("merge", *words) in (0, 1)

    assert files(home) == whole


@pytest.mark.parametrize("is_plan", rest_slow([False, True], kept=1))
def test_a_merge_into_a_fresh_folder_takes_auto_from_the_calls_it_copies(
    toy: Toy, stub: StubServer, monkeypatch: pytest.MonkeyPatch, capsys: Lines, *, is_plan: bool
) -> None:
    toy.edit("configs/models/beta.yaml", "model: beta", "model: auto")
    options = ("--task", "toy", "--model", "beta", "--judge", "near")
    given = (str(toy.write("night.yaml", PLAN)),) if is_plan else options
    whole = results(toy, "whole")
    assert whole.main("run", *given) in (0, 1)
    away, here = results(toy, "away"), results(toy, "here")
    for number in (1, 2):
        assert away.main("run", *given, "--shard", f"{number}/2") in (0, 1)
    monkeypatch.setenv("HARNESS_SERVER_URL", "http://127.0.0.1:9/v1")
    capsys.readouterr()

    gather(here, [away])
    assert here.main("merge", *given) in (0, 1)

    assert files(here) == files(whole)
    assert capsys.readouterr().err.count("; taken for ") == 1


def with_shared_prompts(toy: Toy, *, is_judged_alone: bool = False) -> None:
    """Eight samples of a cluster each that lead to two prompts, and to two or eight of a judge."""
    made = []
    for number, line in enumerate(lines(8)):
        words = json.loads(line)
        words["fields"]["story"] = f"number {number % 2}."
        to = number if is_judged_alone else number % 2
        words["references"] = {"right": [f"yes {to}"], "wrong": [f"never {to}"]}
        made.append(json.dumps(words | {"id": f"s{number}", "cluster": f"c{number}"}))
    (toy.home / "tasks/samples/toy.jsonl").write_text("\n".join(made))


@pytest.mark.slow
def test_a_bundle_of_shards_of_equal_calls_holds(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    with_shared_prompts(toy)
    home, machines = results(toy, "home0"), [results(toy, f"machine{n}") for n in (1, 2)]
    for number, machine in enumerate(machines, 1):
        assert machine.run(*JUDGED, "--shard", f"{number}/2", model="alpha") == 0
    gather(home, machines)
    given = ("--task", "toy", "--model", "alpha", *JUDGED)
    assert home.main("merge", *given) == 0

    zipped = str(toy.folder / "x.zip")
    assert home.main("bundle", *map(str, home.runs()), "-o", zipped) == 0
    assert main(["bundle", "--check", zipped]) == 0, capsys.readouterr().out


def test_shards_with_different_answers_to_one_prompt_are_whole_when_run_on_the_merged_folder(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: Lines
) -> None:
    with_shared_prompts(toy, is_judged_alone=True)
    home, machines = results(toy, "home0"), [results(toy, f"machine{n}") for n in (1, 2)]
    given = ("--task", "toy", "--model", "alpha", "--judge", "choice", "--variant", "base")
    for number, machine in enumerate(machines, 1):
        replies = {"Judge": ("1",), "Story": (f"answer of machine {number}",)}
        with StubServer(Script(replies=replies)) as server:
            monkeypatch.setenv("HARNESS_SERVER_URL", server.url)
            assert machine.main("run", *given, "--shard", f"{number}/2") == 0
    gather(home, machines)

    refused = home.main("merge", *given)
    said = capsys.readouterr().err
    with StubServer(Script(replies={"Judge": ("1",)})) as server:
        monkeypatch.setenv("HARNESS_SERVER_URL", server.url)
        again = home.main("run", *given, "--shard", "2/2")
        asked = server.stats()["answered"]

    assert (refused, again, home.main("merge", *given)) == (2, 0, 0)
    assert f"{asked} calls are not stored" in said


def test_shards_of_own_folders_stay_within_a_budget_together(toy: Toy, stub: StubServer) -> None:
    cap = 0.0008
    assert toy.run("--judge", "near", "--variant", "base", model="alpha") == 0
    earlier = [*toy.results.glob("calls/alpha/*")]
    machines = [results(toy, f"machine{n}") for n in (1, 2)]

    codes = []
    for number, machine in enumerate(machines, 1):
        shutil.copytree(toy.results / "calls", machine.results / "calls")
        part = ("--budget", str(cap), "--shard", f"{number}/2")
        codes.append(machine.run("--judge", "near", *part, model="alpha"))

    known = {path.name for path in earlier}
    found = [path for one in machines for path in one.results.glob("calls/alpha/*")]
    made = [path for path in found if path.name not in known]
    assert (codes, 0 < paid(earlier) < paid(earlier + made) <= cap) == ([130, 130], True)


def paid(segments: Iterable[Path]) -> float:
    lines = [json.loads(one) for path in segments for one in path.read_text("utf-8").splitlines()]
    return sum(line["response"]["usage"].get("cost_usd") or 0.0 for line in lines)


def test_a_merge_missing_calls_writes_nothing(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    toy.run("--shard", "1/3", "--variant", "base", model="alpha")
    toy.run("--shard", "3/3", "--variant", "base", model="alpha")
    capsys.readouterr()

    code = toy.main("merge", "--task", "toy", "--model", "alpha", "--variant", "base")

    err = capsys.readouterr().err
    found = re.search(r"(\d+) calls are not stored \((\d+) of toy, alpha\): run the shards", err)
    assert code == 2
    assert found is not None
    assert found[1] == found[2] != "0"
    assert files(toy) == {}


def test_a_merge_names_the_shard_of_all_that_lacks(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    given = ("--task", "quiz", "--model", "alpha", "--answers", "written")
    for number in (1, 3):
        toy.main("run", *given, "--shard", f"{number}/3")
    assert toy.main("merge", *given) == 2

    assert "24 calls are not stored (24 of quiz, alpha): run shard 2/3," in capsys.readouterr().err


def test_a_shard_of_judges_reads_a_part_of_a_stored_run(toy: Toy, stub: StubServer) -> None:
    toy.run("--judge", "near", model="alpha")
    [folder] = toy.runs()
    before = files(toy)
    for number in (2, 1):
        part = ("--shard", f"{number}/2")
        assert toy.main("judge", str(folder), "--judge", "choice", *part) == 0
    assert files(toy) == before

    assert toy.main("judge", str(folder), "--judge", "choice", "--offline") == 0
    merged = files(toy)
    assert toy.run("--judge", "near,choice", model="alpha") == 0

    assert files(toy) == merged != before


@pytest.mark.slow
def test_a_plan_in_shards_ends_in_the_bytes_of_one_plan(toy: Toy, stub: StubServer) -> None:
    path = toy.write("night.yaml", PLAN)
    other = results(toy, "shards")

    code = toy.main("run", str(path))
    parts = [other.main("run", str(path), "--shard", f"{number}/3") for number in (3, 1, 2)]

    assert files(other) == {}
    assert (other.main("merge", str(path)), set(parts)) == (code, {0})
    assert files(other) == files(toy)


@pytest.mark.slow
def test_a_budget_is_shared_by_shards_and_never_passed(toy: Toy, stub: StubServer) -> None:
    path = toy.write("night.yaml", PLAN.replace("budget_usd: 9", "budget_usd: 0.003"))
    codes = [toy.main("run", str(path), "--shard", f"{number}/3") for number in (1, 2, 3)]

    cost = paid((toy.results / "calls").rglob("*.jsonl"))
    assert (codes, 0 < cost <= 0.003) == ([130] * 3, True)


def test_a_shard_of_which_a_run_failed_is_no_success_that_a_merge_may_follow(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: Lines
) -> None:
    with StubServer() as gone:
        monkeypatch.setenv("HARNESS_SERVER_URL", gone.url)
    plan = str(toy.write("night.yaml", PLAN))

    assert toy.main("run", plan, "--shard", "1/2") == 2
    out, err = capsys.readouterr()
    assert "no server at" in err
    assert "quiz, oracle (written): shard 1/2, " in err
    assert out.startswith("no run is written")


def bash(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environ = os.environ | {"PYTHONPATH": str(PAGE.parents[1])} | variables
    return subprocess.run(
        ["bash", *words], env=environ, capture_output=True, text=True, check=False, timeout=600
    )


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def blocks(kind: str) -> list[str]:
    shards = PAGE.read_text("utf-8").partition("\n## Ray\n")[0]
    return re.findall(rf"```{kind}\n(.*?)```", shards, re.DOTALL)


def test_every_script_on_the_page_of_clusters_is_bash() -> None:
    jobs = [yaml.safe_load(text) for text in blocks("yaml")]
    containers = [job["spec"]["template"]["spec"]["containers"][0] for job in jobs]
    scripts = [*blocks("sh"), *(text for one in containers for text in one.get("args", ()))]

    assert [text for text in scripts if bash("-n", "-c", text).returncode] == []
    assert (len(scripts), len(jobs)) == (5, 1)
    assert f'+ 1))/{jobs[0]["spec"]["completions"]}"' in containers[0]["args"][0]
    assert jobs[0]["spec"]["completionMode"] == "Indexed"


def test_the_loop_over_ssh_on_the_page_gives_every_host_its_shard_and_merges(toy: Toy) -> None:
    [text] = [block for block in blocks("sh") if "ssh" in block]
    log, folder = toy.folder / "log", toy.folder / "bin"
    for name in ("ssh", "rsync", "harness"):
        program(folder / name, f'#!/bin/bash\necho "{name} $*" >> "{log}"\n')

    done = bash("-c", f"cd {toy.folder}; {text}", PATH=f"{folder}:{os.environ['PATH']}")

    lines = log.read_text().splitlines()
    shards = {line.split()[1]: line.split()[-1] for line in lines if line.startswith("ssh")}
    assert done.returncode == 0
    assert shards == {"node1": "1/3", "node2": "2/3", "node3": "3/3"}
    assert [line.split()[2] for line in lines if line.startswith("rsync")] == [
        f"node{number}:study/results/calls" for number in (1, 2, 3)
    ]
    assert lines[-1] == "harness merge night.yaml"


def program_of_harness(toy: Toy) -> dict[str, str]:
    """Variables with which `python -m harness` in a script uses the toy's folders."""
    path = toy.folder / "bin/python"
    own = f"--home {toy.home} --results {toy.results}"
    program(path, f'#!/bin/bash\nshift 2\nexec {sys.executable} -m harness "$@" {own}\n')
    return {"PATH": f"{path.parent}:{os.environ['PATH']}"}


def slurm_script(toy: Toy, *, serves: bool = False) -> Path:
    text, serving = (block for block in blocks("sh") if "SLURM_ARRAY_TASK_ID" in block)
    if serves:
        line = next(one for one in text.splitlines() if "--shard" in one)
        text = text.replace(line, serving.rstrip("\n").replace('"vllm-', f'"{toy.folder}/vllm-'))
    plan = toy.write(
        "night.yaml", PLAN.replace("[alpha, beta]", "[local-server]" if serves else "[alpha]")
    )
    path = Path(toy.folder / "night.sh")
    path.write_text(text.replace("night.yaml", str(plan)).replace("/8", "/2"))
    return path


@pytest.mark.slow
def test_the_slurm_script_submits_its_shards_and_the_merge(toy: Toy, stub: StubServer) -> None:
    path, variables = slurm_script(toy), program_of_harness(toy)
    log = toy.folder / "log"
    program(toy.folder / "bin/sbatch", f'#!/bin/bash\nprintf "%s\\n" "$@" - >> "{log}"\necho 71\n')

    ran = [bash(str(path), "submit", **variables)]
    ran += [bash(str(path), SLURM_ARRAY_TASK_ID=index, **variables) for index in ("1", "0")]
    array, after, _ = log.read_text().split("-\n")
    ran.append(bash("-c", after.split("--wrap\n")[1], **variables))

    other = results(toy, "whole")
    assert other.main("run", str(toy.home / "night.yaml")) in (0, 1)
    assert [one.returncode for one in ran] == [0] * 4, ran[-1].stderr
    assert array.split() == ["--parsable", str(path)]
    assert after.split("\n")[:2] == ["--dependency=afterok:71", "--kill-on-invalid-dep=yes"]
    assert files(toy) == files(other) != {}


@pytest.mark.slow
def test_a_slurm_task_serves_its_own_checkpoint_and_ends_it(toy: Toy) -> None:
    path, variables = slurm_script(toy, serves=True), program_of_harness(toy)
    stub = f"cd {PAGE.parents[1]}/tests && exec {sys.executable} -m support.stub_server --port"
    program(toy.folder / "bin/vllm", f'#!/bin/bash\nsleep 1\n{stub} "$6"\n')

    ran = [bash(str(path), SLURM_ARRAY_TASK_ID=one, **variables) for one in ("0", "1")]

    assert [one.returncode for one in ran] == [0, 0], ran[0].stderr
    assert bash(str(path), "merge", **variables).returncode == 0
