"""The library: the page runs as written, objects work as models and judges, names are few."""

import asyncio
import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.each import each
from support.stub_script import Script
from support.stub_server import StubServer
from support.terminal import on_terminal

import harness as ph
from harness.cli import main
from harness.library import EvaluatedRun

ROOT = Path(ph.__file__).parents[1]
PAGE = (ROOT / "docs/python.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
SNIPPET = """
import harness as ph

ph.names("tasks"), ph.names("models"), ph.names("judges")
run = ph.evaluate("intent_resolution", model="local-server", judges=["minilm-cosine"], limit=2)
scores = run.scores
samples = run.samples
run = run.judge(["gpt4-contextual"], budget_usd=5)

class Exact(ph.Judge):
    name, metric = "exact", "accuracy"
    def read(self, cases):
        return [
            ph.Verdict(c.response.key, self.name, float(c.response.texts[0] == c.sample.gold))
            for c in cases
        ]

mine = ph.FunctionModel("mine", reply=lambda messages: "four")
own = ph.evaluate("my_task", model=mine, judges=[Exact()])
board = ph.leaderboard(ph.load_runs("results"))
rated = samples.query("variant == 'base' and decoding == 'T0.3' and judge == 'minilm-cosine'")
rated.assign(rater="ann", value=1, scale="base").to_csv("ratings.csv")
agreed = ph.agreement("ratings.csv", draws=20)
implicit = ph.score_implicitness(["It is cold in here."])
"""
FILES = {
    "tasks/my_task.yaml": """
about: Sums.
data: {source: sums, reader: samples_jsonl, files: [], sample: samples/sums.jsonl}
decodings: [{temperature: 0, max_tokens: 8}]
default_variants: [base]
variants:
  base:
    about: the question
    steps: [{name: response, template: sums/base}]
judges: [ngram-cosine]
""",
    "tasks/samples/sums.jsonl": "".join(
        json.dumps(
            {
                "id": str(number),
                "group": "sums",
                "fields": {"sum": f"{number} + 1"},
                "references": {"turn2_true": [total], "turn2_literal": ["none"]},
                "gold": total,
            }
        )
        + "\n"
        for number, total in ((1, "two"), (2, "three"), (3, "four"))
    ),
    "prompts/sums/base.user.j2": "What is {{ sum }}? One word.",
    "configs/models/gpt-4.yaml": """
about: A stub in place of the judge's model.
kind: openai
model: gpt-4
base_url: http://localhost:1/v1
base_url_env: HARNESS_SERVER_URL
key_env: null
""",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, in an environment that names no data, key or server."""
    for name in ("HARNESS_DATA", "HARNESS_SERVER_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a task and a model named gpt-4; a stub server answers all models."""
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    with StubServer(Script(replies={"Option": ("1",)})) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        yield folder


def ran(code: str) -> dict[str, Any]:
    """The names that some code leaves; run as a notebook runs its cells."""
    names: dict[str, Any] = {}
    exec(compile(code, "<cell>", "exec"), names)
    return names


async def ran_in_a_loop(code: str) -> dict[str, Any]:
    return ran(code)


@pytest.mark.slow
def test_the_snippet_runs_twice_in_one_process_and_inside_a_running_loop(served: Path) -> None:
    first = ran(SNIPPET)
    again = asyncio.run(ran_in_a_loop(SNIPPET))

    assert first["run"].path == again["run"].path
    assert first["run"].judges == ("gpt4-contextual", "minilm-cosine")
    # The second time, the judge that came later has read the run as well.
    same = again["scores"].query("judge == 'minilm-cosine'").reset_index(drop=True)
    assert first["scores"].equals(same)
    assert len(first["samples"]) == 2 * 8 * 2  # samples, variants, temperatures
    assert first["own"].scores.value.tolist() == [1 / 3] * len(first["own"].scores)
    assert "mine" in set(first["board"].model)
    (note,) = first["board"].attrs["notes"]
    assert note.startswith("No interval for local-server")
    assert not first["board"].attrs["title"]
    assert set(first["agreed"].judge.dropna()) >= {"minilm-cosine"}
    assert 0 < first["implicit"].value[0] < 2


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom_as_a_script(folder: Path) -> None:
    names = ran("\n".join(BLOCKS))

    assert len(BLOCKS) > 10
    assert ph.leaderboard(names["runs"], "intent_resolution").model.nunique() >= 3
    assert (folder / "results/runs").is_dir()


@pytest.mark.slow
def test_the_page_runs_as_a_notebook(folder: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    cells = [nbformat.v4.new_code_cell(block) for block in BLOCKS]
    notebook = nbformat.v4.new_notebook(cells=cells)

    place = {"metadata": {"path": folder}}
    nbclient.NotebookClient(notebook, timeout=300, resources=place).execute()

    shown = [out for cell in notebook.cells for out in cell.outputs if "data" in out]
    assert any("<table" in out["data"].get("text/html", "") for out in shown)
    assert not [out for one in notebook.cells for out in one.outputs if out.output_type == "error"]


def test_what_is_public_is_on_the_page() -> None:
    listed = re.findall(r"`(\w+)`", PAGE.split("## What is public")[1].split("Every mistake")[0])

    assert sorted(listed) == sorted(ph.__all__)
    assert len(ph.__all__) <= 23
    assert all(getattr(ph, name) is not None for name in ph.__all__)


def test_the_names_are_those_of_the_list(folder: Path) -> None:
    assert "gold" in ph.names("judges")
    assert "oracle" in ph.names("models")
    with pytest.raises(ph.HarnessError, match="give one of tasks, models, judges"):
        ph.names("people")  # type: ignore[arg-type]  # the mistake under test


def failing(messages: list[dict[str, str]]) -> str:
    raise ConnectionError("no line")


async def waiting(messages: list[dict[str, str]], decoding: object) -> str:
    await asyncio.sleep(0)
    return f"{len(messages)} {decoding}"


def silent(messages: list[dict[str, str]]) -> None:
    return None


def numbered(messages: list[dict[str, str]]) -> str:
    return 7  # type: ignore[return-value]  # the mistake under test


@pytest.mark.parametrize(
    ("reply", "reason"), [(failing, "failed"), (silent, "empty"), (numbered, "failed")]
)
def test_what_a_function_does_wrong_is_missing_and_never_zero(
    served: Path, reply: Callable[..., object], reason: str
) -> None:
    run = ph.evaluate("my_task", model=ph.FunctionModel("mine", reply=reply))  # type: ignore[arg-type]  # mistakes

    assert set(run.samples.reason) == {reason}
    assert run.samples.value.isna().all()
    assert run.missing.to_numpy().tolist() == [["", reason, 3]]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_function_may_be_async_and_see_how_to_decode(served: Path, concurrency: int) -> None:
    model = ph.FunctionModel("mine", reply=waiting, concurrency=concurrency)
    answers = ph.evaluate("my_task", model=model).samples.answer

    assert len(answers) == 3
    assert answers.str.startswith("1 Decoding(temperature=0.0").all()


def test_other_code_or_another_version_is_another_model() -> None:
    first = ph.FunctionModel("mine", reply=failing)

    assert first.identity == ph.FunctionModel("mine", reply=failing).identity
    assert first.identity != ph.FunctionModel("mine", reply=silent).identity
    assert first.identity != ph.FunctionModel("mine", reply=failing, version="2").identity


def test_text_of_a_model_is_escaped_in_a_notebook(served: Path) -> None:
    run = ph.evaluate("my_task", model=ph.FunctionModel("mine", reply=lambda messages: "<script>"))
    html = run.samples._repr_html_()

    assert "<script>" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: ph.FunctionModel("mine"), "give a function"),
        (lambda: ph.FunctionModel("mine", reply=silent, concurrency=0), "at least 1"),
        (lambda: ph.load_runs("nowhere"), "no such folder"),
        (lambda: ph.score_implicitness("one text"), "give a list"),
        (lambda: ph.agreement("ratings.csv", level="cardinal"), "nominal, ordinal, interval"),  # type: ignore[arg-type]  # the mistake
        (lambda: ph.agreement("ratings.csv", orders="third"), "both, first, second"),  # type: ignore[arg-type]  # the mistake
        (lambda: ph.evaluate("intent_resolutoin", model="oracle"), "intent_resolution"),
    ],
)
def test_a_mistake_has_its_remedy(folder: Path, call: Callable[[], object], told: str) -> None:
    with pytest.raises(ph.HarnessError, match=told):
        call()


def test_nothing_is_printed(
    served: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    ph.evaluate("my_task", model=ph.FunctionModel("mine", reply=lambda messages: "two"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_on_a_terminal_progress_is_shown_and_erased(served: Path) -> None:
    code = (
        "import harness as ph; mine = ph.FunctionModel('mine', lambda messages: 'two', version='1')"
        "; ph.evaluate('my_task', model=mine)"
    )
    _, err = on_terminal("-c", code, keeps_escapes=True)
    assert "answers of mine" in "".join(err)
    assert "\x1b[?25h" in err[-1], "the cursor is back"


class Long(ph.Judge):
    """Is the answer longer than so many characters?"""

    name, metric = "long", "accuracy"

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least = least

    def read(self, cases: Sequence[ph.Case]) -> list[ph.Verdict]:
        texts = [(case.response.key, (case.response.texts or ("",))[0]) for case in cases]
        return [ph.Verdict(key, self.name, float(len(text) > self.least)) for key, text in texts]


def speak(style: str, messages: list[dict[str, str]]) -> str:
    return f"I answer in style {style}."


def spoken(style: str) -> Callable[..., str]:
    return lambda messages: f"in style {style}"


def styled(style: str) -> Callable[..., str]:
    def reply(messages: object, *, manner: str = style, rest: object = ...) -> str:
        return manner

    return reply


def test_what_a_function_holds_makes_it_another_model(served: Path) -> None:
    answers = [
        ph.evaluate(
            "my_task", model=ph.FunctionModel("mine", reply=partial(speak, style))
        ).samples.answer[0]
        for style in ("polite", "rude")
    ]
    keywords = [ph.FunctionModel("mine", reply=styled(style)) for style in ("polite", "rude")]
    closures = [ph.FunctionModel("mine", reply=spoken(style)) for style in ("polite", "rude")]

    assert answers == ["I answer in style polite.", "I answer in style rude."]
    assert closures[0].identity != closures[1].identity
    assert keywords[0].identity != keywords[1].identity


def test_what_has_no_digest_needs_a_version() -> None:
    undigested: Any = iter("ab")
    held = partial(speak, undigested)

    with pytest.raises(ph.HarnessError, match="give a `version`"):
        ph.FunctionModel("mine", reply=held)
    assert ph.FunctionModel("mine", reply=held, version="1").identity.endswith("+1")
    judge = Long(1)
    judge.least = undigested
    with pytest.raises(ph.HarnessError, match="give a `version`"):
        _ = judge.recipe
    judge.version = "1"
    assert judge.recipe.startswith("long:")


@pytest.mark.slow
def test_code_without_source_has_one_recipe_in_every_process() -> None:
    code = (
        "import harness as ph\n"
        "exec('class J(ph.Judge):\\n name, metric, least = chr(106), chr(109), %d\\n"
        " def read(self, cases): return [ph.Verdict(c.response.key, 1.0) for c in cases]')\n"
        "print(J().recipe)"
    )
    first, again, other = (
        subprocess.run(
            [sys.executable, "-c", code % least], capture_output=True, check=True, cwd=ROOT
        ).stdout
        for least in (1, 1, 5)
    )

    assert first == again
    assert first != other


def test_a_judges_attributes_are_in_its_recipe_and_its_name_is_its_own(served: Path) -> None:
    model = ph.FunctionModel("mine", reply=lambda messages: "two")

    assert Long(1).recipe != Long(50).recipe
    with pytest.raises(ph.HarnessError, match="no other judge has"):
        ph.evaluate("my_task", model=model, judges=[Long(1), Long(50)])
    taken = Long(1)
    taken.name = "minilm-cosine"
    with pytest.raises(ph.HarnessError, match="no other judge has"):
        ph.evaluate("my_task", model=model, judges=[taken])


def test_a_judge_that_gives_too_few_verdicts_is_refused(served: Path) -> None:
    judge = Long(1)
    judge.read = lambda cases: []  # type: ignore[method-assign]  # the mistake under test

    with pytest.raises(ph.HarnessError, match="one Verdict a case"):
        ph.evaluate(
            "my_task", model=ph.FunctionModel("mine", reply=lambda m: "two"), judges=[judge]
        )


def test_runs_of_another_folder_can_be_judged_and_read_on_the_command_line(served: Path) -> None:
    space = ph.Workspace.open(results="elsewhere")
    model = ph.FunctionModel("mine", reply=lambda messages: "two")
    ph.evaluate("my_task", model=model, judges=[Long(1)], workspace=space)

    run = ph.load_runs("elsewhere")[0].judge(["ngram-cosine"])

    assert run.judges == ("long", "ngram-cosine")
    assert main(["read", str(run.path)]) == 0
    with pytest.raises(ph.HarnessError, match="no run of task 'mi_task'; did you mean my_task"):
        ph.leaderboard(ph.load_runs("elsewhere"), "mi_task")


def test_a_judge_object_may_read_choices(served: Path) -> None:
    class First(ph.Judge):
        name, metric = "first-choice", "accuracy"

        def read(self, cases: Sequence[ph.Case]) -> list[ph.Verdict]:
            return [
                ph.Verdict(c.response.key, self.name, float(len(c.response.choice_scores or ())))
                for c in cases
            ]

    model = ph.FunctionModel("short", score=lambda messages, choices: [-1.0 for _ in choices])

    run = ph.evaluate("ludwig", model=model, judges=[First()], limit=4)

    assert set(run.samples.value) == {2.0}


def test_a_workspaces_budget_stays(served: Path) -> None:
    space = ph.Workspace.open().with_budget(1.0)

    assert space.with_budget(None).terms.budget is space.terms.budget
    with pytest.raises(ph.HarnessError, match="from 0 on"):
        space.with_budget(-1)


@each(
    ("name", "value"),
    [
        *(("judges", "ngram-cosine"), ("variants", "base"), ("variants", 3), ("variants", [3])),
        *(("limit", 0), ("limit", "5"), ("budget_usd", "x"), ("seed", "1"), ("tag", 3)),
        *(("judge_model", 3), ("model", 7), ("task", None)),
    ],
)
def test_an_argument_of_another_type_is_named(folder: Path, name: str, value: object) -> None:
    given: dict[str, Any] = {"task": "intent_resolution", "model": "oracle", name: value}
    with pytest.raises(ph.HarnessError, match=rf"{name} .*: give "):
        ph.evaluate(**given)


def test_half_a_character_of_a_function_is_repaired(served: Path) -> None:
    model = ph.FunctionModel("mine", reply=lambda _: "a \ud800 b")

    assert set(ph.evaluate("my_task", model=model, variants=None).samples.answer) == {"a \ufffd b"}  # type: ignore[arg-type]  # None is no list


def test_rates_errors_and_a_bundle_come_from_a_run_of_labelled_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = ph.evaluate("ishate_implicit", model="random", limit=40)

    rates = run.rates(by=["group"])
    missed = run.errors("missed")

    [tpr] = rates.query("column == '' and rate == 'tpr'").itertuples()
    assert len(missed) == round((1 - tpr.value) * tpr.n)
    assert set(missed["harness_error"]) == {"missed"}
    assert missed["text"].str.len().min() > 0
    assert main(["bundle", "--check", str(run.bundle("x.zip"))]) == 0
    with pytest.raises(ph.HarnessError, match="kind 'false': give one of missed"):
        run.errors("false")


@pytest.fixture
def two(folder: Path) -> list[EvaluatedRun]:
    """The runs of two models."""
    for model in ("literal", "oracle"):
        judges, variants = ["ngram-cosine"], ["base", "cot3"]
        ph.evaluate("intent_resolution", model, judges, variants=variants, limit=12, tag="pair")
    return ph.load_runs()


@pytest.mark.slow
def test_a_figure_of_runs_is_one_of_matplotlib_with_the_numbers_of_the_command(
    folder: Path, two: list[EvaluatedRun]
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    options = {"x": "variant", "series": "model", "tasks": ["intent_resolution"]}
    assert main(["plot", "--x", "variant", "--series", "model", "-o", "by"]) == 0

    drawn, all_runs = ph.plot(of=two, **options), ph.plot(**options)  # type: ignore[arg-type]  # one dict

    texts = {found.get_text() for found in drawn.findobj(matplotlib.text.Text)}
    assert {"literal", "oracle", "base", "cot3"} <= texts
    assert drawn._repr_png_() == all_runs._repr_png_() == Path("by.png").read_bytes()  # type: ignore[attr-defined]
    with pytest.raises(ph.HarnessError, match="no figure 'forst'; did you mean forest"):
        ph.plot("forst", two)
    with pytest.raises(ph.HarnessError, match="'gold': give a list"):
        ph.plot("forest", two, judges="gold")
    with pytest.raises(ph.HarnessError, match="plot: give x, or one figure of"):
        ph.plot(of=two)


@pytest.mark.slow
def test_a_page_of_runs_is_that_of_the_command(folder: Path, two: list[EvaluatedRun]) -> None:
    assert main(["report", "-o", "own.html"]) == 0

    assert ph.report(runs=two) == Path("results/report.html")
    assert Path("results/report.html").read_bytes() == Path("own.html").read_bytes()
    assert ph.report("one.html", ["intent_resolution/oracle"]).stat().st_size > 10_000
    with pytest.raises(ph.HarnessError, match="cannot be written"):
        ph.report("results", two)


def test_a_table_of_named_runs_shows_what_is_asked(folder: Path, two: list[EvaluatedRun]) -> None:
    where = {"variant": ["base"]}
    words = "table @pair --where variant=base --cell value,n --digits 1 -o t.tex"
    assert main(words.split()) == 0

    ph.table(runs=["@pair"], where=where, cell=["value", "n"], digits=1, out="own.tex")

    assert Path("own.tex").read_bytes() == Path("t.tex").read_bytes()
    assert len(ph.table(runs=["intent_resolution/oracle"], where=where)) == 1
    with pytest.raises(ph.HarnessError, match="none of the numbers that Yerukola"):
        ph.table("intent-levels", ["@pair"], is_printed=True)
    with pytest.raises(ph.HarnessError, match="cell 'valu': give some of value"):
        ph.table(runs=two, where=where, cell=["valu"])


def test_an_error_of_the_library_comes_without_those_behind_it(served: Path) -> None:
    (served / "configs" / "models").mkdir(parents=True, exist_ok=True)
    (served / "configs" / "models" / "broken.yaml").write_text("kind: [", "utf-8")

    with pytest.raises(ph.HarnessError, match="not valid YAML") as caught:
        ph.evaluate("my_task", model="broken", judges=["ngram-cosine"])

    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
