"""Exit codes, start-up, and what a mistake is told: one message that names the remedy."""

import os
import resource
import signal
import subprocess
import sys
from time import sleep

import pytest
from support.each import rest_slow
from support.packages import lacks
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Lines, Toy

from harness.cli import main
from harness.cli.app import outcome
from harness.errors import DataError

HEAVY = ("torch", "transformers", "aiohttp", "pandas", "scipy", "numpy", "pooch", "matplotlib")
QUIZ = ("--task", "quiz")
PYTHON = (sys.executable, "-W", "error", "-m", "harness")


@pytest.mark.parametrize(
    "arguments", rest_slow([["--help"], ["list"], ["list", "--json"], ["run", "--help"]], kept=2)
)
def test_commands_that_only_look_import_nothing_heavy(arguments: list[str]) -> None:
    heavy = (*HEAVY, "typer") if arguments == ["--help"] else HEAVY
    code = (
        "import sys; from harness.cli import main; main(sys.argv[1:]);"
        f"sys.exit(', '.join(set({heavy}) & set(sys.modules)) or 0)"
    )

    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)

    assert (done.returncode, done.stderr.strip()) == (0, "")


@pytest.mark.slow
def test_judging_a_stored_run_imports_no_torch(toy: Toy) -> None:
    toy.run("--variant", "base")
    start = "import sys; from harness.cli import main\n"
    each = "for one in ('near', 'choice'): assert main([*sys.argv[1:], '--judge', one]) in (0, 1)\n"
    code = f"{start}{each}sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    options = ("--home", str(toy.home), "--results", str(toy.results))

    with StubServer(Script(replies={"": ("1",)})) as stub:
        environ = {**os.environ, "HARNESS_SERVER_URL": stub.url}
        command = [sys.executable, "-c", code, "judge", str(toy.runs()[0]), *options]
        done = subprocess.run(command, capture_output=True, env=environ)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("raised", "code"),
    [(DataError("x.csv: gone"), 2), (KeyboardInterrupt(), 130), (ZeroDivisionError("ours"), 70)],
)
def test_what_a_command_raises_decides_the_exit_code_and_a_bug_has_its_traceback(
    raised: BaseException, code: int, capsys: Lines
) -> None:
    def command() -> None:
        raise raised

    assert outcome(command) == code
    err = capsys.readouterr().err
    assert {"Traceback" in err, "a bug of the harness" in err} == {code == 70}


def test_one_command_runs_several_models_on_several_tasks(toy: Toy, capsys: Lines) -> None:
    toy.write("tasks/more.yaml", (toy.home / "tasks/toy.yaml").read_text("utf-8"))
    toy.write("tasks/samples/more.jsonl", (toy.home / "tasks/samples/toy.jsonl").read_text())

    assert toy.main("run", "--task", "toy,more", "--model", "oracle, literal", "--limit", "2") == 0

    out, err = capsys.readouterr()
    ended = [line for line in err.splitlines() if ": done; run " in line]
    runs = [tuple(line.split("/")[-3:-1]) for line in ended]
    assert runs == [(task, model) for task in ("toy", "more") for model in ("oracle", "literal")]
    boards = {one.split()[0].strip(":,") for one in out.splitlines() if " accuracy by near" in one}
    assert boards <= {"more", "toy"}
    assert boards


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--task", "tyo"], ["no task 'tyo'", "did you mean toy"]),
        (["--model", "orcale"], ["no model 'orcale'", "did you mean oracle"]),
        (["--judge", "naer"], ["no judge 'naer'", "did you mean near"]),
        (["--judge", "choice", "--judge-model", "umpir"], ["no model 'umpir'", "mean umpire"]),
        (["--judge-model", "umpire"], ["--judge-model umpire", "near", "leave it out"]),
        (["--variant", "bas"], ["no variant 'bas'", "did you mean base"]),
        (["--variant", ","], ["--variant ','", "leave it out"]),
        (["--task", ""], ["--task ''", "give a name"]),
        (["--judge", ","], ["--judge", "give a name"]),
        (["--judge", "near,naer"], ["no judge 'naer'"]),
        (["--judge", "near/beta"], ["judge near/beta: near asks no model"]),
        (["--model", "mistral-7b-instruct", "--backend", "hf"], ["'hf'", "transformers, vllm or"]),
        (["--model", "mistral-7b-instruct"], ["kind vllm", "--backend transformers"]),
        (["--model", "claude-3-sonnet"], ["ANTHROPIC_API_KEY is not set", "put the key"]),
        (["--model", "gpt-4o", "--backend", "server"], ["gpt-4o.yaml", "'openai'", "leave it out"]),
        (["--model", "gpt-4o"], ["OPENAI_API_KEY is not set", "put the key"]),
        (["--model", "alpha"], ["no server at http://127.0.0.1:9/v1", "HARNESS_SERVER_URL"]),
        (["--model", "blind"], ["control 'blind' is not defined", "`controls`"]),
        (["--data-mode", "correct"], ["--data-mode 'correct'", "corrected or released"]),
        (["--data", "."], ["no folder 'toys' in it"]),
        (["--data", "/nowhere"], ["/nowhere: no such folder", "--data or HARNESS_DATA"]),
        (["--prompts", "/nowhere"], ["--prompts /nowhere: no such folder"]),
        (["--limit", "0"], ["--limit"]),
        (["--limt", "3"], ["--limt", "--limit"]),
        (["--executor", "dask"], ["--executor 'dask': give local or ray"]),
        (["--ray-address", "h:1"], ["--ray-address h:1: is for --executor ray; add that"]),
        (["--ray-workers", "2"], ["--ray-workers 2: is for --executor ray; add that"]),
        *((["--tag", tag], ["--tag"]) for tag in ("last", "a/b", "two words", "@x", "../up", "")),
        *(
            (["--shard", text], ["give i/N, i from 1 to N, as in 2/4"])
            for text in ("0/3", "4/3", "3", "1/0", "-1/2", "1/2/3", "one/two", "1/9999999")
        ),
        (["--shard", "1/2", "--batch"], ["not with --batch or --dry-run"]),
        (["--shard", "1/2", "--dry-run"], ["not with --batch or --dry-run"]),
        (["--judge", "gold"], ["judge gold cannot read", "texts", "near"]),
        (["--answers", "written"], ["--answers written is for tasks with choices"]),
        ([*QUIZ, "--model", "alpha", "--answers", "logprob"], ["alpha cannot give", "--answers"]),
        ([*QUIZ, "--answers", "loud"], ["--answers 'loud'", "logprob, top_logprobs or written"]),
        ([*QUIZ, "--judge", "near"], ["judge near cannot read", "which are choices", "gold"]),
        (
            [*QUIZ, "--variant", "hinted", "--limit", "1", "--seed", "1"],
            ["variant hinted: none of the 1 samples", "hint"],
        ),
        ([*QUIZ, "--model", "literal"], ["'literal' is not defined", "known: first, oracle"]),
    ],
)
def test_a_wrong_option_of_run_is_one_message_with_the_remedy(
    toy: Toy, capsys: Lines, arguments: list[str], facts: list[str]
) -> None:
    start = [] if "--task" in arguments else ["--task", "toy"]
    start += [] if "--model" in arguments else ["--model", "oracle"]

    assert toy.main("run", *start, *arguments) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert [fact for fact in facts if fact not in err] == []
    assert "Traceback" not in err
    assert not [path for path in toy.results.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["run", "--model", "oracle"], ["--task"]),
        (["perturb"], ["--task"]),
        (["list", "taks"], ["list taks", "tasks, models, judges, data, "]),
        (["show", "mistral"], ["no name 'mistral'", "did you mean"]),
        (["data", "fetch", "intent"], ["no data 'intent'"]),
        (["data", "check", "--data", "/nowhere"], ["/nowhere: no such folder"]),
        (["list", "--home", "/nowhere"], ["--home /nowhere: no such folder"]),
        (["read", "abc", "--results", "/nowhere"], ["no run 'abc'", "harness list runs"]),
        (["judge", "abc", "--judge", "ngram-cosine"], ["no run 'abc'"]),
        (["table", "intent-level"], ["harness: no layout 'intent-level'; did you mean intent-l"]),
        (["plot", "curves"], ["harness: no figure 'curves'; did you mean curve"]),
        (["drift", "abc", "no.csv"], ["drift: no file no.csv; name two tables"]),
        (["leaderboard", "--results", "/nowhere"], ["no runs below /nowhere/runs"]),
        (["report", "--results", "."], ["no runs below"]),
        (["check", "judge", "minilm-cosin"], ["did you mean minilm-cosine"]),
        (["check", "judge", "minilm-cosine", "--task", "topical_chat"], ["has no reference"]),
        (["check", "judge", "gold", "--task", "topical_chat"], ["no task has answers for it"]),
        (["check", "model", "oracle"], ["is a control"]),
        (["rnu"], ["No such command 'rnu'; did you mean run"]),
        (["data", "fetchh"], ["No such command 'data fetchh'; did you mean fetch"]),
        (["gate", "a", "b"], ["No such command 'gate'; did you mean compare --gate?"]),
        (["schema", "task"], ["No such command 'schema'; did you mean show schema?"]),
        (["plot", "impscore-99", "-o", "a.svg"], ["no figure 'impscore-99'"]),
        (["plot", "forest"], ["-o: name the file to write"]),
        (["plot", "forest", "-o", "a.gif"], ["-o a.gif: end its name in .pdf, .svg, .png"]),
        (["plot", "forest", "-o", "a.svg"], ["no run below"]),
        (["plot", "impscore-5", "-o", "a.svg"], ["name one or more files"]),
        (["plot", "impscore-5", "none.csv", "-o", "a.svg"], ["none.csv: no such file"]),
        (["impscore", "probe", "a.json", "-o", "out.doc"], ["-o out.doc: end its name in .csv"]),
        (["verify", "--paper", "emphasised_talk"], ["did you mean emphasized_talk"]),
        (["verify", "--data", "nowhere"], ["data folder nowhere: no such folder"]),
    ],
)
def test_a_mistake_in_any_command_is_one_message_with_the_remedy(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: Lines, arguments: list[str], facts: list[str]
) -> None:
    monkeypatch.chdir(toy.folder)

    assert main(arguments) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert [fact for fact in facts if fact not in err] == []
    assert err.count("\n") == (4 if err.startswith("Usage: ") else 1)


BASE = ("prompts/toy/base.user.j2", "{{ story }}")
TASK = "tasks/toy.yaml"
SAMPLE = "tasks/samples/toy.jsonl"


@pytest.mark.parametrize(
    ("file", "old", "new", "facts"),
    [
        (TASK, "judges:", "jugdes:", ["toy.yaml", "jugdes", "did you mean judges"]),
        (TASK, "reader: samples_jsonl", "reader: samples_json", ["did you mean samples_jsonl"]),
        (TASK, "default_variants: [base", "default_variants: [bas", ["'bas'", "mean base"]),
        (TASK, "judges: [near]", "judges: [naer]", ["no judge 'naer'", "did you mean near"]),
        (TASK, "toy/base}", "toy/bas}", ["toy/bas", "is in none of"]),
        (TASK, "samples/toy.jsonl", "samples/tyo.jsonl", ["tasks/samples/tyo.jsonl"]),
        (TASK, "about: A toy.", "about: [", ["toy.yaml: not valid YAML", "at line"]),
        (BASE[0], BASE[1], "{{ sotry }}", ["toy/base", "'sotry'", "did you mean story"]),
        (BASE[0], BASE[1], "{{ story", ["base.user.j2"]),
        (SAMPLE, "number 1.", "number 0.", ["toy.jsonl"]),
        (SAMPLE, '"fields"', '"feilds"', ["toy.jsonl:1", "fields"]),
        (SAMPLE, '"wrong"', '"wrogn"', ["'wrong'", "wrogn"]),
    ],
)
def test_a_mistake_in_a_file_names_the_file_and_the_nearest_right_thing(
    toy: Toy, capsys: Lines, *, file: str, old: str, new: str, facts: list[str]
) -> None:
    toy.edit(file, old, new)
    assert toy.run() == 2

    err = capsys.readouterr().err
    assert [fact for fact in facts if fact not in err] == []
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("content", "fact"),
    [(b"", "the file is empty"), (b'{"group": "caf\xe9"}', "not UTF-8"), (None, "cannot be read")],
)
def test_an_unread_file_is_named(toy: Toy, capsys: Lines, content: bytes | None, fact: str) -> None:
    folder = toy.folder / "data"
    (folder / "toys").mkdir(parents=True)
    if content is not None:
        (folder / "toys/toy.jsonl").write_bytes(content)

    assert toy.run("--data", str(folder)) == 2
    assert f"{folder / 'toys/toy.jsonl'}: {fact}" in capsys.readouterr().err


@pytest.mark.slow
def test_a_full_disk_is_told_and_what_was_stored_stays(toy: Toy) -> None:
    command = [*PYTHON, "run", "--task", "toy", "--model", "oracle", "--home", str(toy.home)]
    done = subprocess.run(
        [*command, "--results", str(toy.results)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000)),
    )

    assert done.returncode == 2
    assert "free some space" in done.stderr
    assert "Traceback" not in done.stderr
    assert toy.run() == 0


@pytest.mark.slow
def test_an_interrupted_run_says_how_to_go_on_and_does(toy: Toy) -> None:
    folders = ("--home", str(toy.home), "--results", str(toy.results))
    command = [*PYTHON, "run", "--task", "toy", "--model", "alpha", *folders]
    with StubServer(Script(delay_s=0.1)) as stub, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_SERVER_URL", stub.url)
        toy.edit("configs/models/alpha.yaml", "attempts: 1", "attempts: 1\nconcurrency: 2")
        pipe = subprocess.PIPE
        running = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        while stub.stats()["answered"] < 4 and running.poll() is None:
            sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
        toy.run(model="alpha")
        answered = stub.stats()["answered"]

    assert running.returncode == 130, err
    assert "repeat the command to resume" in err
    assert "Traceback" not in err
    assert 36 <= answered <= 36 + 2


def test_output_into_a_closed_pipe_is_no_bug() -> None:
    running = subprocess.Popen([*PYTHON, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None

    assert running.stderr.read() == b""
    running.stderr.close()
    assert running.wait() == 130


def test_the_version_is_printed(capsys: Lines) -> None:
    from harness import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@lacks("ray")
def test_without_ray_a_run_says_what_to_install(toy: Toy, capsys: Lines) -> None:
    assert toy.run("--executor", "ray") == 2
    assert 'pip install -e ".[ray]"' in capsys.readouterr().err
    assert toy.run("--executor", "local") == 0
