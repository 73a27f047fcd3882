"""Names to files to specs to objects; the first home that has a name wins."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from msgspec import structs
from support.each import each
from support.toy import BY_VECTORS, MODEL, PRICES, Toy

from harness.errors import ModelError, SpecError
from harness.models.client.cached import Price
from harness.models.encoders.llm2vec import Llm2Vec
from harness.registry import Registry, Section, shipped_home
from harness.specs import implicitness
from harness.specs.implicitness import LocalEncoderSpec, MiniLMSpec, SentenceTransformerSpec
from harness.specs.judges import asked_model
from harness.specs.models import Backend, OpenAISpec, TransformersSpec

SHIPPED = Registry((shipped_home(),), {}, Path("cache"))
SECTIONS: tuple[Section, ...] = ("tasks", "configs/models", "configs/judges", "configs/data")
LLAMA = implicitness.Llm2VecSpec(
    base="b", adapters=("x", "y"), revision="r", instruction="Say:", max_length=9
)


def shipped(section: Section) -> list[str]:
    return SHIPPED.names(section)


@pytest.mark.parametrize("section", SECTIONS)
def test_names_are_the_files_of_all_homes_sorted(toy: Toy, section: Section) -> None:
    names = toy.space().registry.names(section)
    assert names == sorted(set(names))
    assert set(shipped(section)) <= set(names)


@each("name", shipped("tasks"))
def test_a_shipped_task_names_judges_templates_and_samples_that_ship(name: str) -> None:
    task = SHIPPED.load("tasks", name)

    assert [SHIPPED.load("configs/judges", judge).about for judge in task.judges]
    assert SHIPPED.resource(task.data.sample).is_file()
    steps = [step for variant in task.variants.values() for step in variant.steps]
    assert all(SHIPPED.prompts.digest(step.template) for step in steps)


@each("name", shipped("configs/models"))
def test_a_shipped_model_is_well_formed_and_says_what_it_is(name: str) -> None:
    assert SHIPPED.load("configs/models", name).about


@each("name", shipped("configs/judges"))
def test_a_shipped_judge_is_well_formed_and_asks_a_model_that_ships(name: str) -> None:
    spec = SHIPPED.load("configs/judges", name)
    assert spec.about
    assert (asked_model(spec) or "oracle") in shipped("configs/models")


@pytest.mark.parametrize(
    ("first", "then", "is_one"),
    [
        (MiniLMSpec(), MiniLMSpec(), True),
        (MiniLMSpec(), implicitness.CharNgramsSpec(), False),
        (SentenceTransformerSpec(model="a"), SentenceTransformerSpec(model="a"), True),
        (SentenceTransformerSpec(model="a"), SentenceTransformerSpec(model="b"), False),
        (LLAMA, LLAMA, True),
        (LLAMA, structs.replace(LLAMA, instruction="Say it again:"), False),
    ],
)
def test_equal_encoder_specs_share_their_loaded_weights(
    toy: Toy, first: LocalEncoderSpec, then: LocalEncoderSpec, is_one: bool
) -> None:
    assert (SHIPPED.encoder(first) is toy.space().registry.encoder(then)) == is_one


def test_an_llm2vec_encoder_is_built_as_its_spec_says() -> None:
    built = SHIPPED.encoder(structs.replace(LLAMA, dtype="float32"))
    given = {"revision": "r", "instruction": "Say:", "max_length": 9, "dtype": "float32"}
    assert built == Llm2Vec("b", ("x", "y"), **given)  # type: ignore[arg-type]  # of its fields


@pytest.mark.parametrize("name", ["choice", "far"])
def test_a_judge_that_asks_is_not_built_without_its_model(toy: Toy, name: str) -> None:
    toy.write("configs/judges/far.yaml", BY_VECTORS)
    registry = toy.space().registry

    with pytest.raises(SpecError, match=f"judge {name} asks a model, and asked none"):
        registry.judge(name, registry.load("configs/judges", name), identity=None)


@each("name", shipped("configs/data"))
def test_a_shipped_source_has_a_commit_and_digests(name: str) -> None:
    spec = SHIPPED.load("configs/data", name)
    assert len(spec.commit) == 40
    assert {len(file.sha256) for file in spec.files} == {64}


def test_the_first_home_that_has_a_name_wins(toy: Toy) -> None:
    path = toy.write("configs/models/oracle.yaml", MODEL.replace("{name}", "mine"))
    registry = toy.space().registry

    assert registry.file("configs/models", "oracle") == path
    reversed_homes = replace(registry, homes=registry.homes[::-1])
    assert reversed_homes.file("configs/models", "oracle") != path


@pytest.mark.parametrize(
    ("section", "name", "nearest"),
    [
        ("tasks", "tyo", "no task 'tyo'.*did you mean toy"),
        ("configs/models", "alhpa", "no model 'alhpa'.*did you mean alpha"),
        ("configs/judges", "naer", "no judge 'naer'.*did you mean near"),
        ("configs/data", "intent", "no data 'intent'.*intent_resolution"),
        ("tasks", "../tasks/toy", "no task"),
        ("tasks", "", "no task ''"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(
    toy: Toy, section: Section, name: str, nearest: str
) -> None:
    with pytest.raises(SpecError, match=nearest):
        toy.space().registry.file(section, name)


@pytest.mark.parametrize("name", ["HuggingFaceTB/SmolLM2-135M", "/data/my checkpoint/"])
def test_a_checkpoint_without_a_file_is_answered_with_a_file_to_write(toy: Toy, name: str) -> None:
    with pytest.raises(SpecError) as caught:
        toy.space().registry.load("configs/models", name)

    told = f"write configs/models/NAME.yaml with `kind: transformers` and `model: {name}`"
    assert told in str(caught.value)


def test_a_model_that_is_given_by_its_place_gets_a_file_once(toy: Toy) -> None:
    registry = Registry.open(toy.home)
    cases: list[tuple[str, str, dict[str, object]]] = [
        ("hf:org/Tiny-1B", "Tiny-1B", {"model": "org/Tiny-1B"}),
        ("openai:my/llama:8b@http://localhost:9/v1", "llama-8b", {"key_env": None}),
        ("openai:big@https://host/v1", "big", {"key_env": "OPENAI_API_KEY"}),
        ("alpha", "alpha", {}),
    ]

    for name, short, facts in cases:
        assert [registry.filed(name) for _ in range(2)] == [short] * 2
        spec = structs.asdict(registry.load("configs/models", short))
        assert {key: spec[key] for key in facts} == facts
    with pytest.raises(SpecError, match="is another model; write a file of another name"):
        registry.filed("hf:other/Tiny-1B")


def test_a_prompt_pack_is_searched_before_the_homes(toy: Toy) -> None:
    pack = toy.folder / "pack"
    (pack / "toy").mkdir(parents=True)
    (pack / "toy/base.user.j2").write_text("Mine: {{ story }}")
    registry = replace(toy.space().registry, prompt_pack=pack)

    assert registry.prompts.text("toy/base.user.j2", {"story": "s"}) == "Mine: s"
    assert "What is meant?" in registry.prompts.text("toy/think.user.j2", {"story": "s"})


def test_a_local_model_keeps_its_settings_under_another_back_end() -> None:
    spec = SHIPPED.load("configs/models", "mistral-7b-instruct", "transformers")
    assert isinstance(spec, TransformersSpec)
    assert (spec.model, spec.dtype) == ("mistralai/Mistral-7B-Instruct-v0.2", "bfloat16")


def test_a_local_model_behind_a_server_is_asked_under_its_own_name() -> None:
    spec = SHIPPED.load("configs/models", "mistral-7b-instruct", "server")

    assert isinstance(spec, OpenAISpec)
    assert (spec.model, spec.key_env) == ("mistralai/Mistral-7B-Instruct-v0.2", None)
    assert spec.base_url_env == "HARNESS_SERVER_URL"


def test_the_back_end_is_part_of_what_a_model_is(toy: Toy) -> None:
    registry = toy.space().registry
    backends: list[Backend | None] = ["server", "vllm", None]
    specs = [registry.load("configs/models", "tiny-random", backend) for backend in backends]
    models = [registry.model("tiny-random", spec) for spec in specs]

    assert [model.kind for model in models] == ["openai", "vllm", "transformers"]


@pytest.mark.parametrize(
    ("environ", "is_refused"),
    [({}, True), ({"OPENAI_API_KEY": " "}, True), ({"OPENAI_API_KEY": "k"}, False)],
)
def test_a_hosted_model_needs_its_key(environ: Mapping[str, str], is_refused: bool) -> None:
    registry = replace(SHIPPED, environ=environ)

    if is_refused:
        with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
            registry.check_key("gpt-4o")
    else:
        registry.check_key("gpt-4o")


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("{input_usd: 9, output_usd: 8, read: a day, source: us}", Price(9, 8)),
        ("{}", None),  # they know of none
    ],
)
def test_a_price_of_ones_own_comes_first(toy: Toy, listed: str, expected: Price | None) -> None:
    toy.write("configs/prices.yaml", f"prices:\n  gpt-4o: {listed}\n")
    registry = toy.space().registry

    assert registry.price("gpt-4o") == expected
    assert registry.price("gpt-4.1") == SHIPPED.price("gpt-4.1")
    assert SHIPPED.price("gpt-4.1") is not None


@pytest.mark.parametrize(
    ("settings", "beside"),
    [
        ("{reasoning_max_tokens: 700}", 700),
        ("{api: responses, reasoning_max_tokens: 700}", 700),
        ("{api: responses}", 15),  # which takes no budget under 16 tokens
    ],
)
def test_a_price_covers_what_is_beside_answers(toy: Toy, settings: str, beside: int) -> None:
    toy.write("configs/prices.yaml", PRICES)
    toy.write("configs/models/alpha.yaml", MODEL.replace("{name}", "alpha"))
    alpha = toy.home / "configs/models/alpha.yaml"
    alpha.write_text(yaml.safe_dump(yaml.safe_load(alpha.read_text()) | yaml.safe_load(settings)))

    assert toy.space().registry.price("alpha") == Price(2, 4, 0.5, beside)


def test_a_model_that_needs_no_key_is_not_asked_for_one() -> None:
    SHIPPED.check_key("local-server")
    SHIPPED.check_key("oracle")


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("reader: samples_jsonl", "reader: samples", "no reader 'samples'.*samples_jsonl"),
        ("[base, think]", "[base, thnik]", "default variant 'thnik' is not defined; .*think"),
        ("postprocess: none", "postprocess: nnoe", "postprocess"),
    ],
)
def test_a_task_is_checked_when_it_is_read(toy: Toy, old: str, new: str, fact: str) -> None:
    toy.edit("tasks/toy.yaml", "judges:", "postprocess: none\njudges:")
    toy.edit("tasks/toy.yaml", old, new)

    with pytest.raises(SpecError, match=fact):
        toy.space().registry.load("tasks", "toy")


@pytest.mark.parametrize("name", ["samples/none.jsonl", "samples"])
def test_a_resource_that_no_home_has_is_named(toy: Toy, name: str) -> None:
    with pytest.raises(SpecError, match=f"tasks/{name} is in none of"):
        toy.space().registry.resource(name)


def test_a_home_is_asked_for_where_it_is_needed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "~")  # as of a user id without an entry
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    assert Registry.open(tmp_path).cache == tmp_path

    monkeypatch.delenv("HARNESS_CACHE")
    with pytest.raises(SpecError, match="no home folder; set HARNESS_CACHE"):
        Registry.open(tmp_path)
