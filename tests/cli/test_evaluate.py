"""run, judge and read: what is asked, what is kept, what is said."""

import json
import os
from collections import Counter

import pytest
from support import stored_tables
from support.each import rest_slow
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import DECODINGS, MODEL, SAMPLES, Lines, Toy

from harness.cli import main
from harness.storage.runs import read_table

ANSWERS = SAMPLES * DECODINGS  # of one step
BOTH_ORDERS = 2
CHOICE = ("--judge", "choice")


def asked(stub: StubServer) -> Counter[str]:
    return Counter(body["model"] for body in stub.bodies)


def test_a_run_names_its_judges_and_warns_once_of_samples_for_data(toy: Toy, capsys: Lines) -> None:
    assert toy.run() == 0

    out, err = capsys.readouterr()
    assert "judges of task toy: near" in err
    assert " near " in out
    assert "groups and more metrics: harness leaderboard --metrics" in out
    assert err.count("WARNING") == 1
    rows = read_table(toy.runs()[0] / "scores.csv")
    assert {row.signature.split("|")[1].rpartition(":")[0] for row in rows} == {"data:sample"}


def test_a_mistake_in_one_model_is_told_before_another_is_asked(toy: Toy, stub: StubServer) -> None:
    toy.edit("configs/models/beta.yaml", "kind: openai", "kind: openia")
    assert toy.run("--variant", "base", model="alpha,beta") == 2
    assert stub.stats()["requests"] == 0


@pytest.mark.parametrize("fault", ["key-told", "key-stop"])
def test_a_key_that_a_server_repeats_is_in_no_file_and_on_no_screen(
    toy: Toy, stub: StubServer, monkeypatch: pytest.MonkeyPatch, capsys: Lines, *, fault: str
) -> None:
    key = "sk-a-key-nobody-may-see"
    monkeypatch.setenv("STUB_KEY", key)
    for name in ("alpha", "umpire"):
        toy.edit(f"configs/models/{name}.yaml", "key_env: null", "key_env: STUB_KEY")
    stub.script = Script(key=key, faults={"": (fault,)}, replies={"Judge": ("1",)})

    toy.run(*CHOICE, "--variant", "base", model="alpha")
    main(["leaderboard", "--results", str(toy.results)])
    toy.main("show", toy.runs()[0].name)

    kept = b"".join(path.read_bytes() for path in toy.results.rglob("*") if path.is_file())
    assert b"[STUB_KEY]" in kept
    assert key.encode() not in kept
    assert key not in "".join(capsys.readouterr())


@pytest.mark.parametrize("way", ["option", "environment"])
def test_a_data_folder_is_used_where_one_is_named(
    toy: Toy, way: str, monkeypatch: pytest.MonkeyPatch, capsys: Lines
) -> None:
    folder = toy.folder / "data"
    (folder / "toys").mkdir(parents=True)
    lines = (toy.home / "tasks/samples/toy.jsonl").read_text().splitlines()
    (folder / "toys/toy.jsonl").write_text("\n".join(lines[:4]))
    if way == "environment":
        monkeypatch.setenv("HARNESS_DATA", str(folder))

    assert toy.run(*(("--data", str(folder)) if way == "option" else ())) == 0

    assert "WARNING" not in capsys.readouterr().err
    assert json.loads((toy.runs()[0] / "run.json").read_text())["samples"] == 4


@pytest.mark.skipif("HARNESS_DATA" not in os.environ, reason="needs released data: HARNESS_DATA")
def test_released_and_corrected_data_differ_in_label_and_share_their_sample_ids(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    found = []
    for mode in ("released", "corrected"):
        results = tmp_path_factory.mktemp(mode)
        run = ["run", "--task", "intent_resolution", "--model", "oracle", "--variant", "base"]
        options = ["--judge", "ngram-cosine", "--data-mode", mode, "--results", str(results)]
        assert main([*run, *options]) == 0
        ids = stored_tables.samples(next(results.glob("runs/*/*/*")))
        label = json.loads(next(results.glob("runs/*/*/*/run.json")).read_text())["data"]["label"]
        found.append((label, set(ids)))

    assert found[0][0] != found[1][0]
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize(
    ("first", "then", "counts"),
    [
        (("--variant", "base", "--limit", "2"), ("--variant", "base"), (4, 8)),
        (("--variant", "base"), ("--variant", "all"), (12, 24)),
        ((), ("--variant", "base", "--limit", "2"), (36, 0)),
    ],
)
def test_a_wider_run_asks_only_for_the_rest(
    toy: Toy,
    stub: StubServer,
    first: tuple[str, ...],
    then: tuple[str, ...],
    counts: tuple[int, int],
) -> None:
    toy.run(*first, model="alpha")
    before = stub.stats()["requests"]
    toy.run(*then, model="alpha")

    assert (before, stub.stats()["requests"] - before) == counts


def test_a_changed_prompt_asks_its_own_model_anew_alone(toy: Toy, stub: StubServer) -> None:
    toy.run("--variant", "base", *CHOICE, model="alpha")
    pack = toy.folder / "pack/judges"
    pack.mkdir(parents=True)
    words = "Judge again: {{ response }} {{ option_1 }} {{ option_2 }}"
    (pack / "choice.user.j2").write_text(words)
    before = asked(stub)
    toy.run("--variant", "base", *CHOICE, "--prompts", str(pack.parent), model="alpha")
    assert asked(stub) - before == {"umpire": ANSWERS * BOTH_ORDERS}
    before = asked(stub)
    toy.edit("prompts/toy/base.user.j2", "next?", "then?")
    toy.run("--variant", "base", model="alpha")

    assert asked(stub) - before == {"alpha": ANSWERS}
    assert len(toy.runs()) == 2


def test_offline_a_model_left_to_its_server_is_the_one_whose_answers_are_stored(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.edit("configs/models/alpha.yaml", "model: alpha", "model: auto")
    with StubServer() as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        toy.run("--variant", "base", model="alpha")
    before = toy.bytes()

    assert toy.run("--variant", "base", "--offline", model="alpha") == 0

    assert toy.bytes() == before
    assert "whose answers are stored" in capsys.readouterr().err


def test_offline_two_need_a_name(toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    with StubServer() as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        for name in ("one", "two"):
            toy.write("configs/models/gamma.yaml", MODEL.replace("{name}", name))
            toy.run("--variant", "base", model="gamma")
    toy.write("configs/models/gamma.yaml", MODEL.replace("{name}", "auto"))

    assert toy.run("--variant", "base", "--offline", model="gamma") == 2
    assert "name the model in configs/models/gamma.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["read", "judge"])
def test_a_path_brings_its_results(toy: Toy, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.run("--variant", "base")
    judge = ("--judge", "near") if command == "judge" else ()
    monkeypatch.chdir(toy.folder / "home")

    assert main([command, str(toy.runs()[0]), *judge, "--home", str(toy.home)]) == 0


def test_several_models_end_in_a_table_and_one_in_none(toy: Toy, capsys: Lines) -> None:
    toy.run("--variant", "base", "--limit", "4")
    for models, boards in (("oracle", []), ("oracle,literal", ["oracle", "literal"])):
        capsys.readouterr()
        toy.run("--variant", "base", model=models)

        out = capsys.readouterr().out
        assert out.count("toy, base: accuracy by near") == bool(boards)
        ranked = [line.split()[1] for line in out.splitlines() if line.split()[:1] == ["-"]]
        assert ranked == boards


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("toy/bsae.user.j2", ["overrides nothing", "did you mean toy/base.user.j2?"]),
        ("toy/base.user.j2", []),
    ],
)
def test_a_pack_of_no_use_is_told_of(toy: Toy, capsys: Lines, file: str, words: list[str]) -> None:
    (toy.folder / "pack/toy").mkdir(parents=True)
    (toy.folder / "pack" / file).write_text("{{ story }}")

    toy.run("--dry-run", "--prompts", str(toy.folder / "pack"))

    err = capsys.readouterr().err
    assert [word for word in words if word not in err] == []
    assert ("--prompts" in err) == bool(words)
    replaced = f"prompts: {toy.folder / 'pack'} replaces 1 template: toy/base\n"
    assert (replaced in err) == (not words)


def test_a_further_judge_ends_in_the_bytes_of_judging_at_once(toy: Toy, stub: StubServer) -> None:
    toy.run("--variant", "base", model="alpha")
    before = asked(stub)

    assert toy.main("judge", toy.runs()[0].name[:6], *CHOICE) == 0

    assert asked(stub) - before == {"umpire": ANSWERS * BOTH_ORDERS}
    afterwards, rows = toy.bytes(), stored_tables.rows(toy.runs()[0], "verdicts")
    assert {row["judge"] for row in rows} == {"choice", "near"}
    (toy.runs()[0] / "run.json").unlink()
    toy.run("--variant", "base", "--judge", "near", *CHOICE, model="alpha")
    assert toy.bytes() == afterwards


@pytest.mark.parametrize("command", ["run", "judge"])
def test_no_model_judges_itself(toy: Toy, stub: StubServer, command: str, capsys: Lines) -> None:
    toy.run("--variant", "base", model="umpire")
    start = ("--variant", "base") if command == "run" else (str(toy.runs()[0]),)
    model = ("--task", "toy", "--model", "umpire") if command == "run" else ()

    assert toy.main(command, *start, *model, *CHOICE) == 2
    assert "--judge-model" in capsys.readouterr().err
    assert toy.main(command, *start, *model, *CHOICE, "--allow-self-judge") == 0


def test_a_judge_by_another_model_stands_beside(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    toy.run("--variant", "base", *CHOICE, model="alpha")
    toy.run("--variant", "base", *CHOICE, "--judge-model", "beta", model="alpha")

    rows = read_table(toy.runs()[0] / "scores.csv")
    assert {(r.score.judge, r.signature.split("|")[5].rpartition("@")[2]) for r in rows} == {
        ("choice", "umpire"),
        ("choice/beta", "beta"),
    }
    costs = json.loads((toy.runs()[0] / "run.json").read_text())["costs"]
    assert [costs["judges"][name]["calls"] for name in ("choice", "choice/beta")] == [
        ANSWERS * BOTH_ORDERS
    ] * 2
    assert "judge choice/beta " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "label", "model"),
    [
        (("--judge", "choice/umpire"), "choice", "umpire"),
        ((*CHOICE, "--judge-model", "umpire"), "choice", "umpire"),
        (("--judge", "choice/beta", "--judge-model", "umpire"), "choice/beta", "beta"),
    ],
)
def test_a_judge_is_named_after_another_model_than_its_own_alone(
    toy: Toy, stub: StubServer, *, options: tuple[str, ...], label: str, model: str
) -> None:
    toy.run("--variant", "base", model="alpha")
    assert toy.main("judge", str(toy.runs()[0]), *options) == 0

    assert asked(stub)[model] == ANSWERS * BOTH_ORDERS
    told = json.loads((toy.runs()[0] / "run.json").read_text())["judges"]
    assert {(part["name"], part["asks"]) for part in told} == {("near", None), (label, model)}


@pytest.mark.parametrize("reply", ["1", "who knows"])
def test_a_reply_that_cannot_be_read_stays_and_the_ways_on_are_named(
    toy: Toy, stub: StubServer, capsys: Lines, *, reply: str
) -> None:
    stub.script = Script(replies={"Judge": (reply,)})
    toy.run("--variant", "base", *CHOICE, model="alpha")
    before = asked(stub)

    toy.run("--variant", "base", *CHOICE, "--retry", "all", model="alpha")

    assert asked(stub) == before
    err = capsys.readouterr().err
    assert ("let another model judge (--judge choice/MODEL)" in err) == (reply != "1")


@pytest.mark.parametrize("is_json", [False, True])
def test_a_judge_is_tried_dry(toy: Toy, stub: StubServer, capsys: Lines, *, is_json: bool) -> None:
    toy.run("--variant", "base", model="alpha")
    before, requests = toy.bytes(), stub.stats()["requests"]
    capsys.readouterr()

    assert toy.main("judge", str(toy.runs()[0]), *CHOICE, "--dry-run", *["--json"] * is_json) == 0

    out = capsys.readouterr().out
    kinds = [ANSWERS, ANSWERS]
    assert [part["calls"] for part in json.loads(out)] == kinds if is_json else "24 calls" in out
    assert (toy.bytes(), stub.stats()["requests"]) == (before, requests)


def test_reading_by_another_cut_lists_changes(toy: Toy, capsys: Lines, stub: StubServer) -> None:
    stub.reply = lambda _: "never\n\nyes yes yes yes"
    toy.run("--variant", "base", model="alpha")
    before = toy.bytes()
    toy.edit("tasks/toy.yaml", "judges: [near]", "postprocess: blank_line\njudges: [near]")

    assert toy.main("read", str(toy.runs()[0])) == 0

    out, err = capsys.readouterr()
    assert out.count("1.0 -> 0.0") == ANSWERS
    assert "the cut of task toy: changed since this run was scored" in err
    assert toy.bytes() == before


@pytest.mark.parametrize(
    ("file", "old", "new", "count"),
    [
        ("prompts/judges/choice.user.j2", "Judge", "Weigh", ANSWERS),
        ("configs/judges/choice.yaml", "decoding:", "orders: single\ndecoding:", ANSWERS),
        ("tasks/toy.yaml", "about: A toy.", "about: Another.", 0),
    ],
)
def test_reading_tells_how_many_questions_would_be_worded_otherwise(
    toy: Toy, stub: StubServer, capsys: Lines, *, file: str, old: str, new: str, count: int
) -> None:
    toy.run("--variant", "base", *CHOICE, model="alpha")
    toy.edit(file, old, new)

    assert toy.main("read", str(toy.runs()[0])) == 0
    said = f"judge choice: the wording of {count} questions has changed since"
    assert (said in capsys.readouterr().err) == (count > 0)


@pytest.mark.parametrize(
    ("file", "old", "new", "facts"),
    [
        (
            *("models/umpire", "key_env: null", "key_env: UMPIRE_KEY"),
            [
                "judge choice: the environment variable UMPIRE_KEY is not set",
                *("configs/models/umpire.yaml", "--judge-model"),
            ],
        ),
        ("judges/near", "accept: right", "accept: rihgt", ["'rihgt'"]),
    ],
)
def test_a_judge_without_its_key_or_a_reference_is_told_before_the_model_is_asked(
    toy: Toy, stub: StubServer, capsys: Lines, *, file: str, old: str, new: str, facts: list[str]
) -> None:
    toy.edit(f"configs/{file}.yaml", old, new)

    assert toy.run("--judge", "choice,near", model="alpha") == 2
    err = capsys.readouterr().err
    assert [fact for fact in facts if fact not in err] == []
    assert stub.stats()["requests"] == 0


def test_several_models_give_a_list_of_json_objects(toy: Toy, capsys: Lines) -> None:
    toy.run("--json", model="oracle,literal")
    assert len(json.loads(capsys.readouterr().out)) == 2


@pytest.mark.parametrize("more", rest_slow(["", "stored", "--dry-run", "--shard 1/2"], kept=2))
def test_a_judge_of_another_task_is_refused(toy: Toy, capsys: Lines, more: str) -> None:
    words = "run --task intent_resolution --model oracle --limit 4"
    if more == "stored":
        assert toy.main(*words.split()) == 0
        words, more = "judge intent_resolution/oracle", ""

    assert toy.main(*words.split(), "--judge", "score/alpha", *more.split()) == 2

    err = capsys.readouterr().err
    assert "judge score/alpha cannot read the answers to task intent_resolution (" in err
    assert "'before' is undefined" in err
    assert err.endswith("the task's own judges can: minilm-cosine\n")
