"""A judge or scorer that does not read the language of the data: a run says so, once."""

import pytest
from support.toy import Lines, Toy

from harness.registry import Registry, shipped_home


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("tasks/toy.yaml", "source: toys,", "source: toys, language: de,", "declared as de: its v"),
        ("tasks/samples/toy.jsonl", "number", "рассказ под номером", "mostly not in Latin"),
    ],
)
def test_data_that_a_judge_does_not_read_is_told_of_once(
    toy: Toy, capsys: Lines, *, file: str, old: str, new: str, said: str
) -> None:
    near = (toy.home / "configs/judges/near.yaml").read_text("utf-8")
    toy.write("configs/judges/near.yaml", f"{near}\nlanguages: [en]")
    toy.edit(file, old, new)

    assert toy.run(model="oracle,literal") == 0

    assert capsys.readouterr().err.count(f"judge near reads en, and the data is {said}") == 1


def test_declared_languages_change_no_digest_of_a_run(toy: Toy) -> None:
    assert toy.run("--variant", "base") == 0
    [before] = toy.runs()
    near = (toy.home / "configs/judges/near.yaml").read_text("utf-8")
    toy.write("configs/judges/near.yaml", f"{near}\nlanguages: [en]")
    toy.edit("tasks/toy.yaml", "source: toys,", "source: toys, language: en,")
    scores = (before / "scores.csv").read_bytes()

    assert toy.run("--variant", "base") == 0

    assert toy.runs() == [before]
    assert (before / "scores.csv").read_bytes() == scores


def test_a_scorer_that_does_not_read_a_table_is_told_of(toy: Toy, capsys: Lines) -> None:
    rows = "".join(f"Nachricht Nummer {n}.,{n % 2}\n" for n in range(6))
    (toy.folder / "mine.csv").write_text(f"body,bad\n{rows}", "utf-8")
    mine = toy.write(
        "mine.yaml",
        """
        about: Ours.
        source: ours
        text: body
        label: {column: bad, classes: {hateful: ["1"], benign: ["0"]}}
        language: de
        """,
    )
    given = ["--data", str(toy.folder / "mine.csv"), "--map", str(mine)]

    assert toy.main("run", "--task", "hate_speech", "--model", "oracle", *given) == 0

    told = capsys.readouterr().err
    assert "scorer impscore-minilm reads en, and the data is declared as de" in told


def test_shipped_judges_and_scorers_over_english_encoders_say_so() -> None:
    registry = Registry((shipped_home(),), {}, shipped_home())
    judges = [name for name in registry.names("configs/judges") if name.startswith("minilm-")]

    found = [registry.load("configs/judges", name) for name in [*judges, "bertscore"]]
    scorers = [registry.load("configs/scorers", name) for name in registry.names("configs/scorers")]

    assert len(found) == 7
    assert {getattr(spec, "languages", ()) for spec in [*found, *scorers]} == {("en",)}
