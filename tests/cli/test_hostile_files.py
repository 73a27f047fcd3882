"""Tables, ratings, logs, samples and blank answers: each is read, or is one message."""

import json

import pytest
from support import stored_tables
from support.each import rest_slow
from support.stub_server import StubServer
from support.toy import Lines, Toy, csv_rows

from harness.cli import main

HEAD = "task,sample_id,model,rater,value,scale\n"
STORY: dict[str, object] = {
    "group": "g",
    "fields": {"story": "x"},
    "references": {"right": ["y"], "wrong": ["n"]},
}
RATINGS = {
    "no number": ("nan", 2),
    "endless": ("inf", 2),
    "too large": ("1e308", 2),
    "too large, below zero": ("-1e200", 2),
    "many digits": ("9" * 400, 2),
    "too small": ("3e-320", 2),
    "hexadecimal": ("0x1", 2),
    "blank, all of them": ("", 0),
    "zero": ("0", 0),
    "not round": ("2.5", 0),
}
SAMPLES: dict[str, tuple[list[dict[str, object]], int]] = {
    "an id twice": ([{"id": "a"}, {"id": "a"}], 2),
    "a path as id": ([{"id": "../../x"}], 0),
    "a path as group": ([{"group": "../../../etc/passwd"}], 0),
    "escapes": ([{"id": "\x1b[2J", "group": "\x1b]0;x\x07"}], 0),
    "line ends and bars": ([{"group": "a\nb,c|d"}], 0),
    "half an emoji": ([{"id": "\ud83d"}], 0),
    "a long group": ([{"group": "g" * 5_000}], 0),
    "a template in a field": ([{"fields": {"story": "{{ 1/0 }}", "__class__": "z"}}], 0),
    "names of Jinja": ([{"fields": {"story": "x", "self": "z", "loop": "q", "": "w"}}], 0),
    "no field": ([{"fields": {}}], 2),
    "no reference": ([{"references": {}}], 2),
    "an empty reference": ([{"references": {"right": [], "wrong": ["n"]}}], 2),
    "a number as field": ([{"fields": {"story": 5}}], 2),
    "a key nobody knows": ([{"gropu": "g"}], 2),
}


@pytest.mark.parametrize("kind", rest_slow(["interval", "nominal", "ordinal"], kept=1))
def test_ratings_of_any_number_are_read_or_told(toy: Toy, capsys: Lines, kind: str) -> None:
    toy.run("--variant", "base")
    [folder] = toy.runs()
    ids = stored_tables.samples(folder)
    path = toy.folder / "ratings.csv"
    codes = {}

    for name, (value, _) in RATINGS.items():
        rows = (f"toy,{one},oracle,{who},{value},base\n" for one in ids for who in ("ann", "bob"))
        path.write_text(HEAD + "".join(rows), "utf-8")
        words = ["--ratings", str(path), "--draws", "20", "--level", kind]
        codes[name] = main(["agree", *words, "--results", str(toy.results)])

    assert codes == {name: code for name, (_, code) in RATINGS.items()}
    assert "Traceback" not in capsys.readouterr().err


def test_raters_who_rated_different_items_are_no_crash(toy: Toy) -> None:
    toy.run("--variant", "base")
    [folder] = toy.runs()
    ids = stored_tables.samples(folder)
    path = toy.folder / "ratings.csv"
    own = "".join(f"toy,{one},oracle,r{n},{n},base\n" for n, one in enumerate(ids))
    gaps = "".join(f"toy,{one},oracle,ann,{n if n % 2 else ''},base\n" for n, one in enumerate(ids))
    single = f"toy,{ids[0]},oracle,ann,1,base\n"

    for text in (own, gaps, single):
        path.write_text(HEAD + text, "utf-8")
        words = ["--ratings", str(path), "--draws", "20", "--results", str(toy.results)]
        assert main(["agree", *words]) in (0, 1)


@pytest.mark.parametrize("name", rest_slow(SAMPLES, kept=slice(None, None, 3)))
def test_a_sample_set_is_read_or_told(toy: Toy, capsys: Lines, name: str) -> None:
    changes, code = SAMPLES[name]
    text = "".join(json.dumps(STORY | change) + "\n" for change in changes)
    toy.write("tasks/samples/toy.jsonl", text)

    assert toy.run() == code
    assert main(["leaderboard", "--results", str(toy.results)]) == code

    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert "\x1b" not in captured.err + captured.out


@pytest.mark.parametrize("answer", ["\u200b\u200d\ufeff", "\x00\x07\x1b", "\u3164 \u2800"])
@pytest.mark.parametrize("judge", ["near", "choice"])
def test_a_run_of_answers_that_show_nothing_has_no_value(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, answer: str, judge: str
) -> None:
    with StubServer(reply=lambda prompt: "1" if "Judge" in prompt else answer) as stub:
        monkeypatch.setenv("HARNESS_SERVER_URL", stub.url)
        code = toy.run("--variant", "base", "--judge", judge, model="alpha")

    [row, *_] = csv_rows(toy.runs()[0] / "scores.csv")
    assert (code, row["value"], row["n"]) == (1, "", "0")
    assert int(row["missing_empty"]) > 0
