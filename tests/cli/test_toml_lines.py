"""One value in a TOML file is changed, and nothing else: whatever the file is like."""

from __future__ import annotations

import copy
import itertools
import re
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.cli.toml_lines import Unchangeable, _same, changed, key_path, removed, written

NAMES = st.sampled_from(
    ["a", "b", "model", "x-y_1", "1.5", "a b", "#", "=", "[x]", "{", "é", '"', "'", "\\", "\n", "\x7f"]
)
TEXTS = st.sampled_from(
    [
        *("", "a", "# no", '"', "'", '""', "'''", '"""', "\\", "\\n", "a\nb", "\r\n", "[", "]", "= {", "}", "\t"),
        *("\x01", "\x7f", "é🙂", "\u2028"),
    ]
)
LEAVES = TEXTS | st.sampled_from([True, False, 0, 1, -1, 10**20, 1.0, -0.5, 1e300])
LISTS = st.lists(LEAVES | st.lists(LEAVES, max_size=2), max_size=3)
VALUES = LEAVES | LISTS | st.dictionaries(NAMES, LEAVES | LISTS, max_size=2)
TABLES = st.dictionaries(NAMES, VALUES, max_size=3)
DOCUMENTS = st.dictionaries(NAMES, VALUES | st.dictionaries(NAMES, VALUES | TABLES, max_size=3), max_size=4)


class Writer:
    """Writes a document in one of the many ways in which somebody may have written it, with comments all over."""

    def __init__(self, draw):
        self._draw = draw
        self._count = itertools.count()

    def whole(self, document):
        text = self._comment() + self._table(document, ())
        return (
            text.replace("\n", "\r\n") if self._one_of(False, False, True) else text.rstrip("\n" * self._one_of(0, 1))
        )

    def _one_of(self, *ways):
        return self._draw(st.sampled_from(ways))

    def _comment(self):
        return self._one_of("", "\n", f"# [c{next(self._count)}] = \"'\n")

    def _trailing(self):
        return self._one_of("", "", f" # c{next(self._count)}", "  ")

    def _table(self, table, path):
        """The plain values first, and then what has a head of its own."""
        lines, below = [], []
        for name, value in table.items():
            way = self._one_of("head", "dotted", "inline") if isinstance(value, dict) and value else "inline"
            if way == "head":
                below.append(self._head((*path, name), value))
            elif way == "dotted":
                lines += [self._line(f"{self._key(name)} . {self._key(inner)}", held) for inner, held in value.items()]
            else:
                lines.append(self._line(self._key(name), value))
        return "".join((*lines, *below))

    def _head(self, path, table):
        return f"{self._comment()}[{' . '.join(map(self._key, path))}]{self._trailing()}\n{self._table(table, path)}"

    def _line(self, key, value):
        return f"{self._comment()}{self._one_of('', '  ')}{key} = {self._value(value)}{self._trailing()}\n"

    def _key(self, name):
        ways = [written(name)]
        if "'" not in name and not re.search("[\x00-\x08\x0a-\x1f\x7f]", name):
            ways.append(f"'{name}'")
        if re.fullmatch("[A-Za-z0-9_-]+", name):
            ways.append(name)
        return self._one_of(*ways)

    def _value(self, value):
        if isinstance(value, list) and value:
            end = self._one_of(" ", "\n  ")
            return f"[{end}{f',{end}'.join(map(self._value, value))}{self._one_of('', ',')}{end}]"
        ways = [written(value)]
        if isinstance(value, str) and "'" not in value and not re.search("[\x00-\x08\x0a-\x1f\x7f]", value):
            ways += [f"'{value}'", f"'''{value}'''", f"'''\n{value}'''"]
        if isinstance(value, str):
            ways.append(f'"""{self._one_of("", chr(10))}{written(value)[1:-1]}"""')
        return self._one_of(*ways)


@st.composite
def files(draw):
    document = draw(DOCUMENTS)
    return Writer(draw).whole(document), document


def paths_of(document, path=()):
    for name, value in document.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from paths_of(value, (*path, name))


def put(document, path, value):
    document = copy.deepcopy(document)
    table = document
    for step in path[:-1]:
        table = table.setdefault(step, {})
    table[path[-1]] = value
    return document


def comments(text):
    return re.findall(r"# \[?c\d+.*", text.replace("\r", ""))


def leads_through_tables(document, path):
    for step in path[:-1]:
        document = document.get(step, {})
        if not isinstance(document, dict):
            return False
    return True


def taken_out(text, made):
    """What is in the first of two texts that begin and end alike, between that."""
    start = alike(text, made)
    return text[start : len(text) - alike(text[start:][::-1], made[start:][::-1])]


def alike(one, other):
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return len(list(pairs))


@settings(max_examples=20)
@given(files(), st.data())
def test_set_then_load_gives_the_value_and_all_else_stays(file, data):
    """Every other value, every comment, the order. A key that was not there is put in, and nothing is taken out."""
    text, document = file
    known = list(paths_of(document))
    news = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
    path, value = data.draw(st.sampled_from(known) | news if known else news), data.draw(VALUES)
    if not leads_through_tables(document, path):
        with pytest.raises(Unchangeable):
            changed(text, path, value)
        return
    try:
        made = changed(text, path, value)
    except Unchangeable:  # a table that has lines of its own is not written over
        assert path in known
        assert isinstance(at(document, path), dict)
        return

    assert tomllib.loads(made) == put(document, path, value)
    assert comments(made) == comments(text)
    if path not in known and not any(path[: len(one)] == one for one in known):
        assert "" == taken_out(text, made)


@settings(max_examples=15)
@given(files(), st.data())
def test_what_is_removed_is_gone_and_all_else_stays(file, data):
    """A value, or a table with all that is in it; of the comments only those on its lines."""
    text, document = file
    known = list(paths_of(document))
    if not known:
        with pytest.raises(KeyError):
            removed(text, ("a", "b"))
        return
    path = data.draw(st.sampled_from(known))
    made = removed(text, path)
    expected = copy.deepcopy(document)
    del at(expected, path[:-1])[path[-1]]

    assert without_empty(tomllib.loads(made)) == without_empty(expected)
    left = iter(comments(text))
    assert all(comment in left for comment in comments(made))


def at(document, path):
    for step in path:
        document = document[step]
    return document


def without_empty(value):
    if not isinstance(value, dict):
        return value
    held = {name: without_empty(one) for name, one in value.items()}
    return {name: one for name, one in held.items() if one != {}}


FILE = """\
# what I use
model = "a"  # for now

tools = [
    "shell",  # with care
]

# at work
[profiles.work]
  effort = "high"
"""


@pytest.mark.parametrize(
    "path, value, line, where",
    [
        (("model",), "b", 'model = "b"  # for now', 1),
        (("color",), "never", 'color = "never"', 6),
        (("profiles", "work", "usage"), True, "  usage = true", 10),
        (("profiles", "a b", "max_usd"), 0.5, '[profiles."a b"]', 11),
    ],
)
def test_a_line_stands_where_one_would_put_it(path, value, line, where):
    """In its own table, as far in as the others there; a table that is new stands last."""
    assert changed(FILE, path, value).split("\n")[where] == line


def test_what_would_lose_a_comment_is_not_done():
    with pytest.raises(Unchangeable):
        changed(FILE, ("tools",), ["read_file"])


def test_the_first_value_stands_before_the_first_table_and_what_is_said_of_it():
    assert changed("# mine\n\n# at work\n[profiles.work]\n", ("model",), "a") == (
        '# mine\n\nmodel = "a"\n\n# at work\n[profiles.work]\n'
    )


@pytest.mark.parametrize("key", ["", "a = 1\nb", "a b", "a.", "a = {x", "[a]"])
def test_what_is_no_key_is_none(key):
    with pytest.raises(ValueError, match=f"^{re.escape(key)}$"):
        key_path(key)


def test_one_is_neither_true_nor_one_point_nought():
    """Python takes them for equal, and a check that did would let one stand for the other."""
    assert not any(_same({"a": [1]}, {"a": [other]}) for other in (True, 1.0, "1"))
    assert [changed("a = 1\n", ("a",), value) for value in (True, 1.0)] == ["a = true\n", "a = 1.0\n"]


@pytest.mark.parametrize("text", ['"""x""""', '"""x"""""', '"""\n"# x" \\""""', "'''x''''", '"\\"# x"', "'\\'"])
def test_where_a_text_ends_is_known(text):
    """Quotes at its end, signs of a comment and backslashes in it; and quotes in a comment mean nothing."""
    made = changed(f"a = {text} # \"c' \"'\nb = 1\n", ("a",), 0)

    assert "a = 0 # \"c' \"'\nb = 1\n" == made


def test_what_has_no_place_in_one_line_is_not_written():
    with pytest.raises(Unchangeable):
        changed("a = { b = 1979-05-27 }\n", ("a", "c"), 1)
