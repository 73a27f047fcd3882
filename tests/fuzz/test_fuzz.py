"""Any text, file or line is a value, a reason, or one message: never a crash of ours."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.sketches import reply, request

from harness.data.ratings import read_ratings
from harness.data.readers import samples_jsonl
from harness.errors import HarnessError
from harness.parts import Reason
from harness.specs.data import MapSpec, OverlaySpec, TableSpec
from harness.specs.judges import JudgeSpec
from harness.specs.models import ModelSpec
from harness.specs.schema import load_spec, read_yaml
from harness.specs.tasks import TaskSpec
from harness.storage import tables
from harness.storage.ledger import Ledger
from harness.storage.runs import RunFolder
from harness.text import parsers
from harness.text.cleaning import RELEASED_STEPS, clean
from harness.text.cleanup import repair_surrogates, without_controls
from harness.text.prompts import as_data

FEW, MANY = 25, 3_000
"""Examples of each case by default, and with `-m slow`."""
MARKS = [
    *" \n\t.,:;()[]{}*_`\"'/-|<>#&!?=0123456789",
    *("Rating:", "Sure! ", "<|", "|>", "score", "yes", "no", "\x00", "\x1b[2J", "\ud83d", "\udca9"),
    *("\u200b", "\u2028", "\ufeff", "\uff11"),
]
TEXT = st.one_of(
    st.text(max_size=80),
    st.lists(st.one_of(st.sampled_from(MARKS), st.text(max_size=4)), max_size=40).map("".join),
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = [
    *("about", "kind", "model", "data", "variants", "steps", "name", "template", "encoder"),
    "scale",
]
KEYS += ["decodings", "options", "low", "high", "accept", "text", "label", "classes", "extra_body"]
LIKE_SPECS = st.recursive(
    st.one_of(SCALARS, st.sampled_from(["openai", "cosine", "rating", "a", "transformers"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=20,
)
LIKE_SAMPLES = st.fixed_dictionaries(
    {},
    optional={
        "group": JSON,
        "fields": st.one_of(JSON, st.dictionaries(st.text(max_size=4), st.text(max_size=9))),
        "references": st.one_of(JSON, st.just({"right": ["yes"]})),
        "id": JSON,
        "choices": JSON,
        "gold": JSON,
        "flags": JSON,
    },
)
BYTES = st.one_of(st.binary(max_size=200), TEXT.map(lambda text: encoded(text)))
SPECS = (TaskSpec, JudgeSpec, ModelSpec, TableSpec, MapSpec, OverlaySpec)


def allowed(act: Callable[[], object]) -> object:
    """What an act gives; None where it ends in one message."""
    with suppress(HarnessError):
        return act()
    return None


def in_file(name: str, content: bytes, act: Callable[[Path], object]) -> object:
    """What an act makes of a file of this name and content."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return allowed(lambda: act(path))


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def read_every_way(text: str) -> None:
    numbers = [parsers.option_number(text, 3), parsers.choice_text(text, ["Yes, I do.", "No", ""])]
    parse_digit = parsers.STATED["first_digit"]
    parse_all = {*parsers.STATED.values(), parsers.rating} - {parse_digit}
    ratings = [parse(text, low=1, high=5) for parse in parse_all]
    digit = parse_digit(text, low=1, high=5)  # as released: on the scale or not
    assert isinstance(digit, Reason) or 0 <= digit < inf
    for found in (*numbers, *ratings):
        assert isinstance(found, Reason) or 1 <= found <= 5
    assert isinstance(parsers.closing_yes_no(text), bool | Reason)
    assert parsers.is_refusal(text) in (True, False)
    for cut in parsers.POSTPROCESSORS.values():
        assert cut(cut(text)) == cut(text)
    assert as_data(as_data(text)) == as_data(text)
    assert repair_surrogates(text).encode().decode() == repair_surrogates(text)
    assert not set(without_controls(text)) & {"\x00", "\x1b", "\r", "\x9b"}


def read_tables(content: bytes) -> None:
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.txt"):
        kind = tables.format_by_name(name)
        assert kind is not None
        allowed(partial(tables.read_table, name, content, kind))
    in_file("a.csv", content, lambda path: tables.read_rows(path, ["text"]))
    in_file("a.csv", content, read_ratings)
    in_file("a.jsonl", content, lambda path: samples_jsonl.read([path], None))


def read_specs(content: bytes) -> None:
    for kind in SPECS:
        in_file("a.yaml", content, partial(read_spec, kind=kind))


def read_spec(path: Path, kind: Any) -> object:  # noqa: ANN401 - a spec or a union of specs
    return load_spec(read_yaml(path), kind, where="a")


def read_stored(content: bytes) -> None:
    asked = request()
    with TemporaryDirectory() as name:
        (Path(name) / "0-h-1.jsonl").write_bytes(content)
        allowed(lambda: Ledger(Path(name)).find([asked.key]))
        allowed(lambda: Ledger(Path(name)).asked([asked.key]))
        allowed(Ledger(Path(name)).identities)
    for file in ("run.json", "answers.parquet", "scores.csv", "SHA256SUMS"):
        with TemporaryDirectory() as name:
            (Path(name) / file).write_bytes(content)
            folder = RunFolder(Path(name))
            for act in (folder.read, folder.read_rows, folder.read_scores, folder.changed):
                allowed(act)


def stored_line() -> bytes:
    """A line of a ledger."""
    with TemporaryDirectory() as name:
        ledger = Ledger(Path(name))
        ledger.add(request(), reply(request()))
        ledger.close()
        [segment] = Path(name).iterdir()
        return segment.read_bytes()


LINE = stored_line()


def read_sample(content: object) -> None:
    text = encoded(json.dumps(content, ensure_ascii=False))
    in_file("a.jsonl", text, lambda path: samples_jsonl.read([path], None))


def damage(parts: tuple[int, bytes, int]) -> None:
    at, to, cut = parts
    read_stored(LINE[:at] + to + LINE[at + cut :] + LINE)


def cleaned(text: str) -> None:
    found, why, _ = clean(text, RELEASED_STEPS)
    assert (found is None) == (why is not None)
    assert found is None or found.strip()


CASES: Mapping[str, tuple[Any, Callable[..., None]]] = {
    "any reply is a value or a reason": (TEXT, read_every_way),
    "a cleaned text is never blank": (st.text(max_size=40), cleaned),
    "any table is rows or one message": (BYTES, read_tables),
    "any sample is read or reported": (LIKE_SAMPLES, read_sample),
    "any YAML is a spec or one message": (
        st.one_of(LIKE_SPECS.map(lambda value: encoded(json.dumps(value))), TEXT.map(encoded)),
        read_specs,
    ),
    "any damage to a stored line is reported": (
        st.tuples(st.integers(0, len(LINE) - 1), st.binary(max_size=3), st.integers(0, 60)),
        damage,
    ),
    "any file of a run folder is read or reported": (BYTES, read_stored),
}


def tried(name: str, examples: int, *, is_same: bool) -> None:
    """Try a case on so many generated values, each time the same or each time others."""
    values, act = CASES[name]
    checks = [HealthCheck.too_slow, HealthCheck.differing_executors]
    config = settings(
        max_examples=examples,
        deadline=None,
        derandomize=is_same,
        database=None,
        suppress_health_check=checks,
    )

    @given(values)
    def one(value: Any) -> None:  # noqa: ANN401 - what a strategy makes
        act(value)

    made: Any = config(one)
    made()


@pytest.mark.parametrize("name", CASES)
def test_whatever_is_given(name: str) -> None:
    tried(name, FEW, is_same=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_much_more_of_whatever_is_given(name: str) -> None:
    tried(name, MANY, is_same=False)
