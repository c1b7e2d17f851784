"""The rules of the house. If a rule matters, a test here holds it; if no test holds it, it is not a rule."""

from __future__ import annotations

import ast
import functools
import importlib
import operator
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "tenuto"
MODULES = sorted(SRC.rglob("*.py"))
NAMES = {
    path: ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__") for path in MODULES
}

LAYERS = [
    "core", "errors", "store", "sim", "wire", "_model_rows", "models", "_provider_rows", "providers", "oneshot", "settings", "audit", "tools", "client",
    "agent", "cli", "__main__", "testing",
]  # fmt: skip
"""From the ground up: a module imports its own layer and those before it. The public lists of names stand outside."""
FACADES = {"tenuto", "tenuto.events", "tenuto.blocks", "tenuto.middleware", "tenuto.client"}
ABOVE = {("tenuto.sim.__main__", "tenuto.settings")}
"""A command may ask the environment, though what it runs may not."""
PURE = {"core", "errors", "wire"}
IMPURE = {
    "aiohttp", "asyncio", "concurrent", "datetime", "http", "httpx", "io", "logging", "multiprocessing", "os", "pathlib",
    "random", "requests", "secrets", "select", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "sys",
    "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
CORE_MAY = {
    "msgspec",
    "tenuto",
    "__future__",
    "abc",
    "collections",
    "functools",
    "hashlib",
    "json",
    "re",
    "types",
    "typing",
}
FILES = "tenuto.core.files"
"""The one place of the core that reads a file."""
FILES_MAY = {"base64", "binascii", "pathlib"}
TABLES = {"tenuto.providers", "tenuto.models", "tenuto._model_rows", "tenuto._provider_rows"}


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path) -> set[str]:
    """Every module that a file imports, relative and lazy imports included."""
    own = NAMES[path].split(".") if path.name != "__init__.py" else [*NAMES[path].split("."), "__init__"]
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*own[: -node.level], *filter(None, [node.module])] if node.level else [node.module or ""]
            found |= {".".join([*base, alias.name]) for alias in node.names} | {".".join(base)}
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            found |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    return found


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def layer(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if parts[0] == "tenuto" and len(parts) > 1 and parts[1] in LAYERS else None


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_module_keeps_to_its_layer(path):
    """Imports go down; the pure layers import nothing that touches the world; core imports msgspec and little else."""
    name, names = NAMES[path], imported(path)
    own = layer(name)
    if name in FACADES:
        return

    assert own is not None, f"{name} has no place in LAYERS"
    names -= {above for command, above in ABOVE if command == name}
    assert [] == sorted(n for n in names if (up := layer(n)) and LAYERS.index(up) > LAYERS.index(own))
    roots = {n.split(".")[0] for n in names} - (FILES_MAY if name == FILES else set())
    if own in PURE:
        assert set() == roots & IMPURE
    if own == "core":
        assert set() == roots - CORE_MAY


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_pure_layers_do_not_touch_the_world(path):
    """Nobody in the pure layers prints, opens, evaluates or asks for input; nobody anywhere uses `global`."""
    calls = {getattr(node.func, "id", "") for node in ast.walk(tree(path)) if isinstance(node, ast.Call)}

    assert not any(isinstance(node, ast.Global) for node in ast.walk(tree(path)))
    if layer(NAMES[path]) in PURE:
        assert set() == calls & {"print", "open", "input", "eval", "exec", "breakpoint"}


def test_no_import_cycle():
    """No module reaches itself through imports, relative and lazy ones included."""
    known = set(NAMES.values())
    graph = {name: {n for n in imported(path) if n in known and n != name} for path, name in NAMES.items()}
    for name in FACADES:  # a package's list of names is imported by no module of it
        assert not any(name in targets and source.startswith("tenuto.core") for source, targets in graph.items())
    graph = {name: targets - FACADES for name, targets in graph.items() if name not in FACADES}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above[above.index(name) :], name])
        if name not in done:
            for target in sorted(graph.get(name, ())):
                if not name.startswith(f"{target}."):  # a submodule may name its own package
                    visit(target, (*above, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_public_things_say_what_they_promise(path):
    """Each module, and each public class and function that a module lists, has a docstring."""
    module = tree(path)
    listed = _listed(module)

    assert ast.get_docstring(module), "the module has no docstring"
    for node in module.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in listed and not _is_piece(node):
            if any(getattr(decorator, "id", "") == "overload" for decorator in node.decorator_list):
                continue  # the docstring stands on what is overloaded
            assert ast.get_docstring(node), f"{node.name} has no docstring"


def _is_piece(node: ast.stmt) -> bool:
    """Structs that mirror the wire say what they are by their fields."""
    return isinstance(node, ast.ClassDef) and any(k.arg == "forbid_unknown_fields" for k in node.keywords)


def _listed(module: ast.Module) -> set[str]:
    for node in module.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return set(ast.literal_eval(node.value))
    return set()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SRC)))
def test_ignored_types_have_a_reason(path):
    """A `type: ignore` names its code and says why."""
    for line in path.read_text("utf-8").splitlines():
        if "type: ignore" in line:
            assert re.search(r"# type: ignore\[[a-z-]+\]  # \S", line), line


def test_no_row_is_named_outside_the_tables():
    """Behaviour hangs on switches and traits: no string constant equals a row's name outside the tables, and outside the
    simulator, which plays them.
    """
    from tenuto.providers import PROVIDERS

    rows = {name for row in PROVIDERS.values() for name in (row.name, *row.aliases)}
    rows -= {"gemini", "meta"}  # also a dialect, also a block's field
    found = []
    for path in MODULES:
        if any(NAMES[path] == table or NAMES[path].startswith(f"{table}.") for table in (*TABLES, "tenuto.sim")):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and node.value in rows and not _is_tag(path, node):
                found.append(f"{NAMES[path]}:{node.lineno}: {node.value!r}")

    assert [] == found


def _is_tag(path: Path, constant: ast.Constant) -> bool:
    """The tags of stored tokens are fixed by the specification and name who issued one, never a row."""
    tags = [
        keyword.value
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
        for keyword in node.keywords
        if keyword.arg == "tag"
    ]
    return constant in tags or NAMES[path] == "tenuto.core.stored"


def test_exported_names():
    """At most 45 public names, sorted, each importable, and none that is not listed."""
    import tenuto

    assert sorted(tenuto.__all__) == list(tenuto.__all__)
    assert len(tenuto.__all__) <= 45
    for name in tenuto.__all__:
        assert getattr(tenuto, name).__module__.startswith("tenuto.")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        operator.attrgetter("nothing")(tenuto)
    assert set(tenuto.__all__) <= set(dir(tenuto))


@pytest.mark.parametrize(
    "facade, homes",
    [("tenuto.events", ("tenuto.core.events", "tenuto.agent.events")), ("tenuto.blocks", ("tenuto.core.blocks",))],
)
def test_public_modules_list_what_their_homes_list(facade, homes):
    """`tenuto.events` and `tenuto.blocks` name everything public in their homes."""
    there = {name for home in homes for name in importlib.import_module(home).__all__} - {"shortened"}

    assert set(importlib.import_module(facade).__all__) == there


def test_import_loads_nothing_heavy():
    """`import tenuto` loads neither a network library nor a terminal library nor a database, nor msgspec."""
    code = "import sys, tenuto; print(sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout))

    assert set() == loaded & {"aiohttp", "rich", "click", "sqlite3", "asyncio", "msgspec", "ssl", "socket", "httpx"}


def test_reading_bytes_loads_nothing_heavy():
    """`decode` and `encode` need neither a network library nor an event loop."""
    code = "import sys, tenuto; tenuto.decode, tenuto.encode; print(sorted({m.split('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout))

    assert set() == loaded & {"aiohttp", "rich", "click", "sqlite3", "asyncio", "ssl", "socket", "httpx", "pydantic"}


def test_reading_a_stream_loads_no_audit():
    """The names of events are light, and an agent that nobody listens to audits nothing: neither loads the rules' eyes."""
    code = (
        "import sys, tenuto.events, tenuto.agent.agent; print([m for m in sys.modules if m.startswith('tenuto.audit')])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"


def test_a_client_loads_nothing_heavy_before_it_asks():
    """`Client()` needs neither a network library nor a database, nor the codecs, nor a loop: that waits for a question."""
    code = "import sys; from tenuto import Client; Client(); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout))

    assert set() == loaded & {
        "aiohttp",
        "rich",
        "click",
        "sqlite3",
        "httpx",
        "pydantic",
        "yarl",
        "asyncio",
        "socket",
        "ssl",
        "logging",
        "urllib.parse",
        "tenuto.client.stream",
        "tenuto.wire.dialects",
    }


def test_a_plain_question_loads_what_it_needs():
    """Neither the ways of other dialects, nor the models of other vendors, nor what a transcript with a past needs."""
    code = """
import sys
from tenuto import ChatRequest, UserMessage, resolve
from tenuto.wire.dialects import write
write(ChatRequest(model="anthropic/claude-sonnet-4-5", messages=(UserMessage("hi"),)), resolve("anthropic/claude-sonnet-4-5"))
print([name for name in sys.modules if name.startswith("tenuto.")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout))

    assert "tenuto.wire.anthropic.encode" in loaded
    assert set() == loaded & {
        "tenuto.wire.handoff",
        "tenuto.wire.foreign",
        "tenuto.wire.chat",
        "tenuto.wire.gemini",
        "tenuto.wire.responses",
        "tenuto._model_rows.hosts",
        "tenuto._model_rows.openai",
    }


def test_importing_asks_nobody():
    """Importing the package and making a client opens no connection and looks no name up."""
    code = """
import sys
asked = []
sys.addaudithook(lambda name, given: asked.append(name) if name in ("socket.connect", "socket.getaddrinfo") else None)
import tenuto
[getattr(tenuto, name) for name in tenuto.__all__]
tenuto.Client().close()
print(asked)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout


def test_root_stays_small():
    """The root of the project is no desk: fewer than 15 entries, hidden ones aside."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    entries = {line.split("/")[0] for line in done.stdout.splitlines() if not line.startswith(".")}

    assert len(entries) < 15
