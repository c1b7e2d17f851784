"""`tenuto embed`: files and lines become vectors, each asked for once, and what is alike is found."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import struct
import sys
import threading
from contextlib import closing, contextmanager

import pyte
import pytest
from aiohttp import web

from tenuto.cli.embedding.items import item_of
from tenuto.cli.embedding.keeping import Kept
from tenuto.cli.embedding.table import Table
from tenuto.sim.embedding import embed
from tenuto.sim.simulator import Simulator

MODEL = ("-m", "sim/openai")
KEYS = ("OPENAI", "GEMINI", "GOOGLE", "GOOGLE_GENERATIVE_AI", "MISTRAL", "CO", "COHERE", "PERPLEXITY", "PERPLEXITYAI")


def rows(path):
    """What a table has, by id: as anybody can read it."""
    with closing(sqlite3.connect(path)) as db:
        every = db.execute("SELECT * FROM embeddings").fetchall()
        names = [column[1] for column in db.execute("PRAGMA table_info(embeddings)")]
    return {row[names.index("id")]: dict(zip(names, row, strict=True)) for row in every}


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def asked(sim):
    """The texts that were asked for, in the order in which they came."""
    return [text for record in sim.requests for text in record.body["input"]]


def vector(text, dimensions=768):
    return embed(text, dimensions, "openai")


@pytest.fixture
def notes(tmp_path):
    """Forty lines of a file."""
    texts = [f"note {number} of the garden" for number in range(40)]
    (tmp_path / "notes.txt").write_text("".join(f"{text}\n" for text in texts))
    return texts


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Texts, and what else lies about in a folder."""
    docs = tmp_path / "docs"
    for hidden in (".git", "deep/er"):
        (docs / hidden).mkdir(parents=True)
    (docs / ".git" / "notes.txt").write_text("hidden")
    (docs / ".env").write_text("SECRET=1")
    (docs / "cat.md").write_text("The cat sat on the mat")
    (docs / "deep" / "er" / "dog.txt").write_text("\ufeffDögs bark", "utf-8")
    (docs / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (docs / "empty.txt").write_text(" \n")
    return docs


def test_every_text_of_a_folder_is_an_item(here, folder, tmp_path, tenuto_sim):
    """What is hidden is left alone, what is no text is counted; the table has everything, and only its owner reads it."""
    done = here("embed", "docs", *MODEL)
    place = tmp_path / "home" / "embeddings.db"
    found = rows(place)

    assert (0, "") == (done.code, done.out)
    assert f"2 embedded by sim/openai (768 dimensions, 9 tokens); 1 binary, 1 empty passed over: {place}" in done.err
    assert {"docs/cat.md": "The cat sat on the mat", "docs/deep/er/dog.txt": "Dögs bark"} == {
        id: row["text"] for id, row in found.items()
    }
    row = found["docs/deep/er/dog.txt"]
    assert row["vector"] == struct.pack("<768f", *vector("Dögs bark"))
    assert row["digest"] == hashlib.sha256("Dögs bark".encode()).hexdigest()
    if os.name == "posix":
        assert (0o600, 0o700) == (place.stat().st_mode & 0o777, place.parent.stat().st_mode & 0o777)


def test_what_is_there_is_not_asked_for_again(here, folder, tenuto_sim):
    """Neither if nothing has changed, nor if a file has another name; what has changed is."""
    here("embed", "docs", *MODEL)
    tenuto_sim.clear()
    again = here("embed", "docs")
    assert [] == asked(tenuto_sim)
    assert "2 there already" in again.err

    (folder / "cat.md").rename(folder / "moved.md")
    (folder / "deep" / "er" / "dog.txt").write_text("Dogs sleep")
    moved = here("embed", "docs", "--json", "--prune")

    assert ["Dogs sleep"] == asked(tenuto_sim)
    assert {"embedded": 1, "unchanged": 1, "removed": 1, "exit_code": 0}.items() <= json.loads(moved.out).items()
    assert "docs/moved.md" in here("embed", "--similar", "cat", "-n", "1").out


def test_what_cannot_be_embedded_is_named_and_the_rest_goes_on(here, folder, tmp_path):
    """One line for each, and code 1; nothing is removed on such a day."""
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "named.bin").write_bytes(b"\0\1")
    (tmp_path / "blank").touch()
    (folder / "gone.md").symlink_to("nowhere")
    done = here("embed", "docs", "named.bin", "blank", "--prune", "--json", *MODEL)
    told = json.loads(done.out)

    assert (1, 2, 1) == (done.code, told["embedded"], told["exit_code"])
    assert ["docs/gone.md", "docs/latin.txt", "named.bin", "blank"] == [one["id"] for one in told["failed"]]
    assert "failed: docs/latin.txt is no UTF-8 text (byte 4): convert it\n" in done.err
    assert "failed: docs/gone.md cannot be read: No such file" in done.err
    assert "failed: named.bin is no text, but binary data\n" in done.err
    assert "failed: blank is empty\n" in done.err
    assert "nothing was removed" in here("embed", "docs", "--prune").err


def test_the_file_that_is_written_is_not_read(here, folder):
    done = here("embed", "docs/deep", "--into", "docs/deep/vectors.jsonl", *MODEL)
    again = here("embed", "docs/deep", "--into", "docs/deep/vectors.jsonl")

    assert (0, 0) == (done.code, again.code)
    assert ["docs/deep/er/dog.txt"] == [line["id"] for line in lines_of(folder / "deep" / "vectors.jsonl")]


# --- lines ------------------------------------------------------------------------------------------------------------


def test_each_line_is_an_item(here, tenuto_sim):
    """Called by its number, whatever ends it; blank ones count, and are none. Stdin has no other name."""
    done = here("embed", "--lines", "-", "--into", "-", *MODEL, stdin=b"\xef\xbb\xbfone\r\n\n  \ntwo\x0b2\nthree")
    told = [json.loads(line) for line in done.out.splitlines()]

    assert ["-:1", "-:4", "-:5"] == [line["id"] for line in told]
    assert ["one", "two\x0b2", "three"] == asked(tenuto_sim) == [line["text"] for line in told]
    assert told[0] == {
        "id": "-:1",
        "model": "sim/openai",
        "digest": hashlib.sha256(b"one").hexdigest(),
        "embedding": vector("one"),
        "text": "one",
    }


def test_stdout_has_the_order_of_the_lines(here, tmp_path, notes):
    """Though several batches are under way at a time, and the first of them takes longest."""
    (tmp_path / "notes.txt").write_text("\n".join(["word " * 9000, *notes]))
    done = here("embed", "--lines", "notes.txt", "--into", "-", "--batch", "8", "-q", *MODEL)

    assert (1, 1) == (done.code, len(done.err.splitlines()))
    assert notes == [json.loads(line)["text"] for line in done.out.splitlines()]


def test_a_long_text_is_cut_into_pieces(here, tmp_path):
    (tmp_path / "long.md").write_text("First thing.\n\nSecond thing, too.\n")
    done = here("embed", "long.md", "--chunk", "16", "--into", "-", *MODEL)
    told = {line["id"]: line["text"] for line in map(json.loads, done.out.splitlines())}

    assert {"long.md#1": "First thing.\n\n", "long.md#2": "Second thing, ", "long.md#3": "too.\n"} == told


# --- one text ---------------------------------------------------------------------------------------------------------


def test_the_vector_of_a_text_is_printed(here, tmp_path):
    """From an option or from stdin; nothing is kept."""
    given = here("embed", "--text", "hello", *MODEL)
    piped = here("embed", "--text", "-", *MODEL, "--json", "--dimensions", "16", stdin="hello")

    assert (0, "") == (given.code, given.err)
    assert vector("hello") == json.loads(given.out)
    assert {"model": "sim/openai", "dimensions": 16, "embedding": vector("hello", 16), "tokens": 2, "losses": []} == (
        json.loads(piped.out)
    )
    assert not (tmp_path / "home").exists()


# --- whose vectors ----------------------------------------------------------------------------------------------------


def test_without_a_key_the_simulator_embeds_and_that_is_said(here, monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    done = here("embed", "--text", "hello", "--json")

    assert "sim/openai" == json.loads(done.out)["model"]
    assert "" == done.err
    assert "no key is set, so the simulator embeds" in (said := here("embed", "--text", "hello").err)
    assert "set OPENAI_API_KEY, GEMINI_API_KEY or MISTRAL_API_KEY" in said
    assert 1 == len(said.splitlines())


def test_with_a_key_its_provider_embeds(here, monkeypatch, tenuto_sim):
    """The first of those that have a model for it; the simulator stands in for him here."""
    for name in KEYS:
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    monkeypatch.setenv("MISTRAL_API_KEY", "none")
    monkeypatch.setenv("MISTRAL_BASE_URL", f"{tenuto_sim.base_url}/v1")
    done = here("embed", "--text", "hello", "--json")
    other = here("embed", "--text", "hello", "-m", "cohere/embed-v4.0")

    assert ("mistral/mistral-embed", "") == (json.loads(done.out)["model"], done.err)
    assert 3 == other.code
    assert (
        "error: there is no API key for cohere\n  set CO_API_KEY or COHERE_API_KEY, or keep one with tenuto keys set cohere; "
        "-m sim/openai needs none\n" in other.err
    )


def test_a_table_has_one_model_and_one_length(here, folder):
    """Who names none gets those of the table; who names others is told what to do."""
    here("embed", "docs", "--dimensions", "32", *MODEL)
    (folder / "new.md").write_text("A new one")
    added = here("embed", "docs")
    other = here("embed", "docs", "-m", "sim/gemini")
    longer = here("embed", "--similar", "cat", "--dimensions", "64")

    assert (0, 2, 2) == (added.code, other.code, longer.code)
    assert "1 embedded by sim/openai (32 dimensions" in added.err
    assert "was made with sim/openai, 32 dimensions, and cannot be mixed with sim/gemini: leave -m" in other.err


MISUSED = [
    ([], "nothing to embed"),
    (["nowhere.txt"], "there is no file 'nowhere.txt'"),
    (["docs", "--into", "vectors.csv"], "ends in .db (a SQLite table) or .jsonl"),
    (["docs", "--into", "docs.db"], "is a folder"),
    (["docs", "--similar", "x"], "--similar and files do not go together"),
    (["--similar", "x", "--lines"], "--lines and --similar do not go together"),
    (["docs", "-n", "3"], "-n and files do not go together"),
    (["docs", "--into", "-", "--json"], "both want stdout"),
    (["docs", "--into", "x.jsonl", "--prune"], "only a table (.db) can be pruned"),
    (["docs", "-m", "anthropic/claude-x"], "anthropic/claude-x cannot embed: there are no embeddings"),
    (["docs", "-m", "openai"], "no provider in 'openai': use provider/model, such as openai/text-embedding-3-small"),
    (["--text", "hello", "-m", "anthropic/claude-x"], "anthropic/claude-x cannot embed: there are no embeddings"),
    (["--text", " "], "--text is empty"),
    (["--similar", "", "--in", "one.db"], "--similar is empty"),
    (["--text", "hello", "--into", "x.db"], "--into and --text do not go together"),
    (["--similar", "x", "--into", "none.db"], "'none.db' is not there: embed something first"),
    (["--similar", "x", "--into", "-"], "nothing is kept on stdout"),
]


def test_what_cannot_be_meant_is_one_message_and_code_2(here, folder, tmp_path):
    (tmp_path / "docs.db").mkdir()
    here("embed", "docs", "--into", "one.db", *MODEL)
    for arguments, message in MISUSED:
        done = here("embed", *arguments)

        assert (2, "") == (done.code, done.out), arguments
        assert message in done.err
        assert 2 == len(done.err.splitlines())
    made = {path.name for path in tmp_path.iterdir()}
    assert {"docs", "docs.db", "one.db", "one.db.lock"} == made  # no file is made where nothing is put


def test_files_of_others_are_left_as_they_are(here, folder, tmp_path):
    """A store of sessions, another program's database, JSON lines of another kind."""
    with closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE mine (x)")
    (tmp_path / "other.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "torn.jsonl").write_text("no line of ours")
    before = {path: path.read_bytes() for path in tmp_path.glob("*.*") if path.is_file()}
    done = [here("embed", "docs", "--into", path.name, *MODEL) for path in before]

    assert [7, 7, 7] == [one.code for one in done]
    assert before == {path: path.read_bytes() for path in before}
    assert "is a database of another kind" in "".join(one.err for one in done)


# --- what a provider refuses ------------------------------------------------------------------------------------------


def test_one_text_that_is_too_long_is_found_among_the_others(here, tmp_path, notes):
    """It is named; the others are embedded."""
    (tmp_path / "notes.txt").write_text("\n".join([*notes[:20], "word " * 9000, *notes[20:]]))
    done = here("embed", "--lines", "notes.txt", *MODEL)
    found = rows(tmp_path / "home" / "embeddings.db")

    assert 1 == done.code
    assert "failed: notes.txt:21 was refused: This model's maximum context length is 8192 tokens" in done.err
    assert "cut it with --chunk" in done.err
    assert set(notes) == {row["text"] for row in found.values()}


def test_if_everything_is_refused_it_is_not_the_fault_of_the_texts(here, notes, tenuto_sim):
    """It is not tried text by text to the end."""
    done = here("embed", "--lines", "notes.txt", "--dimensions", "5000", *MODEL)

    assert 1 == done.code
    assert "error: sim: Invalid value for 'dimensions' = 5000" in done.err
    assert len(tenuto_sim.requests) < 20


def test_what_was_embedded_before_an_error_is_kept(here, tmp_path, notes, tenuto_sim):
    """And is not asked for by the same command, once the provider answers again."""
    call = ["embed", "--lines", "notes.txt", "--batch", "4", *MODEL]

    def refuse(record):
        if len(tenuto_sim.requests) > 5:
            raise web.HTTPTooManyRequests(text='{"error": {"message": "too much"}}', headers={"retry-after": "100"})

    tenuto_sim.heard = refuse
    broken = here(*call)
    kept = {row["text"] for row in rows(tmp_path / "home" / "embeddings.db").values()}
    tenuto_sim.heard = None
    tenuto_sim.clear()
    done = here(*call)

    assert 4 == broken.code
    assert "20 embedded by sim/openai" in broken.err
    assert (
        "error: sim: too much (RateLimited)\n  wait a while, then the same command goes on with the rest\n"
        in broken.err
    )
    assert 20 == len(kept)
    assert 0 == done.code
    assert set(notes) - kept == set(asked(tenuto_sim))


# --- what is alike ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["v.db", "v.jsonl"])
def test_the_most_similar_come_first(here, folder, place):
    """By a text or by stdin."""
    (folder / "kitten.md").write_text("A kitten and a cat \x1b[31m on mats")
    here("embed", "docs", "--into", place, *MODEL)
    said = here("embed", "--similar", "a cat on a mat", "--in", place)
    piped = here("embed", "--similar", "-", "--in", place, "-n", "1", "--json", stdin="bark, dogs!")

    assert [["SCORE", "ID", "TEXT"], "docs/cat.md", "docs/kitten.md", "docs/deep/er/dog.txt"] == [
        line.split() if line.startswith("SCORE") else line.split()[1] for line in said.out.splitlines()
    ]
    assert "A kitten and a cat \\x1b[31m on mats" in said.out
    [best] = json.loads(piped.out)
    assert ("docs/deep/er/dog.txt", "Dögs bark") == (best["id"], best["text"])


def test_the_last_line_of_an_id_counts(here, tmp_path):
    """A file of lines only grows."""
    for text in ("about cats", "about dogs"):
        (tmp_path / "a.md").write_text(text)
        here("embed", "a.md", "--into", "v.jsonl", *MODEL)
    found = json.loads(here("embed", "--similar", "about cats", "--into", "v.jsonl", "--json").out)

    assert 2 == len(lines_of(tmp_path / "v.jsonl"))
    assert ["about dogs"] == [one["text"] for one in found]


def test_what_has_no_direction_is_like_nothing(here, tmp_path):
    """It is counted."""
    with closing(Table(tmp_path / "v.db")) as table:
        vectors = {"a": vector("hello"), "none": (0.0,) * 768}
        table.put([(item_of(id, id), numbers) for id, numbers in vectors.items()], Kept("sim/openai", 768))
    done = here("embed", "--similar", "hello", "--in", "v.db")

    assert (0, "SCORE  ID  TEXT\n1.000  a   a\n") == (done.code, done.out)
    assert "1 left out: all their numbers are 0" in done.err


def test_lines_do_not_say_how_many_dimensions_were_asked_for(here, folder):
    """So who goes on with them is told to."""
    here("embed", "docs", "--into", "v.jsonl", "--dimensions", "16", *MODEL)
    (folder / "new.md").write_text("A new one")
    longer = here("embed", "docs", "--into", "v.jsonl")
    looked = here("embed", "--similar", "x", "--in", "v.jsonl")
    right = here("embed", "docs", "--into", "v.jsonl", "--dimensions", "16")
    found = here("embed", "--similar", "a new one", "--in", "v.jsonl", "--dimensions", "16", "-n", "1")

    assert [1, 1, 0, 0] == [done.code for done in (longer, looked, right, found)]
    assert "gave vectors of 768 numbers, where v.jsonl has 16: give --dimensions 16" in longer.err
    assert "gave a vector of 768 numbers, where 16 are kept: give --dimensions 16" in looked.err
    assert "docs/new.md" in found.out


# --- as a process -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is killed like this there")
@pytest.mark.parametrize("place", ["v.db", "v.jsonl"])
def test_killed_in_the_middle_it_asks_for_nothing_twice(tenuto, here, tenuto_sim, monkeypatch, notes, place):
    """What comes of it is what an unbroken run makes."""
    call = ["embed", "--lines", "notes.txt", "--batch", "2", *MODEL]
    with held(tenuto_sim) as reached:
        running = tenuto.start(*call, "--into", place)
        assert reached.wait(30)
        running.kill()
        running.communicate()
    kept = contents(tenuto.folder / place)
    with Simulator() as other:  # the first one still reads what the dead have asked
        monkeypatch.setenv("TENUTO_SIM_URL", other.base_url)
        done = here(*call, "--into", place)
        again = asked(other)
        here(*call, "--into", f"unbroken.{place}")

    assert 10 <= len(kept) < 40
    assert 0 == done.code
    assert sorted(set(notes) - {text for text, _ in kept.values()}) == sorted(again)
    assert f"{len(kept)} there already" in done.err
    assert contents(tenuto.folder / f"unbroken.{place}") == contents(tenuto.folder / place)


@contextmanager
def held(sim):
    """Have the ninth request wait: at least five have been answered then, and kept, to make room for it."""
    reached, go = threading.Event(), threading.Event()

    def hold(record):
        if len(sim.requests) == 9:
            reached.set()
            go.wait(30)

    sim.heard = hold
    yield reached
    sim.heard = None
    go.set()


def contents(path):
    if path.suffix == ".db":
        return {id: (row["text"], row["vector"]) for id, row in rows(path).items()}
    whole = path.read_text("utf-8").rpartition("\n")[0]
    told = map(json.loads, whole.splitlines())
    return {one["id"]: (one["text"], struct.pack("<768f", *one["embedding"])) for one in told}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_on_a_terminal_it_shows_how_far_it_is_and_can_be_stopped(tenuto, tenuto_sim, notes):
    """Also while it waits for a pipe that has no end; what is done is kept, and the line of progress is gone."""
    read, write = os.pipe()
    call = ["embed", "notes.txt", "-", "--lines", "--batch", "20", "--into", "v.db", *MODEL]
    with held(tenuto_sim) as reached:
        terminal = tenuto.terminal(*call, stdin=read)
        terminal.expect(r"embedding  0")
        os.write(write, b"piped\n" * 300)  # more than is looked up at a time
        assert reached.wait(30)
        terminal.type("\x03")
        code, _ = terminal.end()
    os.close(read)
    os.close(write)
    screen = pyte.Screen(120, 24)
    pyte.Stream(screen).feed(terminal.seen)
    found = [row["text"] for row in rows(tenuto.folder / "v.db").values()]

    assert 130 == code
    assert [
        f"stopped; {len(found)} embedded by sim/openai (768 dimensions, N tokens): v.db",
        "the same command goes on with the rest",
    ] == [re.sub(r"\d+ tokens", "N tokens", line).rstrip() for line in screen.display if line.strip()]
    assert set(notes) < set(found)


def test_through_a_pipe_stdout_has_lines_and_nothing_else(tenuto, tenuto_sim, notes):
    """Everything else is on stderr, and no progress is drawn."""
    read, write = os.pipe()
    os.write(write, b"one\ntwo\n")
    os.close(write)
    done = tenuto.run("embed", "--lines", "-", "--into", "-", *MODEL, stdin=read)
    os.close(read)

    assert ["one", "two"] == [json.loads(line)["text"] for line in done.out.splitlines()]
    assert (0, "2 embedded by sim/openai (768 dimensions, 2 tokens): stdout\n") == (done.code, done.err)
