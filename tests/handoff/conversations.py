"""Conversations with simulated providers: each reply is the simulator's own, with signed tokens."""

from __future__ import annotations

import functools

from handoff.targets import accept, parsed_request, target
from sim.playing import FOUND, write_turn
from tenuto.core.messages import AssistantMessage, Message, ToolResults, UserMessage
from tenuto.core.provider import Target
from tenuto.sim.script import CallTool, Cite, Pause, RunCode, Say, Search, SendImage, Think, Turn
from tenuto.wire.codec import codec_for
from tenuto.wire.decoder import decode_body

TURNS: tuple[Turn, ...] = (
    (Think("Both of them."), CallTool("weather", {"city": "Oslo"}), CallTool("weather", {"city": "Bergen"})),
    (Think("Once more."), Say("Let me look."), CallTool("weather", {"city": "Ærø"})),
    (Think("I know."), Say("It rains.")),
    (Search("weather in Oslo", FOUND), Say("Rain.", cites=(Cite("https://example.org/a", "A page", "Some words"),))),
    (RunCode("print(6 * 7)", "42\n"), Say("It is 42.")),
    (Say("Here:"), SendImage()),
    (Think("Nothing to see", redacted=True), CallTool("weather", {"city": "Tromsø"})),
)
"""Visible and redacted reasoning, single and parallel calls, a search, code, an image; the last turn has open calls."""


def reply(messages: tuple[Message, ...], to: Target, turn: Turn) -> AssistantMessage:
    """Return the simulator's reply; fail if it refuses the request."""
    wire = accept(messages, to)
    request = parsed_request(wire, to)
    pieces = write_turn(request, turn)
    body = b"".join(piece for piece in pieces if isinstance(piece, bytes))
    decoder = codec_for(to.dialect).decoder(to, seed=request.digest)
    decoder.request_body = wire.body
    return decode_body(decoder, body).message


def continue_conversation(messages: tuple[Message, ...], reply_message: AssistantMessage) -> tuple[Message, ...]:
    """Append a reply and the next messages: results of its calls, or a user message."""
    calls = [call.answer(f"rain in {call.args}") for call in reply_message.tool_calls()]
    return (
        *messages,
        reply_message,
        ToolResults(tuple(calls)) if calls else UserMessage(f"And now? ({len(messages)})"),
    )


@functools.cache
def conversation(named: str) -> tuple[Message, ...]:
    """Return a conversation with a provider or a model; its last message has no reply yet."""
    to, messages = target(named), (UserMessage("What is the weather like in Oslo?"),)
    for turn in TURNS:
        messages = continue_conversation(messages, reply(messages, to, turn))
    return messages


@functools.cache
def paused_conversation(named: str) -> tuple[Message, ...]:
    """Return a conversation that ends with a turn which the provider paused."""
    messages = (UserMessage("What is the weather like in Oslo?"),)
    return (*messages, reply(messages, target(named), (Search("weather in Oslo"), Pause())))
