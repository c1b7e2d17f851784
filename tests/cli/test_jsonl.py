"""`--jsonl`: what happens, a line each; nothing is said twice, and nothing is missing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.cli.streaming import Told
from tenuto.core import jsonio
from tenuto.core.blocks import AnthropicMeta, Reasoning, Text, ToolUse, UrlCitation
from tenuto.core.events import (
    ArgumentsDelta,
    CitationDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    MessageDone,
    MessageStart,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)
from tenuto.core.messages import AssistantMessage
from tenuto.core.response import ChatResponse, Choice
from tenuto.testing import call, cut, deny, say, think, turn

TOOLS = '''
from tenuto import AsyncAgent, tool

@tool
def dig(depth: int) -> str:
    """Dig."""
    print("noise")
    return f"{depth} m deep"

@tool(approval=True)
def blast(where: str) -> str:
    """Blast."""
    return "boom"

helper = AsyncAgent("sim/anthropic", tools=[dig]).as_tool("helper")
'''


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A module with tools, in the folder that the command is called in; another one for each test."""
    name = f"diggers_of_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(TOOLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def lines_of(done):
    return [json.loads(line) for line in done.out.splitlines()]


def kinds(lines):
    return [line["type"] for line in lines]


# --- what a reader makes of it ----------------------------------------------------------------------------------------

PIECES = {"text": "text", "thinking": "text", "arguments": "args"}


def rebuilt(lines):
    """The parts of the last reply, made of lines as a program would that knows nothing else."""
    parts = {}
    for line in lines:
        at = line.get("choice_index"), line.get("part_index")
        if line["type"] == "message.start":
            parts = {}
        elif line["type"] == "content.start":
            parts[at] = dict(line["part"])
        elif line["type"] == "content.delta":
            _grown(parts[at], line["delta"])
        elif line["type"] == "content.done":
            done = line["part"]
            parts[at] |= {**done, "meta": {**parts[at].get("meta", {}), **done.get("meta", {})}}
    return [parts[at] for at in sorted(parts)]


def _grown(part, delta):
    ((kind, value),) = ((name, value) for name, value in delta.items() if name != "type")
    if kind == "signature":
        part.setdefault("meta", {})["signature"] = value
    elif kind == "citation":
        part.setdefault("citations", []).append(value)
    else:
        part[PIECES[kind]] = part.get(PIECES[kind], "") + value


def same(part, block):
    """Whether a part says all that a block does, but for what only its provider can make something of.

    What a token is called in a block is the provider's affair: here it is a signature.
    """
    tokens = sorted(part.get("meta", {}).values()) == sorted(block.get("meta", {}).values())
    return tokens and all(part.get(name) == block[name] for name in block if name not in ("meta", "extra"))


@pytest.mark.parametrize("model", ["anthropic", "openai", "gemini", "chat"])
def test_the_lines_say_all_of_it_and_nothing_twice(here, tenuto_sim, tools, model):
    text = "A sentence that occurs nowhere else."
    tenuto_sim.script(turn(think("Hm."), say("I dig."), call("dig", {"depth": 12345})), turn(say(text)))
    done = here("run", "Dig!", "-T", f"{tools}:dig", "-m", f"sim/{model}", "--jsonl")
    lines = lines_of(done)
    *events, result = lines
    first_turn = events[: kinds(events).index("tool.start")]
    shown = json.loads(here("show", "--json").out)["entries"]
    replies = [entry["body"]["message"]["blocks"] for entry in shown if entry["kind"] == "reply_received"]

    assert (0, "noise\n") == (done.code, done.err)
    assert list(range(1, len(lines) + 1)) == [line["seq"] for line in lines]
    assert {result["session"]} == {line["session"] for line in lines}
    assert ("result", text, "completed", 0) == tuple(result[name] for name in ("type", "text", "status", "exit_code"))
    for parts, blocks in ((rebuilt(first_turn), replies[0]), (rebuilt(events), replies[1])):
        assert len(parts) == len(blocks)
        assert all(map(same, parts, blocks))
    assert 1 == json.dumps(events).count("12345 m deep")
    assert 1 >= json.dumps(events).count("12345}")
    assert all(line.keys().isdisjoint(("usage", "blocks")) for line in events if line["type"] == "message.done")
    told = [line for line in events if line["type"].startswith("tool.")]
    assert [["id", "name"]] * 2 == [sorted(line["call"]) for line in told]
    tenuto_sim.assert_clean()


def test_the_last_line_is_the_document(here, tenuto_sim):
    """With the same members, in the same order."""
    tenuto_sim.script(turn("Four."))
    one, lines = json.loads(here("run", "2 + 2?", "--json").out), lines_of(here("run", "2 + 2?", "--jsonl"))
    last = {name: value for name, value in lines[-1].items() if name not in ("seq", "type")}

    assert list(one) == list(last)
    assert {**one, "session": ""} == {**last, "session": ""}


def test_what_is_void_and_asked_again_is_told(here, tenuto_sim):
    tenuto_sim.script(turn(say(["Half of ", "it"]), cut(), say(" and all of it.")))
    lines = lines_of(here("run", "Say it.", "--jsonl"))
    again = kinds(lines).index("retry")

    assert "message.start" in kinds(lines[again:])
    assert "Half of it and all of it." == "".join(part["text"] for part in rebuilt(lines))


def test_a_call_of_an_earlier_run_is_told_with_its_arguments(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("blast", {"where": "here"})), turn("Blasted."))
    first = here("run", "Go!", "-T", f"{tools}:blast", "--jsonl")
    later = lines_of(here("resume", "-T", f"{tools}:blast", "--jsonl", "--approve", "auto"))
    asked = next(line for line in lines_of(first) if line["type"] == "approval")
    (returned,) = [line for line in later if line["type"] == "tool.done"]

    assert (6, ["id", "name"]) == (first.code, sorted(asked["call"]))
    assert ["blast"] == [one["name"] for one in lines_of(first)[-1]["pending"]]
    assert {"where": "here"} == json.loads(next(line for line in later if "call" in line)["call"]["args"])
    assert ["id", "name"] == sorted(returned["call"])
    assert "boom" == returned["result"]["content"]


def test_what_a_sub_agent_does_stands_inside(here, tenuto_sim, tools):
    tenuto_sim.script(turn(call("helper", {"prompt": "help"})), turn("Helped."), when="please")
    tenuto_sim.script(turn(call("dig", {"depth": 7})), turn("Seven."), when="help")
    lines = lines_of(here("run", "please", "-T", f"{tools}:helper", "--jsonl"))
    below = [line for line in lines if line["type"] == "sub_agent"]
    inner = [line["event"] for line in below]

    assert {lines[0]["session"]} == {line["session"] for line in lines}
    assert 1 == len({line["sub_session"] for line in below})
    assert "Seven." == rebuilt(inner)[-1]["text"]
    assert [("7 m deep", ["id", "name"])] == [
        (event["result"]["content"], sorted(event["call"])) for event in inner if event["type"] == "tool.done"
    ]


def test_thoughts_are_left_out_if_that_is_wanted(here, tenuto_sim):
    tenuto_sim.script(turn(think("A secret."), say("Four.")))
    for model in ("sim/anthropic", "sim/openai"):
        done = here("run", "2 + 2?", "--jsonl", "--hide-thinking", "-m", model)

        assert "secret" not in done.out
        assert "Four." == rebuilt(lines_of(done))[-1]["text"]


def test_an_error_is_in_the_last_line_and_on_stderr(here, tenuto_sim):
    tenuto_sim.script(turn(deny(400, message="No!", times=0)))
    done = here("run", "Hi", "--jsonl")
    last = lines_of(done)[-1]

    assert (1, "result", 1, "BadRequest") == (done.code, last["type"], last["exit_code"], last["error"]["type"])
    assert "error: sim: No!" in done.err


def test_a_handover_is_told_before_anything_is_asked(here, tenuto_sim):
    tenuto_sim.script(turn(think("Hm."), "One."), turn("Two."))
    here("run", "first")
    lines = lines_of(here("run", "-c", "second", "-m", "sim/openai", "--jsonl"))

    assert ["handover", "run.start"] == kinds(lines)[:2]
    assert ("sim/openai", "sim/anthropic") == (lines[0]["model"], lines[0]["before"])
    assert lines[0]["losses"]


# --- any reply at all -------------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=12)
WHOLE = st.one_of(
    st.builds(Text, TEXTS, citations=st.lists(st.builds(UrlCitation, url=TEXTS), max_size=2).map(tuple)),
    st.builds(Reasoning, TEXTS, meta=st.none() | st.builds(AnthropicMeta, TEXTS)),
    st.builds(ToolUse, TEXTS, TEXTS, TEXTS, args_error=TEXTS),
)


@st.composite
def replies(draw):
    """A reply as events: each part begins with some of it, goes on in pieces, and is done with all of it."""
    blocks = draw(st.lists(WHOLE, max_size=4))
    events = [MessageStart("id", "model")]
    for at, block in enumerate(blocks):
        whole = draw(st.booleans())
        events.append(ContentStart(0, at, block if whole else _bare(block)))
        if not whole and draw(st.booleans()):
            events += [ContentDelta(0, at, delta) for delta in _pieces(draw, block)]
        events.append(ContentDone(0, at, block))
    response = ChatResponse("id", "sim", "model", (Choice(AssistantMessage(tuple(blocks))),))
    return blocks, [*events, MessageDone(response)]


def _bare(block):
    if isinstance(block, ToolUse):
        return ToolUse(block.id, block.name, "")
    return type(block)("")


def _pieces(draw, block):
    kind, text = (
        (ArgumentsDelta, block.args)
        if isinstance(block, ToolUse)
        else (ThinkingDelta if isinstance(block, Reasoning) else TextDelta, block.text)
    )
    at = draw(st.integers(0, len(text)))
    yield from (kind(piece) for piece in (text[:at], text[at:]))
    yield from (CitationDelta(citation) for citation in getattr(block, "citations", ()))
    if isinstance(block, Reasoning) and block.meta is not None:
        yield SignatureDelta(block.meta.signature)


@given(replies())
def test_any_reply_can_be_made_of_its_lines_again(reply):
    blocks, events = reply
    told = Told()
    lines = [json.loads(jsonio.encode(told.line(event))) for event in events]

    parts = rebuilt(lines)
    assert len(parts) == len(blocks)
    assert all(same(part, json.loads(jsonio.encode(block))) for part, block in zip(parts, blocks, strict=True))
    assert "blocks" not in lines[-1]["choices"][0]
    grew = {line["part_index"] for line in lines if line["type"] == "content.delta"}
    done = [line["part"] for line in lines if line["type"] == "content.done" and line["part_index"] in grew]
    assert all(part.keys().isdisjoint(("text", "args", "citations", "id", "name")) for part in done)
    assert all("signature" not in part.get("meta", {}) for part in done)


def test_a_thought_that_comes_whole_is_left_out_as_well():
    thought = Reasoning("A secret.", meta=AnthropicMeta("sig"))
    told = Told(thinking=False)
    lines = [told.line(event) for event in (ContentStart(0, 0, thought), ContentDone(0, 0, thought))]
    other = told.line(ContentDone(0, 1, thought))

    assert b"secret" not in jsonio.encode([*lines, other])
    assert b"sig" in jsonio.encode(other)


def test_a_reply_whose_parts_were_not_told_is_told_whole():
    """Whoever made the events up left them out: nothing may be missing all the same."""
    block = Text("Hello.")
    response = ChatResponse("id", "sim", "model", (Choice(AssistantMessage((block,))),))
    told = Told()
    told.line(MessageStart("id", "model"))

    assert (block,) == told.line(MessageDone(response))["choices"][0]["blocks"]
