"""The command table: layouts, options, files, and every shipped layout."""

import json
import os
from pathlib import Path

import pytest
from support.run_tables import run_on_disk
from support.toy import Lines

from harness.cli import main
from harness.library import table
from harness.registry import Registry
from harness.workspace import Workspace

SHIPPED = Registry.open(Path(__file__).parents[2])
OWN = """
about: Mine, by group.
kind: runs
rows: [model]
columns: [group]
where: {variant: [base]}
names: {odd: odd ones}
cell: {digits: 1, percent: true}
note: My words.
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    run_on_disk(folder, "ant", {"near": "1110", "far": "1100"})
    run_on_disk(folder, "bee", {"near": "1000", "far": "0000"})
    return folder


def test_a_plain_table_is_printed_and_json_has_all_numbers(results: Path, capsys: Lines) -> None:
    assert main(["table", "--results", str(results)]) == 0

    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["model", "far", "near"] in lines
    assert "ant    0.500 [0.150, 0.850]  0.750 [0.301, 0.954]" in out
    assert "\nn = 4.\nIn brackets: 95% intervals.\n" in out
    assert "Task toy" in out
    assert main(["table", "--json", "--results", str(results)]) == 0
    [made] = json.loads(capsys.readouterr().out)
    assert made["rows"][0]["cells"][1]["value"] == 0.75


def test_a_layout_of_ones_own_is_read_by_path(results: Path, tmp_path: Path, capsys: Lines) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text(OWN)

    line = ["table", str(own), "--where", "judge=near", "--results", str(results)]
    assert main(line) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["model", "odd", "ones", "even", "all"] in lines
    assert ["ant", "50.0", "100.0", "75.0"] in lines
    assert "My words." in out


def test_a_paper_s_numbers_and_those_here_are_printed_side_by_side(
    results: Path, tmp_path: Path, capsys: Lines
) -> None:
    cell = 'table: T, cell: A, published: "70.0", reason: r, layout: mine, times: 100'
    for kind, text in (
        ("layouts/mine", OWN),
        (
            "golden/doe",
            f"paper: Doe\nabout: .\ncells: [{{{cell}, here: {{group: all, model: ant}}}}]",
        ),
    ):
        (tmp_path / f"configs/{kind}.yaml").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"configs/{kind}.yaml").write_text(text)

    line = ["table", "mine", "--printed", "--where", "judge=near", "--home", str(tmp_path)]
    assert main([*line, "--results", str(results)]) == 0
    out = capsys.readouterr().out
    assert "number  of   paper  here               difference" in out
    assert "A       ant   70.0  75.0 [30.1, 95.4]         5.0" in out


def test_one_run_alone_and_what_a_cell_shows(results: Path, capsys: Lines) -> None:
    assert main(["table", "bee-base", "--cell", "value,n", "--results", str(results)]) == 0

    out = capsys.readouterr().out
    assert "\nbee    0.000  0.250\n" in out
    assert "\nn = 4.\n" in out  # once, where all are of as many
    assert "\nant" not in out


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (".tex", r"\toprule"),
        (".md", "| --- |"),
        (".html", "<table>"),
        (".csv", "model,far,far low,far high,far n,near,"),
    ],
)
def test_the_ending_of_the_file_says_its_form(results: Path, ending: str, words: str) -> None:
    out = results / f"made{ending}"
    assert main(["table", "-o", str(out), "--results", str(results)]) == 0
    assert words in out.read_text()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["-o", "made.docx"], ".tex, .md, .csv, .html"),
        (["intent-phenomenon"], "no run 'intent-phenomenon'"),
        *((["--where", "judge"], "NAME=PATTERN"), (["--cell", "mean"], "cell 'mean'")),
        *((["--columns", "model"], "named twice"), (["--rows", "modle"], "did you mean model")),
        (["intent-phenomena", "ishate-1"], "name one at a time"),
        (["emphasized-talk-3"], "--ratings"),
        (["impscore-2"], "--data FILE"),
    ],
)
def test_mistakes_have_a_remedy(results: Path, line: list[str], words: str, capsys: Lines) -> None:
    assert main(["table", *line, "--results", str(results)]) == 2
    assert words in capsys.readouterr().err


def test_printed_numbers_have_the_names_of_their_layouts() -> None:
    for paper in SHIPPED.names("configs/golden"):
        for cell in SHIPPED.load("configs/golden", paper).all_cells:
            if cell.layout:
                layout = SHIPPED.load("configs/layouts", cell.layout)
                assert {*cell.here} <= {*layout.axes, *layout.where, "split"}, cell.cell
                assert "{" not in "".join(cell.here.values())


def test_every_shipped_layout_is_listed_and_read(capsys: Lines) -> None:
    names = SHIPPED.names("configs/layouts")

    assert main(["list", "layouts", "--all"]) == 0
    out = capsys.readouterr().out
    for name in names:
        assert SHIPPED.load("configs/layouts", name).about[:40] in out
    papers = {name.partition("-")[0] for name in names}
    assert papers == {"emphasized", "impscore", "intent", "ishate"}


def test_the_library_makes_the_same_table(results: Path) -> None:
    made = table(rows=["model"], columns=["judge"], where={"judge": ["near"]}, results=results)

    assert made.to_dict("list") == {"model": ["ant", "bee"], "near": [0.75, 0.25]}
    assert made.attrs["title"].startswith("Scores")
    assert any("95% intervals" in note for note in made.attrs["notes"])
    assert len(made.attrs["signatures"]) == 2
    several = table(rows=["model"], columns=["group"], results=results)
    assert set(several["table"]) == {"Scores; judge far", "Scores; judge near"}


DATA = os.environ.get("HARNESS_DATA", ".")


@pytest.mark.slow
@pytest.mark.skipif(not Path(DATA, "ishate").is_dir(), reason="needs HARNESS_DATA")
def test_tables_of_released_data_have_the_published_numbers() -> None:
    space = Workspace.open(data=DATA)

    made = table("ishate-4a", workspace=space).set_index("aug method")
    # ISHate, Table 4a: made rows by method, implicit and subtle; and ALL.
    assert made.loc["aav"].tolist() == [7032, 3136]
    assert made.loc["total"].tolist() == [23957, 10685]
    rounds = table("ishate-agreement", workspace=space)
    # Section 4.2: kappa of both layers, kappa and alpha of both together, in three rounds.
    published = [[0.459, 0.179, 0.291, 0.532], [0.635, 0.422, 0.510, 0.735]]
    published += [[0.793, 0.730, 0.734, 0.757]]
    names = ["implicit / kappa", "subtle / kappa", "combined / kappa"]
    shown = rounds[[*names, "combined / alpha (ordinal)"]].round(3)
    assert shown.to_numpy().tolist() == published
