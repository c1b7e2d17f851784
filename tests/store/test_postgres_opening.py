"""Opening a store in Postgres: errors, and databases that stay unchanged."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import psycopg
import pytest

from real_postgres import GUARDED
from tenuto.errors import StoreError
from tenuto.store import schema
from tenuto.store.postgres import PostgresEngine


def refusal_of(url):
    with pytest.raises(StoreError) as caught:
        PostgresEngine(url).open(write=True)
    assert "s3cret" not in f"{caught.value} {caught.value.__cause__}"
    return str(caught.value)


def test_missing_server_is_an_error(tmp_path):
    assert "cannot open postgresql://me@127.0.0.1:1/db?schema=tenuto" in refusal_of(
        "postgresql://me:s3cret@127.0.0.1:1/db"
    )
    assert "No such file" in refusal_of(f"postgresql:///db?host={tmp_path}")


def test_wrong_password_and_unknown_database_are_errors(own_postgres):
    with psycopg.connect(own_postgres.url(), autocommit=True) as line:
        line.execute(f"DROP ROLE IF EXISTS {GUARDED}")
        line.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD 'right'")
    guarded = own_postgres.url("x", user=f"{GUARDED}:s3cret")

    assert f'password authentication failed for user "{GUARDED}"' in refusal_of(guarded)
    assert 'database "nowhere" does not exist' in refusal_of(own_postgres.url(database="nowhere"))
    assert "this user has no permission for that in Postgres" in refusal_of(guarded.replace("s3cret", "right"))


@pytest.mark.parametrize(
    "url, message",
    [
        ("postgresql://me:s3cret%zz@h/db", "does not understand the URL"),
        ("postgresql://me:s3cret@h/db?colour=red", "does not understand the URL"),
        ("postgresql://me:s3cret@h/db?schema=", "not a name for a schema"),
        (f"postgresql://me:s3cret@h/db?schema={'x' * 64}", "not a name for a schema"),
        ("postgresql://me:s3cret@h/db?schema=a%00b", "not a name for a schema"),
    ],
)
def test_invalid_url_is_an_error(url, message):
    assert message in refusal_of(url)


def test_missing_psycopg_is_an_error():
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from tenuto.store import open_store\n"
        "try: open_store('postgresql://h/db')\n"
        "except Exception as exc: print(type(exc).__name__, exc)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("StoreError Postgres needs psycopg")
    assert "pip install tenuto[postgres]" in done.stdout


def test_database_in_another_encoding_is_refused(own_postgres):
    with psycopg.connect(own_postgres.url(), autocommit=True) as line:
        line.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
        try:
            assert "LATIN1: tenuto needs" in refusal_of(own_postgres.url(database="latin"))
        finally:
            line.execute("DROP DATABASE latin")


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE customers (id BIGINT)",
        "CREATE TABLE meta (id BIGINT)",
        "CREATE TABLE meta (key TEXT, value TEXT); INSERT INTO meta VALUES ('store', 'grocery'), ('schema', '1')",
    ],
)
def test_tables_of_another_application_are_refused(postgres, postgres_url, table):
    name = postgres_url.rpartition("=")[2]
    with psycopg.connect(postgres.url(), autocommit=True) as line:
        line.execute(f"CREATE SCHEMA {name}; SET search_path = {name}; {table}")

        assert "has tables of another program" in refusal_of(postgres_url)
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = %s"
        assert line.execute(tables, (name,)).fetchone() == (1,)


def test_empty_schema_is_used(postgres, postgres_url):
    with psycopg.connect(postgres.url(), autocommit=True) as line:
        line.execute(f"CREATE SCHEMA {postgres_url.rpartition('=')[2]}")

    PostgresEngine(postgres_url).open(write=False).close()


def test_newer_schema_is_refused(postgres_url):
    driver = PostgresEngine(postgres_url).open(write=True)
    driver.begin(write=True)
    driver.change("UPDATE meta SET value = ? WHERE key = 'schema'", (str(schema.VERSION + 1),))
    driver.commit()
    driver.close()

    assert "later version of tenuto" in refusal_of(postgres_url)


def test_unusual_schema_names_are_accepted(postgres):
    name = 'Odd "name"; --ä?'
    url = postgres.url('Odd%20"name";%20--%C3%A4%3F')
    engine = PostgresEngine(url)
    driver = engine.open(write=True)
    with psycopg.connect(postgres.url(), autocommit=True) as line:
        tables = "SELECT count(*) > 3 FROM pg_tables WHERE schemaname = %s"
        assert line.execute(tables, (name,)).fetchone() == (True,)
        driver.close()
        line.execute("SET client_min_messages = error")
        line.execute('DROP SCHEMA "Odd ""name""; --ä?" CASCADE')
    assert engine.name.startswith("PostgreSQL 1")


def _open_store(url, start, ready):
    engine = PostgresEngine(url)
    ready.release()
    start.wait()
    driver = engine.open(write=True)
    driver.begin(write=False)
    assert driver.rows("SELECT count(*) FROM meta WHERE key IN ('store', 'schema', 'id')") == [(3,)]
    driver.close()


def test_four_processes_create_the_tables_at_once(postgres_url):
    context = multiprocessing.get_context("fork")
    start, ready = context.Event(), context.Semaphore(0)
    children = [context.Process(target=_open_store, args=(postgres_url, start, ready)) for _ in range(4)]
    for child in children:
        child.start()
    for _ in children:
        ready.acquire()
    start.set()
    for child in children:
        child.join()

    assert [child.exitcode for child in children] == [0, 0, 0, 0]
