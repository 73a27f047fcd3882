"""The commands that set results side by side: leaderboard."""

from harness.cli.options import RESULTS, AsJson, Results
from harness.cli.screen import number, put, put_json, put_table, say


def leaderboard(results: Results = RESULTS, is_json: AsJson = False) -> int:
    """Gather all runs into leaderboard.csv and print their headline scores.

    Rows are ranked together only where their signatures differ in nothing but the model.
    """
    from harness.errors import StoreError
    from harness.leaderboard import boards, collect, unfit
    from harness.runs import run_folders, write_whole
    from harness.scores import table_text

    if not (folders := run_folders(results)):
        raise StoreError(f"no runs below {results}/runs; `harness run` makes one, or see --results")
    rows = collect(folders)
    write_whole(results / "leaderboard.csv", table_text(rows).encode())
    if is_json:
        put_json(rows)
        return 0
    head = ("rank", "model", "value", "95% interval", "n", "missing")
    for board in boards(rows):
        table = []
        for rank, row in enumerate(board.rows, 1):
            score = row.score
            span = f"{number(score.low)} to {number(score.high)}"
            lost = str(sum(score.missing.values()))
            table.append((str(rank), row.model, number(score.value), span, str(score.n), lost))
        put_table(board.recipe, head, table)
    for judge in unfit(rows):
        say(
            f"judge {judge.judge} is unfit here: it does not tell oracle ({number(judge.ceiling)}) "
            f"from literal ({number(judge.floor)}): {judge.recipe}"
        )
    put(f"{len(rows)} rows in {results / 'leaderboard.csv'}")
    return 0
