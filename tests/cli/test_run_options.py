"""The options of `run`: what reaches the model, and where the answer goes."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.cli.options import parse_parameters
from tenuto.core.request import NamedTool, Thinking
from tenuto.testing import call, deny, say, think, turn

# --- the model --------------------------------------------------------------------------------------------------------


def test_effort_is_a_suffix_of_the_model_or_an_option(here, tenuto_sim):
    for arguments in (["-m", "sim/anthropic:low"], ["-m", "sim/anthropic", "--effort", "low"]):
        assert 0 == here("run", "Hi", *arguments).code
    both = here("run", "Hi", "-m", "sim/anthropic:low", "--effort", "high")
    first, second = (request.body for request in tenuto_sim.requests)

    assert first == second
    assert "low" in json.dumps(first)
    assert (2, True) == (both.code, "use either -m ...:" in both.err)


def test_system_prompt_is_a_text_or_a_file(here, tenuto_sim, tmp_path):
    (tmp_path / "role.md").write_text("\ufeffBe a pirate.\n", "utf-8")
    for text, sent in (("@role.md", '"Be a pirate.\\n"'), ("@@home", '"@home"'), ("plain", '"plain"')):
        assert 0 == here("run", "Hi", "-s", text).code
        assert sent in json.dumps(tenuto_sim.requests[-1].body["system"])
    missing = here("run", "Hi", "-s", "@nowhere.md")

    assert (2, True) == (missing.code, "-s @nowhere.md: the file cannot be read: No such file" in missing.err)


def test_parameters_are_stored_with_the_session(here, tenuto_sim):
    tenuto_sim.script(turn("One."), turn("Two."))
    options = ["-o", "temperature=0.25", "-o", 'stop=["END"]', "-o", "top-p=0.5", "-o", "temperature=0.5"]
    here("run", "Hi", "-m", "sim/chat", *options, "--max-tokens", "300")
    here("resume", "last", "More.")

    for body in (request.body for request in tenuto_sim.requests):
        assert (0.5, 0.5, ["END"]) == (body["temperature"], body["top_p"], body["stop"])
        assert 300 in (body.get("max_tokens"), body.get("max_completion_tokens"))


PARAMETERS = [
    (["temperature=1"], {"temperature": 1.0}),
    (["seed=7", "seed=8"], {"seed": 8}),
    (["user=42"], {"user": "42"}),
    (["user=a=b"], {"user": "a=b"}),
    (["stop=END"], {"stop": "END"}),
    (['stop=["a","b"]'], {"stop": ("a", "b")}),
    (["logprobs=true"], {"logprobs": True}),
    (['thinking={"budget":2000}'], {"thinking": Thinking(budget=2000)}),
    (["tool-choice=required"], {"tool_choice": "required"}),
    (['tool_choice={"name":"dig"}'], {"tool_choice": NamedTool("dig")}),
    (['extra_body={"a":{"b":1}}'], {"extra_body": {"a": {"b": 1}}}),
    (["response_format=json_object"], {"response_format": "json_object"}),
]
REFUSED = [
    ("temperature", "-o expects KEY=VALUE"),
    ("temprature=1", "did you mean temperature?"),
    ("zzz=1", "use one of tool_choice, parallel_tool_calls"),
    ("effort=low", "use --effort"),
    ("max-tokens=5", "use --max-tokens"),
    ("seed=many", "-o seed=many: should be a whole number"),
    ("temperature=NaN", "should be a number"),
    ("logprobs=1", "should be true or false"),
    ("thinking=3", "should be an object"),
    ("n=2", "unknown parameter"),
]


@pytest.mark.parametrize("options, expected", PARAMETERS, ids=[options[0] for options, _ in PARAMETERS])
def test_parameter_is_json_if_that_fits_else_text(options, expected):
    assert expected == parse_parameters(options)


@pytest.mark.parametrize("option, message", REFUSED, ids=[option for option, _ in REFUSED])
def test_unusable_parameter_is_refused_before_a_request(here, tenuto_sim, option, message):
    done = here("run", "Hi", "-o", option)

    assert (2, "", True, []) == (*done[:2], message in done.err, tenuto_sim.requests), done.err


@settings(max_examples=60)
@given(st.sampled_from(["temperature", "stop", "user", "metadata", "thinking", "zz", ""]), st.text())
def test_any_parameter_is_parsed_or_refused(name, text):
    """A parameter that takes text takes any text."""
    try:
        parsed = parse_parameters([f"{name}={text}"])
    except click.UsageError:
        assert name != "user"
        return
    if name == "user":
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        expected = None if text.strip(" \t\r\n") == "null" else value if isinstance(value, str) else text
        assert parsed == {"user": expected}


# --- notes ------------------------------------------------------------------------------------------------------------


def test_usage_is_printed_on_request(here, tenuto_sim):
    tenuto_sim.script(turn(call("read_file", {"path": "x"})), turn("Done."))
    used = here("run", "Hi", "-q", "--usage", "-T", "read_file")
    unused = here("run", "Hi", "-T", "read_file")

    assert "Done.\n" == used.out
    assert used.err.startswith("sim/anthropic  ")
    assert " in  " in used.err
    assert "sim/anthropic  " not in unused.err


def test_simulator_without_a_key_is_named(here, tenuto_sim, monkeypatch):
    monkeypatch.delenv("TENUTO_MODEL")
    done, quiet, wrong = here("run", "Hi"), here("run", "Hi", "-q"), here("run", "Hi", "-o", "x=1")

    assert (0, 0, 2) == (done.code, quiet.code, wrong.code)
    assert "using the simulator" in done.err.splitlines()[0]
    assert "" == quiet.err
    assert "simulator" not in wrong.err


def test_loss_is_reported_once(here, tenuto_sim, caplog):
    tenuto_sim.script(turn(say("Hi.")))
    done = here("run", "Hi", "-o", "seed=4")

    assert 1 == done.err.count("seed")
    assert [] == [record for record in caplog.records if record.name == "tenuto"]


# --- --out ------------------------------------------------------------------------------------------------------------


def test_answer_replaces_a_file_and_keeps_its_mode(here, tenuto_sim, tmp_path):
    """Through a link; --json goes to the file too; - is stdout."""
    tenuto_sim.script(turn(think("Hm."), say("The \u00e4nswer.")))
    (tmp_path / "old.txt").write_text("before")
    (tmp_path / "old.txt").chmod(0o640)
    (tmp_path / "link.txt").symlink_to("old.txt")
    done = here("run", "Hi", "--out", "link.txt")
    document = here("run", "Hi", "--json", "--out", "new.json")
    printed = here("run", "Hi", "--out", "-", "-q")

    assert (0, "") == done[:2] == document[:2]
    assert done.err.startswith("resume with:")
    assert (tmp_path / "link.txt").is_symlink()
    assert "The \u00e4nswer.\n".encode() == (tmp_path / "old.txt").read_bytes()
    assert 0o640 == stat.S_IMODE((tmp_path / "old.txt").stat().st_mode)
    assert "The \u00e4nswer." == json.loads((tmp_path / "new.json").read_text("utf-8"))["text"]
    assert (0, "The \u00e4nswer.\n", "") == printed
    assert {"home", "link.txt", "new.json", "old.txt"} == {path.name for path in tmp_path.iterdir()} | {"home"}


def test_file_is_unchanged_without_an_answer(here, tenuto_sim, tmp_path):
    tenuto_sim.script(turn(deny(400, times=0)))
    (tmp_path / "old.txt").write_text("before")

    assert 1 == here("run", "Hi", "--out", "old.txt").code
    assert "before" == (tmp_path / "old.txt").read_text()


def test_file_is_unchanged_on_a_full_disk(here, tenuto_sim, tmp_path, monkeypatch):
    """The session has the answer: the hint prints it to the file later."""

    def full(_):
        raise OSError(28, "No space left on device")

    tenuto_sim.script(turn("The answer."))
    (tmp_path / "old.txt").write_text("before")
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        done = here("run", "Hi", "--out", "old.txt")
    command = done.err.partition("it again with: ")[2].splitlines()[0].removeprefix("tenuto ").split()
    assert (1, "", "before") == (*done[:2], (tmp_path / "old.txt").read_text())
    assert "error: cannot write 'old.txt' (unchanged): No space left on device\n" in done.err
    assert ["old.txt"] == [path.name for path in tmp_path.iterdir() if path.is_file()]

    assert (0, "") == here(*command)[:2]
    assert "The answer.\n" == (tmp_path / "old.txt").read_text()


@pytest.mark.parametrize(
    "name, message",
    [
        (".", "it is a directory"),
        ("sub/", "it is a directory"),
        ("nowhere/answer.txt", "does not exist"),
        ("~nobody-of-this-name/x", "cannot be written"),
        ("a\0b", "cannot be written"),
        ("old.txt", "no permission to write"),
        ("new.txt", "no permission to write"),
    ],
)
def test_unusable_file_is_refused_before_a_request(here, tenuto_sim, tmp_path, monkeypatch, name, message):
    (tmp_path / "old.txt").touch()
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    done = here("run", "Hi", "--out", name)

    assert (2, "", True, []) == (*done[:2], message in done.err, tenuto_sim.requests), done.err


@pytest.mark.skipif(sys.platform == "win32", reason="has no named pipes")
def test_named_pipe_is_written_to_and_not_replaced(here, tenuto_sim, tmp_path):
    tenuto_sim.script(turn("The answer."))
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    done = here("run", "Hi", "--out", "pipe")
    reader.join()

    assert (0, "", ["The answer.\n"]) == (*done[:2], received)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


# --- models that agents refuse, or that the catalog does not know -----------------------------------------------------


def test_model_that_is_not_in_the_catalog_is_accepted(here, tenuto_sim):
    tenuto_sim.script(turn("Hello."))
    here("config", "set", "providers.mine.base_url", f"{tenuto_sim.base_url}/v1")

    assert (0, "Hello.\n") == here("run", "Hi", "-m", "mine/any")[:2]


def test_refused_model_is_allowed_and_the_session_stores_that(here, tenuto_sim):
    tenuto_sim.script(turn("Hello."), turn("Still here."))
    here("config", "set", "providers.openai.base_url", f"{tenuto_sim.base_url}/v1")
    here("keys", "set", "openai", stdin="k")
    refused = here("run", "Hi", "-m", "openai/gpt-5.1")
    done = here("run", "Hi", "-m", "openai/gpt-5.1", "--allow-unverified")
    again = here("resume", "last", "And now?")
    kept = here("resume", "last", "And now?", "--allow-unverified")

    assert (2, True) == (refused.code, "or pass --allow-unverified" in refused.err)
    assert (0, "Hello.\n") == done[:2]
    assert (0, "Still here.\n") == again[:2]
    assert (2, True) == (kept.code, "--allow-unverified only applies to new sessions" in kept.err)
