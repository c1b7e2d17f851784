"""The Postgres driver of the store: values, transactions, lost connections and servers."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import tempfile
import threading
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postgres_proxy import CommitProxy
from tenuto.errors import StoreError
from tenuto.store.driver import CommitUnknown, ConnectionLost, tokenize
from tenuto.store.postgres import PostgresEngine, numbered, readable, vector_of, written

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=40)


@pytest.fixture
def engine(postgres_url):
    return PostgresEngine(postgres_url)


@pytest.fixture
def driver(engine):
    driver = engine.open(write=True)
    driver.begin(write=True)
    driver.change("CREATE TABLE probe (n BIGINT PRIMARY KEY, text TEXT, data BYTEA)")
    driver.commit()
    yield driver
    driver.rollback()
    driver.close()


def put(driver, *numbers):
    for number in numbers:
        driver.change("INSERT INTO probe (n, text) VALUES (?, ?)", (number, ""))


def numbers_in(driver):
    driver.begin(write=False)
    found = [number for (number,) in driver.rows("SELECT n FROM probe ORDER BY n")]
    driver.commit()
    return found


def backend_of(driver):
    return driver._connection.info.backend_pid


def waiting_at(server, backend, event):
    """Wait until the server reports that this backend waits for `event`."""
    with psycopg.connect(server.url(), autocommit=True) as proxy:
        while not proxy.execute(
            "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = %s", (backend, event)
        ).fetchone():
            pass


# --- values -----------------------------------------------------------------------------------------------------------


@given(ANY_TEXT, ANY_TEXT)
def test_any_text_is_escaped_for_postgres(one, other):
    first, second = written([one, other])

    assert "\0" not in first
    first.encode()
    assert readable(first) == one
    assert (first == second) is (one == other)


def test_values_round_trip(driver):
    """NUL, half characters, the escape itself, special characters of statements, extreme numbers."""
    texts = [
        "",
        "\0",
        "a\0b",
        "\ud800",
        "x\udfffy",
        "\x1a",
        "\x1a0000",
        "100 % ? %s $1 '?' \"",
        "\\",
        "ä🎼",
        "9" * 5000,
    ]
    rows = [(n, text, text.encode("utf-8", "surrogatepass")) for n, text in enumerate(texts)]
    rows += [(2**63 - 1, None, None), (-(2**63), "-", bytes(range(256)))]
    driver.begin(write=True)
    driver.insert("INSERT INTO probe (n, text, data) VALUES (?, ?, ?)", rows)

    assert driver.rows("SELECT n, text, data FROM probe ORDER BY n") == sorted(rows, key=lambda row: row[0])
    for n, text, _ in rows[: len(texts)]:
        assert driver.rows("SELECT n FROM probe WHERE text = ?", (text,)) == [(n,)]
    assert driver.rows("SELECT '?', '%s', '''?', ?", ("?",)) == [("?", "%s", "'?", "?")]
    assert driver.rows("SELECT sum(n) FROM probe WHERE n BETWEEN ? AND ?", (1, 3)) == [(6,)]
    assert driver.rows("SELECT sum(n) FROM probe WHERE n = 77") == [(None,)]
    with pytest.raises(StoreError, match="64 bits"):
        driver.rows("SELECT ?", (2**63,))


def test_numbers_have_the_necessary_width(driver):
    driver.begin(write=False)

    assert driver.rows("SELECT ? + 10 * ?", (30_000, 2**31)) == [(30_000 + 10 * 2**31,)]


def test_large_values_round_trip(driver):
    data = os.urandom(1 << 20) * 20
    driver.begin(write=True)
    driver.change("INSERT INTO probe (n, data) VALUES (1, ?)", (data,))
    driver.commit()
    driver.begin(write=False)

    assert driver.rows("SELECT data FROM probe") == [(data,)]
    assert driver.size() > len(data)


def test_statement_parameters_are_numbered():
    assert numbered("SELECT '?', ? WHERE a = '%' AND b = ?") == b"SELECT '?', $1 WHERE a = '%' AND b = $2"


def test_changed_rows_are_counted(driver):
    driver.begin(write=True)
    put(driver, 1, 2, 3)
    driver.insert("INSERT INTO probe (n) VALUES (?)", [])

    assert driver.change("UPDATE probe SET text = ? WHERE n > ?", ("%", 1)) == 2
    assert driver.change("CREATE INDEX probe_text ON probe (text)") == 0


def test_clock_is_that_of_the_server(engine, driver):
    """The time at which the transaction got its turn, because a waiting transaction may have an old start time."""
    other = engine.open(write=True)
    driver.begin(write=True)
    waiter = threading.Thread(target=other.begin, kwargs={"write": True})
    waiter.start()
    [[now]] = driver.rows("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    assert now - 60_000 < driver.now <= now
    driver.rows("SELECT pg_sleep(0.05)")
    driver.commit()
    waiter.join()

    assert other.now >= now + 50
    other.close()


# --- transactions -----------------------------------------------------------------------------------------------------


def test_savepoint_undoes_only_its_own_changes(driver):
    driver.begin(write=True)
    for number in range(0, 200, 2):
        driver.savepoint()
        put(driver, number)
        driver.savepoint()
        put(driver, number + 1)
        driver.rollback_to()
    driver.savepoint()
    put(driver, 1000)
    with pytest.raises(StoreError, match="23505"):
        put(driver, 1000)
    driver.rollback_to()
    put(driver, 1001)
    driver.commit()

    assert numbers_in(driver) == [*range(0, 200, 2), 1001]


def test_savepoint_replaces_the_one_before(driver):
    for _ in range(2):
        driver.begin(write=True)
        driver.savepoint()
        driver.savepoint()
        driver._connection.execute("RELEASE SAVEPOINT mark")
        with pytest.raises(psycopg.Error, match="does not exist"):
            driver._connection.execute("RELEASE SAVEPOINT mark")
        driver.rollback()


def test_commit_of_a_failed_transaction_is_an_error(driver):
    """The server answers this COMMIT with ROLLBACK and no error."""
    driver.begin(write=True)
    put(driver, 1)
    with pytest.raises(StoreError):
        put(driver, 1)
    with pytest.raises(StoreError, match="nothing was stored"):
        driver.commit()

    assert numbers_in(driver) == []


def test_one_transaction_writes_at_a_time(engine, driver, postgres_url):
    """The second one waits, with an error after the timeout; readers see the state before."""
    other = engine.open(write=True)
    hasty = PostgresEngine(postgres_url, busy_ms=50).open(write=True)
    driver.begin(write=True)
    put(driver, 1)
    assert numbers_in(other) == []
    with pytest.raises(StoreError, match="another process has been writing for too long"):
        hasty.begin(write=True)
    waiter = threading.Thread(target=other.begin, kwargs={"write": True})
    waiter.start()
    driver.commit()
    waiter.join()

    assert other.rows("SELECT n FROM probe") == [(1,)]
    other.rollback()
    hasty.begin(write=True)
    for it in (hasty, other):
        it.close()


def test_reader_sees_one_state(engine, driver):
    reader = engine.open(write=False)
    reader.begin(write=False)
    before = reader.rows("SELECT count(*) FROM probe")
    driver.begin(write=True)
    put(driver, 1)
    driver.commit()

    assert reader.rows("SELECT count(*) FROM probe") == before
    with pytest.raises(StoreError, match="read-only"):
        put(reader, 2)
    reader.close()


def test_transaction_leaves_no_locks_or_settings(driver, postgres):
    """A connection pool may use another connection for the next transaction."""
    for write in (True, False):
        driver.begin(write=write)
        inside = driver._connection.execute("SHOW search_path").fetchone()
        assert driver._connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("30s",)
        for _ in range(20):
            driver.rows("SELECT n FROM probe WHERE n = ?", (1,))
        driver.commit()
        proxy = driver._connection
        assert proxy.execute("SHOW search_path").fetchone() != inside
        assert proxy.execute("SELECT * FROM pg_prepared_statements").fetchall() == []
        lock_query = "SELECT * FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        assert proxy.execute(lock_query).fetchall() == []


# --- lost connections ------------------------------------------------------------------------------------------------


def test_lost_connection_is_replaced_between_transactions(driver, postgres):
    for write in (True, False):
        before = backend_of(driver)
        with psycopg.connect(postgres.url(), autocommit=True) as proxy:
            proxy.execute("SELECT pg_terminate_backend(%s, 5000)", (before,))
        driver.begin(write=write)
        assert backend_of(driver) != before
        driver.commit()


def test_lost_connection_in_a_transaction_is_an_error(driver, postgres):
    """Nothing of the transaction is stored; the next one works."""
    for step in (lambda: put(driver, 2), driver.savepoint, driver.rollback_to, driver.size):
        driver.begin(write=True)
        put(driver, 1)
        driver.savepoint()
        with psycopg.connect(postgres.url(), autocommit=True) as proxy:
            proxy.execute("SELECT pg_terminate_backend(%s, 5000)", (backend_of(driver),))
        with pytest.raises(ConnectionLost, match="broke"):
            step()
        with pytest.raises(ConnectionLost):
            step()
        driver.rollback()
        assert numbers_in(driver) == []


@pytest.fixture
def proxy(postgres):
    with tempfile.TemporaryDirectory(prefix="cut-", dir="/tmp") as folder:
        proxy = CommitProxy(Path(folder), postgres.folder)
        yield proxy
        proxy.close()


def through(proxy, url):
    """Return the same database, through the proxy."""
    return re.sub("host=[^&]*", f"host={proxy.folder}", url)


@pytest.mark.parametrize("when, found", [("before", []), ("after", [1])])
def test_connection_cut_at_a_commit_has_an_unknown_result(driver, proxy, postgres_url, when, found):
    other = PostgresEngine(through(proxy, postgres_url)).open(write=True)
    other.begin(write=True)
    put(other, 1)
    proxy.cut = when
    with pytest.raises(CommitUnknown, match="unknown whether"):
        other.commit()

    assert proxy.cuts == 1
    assert numbers_in(other) == found
    assert numbers_in(driver) == found
    other.close()


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_backend_killed_at_a_commit_has_an_unknown_result(own_postgres, own_postgres_url, how):
    """SIGKILL makes the server restart; the transaction was not committed."""
    driver = PostgresEngine(own_postgres_url, busy_ms=50_000, patience=50).open(write=True)
    driver.begin(write=True)
    driver.change("CREATE TABLE probe (n BIGINT, text TEXT)")
    driver.change(
        "CREATE FUNCTION stuck() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END'"
    )
    driver.change(
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON probe DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION stuck()"
    )
    driver.commit()
    with psycopg.connect(own_postgres.url()) as blocker:
        blocker.execute("SELECT pg_advisory_xact_lock(7)")
        driver.begin(write=True)
        put(driver, 1)
        backend = backend_of(driver)
        errors = []

        def commit():
            try:
                driver.commit()
            except CommitUnknown as exc:
                errors.append(exc)

        committing = threading.Thread(target=commit)
        committing.start()
        waiting_at(own_postgres, backend, "advisory")
        os.kill(backend, getattr(signal, how))
        committing.join()
        if how == "SIGKILL":
            with pytest.raises(psycopg.OperationalError):
                while True:  # until the server notices: it ends all other backends, too
                    blocker.execute("SELECT 1")
        blocker.close()

    assert len(errors) == 1
    assert "unknown whether" in str(errors[0])
    assert numbers_in(driver) == []
    driver.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_restarted_server_is_waited_for(own_postgres, own_postgres_url, mode):
    """Transactions wait for it until the timeout."""
    driver = PostgresEngine(own_postgres_url, patience=50).open(write=True)
    hasty = PostgresEngine(own_postgres_url, patience=0.1).open(write=True)
    own_postgres.stop(mode)
    with pytest.raises(StoreError, match="cannot open postgresql://postgres@"):
        hasty.begin(write=True)
    waiter = threading.Thread(target=driver.begin, kwargs={"write": True})
    waiter.start()
    own_postgres.start()
    waiter.join()

    assert driver.rows("SELECT value FROM meta WHERE key = 'store'") == [("tenuto",)]
    driver.rollback()
    hasty.begin(write=True)
    driver.close()
    hasty.close()


def test_forked_child_leaves_the_connection_of_its_parent(driver):
    backend = backend_of(driver)
    child = os.fork()
    if not child:
        status = 1
        try:
            driver.begin(write=True)
            put(driver, 1)
            driver.commit()
            status = 2 if backend_of(driver) == backend else 0
            driver.close()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0

    assert numbers_in(driver) == [1]
    assert backend_of(driver) == backend


# --- search, maintenance, locks --------------------------------------------------------------------------------------


def test_search_finds_words(driver):
    """Any text is a query without syntax; the text search settings of the server do not matter."""
    driver.begin(write=True)
    texts = [
        "Pack my box, and my other box",
        "see https://example.com/a-b.html",
        "naïve ÉTUDE 東京",
        "it's 3.14 'or' not",
    ]
    driver.index([("s", n, text) for n, text in enumerate(texts, 1)])

    def found(query):
        return [seq for _, seq, _ in driver.search(tokenize(query), 10)]

    assert [found(query) for query in ("BOX my", "example", "html", "étude", "東京", "14", "or", "not")] == [
        [1], [2], [2], [3], [3], [4], [4], [4],
    ]  # fmt: skip
    for query in ("", "  ", "\0", "\ud800", "'", "\\", ":*", "& | !", "box & !other <-> ("):
        found(query)
    assert found("box nothing") == []
    assert driver.search(["other"], 10) == [("s", 1, "Pack my box, and my other box")]
    driver.index([("s", 1, "changed"), ("t", 9, "box")])
    assert found("box") == [9]
    driver.unindex("t")
    assert found("box") == []
    driver.unindex(None)
    assert found("changed") == []


def test_best_matches_come_first(driver):
    driver.begin(write=True)
    driver.index([("s", 1, "fox and hens " * 3), ("s", 2, "fox fox fox fox"), ("s", 3, "hens")])

    assert [seq for _, seq, _ in driver.search(["fox"], 10)] == [2, 1]
    assert len(driver.search(["fox"], 1)) == 1


def test_long_texts_are_found_by_their_start(driver):
    """Texts of 256 KB with unique words, one of them larger than Postgres accepts, and one long word."""
    many = " ".join(f"wörd{n}" for n in range(40_000))[: 256 * 1024]
    wide = " ".join(
        "".join(map(chr, (66560 + n % 40, 66560 + n // 40 % 40, 66560 + n // 1600, 66560))) for n in range(60_000)
    )
    driver.begin(write=True)
    driver.index([("s", 4, wide)])
    driver.index([("s", 1, many), ("s", 2, "東" * 40_000), ("s", 3, "again " * 40_000)])

    assert [seq for _, seq, _ in driver.search(["wörd7"], 10)] == [1]
    assert [seq for _, seq, _ in driver.search(["東" * 40_000], 10)] == [2]
    assert [seq for _, seq, _ in driver.search(["again"], 10)] == [3]
    assert [seq for _, seq, _ in driver.search(tokenize(wide[:9]), 10)] == [4]
    assert vector_of("") == ""


def test_backup_names_the_command(driver):
    with pytest.raises(StoreError, match="pg_dump"):
        driver.backup("copy")


def _hold_lock(url, ready):
    lock = PostgresEngine(url).locks.acquire("s")
    ready.send(lock is not None)
    signal.pause()


def test_lock_ends_with_its_holder(engine, postgres_url):
    """Another process holds the session until it is killed; other sessions and stores are free."""
    context = multiprocessing.get_context("fork")
    ready, sender = context.Pipe(duplex=False)
    child = context.Process(target=_hold_lock, args=(postgres_url, sender))
    child.start()
    assert ready.recv() is True
    assert engine.locks.available
    assert engine.locks.acquire("s") is None
    assert engine.locks.is_locked("s")
    assert not engine.locks.is_locked("t")
    engine.locks.acquire("t").remove()
    assert PostgresEngine(postgres_url).locks.directory_id(create=True) == engine.locks.directory_id()
    child.kill()
    child.join()

    assert not engine.locks.is_locked("s")
    lock = engine.locks.acquire("s")
    assert lock is not None
    lock.remove()


def test_lock_directory_that_others_can_write_is_refused(engine, tmp_path, monkeypatch):
    folder = tmp_path / f"tenuto-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    with pytest.raises(StoreError, match="is open to others"):
        engine.locks.acquire("s")
