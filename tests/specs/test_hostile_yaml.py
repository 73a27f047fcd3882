"""YAML of strangers: whatever a file is or says, it is read or refused by one message, at once."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support.each import each

from harness.errors import SpecError
from harness.specs.judges import JudgeSpec
from harness.specs.models import ModelSpec
from harness.specs.schema import load_spec, read_yaml
from harness.specs.tasks import TaskSpec

MODEL = "about: a\nkind: openai\nmodel: m\nkey_env: null\nextra_body:\n  "
LAUGHS = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 60))


def read(path: Path, kind: Any = ModelSpec) -> Any:  # noqa: ANN401 - a spec or a union of specs
    return load_spec(read_yaml(path), kind, where=str(path))


@each(
    ("text", "told"),
    [
        (f"{MODEL}me: &me {{again: *me}}", "alias *me; write out"),
        (f"{MODEL}me: &me [1, [*me]]", "alias *me; write out"),
        ("&top\nabout: *top", "alias *top; write out"),
        (f"{MODEL}a: " + "{a: " * 3_000 + "1" + "}" * 3_000, "nests more than 100 deep"),
        (f"{MODEL}a: " + "[" * 200_000 + "]" * 200_000, "nests more than 100 deep"),
        (f"{MODEL}a: " + "[" * 200_000, "nests more than 100 deep"),
        (f"{MODEL}a: " + "- " * 5_000 + "1", "not valid YAML"),
        ("\n".join(" " * n + "a:" for n in range(2_000)), "nests more than 100 deep"),
        ("a: &l0 [1]\nb:\n" + LAUGHS, "alias *l0; write out"),
        (f"{MODEL}l0: &l0 [1]\n{LAUGHS}", "alias *l0; write out"),
        (f"{MODEL}<<: &x {{a: 1, <<: *x}}", "alias *x; write out"),
        (f"{MODEL}a: *nobody", "not valid YAML"),
        (f"{MODEL}a: {'9' * 10_000}", "not valid YAML"),
        (f"{MODEL}a: !!python/object/apply:os.getpid []", "not valid YAML"),
        *(("? [a, b]\n: 1", "not valid YAML"), ("--- {a: 1}\n--- {a: 2}", "not valid YAML")),
        *(("\x00", "not valid YAML"), ("a: 2026-13-45", "not valid YAML")),
    ],
)
def test_what_is_recursive_deep_or_endless_is_one_message(text: str, told: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "toy.yaml"
        path.write_text(text, "utf-8")

        for kind in (ModelSpec, TaskSpec):
            with pytest.raises(SpecError) as caught:
                read(path, kind)
            assert str(path) in str(caught.value)
            assert told in str(caught.value)
            assert len(str(caught.value)) < 1_000


@each(
    ("key", "told"),
    [
        *(("timeout_s: .inf", "<= 2592000"), ("concurrency: 1000000000", "<= 10000")),
        ("attempts: 1" + "0" * 30, "`attempts` is no number up to"),
        ("scale: {low: 0, high: 1" + "0" * 30 + "}", "`scale.high` is no number up to"),
    ],
)
def test_a_number_that_nothing_can_have_is_named(tmp_path: Path, key: str, told: str) -> None:
    kind = ("stated", JudgeSpec) if "scale" in key else ("openai\nmodel: m", ModelSpec)
    path = tmp_path / "toy.yaml"
    path.write_text(f"about: a\nkind: {kind[0]}\n{key}\n", "utf-8")

    with pytest.raises(SpecError) as caught:
        read(path, kind[1])
    assert told in str(caught.value)


def test_a_folder_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read"):
        read_yaml(tmp_path)
