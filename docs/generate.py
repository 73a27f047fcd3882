"""Writes the probes' table in docs/impscore.md, of the shipped head, and their words' scores."""

from pathlib import Path

from harness.storage.frames import Row, records

BEGIN = "<!-- of the shipped head: docs/generate.py -->\n"
END = "<!-- end of the probes -->\n"


def probe_section(scorer: str = "impscore-minilm") -> str:
    """The probe figures of a scorer as Markdown; weak cells and kinds are bold."""
    from harness.implicitness import probe
    from harness.registry import Registry

    opened = Registry.open(Path()).scorer(scorer)
    rows = records(probe.probe_figures(probe.scores_of(opened)))
    values = {
        (row.kind, row.at_least): row.value or 0 for row in rows if row.figure in ("mean", "share")
    }
    areas = {(row.kind, row.against): row for row in rows if row.figure == "auc"}
    alone = {row.kind: row.value for row in rows if row.figure == "words"}
    against = (*probe.PLAIN, probe.ALL_PLAIN)
    lines = [
        f"| | {' | '.join(f'over {name}' for name in against)} | words alone | mean |",
        f"|---{'|---' * len(against)}|---|---|",
    ]
    for kind in (*probe.IMPLICIT, probe.ALL_IMPLICIT):
        cells = " | ".join(_area(areas[kind, other]) for other in against)
        name = _bold(probe.words(kind), is_bold=areas[kind, probe.ALL_PLAIN].is_weak)
        words = f"{alone[kind]:.2f}".lstrip("0")
        lines.append(f"| {name} | {cells} | {words} | {values[kind, None]:.2f} |")
    means = ", ".join(f"{kind} {values[kind, None]:.2f}" for kind in probe.PLAIN)
    shares = ", ".join(
        f"{values[probe.ALL_PLAIN, edge]:.0%} score {edge:g} or more"
        for edge in probe.EDGES
        if edge >= 1
    )
    head = f"`{opened.signature}` on {rows[0].sets} sets: AUC, and its 95 % interval over sets."
    plain = f"Of the plain sentences {shares}; means: {means}."
    return "\n".join([head, "", *lines, "", plain, ""])


def _area(row: Row) -> str:
    value, low, high = (
        "-" if one is None else f"{one:.2f}".lstrip("0") for one in (row.value, row.low, row.high)
    )
    return _bold(value if row.low is None else f"{value} ({low} to {high})", is_bold=row.is_weak)


def _bold(text: str, *, is_bold: bool) -> str:
    return f"**{text}**" if is_bold else text


def with_probes(page: str, section: str) -> str:
    """The page with another section between the marks of the probes."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{section}{END}{rest.partition(END)[2]}"


def word_scores() -> list[float]:
    """What `probe.word_scores` reads: of each probe the log-odds by its words alone."""
    import json

    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    from harness.implicitness import probe

    data = Path(probe.__file__).parent / "data"
    pairs = [json.loads(line) for line in (data / "pairs.jsonl").read_text("utf-8").splitlines()]
    implicit = [pair["implicit"] for pair in pairs]
    plain = [pair["explicit"] for pair in pairs] + [p["plain"] for p in pairs if p["plain"]]
    vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    known = vectors.fit_transform(implicit + plain)
    model = LogisticRegression(max_iter=2000, C=10)
    model.fit(known, [1] * len(implicit) + [0] * len(plain))
    found = model.decision_function(vectors.transform(probe.probe_texts()))
    return [round(float(one), 3) for one in found]


if __name__ == "__main__":
    place = Path(__file__).parents[1] / "harness/implicitness/data/probe_words.json"
    place.write_text(f"{word_scores()}\n", "utf-8")
    page = Path(__file__).parent / "impscore.md"
    page.write_text(with_probes(page.read_text("utf-8"), probe_section()), "utf-8")
