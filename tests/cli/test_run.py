"""`run` and `resume` without a terminal: stdout, stderr, the exit code, --schema and --jsonl."""

from __future__ import annotations

import json
import re
import stat

import pytest

from tenuto.cli.options import parse_parameters
from tenuto.core.request import NamedTool, Thinking
from tenuto.testing import call, cut, deny, refuse, say, stall, stop, think, turn


def entries(here):
    return json.loads(here("show", "--json").out)["entries"]


def hint(err):
    """Return the session of the hint."""
    return re.search(r"tenuto resume (\S+)", err)[1]


@pytest.mark.parametrize(
    "option, err",
    [
        ("--show-thinking", r"Let me see\.\nresume with: tenuto resume 01\w{10}\n"),
        ("--hide-thinking", r"resume with: .*\n"),
        ("-q", ""),
        ("--json", ""),
    ],
)
def test_stdout_has_the_answer_only(here, tenuto_sim, option, err):
    tenuto_sim.script(turn(think("Let me see."), say(["It is ", "four."])))
    done = here("run", "2 + 2?", option)

    assert 0 == done.code
    assert "It is four." == (json.loads(done.out)["text"] if option == "--json" else done.out.rstrip("\n"))
    assert re.fullmatch(err, done.err)
    tenuto_sim.assert_clean()


def test_stdin_is_appended_to_the_prompt(here, tenuto_sim, monkeypatch):
    """After the prompt and a blank line, or instead of it; up to a limit."""
    for arguments, stdin in ((["Sum up:"], "a\nb\n"), (["-"], "from stdin"), ([], "alone"), (["Hi"], "")):
        assert 0 == here("run", *arguments, stdin=stdin).code
    contents = [request.body["messages"][0]["content"] for request in tenuto_sim.requests]
    texts = [content if isinstance(content, str) else content[0]["text"] for content in contents]
    monkeypatch.setattr("tenuto.cli.session.prompt_input._MAX_BYTES", 10)
    large = here("run", "Sum up:", stdin=b"x" * 11)

    assert ["Sum up:\n\na\nb\n", "from stdin", "alone", "Hi"] == texts
    assert (2, True, 4) == (large.code, "stdin is too large: the limit is" in large.err, len(tenuto_sim.requests))


BUSY = turn(deny(429, retry_after=0.01, times=0), say("never"))
RED = " and \x1b[31mred\u202e"
SCENES = [
    ([turn(say(["Half", " it"]), cut(), say(RED))], [], 0, f"Half it{RED}\n", r"! [a-z ]+: .*; retrying in \d"),
    ([turn(say("A long"), stop("length"))], [], 5, "A long\n", r"answer truncated \(max tokens\)"),
    ([turn(refuse("I won't."))], [], 1, "", "answer blocked by the provider"),
    ([turn(refuse("I won't."))], ["-m", "sim/openai"], 1, "I won't.\n", "resume with:"),
    ([BUSY], [], 4, "", r"gave up after 5 attempts; wait, then resume(.|\n)*resume with:"),
    (
        [turn(say("I dig."), call("dig", {"depth": 3})), turn("Done.")],
        [],
        0,
        "Done.\n",
        "I dig.\n> dig depth=3\nnoise\n< dig: 3",
    ),
    (
        [turn(call("blast", {"where": "\x1b"})), turn("Then not.")],
        *(["--approve", "never"], 6, "Then not.\n"),
        r"denied by --approve never(.|\n)*denied: blast where=.*\\x1b.*\nresume with: ",
    ),
    ([turn("Done.")], ["--usage"], 0, "Done.\n", r"^sim/anthropic  \d+ in  "),
]


@pytest.mark.parametrize("turns, options, code, answer, message", SCENES)
def test_run_ends_with_answer_code_and_message(here, tenuto_sim, tools, turns, options, code, answer, message):
    tenuto_sim.script(*turns)
    done = here("run", "Go!", "-T", "tools:dig", "-T", "tools:blast", *options)

    assert (code, answer) == done[:2]
    assert re.search(message, done.err), done.err


def test_resume_continues_and_repeats_the_answer(here, tenuto_sim):
    """After a timeout; with nothing left to do, the last answer is printed again."""
    tenuto_sim.script(turn(stall(times=1), say("At last.")))
    late, later, again = here("run", "Hi", "--timeout", "0.3"), here("resume"), here("resume")

    assert (5, "", True) == (*late[:2], "more than 0.3 s" in late.err)
    assert (0, "At last.\n") == later[:2] == again[:2]
    assert again.err.startswith("nothing to do; last answer:\n")
    assert 2 == len(tenuto_sim.requests)


def test_run_stops_at_a_limit(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("dig", {"depth": 1})), turn("Done."))
    first = here("run", "Go!", "-T", "tools:dig", "--max-turns", "1", "--json")
    document = json.loads(first.out)

    assert (5, 5, "LimitReached") == (first.code, document["exit_code"], document["error"]["type"])
    assert ("waiting", "limit") == (document["status"], document["waiting_for"])
    assert "error: limit reached: 1 turns of 1 are used" in first.err
    for arguments, shown in (
        (["sessions"], "  waiting (limit)  "),
        (["show", "last"], "waiting (limit), sim/"),
        (["show", "last"], "[waiting (limit): turns]"),
        (["export", "last", "--format", "md"], "Ended: waiting (limit): turns"),
    ):
        assert shown in here(*arguments).out
    assert (0, "Done.\n") == here("resume", "last", "-T", "tools:dig")[:2]


def test_json_document_has_all_results(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("blast", {"where": "here"})), turn("Done."))
    waiting = json.loads(here("run", "Go!", "-T", "tools:blast", "--json").out)
    done = json.loads(here("resume", waiting["session"], "-T", "tools:blast", "--approve", "auto", "--json").out)

    assert ("waiting", "", 6) == (waiting["status"], waiting["text"], waiting["exit_code"])
    assert [("blast", {"where": "here"})] == [(one["name"], json.loads(one["arguments"])) for one in waiting["pending"]]
    results = ("status", "text", "stop_reason", "error", "losses", "exit_code", "cost")
    assert ("completed", "Done.", "stop", None, [], 0, 0) == tuple(done[name] for name in results)
    assert done["session"] == waiting["session"]
    assert "total_tokens" == [*done["usage"]][-1]
    assert done["usage"]["output_tokens"] > waiting["usage"]["output_tokens"] > 0


def test_builtin_tools_are_enabled_again_when_resumed(here, tenuto_sim, tmp_path, monkeypatch):
    """The model and the builtin tools are those of the session."""
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


def test_call_waits_without_a_terminal_and_can_be_allowed(here, tenuto_sim, tools):
    """The second run without an answer writes nothing; results are escaped; a missing tool is named."""
    tenuto_sim.script(turn(call("blast", {"where": "\x1b[31mhere"})), turn("Blasted."), turn("Bye."))
    first = here("run", "Go!", "-T", "tools:blast")
    again = here("resume", "last", "-T", "tools:blast")
    without = here("resume", "last", "--approve", "auto")

    assert (6, "", 6, "") == (*first[:2], *again[:2])
    assert "  blast: where: \\x1b[31mhere\n" in first.err
    assert 7 == len(entries(here))
    assert 2 == without.code
    assert "a tool that is not loaded: blast\n  add -T tools:blast" in without.err
    done = here(*re.search(r"allow it with: tenuto (.*)", first.err)[1].split())
    assert (0, "Blasted.\n") == done[:2]
    assert r"< blast: \x1b[31mhere is gone" in done.err
    assert (0, "Bye.\n") == here("resume", "last", "Bye!")[:2]  # no call needs the tool


def test_allow_and_deny_decide_about_calls(here, tenuto_sim, tools):
    """A denial also holds for a tool that needs no approval; the rest waits."""
    dig, blast = call("dig", {"depth": 3}), call("blast", {"where": "here"})
    tenuto_sim.script(turn(dig, blast), turn("So be it."), turn(blast))
    own = ("-T", "tools:dig", "-T", "tools:blast")
    decided = json.loads(here("run", "Go!", *own, "--allow", "blast(here)", "--deny", "dig", "--json").out)
    undecided = json.loads(here("run", "-c", "Again!", *own, "--allow", "blast(there)", "--json").out)

    assert (6, ["dig"]) == (decided["exit_code"], [one["name"] for one in decided["denied"]])
    assert "here is gone" in here("show").out
    assert (6, "waiting") == (undecided["exit_code"], undecided["status"])
    assert ["blast"] == [one["name"] for one in undecided["pending"]]


def test_no_tools_removes_those_of_the_settings(here, tenuto_sim):
    here("config", "set", "tools", "read_file")
    for arguments, tools in (([], ["read_file"]), (["--no-tools"], []), (["--no-tools", "-T", "shell"], ["shell"])):
        here("run", "Hi", *arguments)
        assert tools == [tool["name"] for tool in tenuto_sim.requests[-1].body.get("tools", ())]


def test_sub_agent_is_shown_and_its_calls_wait(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("helper", {"prompt": "help"})), turn("Helped."), when="please")
    tenuto_sim.script(turn(call("blast", {"where": "here"})), turn("Here."), when="help")
    first = here("run", "please", "-T", "tools:helper")
    done = here("resume", hint(first.err), "-T", "tools:helper", "--approve", "auto")

    assert (6, "", True) == (*first[:2], "  blast: where: here\n" in first.err)
    assert (0, "Helped.\n") == done[:2]
    assert "\n    helper: < blast: here is gone\n" in done.err


def test_named_variables_reach_commands(here, tenuto_sim, monkeypatch):
    monkeypatch.setenv("TENUTO_PASS_ENV", "SEEN, ALSO_*")
    for name in ("SEEN", "ALSO_SEEN", "HIDDEN"):
        monkeypatch.setenv(name, "yes")
    tenuto_sim.script(turn(call("shell", {"command": "env"})), turn(say("Done.")))
    here("run", "Go", "-T", "shell", "--approve", "auto")

    shown = json.dumps(tenuto_sim.requests[-1].body)
    assert [True, True, False] == [f"{name}=yes" in shown for name in ("SEEN", "ALSO_SEEN", "HIDDEN")]


SENT = [
    (["-m", "sim/anthropic:low"], "", "low"),
    (["-m", "sim/anthropic", "--effort", "low"], "", "low"),
    (["--max-tokens", "2000"], "max_tokens", "2000"),
    (["-s", "@role.md"], "system", '"Be a pirate.\\n"'),
    (["-s", "@@home"], "system", '"@home"'),
    (["-s", "plain"], "system", '"plain"'),
]


@pytest.mark.parametrize("arguments, field, sent", SENT)
def test_option_reaches_the_model(here, tenuto_sim, tmp_path, arguments, field, sent):
    (tmp_path / "role.md").write_text("\ufeffBe a pirate.\n", "utf-8")

    assert 0 == here("run", "Hi", *arguments).code
    body = tenuto_sim.requests[0].body
    assert sent in json.dumps(body[field] if field else body)


def test_parameters_are_stored_with_the_session(here, tenuto_sim):
    options = ["-o", "temperature=0.25", "-o", 'stop=["END"]', "-o", "top-p=0.5", "-o", "temperature=0.5"]
    done = here("run", "Hi", "-m", "sim/chat", *options, "-o", "seed=4", "--max-tokens", "300")
    here("resume", "last", "More.")

    for body in (request.body for request in tenuto_sim.requests):
        assert (0.5, 0.5, ["END"]) == (body["temperature"], body["top_p"], body["stop"])
        assert 300 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    assert "seed" not in done.err
    assert 1 == here("run", "Hi", "-o", "seed=4").err.count("seed")  # a loss is reported once


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


@pytest.mark.parametrize("options, expected", PARAMETERS, ids=[options[0] for options, _ in PARAMETERS])
def test_parameter_is_json_if_that_fits_else_text(options, expected):
    assert expected == parse_parameters(options)


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

    assert (2, True) == (refused.code, "or pass --allow-unverified" in refused.err)
    assert (0, "Hello.\n") == done[:2]
    assert (0, "Still here.\n") == here("resume", "last", "And now?")[:2]


def test_answer_replaces_a_file_and_keeps_its_mode(here, tenuto_sim, tmp_path):
    """Through a link; documents of --json and --schema go to files too; - is stdout."""
    answer = '{"city": "Malm\u00f6"}'
    tenuto_sim.script(turn(think("Hm."), say(answer)))
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    (tmp_path / "old.txt").write_text("before")
    (tmp_path / "old.txt").chmod(0o640)
    (tmp_path / "link.txt").symlink_to("old.txt")
    done = here("run", "Hi", "--out", "link.txt")

    assert (0, "", True) == (*done[:2], done.err.startswith("resume with:"))
    assert (tmp_path / "link.txt").is_symlink()
    assert f"{answer}\n".encode() == (tmp_path / "old.txt").read_bytes()
    assert 0o640 == stat.S_IMODE((tmp_path / "old.txt").stat().st_mode)
    assert (0, "") == here("run", "Hi", "--json", "--out", "new.json")[:2]
    assert answer == json.loads((tmp_path / "new.json").read_text("utf-8"))["text"]
    assert (0, "") == here("run", "Hi", "--schema", "schema.json", "--out", "shape.json")[:2]
    assert json.loads(answer) == json.loads((tmp_path / "shape.json").read_text("utf-8"))
    assert (0, f"{answer}\n", "") == here("run", "Hi", "--out", "-", "-q")
    assert 5 == len(list(tmp_path.iterdir()))


def test_file_is_unchanged_without_an_answer(here, tenuto_sim, tmp_path, monkeypatch):
    """After an error, and on a full disk: the hint prints the answer to the file later."""

    def full(_):
        raise OSError(28, "No space left on device")

    tenuto_sim.script(turn(deny(400, times=1), say("The answer.")))
    (tmp_path / "old.txt").write_text("before")
    assert 1 == here("run", "Hi", "--out", "old.txt").code
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        done = here("run", "Hi", "--out", "old.txt")
    command = done.err.partition("it again with: ")[2].splitlines()[0].removeprefix("tenuto ").split()
    assert (1, "", "before") == (*done[:2], (tmp_path / "old.txt").read_text())
    assert "error: cannot write 'old.txt' (unchanged): No space left on device\n" in done.err
    assert ["old.txt"] == [path.name for path in tmp_path.iterdir() if path.is_file()]

    assert (0, "") == here(*command)[:2]
    assert "The answer.\n" == (tmp_path / "old.txt").read_text()


CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
TYPES = """
import msgspec

class City(msgspec.Struct):
    name: str
    people: int
"""


@pytest.fixture
def city(tmp_path, module):
    """A file with a schema, and a module with the type."""
    (tmp_path / "city.json").write_text(json.dumps(CITY))
    return module(TYPES)


def test_answer_that_fits_a_schema_is_unchanged(here, tenuto_sim, city):
    """The request has the schema if the provider accepts one; a type equals a file."""
    written = '{"name": "Oslo",\n "people": 717710}'
    tenuto_sim.script(turn(think("Hm."), say(written)))
    file, kind = here("run", "Which?", "--schema", "city.json"), here("run", "Which?", "--schema", f"{city}:City", "-q")
    told = json.loads(here("run", "Which?", "--schema", "city.json", "--json").out)

    assert (0, f"{written}\n") == file[:2] == kind[:2]
    assert file.err.startswith("resume with")
    assert (written, {"name": "Oslo", "people": 717710}) == (told["text"], told["data"])
    assert all("people" in json.dumps(request.body["output_config"]) for request in tenuto_sim.requests)
    tenuto_sim.assert_clean()


UNFIT = [
    (say('{"name": "Oslo", "people": -1}'), "/people: expected at least 0, got number -1"),
    (say('{"people": "many"}'), '/people: expected integer, got string "many"; (root): property "name" is missing'),
    (say("It is Oslo."), "not JSON: "),
    (refuse("I won't."), "the model refused"),
]


@pytest.mark.parametrize("step, where", UNFIT, ids=["limit", "several", "words", "refusal"])
def test_answer_that_does_not_fit_names_the_place(here, tenuto_sim, city, step, where):
    tenuto_sim.script(turn(step))
    done = here("run", "Which?", "--schema", "city.json", "-m", "sim/openai")
    told = here("run", "Which?", "--schema", "city.json", "-m", "sim/openai", "--json")
    document = json.loads(told.out)

    assert 8 == done.code == told.code == document["exit_code"]
    assert f"{document['text']}\n" == done.out
    assert "error: the answer does not fit the schema" in done.err
    assert where in done.err
    assert (None, "SchemaMismatch", "completed") == (document["data"], document["error"]["type"], document["status"])
    assert "resume with: tenuto resume 01" in done.err


def test_continued_session_gets_the_schema_in_words(here, tenuto_sim, city):
    """Its configuration does not change; one that started with the schema needs no words."""
    tenuto_sim.script(turn("Hello."), turn('{"name": "Oslo", "people": 1}'))
    here("run", "Hi")
    told = here("resume", "last", "Which?", "--schema", "city.json", "-q")
    tenuto_sim.script(turn('{"name": "Oslo", "people": 1}'), turn('{"name": "Bergen"}'))
    here("run", "Which?", "--schema", "city.json")
    again = here("run", "-c", "And?", "--schema", f"{city}:City")
    later = here("resume", "--schema", "city.json")
    words = ["Respond ONLY" in json.dumps(request.body["messages"][-1]) for request in tenuto_sim.requests]

    assert (0, '{"name": "Oslo", "people": 1}\n') == told[:2]
    assert [False, True, False] == words[:3]
    assert (2, "") == again[:2]  # the type's schema is another one: it has a title
    assert "started with another schema" in again.err
    assert (0, '{"name": "Oslo", "people": 1}\n') == later[:2]


def lines_of(done):
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.mark.parametrize("model", ["anthropic", "openai", "gemini", "chat"])
def test_jsonl_has_each_event_whole(here, tenuto_sim, tools, model):
    text = "A sentence that occurs nowhere else."
    tenuto_sim.script(turn(think("Hm."), say("I dig."), call("dig", {"depth": 12345})), turn(say(text)))
    done = here("run", "Dig!", "-T", "tools:dig", "-m", f"sim/{model}", "--jsonl")
    lines = lines_of(done)
    *events, result = lines
    stored = json.loads(here("show", "--json").out)["entries"]
    replies = [entry["body"]["message"]["blocks"] for entry in stored if entry["kind"] == "reply_received"]
    done_lines = [line for line in events if line["type"] == "message.done"]

    assert (0, "noise\n") == (done.code, done.err)
    assert list(range(1, len(lines) + 1)) == [line["seq"] for line in lines]
    assert {result["session"]} == {line["session"] for line in lines}
    assert ("result", text, "completed", 0) == tuple(result[name] for name in ("type", "text", "status", "exit_code"))
    assert replies == [line["response"]["choices"][0]["message"]["blocks"] for line in done_lines]
    parts = [line["part"] for line in events if line["type"] == "content.done"]
    assert parts == [block for blocks in replies for block in blocks]
    assert ["12345 m deep"] == [line["result"]["content"] for line in events if line["type"] == "tool.done"]


def test_jsonl_ends_with_the_document_of_json(here, tenuto_sim):
    """Also after an error."""
    tenuto_sim.script(turn("Four."))
    for code in (0, 1):
        one, lines = json.loads(here("run", "2 + 2?", "--json").out), lines_of(here("run", "2 + 2?", "--jsonl"))
        last = {name: value for name, value in lines[-1].items() if name not in ("seq", "type")}

        assert list(one) == list(last)
        assert {**one, "session": ""} == {**last, "session": ""}
        assert code == last["exit_code"]
        tenuto_sim.script(turn(deny(400, message="No!", times=0)))


def test_jsonl_has_pending_calls(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("blast", {"where": "here"})), turn("Blasted."))
    first = here("run", "Go!", "-T", "tools:blast", "--jsonl")
    later = lines_of(here("resume", "-T", "tools:blast", "--jsonl", "--approve", "auto"))
    [approval] = [line for line in lines_of(first) if line["type"] == "approval"]
    [finished] = [line for line in later if line["type"] == "tool.done"]

    assert (6, "blast") == (first.code, approval["call"]["name"])
    assert ["blast"] == [one["name"] for one in lines_of(first)[-1]["pending"]]
    assert "here is gone" == finished["result"]["content"]


def test_jsonl_nests_events_of_sub_agents(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("helper", {"prompt": "help"})), turn("Helped."), when="please")
    tenuto_sim.script(turn(call("dig", {"depth": 7})), turn("Seven."), when="help")
    lines = lines_of(here("run", "please", "-T", "tools:helper", "--jsonl"))
    nested = [line for line in lines if line["type"] == "sub_agent"]

    assert {lines[0]["session"]} == {line["session"] for line in lines}
    assert 1 == len({line["sub_session"] for line in nested})
    assert ["7 m deep"] == [
        line["event"]["result"]["content"] for line in nested if line["event"]["type"] == "tool.done"
    ]


def test_jsonl_hides_thinking_and_starts_with_a_handover(here, tenuto_sim):
    tenuto_sim.script(turn(think("A secret."), "One."), turn(think("A secret."), "Two."))
    here("run", "first")
    done = here("run", "-c", "second", "-m", "sim/openai", "--jsonl", "--hide-thinking")
    lines = lines_of(done)

    assert ["handover", "run.start"] == [line["type"] for line in lines[:2]]
    assert ("sim/openai", "sim/anthropic") == (lines[0]["model"], lines[0]["before"])
    assert lines[0]["losses"]
    assert (False, "Two.") == ("secret" in done.out, lines[-1]["text"])
