"""Judges, models, readers and scorers of the user's own, named by a YAML's `entry`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.toy import Lines, Toy, lines

from harness.cli import main
from harness.core import Case, Judge, Response, Sample
from harness.errors import SpecError
from harness.parts import Message
from harness.registry import Registry

JUDGE = "about: Is it said.\nkind: python\nentry: exact.py:Exact\nsettings: {word: yes1}\n"
EXACT = """\
from harness.core import Verdict
from harness.judges.custom import ComputedJudge


class Exact(ComputedJudge):
    metric = "accuracy"

    def read(self, cases):
        return [
            Verdict(case.response.key, self.name, float(self._spec.settings["word"] in text))
            for case in cases
            for text in case.response.texts[:1]
        ]
"""
MODEL = "about: Says it.\nkind: python\nentry: says.py:Says\n"
SAYS = """\
from harness.models.custom import TextModel


class Says(TextModel):
    def reply(self, messages):
        return f"yes{len(messages)}"
"""
SCORER = "about: By length.\nkind: python\nentry: length.py:Length\n"
LENGTH = """\
class Length:
    @classmethod
    def build(cls, name, spec, context):
        return cls()

    def score(self, texts):
        return [len(text) / 10_000 if len(text) < 9_000 else None for text in texts]
"""
ASKS = """\
from harness.core import Request, Verdict
from harness.judges.custom import AskingJudge
from harness.parts import Decoding, Message


class Asks(AskingJudge):
    metric = "agreed"

    def ask(self, sample, response):
        message = Message("user", f"Is {response.texts[0]!r} right? 1 yes, 2 no")
        decoding = Decoding(max_tokens=4)
        return (Request(sample.id, self.name, "ask", self._model, (message,), decoding),)

    def read(self, cases):
        return [self._verdict(case.response.key, case.replies[0]) for case in cases]

    def _verdict(self, key, reply):
        if reply.failure:
            return Verdict(key, self.name, None, reply.failure.reason)
        return Verdict(key, self.name, float(reply.texts[0].startswith("1")))
"""
READER = """\
from harness.core import Sample


def read(files, overlay):
    lines = [line for path in files for line in path.read_text().splitlines()]
    references = {"right": ("yes",), "wrong": ("no",)}
    return [Sample(f"s{n}", {"story": line}, references) for n, line in enumerate(lines)]
"""


@pytest.fixture
def own(toy: Toy) -> Toy:
    """A home with a judge, a model, a scorer and a reader of its own."""
    toy.write("configs/judges/exact.yaml", JUDGE)
    toy.write("configs/judges/exact.py", EXACT)
    toy.write(
        "configs/judges/asks.yaml",
        f"{JUDGE}model: says\n".replace("exact.py:Exact", "asks.py:Asks"),
    )
    toy.write("configs/judges/asks.py", ASKS)
    toy.write("configs/models/says.yaml", MODEL)
    toy.write("configs/models/says.py", SAYS)
    toy.write("configs/scorers/length.yaml", SCORER)
    toy.write("configs/scorers/length.py", LENGTH)
    toy.write("tasks/by_line.py", READER)
    return toy


def judge(toy: Toy, name: str = "exact") -> Judge:
    registry: Registry = toy.space().registry
    return registry.judge(name, registry.load("configs/judges", name), identity=None)


def verdict(built: Judge, text: str) -> float | None:
    return built.read([Case(Sample("a", {}), Response("k", (text,)))])[0].value


def test_a_judge_of_ones_own_may_ask_a_model(own: Toy) -> None:
    assert own.run("--judge", "asks", model="oracle") == 0

    [folder] = own.runs()
    [entry] = json.loads((folder / "run.json").read_text())["judges"]
    assert (entry["asks"], entry["metric"]) == ("says", "agreed")
    assert "|source=" in entry["identity"]


def test_a_run_uses_a_judge_and_a_model_of_ones_own(own: Toy) -> None:
    assert own.run("--judge", "exact", model="says") == 0

    [folder] = own.runs()
    content = json.loads((folder / "run.json").read_text())
    assert content["model"]["kind"] == "python"
    assert ",1.0," in (folder / "scores.csv").read_text()


def test_a_judge_for_choices_says_so(own: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    own.edit("configs/judges/exact.yaml", "kind: python", "kind: python\nreads: choices")
    assert own.run("--judge", "exact", model="says") == 2
    assert "cannot read the answers to task toy, which are texts" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("judge", "exact"), ("judge", "asks"), ("model", "says")])
def test_examples_keep_the_contract(
    own: Toy, arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    from harness.cli import main

    code = main(["check", *arguments, "--home", str(own.home)])
    assert (code, "FAILED" in capsys.readouterr().out) == (0, False)


@pytest.mark.parametrize(
    ("name", "old", "new", "changes"),
    [
        ("exact.py", "float(", "0.5 * float(", True),
        ("exact.py", '"accuracy"', '"accuracy"  # as it is', True),
        ("exact.yaml", "yes1", "yes2", True),
        ("exact.yaml", "Is it said.", "Is it said or not.", False),
    ],
)
def test_the_recipe_changes_with_source_and_settings_alone(
    own: Toy, name: str, old: str, new: str, changes: bool
) -> None:
    before = judge(own).recipe
    own.edit(f"configs/judges/{name}", old, new)

    assert (judge(own).recipe != before) == changes
    assert judge(own).recipe.startswith("exact:")


def test_a_file_that_was_edited_is_run_as_it_is_now(own: Toy) -> None:
    assert verdict(judge(own), "yes1") == 1.0
    own.edit("configs/judges/exact.py", "float(", "0.5 * float(")
    assert verdict(judge(own), "yes1") == 0.5


def test_what_identifies_a_scorer_and_a_model_changes_with_its_source(own: Toy) -> None:
    registry = own.space().registry
    before, model = registry.text_scorer("length"), registry.load("configs/models", "says")
    first = registry.model("says", model)

    own.edit("configs/scorers/length.py", "10_000", "20_000")
    own.edit("configs/models/says.py", "yes", "Yes")
    after, second = own.space().registry.text_scorer("length"), registry.model("says", model)

    assert before.signature != after.signature
    assert [part.value for part in after.score(["abcd", None, "a" * 9_500])] == [0.0002, None, None]
    assert [part.flag for part in after.score([None, "a" * 9_500])] == ["absent", "unscored"]
    assert first.identity != second.identity
    assert first.revision != second.revision


def test_a_scorer_of_ones_own_is_for_tasks_alone(own: Toy) -> None:
    with pytest.raises(SpecError, match="scorer length: kind python scores the texts of tasks"):
        own.space().registry.scorer("length")


def test_a_task_is_read_by_a_reader_of_ones_own_whose_source_is_in_the_label(own: Toy) -> None:
    from dataclasses import replace

    own.edit("tasks/toy.yaml", "reader: samples_jsonl", "reader: by_line.py:read")
    (own.folder / "data/toys").mkdir(parents=True)
    (own.folder / "data/toys/toy.jsonl").write_text("\n".join(lines(3)))
    space = replace(own.space(), data=own.folder / "data")
    spec = space.registry.load("tasks", "toy").data

    samples, entry = space.samples(spec)
    own.edit("tasks/by_line.py", "yes", "Yes")

    assert [sample.id for sample in samples] == ["s0", "s1", "s2"]
    assert space.samples(spec)[1].label != entry.label


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ('"story": line', '"story": n', "FAILED: reads its data, the same each time: reader"),
        ('"story": line', '"tale": line', "FAILED: fills the prompts of base: "),
        ('f"s{n}"', 'f"s{id(line)}"', "FAILED: reads its data, the same each time: reads ["),
        ("", "", "ok: reads its data, the same each time\n"),
    ],
)
def test_a_task_is_checked_before_it_is_run(
    own: Toy, capsys: Lines, old: str, new: str, fact: str
) -> None:
    own.edit("tasks/toy.yaml", "reader: samples_jsonl", "reader: by_line.py:read")
    own.edit("tasks/by_line.py", old, new)
    (own.folder / "data/toys").mkdir(parents=True)
    (own.folder / "data/toys/toy.jsonl").write_text("\n".join(lines(3)))

    where = ("--data", str(own.folder / "data"), "--home", str(own.home))
    assert main(["check", "task", "toy", *where]) == bool(old)

    assert fact in capsys.readouterr().out


ODD_MODEL = """\
class Says(TextModel):
    def answer(self, requests):
        for one in super().answer(requests):
            yield type(one)("another key", one.texts)

"""
BROKEN = [
    ("entry: exact.py:Exact", "entry: gone.py:Exact", "gone.py: No such file or directory"),
    ("entry: exact.py:Exact", "entry: exact.py:Exat", "no 'Exat' in "),
    ("entry: exact.py:Exact", "entry: exact.py", "write path/to/file.py:Name or module:Name"),
    ("entry: exact.py:Exact", "entry: no_module:Exact", "module no_module failed (ModuleNotFound"),
    ("settings:", "setings:", "unknown key `setings`; did you mean settings?"),
    ("class Exact", "class Exact(", "exact.py failed (SyntaxError: "),
    ("class Exact", "raise SystemExit(0)\nclass Exact", "exact.py failed (SystemExit: 0; "),
    ("(ComputedJudge)", "", "is no class with a method `build`"),
    ("    metric", "    metrics", "Exact of "),
    ("class Exact(ComputedJudge):", "Exact = 3\nclass Other(ComputedJudge):", "is no class"),
    (
        "    metric =",
        "    def __init__(self, name, spec):\n        1 / 0\n    metric =",
        "exact.py, line 7); correct it there",
    ),
]


@pytest.mark.parametrize(("old", "new", "fact"), BROKEN)
def test_what_is_not_built_is_named_with_its_place(own: Toy, old: str, new: str, fact: str) -> None:
    is_yaml = old in JUDGE
    own.edit(f"configs/judges/exact.{'yaml' if is_yaml else 'py'}", old, new)

    with pytest.raises(SpecError) as caught:
        judge(own)
    assert fact in str(caught.value)


def test_a_member_that_is_missing_is_named(own: Toy) -> None:
    own.write(
        "configs/judges/exact.py",
        "class Exact:\n    @classmethod\n    def build(cls, name, spec, context):\n"
        "        return cls()\n    name = 'exact'\n    def read(self, cases):\n        return []\n",
    )

    with pytest.raises(SpecError, match=r"has no metric, recipe, ask, which every Judge has; add"):
        judge(own)


def test_an_error_in_ones_own_code_is_named_with_its_line(own: Toy) -> None:
    own.edit("configs/judges/exact.py", "float(", "float(1 / 0 + ")
    with pytest.raises(SpecError, match=r"judge exact: read failed \(ZeroDiv.*exact.py, line \d+"):
        verdict(judge(own), "yes1")


def test_what_ones_own_code_may_not_give_is_named(own: Toy, capsys: Lines) -> None:
    own.edit("configs/models/says.py", "class Says(TextModel):", ODD_MODEL)
    assert own.run(model="says") == 2
    assert "model says: answer gives one Response, with its key, to each" in capsys.readouterr().err

    own.edit("tasks/by_line.py", '{"story": line}', '{"story": 7}')
    with pytest.raises(SpecError, match="sample s0: 7 is no text"):
        own.space().registry.read("by_line.py:read", [own.home / "tasks/toy.yaml"], None)


def test_too_few_verdicts_are_an_error(own: Toy) -> None:
    own.edit("configs/judges/exact.py", "for case in cases", "for case in cases[1:]")
    with pytest.raises(SpecError, match="0 verdicts on 1 cases"):
        verdict(judge(own), "yes1")


@pytest.fixture
def module(tmp_path: Path) -> Iterator[str]:
    """An installed module with a model."""
    (tmp_path / "own_models.py").write_text(SAYS)
    sys.path.insert(0, str(tmp_path))
    yield "own_models"
    sys.path.remove(str(tmp_path))
    sys.modules.pop("own_models", None)


def test_a_class_may_be_in_an_installed_module(own: Toy, module: str) -> None:
    own.edit("configs/models/says.yaml", "says.py", module)
    registry = own.space().registry

    built = registry.model("says", registry.load("configs/models", "says"))

    assert built.revision
    assert built.kind == "python"
    assert Message("user", "a")
