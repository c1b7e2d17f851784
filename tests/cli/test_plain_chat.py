"""A chat without line editing: messages of several lines."""

from __future__ import annotations

import json


def test_messages_of_several_lines(here, tenuto_sim):
    lines = ["one \\", "two", '"""', "/help", "", "exit", '"""', "C:\\\\", "/usage"]
    done = here("chat", "-q", stdin="".join(f"{line}\n" for line in lines))
    document = json.loads(here("show", "--json").out)
    added = [entry["body"]["message"] for entry in document["entries"] if entry["kind"] == "message_added"]

    assert (done.code, "unknown command" in done.err) == (0, False)
    assert [json.dumps(message).count("\\n") for message in added] == [1, 2, 0]
    assert [word in json.dumps(added) for word in ("one \\n", "/help\\n\\nexit")] == [True, True]


def test_input_that_ends_in_a_message_sends_it(here, tenuto_sim):
    for stdin in ('"""\nlast words\n', "last\\\nwords", "last\\"):
        done = here("chat", "-q", stdin=stdin)

        assert (done.code, done.out.startswith("last")) == (0, True)


def test_dumb_terminal_has_a_continuation_prompt(tenuto):
    tenuto.env["TERM"] = "dumb"
    terminal = tenuto.terminal("chat", "-q")
    terminal.expect("you> ")
    terminal.type("one \\\n")
    terminal.expect(r"\.\.\.> ")
    terminal.type("two\n")
    terminal.expect(r"one \r?\n+two")
    terminal.type("\x04")

    assert terminal.end()[0] == 0
