"""A gate's rows to JUnit's XML, which servers of continuous integration read."""

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from harness.analysis.gates.gate import LEVEL, SAME, Decision
from harness.lazy import DataFrame
from harness.storage.frames import Row, records
from harness.text.cleanup import without_controls

TAGS = {Decision.REGRESSION: "failure", Decision.INCONCLUSIVE: "error"}
"""The element of each decision that is no pass."""
HEAD = '<?xml version="1.0" encoding="utf-8"?>'


def junit_text(gate: DataFrame) -> bytes:
    """One test case a row: a regression is a failure, what is inconclusive or absent an error."""
    said, absent = gate["decision"].tolist(), gate.attrs["absent"]
    suite = Element(
        "testsuite",
        name="harness gate",
        tests=str(len(said) + len(absent)),
        failures=str(said.count(Decision.REGRESSION)),
        errors=str(said.count(Decision.INCONCLUSIVE) + len(absent)),
    )
    for row in records(gate):
        names = {"classname": f"{row.task}.{row.variant}", "name": f"{row.metric} by {row.judge}"}
        case = SubElement(suite, "testcase", {n: without_controls(v) for n, v in names.items()})
        if (tag := TAGS.get(row.decision)) is not None:
            facts = {"type": str(row.decision), "message": without_controls(row.reason)}
            SubElement(case, tag, facts).text = gate_words(row)
        elif row.reason == SAME:
            SubElement(case, "system-out").text = row.reason
    for part in map(without_controls, absent):
        case = SubElement(
            suite, "testcase", classname=without_controls(gate["task"].iat[0]), name=part
        )
        facts = {"type": str(Decision.INCONCLUSIVE), "message": f"not in the new run: {part}"}
        SubElement(case, TAGS[Decision.INCONCLUSIVE], facts)
    indent(suite)
    return f"{HEAD}\n{tostring(suite, encoding='unicode')}\n".encode()


def gate_words(row: Row) -> str:
    """The drop of a row with its intervals, and the one that would have been seen if none was."""
    if row.drop is None:
        return "no item that both runs have a verdict on"
    facts = [f"{row.base:.3f} before, {row.new:.3f} now: a drop of {row.drop:.3f}"]
    if row.low is not None and row.high is not None:
        facts.append(f"95% interval {row.low:.3f} to {row.high:.3f}")
    if row.level > LEVEL and row.low_corrected is not None and row.high_corrected is not None:
        ends = f"{row.low_corrected:.3f} to {row.high_corrected:.3f}"
        facts.append(f"{row.level:.1%} interval, corrected for the number of rows, {ends}")
    facts.append(f"{row.n} items in {row.clusters} clusters")
    if row.seen is not None and row.decision != Decision.REGRESSION:
        facts.append(f"a drop of {row.seen:.3f} would have been seen (80% power)")
    return "; ".join(facts)
