"""Conversations that a simulated provider really had: each reply is its own, with tokens that it signed."""

from __future__ import annotations

import functools

from handoff.facing import accepted, opened_request, target
from sim.playing import FOUND, write_turn
from tenuto.core.messages import AssistantMessage, Message, ToolResults, UserMessage
from tenuto.core.provider import Target
from tenuto.sim.script import CallTool, Cite, Pause, RunCode, Say, Search, SendImage, Think, Turn
from tenuto.wire.codec import codec_for
from tenuto.wire.decoder import decode_body

__all__ = ["TURNS", "answered", "conversation", "paused", "reply"]

TURNS: tuple[Turn, ...] = (
    (Think("Both of them."), CallTool("weather", {"city": "Oslo"}), CallTool("weather", {"city": "Bergen"})),
    (Think("Once more."), Say("Let me look."), CallTool("weather", {"city": "Ærø"})),
    (Think("I know."), Say("It rains.")),
    (Search("weather in Oslo", FOUND), Say("Rain.", cites=(Cite("https://example.org/a", "A page", "Some words"),))),
    (RunCode("print(6 * 7)", "42\n"), Say("It is 42.")),
    (Say("Here:"), SendImage()),
    (Think("Nothing to see", redacted=True), CallTool("weather", {"city": "Tromsø"})),
)
"""Thoughts seen and hidden, calls alone and together, a search, code, a picture; at the end calls that are under way."""


def reply(messages: tuple[Message, ...], to: Target, turn: Turn) -> AssistantMessage:
    """Ask, and return what the simulator answers; a question that it refuses is a fault."""
    wire = accepted(messages, to)
    request = opened_request(wire, to)
    pieces = write_turn(request, turn)
    body = b"".join(piece for piece in pieces if isinstance(piece, bytes))
    decoder = codec_for(to.dialect).decoder(to, seed=request.digest)
    decoder.request_body = wire.body
    return decode_body(decoder, body).message


def answered(messages: tuple[Message, ...], said: AssistantMessage) -> tuple[Message, ...]:
    """Go on behind a reply: its calls are answered, or the user asks on."""
    calls = [call.answer(f"rain in {call.args}") for call in said.tool_calls()]
    return (*messages, said, ToolResults(tuple(calls)) if calls else UserMessage(f"And now? ({len(messages)})"))


@functools.cache
def conversation(named: str) -> tuple[Message, ...]:
    """Return a whole conversation with a style or a model, up to a message that it has not answered yet."""
    to, messages = target(named), (UserMessage("What is the weather like in Oslo?"),)
    for turn in TURNS:
        messages = answered(messages, reply(messages, to, turn))
    return messages


@functools.cache
def paused(named: str) -> tuple[Message, ...]:
    """Return a conversation that ends with a turn which the provider paused."""
    messages = (UserMessage("What is the weather like in Oslo?"),)
    return (*messages, reply(messages, target(named), (Search("weather in Oslo"), Pause())))
