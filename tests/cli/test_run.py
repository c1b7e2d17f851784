"""`run` and `resume` where nothing is a terminal: what stands on stdout, what on stderr, and the code."""

from __future__ import annotations

import json
import re

import pytest

from tenuto.testing import call, cut, deny, refuse, say, stall, stop, think, turn

TOOLS = '''
from pathlib import Path

from tenuto import AsyncAgent, tool

@tool
def dig(depth: int) -> str:
    """Dig."""
    print("noise")
    return f"{depth} m deep"

@tool(approval=True)
def blast(where: str) -> str:
    """Blast."""
    Path("blasted").write_text(where)
    return "\\x1b[31mboom\\n" * 3

helper = AsyncAgent("sim/anthropic", tools=[blast]).as_tool("helper")
'''


@pytest.fixture
def tools(module):
    return module(TOOLS)


def hint(err):
    """The session that the command says to resume."""
    return re.search(r"tenuto resume (\S+)", err)[1]


def test_the_answer_is_on_stdout_and_everything_else_on_stderr(here, tenuto_sim):
    tenuto_sim.script(turn(think("Let me see."), say(["It is ", "four."])))
    done = here("run", "2 + 2?", "--show-thinking")

    assert (0, "It is four.\n") == done[:2]
    assert re.fullmatch(r"Let me see\.\nresume with: tenuto resume 01\w{10}\n", done.err)
    tenuto_sim.assert_clean()


@pytest.mark.parametrize(
    "option, err", [("-q", r""), ("--hide-thinking", r"resume with: .*\n"), ("--json", r"")], ids=str
)
def test_what_is_not_wanted_is_not_said(here, tenuto_sim, option, err):
    tenuto_sim.script(turn(think("Let me see."), say("Four.")))
    done = here("run", "2 + 2?", option)

    assert re.fullmatch(err, done.err)


def test_what_is_piped_in_goes_along(here, tenuto_sim):
    """After the prompt and a blank line; instead of it; and nothing if stdin is empty."""
    tenuto_sim.script(turn("One."))
    for arguments, stdin in ((["Sum up:"], "a\nb\n"), (["-"], "from stdin"), ([], "alone"), (["Hi"], "")):
        assert (0, "One.\n") == here("run", *arguments, stdin=stdin)[:2]
    said = [request.body["messages"][0]["content"] for request in tenuto_sim.requests]

    assert [["Sum up:\n\na\nb\n"], ["from stdin"], ["alone"], ["Hi"]] == [texts(content) for content in said]


def texts(content):
    return [content] if isinstance(content, str) else [part["text"] for part in content]


@pytest.mark.parametrize(
    "stdin, message",
    [(b"\x89PN\xff", "not UTF-8 text"), (b"x" * 11, "stdin is too large: the limit is")],
    ids=["no text", "large"],
)
def test_unusable_stdin_is_refused_before_a_request(here, tenuto_sim, monkeypatch, stdin, message):
    monkeypatch.setattr("tenuto.cli.session.prompt_input._MAX_BYTES", 10)
    done = here("run", "Sum up:", stdin=stdin)

    assert (done.code, message in done.err) == (2, True)
    assert not tenuto_sim.requests


def test_a_tool_is_called_and_its_result_is_seen(here, tenuto_sim, tools):
    """What the model says before it calls a tool is not the answer."""
    tenuto_sim.script(turn("I shall dig.", call("dig", {"depth": 3})), turn("Done."))
    done = here("run", "Dig!", "-T", f"{tools}:dig", "-s", "Be brief.", "--effort", "low", "--max-tokens", "2000")

    assert (0, "Done.\n") == done[:2]
    assert ["I shall dig.", "> dig depth=3", "noise", "< dig: 3 m deep"] == done.err.splitlines()[:4]
    assert "Be brief." in json.dumps(tenuto_sim.requests[0].body["system"])
    assert 2000 == tenuto_sim.requests[0].body["max_tokens"]
    tenuto_sim.assert_clean()


def test_builtin_tools_work_in_the_folder_and_are_on_again_when_resumed(here, tenuto_sim, tmp_path, monkeypatch):
    """The model, the system prompt and the builtin tools are those of the session."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "note.txt").write_text("the note")
    read = call("read_file", {"path": "note.txt"})
    tenuto_sim.script(turn(read), turn("Read."), turn(read), turn("Again."))
    first = here("run", "Read.", "-T", "read_file", "-T", "list_files", "--root", "deep", "-m", "sim/openai")
    monkeypatch.setenv("HOME", str(tmp_path))
    second = here("resume", hint(first.err), "Once more.", "--root", "~/deep")

    assert [(0, "Read.\n"), (0, "Again.\n")] == [first[:2], second[:2]]
    assert "the note" in second.err
    assert first.err.endswith(" --root deep\n")
    assert ["read_file", "list_files"] == [tool["name"] for tool in tenuto_sim.requests[-1].body["tools"]]
    tenuto_sim.assert_clean()


def test_without_a_terminal_a_call_waits_and_can_be_allowed_later(here, tenuto_sim, tools, tmp_path):
    """Exit code 6 both times, and nothing is written the second time; then it runs, and its output is not obeyed."""
    tenuto_sim.script(turn(call("blast", {"where": "here"})), turn("Blasted."))
    first = here("run", "Go!", "-T", f"{tools}:blast")
    again = here("resume", "last", "-T", f"{tools}:blast")
    entries = len(json.loads(here("show", "--json").out)["entries"])
    assert (6, "", 6, "") == (*first[:2], *again[:2])
    assert "  blast: where: here\n" in first.err
    assert not (tmp_path / "blasted").exists()

    done = here(*re.search(r"allow it with: tenuto (.*)", first.err)[1].split())

    assert (0, "Blasted.\n") == done[:2]
    assert r"< blast: \x1b[31mboom (3 lines)" in done.err
    assert "here" == (tmp_path / "blasted").read_text()
    assert 7 == entries


def test_a_call_that_is_never_allowed_is_answered(here, tenuto_sim, tools, tmp_path):
    tenuto_sim.script(turn(call("blast", {"where": "here"})), turn("Then not."))
    done = here("run", "Go!", "-T", f"{tools}:blast", "--approve", "never")
    later = here("resume", "-T", f"{tools}:blast", "--json")

    assert (6, "Then not.\n") == done[:2]
    assert "! blast [denied]: blast was not run: denied by --approve never" in done.err
    assert 'denied: blast where="here"\nresume with: ' in done.err
    assert not (tmp_path / "blasted").exists()
    assert (0, []) == (later.code, json.loads(later.out)["denied"])


def test_what_is_typed_beforehand_decides_about_calls(here, tenuto_sim, tools, tmp_path):
    """A denial holds for a tool that needs nobody's word, an allowance for one that does; the rest waits."""
    dig, blast = call("dig", {"depth": 3}), call("blast", {"where": "here"})
    tenuto_sim.script(turn(dig, blast), turn("So be it."), turn(blast))
    own = ("-T", f"{tools}:dig", "-T", f"{tools}:blast")
    decided = here("run", "Go!", *own, "--allow", "blast(here)", "--deny", "dig", "--json")
    undecided = here("run", "-c", "Again!", *own, "--allow", "blast(there)", "--json")

    assert (6, [("dig", '{"depth":3}')]) == (decided.code, named(json.loads(decided.out)["denied"]))
    assert "here" == (tmp_path / "blasted").read_text()
    assert (6, "waiting") == (undecided.code, json.loads(undecided.out)["status"])
    assert ["blast"] == [name for name, _ in named(json.loads(undecided.out)["pending"])]


def named(calls):
    return [(one["name"], one["arguments"].replace(" ", "")) for one in calls]


def test_no_tools_removes_those_of_the_settings(here, tenuto_sim):
    here("config", "set", "tools", "read_file")
    for arguments, tools in (([], ["read_file"]), (["--no-tools"], []), (["--no-tools", "-T", "shell"], ["shell"])):
        here("run", "Hi", *arguments)
        assert tools == [tool["name"] for tool in tenuto_sim.requests[-1].body.get("tools", ())]


def test_missing_tool_is_named_if_a_call_needs_it(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("blast", {"where": "here"})), turn("Done."), turn("Bye."))
    here("run", "Go!", "-T", f"{tools}:blast")
    without = here("resume", "last", "--approve", "auto")
    given = here("resume", "last", "--approve", "auto", "-T", f"{tools}:blast")

    assert 2 == without.code
    assert f"a tool that is not loaded: blast\n  add -T {tools}:blast" in without.err
    assert (0, "Done.\n") == given[:2]
    assert (0, "Bye.\n") == here("resume", "last", "Bye!")[:2]  # no call needs it any more


def test_a_sub_agent_is_seen_and_its_calls_wait_too(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("helper", {"prompt": "help"})), turn("Helped."), when="please")
    tenuto_sim.script(turn(call("blast", {"where": "here"})), turn("Here."), when="help")
    first = here("run", "please", "-T", f"{tools}:helper")
    done = here("resume", hint(first.err), "-T", f"{tools}:helper", "--approve", "auto")

    assert (6, "") == first[:2]
    assert "  blast: where: here\n" in first.err
    assert (0, "Helped.\n") == done[:2]
    assert '    helper: > blast where="here"\n    helper: < blast: ' in done.err
    assert "< helper: Here." in done.err
    tenuto_sim.assert_clean()


def test_a_limit_ends_the_run_and_more_room_lets_it_go_on(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("dig", {"depth": 1})), turn("Done."))
    first = here("run", "Dig!", "-T", f"{tools}:dig", "--max-turns", "1", "--json")
    told, (stored,) = json.loads(first.out), json.loads(here("sessions", "--json").out)

    assert (5, 5, "LimitReached") == (first.code, told["exit_code"], told["error"]["type"])
    assert ("waiting", "limit") == (told["status"], told["waiting_for"]) == (stored["status"], stored["waiting_for"])
    assert "error: limit reached: 1 turns of 1 are used" in first.err
    for arguments, shown in (
        (["sessions"], "  waiting (limit)  "),
        (["show", "last"], "waiting (limit), sim/"),
        (["show", "last"], "[waiting (limit): turns]"),
        (["export", "last", "--format", "md"], "Ended: waiting (limit): turns"),
    ):
        assert shown in here(*arguments).out
    assert (0, "Done.\n") == here("resume", "last", "-T", f"{tools}:dig")[:2]


def test_a_run_that_takes_too_long_is_ended(here, tenuto_sim):
    tenuto_sim.script(turn(stall(times=1), say("At last.")))
    late, later = here("run", "Hi", "--timeout", "0.3"), here("resume")

    assert (5, "") == late[:2]
    assert "more than 0.3 s" in late.err
    assert (0, "At last.\n") == later[:2]


def test_a_reply_that_broke_off_is_not_in_the_answer(here, tenuto_sim):
    """Off a terminal nothing is printed that is void; that it is asked again is said."""
    tenuto_sim.script(turn(say(["Half of ", "it"]), cut(), say(" and all of it.")))
    done = here("run", "Say it.")

    assert (0, "Half of it and all of it.\n") == done[:2]
    assert "ignore the text above" not in done.err
    assert re.search(r"! [a-z ]+: .*; retrying in \d", done.err)


def test_a_provider_that_stays_busy_is_code_4(here, tenuto_sim):
    tenuto_sim.script(turn(deny(429, retry_after=0.01, times=0), say("never")))
    done = here("run", "Hi")

    assert (4, "") == done[:2]
    assert "gave up after 5 attempts; wait, then resume" in done.err
    assert "resume with:" in done.err


def test_an_answer_that_was_cut_off_or_refused_says_so(here, tenuto_sim):
    tenuto_sim.script(turn(say("A long"), stop("length")), turn(refuse("I won't.")))
    cut_off, silent = here("run", "Go on for ever.", "-q"), here("resume", "last", "Do harm.", "-q")
    tenuto_sim.script(turn(refuse("I won't.")))
    refused = here("run", "Do harm.", "-q", "-m", "sim/openai")

    assert cut_off[:2] == (5, "A long\n")
    assert "answer truncated (max tokens)" in cut_off.err
    assert silent[:2] == (1, "")
    assert "answer blocked by the provider" in silent.err
    assert refused[:2] == (1, "I won't.\n")


def test_owing_nothing_the_last_answer_is_printed(here, tenuto_sim):
    tenuto_sim.script(turn("The answer."))
    here("run", "Hi")
    done = here("resume")

    assert (0, "The answer.\n") == done[:2]
    assert done.err.startswith("nothing to do; last answer:\n")
    assert 1 == len(tenuto_sim.requests)


def test_what_a_program_reads_is_the_answer_as_it_is(here, tenuto_sim):
    """Escapes are for terminals; what is thought stands on stderr, and is spelt out everywhere."""
    tenuto_sim.script(turn(think("\x1b[2Jhidden"), say("\x1b[31mred\u202e")))
    done = here("run", "Hi", "--show-thinking")

    assert "\x1b[31mred\u202e\n" == done.out
    assert done.err.startswith(r"\x1b[2Jhidden")


def test_the_document_has_all_of_it(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("blast", {"where": "here"})), turn("Done."))
    waiting = json.loads(here("run", "Go!", "-T", f"{tools}:blast", "--json").out)
    done = json.loads(here("resume", waiting["session"], "-T", f"{tools}:blast", "--approve", "auto", "--json").out)

    assert ("waiting", "", 6) == (waiting["status"], waiting["text"], waiting["exit_code"])
    assert [("blast", {"where": "here"})] == [(one["name"], json.loads(one["arguments"])) for one in waiting["pending"]]
    assert ("completed", "Done.", "stop", None, [], 0) == tuple(
        done[name] for name in ("status", "text", "stop_reason", "error", "losses", "exit_code")
    )
    assert done["session"] == waiting["session"]
    assert [*done["usage"]][-1] == "total_tokens"
    assert done["usage"]["output_tokens"] > waiting["usage"]["output_tokens"] > 0
    assert 0 == done["cost"]


def test_named_variables_reach_commands(here, tenuto_sim, monkeypatch):
    monkeypatch.setenv("TENUTO_PASS_ENV", "SEEN, ALSO_*")
    for name in ("SEEN", "ALSO_SEEN", "HIDDEN"):
        monkeypatch.setenv(name, "yes")
    tenuto_sim.script(turn(call("shell", {"command": "env"})), turn(say("Done.")))
    here("run", "Go", "-T", "shell", "--approve", "auto")

    shown = json.dumps(tenuto_sim.requests[-1].body)
    assert "SEEN=yes" in shown
    assert "ALSO_SEEN=yes" in shown
    assert "HIDDEN=yes" not in shown
