"""The doctor: what is well, what is not, and what to do; whatever else is broken, it answers."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import sqlite3
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli.answering import answering, keep_sessions
from tenuto.catalog import PROVIDERS
from tenuto.cli import checking_files
from tenuto.cli.checking import checked
from tenuto.cli.checking_files import mounted
from tenuto.cli.checking_store import sqlite_findings

SECRET = "sk-not-to-be-seen-anywhere"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of one's own, with nothing in it; no key anywhere; the store is in it, too."""
    for row in PROVIDERS.values():
        for name in (*row.key_env, *row.bearer_env):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("TENUTO_STORE", raising=False)
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def lines_of(out, about):
    """The lines that are about something, by their state."""
    split = [line.split(None, 1) for line in out.splitlines()]
    return [(state, told.partition(": ")[2]) for state, told in split if told.startswith(f"{about}: ")]


# --- what is well -----------------------------------------------------------------------------------------------------


def test_where_all_is_well_the_code_is_0_and_nothing_is_made(here, home):
    done = here("doctor")
    states = {line.split()[0] for line in done.out.splitlines()}

    assert (0, "") == (done.code, done.err)
    assert states <= {"ok", "note"}
    assert [("ok", f"none yet; the first session makes {home / 'sessions.db'}")] == lines_of(done.out, "store")
    assert [] == list(home.iterdir())


def test_a_store_is_looked_through(here, home):
    keep_sessions(home / "sessions.db", [("Hello", ""), ("Hi", "")])
    done = here("doctor")

    assert 0 == done.code
    assert [("ok", f"{home / 'sessions.db'}: 2 sessions, 2 entries, nothing damaged")] == lines_of(done.out, "store")


def test_keys_are_told_and_never_shown(here, home, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    keys = home / "keys.json"
    keys.write_text(json.dumps({"groq": SECRET}))
    keys.chmod(0o600)
    table, document = here("doctor"), here("doctor", "--json")

    assert [("ok", "anthropic (ANTHROPIC_API_KEY), groq (keys.json)")] == lines_of(table.out, "keys")
    assert SECRET not in f"{table}{document}"


def test_as_json_it_is_one_document(here, home):
    told = json.loads(here("doctor", "--json").out)

    assert 0 == told["exit_code"]
    assert {"about", "state", "what", "todo"} == set(told["findings"][0])
    assert {"tenuto", "libraries", "extras", "configuration", "keys", "SQLite", "store", "terminal"} <= {
        finding["about"] for finding in told["findings"]
    }


def test_piped_and_in_a_terminal(tenuto):
    piped = tenuto.run("doctor")
    code, screen = tenuto.terminal("doctor", "--color", "always", columns=300).end()

    assert (0, "") == (piped.code, piped.err)
    assert "ok       terminal: there is none: plain text\n" in piped.out
    assert 0 == code
    assert "ok       terminal: xterm, color\n" in screen
    assert [line for line in piped.out.splitlines() if "terminal:" not in line] == [
        line for line in screen.splitlines() if "terminal:" not in line
    ]


# --- what is not ------------------------------------------------------------------------------------------------------


def test_a_broken_configuration_is_one_problem_and_the_rest_is_looked_at(here, home):
    (home / "config.toml").write_text('modle = "x"\n')
    keep_sessions(home / "sessions.db", [("Hello", "")])
    done = here("doctor")
    problems = [line for line in done.out.splitlines() if line.startswith("problem")]

    assert 1 == done.code
    assert len(problems) == 1
    assert "there is no setting 'modle': did you mean model?; " in problems[0]
    assert [("ok", f"{home / 'sessions.db'}: 1 session, 1 entries, nothing damaged")] == lines_of(done.out, "store")
    assert "Traceback" not in done.err


def test_a_model_that_is_none_is_a_problem(here, home, monkeypatch):
    monkeypatch.setenv("TENUTO_MODEL", "antropic/claude-opus-5-5")
    done = here("doctor")

    assert 1 == done.code
    [(state, told)] = lines_of(done.out, "model")
    assert "problem" == state
    assert "did you mean anthropic/claude-opus-5-5" in told


@pytest.mark.skipif(os.name != "posix", reason="modes mean nothing there")
def test_what_others_can_read_is_told_with_what_to_type(here, home):
    """Keys that others can read are not used, so that is a problem; the rest is a warning."""
    keep_sessions(home / "sessions.db", [("Hello", "")])
    (home / "sessions.db").chmod(0o644)
    (home / "history").touch(0o644)
    home.chmod(0o777)
    warned = here("doctor")
    (home / "keys.json").write_text("{}")
    (home / "keys.json").chmod(0o640)
    refused = here("doctor")
    home.chmod(0o700)

    assert 0 == warned.code
    assert lines_of(warned.out, "permissions") == [
        ("warning", f"history {home}/history can be read by others (mode 0644); chmod 600 {home}/history"),
        ("warning", f"store {home}/sessions.db can be read by others (mode 0644); chmod 600 {home}/sessions.db"),
        ("warning", f"folder {home} can be written by others (mode 0777); chmod go-w {home}"),
    ]
    assert 1 == refused.code
    assert f"chmod 600 {home}/keys.json" in refused.out
    assert ["problem"] == [state for state, _ in lines_of(refused.out, "keys")]


def test_a_file_that_is_no_store_is_code_7(here, home):
    (home / "sessions.db").write_bytes(b"nonsense" * 1000)
    done = here("doctor")

    assert 7 == done.code
    [(state, told)] = lines_of(done.out, "store")
    assert "problem" == state
    assert "not a SQLite database" in told


def test_damage_in_a_session_is_told_and_code_7(here, home):
    """Entries that are not what they were, however whole the file is."""
    ids = keep_sessions(home / "sessions.db", [(f"Hello {n}", "") for n in range(5)])
    with sqlite3.connect(home / "sessions.db") as db:
        db.execute("UPDATE entries SET body = cast(replace(body, 'Hello', 'Howdy') AS BLOB)")
    db.close()
    done = here("doctor")
    told = [what for state, what in lines_of(done.out, "store") if state == "problem"]

    assert 7 == done.code
    assert len(told) == 4, "three of them, and how many there are"
    assert any(ids[0] in what for what in told)
    assert told[-1].startswith(f"{home / 'sessions.db'} has 5 faults; tenuto sessions verify lists all")


@pytest.mark.parametrize("kind", [TypeError, KeyError, ValueError, AttributeError])
def test_damage_that_nobody_thought_of_is_damage_of_the_store(kind):
    """What stands on a disk can be of any shape. Anywhere else it is a fault of ours, and is heard of."""

    def broken():
        raise kind("odd")

    [found] = checked("store", broken, stored=True)

    assert (found.state, found.damaged) == ("problem", True)
    with pytest.raises(kind):
        list(checked("terminal", broken))


def test_a_place_that_is_none_is_a_problem(here, home):
    done = here("doctor", "--store", "ftp://x/y")

    assert 1 == done.code
    assert "store cannot be at ftp" in done.out


def test_without_a_home_it_says_so(here, monkeypatch):
    """No variable, and nobody of that number: as in some containers."""

    def unknown(number):
        raise KeyError(number)

    for name in ("HOME", "TENUTO_HOME", "TENUTO_STORE", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    done = here("doctor")

    assert (1, "") == (done.code, done.err)
    assert "set HOME, or TENUTO_HOME to a folder that is yours" in done.out
    assert lines_of(done.out, "characters")


def test_a_home_that_is_a_file_is_a_problem(here, home, monkeypatch):
    (home / "file").touch()
    (home / "file").chmod(0o777)
    monkeypatch.setenv("TENUTO_HOME", str(home / "file" / "below"))
    done = here("doctor")

    assert 1 == done.code
    assert [("problem", f"{home}/file is no folder: no session can be kept")] == [
        (state, told.partition(";")[0]) for state, told in lines_of(done.out, "place")
    ]


@contextmanager
def not_root():
    """Whoever is root can write everywhere: for a while, be somebody else."""
    if os.geteuid():
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="setresuid")
def test_a_home_that_cannot_be_written_is_a_problem(here, home, monkeypatch):
    folder = Path(tempfile.mkdtemp())
    monkeypatch.setenv("TENUTO_HOME", str(folder))
    folder.chmod(0o555)
    try:
        with not_root():
            done = here("doctor")
    finally:
        shutil.rmtree(folder)

    assert 1 == done.code
    assert [("problem", f"{folder} cannot be written: no session can be kept")] == [
        (state, told.partition(";")[0]) for state, told in lines_of(done.out, "place")
    ]


# --- what it stands on ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "version, guarded, state",
    [
        ((3, 6, 23), True, "ok"),
        ((3, 7, 0), True, "note"),
        ((3, 40, 1), True, "note"),
        ((3, 51, 2), True, "note"),
        ((3, 51, 2), False, "warning"),
        ((3, 51, 3), False, "ok"),
        ((3, 53, 0), True, "ok"),
    ],
)
def test_the_known_fault_of_sqlite_and_whether_it_is_guarded_against(version, guarded, state):
    [found] = sqlite_findings(version, guarded=guarded)

    assert state == found.state
    assert found.what.startswith(".".join(map(str, version)))
    assert (state == "ok") == ("WAL-reset" not in found.what)


MOUNTS = r"""21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 21 0:40 / /home rw - nfs4 server:/home rw
31 30 0:41 / /home/me/my\040disk rw - btrfs /dev/sdb rw
32 21 0:42 / /mnt/c rw master:1 - 9p C:\134 rw
broken line
33 21 0:43 / /mnt/c rw - xfs over rw""".splitlines()


@pytest.mark.parametrize(
    "folder, kind",
    [
        ("/var", "ext4"),
        ("/home/me", "nfs4"),
        ("/home/me/my disk/x", "btrfs"),
        ("/homestead", "ext4"),
        ("/mnt/c", "xfs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(folder, kind):
    assert kind == mounted(MOUNTS, Path(folder))


def test_a_network_folder_is_warned_of(here, home, monkeypatch):
    monkeypatch.setattr(checking_files, "_file_system", lambda _: "nfs4")
    done = here("doctor")

    assert 0 == done.code
    [(state, told)] = lines_of(done.out, "place")
    assert "warning" == state
    assert "network file system (nfs4)" in told


@pytest.mark.parametrize("free, state, code", [(10**6, "problem", 1), (10**8, "warning", 0), (10**12, "ok", 0)])
def test_a_disk_that_is_full_is_told_before_it_fails(here, home, monkeypatch, free, state, code):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    done = here("doctor")

    assert code == done.code
    assert [state] == [state for state, _ in lines_of(done.out, "room")]


def test_doctor_lists_interrupted_sessions(here, home):
    interrupted, running = keep_sessions(home / "sessions.db", [("Hello", ""), ("Hi", "")])
    with sqlite3.connect(home / "sessions.db") as db:
        held = (int(time.time() * 1000) + 60_000, os.getpid(), socket.gethostname(), running)
        db.execute("UPDATE sessions SET owner = 'x', until = ?, pid = ?, host = ? WHERE id = ?", held)
    db.close()
    done = here("doctor")

    assert 0 == done.code
    [(state, told)] = lines_of(done.out, "sessions")
    assert "note" == state
    assert f"1 interrupted session: {interrupted[:12]}; tenuto resume {interrupted[:12]} continues it" == told


# --- the network ------------------------------------------------------------------------------------------------------


def test_online_nobody_is_asked_without_a_key(here, home):
    done = here("doctor", "--online")

    assert 0 == done.code
    assert [("note", "nobody is asked: there is no key")] == lines_of(done.out, "online")


def test_online_what_fails_is_told_apart(here, home, monkeypatch):
    """A key that is refused, a name that nobody knows, a server without TLS, one that does not listen, one that is busy.

    Each is asked once.
    """
    real = socket.getaddrinfo

    def unknown(host, *rest, **more):
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setenv("MINE", SECRET)
    with (
        answering(200, b'{"data": [{"id": "one"}, {"id": "two"}]}') as (good, heard),
        answering(401, b"{}") as (bad, _),
        answering(503, b"{}") as (busy, asked),
    ):
        places = {
            "good": good,
            "bad": bad,
            "busy": busy,
            "dns": "https://nowhere.invalid/v1",
            "tls": good.replace("http:", "https:"),
            "gone": "http://127.0.0.1:9/v1",
        }
        (home / "config.toml").write_text(
            "".join(f'[providers.{name}]\nbase_url = "{url}"\nkey_env = "MINE"\n' for name, url in places.items())
        )
        done = here("doctor", "--online")
    told = {name: lines_of(done.out, name)[0] for name in places}

    assert 1 == done.code
    assert ("ok", "answers, and takes the key; 2 models") == told["good"]
    assert [f"Bearer {SECRET}"] == [headers["authorization"] for headers in heard]
    assert len(asked) == 1
    assert told["busy"][0] == "warning"
    assert told["bad"][0] == told["dns"][0] == told["tls"][0] == told["gone"][0] == "problem"
    assert told["bad"][1].startswith("it refuses the key (401)")
    assert told["dns"][1].startswith("DNS: ")
    assert told["tls"][1].startswith("TLS: ")
    assert told["gone"][1].startswith("no response from 127.0.0.1:9")
    assert SECRET not in done.out + done.err
