"""Tables of labelled texts to choice samples: by any column map, and by each that ships."""

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow
import pytest
from pyarrow import parquet
from support.each import each
from support.packages import DATA, needs_data

from harness.core import Sample
from harness.data.readers.labelled_table import read
from harness.errors import DataError, SpecError
from harness.registry import Registry
from harness.specs.data import TableSpec
from harness.specs.schema import load_spec, read_yaml

HOME = Path(__file__).parents[3]
SHIPPED = Registry((HOME,), {}, HOME / "no cache")
CHOICES = {"hateful": "yes", "benign": "no"}
PLAIN: dict[str, object] = {
    "about": "",
    "source": "toys",
    "text": "text",
    "label": {"column": "label", "classes": {"hateful": ["1"], "benign": ["0"]}},
}
Cells = Mapping[str, object]


def spec(**changes: object) -> TableSpec:
    made: TableSpec = load_spec({**PLAIN, **changes}, TableSpec, where="toys.yaml")
    return made


def shipped(name: str) -> TableSpec:
    path = SHIPPED.file("configs/tables", name)
    made: TableSpec = load_spec(read_yaml(path), TableSpec, where=str(path))
    return made


def written(folder: Path, rows: Sequence[Cells], name: str = "a.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def samples(folder: Path, held: Sequence[Cells], **changes: object) -> list[Sample]:
    return read([written(folder, held)], spec(**changes), CHOICES)


def row(text: object, label: object = "1", **more: object) -> Cells:
    return {"text": text, "label": label, **more}


def test_a_row_is_a_choice_sample_with_its_label(tmp_path: Path) -> None:
    [one, other] = samples(tmp_path, [row("Reeds burn."), row("Rain, again.", "0")])

    assert (one.fields, one.choices, one.gold) == ({"text": "Reeds burn."}, ("yes", "no"), "yes")
    assert one.references == {"label": ("hateful",), "labels": ("hateful", "benign")}
    assert (one.group, other.group, other.gold) == ("hateful", "benign", "no")


def test_further_columns_are_kept_under_their_names(tmp_path: Path) -> None:
    columns = {"group": "kind", "subtlety": "sub", "properties": "props", "origin": "src"}
    said = {"kind": "veiled", "sub": "Subtle", "props": ["irony", "context"], "src": "a", "t": 3}

    [one] = samples(tmp_path, [row("Reeds burn.", **said)], **columns, keep={"target": "t"})

    assert one.group == "veiled"
    expected = {"subtlety": ("Subtle",), "properties": ("irony", "context")}
    expected |= {"origin": ("a",), "target": ("3",)}
    assert expected.items() <= one.references.items()


def test_ids_come_from_texts_and_repeated_ones_are_separated(tmp_path: Path) -> None:
    rows = [row("Reeds burn."), row("Rain.", "0"), row("Reeds burn.")]
    found = samples(tmp_path, rows, duplicates="keep")
    alone = samples(tmp_path, rows[:1])

    assert [one.id for one in found] == [alone[0].id, found[1].id, f"{alone[0].id}-2"]
    assert found[0].cluster == found[2].cluster != found[1].cluster


def test_of_texts_with_the_same_words_the_first_counts_and_a_dispute_is_flagged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [row("Reeds burn."), row("reeds  burn!", "0"), row("Rain."), row("RAIN")]

    found = samples(tmp_path, rows)

    flags = {one.fields["text"]: one.flags for one in found}
    assert flags == {"Reeds burn.": ("disputed_label",), "Rain.": ()}
    assert len(found) == 2
    assert "2 of 4 rows left out: a repeated text" in caplog.text


@pytest.mark.parametrize(
    ("value", "gold"),
    [(3, "yes"), (2.99, "no"), ("3.0", "yes"), ("1e1", "yes"), ("-1", "no"), (3.0, "yes")],
)
def test_a_number_is_hateful_from_a_threshold_on(tmp_path: Path, value: object, gold: str) -> None:
    found = samples(tmp_path, [row("x", value)], label={"column": "label", "at_least": 3})
    assert [one.gold for one in found] == [gold]


HOT = r"a\.jsonl:2: column 'label' says 'hot', "


@pytest.mark.parametrize(
    ("held", "changes", "error"),
    [
        (row("x", "hot"), {"label": {"column": "label", "at_least": 3}}, f"{HOT}.*no number"),
        (row("x", "hot"), {}, f"{HOT}which `label`.*known: 0, 1"),
        *(
            (row(text), {}, r"a\.jsonl:2: column 'text' holds .*, which is no text")
            for text in (5, 2.5, True, ["a"], {"a": 1})
        ),
        (row("x"), {"text": "txt"}, r"no column 'txt'; did you mean text\?.*column map"),
        *(
            (row("y", i=value), {"implicitness": "i"}, r"2: column 'i' says .*, which is no number")
            for value in ("high", "nan", "inf")
        ),
    ],
)
def test_a_cell_or_column_that_the_map_does_not_know_is_named_by_its_row(
    tmp_path: Path, held: Cells, changes: dict[str, object], error: str
) -> None:
    with pytest.raises(DataError, match=error):
        samples(tmp_path, [row("x", i=1), held], **changes)


@pytest.mark.parametrize(
    ("left_out", "error"),
    [
        (row(None), "1 of 3 rows left out: no text"),
        (row("\0 \t\u0007"), "1 of 3 rows left out: no text"),
        (row("y", None), "1 of 3 rows left out: no label"),
    ],
)
def test_what_cannot_be_asked_about_is_left_out_and_counted(
    tmp_path: Path, left_out: Cells, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = samples(tmp_path, [row("x"), left_out, row("z")])
    assert [one.fields["text"] for one in found] == ["x", "z"]
    assert error in caplog.text


def test_a_row_left_out_by_its_map_is_not_one_without_a_label(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    classes = {"hateful": ["1"], "benign": ["0"]}
    label = {"column": "label", "classes": classes, "left_out": ["unclear", "2"]}

    found = samples(
        tmp_path, [row("x"), row("y", "unclear"), row("z", 2.0), row("w", None)], label=label
    )

    assert [one.fields["text"] for one in found] == ["x"]
    assert "2 of 4 rows left out: a label that the map's `left_out` names" in caplog.text
    assert "1 of 2 rows left out: no label" in caplog.text


def test_a_column_of_implicitness_is_taken_as_it_is(tmp_path: Path) -> None:
    found = samples(tmp_path, [row("x", i=1.25), row("y", i=None)], implicitness="i")
    assert [one.references.get("implicitness") for one in found] == [("1.25",), None]


def test_labels_without_a_choice_are_not_asked_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    label = {"column": "label", "classes": {"none": [""], "open": ["e"], "veiled": ["i"]}}
    path = written(tmp_path, [row("x", "e"), row("y", None), row("z", "i")])

    three = read([path], spec(label=label), {"none": "none", "open": "open", "veiled": "veiled"})
    two = read([path], spec(label=label), {"open": "open", "veiled": "veiled"})

    assert [one.gold for one in three] == ["open", "none", "veiled"]
    assert [one.gold for one in two] == ["open", "veiled"]
    assert "1 of 3 rows left out: a label not asked about" in caplog.text


def test_a_choice_of_no_label_is_named_with_the_labels(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="label 'toxic', which this table's map does not"):
        read([written(tmp_path, [row("x")])], spec(), {"toxic": "yes", "benign": "no"})


# One item of several raters


def test_raters_of_one_text_are_averaged_before_the_threshold(tmp_path: Path) -> None:
    rows = [row("x", 1), row("X.", 0), row("x", 0), row("y", 1), row("y", 0)]
    found = samples(tmp_path, rows, label={"column": "label", "at_least": 0.5}, rows="ratings")

    # One in three for x, one in two for y.
    assert [(one.fields["text"], one.gold) for one in found] == [("x", "no"), ("y", "yes")]


def test_most_raters_decide_and_where_they_are_divided_nobody_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [row("x", "1"), row("x", "0"), row("x", "1"), row("y", "1"), row("y", "0")]
    found = samples(tmp_path, rows, rows="ratings")

    assert [(one.fields["text"], one.gold) for one in found] == [("x", "yes")]
    assert "raters who are equally many for two labels" in caplog.text


# Rows made of others


MADE = [
    row("the old mill by the river stood empty", how="orig"),
    row("rain came over the hills at noon", "0", how="orig"),
    row("the old mill by the river truly stood empty", how="adverb"),
    row("rain came over the hills quietly at noon", how="adverb"),
    row("nothing of the kind was ever said", how="model"),
]
ORIGINALS = {"column": "how", "value": "orig"}


def test_made_rows_are_left_if_not_wanted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = samples(tmp_path, MADE, originals=ORIGINALS)
    assert [one.flags for one in found] == [(), ()]
    assert "3 of 5 rows left out: made of others" in caplog.text


def test_made_rows_share_the_cluster_of_their_original(tmp_path: Path) -> None:
    found = samples(tmp_path, MADE, originals={**ORIGINALS, "with_made": True})

    mill, rain, near, other_label, model = (one.cluster for one in found)
    assert near == mill
    # An original of another label is none of its own.
    assert len({mill, rain, other_label, model}) == 4
    assert [one.flags for one in found] == [(), (), ("made",), ("made",), ("made",)]


@pytest.mark.parametrize("with_made", [False, True])
def test_a_value_of_originals_that_no_row_has_is_reported(tmp_path: Path, with_made: bool) -> None:
    rule = {"column": "how", "value": "nowhere", "with_made": with_made}

    error = r"a\.jsonl: no labelled text has 'nowhere' in column 'how'"
    with pytest.raises(DataError, match=error):
        samples(tmp_path, MADE, originals=rule)


def test_a_file_without_the_column_has_originals_alone(tmp_path: Path) -> None:
    rows = [{"text": one["text"], "label": one["label"]} for one in MADE]
    found = samples(tmp_path, rows, originals=ORIGINALS, optional=["how"])
    assert len(found) == 5


def test_a_named_cluster_goes_before_the_words(tmp_path: Path) -> None:
    rows = [row("x", c="7"), row("y", c=7), row("z", c=None)]
    found = samples(tmp_path, rows, cluster="c")

    assert found[0].cluster == found[1].cluster == "toys-7"
    assert found[2].cluster not in ("toys-7", "toys-")


def test_clusters_by_no_column_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    samples(tmp_path, [row("x")], cluster="c", optional=["c"])
    assert "no column c: each text counts as independent" in caplog.text


# What a map may say


@each(
    ("changes", "error"),
    [
        ({"label": {"column": "l"}}, "give `classes` or `at_least` of column"),
        (
            {"label": {"column": "l", "classes": {"a": ["1"]}, "at_least": 1}},
            "give `classes` or `at_least` of column",
        ),
        ({"label": {"column": "l", "classes": {"a": ["1"], "b": ["1"]}}}, "'1' is given to two"),
        ({"label": {"column": "l", "at_least": float("nan")}}, "`at_least` is nan; give a number"),
        ({"label": {"column": "l", "at_least": float("inf")}}, "`at_least` is inf; give a number"),
        ({"rows": "ratings", "duplicates": "keep"}, "leave out `duplicates: keep`"),
        ({"keep": {"label": "x"}}, "may not name 'label'"),
        ({"optional": ["x"]}, "`optional` names 'x'"),
        ({"texts": "x"}, "unknown key `texts`; did you mean text"),
    ],
)
def test_a_map_that_contradicts_itself_is_refused(changes: Cells, error: str) -> None:
    with pytest.raises(SpecError, match=error):
        spec(**changes)


# The maps that ship, on rows of our own in the columns of the release


ISHATE = {
    "text": ["Reeds burn well!", "Rain again.", "They would.", "Rain again."],
    "cleaned_text": ["reeds burn well", "rain again", None, "rain again"],
    "source": ["a", "b", "a", "b"],
    "hateful_layer": ["HS", "Non-HS", "HS", "Non-HS"],
    "implicit_layer": ["Explicit HS", None, "Implicit HS", None],
    "subtlety_layer": ["Non-Subtle", None, "Subtle", None],
    "implicit_props_layer": [None, None, ["Irony", "Context"], None],
    "target": ["reed-cutters", None, "reed-cutters", None],
}
AUGMENTED = {**ISHATE, "aug_method": ["orig", "orig", "aav", "orig"]}


def ishate(folder: Path, name: str, columns: Mapping[str, object] = ISHATE) -> list[Sample]:
    path = folder / "ishate_dev.parquet.gzip"
    parquet.write_table(pyarrow.table(columns), path)
    return read([path], shipped(name), CHOICES)


def test_ishate_has_its_layers_for_groups_and_references(tmp_path: Path) -> None:
    found = ishate(tmp_path, "ishate")

    groups = {"Explicit HS": "yes", "benign": "no", "Implicit HS": "yes"}
    assert [(one.group, one.gold) for one in found] == list(groups.items())
    veiled = found[2].references
    assert (veiled["properties"], veiled["subtlety"]) == (("Irony", "Context"), ("Subtle",))
    assert (veiled["origin"], veiled["implicit_layer"]) == (("a",), ("Implicit HS",))


@pytest.mark.parametrize(("name", "count"), [("ishate", 2), ("ishate-augmented", 4)])
def test_ishates_made_rows_are_asked_about_by_a_map(tmp_path: Path, name: str, count: int) -> None:
    assert len(ishate(tmp_path, name, AUGMENTED)) == count


def csv_file(folder: Path, name: str, rows: Sequence[str]) -> Path:
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if "tsv" in name else ",")
        writer.writerows(row.split(";") for row in rows)
    return folder / name


# By map: the name of its file, rows of it, and the group and the choice of each that is taken.
RELEASES: Mapping[str, tuple[str, Sequence[str], Sequence[tuple[str, str]]]] = {
    "toxigen": (
        "annotated.csv",
        ["text;toxicity_human;intent", "Ondry, ha.;4.33;4", "Ondry read.;1.0;1"],
        [("hateful", "yes"), ("benign", "no")],
    ),
    "dghsd": (
        "dghsd.csv",
        ["text;label;type", "Ondry, ha.;hate;animosity", "Ondry read.;nothate;none"],
        [("animosity", "yes"), ("none", "no")],
    ),
    "latent-hatred": (
        "posts.tsv",
        ["post;class", "Ondry, ha.;implicit_hate", "Ondry, no!;explicit_hate", "Ondry.;not_hate"],
        [("implicit_hate", "yes"), ("explicit_hate", "yes"), ("not_hate", "no")],
    ),
    "sbic": (
        "sbic.csv",
        [
            *("post;offensiveYN;targetStereotype", "Ondry, ha.;1.0;they are slow"),
            *("Ondry, ha.;0.5;", "Ondry read.;0.0;", "Ondry.;;"),
        ],
        [("hateful", "yes"), ("benign", "no")],
    ),
    "davidson": (
        "labeled.csv",
        [";class;tweet", "0;0;Ondry, ha.", "1;1;Darn.", "2;2;Ondry read."],
        [("0", "yes"), ("2", "no")],
    ),
    "hatecheck": (
        "cases.csv",
        ["test_case;label_gold;functionality", "Ha.;hateful;derog", "Ondry.;non-hateful;ident"],
        [("derog", "yes"), ("ident", "no")],
    ),
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_shipped_map_reads_the_columns_of_its_release(tmp_path: Path, name: str) -> None:
    file, rows, expected = RELEASES[name]
    found = read([csv_file(tmp_path, file, rows)], shipped(name), CHOICES)
    assert [(one.group, one.gold) for one in found] == expected


def test_cases_of_one_hatecheck_template_are_one_cluster(tmp_path: Path) -> None:
    _, rows, _ = RELEASES["hatecheck"]
    more = ("templ_id", "12", "12")
    path = csv_file(
        tmp_path, "cases.csv", [f"{row};{n}" for row, n in zip(rows, more, strict=True)]
    )

    assert {one.cluster for one in read([path], shipped("hatecheck"), CHOICES)} == {"hatecheck-12"}


def test_what_toxigen_and_sbic_say_besides_the_label_is_kept(tmp_path: Path) -> None:
    kept = []
    for name, key in (("toxigen", "intent"), ("sbic", "stereotype")):
        file, rows, _ = RELEASES[name]
        path = csv_file(tmp_path, file, rows)
        kept.append(read([path], shipped(name), CHOICES)[0].references[key])

    assert kept == [("4",), ("they are slow",)]


# The release itself


def released(name: str) -> list[Sample]:
    made = shipped(name)
    return read([Path(DATA or ".", made.source, file) for file in made.files], made, CHOICES)


@needs_data
def test_ishates_dev_split_has_its_published_layers_before_duplicates_go() -> None:
    made = msgspec.structs.replace(shipped("ishate"), duplicates="keep")
    path = Path(DATA or ".", made.source, made.files[0])
    counts = Counter(sample.group for sample in read([path], made, CHOICES))

    assert counts == {"benign": 2680, "Explicit HS": 1501, "Implicit HS": 186}


@needs_data
@pytest.mark.slow
def test_nearly_all_of_ishates_made_rows_have_an_original(caplog: pytest.LogCaptureFixture) -> None:
    found = released("ishate-augmented")

    made = [sample for sample in found if "made" in sample.flags]
    own = {sample.cluster for sample in found if "made" not in sample.flags}
    share = sum(sample.cluster in own for sample in made) / len(made)
    # Counted apart in the release: 94.7% share six in ten of their words with some original.
    assert 0.94 < share < 0.955


def test_a_map_to_fill_in_can_be_copied_from_a_terminal_of_80_columns(tmp_path: Path) -> None:
    """Lines that a terminal breaks are no YAML any more: each line is shorter."""
    long = "a column of the table with a long name"
    wide = {f"{long} {n}": str(n) for n in range(12)}
    rows = [{**wide, f"{long} {n % 12}": "x", "body": f"Boats {n} late."} for n in range(24)]
    path = written(tmp_path, rows, "wide.jsonl")

    with pytest.raises(DataError) as caught:
        read([path], spec(), CHOICES)

    draft = str(caught.value).partition("\n\n")[2]
    assert max(map(len, draft.splitlines())) <= 80
    (tmp_path / "map.yaml").write_text(draft, "utf-8")
    keep = read_yaml(tmp_path / "map.yaml")["keep"]
    assert len(keep) >= 10


def test_a_table_of_ones_own_gets_a_map_to_fill_in(tmp_path: Path) -> None:
    rows = [
        {"no": n, "verdict": str(n % 2), "body": f"They say {n} boats are late.", "by": f"p{n}"}
        for n in range(6)
    ]
    path = written(tmp_path, rows, 'my "own".jsonl')

    with pytest.raises(DataError, match=r"no column 'text'.*--map FILE.yaml:") as caught:
        read([path], spec(), CHOICES)

    draft = str(caught.value).partition("\n\n")[2]
    assert '# columns: "no", "verdict", "body", "by"' in draft
    assert 'put each of its values under a label: "0", "1"' in draft
    assert '  "no": "no"\n  "by": "by"\n' in draft
    filled = draft.replace("hateful: []", 'hateful: ["1"]').replace("benign: []", 'benign: ["0"]')
    (tmp_path / "map.yaml").write_text(filled, "utf-8")
    mine = load_spec(read_yaml(tmp_path / "map.yaml"), TableSpec, where="map.yaml")
    assert [sample.gold for sample in read([path], mine, CHOICES)] == ["no", "yes"] * 3
