"""YAML to specs: what ships is right, and what is wrong is named with its file and remedy."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.each import each

from harness.errors import SpecError, did_you_mean
from harness.specs.data import GoldenSpec, MapSpec, OverlaySpec, PairMapSpec, SourceSpec, TableSpec
from harness.specs.implicitness import RecipeSpec, ScorerSpec
from harness.specs.judges import CosineSpec, JudgeSpec, PreferenceSpec
from harness.specs.layouts import LayoutSpec
from harness.specs.models import ModelSpec, OpenAISpec, PricesSpec
from harness.specs.plans import PlanSpec
from harness.specs.schema import Spec, load_spec, read_yaml
from harness.specs.sheets import AnnotationSpec, SheetSpec
from harness.specs.tasks import BuildSpec, PerturbationSpec, TaskSpec

HOME = Path(__file__).parents[2]
KINDS: Mapping[str, Any] = {
    "tasks": TaskSpec,
    "tasks/overlays": OverlaySpec,
    "configs/models": ModelSpec,
    "configs/judges": JudgeSpec,
    "configs/data": SourceSpec,
    "configs/annotations": AnnotationSpec,
    "configs/builds": BuildSpec,
    "configs/golden": GoldenSpec,
    "configs/imports": MapSpec,
    "configs/layouts": LayoutSpec,
    "configs/recipes": RecipeSpec,
    "configs/scorers": ScorerSpec,
    "configs/sheets": SheetSpec,
    "configs/pairs": PairMapSpec,
    "configs/perturbations": PerturbationSpec,
    "configs/plans": PlanSpec,
    "configs/tables": TableSpec,
    "configs": PricesSpec,
}
SHIPPED = sorted([*(HOME / "tasks").rglob("*.yaml"), *(HOME / "configs").rglob("*.yaml")])
TASK = """\
about: a toy
data: {source: toy, reader: samples_jsonl, files: [toy.jsonl], sample: samples/toy.jsonl}
variants:
  base: {about: plain, steps: [{name: response, template: toy/base}]}
default_variants: [base]
decodings: [{temperature: 0, max_tokens: 5}]
judges: []
"""
JUDGE = "{kind: cosine, about: a, encoder: {kind: minilm}, options: {accept: a, reject: b}}"


def written(folder: Path, text: str | bytes) -> Path:
    """A YAML file that holds this text."""
    path = folder / "toy.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path: Path, kind: Any) -> Any:  # noqa: ANN401 - a spec or a union of specs
    return load_spec(read_yaml(path), kind, where=str(path))


@each("path", SHIPPED)
def test_every_shipped_file_says_what_its_spec_knows_and_what_it_is_about(path: Path) -> None:
    spec = read(path, KINDS[path.parent.relative_to(HOME).as_posix()])
    assert spec.about.strip()
    assert isinstance(spec, Spec)


def test_the_folders_of_shipped_files_are_all_checked() -> None:
    assert {path.parent.relative_to(HOME).as_posix() for path in SHIPPED} == set(KINDS)


def test_what_a_file_says_stands_in_its_spec_for_good(tmp_path: Path) -> None:
    spec = read(written(tmp_path, TASK), TaskSpec)

    assert spec.variants["base"].steps[0].template == "toy/base"
    assert spec.decodings[0].temperature == 0.0
    assert spec.postprocess == "none"
    assert spec.chance is None

    with pytest.raises(AttributeError, match="immutable"):
        spec.about = "b"


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [(JudgeSpec, JUDGE, CosineSpec), (ModelSpec, "{kind: openai, model: m}", OpenAISpec)],
)
def test_the_kind_picks_the_spec(tmp_path: Path, kind: object, text: str, expected: type) -> None:
    assert isinstance(read(written(tmp_path, text), kind), expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("api: response", ("Invalid enum value 'response'", "mean responses")),
        ("api: responses, choices: echo", ("api: responses says nothing of choices",)),
        ("reasoning_effort: most", ("'most'", "known: high, low, max, medium, minimal, none")),
        (
            "reasoning_effort: low, extra_body: {reasoning: {effort: high}}",
            ("give reasoning_effort by itself or within extra_body, not both",),
        ),
        ("extra_body: {a: .nan}", ("extra_body cannot be sent", "finite numbers")),
        ("extra_body: {a: {b: [.inf]}}", ("extra_body cannot be sent", "finite numbers")),
        ("extra_body: {a: 2026-01-02}", ("extra_body cannot be sent", "finite numbers")),
        ("reasoning_max_tokens: -1", (">= 0", "reasoning_max_tokens")),
    ],
)
def test_a_wrong_hosted_setting_is_named(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = written(tmp_path, f"{{kind: openai, model: m, {text}}}")

    with pytest.raises(SpecError) as caught:
        read(path, ModelSpec)
    assert [word for word in (str(path), *words) if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("kind", "bodies"),
    [
        (
            "openai",
            (
                *("max_tokens: 9", "max_completion_tokens: 9", "temperature: 1", "model: other"),
                *("messages: []", "seed: 1", "stop: [END]", "top_logprobs: 2", "n: 3"),
                *("tools: []", "stream: true", "response_format: {}"),
            ),
        ),
        ("openai, api: responses", ("max_output_tokens: 9", "input: hi", "text: {format: {}}")),
        ("anthropic", ("max_tokens: 9", "stop_sequences: [END]", "output_config: {format: {}}")),
    ],
)
def test_what_a_request_says_itself_is_refused_in_extra_body(
    tmp_path: Path, kind: str, bodies: tuple[str, ...]
) -> None:
    for body in bodies:
        path = written(tmp_path, f"{{kind: {kind}, model: m, extra_body: {{{body}}}}}")

        with pytest.raises(SpecError, match=f"would override.*{body.partition(':')[0]}"):
            read(path, ModelSpec)


@pytest.mark.parametrize(
    "text",
    [
        "kind: openai, extra_body: {top_p: 0.9, dimensions: 8}",
        "kind: openai, api: responses, extra_body: {text: {verbosity: low}}",
        "kind: anthropic, extra_body: {output_config: {effort: low}, thinking: {type: adaptive}}",
    ],
)
def test_further_fields_of_a_request_are_taken(tmp_path: Path, text: str) -> None:
    assert read(written(tmp_path, f"{{model: m, {text}}}"), ModelSpec).extra_body


# old text, new text, words of the message
WRONG_TASKS = [
    ("judges:", "jugdes:", ("unknown key `jugdes`", "did you mean judges?")),
    ("judges: []\n", "", ("missing required key `judges`",)),
    ("template:", "tempalte:", ("unknown key `tempalte`", "steps[0]", "mean template?")),
    (
        "steps:",
        "template:",
        (
            "unknown key `template`",
            "variants",
            "known: about, averaged_over, choice, needs, reveals",
        ),
    ),
    ("reader:", "raeder:", ("unknown key `raeder`", "did you mean reader")),
    ("reader: samples_jsonl, ", "", ("missing required key `reader`", "$.data")),
    ("about: a toy", "about: 3", ("Expected `str`, got `int`", "$.about")),
    ("files: [toy.jsonl]", "files: toy.jsonl", ("Expected `array`, got `str`", "$.data.files")),
    ("judges: []", "judges: []\nmode: chose", ("'chose'", "$.mode", "did you mean choose")),
    (
        "judges: []",
        "judges: []\npostprocess: blankline",
        ("'blankline'", "mean blank_line", "known: blank_line, lead_in, n"),
    ),
    ("max_tokens: 5", "max_tokens: 0", (">= 1", "decodings[0].max_tokens")),
    ("max_tokens: 5", "max_tokens: five", ("Expected `int`, got `str`",)),
    ("temperature: 0", "temperature: -1", (">= 0.0", "decodings[0].temperature")),
    ("temperature: 0", "temperature: .nan", (">= 0.0", "decodings[0].temperature")),
    ("[{temperature: 0, max_tokens: 5}]", "[]", ("length >= 1", "$.decodings")),
    ("[{name: response, template: toy/base}]", "[]", ("length >= 1", "steps")),
    (
        "max_tokens: 5}",
        "max_tokens: 5}, {temperature: 0.0, max_tokens: 9}",
        ("given twice in `decodings`",),
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG_TASKS)
def test_a_wrong_task_is_named_with_the_nearest_key(
    tmp_path: Path, old: str, new: str, words: tuple[str, ...]
) -> None:
    path = written(tmp_path, TASK.replace(old, new, 1))

    with pytest.raises(SpecError) as caught:
        read(path, TaskSpec)
    assert [word for word in (str(path), *words) if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{about: a}", ("missing required key `kind`", "known: bertscore, contrast")),
        (
            "{kind: cosin}",
            ("unknown kind 'cosin'", "mean cosine?", "contrast, cosine, gold, preference"),
        ),
        ("{kind: 3}", ("Expected `str`, got `int`", "$.kind")),
        *((f"{{about: a, kind: {kind}}}", ()) for kind in ("[gold]", "{gold: 1}", "7", "null")),
        (JUDGE.replace("about", "abuot"), ("unknown key `abuot`", "did you mean about?")),
        (
            JUDGE.replace("minilm", "minlim"),
            (
                "unknown kind 'minlim' - at `$.encoder.kind`",
                "did you mean minilm?",
                "hosted, llm2vec",
            ),
        ),
        (JUDGE.replace("kind: minilm", "name: a"), ("missing required key `kind`", "char-ngrams")),
        (
            JUDGE.replace("minilm", "hosted, modle: m"),
            ("unknown key `modle`", "at `$.encoder`", "did you mean model?"),
        ),
        (
            JUDGE.replace("minilm", "llm2vec, base: b, adapters: [], dtype: float23"),
            ("'float23'", "$.encoder.dtype"),
        ),
        (JUDGE.replace("accept: a", "acept: a"), ("`acept`", "did you mean accept?")),
    ],
)
def test_a_wrong_judge_has_its_key_named(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = written(tmp_path, text)

    with pytest.raises(SpecError) as caught:
        read(path, JudgeSpec)
    assert [word for word in (str(path), *words) if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("input_usd: -1, output_usd: 2, read: d, source: x", "`$.prices[b].input_usd`; it is -1"),
        ("input_usd: 1", "`$.prices[b]`"),
        ("inputusd: 1", "`$.prices[b]`; did you mean input_usd"),
        (
            "input_usd: 1, output_usd: 2, source: x, read: 2026-01-02",
            "it is 2026-01-02: put it in quotes, '2026-01-02'",
        ),
        ("input_usd: dear", "; it is 'dear'"),
        ("source: 3", "it is 3: put it in quotes, '3'"),
        ("input_usd: no", "; it is false"),
    ],
)
def test_a_wrong_price_is_told_with_model_and_value(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, f"prices:\n  a: {{}}\n  b: {{{text}}}\n")

    with pytest.raises(SpecError) as caught:
        read(path, PricesSpec)
    assert words in str(caught.value)


def test_all_missing_keys_are_named_at_once() -> None:
    judge = {"kind": "rating", "about": "a", "scale": {"low": 1, "high": 5}}
    with pytest.raises(SpecError, match="missing required keys `model`, `template`, `decoding`"):
        load_spec(judge, JudgeSpec, where="j.yaml")


def test_the_rating_judge_of_the_docs_is_whole() -> None:
    page = (Path(__file__).parents[2] / "docs/judges.md").read_text("utf-8")
    [text] = re.findall(r"```yaml\n(# configs/judges/rubric.yaml.*?)```", page, re.DOTALL)
    made = load_spec(yaml.safe_load(text), JudgeSpec, where="docs")
    assert (made.scale.low, made.scale.high, made.template) == (1, 5, "judges/rubric")


def test_a_price_needs_no_source_and_a_key_is_named_by_its_variable(tmp_path: Path) -> None:
    found = read(written(tmp_path, "prices: {b: {input_usd: 1, output_usd: 2}}"), PricesSpec)
    assert found.prices["b"].output_usd == 2
    with pytest.raises(SpecError, match="an environment variable that holds it"):
        load_spec({"model": "a", "api_key": "sk"}, OpenAISpec, where="m.yaml")


def test_a_key_of_another_kind_is_not_suggested() -> None:
    with pytest.raises(SpecError, match="unknown key `orders`") as caught:
        load_spec({"kind": "cosine", "orders": "both"}, JudgeSpec, where="j.yaml")

    assert "orders" in PreferenceSpec.__struct_fields__
    assert "known: about, encoder, kind, options" in str(caught.value)


def test_a_choice_that_may_be_null_lists_its_values() -> None:
    content = {"kind": "transformers", "model": "m", "build": "tiny-lama"}
    with pytest.raises(SpecError, match=r"did you mean tiny-llama\? known: tiny-llama$"):
        load_spec(content, ModelSpec, where="m.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("about: a\nabout: b\n", "key 'about' is given twice"),
        ("data: {reader: a, reader: b}", "key 'reader' is given twice"),
        ("about: !!python/object/apply:os.getpid []", "not valid YAML"),
        ("about: !!python/name:os.system", "not valid YAML"),
        ("!!python/object:harness.core.Sample {id: a}", "not valid YAML"),
        *(("about: [1, 2", "not valid YAML"), ("about: a\n\tdata: b", "not valid YAML")),
        *(("? [a, b]\n: c", "a key is no word"), ("? {a: b}\n: c", "a key is no word")),
        ("about: 2024-13-45", "not valid YAML: month must be in 1..12"),
        ("about: a\n---\nabout: b", "not valid YAML"),
        (b"about: caf\xe9", "not UTF-8 at byte 10; save it as UTF-8"),
        (b"about: \x00", "not valid YAML"),
        ("", "expected keys and values, found nothing"),
        ("# nothing\n", "found nothing"),
        ("- a\n- b", "expected keys and values, found list"),
        ("just words", "expected keys and values, found str"),
    ],
)
def test_no_mapping_of_values_is_refused(tmp_path: Path, text: str | bytes, words: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(SpecError) as caught:
        read_yaml(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"gone\.yaml: no such file"):
        read_yaml(tmp_path / "gone.yaml")


@pytest.mark.parametrize("key", [1, True, None])
def test_a_key_that_is_not_text_is_refused(key: object) -> None:
    with pytest.raises(SpecError, match=r"t\.yaml: Expected `str`"):
        load_spec({key: "a"}, TaskSpec, where="t.yaml")  # type: ignore[dict-item]  # what YAML may hold


@pytest.mark.parametrize("text", ["\ufeffabout: a\n", "about: a\r\n", "about: 'a'"])
def test_a_file_may_come_from_any_editor(tmp_path: Path, text: str) -> None:
    assert read_yaml(written(tmp_path, text)) == {"about": "a"}


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("irnoy", ["irony", "maxims"], "; did you mean irony? known: irony, maxims"),
        ("zzz", ["irony", "maxims"], "; known: irony, maxims"),
        ("zzz", [], "; known: none"),
    ],
)
def test_the_nearest_names_come_first(name: str, known: list[str], expected: str) -> None:
    assert did_you_mean(name, known) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a01", "; did you mean a01? (`harness list tasks` lists all)"),
        ("zzz", f"; known: {', '.join(f'a{i:02}' for i in range(20))} and 5 more (`"),
    ],
)
def test_of_many_names_the_message_says_how_to_list_all(name: str, expected: str) -> None:
    known = [f"a{place:02}" for place in range(25)]
    found = did_you_mean(name, known, "harness list tasks")

    assert found.replace(" or a21 or a20", "").startswith(expected)
    assert found.endswith("(`harness list tasks` lists all)")


CHOICE = "choice: {order: 0}, averaged_over: all, "
NEUTRAL = "{name: neutral, template: toy/neutral, is_unconditional: true}"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("steps: [", f"{CHOICE}steps: [{NEUTRAL}, ", None),
        (
            "steps: [",
            f"steps: [{NEUTRAL}, ",
            "`is_unconditional` is for steps of a variant with a `choice`",
        ),
        ("toy/base}]", f"toy/base}}, {NEUTRAL}], {CHOICE[:-2]}", "the last step answers"),
        ("decodings:", "mode: choose\ndecodings:", "mode choose is for variants with a `choice`"),
        ("about: plain, ", "about: plain, choice: {order: -1}, ", "order"),
        ("about: plain, ", "about: plain, choice: {answers: words}, ", "known: number, text"),
        ("about: plain, ", "about: plain, choice: {ordr: 0}, ", "did you mean order"),
        ("about: plain, ", "about: plain, choice: {}, averaged_over: base, ", "both called 'base'"),
        (
            "  base:",
            f"  more: {{about: a, {CHOICE}steps: [{{name: a, template: b}}]}}\n  base:",
            "others have none",
        ),
        ("max_tokens: 5}]", "max_tokens: 5}, {temperature: 1, max_tokens: 5}]", None),
    ],
)
def test_a_task_with_choices_is_whole_or_refused(
    tmp_path: Path, old: str, new: str, words: str | None
) -> None:
    path = written(tmp_path, TASK.replace(old, new, 1))

    if words is None:
        assert isinstance(read(path, TaskSpec), TaskSpec)
    else:
        with pytest.raises(SpecError) as caught:
            read(path, TaskSpec)
        assert words in str(caught.value)


def test_choices_are_drawn_in_one_way(tmp_path: Path) -> None:
    text = TASK.replace("steps: [", f"{CHOICE}steps: [", 1)
    twice = text.replace("max_tokens: 5}]", "max_tokens: 5}, {temperature: 1, max_tokens: 5}]")

    with pytest.raises(SpecError, match="choices are drawn in one way: give one decoding"):
        read(written(tmp_path, twice), TaskSpec)
