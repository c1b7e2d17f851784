"""The rules of the source tree that neither ruff, mypy nor import-linter checks.

Layers are a contract of import-linter in pyproject.toml; `make check` runs it.

`known_offenders.toml` lists the names that break a rule since before the rule existed. The lists may
only shrink: a new offender fails, and so does an entry that is too high. `python tests/test_architecture.py` lowers the
entries to the current counts; it adds nothing.
"""

from __future__ import annotations

import ast
import collections
import functools
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "tenuto"
KNOWN_OFFENDERS = Path(__file__).with_name("known_offenders.toml")

PURE = {"core", "errors", "rules", "schema", "wire"}
IMPURE_MODULES = {
    "aiohttp", "asyncio", "concurrent", "datetime", "http", "httpx", "io", "logging", "multiprocessing", "os", "pathlib",
    "random", "requests", "secrets", "select", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "sys",
    "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
IMPURE_CALLS = {"breakpoint", "eval", "exec", "input", "open", "print"}
CLOCK_METHODS = {"now", "today", "utcnow"}
PURE_EXCEPTIONS = {
    "datetime.date",  # a value; its clock is in CLOCK_METHODS
    "os.PathLike",  # a type
    "tenuto.core.files -> pathlib",  # reads the files that a caller attaches
    *(f"urllib.parse.{name}" for name in ("quote", "unquote", "unquote_to_bytes", "urlsplit")),  # functions of text
}

UPWARD_IMPORTS = {
    "tenuto.core.transcript -> tenuto.core.stored.dump_transcript",
    "tenuto.core.transcript -> tenuto.core.stored.load_transcript",
    "tenuto.core.transcript -> tenuto.reasoning.views.to_details",
}
"""Imports inside a method that gives another form of its value. The last one is an exception in pyproject.toml too."""

PROVIDER_NAME_HOMES = {"catalog", "rules", "sim"}
"""Packages that may name a provider in a string."""
SHARED_PROVIDER_NAMES = {"gemini", "meta"}
"""Provider names that are also the name of a dialect or of a field."""

IRREGULAR_PARTICIPLES = {
    "begun", "bound", "broken", "brought", "built", "came", "chosen", "done", "drawn", "found", "given", "gone", "heard",
    "held", "kept", "known", "laid", "left", "lost", "made", "meant", "said", "seen", "sent", "shown", "spent", "spoken",
    "taken", "thought", "told", "written",
}  # fmt: skip
NOT_PARTICIPLES = {
    # nouns and verbs
    "closing", "embed", "embedding", "everything", "feed", "finding", "framing", "grounding", "heading", "keyring",
    "need", "pairing", "ping", "reasoning", "ring", "routing", "sampling", "seed", "setting", "sibling", "speed", "string",
    "testing", "thinking", "warning",
    # adjectives of the specifications and of the public API
    "Blocked", "Cancelling", "Compacted", "Completed", "Configured", "Finished", "Spent", "Structured", "Submitted",
    "done", "exceeded", "pending", "posted", "remaining", "stored", "structured", "unified",
}  # fmt: skip


# --- source -----------------------------------------------------------------------------------------------------------


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax tree of each module by its dotted name."""
    return {module_name(path): ast.parse(path.read_text("utf-8")) for path in sorted(SRC.rglob("*.py"))}


@functools.cache
def packages() -> set[str]:
    return {module_name(path) for path in SRC.rglob("__init__.py")}


def package_of(name: str) -> str:
    """Return the first part below `tenuto`: `wire` for `tenuto.wire.chat.decode`."""
    return name.partition(".")[2].partition(".")[0]


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without the bodies of `if TYPE_CHECKING`."""
    yield node
    for child in node.orelse if is_type_checking(node) else ast.iter_child_nodes(node):
        yield from run_time_nodes(child)


@functools.cache
def imports(name: str) -> frozenset[str]:
    """Return what a module imports at run time, at its top or inside functions: `package.module` or `package.name`."""
    home = name if name in packages() else name.rpartition(".")[0]
    targets: set[str] = set()
    for node in run_time_nodes(modules()[name]):
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(home.split(".")[: len(home.split(".")) + 1 - node.level]) if node.level else ""
            origin = ".".join(filter(None, (base, node.module)))
            targets |= {f"{origin}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
            targets |= {arg.value for arg in node.args if isinstance(arg, ast.Constant)}
    return frozenset(targets)


def public_definitions(module: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the classes, functions and methods of a module whose names do not start with an underscore."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
            yield node


# --- imports ----------------------------------------------------------------------------------------------------------


def loaded_with(target: str, importer: str) -> set[str]:
    """Return the modules that an import loads: the module and its packages, without those of the importer."""
    parts = target.split(".")
    names = {".".join(parts[:length]) for length in range(1, len(parts) + 1)} & modules().keys()
    return {name for name in names if not f"{importer}.".startswith(f"{name}.")}


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return one cycle of a directed graph, its first node repeated at the end, or [] without a cycle."""
    finished: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in finished:
            for target in sorted(graph[name]):
                if cycle := visit(target, [*path, name]):
                    return cycle
            finished.add(name)
        return []

    return next((cycle for name in sorted(graph) if (cycle := visit(name, []))), [])


def test_modules_do_not_import_each_other_in_a_cycle():
    """Imports inside functions count, imports under TYPE_CHECKING do not."""
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for name in modules():
        for target in imports(name):
            if f"{name} -> {target}" not in UPWARD_IMPORTS:
                graph[name] |= loaded_with(target, name)

    assert find_cycle(graph) == []


def test_find_cycle_returns_the_cycle():
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def impure_uses(name: str) -> Iterator[str]:
    for target in sorted(imports(name)):
        root = target.partition(".")[0]
        if root in IMPURE_MODULES and not PURE_EXCEPTIONS & {target, f"{name} -> {root}"}:
            yield f"{name} imports {target}"
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
                yield f"{name}:{node.lineno} calls {node.func.id}()"
            if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCK_METHODS:
                yield f"{name}:{node.lineno} reads the clock"


def test_pure_packages_have_no_side_effects():
    """No asyncio, clock, randomness, environment, HTTP or logging: the same input gives the same result."""
    pure = [name for name in modules() if package_of(name) in PURE]

    assert [use for name in pure for use in impure_uses(name)] == []


# --- names of providers and dialects ----------------------------------------------------------------------------------


def provider_names() -> set[str]:
    homes = ("tenuto.catalog.providers", "tenuto.catalog")
    rows = importlib.import_module(next(name for name in homes if name in modules())).PROVIDERS.values()
    return {name for row in rows for name in (row.name, *row.aliases)} - SHARED_PROVIDER_NAMES


def stored_tags(module: ast.Module) -> set[ast.expr]:
    """Return the `tag=` constants of structs: stored tokens are tagged with the name of the provider that issued them."""
    classes = (node for node in ast.walk(module) if isinstance(node, ast.ClassDef))
    return {keyword.value for node in classes for keyword in node.keywords if keyword.arg == "tag"}


def test_only_the_catalog_names_providers():
    """Behavior depends on switches and traits of a row, never on its name."""
    names = provider_names()
    uses = [
        f"{name}:{node.lineno}: {node.value!r}"
        for name, module in modules().items()
        if package_of(name) not in PROVIDER_NAME_HOMES and name != "tenuto.core.stored"  # reads the stored tags
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and node.value in names and node not in stored_tags(module)
    ]

    assert uses == []


def compared_values(node: ast.AST) -> Iterator[object]:
    """Yield the constants of a comparison, `in ("a", "b")` included, or of a `case`."""
    if isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant):
        yield node.value.value
    if isinstance(node, ast.Compare):
        for operand in (node.left, *node.comparators):
            elements = operand.elts if isinstance(operand, ast.Tuple | ast.List | ast.Set) else [operand]
            yield from (element.value for element in elements if isinstance(element, ast.Constant))


def test_no_module_compares_dialect_names():
    """Data on the object of a dialect decides; only the dialects' own packages in `wire` may compare."""
    from tenuto.core.provider import Dialect

    dialects = set(get_args(Dialect))
    codecs = tuple(f"{package}." for package in packages() if package.startswith("tenuto.wire."))
    comparisons = [
        f"{name}: {ast.unparse(node)}"
        for name, module in modules().items()
        if not name.startswith(codecs)
        for node in ast.walk(module)
        if not dialects.isdisjoint(compared_values(node))
    ]

    assert comparisons == []


# --- names ------------------------------------------------------------------------------------------------------------


def is_participle(name: str) -> bool:
    """Whether a name is a single participle or gerund: `found`, `Opened`, `keeping`."""
    word = name.lower()
    regular = re.fullmatch(r"[A-Z]?[a-z]+(?:ed|ing)", name) is not None
    return (regular or word in IRREGULAR_PARTICIPLES) and not {name, word} & NOT_PARTICIPLES


def duplicate_class_names() -> dict[str, int]:
    """Count the modules that define a class, for each public class name."""
    pairs = {
        (node.name, name)
        for name, module in modules().items()
        for node in public_definitions(module)
        if isinstance(node, ast.ClassDef)
    }
    return {name: count for name, count in collections.Counter(name for name, _ in pairs).items() if count > 1}


def participle_names() -> dict[str, int]:
    """Count the public classes, functions and methods for each name that is a participle."""
    names = (node.name for module in modules().values() for node in public_definitions(module))
    return collections.Counter(filter(is_participle, names))


def participle_modules() -> dict[str, int]:
    return {name: 1 for name in modules() if is_participle(name.rpartition(".")[2])}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("found", True),
        ("Opened", True),
        ("keeping", True),
        ("find_session", False),
        ("Reasoning", False),
        ("MessageAdded", False),
    ],
)
def test_is_participle_finds_verb_forms(name, expected):
    assert is_participle(name) is expected


COUNTS = {
    "duplicate_class_names": duplicate_class_names,
    "participle_names": participle_names,
    "participle_modules": participle_modules,
}


@pytest.mark.parametrize("rule", COUNTS)
def test_known_offenders_only_shrink(rule):
    """A new offender needs another name; an entry that is too high is lowered by `python tests/test_architecture.py`."""
    recorded = tomllib.loads(KNOWN_OFFENDERS.read_text("utf-8"))[rule]
    current = {name: count for name, count in COUNTS[rule]().items() if count}

    new = {name: count for name, count in current.items() if count > recorded.get(name, 0)}
    too_high = {name: count for name, count in recorded.items() if count > current.get(name, 0)}
    assert (new, too_high) == ({}, {})


def lower_known_offenders() -> None:
    """Write the known offenders again, each with the lower of its recorded and its current count."""
    lines = ["# Written by `python tests/test_architecture.py`, which only lowers counts.\n"]
    for rule, recorded in tomllib.loads(KNOWN_OFFENDERS.read_text("utf-8")).items():
        current = COUNTS[rule]()
        left = {name: min(count, current.get(name, 0)) for name, count in recorded.items()}
        lines.append(f"\n[{rule}]\n")
        lines += [f'"{name}" = {count}\n' for name, count in sorted(left.items()) if count]
    KNOWN_OFFENDERS.write_text("".join(lines), "utf-8")


# --- exports ----------------------------------------------------------------------------------------------------------


def listed_names(module: ast.Module) -> list[str]:
    """Return `__all__` of a module; [] if it has none."""
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if "__all__" in map(ast.unparse, targets):
                return list(ast.literal_eval(node.value))
    return []


def lazy_modules() -> list[str]:
    """Return the modules that load names when they are first used."""
    return [
        name
        for name, module in modules().items()
        if any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in module.body)
    ]


def test_lazily_exported_names_exist():
    """Each name can be loaded, `dir` lists it, type checkers see it, and another name raises AttributeError."""
    for name in lazy_modules():
        module = importlib.import_module(name)
        typed = {
            alias.asname
            for block in filter(is_type_checking, modules()[name].body)
            for statement in block.body
            for alias in statement.names
        }

        assert [export for export in module.__all__ if not hasattr(module, export)] == [], name
        assert set(module.__all__) <= set(dir(module)), name
        assert set(module.__all__) == typed, name
        with pytest.raises(AttributeError, match="no attribute 'missing_name'"):
            _ = module.missing_name


@pytest.mark.parametrize(
    ("public", "homes"),
    [("tenuto.events", ("tenuto.core.events", "tenuto.agent.events")), ("tenuto.blocks", ("tenuto.core.blocks",))],
)
def test_public_list_has_every_class_of_its_homes(public, homes):
    names: set[str] = set()
    for home in homes:
        classes = [node.name for node in modules()[home].body if isinstance(node, ast.ClassDef)]
        names |= {name for name in listed_names(modules()[home]) or classes if re.match("[A-Z][a-z]", name)}

    assert set(importlib.import_module(public).__all__) == names


def test_no_module_replaces_an_exported_function():
    """`package/tool.py` would replace a function `tool` that `package/__init__.py` exports."""
    replaced = []
    for package in sorted(packages()):
        imported = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in modules()[package].body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        exported = getattr(importlib.import_module(package), "__all__", ())
        for name in {*exported, *imported}:
            submodule = f"{package}.{name}"
            if submodule in modules() and imported.get(name) != submodule:
                replaced.append(submodule)

    assert replaced == []


# --- what an import loads ---------------------------------------------------------------------------------------------


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def loaded_modules(code: str) -> set[str]:
    """Return the modules that are loaded after `code` has run in a new process."""
    return set(ast.literal_eval(run_python(f"{code}\nimport sys; print(sorted(sys.modules))")))


HEAVY = {"aiohttp", "asyncio", "click", "httpx", "pydantic", "rich", "socket", "sqlite3", "ssl"}


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import tenuto", HEAVY | {"msgspec"}),
        ("import tenuto; tenuto.decode, tenuto.encode", HEAVY),
        (
            "import tenuto; tenuto.Client()",
            HEAVY | {"logging", "urllib.parse", "yarl", "tenuto.client.stream", "tenuto.wire.codec"},
        ),
        ("import tenuto.events, tenuto.agent.agent", {"tenuto.audit"}),
    ],
    ids=["package", "codecs", "client", "agent"],
)
def test_import_loads_nothing_heavy(code, absent):
    """No network, terminal or database library before the first request, and no audit before the first audit."""
    assert {name for name in absent if name.startswith("tenuto.")} <= modules().keys()
    assert loaded_modules(code) & absent == set()


def test_first_request_loads_only_its_own_dialect():
    """Neither other dialects nor models of other vendors nor the translation of earlier turns."""
    code = """
from tenuto import ChatRequest, UserMessage, resolve
from tenuto.wire.write import write_request
model = "anthropic/claude-sonnet-4-5"
write_request(ChatRequest(model=model, messages=(UserMessage("hi"),)), resolve(model))
"""
    absent = {
        "tenuto.wire.adapt",
        "tenuto.wire.translate",
        "tenuto.wire.chat",
        "tenuto.wire.gemini",
        "tenuto.wire.responses",
        "tenuto.catalog.model_rows.hosts",
        "tenuto.catalog.model_rows.openai",
    }
    loaded = loaded_modules(code)

    assert absent <= modules().keys()
    assert "tenuto.wire.anthropic.encode" in loaded
    assert loaded & absent == set()


def test_import_opens_no_connection():
    code = """
import sys
calls = []
sys.addaudithook(lambda name, _: calls.append(name) if name in ("socket.connect", "socket.getaddrinfo") else None)
import tenuto
[getattr(tenuto, name) for name in tenuto.__all__]
tenuto.Client().close()
print(calls)
"""

    assert run_python(code) == "[]\n"


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_suppressed_checks_have_a_reason():
    """`# type: ignore[code]  # reason` and `# noqa: CODE - reason`."""
    form = re.compile(r"# type: ignore\[[a-z-]+\]  # \S|# noqa: [A-Z]+\d+(?:, [A-Z]+\d+)* - \S")
    lines = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SRC.rglob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search("# type: ignore|# noqa", line) and not form.search(line)
    ]

    assert lines == []


def test_root_directory_stays_small():
    """Fewer than 15 entries, hidden ones not counted."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    entries = {line.partition("/")[0] for line in files.splitlines() if not line.startswith(".")}

    assert len(entries) < 15


if __name__ == "__main__":
    lower_known_offenders()
