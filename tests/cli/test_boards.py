"""What `leaderboard` prints: one matrix a task and judge that fits a screen, and its options."""

import json
import re
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest
from support.run_tables import score_rows
from support.stub_script import Script
from support.stub_server import StubServer
from support.terminal import on_terminal
from support.toy import Lines, Toy, build

from harness.cli import main
from harness.present.page.page import page_data
from harness.storage.find_runs import run_folders
from harness.storage.runs import RunFolder, read_table

WORDS = {"alpha": "yes 1", "beta": "never 2"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Two models and two controls, of which the second model has not run every variant."""
    toy = build(tmp_path_factory.mktemp("boards"))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("HARNESS_DATA", raising=False)
        for name, variants in (("alpha", "base,think"), ("beta", "base")):
            reply = Script(replies={"": (WORDS[name],)})
            with StubServer(reply) as stub:
                patch.setenv("HARNESS_SERVER_URL", stub.url)
                toy.run("--variant", variants, model=name)
        toy.run(model="oracle,literal")
    return toy


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Two models with two seeds each, of which the first leaves two answers blank each time."""
    toy = build(tmp_path_factory.mktemp("seeds"))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("HARNESS_DATA", raising=False)
        for name in WORDS:
            blank = {"number 3": (" ",)} if name == "alpha" else {}
            with StubServer(Script(replies={**blank, "": (WORDS[name],)})) as stub:
                patch.setenv("HARNESS_SERVER_URL", stub.url)
                for seed in range(2):
                    toy.run("--variant", "base", f"--seed={seed}", model=name)
    return toy


def board(toy: Toy, capsys: Lines, *options: str) -> list[str]:
    capsys.readouterr()
    assert main(["leaderboard", "--results", str(toy.results), *options]) == 0
    return capsys.readouterr().out.split("\n\n")[0].splitlines()


def test_models_are_listed_by_variants_with_controls_below(ran: Toy, capsys: Lines) -> None:
    title, words, head, *lines = board(ran, capsys)

    assert title == "toy: accuracy by near"
    assert words == "data: the task's own samples (6); answers: T0+0.5; seed 0; nothing missing"
    assert head.split() == ["model", "base", "think"]
    alpha, beta, oracle, literal = (re.split(" {2,}", line) for line in lines)
    names = [one[0] for one in (alpha, beta, oracle, literal)]
    assert names == ["alpha", "beta", "oracle", "literal"]
    assert re.fullmatch(r"[\d.]+", alpha[1])
    # What was not run is blank, and no dash: that would be a score without a value.
    assert re.fullmatch(r"[\d.]+", beta[1])
    assert beta[2:] == []
    assert oracle[1:] == ["1.000", "1.000"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--judge", "nera"), "no run has a judge 'nera'; did you mean near"),
        (("--variant", "base,thing"), "no run has a variant 'thing'; did you mean think"),
        (("--task", "ishate_implicit"), "no run has a task 'ishate_implicit'"),
        (("--task", "toyy"), "did you mean toy?"),
    ],
)
def test_what_none_has_is_told(
    ran: Toy, capsys: Lines, options: tuple[str, ...], told: str
) -> None:
    assert main(["leaderboard", "--results", str(ran.results), *options]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.slow
def test_json_has_the_rows_of_the_file_and_of_a_chosen_variant(ran: Toy, capsys: Lines) -> None:
    found = []
    for options in ((), ("--variant", "think"), ("--metrics",)):
        capsys.readouterr()
        main(["leaderboard", "--results", str(ran.results), "--json", *options])
        found.append(json.loads(capsys.readouterr().out))

    whole, chosen, every = found
    assert main(["leaderboard", "--results", str(ran.results)]) == 0
    assert len(whole) == len(read_table(ran.results / "leaderboard.csv"))
    assert {row["metric"] for row in whole} == {"accuracy"} < {row["metric"] for row in every}
    assert chosen == [row for row in whole if row["variant"] == "think"]


def test_the_file_has_fewer_digits_than_that_of_the_run(ran: Toy, capsys: Lines) -> None:
    board(ran, capsys)

    shown = read_table(ran.results / "leaderboard.csv")
    exact = [row for run in ran.runs() for row in RunFolder(run).read_scores()]
    ends = {end for row in exact for end in (row.score.low, row.score.high) if end is not None}
    assert max(len(f"{end:.17g}") for end in ends) > 15
    assert {end for row in shown for end in (row.score.low, row.score.high)} - {None} == {
        float(f"{end:.6g}") for end in ends
    }


def test_chance_that_differs_by_model_is_a_range(toy: Toy, capsys: Lines, stub: StubServer) -> None:
    asked = ("run", "--task", "quiz", "--answers", "written", "--variant", "order0,hinted")
    stub.script = Script(replies={"": ("1",)}, faults={"Number 2.": ("500",) * 9})
    assert toy.main(*asked, "--model", "beta,random") == 1

    capsys.readouterr()
    main(["leaderboard", "--results", str(toy.results)])

    # Of 24 questions 12 have two choices and 12 have three; beta lacks one of two, without a hint.
    span = f"{(11 / 2 + 12 / 3) / 23:.3f} to {(12 / 2 + 12 / 3) / 24:.3f}"
    [floor] = re.findall(r"^chance  +(.*?)  +([\d.]+)", capsys.readouterr().out, re.MULTILINE)
    assert floor == (span, "0.417")


@pytest.mark.slow
def test_variants_within_an_average_are_printed_on_request(toy: Toy, capsys: Lines) -> None:
    toy.main("run", "--task", "quiz", "--model", "first,random")
    capsys.readouterr()
    heads = []
    for options in ((), ("--all",)):
        main(["leaderboard", "--results", str(toy.results), *options])
        out = capsys.readouterr().out
        heads += re.findall(r"^(?:quiz, all: |model).*", out, re.MULTILINE)
        assert ("--all prints the 2 variants that are averaged" in out) == (not options)

    assert [" ".join(head.split()) for head in heads] == [
        "quiz, all: accuracy by gold",
        "model all order0 order1",
    ]


def test_two_recipes_stand_in_two_tables_that_say_what_differs(toy: Toy, capsys: Lines) -> None:
    toy.run("--variant", "base")
    toy.run("--variant", "base", "--limit", "4")
    toy.edit("prompts/toy/base.user.j2", "What is said next?", "What comes next?")
    toy.run("--variant", "base")
    capsys.readouterr()

    main(["leaderboard", "--results", str(toy.results), "--all"])

    titles = re.findall(r"^toy, base: .*", capsys.readouterr().out, re.MULTILINE)
    assert len({*titles}) == 3
    assert all("prompts" in title for title in titles if "4 samples" not in title)


def copied(toy: Toy, count: int) -> Path:
    """The one run, after it was written once more for each of so many models."""
    [path] = toy.runs()
    run = RunFolder(path)
    file, rows = run.read(), run.read_rows()
    for n in range(count):
        other = replace(file, model=replace(file.model, name=f"a-model-with-a-long-name-{n}"))
        copy = RunFolder(path.parents[1] / other.model.name / f"{n:016x}")
        copy.write(other, rows, score_rows(other, rows))
    return path


def test_another_token_limit_is_called_so_and_a_board_left_out_is_named(
    toy: Toy, capsys: Lines
) -> None:
    assert toy.run("--variant", "base", "--tag", "short") == 0
    toy.edit(
        "tasks/toy.yaml", "{temperature: 0, max_tokens: 20}", "{temperature: 0, max_tokens: 30}"
    )
    assert toy.run("--variant", "base") == 0
    toy.edit("prompts/toy/base.user.j2", "{{ story }}", "Now: {{ story }}")
    capsys.readouterr()

    assert main(["leaderboard", "--results", str(toy.results)]) == 0
    assert toy.main("list", "runs") == 0
    out = capsys.readouterr().out
    assert "accuracy by near (20 tokens)\n" in out
    assert "; --all prints 1 more board (30, 20 tokens)" in out.replace("\n  ", " ")
    assert re.search(r"token limits +missing", out)

    for tag in ("long", "now"):  # prompts are called by tags where limits are equal
        assert toy.run("--variant", "base", "--tag", tag) == 0
        toy.edit("prompts/toy/base.user.j2", "{{ story }}", "Then: {{ story }}")
        capsys.readouterr()
    assert main(["leaderboard", "@long", "@now", "--results", str(toy.results)]) == 0
    assert "accuracy by near (@" in capsys.readouterr().out


@pytest.mark.slow
def test_a_model_under_two_names_is_shown_by_both(toy: Toy, capsys: Lines) -> None:
    """Its runs have one digest, as the identity of the model makes it."""
    toy.write("configs/models/zen.yaml", "{about: x, kind: scripted, policy: oracle}")
    assert toy.run("--variant", "base", model="oracle,zen") == 0
    capsys.readouterr()
    where, table, figure = ("--results", str(toy.results)), toy.folder / "t.csv", toy.folder / "f"

    assert main(["leaderboard", *where]) == 0
    assert main(["items", "toy/oracle", "toy/zen", "--where", "right", *where]) == 0
    assert main(["table", "--rows", "model", "--columns", "variant", "-o", f"{table}", *where]) == 0
    assert main(["plot", "forest", "-o", f"{figure}.svg", *where]) == 0

    board, _, items = capsys.readouterr().out.partition("wrote ")
    for text in (board, items, table.read_text(), Path(f"{figure}.csv").read_text()):
        assert text.count("oracle") == text.count("zen") > 0


@pytest.mark.slow
def test_twelve_models_by_eight_fit_a_terminal(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = [f"cot{n}" for n in range(7, 1, -1)]
    for name in variants:
        toy.write(f"prompts/toy/{name}.user.j2", f"{{{{ story }}}} At {name}, what next?")
        words = f"{name}: {{about: more, steps: [{{name: response, template: toy/{name}}}]}}"
        toy.edit("tasks/toy.yaml", "\nvariants:\n", f"\nvariants:\n  {words}\n")
    with StubServer(reply=lambda _: "yes 1") as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        toy.run("--variant", ",".join([*variants, "base", "think"]), model="alpha")
    rmtree(copied(toy, 12))

    code = (
        "import os, sys\nfrom harness.cli import main\nfor columns in ('80', '120'):\n"
        "    os.environ['COLUMNS'] = columns\n"
        "    main(['leaderboard', '--results', sys.argv[1], '--all'])"
    )
    out, _ = on_terminal("-c", code, str(toy.results))
    [end, _] = [place for place, line in enumerate(out) if line.startswith("wrote")]

    for columns, blocks, shown in ((80, 2, out[:end]), (120, 1, out[end + 1 : -1])):
        assert max(map(len, shown)) <= columns
        heads = [line.split()[1:] for line in shown if line.startswith("model ")]
        assert len(heads) == blocks
        assert [word for line in heads for word in line] == [*sorted(variants), *("base", "think")]
        assert sum(line.startswith("a-model") for line in shown) == 12 * blocks


@pytest.mark.slow
def test_a_board_of_many_models_fits_one_screen_and_names_the_option_for_the_rest(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with StubServer(reply=lambda _: "yes 1") as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        toy.run("--variant", "base", model="alpha")
    copied(toy, 14)

    shown = {}
    for options in ((), ("--all",)):
        capsys.readouterr()
        assert main(["leaderboard", "--results", str(toy.results), *options]) == 0
        out, err = capsys.readouterr()
        shown[options] = out.splitlines() + err.splitlines()

    short, whole = shown.values()
    assert len(short) <= 24
    assert max(map(len, [line for line in short if "/" not in line])) <= 80
    assert "--all prints 3 more models" in " ".join(short)
    counts = [sum("a-model-with" in line for line in lines) for lines in (short, whole)]
    assert counts == [12, 14]
    assert len({row.model for row in read_table(toy.results / "leaderboard.csv")}) == 15


def test_of_several_seeds_all_missing_verdicts_are_counted(seeded: Toy, capsys: Lines) -> None:
    main(["leaderboard", "--results", str(seeded.results)])

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines if "alpha" in line and " sd " in line] == ["4"]
    assert any(line.endswith("missing in all") for line in lines)


def test_a_page_compares_the_models_of_one_seed_alone(seeded: Toy) -> None:
    page = page_data(run_folders(seeded.results), seeded.results)
    tables = {section.name: section.tables for section in page.sections}
    assert (len(tables["leaderboard"]), len(tables["differences"])) == (2, 1)


def test_one_screen_has_the_main_board_and_says_what_the_rest_is(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    near = (toy.home / "configs/judges/near.yaml").read_text("utf-8")
    toy.write("configs/judges/turned.yaml", near.replace("accept: right", "accept: wrong"))
    for seed in range(3):
        toy.run("--variant", "base", "--judge=near", "--judge=turned", f"--seed={seed}")
    toy.main("run", "--task", "quiz", "--model", "first,random")
    capsys.readouterr()

    assert main(["leaderboard", "--results", str(toy.results)]) == 0

    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) + len(err.splitlines()) <= 24
    assert max(len(line) for line in lines if "/" not in line) <= 80
    assert " ".join(lines[-4:]).count("--all prints") == 1
    capsys.readouterr()
    main(["leaderboard", "--results", str(toy.results), "--task", "toy", "--judge", "near"])
    shown = capsys.readouterr().out
    assert "seeds 0 to 2" in shown or "seeds 0, 1, 2" in shown
    assert len(re.findall(r"^ *- +oracle.* sd 0.000", shown, re.MULTILINE)) == 1
