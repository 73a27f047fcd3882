"""The layers and the budgets of size, held by test rather than by goodwill."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness

ROOT = Path(harness.__file__).parent
LAYERS = (
    {"errors"},
    {"parts", "impscore.formula", "wording", "wordnet"},
    {"core"},
    {"specs.checked"},
    {"specs.tasks", "specs.data", "specs.encoders", "specs.golden", "specs.prices"},
    {"specs.bodies"},
    {"specs.imports", "specs.models", "specs.tables"},
    {"specs.builds", "specs.judges", "specs.recipes", "specs.scorers"},
    {"specs.perturbations"},
    {"answers", "connections", "crew", "gate", "options", "outage", "prices"},
    {"stats.estimate", "ways"},
    {"pictures", "sameness", "signature_names"},
    {"parsers", "prompts", "budget", "calls", "ledger", "tables", "scores", "stats", "datasets"},
    {"backends", "layouts", "word_changes", "derived", "engine_rows", "originals", "token_texts"},
    {"cells"},
    {"table_files"},
    {"columns"},
    {"replies"},
    {
        "checkpoints",
        "instructed_text",
        "nearness",
        "vectors",
        "stats.annotator",
        "stats.resampling",
    },
    {"stats.against_people", "stats.logistic", "stats.paired", "ratings"},
    {"label_studio", "minilm_network", "stats.classification", "stats.detection"},
    {
        *("servers", "batches", "boundary", "chat_tokens", "drawing", "tiny_llama", "encoders"),
        *("labelling", "llm2vec", "prefix_tree", "runs", "desk"),
    },
    {"embedded", "encoding", "fine_tuning", "linear", "trained"},
    {"impscore.head"},
    {"impscore.scorer", "impscore.state_dicts", "impscore.tuned_encoder"},
    {"impscore.published"},
    {"impscore.graded", "impscore.near_duplicates", "impscore.pairs", "impscore.scaling"},
    {"impscore.examples", "impscore.splits", "impscore.training_texts"},
    {"impscore.figures", "impscore.training"},
    {"impscore.balance"},
    {"impscore.members"},
    {"impscore.ablation", "impscore.cross_validation"},
    {"impscore.making"},
    {"impscore.evaluation", "profiles"},
    {"tree_attention"},
    {"token_vectors", "choice_tokens", "choice_scores", "choosing", "vllm_start", "batch_files"},
    {"costs", "detection_scores"},
    {"batch_servers", "classification_scores"},
    {"batch_jobs"},
    {
        *("models.anthropic_replies", "models.openai_errors", "models.openai_logprobs"),
        "models.openai_replies",
    },
    {"choice_reads", "prompt_sizes", "token_report"},
    {"models.openai_choices", "models.openai_responses"},
    {"readers", "models", "judges"},
    {"models.anthropic_batches", "models.moderation", "models.openai_batches"},
    {"replays.answer", "replays.choice_values"},
    {"implicitness", "recomputed", "planning", "scoring"},
    {"constant_answers", "remembered"},
    {"replays.posed"},
    {"replays.record"},
    {"replays"},
    {"pipeline", "leaderboard", "panels", "sheets"},
    {"human", "agreement", "implicitness_curves", "run_judges"},
    {"builds", "evidence", "views"},
    {"perturbations"},
    {"flips"},
    {"pairings"},
    {"compare"},
    {"scorers"},
    {"registry"},
    {"workspace"},
    {"classifiers", "seats"},
    {"foresight"},
    {"jobs"},
    {"replay_run"},
    {"replay_union"},
    {"dryrun", "imports", "training", "verify"},
    {"cli.screen", "token_check"},
    {"cli.classes", "cli.text_files"},
    {"cli.details", "cli.gaps", "cli.money", "cli.options"},
    {"cli.dry_runs"},
    {"cli.building", "cli.catalogue", "cli.data", "cli.evaluate", "cli.people", "cli.results"},
    {"cli.comparing", "cli.curves", "cli.importing", "cli.tokens", "cli.training"},
    {"cli.verification"},
    {"cli.impscore_training"},
    {"cli.impscore", "cli.perturbing", "cli.profiling"},
    {"cli.app"},
    {"cli"},
    {"__main__"},
)
HEAVY = {
    "anthropic",
    "torch",
    "transformers",
    "openai",
    "tokenizers",
    "safetensors",
    "pandas",
    "scipy",
    "pooch",
    "pyarrow",
}
HEAVY |= {"sentence_transformers", "sklearn", "bert_score", "peft", "llm2vec", "vllm", "inspect_ai"}
LONGEST_MODULE, LONGEST_FUNCTION, MOST_PARAMETERS, DEEPEST = 350, 45, 6, 3
NESTING = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.Match, ast.AsyncFor, ast.AsyncWith)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(p): ast.parse(p.read_text("utf-8")) for p in sorted(ROOT.rglob("*.py"))}
FUNCTIONS = {
    f"{module}.{node.name}:{node.lineno}": node
    for module, tree in MODULES.items()
    for node in ast.walk(tree)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
}


def layer(module: str) -> int:
    """The layer of a module, or of the nearest package above it that has one."""
    parts = module.split(".")
    for end in range(len(parts), 0, -1):
        for place, members in enumerate(LAYERS):
            if ".".join(parts[:end]) in members:
                return place
    raise AssertionError(f"{module} stands in no layer: add it to LAYERS")


def internal_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness"):
            base = (node.module or "").removeprefix("harness").removeprefix(".")
            for alias in node.names:
                name = f"{base}.{alias.name}".strip(".")
                yield name if name in MODULES else base
        elif isinstance(node, ast.Import):
            yield from (a.name[8:] for a in node.names if a.name.startswith("harness."))


@pytest.mark.parametrize("module", [m for m in MODULES if m not in ("harness", "", "__init__")])
def test_imports_point_down(module: str) -> None:
    targets = [t for t in internal_imports(MODULES[module]) if t and t != module]

    is_package = module in ("cli", "specs", "models", "judges", "readers", "stats")
    for target in targets:
        is_within = is_package and target.startswith(f"{module.split('.')[0]}.")
        assert layer(target) < layer(module) or is_within, f"{module} must not import {target}"


@pytest.mark.parametrize("module", MODULES)
def test_heavy_packages_are_imported_where_they_are_used(module: str) -> None:
    top = [node for node in MODULES[module].body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}

    assert not {name.split(".")[0] for name in names} & HEAVY


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=name_of)
def test_a_module_has_a_docstring_and_fits_its_budget(path: Path) -> None:
    text = path.read_text("utf-8")

    assert ast.get_docstring(ast.parse(text)), f"{path} needs a docstring"
    assert text.count("\n") <= LONGEST_MODULE


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_fits_its_budget(name: str) -> None:
    node = FUNCTIONS[name]
    own = [a for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]

    is_command = name.startswith("cli.") and len(own) > MOST_PARAMETERS
    body = node.body[-1].end_lineno or 0
    length = body - (node.body[0].lineno if is_command else node.lineno) + 1
    assert length <= LONGEST_FUNCTION
    # A command has a parameter for each of its options: that is how typer declares them.
    assert is_command or len([a for a in own if a.arg not in ("self", "cls")]) <= MOST_PARAMETERS
    assert deepest(node.body) <= DEEPEST


def deepest(body: list[ast.stmt]) -> int:
    depth = 0
    for node in body:
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        inner += [s for h in getattr(node, "handlers", []) for s in h.body]
        inner += [s for case in getattr(node, "cases", []) for s in case.body]
        is_def = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        depth = max(depth, isinstance(node, NESTING) + (0 if is_def else deepest(inner)))
    return depth


def test_the_nouns_fit_in_one_short_file() -> None:
    text = (ROOT / "core.py").read_text("utf-8")

    assert text.count("\n") < 220
