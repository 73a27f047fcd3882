"""Logs that other harnesses write today, imported: their own accuracy comes out.

Needs inspect_ai and lm_eval besides this program; nothing here needs a network or weights.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import quiz as quiz_module
from support.quiz import Quiz, value

from harness.core import Run, Sample
from harness.data.readers.samples_jsonl import read
from harness.importers.record import prompt_text
from harness.pipeline.plan import Plan, PlannedResponse, options, request
from harness.registry import Registry

QUIET = pytest.mark.filterwarnings("ignore::ResourceWarning")  # unclosed streams of anyio
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default"), QUIET]
LETTERS = "ABC"
LM_EVAL = """\
task: quiz
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{prompt}}"
doc_to_choice: "{{choices}}"
doc_to_target: gold
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


@pytest.fixture
def quiz(tmp_path: Path) -> Quiz:
    return quiz_module.build(tmp_path)


def posed(quiz: Quiz, task_name: str, variant: str) -> list[dict[str, Any]]:
    """What a task asks under a variant, as a data set of another harness."""
    registry = Registry((quiz.home,), {}, quiz.folder)
    task = registry.load("tasks", task_name)
    samples = read([registry.resource(task.data.sample)], None)
    run = Run(task_name, (), "", (), seed=0, limit=None, prompts="", data="")
    plan = Plan(run, task, tuple(samples), registry.prompts, "")
    step = task.variants[variant].steps[-1]
    cells = [PlannedResponse(sample, variant, task.decodings[0]) for sample in samples]
    prompts = [prompt_text(request(plan, c, step=step, earlier={}).messages) for c in cells]
    return [
        {"id": s.id, "prompt": text, **_choices(s, options(task, variant, s))}
        for s, text in zip(samples, prompts, strict=True)
    ]


def _choices(sample: Sample, laid_out: Sequence[Any]) -> dict[str, Any]:
    texts = [sample.choices[option.index] for option in laid_out]
    answers = [option.answer.strip() for option in laid_out]
    return {"choices": answers, "texts": texts, "gold": texts.index(sample.gold)} if texts else {}


def inspected(folder: Path, samples: list[Any], solver: Any, said: list[str], **how: Any) -> Path:  # noqa: ANN401 - of a library that is not typed here
    """The log of an evaluation in which a model says these things in turn."""
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    outputs = [ModelOutput.from_content("mockllm/model", text) for text in said]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    model = get_model("mockllm/model", custom_outputs=outputs)
    evaluate(
        Task(dataset=samples, solver=solver, scorer=how.pop("scorer", None)),
        model=model,
        log_dir=str(folder),
        display="none",
        max_connections=1,
        max_samples=1,
        **how,
    )
    [log] = folder.iterdir()
    return log


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_the_replies_of_an_inspect_log_are_texts_an_epoch_each(quiz: Quiz, log_format: str) -> None:
    from inspect_ai.dataset import Sample as Posed
    from inspect_ai.solver import generate

    asked = [Posed(id=p["id"], input=p["prompt"]) for p in posed(quiz, "say", "base")]
    said = ["Yes, awful.", "Hm.", "Dry!", "Hold on."]
    log = inspected(
        quiz.folder / "logs", asked, [generate()], said, epochs=2, log_format=log_format
    )

    found = quiz.take(log, task="say")

    assert found.done.file.run.decodings[0].n == 2
    assert {row.variant for row in quiz.rows()} == {"base"}
    assert {row.answer for row in quiz.rows()} <= set(said)


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_the_letters_of_inspect_are_the_options_they_mean(quiz: Quiz, is_shuffled: bool) -> None:
    from inspect_ai.dataset import Sample as Posed
    from inspect_ai.log import read_eval_log
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    asked = [
        Posed(id=p["id"], input="Which?", choices=p["texts"], target=LETTERS[p["gold"]])
        for p in posed(quiz, "quiz", "order1")
    ]
    said = ["ANSWER: A", "ANSWER: B", "ANSWER: B"]
    solver = [multiple_choice(shuffle=is_shuffled)]
    log = inspected(quiz.folder / "logs", asked, solver, said, scorer=choice())
    column_map = quiz.put("map.yaml", "{about: x, format: inspect, variant: order1}")

    found = quiz.take(log, column_map=str(column_map))

    results = read_eval_log(str(log)).results
    own = results.scores[0].metrics["accuracy"].value
    assert value(found.done.scores, "order1") == pytest.approx(own)


def test_a_sample_that_ended_in_an_error_is_missing(quiz: Quiz) -> None:
    from inspect_ai.dataset import Sample as Posed
    from inspect_ai.solver import generate, solver

    @solver  # type: ignore[untyped-decorator]  # the library is not there where types are checked
    def failing() -> Any:  # noqa: ANN401 - a Solver of the library
        async def solve(state: Any, generate: Any) -> Any:  # noqa: ANN401 - as above
            if state.sample_id == "rain":
                raise ValueError("no")
            return state

        return solve

    asked = [Posed(id=p["id"], input=p["prompt"]) for p in posed(quiz, "say", "base")]
    log = inspected(
        quiz.folder / "logs", asked, [failing(), generate()], ["Hm."] * 2, fail_on_error=False
    )

    found = quiz.take(log, task="say")

    assert list(quiz.answers()) == [("base", "wind")]
    assert found.notes["what"].tolist() == ["ended in an error, without an answer: missing"]


def test_accuracy_is_that_of_lm_evaluation_harness(quiz: Quiz) -> None:
    data = quiz.put("data.jsonl", posed(quiz, "quiz", "order2"))
    quiz.put("tasks/quiz.yaml", LM_EVAL.replace("DATA", str(data)))
    command = [sys.executable, "-m", "lm_eval", "run", "--model", "dummy", "--tasks", "quiz"]
    command += ["--include_path", str(quiz.folder / "tasks"), "--log_samples"]
    own = {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(quiz.folder / "hf")}
    subprocess.run(
        [*command, "--output_path", str(quiz.folder / "out")],
        check=True,
        capture_output=True,
        env={**os.environ, **own},
    )
    [log] = quiz.folder.glob("out/*/samples_quiz_*.jsonl")
    [table] = quiz.folder.glob("out/*/results_*.json")

    found = quiz.take(log)

    reported = json.loads(table.read_text("utf-8"))["results"]["quiz"]["acc,none"]
    # Of two options order2 reads as order0 does: what all prompts fit is order2 alone.
    assert value(found.done.scores, "order2") == pytest.approx(reported)
