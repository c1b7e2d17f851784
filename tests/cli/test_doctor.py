"""`tenuto doctor`: each check, and its report if something is broken."""

from __future__ import annotations

import json
import os
import socket

import pytest

from cli.canned_provider import answering, keep_sessions

SECRET = "sk-not-to-be-printed"


@pytest.fixture(autouse=True)
def _bare(here, monkeypatch):
    monkeypatch.delenv("TENUTO_STORE", raising=False)


def lines_of(done, name):
    """Return the lines of a check, by their state."""
    split = [line.split(None, 1) for line in done.out.splitlines()]
    return [(state, text.partition(": ")[2]) for state, text in split if text.startswith(f"{name}: ")]


def test_doctor_creates_nothing_and_prints_no_key(here, home, keys, monkeypatch):
    done, document = here("doctor"), json.loads(here("doctor", "--json").out)

    assert (0, "", 0) == (done.code, done.err, document["exit_code"])
    assert {line.split()[0] for line in done.out.splitlines()} <= {"ok", "note"}
    assert [("ok", f"no sessions yet ({home / 'sessions.db'})")] == lines_of(done, "store")
    assert [] == list(home.iterdir())
    assert {"about", "state", "what", "todo"} == set(document["findings"][0])
    assert {"tenuto", "libraries", "extras", "settings", "keys", "permissions", "store"} <= {
        finding["about"] for finding in document["findings"]
    }
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    file = keys({"groq": SECRET})
    table, document = here("doctor"), here("doctor", "--json")
    assert [("ok", f"anthropic (ANTHROPIC_API_KEY), groq (keys.json); file {file}")] == lines_of(table, "keys")
    assert SECRET not in f"{table}{document}"


BROKEN = [
    ("settings", 1, "unknown setting 'modle': did you mean model?; "),
    ("model", 1, "did you mean anthropic/claude-opus-5-5"),
    ("store", 7, "not a SQLite database"),
    ("home", 1, "file is not a directory"),
]


@pytest.mark.parametrize("broken, code, message", BROKEN)
def test_broken_part_is_one_problem(here, home, config, monkeypatch, broken, code, message):
    if broken == "settings":
        config('modle = "x"\n')
    elif broken == "model":
        monkeypatch.setenv("TENUTO_MODEL", "antropic/claude-opus-5-5")
    elif broken == "store":
        (home / "sessions.db").write_bytes(b"nonsense" * 1000)
    else:
        (home / "file").touch(0o777)
        monkeypatch.setenv("TENUTO_HOME", str(home / "file" / "below"))
    done = here("doctor")

    assert code == done.code
    assert [True] == [message in line for line in done.out.splitlines() if line.startswith("problem")]
    assert lines_of(done, "store")


@pytest.mark.skipif(os.name != "posix", reason="modes mean nothing there")
def test_files_that_others_can_read_are_reported(here, home, keys):
    """Keys that others can read are not used, so that is a problem; the rest is a warning."""
    keep_sessions(home / "sessions.db", [("Hello", "")])
    (home / "sessions.db").chmod(0o644)
    (home / "history").touch(0o644)
    home.chmod(0o777)
    warned = here("doctor")
    keys("{}", 0o640)
    refused = here("doctor")
    home.chmod(0o700)

    assert 0 == warned.code
    assert lines_of(warned, "permissions") == [
        ("warning", f"{home}/history can be read by others (mode 0644); chmod 600 {home}/history"),
        ("warning", f"{home}/sessions.db can be read by others (mode 0644); chmod 600 {home}/sessions.db"),
        ("warning", f"{home} can be written by others (mode 0777); chmod go-w {home}"),
    ]
    assert 1 == refused.code
    assert f"chmod 600 {home}/keys.json" in refused.out
    assert ["problem"] == [state for state, _ in lines_of(refused, "keys")]


def test_online_is_skipped_without_key_or_network(here, home, monkeypatch):
    assert [("note", "skipped: no key")] == lines_of(here("doctor", "--online"), "online")
    monkeypatch.setenv("TENUTO_OFFLINE", "1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    assert [("note", "skipped: TENUTO_OFFLINE forbids the network")] == lines_of(here("doctor", "--online"), "online")


@pytest.mark.usefixtures("real_providers")
def test_online_reports_each_provider(here, config, monkeypatch):
    """Each gets one request."""
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
        answering(503, b"{}") as (busy, retried),
    ):
        expected = {
            "good": (good, "ok", "reachable, key accepted, 2 models"),
            "twin": (good, "ok", "reachable, key accepted, 2 models"),
            "bad": (bad, "problem", "key rejected (401)"),
            "busy": (busy, "warning", ""),
            "dns": ("https://nowhere.invalid/v1", "problem", "check your network"),
            "tls": (good.replace("http:", "https:"), "problem", "SSL_CERT_FILE"),
            "gone": ("http://127.0.0.1:9/v1", "problem", "127.0.0.1:9"),
        }
        config(
            "".join(
                f'[providers.{name}]\nbase_url = "{url}"\nkey_env = "MINE"\n' for name, (url, *_) in expected.items()
            )
        )
        done = here("doctor", "--online")

    assert 1 == done.code
    for name, (_, state, text) in expected.items():
        [(found, message)] = lines_of(done, name)
        assert (state, True) == (found, text in message), done.out
    assert [f"Bearer {SECRET}"] * 2 == [headers["authorization"] for headers in heard]
    assert len(retried) == 1
    assert SECRET not in done.out + done.err
