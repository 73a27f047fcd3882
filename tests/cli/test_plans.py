"""A plan: several runs from one file, under one budget; counted, told, carried out, resumed."""

import json
import re
from dataclasses import replace
from pathlib import Path
from weakref import ref

import pytest
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import Lines, Toy

from harness.core import Response
from harness.models.client.cached import Budget
from harness.models.scripted import ScriptedModel
from harness.pipeline.studies import plans
from harness.specs.plans import PlannedTask, PlanSpec
from harness.specs.tasks import DecodingSpec
from harness.storage.runs import RunFolder
from harness.workspace import Workspace

CONTROLS = """
    about: Controls alone.
    controls: [oracle, literal]
    tasks:
      - {task: toy, variants: [base]}
      - {task: quiz, variants: [order0], seeds: [0, 1]}
"""
PAID = """
    about: Two models behind a server, of which one is paid.
    models: [alpha, beta]
    tasks: [{task: toy, judges: [near], variants: [base]}, {task: toy, judges: [choice]}]
    allow_self_judge: true
    budget_usd: {usd}
"""
HOSTED = (
    "{{kind: openai, about: x, model: new-1, base_url: '{url}', key_env: STUB_KEY, choices: echo}}"
)


def plan(toy: Toy, *arguments: str, text: str = CONTROLS) -> int:
    return toy.main("run", str(toy.write("night.yaml", text)), *arguments)


def told(capsys: Lines) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def cost(toy: Toy) -> float:
    files = (toy.results / "calls").rglob("*.jsonl")
    lines = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    return sum(line["response"]["usage"].get("cost_usd") or 0.0 for line in lines)


def test_a_plan_runs_every_model_on_every_task_ranks_all_and_repeated_asks_nothing(
    toy: Toy, capsys: Lines
) -> None:
    assert plan(toy) == 0

    # `literal` is no control of quiz, which has a run for each seed
    ran = ["/".join(path.parts[-3:-1]) for path in toy.runs()]
    assert ran == ["quiz/oracle", "quiz/oracle", "toy/literal", "toy/oracle"]
    out, err = capsys.readouterr()
    assert "[1/4] toy, oracle: done; run" in err
    assert "[3/4] quiz, oracle (seed 1): done" in err
    assert "toy, base" in out or "toy: accuracy" in out
    board = (toy.results / "plans/night/leaderboard.csv").read_text("utf-8")
    assert {line.split(",")[0] for line in board.splitlines()[1:]} == {"toy", "quiz"}
    assert "<html" in (toy.results / "plans/night/report.html").read_text("utf-8")
    before = toy.bytes()
    stamps = {path: path.stat().st_mtime_ns for path in toy.results.glob("runs/**/*.*")}
    assert (plan(toy), capsys.readouterr().out) == (0, out)
    assert toy.bytes() == before
    assert {p: p.stat().st_mtime_ns for p in toy.results.glob("runs/**/*.*")} == stamps
    assert plan(toy, "--dry-run") == 0
    out = capsys.readouterr().out
    assert re.search(r"\nin all: nothing to ask: all \d+ calls are stored\n", out)
    assert "US dollars" not in out


def test_a_task_of_a_plan_may_draw_answers_in_its_own_way(toy: Toy, capsys: Lines) -> None:
    own = "{task: toy, variants: [base], decoding: {temperature: 1, max_tokens: 9}}"
    text = f"about: x\ncontrols: [oracle]\ntasks: [{own}, {{task: toy, variants: [base]}}]\n"
    assert plan(toy, text=text) == 0

    assert "toy, oracle (T1, 9 tokens): done" in capsys.readouterr().err
    drawn = [RunFolder(path).read().task.decodings for path in toy.runs()]
    assert (DecodingSpec(temperature=1, max_tokens=9),) in drawn
    assert len(drawn) == len({*drawn}) == 2


def test_a_dry_run_has_a_line_a_cell_and_one_sum_and_asks_nothing(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    assert plan(toy, "--dry-run", text=PAID.replace("{usd}", "5")) == 0

    lines = capsys.readouterr().out.splitlines()
    named = [" ".join(line.split()[:2]) for line in lines[2:6]]
    assert named == ["toy alpha", "toy alpha", "toy beta", "toy beta"]
    [whole] = [line for line in lines if line.startswith("in all: ")]
    assert "price: " in whole
    assert any("budget_usd 5: stored calls have cost 0 USD" in line for line in lines)
    assert stub.stats()["requests"] == 0
    assert not (toy.results / "runs").exists()


def test_what_a_model_without_a_price_costs_is_unknown_and_not_nothing(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    toy.write("configs/models/new.yaml", HOSTED.format(url=stub.url))
    text = PAID.replace("{usd}", "5").replace("alpha, beta", "oracle, new")

    assert plan(toy, "--dry-run", text=text) == 0

    assert "and what the others cost is unknown: no price\n" in capsys.readouterr().out


def test_a_model_that_cannot_start_stops_no_other(
    toy: Toy, stub: StubServer, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STUB_KEY", raising=False)
    toy.write("configs/models/new.yaml", HOSTED.format(url=stub.url))

    assert toy.run("--variant", "base", model="new,oracle") == 1

    out, err = capsys.readouterr()
    assert [path.parent.name for path in toy.runs()] == ["oracle"]
    assert "[1/2] toy, new: failed: model new: " in err
    assert "toy, base: accuracy" in out
    assert toy.run("--variant", "base", model="new") == 2


def test_a_control_is_left_out_of_a_task_that_does_not_define_it(toy: Toy, capsys: Lines) -> None:
    words = ("run", "--task", "toy,quiz", "--model", "oracle,literal", "--limit", "2")

    assert toy.main(*words) == 0

    assert "left out: literal is no control of task quiz" in capsys.readouterr().err
    ran = {"/".join(path.parts[-3:-1]) for path in toy.runs()}
    assert ran == {"toy/oracle", "toy/literal", "quiz/oracle"}
    assert toy.main("run", "toy", "--model", "oracle") == 2
    assert "toy is a task: write --task toy" in capsys.readouterr().err


def test_the_status_tells_what_is_done_left_and_missing_of_each_cell(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    text = PAID.replace("{usd}", "0.0012")
    assert plan(toy, "--status", "--json", text=text) == 0
    before = told(capsys)
    assert plan(toy, text=text) == 130
    capsys.readouterr()
    assert plan(toy, "--status", "--json", text=text) == 0

    after = told(capsys)
    assert [row["done"] for row in before] == [0] * 4
    whole = [row["is_whole"] for row in after]
    assert (whole[0], whole[-1]) == (True, False)
    assert after[0] | {"done": 12, "left": 0, "missing": 0} == after[0]
    assert [row["done"] + row["left"] for row in after[:1]] == [before[0]["left"]]  # type: ignore[operator]
    assert all(row["missing"] is None for row in after if not row["is_whole"])


@pytest.mark.slow
def test_a_repeated_plan_with_a_budget_is_equal(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    text = PAID.replace("{usd}", "9")
    assert plan(toy, "--status", "--json", text=text) == 0
    planned = [row["left"] for row in told(capsys)]
    assert plan(toy, text=text) == 0
    first = capsys.readouterr().out

    page = toy.results / "plans/night/report.html"
    page.write_bytes(b"")
    assert plan(toy, text=text) == 0
    again = capsys.readouterr().out
    assert plan(toy, "--status", "--json", text=text) == 0
    states = told(capsys)

    assert re.search(r"\ncost: [\d.]*[1-9]\d* of 9 USD\n", again)
    assert again == first
    assert [(row["done"], row["left"], row["is_whole"]) for row in states] == [
        (count, 0, True) for count in planned
    ]
    assert "<html" in page.read_text("utf-8")
    untagged = page.read_bytes()
    assert (plan(toy, "--tag", "night", text=text), page.read_bytes() != untagged) == (0, True)


@pytest.mark.slow
def test_all_calls_of_a_plan_together_stay_within_its_budget(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    codes = [plan(toy, text=PAID.replace("{usd}", usd)) for usd in ("0.0005", "0.0012")]
    assert codes == [130] * 2
    assert "interrupted" not in capsys.readouterr().err
    assert 0 < cost(toy) <= 0.0012


@pytest.mark.slow
def test_a_plan_stopped_and_repeated_ends_in_bytes_of_one_run(toy: Toy, stub: StubServer) -> None:
    for usd in ("0.0012", "9"):
        code = plan(toy, text=PAID.replace("{usd}", usd))
    paid, made = cost(toy), toy.bytes()
    joint = [p.read_bytes() for p in sorted((toy.results / "plans").rglob("*.*"))]
    answered = stub.stats()["answered"]
    toy.results.rename(toy.folder / "first")

    assert (code, plan(toy, text=PAID.replace("{usd}", "9"))) == (0, 0)
    assert toy.bytes() == made
    assert cost(toy) == pytest.approx(paid)
    assert [p.read_bytes() for p in sorted((toy.results / "plans").rglob("*.*"))] == joint
    assert stub.stats()["answered"] == 2 * answered


@pytest.mark.slow
def test_lines_of_a_plan_fit_the_columns_also_where_the_output_is_no_terminal(
    toy: Toy, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CONTROLS.replace("seeds: [0, 1]", "seeds: [0, 1], answers: written, limit: 12")
    assert plan(toy, text=text) == 0
    free = capsys.readouterr().out.splitlines()
    monkeypatch.setenv("COLUMNS", "50")

    for option in ((), ("--dry-run",), ("--status",), ("--shard", "1/2")):
        assert plan(toy, *option, text=text) == 0

    out, err = capsys.readouterr()
    lines = [*out.splitlines(), *err.splitlines()]
    assert [line for line in lines if len(line) > 50 and " " in line.strip()] == []
    assert max(map(len, free)) > 80
    assert "\x1b" not in out + err


def test_a_cell_that_fails_stops_no_other(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    toy.write("configs/models/shut.yaml", "kind: openai\nmodel: m\nkey_env: NO_SUCH_KEY\n")
    text = "{about: a, models: [shut, alpha], controls: [oracle], tasks: [toy]}"

    assert plan(toy, text=text) == 1
    found = capsys.readouterr()
    assert [path.parts[-2] for path in toy.runs()] == ["alpha", "oracle"]
    assert "toy, shut: failed: " in found.err
    assert "NO_SUCH_KEY" in found.err
    assert "1 of 3 runs are not done" in found.err
    assert "toy, base: accuracy" in found.out or "toy: accuracy" in found.out


def test_a_judge_or_a_model_that_cannot_start_stops_no_other_and_is_told_once(
    toy: Toy, capsys: Lines
) -> None:
    toy.write(
        "configs/judges/shut.yaml",
        "{about: a, kind: preference, model: away, template: judges/choice, "
        "options: {accept: right, reject: wrong}, decoding: {temperature: 0, max_tokens: 4}}",
    )
    toy.write("configs/models/away.yaml", "{about: a, kind: openai, model: m, key_env: NO_KEY}")
    toy.write("configs/models/big.yaml", "{about: a, kind: vllm, model: no/such, dtype: float32}")
    text = """{about: a, controls: [oracle, literal], models: [big], budget_usd: 3,
        tasks: [{task: toy, judges: [near, shut], variants: [base]}]}"""

    assert (plan(toy, "--dry-run", text=text), plan(toy, text=text)) == (0, 1)

    out, err = capsys.readouterr()
    assert "no price for away" in out
    assert re.search(r"\n *toy +big +\d+ ", out)  # counted without its package
    assert [path.parts[-2] for path in toy.runs()] == ["literal", "oracle"]
    assert err.count("without judge shut, which cannot start: ") == 1
    assert "no price is known of model away" in err or "NO_KEY" in err


def test_commands_before_and_after_the_runs_write_into_the_plans_folder(
    toy: Toy, capsys: Lines
) -> None:
    text = """{about: a, controls: [oracle], tasks: [{task: toy, variants: [base]}], before: [
        list tasks], after: ["table {runs} --rows model -o {folder}/t.md", table none]}"""

    assert plan(toy, text=text) == 1

    folder, (out, err) = toy.results / "plans/night", capsys.readouterr()
    assert "oracle" in (folder / "t.md").read_text("utf-8")
    assert "toy" in (folder / "before-1.txt").read_text("utf-8")
    assert "[after 2/2] table none: exit code 2, see above" in err
    assert "wrote 1 table" not in out
    assert plan(toy, "--dry-run", text=text) == 0
    assert "before the runs: harness list tasks" in capsys.readouterr().out


def test_a_mistake_in_a_model_of_ones_own_stops_its_cell_alone(toy: Toy, capsys: Lines) -> None:
    toy.write("configs/models/odd.yaml", "kind: python\nentry: odd.py:Odd\nabout: It has a bug.\n")
    toy.write(
        "configs/models/odd.py",
        """
        from harness.models.custom import TextModel

        class Odd(TextModel):
            def reply(self, request):
                raise ZeroDivisionError("made up")
        """,
    )
    text = "{about: a, models: [odd, oracle], tasks: [{task: toy, variants: [base]}]}"

    assert plan(toy, text=text) == 1
    assert "toy, odd: failed: model odd: answer failed (ZeroDivision" in capsys.readouterr().err
    assert [path.parts[-2] for path in toy.runs()] == ["oracle"]


def test_a_bug_stops_its_cell_alone_and_is_told_whole(toy: Toy) -> None:
    spec = PlanSpec(about="a", models=("oracle", "literal"), tasks=("toy",))
    space = toy.space()
    cells = plans.plan_cells(space, spec, name="a")
    plans.resolve_cells(space, cells)
    first = cells[0]
    assert first.plan is not None
    model = first.plan.client.model
    assert isinstance(model, ScriptedModel)
    broken = replace(model, reply=lambda request: Response(str(1 // 0)))
    first.plan = replace(first.plan, client=replace(first.plan.client, model=broken))

    ended = [*plans.carry_out(cells)]

    assert [done.end for done in ended] == ["bug", "done"]
    assert "ZeroDivisionError" in ended[0].error


def test_a_model_is_opened_once_for_all_its_tasks_and_freed_after_them(
    toy: Toy, stub: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = PlanSpec(about="a", models=("alpha", "beta"), tasks=("toy", "toy"))
    space = toy.space({"HARNESS_SERVER_URL": stub.url})
    ready = plans.plan_cells(space, spec, name="a")
    plans.resolve_cells(space, ready)
    held = [ref(one.plan.client.model) for one in ready if one.plan]

    assert [held[place]() for place in range(4)] == [held[n]() for n in (0, 0, 2, 2)]
    assert held[0]() is not held[2]()
    alive = [(held[0]() is not None, held[2]() is not None) for _ in plans.carry_out(ready)]
    assert alive == [(True, True), (False, True), (False, True), (False, False)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models: [oracel], tasks: [toy]", "no model 'oracel'"),
        ("models: [oracle], tasks: [tyo]", "no task 'tyo'"),
        ("models: [oracle], tasks: [{task: toy, judges: [nera]}]", "no judge 'nera'"),
        ("models: [oracle], tasks: [{task: toy, variants: [bse]}]", "did you mean base?"),
        ("models: [oracle], tasks: [{task: toy, answers: written}]", "leave out `answers: writ"),
        ("tasks: [toy]", "it names no model"),
        ("controls: [first], tasks: [toy]", "none of its controls is defined"),
        ("models: [oracle], tasks: []", "tasks"),
        ("models: [oracle], tasks: [toy], budget_usd: .inf", "budget_usd inf is no sum"),
        ("models: [oracle], tasks: [toy], buget_usd: 3", "mean budget_usd"),
        ("models: [oracle], tasks: [toy], after: [tabel x]", "no such command 'tabel x'"),
        ("models: [oracle], tasks: [toy], before: [judge x]", "judge may ask models"),
        ("models: [oracle], tasks: [{task: toy, sedes: [1]}]", "mean seeds"),
    ],
)
def test_a_mistake_in_a_plan_is_told_at_once(
    toy: Toy, capsys: Lines, text: str, words: str
) -> None:
    assert plan(toy, text=f"{{about: a, {text}}}") == 2
    assert words in capsys.readouterr().err
    assert not toy.results.exists()


def test_a_plan_s_words_are_not_said_beside_it_and_a_status_is_its(toy: Toy, capsys: Lines) -> None:
    assert plan(toy, "--task", "toy", "--limit", "3") == plan(toy, "--seed", "1") == 2
    assert toy.run("--status") == 2
    err = capsys.readouterr().err
    assert "--task, --limit: not with a plan" in err
    assert "--seed: not with a plan" in err
    assert "--status: is of a plan" in err


def test_a_task_of_a_plan_may_have_its_own_models_limit_and_seeds(toy: Toy) -> None:
    first = PlannedTask(task="toy", limit=2, seeds=(3,), models=("alpha",), controls=())
    spec = PlanSpec(about="a", models=("beta",), controls=("oracle",), tasks=(first, "toy"))

    cells = plans.plan_cells(toy.space(), spec, name="a")

    assert [(cell.options.model, cell.words, cell.options.limit) for cell in cells] == [
        ("oracle", "", None),
        ("alpha", "limit 2, seed 3", 2),
        ("beta", "", None),
    ]


def test_a_model_of_a_plan_that_gives_no_log_probabilities_writes_its_choices(
    toy: Toy, caplog: pytest.LogCaptureFixture
) -> None:
    toy.write("configs/models/claude.yaml", "{about: a, kind: anthropic, model: a}")
    spec = PlanSpec(about="a", models=("claude", "alpha"), tasks=("quiz", "toy"))

    cells = plans.plan_cells(toy.space(), spec, name="a")

    said = {(one.options.model, one.options.task): one.options.answers for one in cells}
    assert {place for place, way in said.items() if way is not None} == {("claude", "quiz")}
    assert said["claude", "quiz"] == "written"
    assert "claude gives no log-probabilities: it writes its choices of quiz" in caplog.text


def test_a_commands_budget_replaces_the_plans(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    assert plan(toy, "--budget", "0", text=PAID.replace("{usd}", "9")) == 130
    assert "above --budget 0" in capsys.readouterr().err
    assert (cost(toy), Budget(0).spent_usd) == (0, 0)


def test_every_shipped_plan_names_what_there_is(tmp_path: Path) -> None:
    space = Workspace.open(tmp_path, tmp_path / "results")
    names = space.registry.names("configs/plans")

    assert {"demo", "emphasized-talk", "impscore", "intent-resolution", "ishate"} <= set(names)
    specs = {name: space.registry.load("configs/plans", name) for name in names}
    assert all(plans.plan_cells(space, spec, name=name) for name, spec in specs.items())


def test_the_plan_on_the_page_of_plans_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/money.md").read_text("utf-8")
    text = page.partition("## Plans")[2].partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "page.yaml").write_text(text, "utf-8")
    space = Workspace.open(tmp_path, tmp_path / "results")

    spec = space.registry.load("configs/plans", str(tmp_path / "page.yaml"))

    assert len(plans.plan_cells(space, spec, name="page")) > 8


@pytest.mark.slow
def test_a_finished_plan_keeps_its_bytes_when_the_server_of_auto_is_off(
    toy: Toy, stub: StubServer, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.edit("configs/models/beta.yaml", "model: beta", "model: auto")
    text = PAID.replace("{usd}", "9")
    assert plan(toy, text=text) == 0
    before = [path.read_bytes() for path in sorted(toy.results.glob("plans/*/*"))]
    monkeypatch.setenv("HARNESS_SERVER_URL", "http://127.0.0.1:9/v1")
    capsys.readouterr()

    assert plan(toy, text=text) == 0

    assert [path.read_bytes() for path in sorted(toy.results.glob("plans/*/*"))] == before
    assert capsys.readouterr().err.count("whose answers are stored") == 1


def test_without_its_server_auto_is_asked_nothing_new(
    toy: Toy, stub: StubServer, capsys: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.edit("configs/models/beta.yaml", "model: beta", "model: auto")
    toy.run("--variant", "base", "--limit", "2", model="beta")
    monkeypatch.setenv("HARNESS_SERVER_URL", "http://127.0.0.1:9/v1")
    assert toy.run("--variant", "base", model="beta") == 2

    assert "harness: model beta: no server at http://127.0.0.1:9/v1" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_cannot_go_on_stays_on_the_board_as_it_was_stored(
    toy: Toy, capsys: Lines, stub: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
        about: A model that lost an answer beside a control.
        controls: [oracle]
        models: [beta]
        tasks: [{task: toy, judges: [near], variants: [base]}]
    """
    stub.script = Script(faults={"number 0": ("500",) * 9})
    assert plan(toy, text=text) == 1
    monkeypatch.setenv("HARNESS_SERVER_URL", "http://127.0.0.1:9/v1")
    board = toy.results / "plans/night/leaderboard.csv"
    before = board.read_bytes()

    assert plan(toy, text=text) == 1

    assert b"beta" in before
    assert board.read_bytes() == before
    err = capsys.readouterr().err
    assert "the leaderboard has these as they were stored before: toy, beta" in err
