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
impscore lint: harness impscore train, which refuses sentences of the probes
impscore pairs, impscore score --features: Registry.scorer(NAME) in Python
export parquet: a run folder as it is, whose tables are Parquet (docs/frames.md)
export lm-eval: scores.csv of a run
check reader, check scorer, run --wait-for-server, judge --wait-for-server: gone
data split --names, rates --gaps, impscore collect --seed, impscore probe --by: gone
run --metrics, judge --metrics, merge --metrics, import --metrics: harness leaderboard --metrics
run --processes, judge --processes: harness run --shard, then harness merge
merge --from: copy calls/ of the other machines into one results folder
leaderboard --sort, leaderboard --decoding, leaderboard --recipes: leaderboard.csv
leaderboard --metric, leaderboard --group: harness leaderboard --metrics, then leaderboard.csv
leaderboard --fpr: harness rates RUN --fpr
agree --strict: exit code 1 and a line say that ratings match no response
agree --all: agreement.csv has every statistic
items --html: harness report
items --parquet: ph.items(...).to_parquet(FILE) in Python
compare --intention-judge: each judge of intentions goes with the most similar one of responses
compare --gate --junit: exit codes, and harness compare --gate --json
report --ratings: harness agree
plot --json: the CSV file of a figure has its data
list --tag: harness list runs @TAG
show schema --out, show schema -o: harness show schema KIND > FILE
impscore train --group, impscore ablate --group: call the column topic, original or group
impscore evaluate --format: ratings in long form, as harness sheet read-ratings writes them
sheet ratings --format, sheet ratings --rows, sheet ratings --low, sheet ratings --high: gone
sheet labels --format, sheet read-ratings --format: sheets are CSV, which Label Studio reads too
sheet read-ratings --scale, sheet read-ratings --values, sheet read-ratings --control: gone
data split --format, data clean --format: the format of the table that is read
export errors --nearest: harness data split --check
perturb --language: `language` in the YAML of a perturbation
"""
SUCCESSORS = {
    name: f"; in version 0.2: {now}"
    for names, _, now in (line.partition(": ") for line in _LINES.splitlines())
    for name in names.split(", ")
}
"""What to say of an old command or option: what it is now, or that it is gone."""


def successor(error: object) -> str:
    """What to say of an old option that a command does not know; "" of any other mistake."""
    command = getattr(getattr(error, "ctx", None), "info_name", None) or ""
    name = f"{command} {getattr(error, 'option_name', '')}"
    return SUCCESSORS.get(name.removeprefix("harness "), "")
