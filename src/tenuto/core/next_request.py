"""What a session asks with: the question of a turn, made of the entries before it.

Everything that a question may carry is in the journal but for headers, which may hold secrets, and deadlines, which are
the caller's. So whoever has the entries can make the question again, and compare it with what was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from tenuto.core import jsonio
from tenuto.core.journal import (
    Configured,
    Entry,
    HandedOver,
    LossRecorded,
    MessageAdded,
    ReplyReceived,
    SteeringAdded,
    TranscriptFold,
)
from tenuto.core.messages import AssistantMessage, Message, SystemMessage
from tenuto.core.request import ChatRequest, ServerTool, ToolDefinition
from tenuto.core.transcript import Transcript

__all__ = ["NextRequest", "Tools", "config_after", "offered_tools", "request_from_config"]

Tools = tuple[ToolDefinition | ServerTool, ...]


class NextRequest:
    """Follows a session's entries, and makes the question that is due after them.

    `healed` counts what was left out since the model last answered because the provider had refused it.
    """

    def __init__(self) -> None:
        self.configured: Configured | None = None
        self.healed = 0
        self._fold = TranscriptFold()
        self._replies: dict[int, AssistantMessage] = {}
        self._refused: list[tuple[AssistantMessage, int]] = []

    def take(self, entry: Entry) -> None:
        """Add an entry."""
        act = entry.payload
        self._fold.take(entry)
        self.configured = config_after(self.configured, act)
        if isinstance(act, ReplyReceived):
            self._replies[entry.seq] = act.message
        if isinstance(act, ReplyReceived | MessageAdded | SteeringAdded):
            self.healed = 0
        elif isinstance(act, LossRecorded) and act.reply_seq in self._replies:
            self._refused.append((self._replies[act.reply_seq], act.block_index))
            self.healed += 1

    def transcript(self) -> Transcript:
        """The conversation as the model is to see it, without the system's words."""
        return self._fold.transcript()

    def __len__(self) -> int:
        """How many messages the question that is due has; the system's words are one."""
        return len(self._fold) + bool(self.configured and self.configured.system)

    def reply_at(self, message: Message) -> int:
        """Return the number of the entry with which a message came; 0 if it is no reply of this session."""
        return next((seq for seq, reply in self._replies.items() if reply is message), 0)

    def request(self, tools: Tools | None = None, headers: Mapping[str, str] | None = None) -> ChatRequest:
        """Make the question; with the tools that the session was told of, unless others are given.

        Raise `ValueError` for a session that was never configured, or with something that this version does not know.
        """
        kept = self.configured
        if kept is None:
            raise ValueError("the session has no configuration: nothing was asked in it")
        told = offered_tools(kept) if tools is None else tools
        request = request_from_config(kept, self.transcript().messages, told, headers or {})
        if not self._refused:
            return request
        left = [
            (at, block)
            for at, message in enumerate(request.transcript)
            for refused, block in self._refused
            if refused is message
        ]
        return msgspec.structs.replace(request, omit_blocks=tuple(left))


def config_after(kept: Configured | None, act: object) -> Configured | None:
    """Return what a session asks with once this has happened."""
    if isinstance(act, Configured):
        return act
    if isinstance(act, HandedOver) and kept is not None:
        return msgspec.structs.replace(kept, model=act.model)
    return kept


def offered_tools(kept: Configured) -> Tools:
    """Return the tools that a session was told of, as the model is told of them."""
    told = jsonio.parse(kept.tools) if kept.tools else []
    return tuple(
        msgspec.convert(tool, ToolDefinition) if "name" in tool else msgspec.convert(tool, ServerTool) for tool in told
    )


@lru_cache(maxsize=256)
def _read(parameters: str) -> ChatRequest:
    members = jsonio.members(parameters) if parameters else {}
    fields = {field.encode_name: field for field in msgspec.structs.fields(ChatRequest)}
    strange = members.keys() - fields.keys()
    if strange:
        raise ValueError(f"the session asks with {min(strange)!r}, which this version of tenuto does not know")
    values = {fields[name].name: jsonio.typed(raw, fields[name].type) for name, raw in members.items()}
    return msgspec.structs.replace(ChatRequest(model="", messages=()), **values)


def request_from_config(
    kept: Configured, messages: tuple[Message, ...], tools: Tools, headers: Mapping[str, str]
) -> ChatRequest:
    """Make a question of what is kept."""
    first = (SystemMessage(kept.system),) if kept.system else ()
    return msgspec.structs.replace(
        _read(kept.parameters),
        model=kept.model,
        messages=(*first, *messages),
        tools=tools,
        stream=True,
        extra_headers=dict(headers),
    )
