"""Glob patterns: their meaning, compared with a direct definition, and their cost for any pattern."""

from __future__ import annotations

import asyncio
import functools
import random
import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.tools import Toolbox, builtin_tools
from tenuto.tools.builtin.globs import Glob, path_matcher
from tools.calls import call

PATTERNS = st.lists(
    st.sampled_from(["*", "**", "**/", "?", "[ab]", "[!a]", "[a-c]", "a", "b", "/", "."]), max_size=8
).map("".join)
PATHS = st.text("ab/.", max_size=12)
HOSTILE = ["*?*?*?*?*?*?*?*!", "*a*a*a*a*a*a*b", "**/**a**a**a**a**b", "a**" * 90 + "b", "[!b]*" * 50 + "b", "?*" * 140]


@functools.cache
def means(pattern: str, text: str) -> bool:
    """Match a pattern by trying every split of the text."""
    if not pattern:
        return not text
    if pattern.startswith("**/"):
        rest = pattern[3:]
        return means(rest, text) or any(means(rest, text[at + 1 :]) for at, one in enumerate(text) if one == "/")
    if pattern.startswith("**"):
        return any(means(pattern[2:], text[at:]) for at in range(len(text) + 1))
    if pattern[0] == "*":
        limit = text.find("/") if "/" in text else len(text)
        return any(means(pattern[1:], text[at:]) for at in range(limit + 1))
    sets = {"[ab]": "ab", "[!a]": "b.", "[a-c]": "ab"}
    token = next((one for one in sets if pattern.startswith(one)), pattern[0])
    accepted = sets.get(token, "ab." if token == "?" else token)
    return text[:1] != "" and text[0] in accepted and means(pattern[len(token) :], text[1:])


@given(PATTERNS, PATHS)
def test_glob_matches_what_its_definition_matches(pattern, path):
    assert Glob(pattern).matches(path) is means(pattern, path)


@given(PATTERNS, PATHS)
def test_glob_across_slashes_matches_like_fnmatch(pattern, path):
    assert Glob(pattern, crosses_slash=True).matches(path) is fnmatchcase(path, pattern)


@given(PATTERNS, PATHS)
def test_glob_finds_parent_directories(pattern, path):
    parents = [path[:at] for at, one in enumerate(path) if one == "/"]
    glob = Glob(pattern)

    assert glob.matches(path, or_parent=True) is any(map(glob.matches, [*parents, path]))


@pytest.mark.parametrize(
    "pattern, path, fits",
    [
        ("*.py", "a/b/c.py", True),
        ("./*.py", "a/b/c.py", True),
        ("a/*.py", "a/b.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/*.py", "a/c.py", True),
        ("**/c.py", "c.py", True),
        ("a**c", "x/a/b/c", True),
        ("[ab].c", "b.c", True),
        ("[!ab].c", "b.c", False),
        ("[^ab].c", "b.c", False),
        ("x/[!a]y", "x//y", False),
        ("[]a]", "]", True),
        ("[a-]", "-", True),
        ("a.c", "abc", False),
        ("?.c", "/.c", False),
        ("[", "[", True),
        ("[]", "[]", True),
        ("*", "a/b", True),
    ],
)
def test_path_matcher_matches_names_and_paths(pattern, path, fits):
    assert path_matcher(pattern)(path) is fits


class Counter(Glob):
    """Counts the matched symbols."""

    steps = 0

    def _advance(self, symbol, ends, text):
        self.steps += 1
        after = super()._advance(symbol, ends, text)
        assert all(0 <= end <= len(text) for end in after)
        return after


@given(PATTERNS | st.sampled_from(HOSTILE), st.text("ab!/", max_size=50), st.integers(1, 40))
def test_glob_passes_the_text_once_for_each_symbol(pattern, piece, times):
    glob = Counter(pattern)
    glob.matches(piece * times)

    assert glob.steps <= len(pattern)


async def longest_pause(work) -> float:
    """Return the longest time for which the event loop could not run, in CPU seconds of this process.

    A step that holds the loop or the interpreter lock consumes CPU time. Waiting for a CPU that other processes use does
    not, so a loaded machine does not change the result.
    """
    task = asyncio.ensure_future(work)
    longest, last = 0.0, time.process_time()
    while not task.done():
        await asyncio.sleep(0)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    assert not task.result().is_error
    return longest


def best_pause(box, made) -> float:
    """Return the best of three runs: garbage collection causes pauses too."""
    pauses = []
    while len(pauses) < 3 and min(pauses, default=1.0) >= 0.05:
        pauses.append(asyncio.run(longest_pause(box.dispatch(made))))
    return min(pauses)


@pytest.fixture
def hostile_names(tmp_path):
    for one in ("a" * 250, "ab" * 120, "a" * 60):
        (tmp_path / one).mkdir()
        (tmp_path / one / ("a" * 200)).write_text("a\n")
    return Toolbox(builtin_tools(tmp_path).values())


def fuzzed(count: int) -> list[str]:
    draw = random.Random(21)
    tokens = ["*", "**", "**/", "?", "[ab]", "[!b]", "a", "aa", "b", "/", "!"]
    return ["".join(draw.choices(tokens, k=draw.randint(5, 70))) for _ in range(count)]


@pytest.mark.parametrize("name", ["list_files", "search_files"])
def test_event_loop_runs_while_pattern_is_matched(hostile_names, name):
    text = {"text": "a"} if name == "search_files" else {}
    for pattern in (*HOSTILE, *fuzzed(40)):
        assert best_pause(hostile_names, call(name, pattern=pattern, **text)) < 0.05, pattern


@pytest.mark.parametrize("regex", [False, True])
@pytest.mark.parametrize("content", [b"\n" * 8_000_000, b"a" * 3_900_000])
def test_event_loop_runs_while_large_file_is_searched(tmp_path, content, regex):
    (tmp_path / "large").write_bytes(content)
    box = Toolbox(builtin_tools(tmp_path).values())
    regex_call = call("search_files", text="a" * 50 + "b" + "a" * 48, regex=regex)

    assert best_pause(box, regex_call) < 0.05
