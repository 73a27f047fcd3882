"""The order of imports and the budgets of size: a test for each rule lists all who break it."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import harness

ROOT = Path(harness.__file__).parent
ORDER = (
    *("lazy", "errors", "parts", "core", "specs", "stats", "text", "storage", "data", "models"),
    *("implicitness", "judges", "registry", "workspace", "pipeline", "importers", "analysis"),
    *("present", "library"),
    *("cli", "__main__"),
)
"""A package imports from those to its left alone."""
WITHIN_MODELS = (
    *("", "custom", "spread", "vectors", "extras", "boundary", "labels", "client", "openai"),
    *("anthropic", "local", "encoders", "ray", "scripted", "function"),
)
HEAVY = {
    *("aiohttp", "torch", "transformers", "tokenizers", "safetensors", "pandas", "openai"),
    *("anthropic", "scipy", "pooch", "pyarrow", "sentence_transformers", "sklearn", "bert_score"),
    *("peft", "llm2vec", "vllm", "inspect_ai", "matplotlib", "openpyxl", "ray"),
}
LONGEST_MODULE, MOST_MODULES, MOST_ON_TOP = 500, 20, 9
LONGEST_FUNCTION, MEDIAN_FUNCTION, MOST_PARAMETERS, DEEPEST = 45, 10, 6, 3
MOST_SINGLE_IMPORTERS = 0.25
BUDGETS = {
    **{"lines": 44_500, "lines of code": 28_600, "classes": 450, "cli": 4_500},
    **{"analysis and present": 9_500, "tests": 52_000, "docs": 6_000, "pages of docs": 28},
}
NESTING = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.Match, ast.AsyncFor, ast.AsyncWith)


def name_of(path: Path) -> str:
    return (
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").strip(".")
    )


FILES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


class Function(NamedTuple):
    """What the budgets ask of a function."""

    name: str
    length: int
    parameters: int
    depth: int


class Module(NamedTuple):
    """What the rules ask of a module: its syntax tree would weigh on all later tests."""

    has_docstring: bool
    at_import: set[str]
    internal_imports: set[str]
    classes: list[str]
    functions: list[Function]


@cache
def modules() -> dict[str, Module]:
    """All modules, read when the first test runs, so that collecting tests stays cheap."""
    return {name: read_module(tree) for name, tree in trees().items()}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text("utf-8")) for name, path in FILES.items()}


def read_module(tree: ast.Module) -> Module:
    nodes = list(ast.walk(tree))
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    defined = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return Module(
        has_docstring=bool(ast.get_docstring(tree)),
        at_import={name.split(".")[0] for node in top for name in imported(node)},
        internal_imports={name for node in nodes for name in internal_imports(node)},
        classes=[name for name in classes if not name.startswith("_")],
        functions=[read_function(node) for node in defined],
    )


def read_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    own = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    assert node.end_lineno is not None, f"{node.name} has no end"
    return Function(
        node.name,
        length=node.end_lineno - node.lineno + 1,
        parameters=len([a for a in own if a.arg not in ("self", "cls")]),
        depth=deepest(node.body),
    )


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The names of what a statement imports, or imports from."""
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names]


def internal_imports(node: ast.AST) -> Iterator[str]:
    """The modules of this project that a statement imports."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "harness":
        base = (node.module or "").removeprefix("harness").removeprefix(".")
        for alias in node.names:
            name = f"{base}.{alias.name}".strip(".")
            yield name if name in FILES else base
    elif isinstance(node, ast.Import):
        yield from (a.name[8:] for a in node.names if a.name.startswith("harness."))


def place(module: str) -> tuple[int, int]:
    """Where a module stands in the order, and within models/."""
    package, _, rest = module.partition(".")
    inner = WITHIN_MODELS.index(rest.partition(".")[0]) if package == "models" else 0
    return ORDER.index(package), inner


def deepest(body: list[ast.stmt]) -> int:
    """How many blocks deep some statements nest."""
    depth = 0
    for node in body:
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        inner += [s for h in getattr(node, "handlers", []) for s in h.body]
        inner += [s for case in getattr(node, "cases", []) for s in case.body]
        is_def = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        depth = max(depth, isinstance(node, NESTING) + (0 if is_def else deepest(inner)))
    return depth


def test_a_package_imports_from_its_left_alone() -> None:
    # The public API on top may use all; what it exports is tested with the library.
    upward = [
        f"{module} must not import {target}"
        for module, facts in modules().items()
        for target in facts.internal_imports
        if module and target and target != module
        if place(target) > place(module)
    ]

    assert upward == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {m: facts.internal_imports - {"", m} for m, facts in modules().items() if m}
    while free := [module for module, targets in left.items() if not targets & left.keys()]:
        for module in free:
            del left[module]

    assert sorted(left) == []


def test_heavy_packages_are_imported_where_they_are_used() -> None:
    found = {module: facts.at_import & HEAVY for module, facts in modules().items()}
    assert {module: names for module, names in found.items() if names} == {}


def test_modules_and_folders_keep_their_budgets() -> None:
    sizes = {module: path.read_text("utf-8").count("\n") for module, path in FILES.items()}
    named = Counter(path.parent for path in FILES.values() if path.name != "__init__.py")
    packages = [p.name for p in ROOT.iterdir() if (p / "__init__.py").is_file()]

    assert {module for module, facts in modules().items() if not facts.has_docstring} == set()
    assert {module: size for module, size in sizes.items() if size > LONGEST_MODULE} == {}
    assert {str(folder): n for folder, n in named.items() if n > MOST_MODULES} == {}
    assert len(list(ROOT.glob("*.py"))) <= MOST_ON_TOP
    assert len(packages) == 13, packages
    assert sizes["core"] < 220, "the nouns fit in one short file"


def lines_of(folder: Path, ending: str = "*.py") -> int:
    return sum(path.read_text("utf-8").count("\n") for path in folder.rglob(ending))


def lines_of_code(text: str, tree: ast.Module) -> int:
    """The lines of a module without blank ones, comments, docstrings and imports."""
    lines = [line.strip() for line in text.splitlines()]
    off = sum(not line or line.startswith("#") for line in lines)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if ast.get_docstring(node) is not None else None
        else:
            first = node if isinstance(node, ast.Import | ast.ImportFrom) else None
        off += (first.end_lineno or 0) - first.lineno + 1 if first else 0
    return len(lines) - off


def test_the_whole_keeps_its_budgets() -> None:
    texts = [path.read_text("utf-8") for path in FILES.values()]
    docs = ROOT.parent / "docs"
    used = {
        "lines": lines_of(ROOT),
        "lines of code": sum(map(lines_of_code, texts, trees().values())),
        "classes": sum(isinstance(n, ast.ClassDef) for t in trees().values() for n in ast.walk(t)),
        "cli": lines_of(ROOT / "cli"),
        "analysis and present": lines_of(ROOT / "analysis") + lines_of(ROOT / "present"),
        "tests": lines_of(ROOT.parent / "tests"),
        "docs": lines_of(docs, "*.md"),
        "pages of docs": len([*docs.rglob("*.md")]),
    }

    assert {name: count for name, count in used.items() if count > BUDGETS[name]} == {}


def test_functions_keep_their_budgets() -> None:
    long, wide, deep, lengths = [], [], [], []
    for module, function in ((m, f) for m, facts in modules().items() for f in facts.functions):
        name = f"{module}.{function.name}"
        long += [name] if function.length > LONGEST_FUNCTION else []
        # The public library has a keyword for each option that the command has.
        wide += [name] if function.parameters > MOST_PARAMETERS and module != "library" else []
        deep += [name] if function.depth > DEEPEST else []
        lengths.append(function.length)
    lengths.sort()

    assert (long, wide, deep) == ([], [], [])
    assert lengths[len(lengths) // 2] <= MEDIAN_FUNCTION


def test_names_and_rooms_are_few() -> None:
    classes = defaultdict(set)
    importers: dict[str, set[str]] = {module: set() for module in modules() if module}
    for module, facts in modules().items():
        for name in facts.classes:
            classes[name].add(module)
        for target in facts.internal_imports & importers.keys() - {module}:
            importers[target].add(module)
    # What one command alone shows is imported by that command, and is a room of its own.
    alone = {m: next(iter(who)) for m, who in importers.items() if len(who) == 1}
    single = [m for m, who in alone.items() if m != "__main__" and not who.startswith("cli.")]

    assert {name: where for name, where in classes.items() if len(where) > 1} == {}
    assert len(single) <= MOST_SINGLE_IMPORTERS * len(modules()), single
