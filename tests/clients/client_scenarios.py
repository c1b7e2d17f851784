"""The scenarios for `tenuto.Client` with a foreign server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from clients.checks import ScenarioError
from clients.servers import ANSWER, FILES, QUESTION, THOUGHTS, TOOL_PROMPT, VECTOR, ForeignServer
from tenuto import Client, Provider, Transcript, tool
from tenuto.core.provider import Dialect


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"{path}: alpha"


class Conversation:
    """Our client, connected to one dialect of a server."""

    def __init__(self, server: ForeignServer, dialect: Dialect, url: str) -> None:
        path, model = server.models[dialect]
        self.model = f"server/{model}"
        self.is_scripted = server.is_scripted
        self.client = Client(providers=[Provider("server", dialect, url + path, auth="none")])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()

    def expect(self, text: str, expected: str) -> None:
        """Raise `ScenarioError` if a text is not the expected one; for a real model, if it is empty."""
        if text != expected if self.is_scripted else not text:
            raise ScenarioError(f"{text!r} instead of {expected!r}")


def chat(talk: Conversation) -> None:
    with talk.client.stream(talk.model, QUESTION, max_tokens=16) as stream:
        streamed = "".join(stream.text_deltas())
    talk.expect(streamed, ANSWER)
    if streamed != stream.reply.text:
        raise ScenarioError(f"the stream has {streamed!r}, the reply {stream.reply.text!r}")


def thinking(talk: Conversation) -> None:
    with talk.client.stream(talk.model, QUESTION) as stream:
        reply = stream.drain()
    talk.expect(reply.thinking or "", THOUGHTS)
    talk.expect(reply.text, ANSWER)


def parallel_tools(talk: Conversation) -> None:
    reply = talk.client.chat(talk.model, TOOL_PROMPT, tools=[read_file])
    paths = [call.parse()["path"] for call in reply.tool_calls]
    if paths != list(FILES):
        raise ScenarioError(f"calls for {paths} instead of {list(FILES)}")
    answers = [call.answer(read_file(**call.parse())) for call in reply.tool_calls]
    talk.expect(talk.client.chat(talk.model, reply.transcript + answers, tools=[read_file]).text, ANSWER)


def resume(talk: Conversation) -> None:
    first = talk.client.chat(talk.model, QUESTION, max_tokens=16)
    transcript = Transcript.from_json(first.transcript.to_json())
    talk.expect(talk.client.chat(talk.model, transcript + QUESTION, max_tokens=16).text, ANSWER)


def embeddings(talk: Conversation) -> None:
    (vector,) = talk.client.embed(talk.model, QUESTION).embeddings
    if list(vector) != VECTOR if talk.is_scripted else len(vector) < 2:
        raise ScenarioError(f"a vector of dimension {len(vector)}, which starts with {list(vector[:3])}")


CLIENT_SCENARIOS: dict[str, Callable[[Conversation], None]] = {
    "chat": chat,
    "thinking": thinking,
    "parallel tools": parallel_tools,
    "resume": resume,
    "embeddings": embeddings,
}


def list_scenarios(server: ForeignServer, dialect: Dialect) -> list[str]:
    """Return the scenarios that a server supports in a dialect."""
    missing = {*server.missing, *(["embeddings"] if dialect == "anthropic-messages" else [])}
    return [title for title in CLIENT_SCENARIOS if title not in missing]
