"""Planned calls to what a dry run prints: examples, sizes, prices, and whether a budget holds."""

from collections.abc import Iterable

from harness.lazy import DataFrame, pandas
from harness.models.client.cached import CallPolicy
from harness.pipeline.preview import ANY, USD
from harness.present.screen import say, show, usd, usd_range
from harness.storage.frames import records

SIZES = "calls, tokens in and out, at most"


def put_calls(title: str, calls: DataFrame) -> None:
    """Print the sizes of each kind of call of a run, and an example of it."""
    kinds = calls[["asker", "variant", "step"]].rename(columns={"asker": "for"})
    each = sizes(calls[at : at + 1] for at in range(len(calls)))
    show(kinds.reset_index(drop=True).join(each), f"{title}: {SIZES}")
    if calls["is_estimate"].any():
        say("~ estimated: four characters are one token\n")
    for part in records(calls):
        if part.example:
            kind = (part.asker, part.variant, part.step)
            say(f"--- {', '.join(word for word in kind if word != ANY)}: an example")
            for message in part.example:
                say(f"[{message.role}]\n{message.content}\n", is_raw=True)
        if part.example and part.choices:
            say(f"[choices]\n{' '.join(map(repr, part.choices))}\n", is_raw=True)


def sizes(each: Iterable[DataFrame]) -> DataFrame:
    """A row of SIZES for each of some calls, and the price of what is not stored if it is known."""
    rows = []
    for calls in each:
        known, mark = calls["most_usd"].dropna(), "~" * bool(calls["is_estimate"].any())
        row = {name: calls[name].sum(min_count=1) for name in ("calls", "stored")}
        row["in"], row["out"] = f"{mark}{calls['prompt_tokens'].sum()}", calls["max_tokens"].sum()
        rows.append(row | {"USD to pay": usd(known.sum()) if len(known) else None})
    return pandas.DataFrame(rows, dtype=object).dropna(axis=1, how="all")


def put_sums(
    calls: DataFrame,
    terms: CallPolicy,
    *,
    start: str = "",
    cap: str = "--budget",
    unplanned: int = 0,
) -> None:
    """Print how many calls there are, for how much, and whether the budget of `cap` holds.

    Of so many `unplanned` runs nothing is known.
    """
    say(start + _sum(calls, is_batch=terms.is_batch))
    if waiting := calls["waiting"].sum():
        again = "made and paid again; add --batch to collect them"
        fate = "collected, and not paid again" if terms.is_batch else again
        say(f"{waiting} of these calls wait in a batch already sent: they would be {fate}")
    if (budget := terms.budget) is None:
        return
    least, most = (float(calls[name].sum()) for name in USD)
    end = "the calls will stop before their end"
    if budget.spent_usd + least <= budget.cap_usd:
        end = "the calls may stop before their end"
    if budget.spent_usd + most <= budget.cap_usd:
        end = "within the budget"
    why = f"{unplanned} runs cannot be planned" if unplanned else ""
    why = "no price" if (calls["priced_as"].notna() & calls["most_usd"].isna()).any() else why
    rest = f"what the others cost is unknown: {why}" if why else ""
    rest = rest or f"the others cost at most {usd(most)}: {end}"
    spent = f"stored calls have cost {usd(budget.spent_usd)} USD"
    say(f"{cap} {budget.cap_usd:.12g}: {spent}, and {rest}")


def _sum(calls: DataFrame, *, is_batch: bool) -> str:
    count, stored = int(calls["calls"].sum()), int(calls["stored"].sum())
    if stored == count > 0:
        return f"nothing to ask: all {count} calls are stored"
    facts = [f"{count} call{'s' * (count != 1)} at most"]
    if stored:
        facts = [f"{count - stored} of {count} calls to ask at most, {stored} are stored"]
    hosted = calls[calls["priced_as"].notna()]
    unknown = hosted[hosted["most_usd"].isna()]
    known = hosted[~hosted["model"].isin(unknown["model"])]
    if len(known):
        payers = ("judge " + known["asker"]).where(known["variant"] == ANY, "answers")
        sums = known.groupby(payers, sort=False)[[*USD]].sum()
        each = ", ".join(f"{row.Index} {usd_range([row[1:]])}" for row in sums.itertuples())
        has_parts = len(sums) > 1 or len(known) < len(calls)
        whole = usd_range([*sums.itertuples(index=False)])
        facts.append(f"price: {whole} USD" + f": {each}" * has_parts)
    if len(unknown):
        keys = ", ".join(map(repr, unknown["priced_as"].unique()))
        kind, entry = (" in batches", " with batch_share") if is_batch else ("", "")
        facts.append(
            f"no price for {', '.join(unknown['model'].unique())}{kind}, so only tokens are "
            f"counted; add {keys}{entry} to configs/prices.yaml of your own folder"
        )
    if hosted.empty:
        facts.append("tokens only: no model here is paid by the call")
    return "; ".join(facts)
