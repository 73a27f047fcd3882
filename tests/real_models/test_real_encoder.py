"""all-mpnet-base-v2 from a folder: a judge and the implicitness metric that read with it."""

import csv

import pytest
from real_home import Home

pytest_plugins = ["real_fixtures"]
pytestmark = pytest.mark.real

PLAIN = ("The library closes at six.", "I would like a cup of tea.", "The bus was late again.")
IMPLICIT = (
    "Some of us have to get up early tomorrow.",
    "Well, that was certainly one way to park a car.",
    "You might find the kettle if you ever looked for it.",
)


def test_the_encoder_tells_replies_to_the_meaning_from_replies_to_the_words(home: Home) -> None:
    told = ("--variant", "base", "--judge", "mpnet-cosine")
    done = home.harness("run", "--task", "intent_resolution", "--model", "oracle,literal", *told)

    assert done.returncode == 0, done.stderr[-3000:]
    assert home.score("intent_resolution", "oracle", "T0.3+0.5").score.value == 1
    assert home.score("intent_resolution", "literal", "T0.3+0.5").score.value == 0


def test_the_metric_finds_implicit_sentences_more_implicit(home: Home) -> None:
    (home.folder / "texts.txt").write_text("\n".join(PLAIN + IMPLICIT) + "\n")

    told = ("--scorer", "impscore-mpnet", "-o", "scored.csv")
    done = home.harness("impscore", "score", "texts.txt", *told)

    assert done.returncode == 0, done.stderr[-3000:]
    with (home.folder / "scored.csv").open(encoding="utf-8-sig", newline="") as file:
        scores = [float(row["implicitness"]) for row in csv.DictReader(file)]
    assert len(scores) == len(PLAIN + IMPLICIT)
    assert max(scores[: len(PLAIN)]) < min(scores[len(PLAIN) :])


def test_other_weights_are_refused(home: Home) -> None:
    judge = home.folder / "configs" / "judges" / "other.yaml"
    text = (home.folder / "configs" / "judges" / "mpnet-cosine.yaml").read_text()
    judge.write_text(text.replace("sha256: 78c0", "sha256: 0000"))

    told = ("--variant", "base", "--judge", "other")
    done = home.harness("run", "--task", "intent_resolution", "--model", "oracle", *told)

    assert done.returncode == 2
    assert "sha256" in done.stderr
