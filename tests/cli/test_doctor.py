"""`tenuto doctor`: each check, and what it reports if something is broken."""

from __future__ import annotations

import json
import os
import pwd
import socket

import pytest

from cli.canned_provider import answering, keep_sessions

SECRET = "sk-not-to-be-seen-anywhere"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty directory for settings and sessions."""
    monkeypatch.delenv("TENUTO_STORE", raising=False)
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def lines_of(out, about):
    """The lines that are about something, by their state."""
    split = [line.split(None, 1) for line in out.splitlines()]
    return [(state, told.partition(": ")[2]) for state, told in split if told.startswith(f"{about}: ")]


# --- healthy -----------------------------------------------------------------------------------------------------


def test_doctor_creates_nothing_in_an_empty_home(here, home):
    done = here("doctor")
    states = {line.split()[0] for line in done.out.splitlines()}

    assert (0, "") == (done.code, done.err)
    assert states <= {"ok", "note"}
    assert [("ok", f"no sessions yet ({home / 'sessions.db'})")] == lines_of(done.out, "store")
    assert [] == list(home.iterdir())


def test_doctor_lists_keys_without_their_values(here, home, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    keys = home / "keys.json"
    keys.write_text(json.dumps({"groq": SECRET}))
    keys.chmod(0o600)
    table, document = here("doctor"), here("doctor", "--json")

    assert [("ok", f"anthropic (ANTHROPIC_API_KEY), groq (keys.json); file {keys}")] == lines_of(table.out, "keys")
    assert SECRET not in f"{table}{document}"


def test_doctor_json_has_all_checks(here, home):
    told = json.loads(here("doctor", "--json").out)

    assert 0 == told["exit_code"]
    assert {"about", "state", "what", "todo"} == set(told["findings"][0])
    assert {"tenuto", "libraries", "extras", "settings", "keys", "permissions", "store"} <= {
        finding["about"] for finding in told["findings"]
    }


# --- broken ------------------------------------------------------------------------------------------------------


def test_broken_settings_are_one_problem(here, home):
    (home / "config.toml").write_text('modle = "x"\n')
    done = here("doctor")
    problems = [line for line in done.out.splitlines() if line.startswith("problem")]

    assert 1 == done.code
    assert len(problems) == 1
    assert "unknown setting 'modle': did you mean model?; " in problems[0]
    assert lines_of(done.out, "store")


def test_unknown_default_model_is_a_problem(here, home, monkeypatch):
    monkeypatch.setenv("TENUTO_MODEL", "antropic/claude-opus-5-5")
    done = here("doctor")

    assert 1 == done.code
    [(state, told)] = lines_of(done.out, "model")
    assert "problem" == state
    assert "did you mean anthropic/claude-opus-5-5" in told


@pytest.mark.skipif(os.name != "posix", reason="modes mean nothing there")
def test_files_that_others_can_read_are_reported(here, home):
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
        ("warning", f"{home}/history can be read by others (mode 0644); chmod 600 {home}/history"),
        ("warning", f"{home}/sessions.db can be read by others (mode 0644); chmod 600 {home}/sessions.db"),
        ("warning", f"{home} can be written by others (mode 0777); chmod go-w {home}"),
    ]
    assert 1 == refused.code
    assert f"chmod 600 {home}/keys.json" in refused.out
    assert ["problem"] == [state for state, _ in lines_of(refused.out, "keys")]


def test_store_that_is_not_a_database_is_code_7(here, home):
    (home / "sessions.db").write_bytes(b"nonsense" * 1000)
    done = here("doctor")

    assert 7 == done.code
    [(state, told)] = lines_of(done.out, "store")
    assert "problem" == state
    assert "not a SQLite database" in told


def test_doctor_works_without_home(here, monkeypatch):
    """No variable, and nobody of that number: as in some containers."""

    def unknown(number):
        raise KeyError(number)

    for name in ("HOME", "TENUTO_HOME", "TENUTO_STORE", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    done = here("doctor")

    assert (1, "") == (done.code, done.err)
    assert "set HOME or TENUTO_HOME to your own directory" in done.out
    assert lines_of(done.out, "tenuto")


def test_home_that_is_a_file_is_a_problem(here, home, monkeypatch):
    (home / "file").touch()
    (home / "file").chmod(0o777)
    monkeypatch.setenv("TENUTO_HOME", str(home / "file" / "below"))
    done = here("doctor")

    assert 1 == done.code
    assert [("problem", f"{home}/file is not a directory")] == [
        (state, told.partition(";")[0]) for state, told in lines_of(done.out, "store")
    ]


# --- the network ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environment, reason",
    [({}, "no key"), ({"TENUTO_OFFLINE": "1", "ANTHROPIC_API_KEY": SECRET}, "TENUTO_OFFLINE forbids the network")],
)
def test_online_is_skipped_without_key_or_network(here, home, monkeypatch, environment, reason):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = here("doctor", "--online")

    assert (0, [("note", f"skipped: {reason}")]) == (done.code, lines_of(done.out, "online"))


@pytest.mark.usefixtures("real_providers")
def test_online_reports_each_provider(here, home, monkeypatch):
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
            "twin": good,
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
    assert ("ok", "reachable, key accepted, 2 models") == told["good"] == told["twin"]
    assert [f"Bearer {SECRET}"] * 2 == [headers["authorization"] for headers in heard]
    assert len(asked) == 1
    assert told["busy"][0] == "warning"
    assert told["bad"][0] == told["dns"][0] == told["tls"][0] == told["gone"][0] == "problem"
    assert told["bad"][1].startswith("key rejected (401)")
    assert "check your network" in told["dns"][1]
    assert "SSL_CERT_FILE" in told["tls"][1]
    assert "127.0.0.1:9" in told["gone"][1]
    assert SECRET not in done.out + done.err
