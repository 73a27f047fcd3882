"""What commands and options of the version before this one are called now."""

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
impscore lint, impscore pairs: harness impscore train, or Registry.scorer(NAME) in Python
export parquet: a run folder as it is, whose tables are Parquet (docs/frames.md)
export lm-eval: scores.csv of a run
check reader, check scorer, rates --gaps: gone
run --metrics, judge --metrics, merge --metrics, import --metrics: harness leaderboard --metrics
run --processes, judge --processes: harness run --shard, then harness merge
leaderboard --metric, leaderboard --group: harness leaderboard --metrics, then leaderboard.csv
leaderboard --fpr: harness rates RUN --fpr
agree --strict: agreement.csv has every statistic; exit code 1 says what is unmatched
list --tag: harness list runs @TAG
"""
SUCCESSORS = {
    name: f"; in version 0.2: {now}"
    for names, _, now in (line.partition(": ") for line in _LINES.strip().splitlines())
    for name in names.split(", ")
}
"""What to say of an old command or option: what it is now, or that it is gone."""


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


def successor(error: object) -> str:
    """What to say of an old option, or one of other programs; "" of any other mistake."""
    option = getattr(error, "option_name", "")
    if option in _ELSEWHERE and getattr(error, "possibilities", None) is not None:
        return f"; instead: {_ELSEWHERE[option]}"
    command = getattr(getattr(error, "ctx", None), "info_name", None) or ""
    name = f"{command} {option}"
    return SUCCESSORS.get(name.removeprefix("harness "), "")
