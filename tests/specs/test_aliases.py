"""A key may be written by its field's name or as it is stored, and is stored as ever."""

from typing import Any

import msgspec
import pytest

from harness.errors import SpecError
from harness.specs.schema import load_spec
from harness.specs.tasks import PerturbationSpec, TaskSpec

OLD = {"postprocess": "cut", "is_unconditional": "is_neutral", "averaged_over": "pool"}


def content(**names: str) -> dict[str, Any]:
    """A task that has all keys of two names, `names` replacing those of today."""
    first = {
        "name": "without",
        "template": "t",
        names.get("is_unconditional", "is_unconditional"): True,
    }
    variant = {
        "about": "",
        "choice": {},
        "steps": [first, {"name": "answer", "template": "t"}],
        names.get("averaged_over", "averaged_over"): "all",
        "slots": {"cut": "a", "pool": "b", "postprocess": "c"},
    }
    return {
        "about": "a toy",
        "data": {"source": "toy", "reader": "toy", "files": [], "sample": "toy.jsonl"},
        "variants": {"pool": variant, "averaged_over": variant},
        "default_variants": ["pool"],
        "decodings": [{"temperature": 0, "max_tokens": 5}],
        "judges": [],
        names.get("postprocess", "postprocess"): "lead_in",
    }


def load(given: dict[str, Any]) -> TaskSpec:
    spec: TaskSpec = load_spec(given, TaskSpec, where="toy.yaml")
    return spec


@pytest.mark.parametrize("new", [*OLD, None])
def test_old_and_new_keys_are_one_task_with_one_stored_form(new: str | None) -> None:
    names = OLD if new is None else {new: OLD[new]}

    spec = load(content(**names))

    assert spec == load(content())
    variant = spec.variants["averaged_over"]
    assert (spec.postprocess, variant.averaged_over) == ("lead_in", "all")
    assert [step.is_unconditional for step in variant.steps] == [True, False]
    assert list(variant.slots) == ["cut", "pool", "postprocess"]
    stored = msgspec.json.encode(spec).decode()
    assert [name for name in OLD.values() if f'"{name}":' not in stored] == []
    assert msgspec.json.decode(stored, type=TaskSpec) == spec


def test_both_names_of_a_key_are_refused() -> None:
    with pytest.raises(SpecError, match="are one key; leave one out"):
        load({**content(), "cut": "none"})


@pytest.mark.parametrize("name", ["cut", "postprocess"])
def test_an_error_names_a_key_as_the_file_does(name: str) -> None:
    with pytest.raises(SpecError) as caught:
        load({**content(postprocess=name), name: "blank_lin"})

    assert f"`$.{name}`" in str(caught.value) or f"`.{name}`" in str(caught.value)
    assert "did you mean blank_line" in str(caught.value)


def test_members_of_a_union_have_aliases_too() -> None:
    asked = {
        "about": "a",
        "kind": "asked",
        "steps": [{"name": "s", "template": "t", "sees": {"text": "text"}}],
        "decoding": {"temperature": 0, "max_tokens": 5},
        "keeps_meaning": True,
        "postprocess": "none",
    }

    assert load_spec(asked, PerturbationSpec, where="a.yaml").postprocess == "none"
