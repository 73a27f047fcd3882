"""What commands of the version before this one, and options of others, are called now."""

_LINES = """
slurm: docs/clusters.md has the script
curve: harness plot curve
view: harness report --serve
prove: harness bundle --check
data list: harness list data
export annotation: harness sheet labels
export sheet: harness sheet questions
ratings labels: harness sheet read-labels
ratings import: harness sheet read-ratings
ratings stress: harness sheet read-stress
impscore eval: harness impscore evaluate
impscore lint, impscore pairs: harness impscore train
export parquet: a run folder as it is, whose tables are Parquet (docs/frames.md)
export lm-eval: scores.csv of a run
check reader, check scorer: harness check task
"""
SUCCESSORS = {
    name: f"; in version 0.2: {now}"
    for names, _, now in (line.partition(": ") for line in _LINES.strip().splitlines())
    for name in names.split(", ")
}
"""What to say of an old command: what it is now, or that it is gone."""
_ELSEWHERE = {
    "--quiet": "2> /dev/null hides all but the result",
    "--verbose": "--all prints more of the result, and messages are on stderr",
    "--batch-size": "`batch_tokens`, or `batch`, in the model's YAML",
    "--device": "`device` in the model's YAML",
    "--temperature": "`decodings` in the task's YAML, or `decoding` in a plan",
    "--api-key": "an environment variable, which `key_env` in the model's YAML names",
    "--output": "--results is the folder of runs, and `harness report -o` writes a page",
}
"""Where what an option of other programs does is said here."""


def of_others(error: object) -> str:
    """What to say of an option of other programs; "" of any other mistake."""
    now = _ELSEWHERE.get(getattr(error, "option_name", ""))
    return f"; instead: {now}" if now and getattr(error, "possibilities", None) is not None else ""
