"""Runs to the files of other programs: Inspect, Every Eval Ever."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from harness.pipeline.items import expected_texts, missing_reason
from harness.pipeline.score import ALL, RIGHT_OR_WRONG, headlines
from harness.storage.find_runs import run_facts
from harness.storage.run_tables import SampleRecord, VerdictRecord
from harness.storage.runs import JudgeEntry, RunFile, ScoreRow, StoredRun

PROGRAM = "pragmatics-harness"
EVERY_EVAL_EVER = "0.3.0"  # the version of the schema of Every Eval Ever that its records follow
LEVEL = 0.95
Json = dict[str, Any]


def inspect_log(run: StoredRun, scores: Sequence[ScoreRow], written: float) -> Json:
    """A log of Inspect with all answers of a run, as its JSON; `written` is in seconds since 1970.

    A sample is an answer; where a run has several variants or decodings, these are in its id.
    """
    file, digest = run.file, run.file.digest[:22]
    has_one_way = len({(row.variant, row.decoding) for row in run.rows}) == 1
    samples = [_inspect_sample(file, row, is_plain=has_one_way) for row in run.rows]
    time = datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds")
    ids = [sample["id"] for sample in samples]
    counts = {"samples": len(samples), "sample_ids": ids, "shuffled": False}
    spec = {
        **{"eval_id": digest, "run_id": digest, "created": time},
        **{"task": file.run.task, "task_id": digest, "task_version": 0},
        "dataset": {"name": file.data.source, **counts},
        "model": f"{file.model.kind}/{file.model.name}",
        "config": {"limit": file.run.limit, "epochs": 1},
        "packages": {PROGRAM: file.version},
        "metadata": {"run": file.digest, **run_facts(file)},
    }
    results = {
        "total_samples": len(samples),
        "completed_samples": sum("error" not in sample for sample in samples),
        "scores": [_inspect_score(run, judge, scores) for judge in file.judges],
    }
    log: Json = {"version": 2, "status": "success", "eval": spec, "results": results}
    return {**log, "stats": {"started_at": time, "completed_at": time}, "samples": samples}


def _inspect_score(run: StoredRun, judge: JudgeEntry, scores: Sequence[ScoreRow]) -> Json:
    rows, metrics = _overall(scores, judge), {}
    for row in rows:
        one = row.score
        name = one.metric if len(rows) == 1 else f"{one.metric} {one.variant} {one.decoding}"
        about = {"low": one.low, "high": one.high, "n": one.n, "signature": row.signature}
        metrics[name] = {"name": name, "value": one.value, "metadata": about}
    verdicts = [row.verdicts.get(judge.name) for row in run.rows]
    scored = sum(verdict is not None and verdict.value is not None for verdict in verdicts)
    counts = {"scored_samples": scored, "unscored_samples": len(verdicts) - scored}
    return {"name": judge.name, "scorer": judge.name, **counts, "metrics": metrics}


def _inspect_sample(file: RunFile, row: SampleRecord, *, is_plain: bool) -> Json:
    sample, last = row.sample, row.steps[-1]
    asked = [{"role": turn.role, "content": turn.content} for turn in last.messages]
    known = {name: one for name, one in row.verdicts.items() if one.value is not None}
    missing = {n: str(one.reason) for n, one in row.verdicts.items() if n not in known}
    output: Json = {"model": file.model.name, "choices": []}
    made: Json = {
        "id": sample.id if is_plain else f"{sample.id} {row.variant} {row.decoding}",
        **{"epoch": 1, "input": asked, "choices": list(sample.choices) or None},
        "target": list(expected_texts(sample, file.task, row.variant)),
        **{"messages": asked, "output": output},
        "scores": {name: _inspect_verdict(one, row) for name, one in known.items()},
        "metadata": {
            **{"sample_id": sample.id, "cluster": sample.cluster, "group": sample.group},
            **{"variant": row.variant, "decoding": row.decoding, "missing": missing},
        },
    }
    if row.answer is None:
        fact = f"{missing_reason(row, file.task)}: {last.note}".removesuffix(": ")
        return {**made, "error": {"message": fact, "traceback": "", "traceback_ansi": ""}}
    said = {"role": "assistant", "content": last.text if last.text is not None else row.answer}
    stop = "max_tokens" if last.stop == "length" else "stop"
    output["choices"] = [{"message": said, "stop_reason": stop}]
    return {**made, "messages": [*asked, said]}


def _inspect_verdict(verdict: VerdictRecord, row: SampleRecord) -> Json:
    replies = "\n".join(reply for reply in verdict.replies if reply is not None)
    about = {"detail": dict(verdict.detail)} if verdict.detail else None
    found: Json = {"value": verdict.value, "answer": row.answer, "metadata": about}
    return {**found, "explanation": replies or verdict.note or None}


def every_eval_ever(
    file: RunFile, scores: Sequence[ScoreRow], written: float, organization: str
) -> tuple[str, Json]:
    """The path of a record of Every Eval Ever, and the record."""
    stamp, model = str(int(written)), file.model
    results = [_eee_result(file, j, row) for j in file.judges for row in _overall(scores, j)]
    source = {"source_name": PROGRAM, "source_type": "evaluation_run"}
    source |= {"source_organization_name": organization, "evaluator_relationship": "other"}
    name = UUID(file.digest[:32], version=4)
    return f"data/{file.run.task}/{model.kind}/{model.name}/{name}.json", {
        "schema_version": EVERY_EVAL_EVER,
        "evaluation_id": f"{file.run.task}/{model.name}/{stamp}",
        **{"evaluation_timestamp": stamp, "retrieved_timestamp": stamp},
        "source_metadata": source,
        "eval_library": {"name": PROGRAM, "version": file.version},
        "model_info": _eee_model(
            model.name, kind=model.kind, identity=model.identity, revision=model.revision
        ),
        "evaluation_results": results,
    }


def _eee_model(name: str, **about: str | None) -> Json:
    """A model. The schema asks who runs it and if its weights are open: here that is unknown."""
    known = {key: text for key, text in about.items() if text}
    details = {"deployment_type": "unknown", "model_availability": "unknown", **known}
    return {"name": name, "id": name, "additional_details": details}


def _eee_result(file: RunFile, judge: JudgeEntry, row: ScoreRow) -> Json:
    score = row.score
    uncertainty: Json = {"num_samples": score.n}
    if score.low is not None and score.high is not None:
        method = "over clusters of items; see the program's statistics.md"
        bounds = {"lower": score.low, "upper": score.high, "confidence_level": LEVEL}
        uncertainty["confidence_interval"] = {**bounds, "method": method}
    details = {"signature": row.signature}
    details |= {f"missing_{reason}": str(n) for reason, n in score.missing.items() if n}
    details |= {} if row.chance is None else {"chance": repr(row.chance)}
    metric: Json = {
        "evaluation_description": file.task.about,
        **{"metric_id": score.metric, "metric_name": score.metric, "lower_is_better": False},
        "additional_details": {"judge": judge.name, "recipe": judge.recipe},
    }
    if score.metric == RIGHT_OR_WRONG:
        metric |= {"score_type": "continuous", "min_score": 0, "max_score": 1}
    if judge.asks:
        asked = {"model_info": _eee_model(judge.asks, identity=judge.identity)}
        prompt = f"template by its digest: {judge.recipe}"
        metric["llm_scoring"] = {"judges": [asked], "input_prompt": prompt}
    return {
        "evaluation_result_id": f"{score.variant} {score.judge} {score.metric}",
        "evaluation_name": f"{file.run.task}/{score.variant}",
        "source_data": {
            **{"dataset_name": file.data.source, "source_type": "other"},
            "additional_details": {"data": file.data.label, "limit": row.parsed.limit},
        },
        "metric_config": metric,
        "score_details": {"score": score.value, "details": details, "uncertainty": uncertainty},
    }


def _overall(scores: Sequence[ScoreRow], judge: JudgeEntry) -> list[ScoreRow]:
    """The headline of each variant by a judge that has a value, over all groups and decodings."""
    rows = [row for row in headlines(scores) if row.score.judge == judge.name]
    own = [r for r in scores if r.score.judge == judge.name and r.score.metric == judge.metric]
    rows = rows or [row for row in own if row.score.group == ALL]
    return [row for row in rows if row.score.value is not None]
