"""Names of files that no table, path or signature can hold are refused before any call."""

import pytest
from support.toy import FILES, Lines, Toy

NAMES = ("a|b", "|", "a\tb", "a\nb", "a\x1b[2Jb", "a:b", "a\u2028b", "a\x7f")


@pytest.mark.parametrize("name", NAMES)
def test_a_judge_of_such_a_name_is_told_before_a_call(toy: Toy, capsys: Lines, name: str) -> None:
    toy.write(f"configs/judges/{name}.yaml", FILES["configs/judges/near.yaml"])
    assert toy.run("--judge", name) == 2

    assert "rename" in (err := capsys.readouterr().err)
    assert "\x1b" not in err
    assert not list(toy.results.rglob("*.jsonl"))


@pytest.mark.parametrize("name", ["a|b", "a\nb", "a\x1b[2Jb"])
@pytest.mark.parametrize("kind", ["tasks", "configs/models"])
def test_such_a_task_or_model_is_told(toy: Toy, capsys: Lines, *, kind: str, name: str) -> None:
    known = "tasks/toy.yaml" if kind == "tasks" else "configs/models/alpha.yaml"
    toy.write(f"{kind}/{name}.yaml", (toy.home / known).read_text("utf-8"))
    task, model = (name, "oracle") if kind == "tasks" else ("toy", name)
    assert toy.main("run", "--task", task, "--model", model) == 2

    assert "rename" in capsys.readouterr().err


def test_names_of_letters_marks_and_other_scripts_pass(toy: Toy) -> None:
    names = ("a.b-c_d+1", "\u00fcber", "\u5224\u65ad", "two words", "a=b", "-a", "x" * 200)
    for name in names:
        toy.write(f"configs/judges/{name}.yaml", FILES["configs/judges/near.yaml"])

    assert toy.run("--variant", "base", *(f"--judge={name}" for name in names)) == 0


def test_others_are_found_beside_a_file_of_such_a_name(toy: Toy) -> None:
    toy.write("configs/judges/a|b.yaml", FILES["configs/judges/near.yaml"])
    assert toy.run("--judge", "near") == 0
