"""Count the phrases that make a reader stop.

Checked are docstrings, comments and strings of three words or more in `src`, `bench` and `examples`, the pages, and the
comments of `Makefile` and `pyproject.toml`; in tests, only the paths in CONVERTED and the names of tests. Not checked are:

- code: `spans in backquotes` and fenced blocks;
- quotations of providers, wherever they are in the tree: strings that are compared (`==`, `in`, `case`), that are an
  argument of a function of `re` or of a method that searches a text (`startswith`, `find`, ...), that are the value of a
  constant named `*_PHRASES`, `*_PATTERN`, `*_PATTERNS` or `*_QUOTES`, or that are the argument `messages=` or `source=`
  of a call, as in a rule.

There is no other waiver: put a quotation into one of these forms.

Paths in CONVERTED have no banned phrase. For the other paths LIMITS has the count of each phrase, which may only fall:
`python tests/test_wording.py` prints the current counts, `python tests/test_wording.py PATH ...` the phrases in some
paths.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

CONVERTED = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
    "bench/",
    "docs/agent.md",
    "docs/architecture.md",
    "docs/client.md",
    "docs/command.md",
    "docs/command/",
    "docs/decisions/",
    "docs/fidelity.md",
    "docs/handover.md",
    "docs/interop.md",
    "docs/journal.md",
    "docs/performance.md",
    "docs/pitfalls.md",
    "docs/providers.md",
    "docs/specifications.md",
    "docs/store.md",
    "docs/testing.md",
    "docs/tools.md",
    "examples/",
    "pyproject.toml",
    "src/tenuto/__init__.py",
    "src/tenuto/agent/",
    "src/tenuto/audit/",
    "src/tenuto/blocks.py",
    "src/tenuto/catalog/",
    "src/tenuto/client/",
    "src/tenuto/closable.py",
    *(f"src/tenuto/core/{name}" for name in ("blocks", "embeddings", "events", "files", "journal", "jsonio", "loss")),
    *(f"src/tenuto/core/{name}" for name in ("media_types", "messages", "next_request", "provider", "request")),
    *(f"src/tenuto/core/{name}" for name in ("inbox", "response", "stored", "transcript")),
    "src/tenuto/errors.py",
    "src/tenuto/events.py",
    "src/tenuto/interop/",
    "src/tenuto/lazy.py",
    "src/tenuto/middleware.py",
    "src/tenuto/oneshot.py",
    "src/tenuto/reasoning/",
    "src/tenuto/rules/",
    "src/tenuto/schema/",
    "src/tenuto/settings.py",
    "src/tenuto/sim/",
    "src/tenuto/store/",
    "src/tenuto/testing/",
    "src/tenuto/tools/",
    "src/tenuto/wire/",
    "tests/baseline/__",
    "tests/baseline/command_at.py",
    "tests/conftest.py",
    "tests/postgres_proxy.py",
    "tests/real_postgres.py",
    "tests/scripted.py",
    "tests/strategies.py",
    "tests/test_",
    *(f"tests/{name}/" for name in ("agent", "catalog", "client", "clients", "compaction", "conformance", "core")),
    *(f"tests/{name}/" for name in ("crash", "fuzz", "handoff", "interop", "load", "reasoning", "schema", "sdk")),
    *(f"tests/{name}/" for name in ("serving", "store", "temporal", "tools", "typing", "wire")),
)
"""Prefixes of the paths whose text is rewritten. The list only grows."""

BANNED_PATTERNS = {
    "who": r"\bwho(?:m|ever|mever)\b",
    "body": r"\b(?:some|no|every)body\b",
    "own": r"\bone's\b",
    "is no": r"(?<!there )\b(?:is|are|was|were) no (?!(?:longer|more|less|greater|such|need|different|one)\b)[a-z]",
    "go on": r"\b(?:go|goes|going|went|gone) (?:on|along)\b(?! (?:the|a)\b)",
    "stand": r"\b(?:stands|stood)\b(?! for\b| out\b)",
    "archaic": r"\b(?:anew|spelt|thereof|whence|shall|beside)\b",
    "behind": r"\bbehind (?!(?:a|the) (?:proxy|flag|firewall|load balancer)\b|(?-i:[A-Z]))",
    "told": r"\b(?:is|are|was|were|be) (?:told|said|heard)\b|\b(?:told|tells?|hears?) of\b",
    "word": r"\byour word\b|\b(?:wait(?:s|ing)?|asks?) for (?:a|its|the) word\b",
    "verb": r"\blet(?:s|ting)? go\b|\bputs? away\b|\b(?:fetched|taken|takes?) back\b|\bvouch|\bmend(?:s|ed)?\b",
    "idiom": r"\bas often as you like\b|\bhow (?:it|one|they) begins?\b|\bso (?:many|much|long)\b(?! as\b| that\b)",
    "he": r"(?-i:\b(?:he|him|his)\b)",
    "metaphor": r"\bown eyes\b|\bdoomed\b|\bfates?\b",
    "relative": r"\b(?:what|who) (?:goes|comes|came|begins|stands|is meant|is asked|is said|was asked)\b",
}
"""Phrases that a converted path must not have."""

DISCOURAGED_PATTERNS = {
    "what is": r"\b(?:what|who) (?:is|was|are|were|has|had|goes|comes|came|begins|ends|may|must|can)\b",
    "is asked": r"\b(?:is|are|was|were|be) asked\b",
    "kept": r"\bkept\b",
    "media": r"\bpictures?\b|\bsounds\b",
    "none": r"\bthere (?:is|are) none\b|\bthat (?:is|are) (?:not )?there\b",
}
"""Phrases that are right now and then. They are counted in all paths."""

LIMITS = {
    "who": 0,
    "body": 0,
    "own": 0,
    "is no": 0,
    "go on": 0,
    "stand": 1,
    "archaic": 0,
    "behind": 0,
    "told": 0,
    "word": 0,
    "verb": 0,
    "idiom": 0,
    "he": 0,
    "metaphor": 0,
    "relative": 0,
    "what is": 81,
    "is asked": 8,
    "kept": 34,
    "media": 7,
    "none": 16,
    "test name": 17,
    "test name length": 8,
}
"""The counts of today."""

QUOTE_NAME = re.compile(r"_(?:PHRASES|PATTERNS?|QUOTES)$")
QUOTE_METHODS = {
    "count",
    "endswith",
    "find",
    "index",
    "partition",
    "removeprefix",
    "removesuffix",
    "split",
    "startswith",
}
QUOTE_KEYWORDS = {"messages", "source"}


def quotation_nodes(node: ast.AST) -> list[ast.AST]:
    """Return the parts of a node whose strings are quotations."""
    if isinstance(node, ast.Compare | ast.MatchValue):
        return [node]
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [node.value] if any(QUOTE_NAME.search(ast.unparse(target)) for target in targets) else []
    if not isinstance(node, ast.Call):
        return []
    keywords: list[ast.AST] = [keyword.value for keyword in node.keywords if keyword.arg in QUOTE_KEYWORDS]
    if isinstance(node.func, ast.Attribute):
        is_pattern = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
        if is_pattern or node.func.attr in QUOTE_METHODS:
            return [*node.args, *keywords]
    return keywords


def python_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each comment, docstring and string of three words or more that is not a quotation."""
    nodes = list(ast.walk(ast.parse(text)))
    quotations = {id(part) for node in nodes for root in quotation_nodes(node) for part in ast.walk(root)}
    strings = (node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    for node in strings:
        if node.value.count(" ") > 1 and id(node) not in quotations:
            yield node.lineno, node.value
    if "#" in text:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def page_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside fenced blocks."""
    text = re.sub(r"`{3}.*?`{3}", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    yield from enumerate(text.splitlines(), 1)


def comment_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a makefile or a TOML file."""
    yield from (
        (line, match[0]) for line, part in enumerate(text.splitlines(), 1) if (match := re.search(r"(^|\s)# .*", part))
    )


PROSE = {".py": python_prose, ".md": page_prose, ".toml": comment_prose, "": comment_prose}
"""The functions that find the prose of a file, by its suffix."""


def is_converted(path: str) -> bool:
    return path.startswith(CONVERTED)


@functools.cache
def all_prose() -> list[tuple[str, int, str]]:
    """Return path, line and text of all prose, without code spans."""
    patterns = (
        "src/**/*.py",
        "bench/**/*.py",
        "examples/**/*.py",
        "docs/**/*.md",
        "bench/*.md",
        "*.md",
        "Makefile",
        "*.toml",
    )
    files = {path for pattern in patterns for path in ROOT.glob(pattern)}
    files |= {path for path in ROOT.glob("tests/**/*.py") if is_converted(path.relative_to(ROOT).as_posix())}
    return [
        (path.relative_to(ROOT).as_posix(), line, re.sub(r"`[^`]*`|\s+", " ", text))
        for path in sorted(files)
        for line, text in PROSE[path.suffix](path.read_text("utf-8"))
    ]


@functools.cache
def names_of_tests() -> list[tuple[str, int, str]]:
    """Return path, line and name of all tests, the names with spaces."""
    definition = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
    return [
        (path.relative_to(ROOT).as_posix(), text.count("\n", 0, match.start()) + 1, match[1].replace("_", " "))
        for path in sorted(ROOT.glob("tests/**/test_*.py"))
        if (text := path.read_text("utf-8"))
        for match in definition.finditer(text)
    ]


def find_phrases(pattern: str, texts: list[tuple[str, int, str]]) -> list[str]:
    """Return `path:line: phrase` for each match."""
    expression = re.compile(pattern, re.IGNORECASE)
    return [f"{path}:{line}: {match[0]}" for path, line, text in texts for match in expression.finditer(text)]


@functools.cache
def findings() -> dict[str, list[str]]:
    """Return the matches of each phrase, and the names of tests that are too long or have a banned phrase."""
    by_phrase = {
        name: find_phrases(pattern, all_prose()) for name, pattern in (BANNED_PATTERNS | DISCOURAGED_PATTERNS).items()
    }
    banned = [match for pattern in BANNED_PATTERNS.values() for match in find_phrases(pattern, names_of_tests())]
    return {**by_phrase, "test name": banned, "test name length": find_phrases("^.{61,}$", names_of_tests())}


def counts() -> dict[str, int]:
    """Count the banned phrases outside CONVERTED, and the discouraged ones in all paths."""
    return {
        name: sum(name in DISCOURAGED_PATTERNS or not is_converted(match) for match in matches)
        for name, matches in findings().items()
    }


@pytest.mark.parametrize("name", [name for name in LIMITS if name not in DISCOURAGED_PATTERNS])
def test_converted_paths_have_no_banned_phrase(name):
    assert [match for match in findings()[name] if is_converted(match)] == []


@pytest.mark.parametrize("name", LIMITS)
def test_wording_count_does_not_rise(name):
    assert counts()[name] <= LIMITS[name]


def test_each_phrase_has_a_limit():
    assert LIMITS.keys() == findings().keys()


@pytest.mark.parametrize(
    "code",
    [
        'if message == "some quoted text": pass',
        'if "some quoted text" in message: pass',
        'if message in ("some quoted text", "other"): pass',
        'match message:\n    case "some quoted text":\n        pass',
        'error = re.search(r"some quoted text", message)',
        'error = message.startswith("some quoted text")',
        'TOO_LONG_PHRASES = ("some quoted text",)',
        '_TOO_LONG_PATTERN: str = r"three words here|or here"',
        '@rule("R1", messages=["some quoted text"], source="some quoted text")\ndef check(): pass',
    ],
)
def test_quotation_is_not_checked(code):
    assert list(python_prose(code)) == []


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ('raise ValueError("some quoted text")', "some quoted text"),
        ('raise ValueError(f"some quoted text, {name}")', "some quoted text, "),
        ('MESSAGE = "some quoted text"', "some quoted text"),
        ('"""some quoted text."""', "some quoted text."),
        ("x = 1  # some quoted text", "# some quoted text"),
        ('x = "# no comment"  # some quoted text', "# some quoted text"),
    ],
)
def test_own_text_is_checked(code, text):
    assert text in [prose for _, prose in python_prose(code)]


def test_code_in_a_page_is_not_checked():
    page = "a `b` c\n```\nsome quoted text\n```\nd"

    assert [text for _, text in page_prose(page) if text] == ["a `b` c", "d"]


def test_comments_of_makefile_and_toml_are_checked():
    text = "# some text\nall: $(X)#y  # some other text\ncolor = '#fff'"

    assert [prose.strip() for _, prose in comment_prose(text)] == ["# some text", "# some other text"]


if __name__ == "__main__":
    if sys.argv[1:]:
        print(
            *(match for matches in findings().values() for match in matches if match.startswith(tuple(sys.argv[1:]))),
            sep="\n",
        )
    else:
        print("LIMITS = {", *(f'    "{name}": {count},' for name, count in counts().items()), "}", sep="\n")
