"""Every name of tenuto that the baseline uses. If code moves, only this file and `renames` change."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tenuto import (
    AssistantMessage,
    AsyncAgent,
    ChatRequest,
    JsonSchema,
    Limits,
    TenutoError,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
    encode,
    resolve,
    tool,
)
from tenuto.agent.limits import FamilyBudget
from tenuto.client.middleware.retry import Retry
from tenuto.errors import ConnectionFailed
from tenuto.oneshot import target_of
from tenuto.testing import ScriptedResponse, ScriptedTransport
from tenuto.wire import codec as codecs
from tenuto.wire.codec import codec_for

__all__ = [
    "CHANGED_COMMAND",
    "Decoded",
    "Encoded",
    "TenutoError",
    "change_agent",
    "change_decoder",
    "change_encoder",
    "command_names",
    "connection_lost",
    "continue_run",
    "decode",
    "encode_for",
    "final_response",
    "first_message",
    "follow_up",
    "fork_store",
    "json_reply",
    "limits",
    "make_agent",
    "output_schema",
    "payload",
    "response_losses",
    "scripted_transport",
    "stream_reply",
    "sub_agent",
    "tool",
]


# --- the wire ---------------------------------------------------------------------------------------------------------


class Decoded(NamedTuple):
    """The events of a response; the response, partial if an error ended it."""

    events: list[Any]
    response: Any
    error: TenutoError | None


def decode(dialect: str, provider: str, model: str, body: bytes, *, is_stream: bool, seed: str) -> Decoded:
    """Decode a recorded response from one chunk. `seed` determines the generated ids."""
    target: Any = target_of(dialect, model, provider)  # type: ignore[arg-type]  # a recorded dialect
    decoder = codec_for(target.dialect).decoder(target, seed=seed)
    events = list((decoder.feed if is_stream else decoder.feed_body)(body))
    try:
        events += decoder.drain()
        events += decoder.finish()
    except TenutoError as exc:
        return Decoded(events, getattr(exc, "partial", None), exc)
    return Decoded(events, final_response(events[-1]), None)


def final_response(event: Any) -> Any:
    """Return the response of the last event; None for any other event."""
    return getattr(event, "response", None)


def response_losses(response: Any) -> Sequence[Any]:
    """Return the decoder's losses."""
    return response.losses if response is not None else ()


def first_message(response: Any) -> Any:
    """Return the assistant message of the first choice; None if there is none."""
    return response.choices[0].message if response is not None and response.choices else None


def follow_up(messages: list[Any], reply: Any, result: str, words: str) -> None:
    """Append a reply, a result for each of its calls, and a user message."""
    messages.append(reply)
    calls = list(reply.tool_calls())
    if calls:
        messages.append(ToolResults(tuple(ToolResult(call.id, f"{result} {call.name}") for call in calls)))
    messages.append(UserMessage(words))


class Encoded(NamedTuple):
    """A request as it would be sent, with its losses."""

    head: tuple[str, str, dict[str, str]]
    body: bytes
    losses: Sequence[Any]


def encode_for(model: str, first: str, messages: list[Any], parameters: Mapping[str, Any]) -> Encoded:
    """Encode a transcript for a target. Raise `TenutoError` if it cannot be encoded."""
    called = {
        call.name: None
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls()
    }
    tools = tuple(ToolDefinition(name, f"Calls {name}.", {"type": "object", "properties": {}}) for name in called)
    target = resolve(model)
    request = ChatRequest(model=model, messages=(UserMessage(first), *messages), tools=tools, **parameters)
    wire = encode(target.dialect, request, provider=target.provider.name)
    return Encoded((wire.method, wire.path, dict(wire.headers)), wire.body, wire.losses)


# --- agents -----------------------------------------------------------------------------------------------------------


def make_agent(model: str, transport: Any, store: str | Path, tools: Sequence[Any] = (), **options: Any) -> Any:
    """Make an agent that sends to a transport, stores its sessions in `store` and does not pause before a retry."""
    keys = dict.fromkeys(("anthropic", "openai", "google", "deepseek"), "test-key-0123456789")
    retry = Retry(2, base=0.0)
    return AsyncAgent(model, tools=tools, transport=transport, store=store, keys=keys, retry=retry, **options)


def sub_agent(model: str, name: str, tools: Sequence[Any] = ()) -> Any:
    """Make an agent for use as a tool of another one, whose transport and store it uses."""
    return AsyncAgent(model, tools=tools, retry=Retry(2, base=0.0)).as_tool(name, "Answers questions.")


def limits(**values: Any) -> Any:
    """Make the limits of a run."""
    return Limits(**values)


def output_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an agent with the output schema."""
    return {"response_format": JsonSchema(schema)}


def continue_run(session: Any) -> Awaitable[Any]:
    """Continue a session that has pending work."""
    return session.continue_()


async def fork_store(agent: Any, session: str, at: int, id: str) -> None:
    """Make a session of the first `at` entries of another: the state after a kill at entry `at`."""
    await agent.store.fork(session, at=at, id=id)


def payload(entry: Any) -> Any:
    """Return the payload of a journal entry."""
    return entry.payload


def scripted_transport(answer: Callable[[Any], Any]) -> Any:
    """Return a transport that answers every request by a function."""
    return ScriptedTransport(*[answer] * 100)


def json_reply(status: int, document: dict[str, Any]) -> Any:
    """Return a whole HTTP response."""
    return ScriptedResponse(json.dumps(document).encode(), status)


def stream_reply(body: bytes, *, is_cut: bool = False) -> Any:
    """Return a streamed HTTP response; if it is cut, the connection ends after its bytes."""
    return ScriptedResponse.stream(body, error=connection_lost() if is_cut else None)


def connection_lost() -> Exception:
    """Return the error of a lost connection."""
    return ConnectionFailed("the connection was lost")


# --- the command ------------------------------------------------------------------------------------------------------


def command_names() -> set[str]:
    """Return the names of all commands."""
    from tenuto.cli.main import COMMANDS

    return set(COMMANDS)


# --- deliberate changes for the tests of the baseline ---


def change_decoder(monkeypatch: Any, dialect: str, old: bytes, new: bytes) -> None:
    """Let a decoder read changed bytes."""
    decoder = codec_for(dialect).decoder
    read = decoder.feed
    monkeypatch.setattr(decoder, "feed", lambda self, piece: read(self, piece.replace(old, new)))


def change_encoder(monkeypatch: Any, dialect: str, old: bytes, new: bytes) -> None:
    """Let an encoder write changed bytes."""
    encode_dialect = codecs.codec_for(dialect).encode

    def changed(*given: Any) -> Any:
        wire = encode_dialect(*given)
        return msgspec.structs.replace(wire, body=wire.body.replace(old, new))

    monkeypatch.setitem(codecs._codecs, dialect, msgspec.structs.replace(codecs.codec_for(dialect), encode=changed))


def change_agent(monkeypatch: Any) -> None:
    """Let agents ignore their limits."""
    monkeypatch.setattr(FamilyBudget, "exceeded", lambda self, spent: None)


CHANGED_COMMAND = """
import sys
from tenuto.cli import main
report = main._report_usage_error
main._report_usage_error = lambda *arguments: report(*arguments) + 1
sys.exit(main.main(sys.argv[1:]))
"""
"""A program that runs the command with another exit code for usage errors."""
