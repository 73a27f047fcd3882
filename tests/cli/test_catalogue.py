"""list and show: the folders are the registry, a user's own among them."""

import pytest
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import MODEL, Lines, Toy

from harness.cli import main
from harness.cli.catalogue import SECTIONS


@pytest.mark.parametrize(
    ("section", "names"),
    [
        *(("tasks", "toy intent_resolution"), ("models", "alpha oracle")),
        *(("judges", "near minilm-cosine"), ("data", "hu2022"), ("scorers", "impscore-minilm")),
    ],
)
def test_a_section_has_the_names_of_the_home_and_those_that_ship_in_80_columns(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch, section: str, names: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert toy.main("list", section, "--all") == 0

    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == [section, *(["kind"] if section == "models" else []), "about"]
    assert set(names.split()) <= {line.split()[0] for line in lines if line.strip()}
    assert max(map(len, lines)) <= 80


def test_list_alone_fits_a_screen_and_has_a_line_of_each_kind(capsys: Lines) -> None:
    assert main(["list"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[: len(SECTIONS)]] == [*SECTIONS]
    assert "harness list KIND" in lines[-1]
    main(["list", "--help"])
    said = capsys.readouterr().out
    assert [kind for kind in (*SECTIONS, "runs") if kind not in said] == []


def test_no_run_is_told_and_no_results_folder_is_a_mistake(toy: Toy, capsys: Lines) -> None:
    assert toy.main("list", "runs") == 2
    assert f"--results {toy.results}: no such folder" in capsys.readouterr().err
    toy.results.mkdir()

    assert toy.main("list", "runs") == 0
    assert f"no runs below {toy.results}/runs" in capsys.readouterr().err


def test_what_a_run_lacks_is_shown_and_listed(toy: Toy, capsys: Lines, stub: StubServer) -> None:
    stub.script = Script(faults={"number 3": ("500",) * 9})
    toy.run("--variant", "base", model="alpha")
    capsys.readouterr()
    toy.main("list", "runs")
    toy.main("show", str(toy.runs()[0]))

    told = capsys.readouterr().out
    before, _, after = told.partition("age\n")
    assert after.split()[before.splitlines()[-1].split().index("missing")] == "2"
    assert "# no answer to judge: 2 failed\n#   2 of 2: http://127.0.0.1:" in told
    assert "answered 500: scripted fault 500; gave up after attempt 1 of 1\n" in told


@pytest.mark.parametrize(
    ("name", "told"), [("oracel", "did you mean oracle?"), ("zzzz", "`harness list` lists")]
)
def test_an_unknown_name_brings_no_whole_list(
    toy: Toy, capsys: Lines, name: str, told: str
) -> None:
    assert toy.main("show", name) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "known:" not in err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("oracle", ["scripted"]),
        ("mistral-7b-instruct", ["vllm", "add --backend transformers"]),
        ("claude-3-sonnet", ["anthropic"]),
    ],
)
def test_models_are_listed_by_kind(toy: Toy, capsys: Lines, name: str, words: list[str]) -> None:
    toy.main("list", "models", name.partition("-")[0])
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == [name]]
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize("name", ["toy", "near", "alpha", "intent_resolution", "oracle"])
def test_show_prints_the_file_behind_a_name(toy: Toy, capsys: Lines, name: str) -> None:
    assert toy.main("show", name) == 0
    assert f"/{name}.yaml\n" in capsys.readouterr().out


def test_show_prints_a_run(toy: Toy, capsys: Lines) -> None:
    toy.run("--variant", "base")

    assert toy.main("show", toy.runs()[0].name[:8]) == 0
    short = capsys.readouterr().out
    assert toy.main("show", toy.runs()[0].name[:8], "--all") == 0

    assert "toy, oracle: accuracy" in short
    assert len(short.splitlines()) <= 24
    assert "--all" in short.splitlines()[-1]
    assert '"planned": 12' in capsys.readouterr().out


def test_a_file_that_is_not_utf_8_hinders_no_list(toy: Toy, capsys: Lines) -> None:
    (toy.home / "configs/models/alpha.yaml").write_bytes(b"about: caf\xe9\nkind: openai\n")

    assert (toy.main("list"), toy.main("show", "alpha")) == (0, 0)
    assert toy.run(model="alpha") == 2
    assert "alpha.yaml: not UTF-8" in capsys.readouterr().err


def test_one_file_makes_a_model_and_two_make_a_judge(toy: Toy) -> None:
    toy.write("configs/models/second-oracle.yaml", "kind: scripted\npolicy: oracle\n")
    toy.write("prompts/judges/mine.user.j2", "{{ response }} {{ option_1 }} {{ option_2 }}")
    toy.write("configs/judges/mine.yaml", (toy.home / "configs/judges/choice.yaml").read_text())
    toy.edit("configs/judges/mine.yaml", "judges/choice", "judges/mine")

    assert toy.run("--judge", "mine", "--dry-run", model="second-oracle") == 0


def test_the_home_overrides_what_ships(toy: Toy, capsys: Lines) -> None:
    toy.write("configs/models/oracle.yaml", MODEL.replace("{name}", "oracle"))
    assert toy.run(model="oracle") == 2
    assert "no server at http://127.0.0.1:9/v1" in capsys.readouterr().err
