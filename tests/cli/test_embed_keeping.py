"""Where vectors are kept: what goes in comes out, whatever a crash left; and the ranking is the plain one."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import struct
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.cli.embedding.items import How, Item, found_in, item_of, pieces, sources
from tenuto.cli.embedding.keeping import Kept, packed
from tenuto.cli.embedding.lines import LinesFile, LinesShelf
from tenuto.cli.embedding.pages import ROOM, Aside, Batch, pages
from tenuto.cli.embedding.similar import cosines, ranked
from tenuto.cli.embedding.table import Table
from tenuto.errors import StoreCorrupt, StoreError

KEPT = Kept("sim/openai", 4)
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
VECTORS = st.tuples(*[NUMBERS] * 4)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
ANSWERED = st.dictionaries(NAMES, st.tuples(NAMES, VECTORS), min_size=1, max_size=6).map(
    lambda every: [(item_of(id, text), vector) for id, (text, vector) in every.items()]
)


def writer(kind, folder):
    path = Path(folder) / f"v.{kind}"
    return Table(path) if kind == "db" else LinesFile(path)


def reader(kind, folder):
    path = Path(folder) / f"v.{kind}"
    return Table(path, write=False) if kind == "db" else LinesShelf(path)


def held(kind, folder):
    """Everything that is kept."""
    with closing(reader(kind, folder)) as shelf:
        found = dict(pair for page in shelf.vectors() for pair in page)
        return found, shelf.texts(list(found)), shelf.kept()


@pytest.mark.parametrize("kind", ["db", "jsonl"])
@given(every=ANSWERED)
@settings(max_examples=8)
def test_what_goes_in_comes_out(kind, every):
    """Every number as far as four bytes hold it, every sign of a text; and none of it is asked for again."""
    with tempfile.TemporaryDirectory() as folder:
        with closing(writer(kind, folder)) as keeper:
            assert [item for item, _ in every] == keeper.left([item for item, _ in every])
            for pair in every:
                keeper.put([pair], KEPT)
            assert [] == keeper.left([item for item, _ in every])
        with closing(writer(kind, folder)) as keeper:
            assert ([], KEPT) == (keeper.left([item for item, _ in every]), keeper.kept())

        assert held(kind, folder) == (
            {item.id: packed(vector) for item, vector in every},
            {item.id: item.text for item, _ in every},
            KEPT,
        )


@given(every=ANSWERED, share=st.floats(0, 1))
@settings(max_examples=15)
def test_lines_that_were_torn_off_are_written_again(every, share):
    """Wherever a crash cut the file: what is whole counts, and the end is as if nothing had happened."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "v.jsonl"
        with closing(LinesFile(path)) as keeper:
            keeper.put(every, KEPT)
        whole = path.read_bytes()
        torn = whole[: int(share * len(whole))]
        path.write_bytes(torn)
        count = torn.count(b"\n")
        if count:
            assert list(held("jsonl", folder)[0]) == [item.id for item, _ in every[:count]]
        assert path.read_bytes() == torn  # who reads changes nothing
        with closing(LinesFile(path)) as keeper:
            left = keeper.left([item for item, _ in every])
            assert left == [item for item, _ in every[count:]]
            keeper.put(every[count:], KEPT)

        assert path.read_bytes() == whole


def test_a_line_that_is_none_of_ours_is_told_by_its_number(tmp_path):
    """And what a loss of power left, zeros, is cut away."""
    path = tmp_path / "v.jsonl"
    with closing(LinesFile(path)) as keeper:
        keeper.put([(item_of("a", "one"), (1.0, 0.0, 0.0, 0.0))], KEPT)
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 100)
    LinesFile(path).close()
    assert path.read_bytes() == whole

    for broken in (b"{}\n", whole.replace(b"sim/openai", b"sim/gemini"), b"some text", b"\0\0x"):
        path.write_bytes(whole + broken)
        with pytest.raises(StoreCorrupt, match=r"line 2 of|does not end as"):
            LinesFile(path)
        assert path.read_bytes() == whole + broken


def test_lines_have_one_who_writes(tmp_path):
    """Who began when there was no file yet does not mix his lines with those of another."""
    pytest.importorskip("fcntl")
    line = [(item_of("a", "one"), (1.0, 0.0, 0.0, 0.0))]
    with closing(LinesFile(tmp_path / "v.jsonl")) as late:
        with closing(LinesFile(tmp_path / "v.jsonl")) as first:
            first.put(line, KEPT)
            with pytest.raises(StoreError, match="written by another process"):
                late.put(line, KEPT)
            with pytest.raises(StoreError, match="written by another process"):
                LinesFile(tmp_path / "v.jsonl")
        with pytest.raises(StoreError, match="begun by somebody else meanwhile"):
            late.put(line, KEPT)
    with closing(LinesFile(tmp_path / "v.jsonl")) as after:
        assert ([], KEPT) == (after.left([line[0][0]]), after.kept())


def test_a_text_that_moved_keeps_its_vector(tmp_path):
    """A line put in at the top moves all others: only the new one is asked for."""
    texts = [f"line {number}" for number in range(5)]
    with closing(Table(tmp_path / "v.db")) as table:
        table.put([(item_of(f"f:{at}", text), (float(at), 0.0, 0.0, 1.0)) for at, text in enumerate(texts)], KEPT)
        moved = [item_of(f"f:{at}", text) for at, text in enumerate(["new", *texts])]
        assert moved[:1] == table.left(moved)
        table.put([(moved[0], (9.0, 0.0, 0.0, 1.0))], KEPT)

        found = {id: struct.unpack("<4f", vector)[0] for page in table.vectors() for id, vector in page}
    assert {"f:0": 9, "f:1": 0, "f:2": 1, "f:3": 2, "f:4": 3, "f:5": 4} == found


def test_two_who_begin_one_table_do_not_mix_their_models(tmp_path):
    """Nothing of the second is kept."""
    one, two = Table(tmp_path / "v.db"), Table(tmp_path / "v.db")
    with closing(one), closing(two):
        one.put([(item_of("a", "one"), (1.0, 0.0, 0.0, 0.0))], KEPT)
        with pytest.raises(StoreError, match="was begun with sim/openai"):
            two.put([(item_of("b", "two"), (1.0,))], Kept("sim/gemini", 1))
        two.put([(item_of("b", "two"), (0.0, 1.0, 0.0, 0.0))], KEPT)
    assert {"a", "b"} == set(held("db", tmp_path)[0])


def test_a_file_of_a_version_to_come_is_not_touched(tmp_path):
    Table(tmp_path / "v.db").close()
    with closing(sqlite3.connect(tmp_path / "v.db")) as db:
        db.execute("PRAGMA user_version=2")
    with pytest.raises(StoreError, match="made by a newer version"):
        Table(tmp_path / "v.db")


# --- ranking ----------------------------------------------------------------------------------------------------------


def plain(one, other):
    """The cosine, by the book."""
    lengths = math.sqrt(math.fsum(x * x for x in one)) * math.sqrt(math.fsum(x * x for x in other))
    return math.fsum(x * y for x, y in zip(one, other, strict=True)) / lengths if lengths else None


@given(wanted=VECTORS, every=st.lists(VECTORS, max_size=20), most=st.integers(1, 8))
def test_the_ranking_is_the_plain_one(wanted, every, most):
    """Whatever the numbers, and however unlike in length; what has no direction is counted."""
    scores = [plain(wanted, vector) for vector in every]
    told = cosines(packed(wanted))([packed(vector) for vector in every])
    names = [(f"{at:02}", packed(vector)) for at, vector in enumerate(every)]
    found = ranked(packed(wanted), [names[:7], names[7:]], most)
    best = sorted(((-score, id) for score, (id, _) in zip(told, names, strict=True) if score is not None))[:most]

    assert told == [None if score is None else pytest.approx(score, abs=1e-6) for score in scores]
    assert found == ([(-score, id) for score, id in best], told.count(None))


# --- items ------------------------------------------------------------------------------------------------------------


@given(text=st.text(st.sampled_from("ab. \n"), max_size=200), most=st.integers(2, 20))
def test_pieces_are_the_text(text, most):
    """None is too long, and none but the last is shorter than half of what it may be."""
    cut = list(pieces(text, most))

    assert text == "".join(cut)
    assert all(len(piece) <= most for piece in cut)
    assert all(len(piece) > most // 2 for piece in cut[:-1])


def test_a_text_is_cut_at_the_best_seam():
    text = "one two three.\n\nfour five six. seven eight nine\nten"

    assert ["one two three.\n\n", "four five six. ", "seven eight nine\nten"] == list(pieces(text, 24))


@given(sizes=st.lists(st.sampled_from([1, 1000, ROOM // 2, ROOM + 1]), max_size=12), most=st.integers(1, 5))
def test_batches_have_every_item_in_its_order(sizes, most):
    """None has too many, and none is too long unless it is one text alone."""
    items = [Item(str(at), "x" * size, "") for at, size in enumerate(sizes)]
    batch = Batch(most)
    made = [full for item in items if (full := batch.add(item))]
    made += [rest] if (rest := batch.rest()) else []

    assert items == [item for full in made for item in full]
    assert all(len(full) <= most for full in made)
    assert all(len(full) == 1 or sum(len(item.text) for item in full) <= ROOM for full in made)
    assert items == [item for page in pages(items) for item in page]


def test_what_goes_wrong_while_reading_is_raised_to_who_waits():
    def broken():
        yield 1
        raise KeyError("bug")

    async def run():
        reading = Aside(broken())
        assert 1 == await reading.next()
        with pytest.raises(KeyError):
            await reading.next()
        assert None is await reading.next()
        reading.close()

    asyncio.run(run())


def test_a_line_without_end_is_not_read_whole(tmp_path, monkeypatch):
    """The next one is."""
    monkeypatch.setattr("tenuto.cli.embedding.items.LARGEST", 100)
    monkeypatch.chdir(tmp_path)
    Path("f").write_text("x" * 500 + "\nnext\n" + "y" * 101)
    lines = list(found_in(sources(["f"]), How(lines=True)))
    [whole] = found_in(sources(["f"]), How())

    assert ["f:1", "f:2", "f:3"] == [one.id for one in lines]
    assert ("next", "is longer than 0 MB") == (lines[1].text, lines[2].why)
    assert "is longer than 0 MB: embed its --lines" == whole.why


def test_a_file_may_be_called_like_stdin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("-").write_text("a file")
    [found] = found_in(sources(["./-"]), How())

    assert ("./-", "a file") == (found.id, found.text)
