"""`tenuto embed`: files become vectors, unchanged ones are not embedded again, and similar texts are found."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import struct
import subprocess
import sys
import time
from contextlib import closing, suppress

import pytest

from tenuto.catalog import resolve
from tenuto.cli import embeddings
from tenuto.cli.complete import complete_embedding_model
from tenuto.sim.embeddings import embed

MODEL = ("-m", "sim/openai")


def rows(path):
    """Return the table by id, as any program can read it."""
    with closing(sqlite3.connect(path)) as db:
        db.row_factory = sqlite3.Row
        return {row["id"]: row for row in db.execute("SELECT * FROM embeddings")}


def stored_rows(path):
    """Return the rows of a file that another process may be creating."""
    with suppress(sqlite3.OperationalError):
        return rows(path) if path.exists() else {}


def embedded_texts(sim):
    return [text for record in sim.requests for text in record.body["input"]]


def vector(text, dimensions=768):
    return embed(text, dimensions, "openai")


@pytest.fixture
def docs(tmp_path):
    """Two texts."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "cat.md").write_text("The cat sat on the mat")
    (docs / "dog.txt").write_text("\ufeffD\u00f6gs bark", "utf-8")
    return docs


DOCS = ("docs/cat.md", "docs/dog.txt")


def test_files_are_embedded_into_a_private_table(here, docs, tmp_path, tenuto_sim):
    done = here("embed", *DOCS, *DOCS, *MODEL)
    file = tmp_path / "home" / "embeddings.db"
    table = rows(file)

    assert (0, "") == (done.code, done.out)
    assert f"2 embedded by sim/openai (768 dimensions): {file}" in done.err
    assert [*DOCS] == [*table]
    row = table["docs/dog.txt"]
    assert row["vector"] == struct.pack("<768f", *vector("D\u00f6gs bark"))
    assert row["digest"] == hashlib.sha256("D\u00f6gs bark".encode()).hexdigest()
    if os.name == "posix":
        assert 0o600 == file.stat().st_mode & 0o777


def test_failures_are_listed_and_the_rest_is_embedded(here, docs, tmp_path):
    """Also texts that the provider refuses: the simulator refuses every batch with the long one."""
    (docs / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "named.bin").write_bytes(b"\0\1")
    (tmp_path / "blank").touch()
    (tmp_path / "long.txt").write_text("word " * 9000)
    done = here("embed", *DOCS, "docs/latin.txt", "named.bin", "blank", "long.txt", "--json", *MODEL)
    document = json.loads(done.out)

    assert (1, 2, 1) == (done.code, document["embedded"], document["exit_code"])
    assert {"docs/latin.txt", "named.bin", "blank", "long.txt"} == {one["id"] for one in document["failed"]}
    assert "failed: docs/latin.txt is not UTF-8 text (byte 4)\n" in done.err
    assert "failed: named.bin is binary or empty\n" in done.err
    assert "failed: long.txt was refused: " in done.err
    assert {*DOCS} == {*rows(tmp_path / "home" / "embeddings.db")}


def test_text_prints_one_vector(here, tmp_path):
    """Without a key, the simulator embeds; a text from stdin can be stored."""
    typed = here("embed", "--text", "hello")
    piped = here("embed", "--text", "-", *MODEL, "--json", "--dimensions", "16", stdin="hello")

    assert (0, vector("hello")) == (typed.code, json.loads(typed.out))
    assert "no API key: the simulator embeds" in typed.err
    assert (16, vector("hello", 16), 2) == tuple(
        json.loads(piped.out)[name] for name in ("dimensions", "embedding", "tokens")
    )
    assert not (tmp_path / "home" / "embeddings.db").exists()
    here("embed", "-", "--into", "v.db", *MODEL, stdin="from a pipe")
    assert {"-": "from a pipe"} == {id: row["text"] for id, row in rows(tmp_path / "v.db").items()}


def test_changed_texts_are_embedded_and_ranked(here, docs, tmp_path, tenuto_sim):
    """docs/command/embed.md shows the table and the refusal of another model."""
    empty = here("embed", "--similar", "x")
    assert (2, True) == (empty.code, "no vectors yet" in empty.err)
    here("embed", *DOCS, *MODEL)
    tenuto_sim.clear()
    (docs / "cat.md").rename(docs / "moved.md")
    (docs / "dog.txt").write_text("Dogs sleep")
    moved = json.loads(here("embed", "docs/moved.md", "docs/dog.txt", "--json").out)
    assert ["Dogs sleep"] == embedded_texts(tenuto_sim)
    assert (1, 1, 0) == (moved["embedded"], moved["unchanged"], moved["exit_code"])
    assert {*DOCS, "docs/moved.md"} == {*rows(tmp_path / "home" / "embeddings.db")}
    ranked = json.loads(here("embed", "--similar", "-", "--json", stdin="dogs sleep").out)
    assert "docs/dog.txt" == ranked[0]["id"]
    assert ranked[0]["score"] > ranked[1]["score"]
    with closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE mine (x)")
    other = here("embed", "docs/dog.txt", "--into", "other.db", *MODEL)
    assert (7, True) == (other.code, "another kind of database" in other.err)


def test_default_models_can_embed_and_are_completed():
    models = embeddings.default_models()

    assert {"openai", "google"} <= set(models)
    assert [*models] == [resolve(model).provider.name for model in models.values()]
    assert [models["google"]] == [item.value for item in complete_embedding_model(None, None, "google/")]


def test_killed_run_continues(tenuto, tmp_path):
    for number in range(300):
        (tmp_path / f"{number}.txt").write_text(f"text {number}")
    names = [f"{number}.txt" for number in range(300)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tenuto", "embed", *names, "--into", "v.db", *MODEL], env=tenuto.env, cwd=tmp_path
    )
    while process.poll() is None and not stored_rows(tmp_path / "v.db"):
        time.sleep(0.001)
    process.kill()
    process.wait()
    done = tenuto.run("embed", *names, "--into", "v.db", "--json", *MODEL)
    assert (0, "") == (done.code, done.err if done.code else "")
    document = json.loads(done.out)

    assert 300 == document["embedded"] + document["unchanged"] == len(rows(tmp_path / "v.db"))
