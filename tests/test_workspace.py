"""Samples by way of a workspace: which files, under which label, warned of or refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs
from support.toy import SAMPLES, Toy, lines

from harness.errors import DataError, SpecError
from harness.specs.tasks import ReferenceChoiceSpec
from harness.storage.find_runs import data_words
from harness.storage.runs import RunFolder
from harness.workspace import Workspace


def data_folder(toy: Toy, content: str) -> Workspace:
    folder = toy.folder / "data"
    (folder / "toys").mkdir(parents=True)
    (folder / "toys/toy.jsonl").write_text(content)
    return replace(toy.space(), data=folder)


def test_the_sample_set_stands_in_and_says_so(toy: Toy, caplog: pytest.LogCaptureFixture) -> None:
    samples, entry = toy.space().samples(toy.space().registry.load("tasks", "toy").data)

    assert (len(samples), entry.mode) == (SAMPLES, "sample")
    assert entry.label.startswith("sample:")
    assert "the sample set toy.jsonl is used (--data DIR for other data)" in caplog.text


def test_the_sample_set_is_told_of_once_a_command_and_not_with_what_is_stored(
    toy: Toy, caplog: pytest.LogCaptureFixture
) -> None:
    space = toy.space()
    data = space.registry.load("tasks", "toy").data

    space.of_stored().samples(data)
    space.samples(structs.replace(data, files=()))  # a task that has no other data
    assert caplog.messages == []

    for _ in range(2):
        space.samples(data)
    assert len(caplog.messages) == 1
    assert len(caplog.messages[0]) < 80


def test_a_source_that_can_be_fetched_is_named_in_the_warning(
    toy: Toy, caplog: pytest.LogCaptureFixture
) -> None:
    space = toy.space()
    space.samples(space.registry.load("tasks", "intent_resolution").data)
    assert "`harness data fetch intent_resolution`" in caplog.text


def test_a_data_folder_is_read_without_warning_its_overlay_in_corrected_mode_alone(
    toy: Toy, caplog: pytest.LogCaptureFixture
) -> None:
    space = data_folder(toy, "\n".join(lines(3)))
    samples, entry = space.samples(space.registry.load("tasks", "toy").data)

    assert (len(samples), entry.mode, caplog.text) == (3, "released", "")
    assert list(entry.files) == ["toy.jsonl"]

    spec = structs.replace(space.registry.load("tasks", "toy").data, overlay="overlays/none.yaml")
    with pytest.raises(SpecError, match=r"tasks/overlays/none\.yaml is in none of"):
        space.samples(spec)
    assert replace(space, data_mode="released").samples(spec)[1].mode == "released"


@pytest.mark.parametrize("name", ["toy.jsonl", "part/toy.jsonl"])
def test_a_released_file_that_was_changed_is_told_of_once(
    toy: Toy, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    space, about = data_folder(toy, "\n".join(lines(3))), "about: a\nrepository: r\ncommit: c\n"
    (toy.folder / "data/toys/part").mkdir()
    (toy.folder / "data/toys/toy.jsonl").rename(toy.folder / "data/toys" / name)
    spec = structs.replace(space.registry.load("tasks", "toy").data, files=(name,))
    own = space.samples(spec)[1].files[name]
    for sha, mode, warnings in [(own, "released", 0), ("a" * 64, "changed", 1)]:
        source = f"files: [{{path: p, name: {name}, sha256: {sha}}}]"
        toy.write("configs/data/toys.yaml", f"{about}licence: l\ncitation: c\n{source}")
        space = replace(toy.space(), data=toy.folder / "data")

        assert {space.samples(spec)[1].mode for _ in range(2)} == {mode}

        assert caplog.text.count("is not the file as it was released") == warnings
    assert f"toys/{name} is not" in caplog.text
    assert "`harness data fetch toys`" in caplog.text
    assert space.of_stored().samples(spec)[1].mode == "changed"
    assert len(caplog.messages) == 1
    if name == "toy.jsonl":
        assert toy.run("--data", str(toy.folder / "data")) == 0
        assert data_words(RunFolder(toy.runs()[0]).read()) == "toys, changed"


@pytest.mark.parametrize("is_sample", [True, False])
def test_choices_are_made_of_a_sample_set_as_of_released_data(toy: Toy, is_sample: bool) -> None:
    space = toy.space() if is_sample else data_folder(toy, "\n".join(lines()))
    spec = space.registry.load("tasks", "toy").data
    derived = structs.replace(
        spec, derive=ReferenceChoiceSpec(right="right", wrong="wrong", labels=("Yes", "No"))
    )

    (plain, label), (made, other) = space.samples(spec), space.samples(derived)

    assert [sample.gold for sample in made] == [s.references["right"][0] for s in plain]
    assert [sample.id for sample in made] == [sample.id for sample in plain]
    assert other.label != label.label
    assert (other.mode, other.files) == (label.mode, label.files)


def test_how_choice_samples_are_made_is_in_the_label(toy: Toy) -> None:
    space, spec = toy.space(), toy.space().registry.load("tasks", "toy").data
    ways = [
        ReferenceChoiceSpec(right=r, wrong=w, labels=("A", "B"))
        for r, w in [("right", "wrong"), ("wrong", "right")]
    ]

    labels = {space.samples(structs.replace(spec, derive=way))[1].label for way in (None, *ways)}

    assert len(labels) == 3


def test_the_label_follows_the_content_and_not_the_place(toy: Toy) -> None:
    spec = toy.space().registry.load("tasks", "toy").data
    space = data_folder(toy, "\n".join(lines(3)))
    first = space.samples(spec)[1].label
    path = toy.folder / "data/toys/toy.jsonl"

    (toy.folder / "data").rename(toy.folder / "moved")
    moved = replace(space, data=toy.folder / "moved")
    assert moved.samples(spec)[1].label == first
    (toy.folder / "moved/toys" / path.name).write_text("\n".join(lines(4)))
    assert moved.samples(spec)[1].label != first


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ("", "the file is empty"),
        ("\n".join(lines(2) * 2), "toy.jsonl"),
        ('{"group": "odd"}', "toy.jsonl:1"),
    ],
)
def test_data_that_is_no_sample_set_is_refused(toy: Toy, content: str, fact: str) -> None:
    space = data_folder(toy, content)
    with pytest.raises(DataError, match=fact):
        space.samples(space.registry.load("tasks", "toy").data)


def test_a_data_folder_without_a_source_is_refused_with_a_remedy(toy: Toy, tmp_path: Path) -> None:
    space = replace(toy.space(), data=tmp_path)
    with pytest.raises(DataError, match="no folder 'toys' in it; name a folder that has one"):
        space.samples(space.registry.load("tasks", "toy").data)


def test_the_desk_of_a_model_keeps_its_calls_below_its_name(toy: Toy) -> None:
    toy.run("--variant", "base")
    assert [path.name for path in (toy.results / "calls").iterdir()] == ["oracle"]
