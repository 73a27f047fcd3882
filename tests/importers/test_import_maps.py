"""What a column map's YAML may say, and what is wrong with one."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.each import each

from harness.errors import SpecError
from harness.registry import Registry, shipped_home
from harness.specs.data import AnswerSpec, MapSpec, SampleColumns
from harness.specs.schema import Spec, load_spec

PAGE = (Path(__file__).parents[2] / "docs/importing.md").read_text("utf-8")

SAYS: Mapping[str, object] = {
    "about": "x",
    "format": "csv",
    "sample": {"id": "item"},
    "answer": {"kind": "text", "column": "said"},
}


def read(**changes: object) -> MapSpec:
    spec: MapSpec = load_spec({**SAYS, **changes}, MapSpec, where="map.yaml")
    return spec


@each(
    ("changes", "fact"),
    [
        ({"frmat": "csv"}, "did you mean format"),
        ({"format": "cvs"}, "did you mean csv? known: csv, inspect, jsonl, lm_eval, parquet"),
        ({"sample": {"idd": "item"}}, "did you mean id?"),
        ({"sample": {"id": "a", "prompt": "b"}}, "one of `id`, `fields` and `prompt`, not"),
        ({"sample": {}}, "not none"),
        ({"sample": {"id": "a", "group": "b"}}, "`group` goes with `fields`"),
        ({"variant_colum": "a"}, "did you mean variant_column"),
        ({"where": {"a": "b"}}, "Expected `array`, got `str` - at `$.where[a]`"),
        ({"answer": {"kind": "txt", "column": "a"}}, "did you mean text?"),
        ({"answer": {"kind": "probabilities"}}, "give `column`, or `columns`"),
        (
            {"answer": {"kind": "logprobs", "column": "a", "columns": ["b"]}},
            "give `column`, or `columns`",
        ),
        ({"answer": {"kind": "text", "columns": ["a"]}}, "a text is in one `column`"),
        ({"answer": {"kind": "chosen", "column": "a", "counted_from": 2}}, "enum value 2"),
        ({"answer": {"kind": "chosen", "column": "a", "order": "mine"}}, "known: own, shown"),
        ({"answer": None}, "a file in format csv needs `sample` and `answer`"),
        ({"format": "jsonl", "sample": None}, "needs `sample` and `answer`"),
        ({"format": "lm_eval"}, "leave out `prompt` and `answer`"),
        ({"format": "inspect", "answer": None, "prompt": "a"}, "leave out `prompt` and `answer`"),
        ({"temperature": -1}, ">= 0"),
    ],
)
def test_a_wrong_map_is_named_with_the_remedy(changes: Mapping[str, object], fact: str) -> None:
    with pytest.raises(SpecError, match=r"^map\.yaml: ") as caught:
        read(**changes)
    assert fact in str(caught.value)


@pytest.mark.parametrize("form", ["lm_eval", "inspect"])
def test_of_a_log_a_map_need_say_nothing_but_the_variant(form: str) -> None:
    assert read(format=form, sample=None, answer=None, variant="order0").variant == "order0"


def test_a_map_is_found_by_its_name_or_by_its_path(tmp_path: Path) -> None:
    registry = Registry((shipped_home(),), {}, tmp_path)
    (tmp_path / "mine.yaml").write_text(
        "{about: mine, format: csv, sample: {id: a}, answer: {kind: text, column: b}}", "utf-8"
    )

    assert registry.load("configs/imports", "option_probabilities").format == "csv"
    assert registry.load("configs/imports", str(tmp_path / "mine.yaml")).about == "mine"


def test_the_map_on_the_page_is_the_one_that_ships(tmp_path: Path) -> None:
    block = PAGE.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "page.yaml").write_text(block, "utf-8")
    registry = Registry((shipped_home(),), {}, tmp_path)
    on_page = registry.load("configs/imports", str(tmp_path / "page.yaml"))

    assert on_page == registry.load("configs/imports", "option_probabilities")


@pytest.mark.parametrize("spec", [MapSpec, SampleColumns, AnswerSpec])
def test_every_key_of_a_map_is_on_its_page(spec: type[Spec]) -> None:
    assert [name for name in spec.__struct_fields__ if not re.search(rf"`{name}\b", PAGE)] == []
