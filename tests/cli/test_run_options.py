"""What `run` says to a model and how, and where the answer goes."""

from __future__ import annotations

import base64
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

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


# --- the model --------------------------------------------------------------------------------------------------------


def test_an_effort_stands_behind_the_model_or_by_itself(here, tenuto_sim):
    """What is typed behind the name wins over what is configured."""
    for how in (["-m", "sim/anthropic:low"], ["-m", "sim/anthropic", "--effort", "low"]):
        assert 0 == here("run", "Hi", *how).code
    both = here("run", "Hi", "-m", "sim/anthropic:low", "--effort", "high")
    first, second = (request.body for request in tenuto_sim.requests)

    assert first == second
    assert "low" in json.dumps(first)
    assert 2 == both.code
    assert "use either -m ...:" in both.err


def test_the_system_prompt_is_a_text_or_a_file(here, tenuto_sim, tmp_path):
    (tmp_path / "role.md").write_text("\ufeffBe a pirate.\n", "utf-8")
    for text in ("@role.md", "@@home", "plain"):
        assert 0 == here("run", "Hi", "-s", text).code
    missing = here("run", "Hi", "-s", "@nowhere.md")
    told = [json.dumps(request.body["system"]) for request in tenuto_sim.requests]

    assert ["Be a pirate.\\n", "@home", "plain"] == [
        text for text, body in zip(("Be a pirate.\\n", "@home", "plain"), told, strict=True) if f'"{text}"' in body
    ]
    assert 2 == missing.code
    assert "-s @nowhere.md: the file cannot be read: No such file" in missing.err


def test_parameters_reach_the_model_and_are_the_sessions_own(here, tenuto_sim):
    tenuto_sim.script(turn("One."), turn("Two."))
    options = ["-o", "temperature=0.25", "-o", 'stop=["END"]', "-o", "top-p=0.5", "-o", "temperature=0.5"]
    here("run", "Hi", "-m", "sim/chat", *options, "--max-tokens", "300")
    here("resume", "last", "More.")

    for body in (request.body for request in tenuto_sim.requests):
        assert (0.5, 0.5, ["END"]) == (body["temperature"], body["top_p"], body["stop"])
        assert 300 in (body.get("max_tokens"), body.get("max_completion_tokens"))


READ = [
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
    ("zzz=1", "known: tool_choice, parallel_tool_calls"),
    ("effort=low", "use --effort"),
    ("max-tokens=5", "use --max-tokens"),
    ("seed=many", "Expected int | null, got str"),
    ("temperature=NaN", "Expected float | null, got str"),
    ("logprobs=1", "Expected bool | null, got"),
    ("thinking=3", "got"),
    ("n=2", "unknown parameter"),
]


@pytest.mark.parametrize("options, expected", READ, ids=[options[0] for options, _ in READ])
def test_a_value_is_json_if_that_fits_and_else_text(options, expected):
    assert expected == parse_parameters(options)


@pytest.mark.parametrize("option, message", REFUSED, ids=[option for option, _ in REFUSED])
def test_a_parameter_that_cannot_be_meant_says_what_can(option, message):
    with pytest.raises(click.UsageError) as refused:
        parse_parameters([option])

    assert message in refused.value.message


@settings(max_examples=60)
@given(st.sampled_from(["temperature", "stop", "user", "metadata", "thinking", "zz", ""]), st.text())
def test_whatever_is_typed_is_read_or_refused(name, text):
    """No other error ever comes of it; and what may be a text is one, whatever it looks like."""
    try:
        read = parse_parameters([f"{name}={text}"])
    except click.UsageError:
        assert name != "user"
    else:
        assert name != "user" or read == {"user": None if text.strip(" \t\r\n") == "null" else _as_text(text)}


def _as_text(text):
    try:
        held = json.loads(text)
    except ValueError:
        return text
    return held if isinstance(held, str) else text


def test_a_parameter_that_is_wrong_is_refused_before_anything_is_asked(here, tenuto_sim):
    done = here("run", "Hi", "-o", "seed=many")

    assert (2, "") == done[:2]
    assert "-o seed=many: Expected int" in done.err
    assert [] == tenuto_sim.requests


# --- what goes along --------------------------------------------------------------------------------------------------


def test_files_go_along_behind_the_words(here, tenuto_sim, tmp_path):
    """As an argument names them, from stdin, and without any words."""
    (tmp_path / "dot.png").write_bytes(PIXEL)
    calls = [
        (["What is it?", "-a", "dot.png"], None),
        (["What is it?", "-a", "-"], PIXEL),
        (["-a", "dot.png"], None),
        (["-", "-a", "dot.png"], "from stdin"),
    ]
    for arguments, stdin in calls:
        assert 0 == here("run", *arguments, stdin=stdin).code
    said = [request.body["messages"][0]["content"] for request in tenuto_sim.requests]

    picture = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PIXEL).decode()}
    assert [["text", "image"], ["text", "image"], ["image"], ["text", "image"]] == [
        [part["type"] for part in parts] for parts in said
    ]
    assert all(picture == parts[-1]["source"] for parts in said)
    assert "from stdin" == said[-1][0]["text"]


def test_stdin_is_the_prompt_or_an_attachment_and_a_file_has_to_be_there(here, tenuto_sim):
    twice, missing = here("run", "-", "-a", "-", stdin="x"), here("run", "Look.", "-a", "nowhere.png")

    assert (2, 2) == (twice.code, missing.code)
    assert "cannot both be stdin" in twice.err
    assert "nowhere.png" in missing.err
    assert [] == tenuto_sim.requests


# --- what is told -----------------------------------------------------------------------------------------------------


def test_what_was_used_is_said_if_that_is_wanted(here, tenuto_sim):
    """However quiet it is to be; and not otherwise, where nobody looks."""
    tenuto_sim.script(turn(call("read_file", {"path": "x"})), turn("Done."))
    used = here("run", "Hi", "-q", "--usage", "-T", "read_file")
    unsaid = here("run", "Hi", "-T", "read_file")

    assert "Done.\n" == used.out
    assert used.err.startswith("sim/anthropic  ")
    assert " in  " in used.err
    assert "sim/anthropic  " not in unsaid.err


def test_a_model_that_was_chosen_for_want_of_a_key_is_named_once_nothing_is_wrong(here, tenuto_sim, monkeypatch):
    monkeypatch.delenv("TENUTO_MODEL")
    for name in os.environ:
        if name.endswith(("_API_KEY", "_TOKEN")):
            monkeypatch.delenv(name)
    done, quiet, wrong = here("run", "Hi"), here("run", "Hi", "-q"), here("run", "Hi", "-o", "x=1")

    assert (0, 0, 2) == (done.code, quiet.code, wrong.code)
    assert "using the simulator" in done.err.splitlines()[0]
    assert "" == quiet.err
    assert "simulator" not in wrong.err


# --- where the answer goes --------------------------------------------------------------------------------------------


def test_the_answer_goes_to_a_file_and_stdout_stays_empty(here, tenuto_sim, tmp_path):
    """In place of what stood there, with its rights; through a link; and the document as well."""
    tenuto_sim.script(turn(think("Hm."), say("The \u00e4nswer.")))
    (tmp_path / "old.txt").write_text("before")
    (tmp_path / "old.txt").chmod(0o640)
    (tmp_path / "link.txt").symlink_to("old.txt")
    done = here("run", "Hi", "--out", "link.txt")
    document = here("run", "Hi", "--json", "--out", "new.json")
    printed = here("run", "Hi", "--out", "-", "-q")

    assert (0, "") == done[:2] == document[:2]
    assert "Hm.\nresume with:" in done.err
    assert (tmp_path / "link.txt").is_symlink()
    assert "The \u00e4nswer.\n".encode() == (tmp_path / "old.txt").read_bytes()
    assert 0o640 == stat.S_IMODE((tmp_path / "old.txt").stat().st_mode)
    assert "The \u00e4nswer." == json.loads((tmp_path / "new.json").read_text("utf-8"))["text"]
    assert (0, "The \u00e4nswer.\n", "") == printed
    assert {"home", "link.txt", "new.json", "old.txt"} == {path.name for path in tmp_path.iterdir()} | {"home"}


def test_without_an_answer_the_file_is_as_it_was(here, tenuto_sim, tmp_path):
    tenuto_sim.script(turn(deny(400, times=0)))
    (tmp_path / "old.txt").write_text("before")
    done = here("run", "Hi", "--out", "old.txt")

    assert 1 == done.code
    assert "before" == (tmp_path / "old.txt").read_text()


@pytest.mark.parametrize(
    "name, why",
    [
        (".", "it is a folder"),
        ("sub/", "it names no file"),
        ("nowhere/answer.txt", "there is no folder"),
        ("~nobody-of-this-name/x", "cannot be written"),
        ("a\0b", "cannot be written"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_asked(here, tenuto_sim, name, why):
    done = here("run", "Hi", "--out", name)

    assert (2, "") == done[:2]
    assert why in done.err
    assert [] == tenuto_sim.requests


def test_a_file_that_cannot_be_written_to_its_end_leaves_what_was_there(here, tenuto_sim, tmp_path, monkeypatch):
    """The answer is kept, and what is printed gets it."""

    def full(_):
        raise OSError(28, "No space left on device")

    tenuto_sim.script(turn("The answer."))
    (tmp_path / "old.txt").write_text("before")
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        done = here("run", "Hi", "--out", "old.txt")
    command = done.err.partition("it again with: ")[2].splitlines()[0].removeprefix("tenuto ").split()
    again = here(*command)

    assert (1, "") == done[:2]
    assert "error: cannot write 'old.txt' (unchanged): No space left on device\n" in done.err
    assert ["old.txt"] == [path.name for path in tmp_path.iterdir() if path.is_file()]
    assert (0, "", "The answer.\n") == (*again[:2], (tmp_path / "old.txt").read_text())


@pytest.mark.skipif(sys.platform == "win32", reason="has no pipes with names")
def test_what_is_no_plain_file_is_written_to_and_never_replaced(here, tenuto_sim, tmp_path):
    """A pipe here, and not a device: were it replaced after all, nobody else would miss it."""
    tenuto_sim.script(turn("The answer."))
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    done = here("run", "Hi", "--out", "pipe")
    reader.join()

    assert (0, "", ["The answer.\n"]) == (*done[:2], read)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_what_may_not_be_written_is_refused_at_once(here, tenuto_sim, tmp_path, monkeypatch):
    """An administrator may do everything, so that nobody may is made up here."""
    monkeypatch.setattr("os.access", lambda *_: False)
    (tmp_path / "old.txt").write_text("before")
    old, new = here("run", "Hi", "--out", "old.txt"), here("run", "Hi", "--out", "new.txt")

    assert (2, 2) == (old.code, new.code)
    assert "it may not be written" in old.err
    assert "nothing may be written in the folder" in new.err
    assert [] == tenuto_sim.requests


# --- models that agents refuse, or that the catalog does not know ------------------------------------------------------


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


def test_command_reports_each_loss_once(here, tenuto_sim, caplog):
    """As a note of its own, and not as a log line besides."""
    tenuto_sim.script(turn(say("Hi.")))
    done = here("run", "Hi", "-o", "seed=4")

    assert done.err.count("seed") == 1
    assert [record for record in caplog.records if record.name == "tenuto"] == []
