"""Build the next request of a session from its journal entries.

A request contains nothing that is not in the journal, except headers (they may hold secrets) and timeouts. The
request can therefore be built again from the entries and compared with the one that was sent.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from tenuto.core import journal, jsonio
from tenuto.core.cache_misses import LIFETIMES, CacheFold
from tenuto.core.messages import AssistantMessage, Message, SystemMessage, UserMessage
from tenuto.core.request import ChatRequest, JsonSchema, NativeCompaction, ServerTool, ToolDefinition
from tenuto.core.summary import summary_instructions, summary_prompt
from tenuto.core.transcript import Transcript

Tools = tuple[ToolDefinition | ServerTool, ...]


class ConfigurationError(ValueError):
    """A session has no configuration, or a parameter that this version does not know."""


class NextRequest:
    """Follows the entries of a session and builds the request that comes after them."""

    configured: journal.Configured | None
    """The configuration that the request uses."""
    session_config: journal.Configured | None
    """The configuration of the session, without the settings of a single run."""
    healed: int
    """The blocks left out since the last reply because the provider refused them."""

    def __init__(self) -> None:
        self.configured = self.session_config = None
        self.healed = 0
        self.cache = CacheFold()
        self._response_id = ""
        self._replied_ms = 0
        self._was_idle = False
        """Whether the last message came when a prompt that is stored for the default time was forgotten."""
        self._note: tuple[int, str] = 0, ""
        self._fold = journal.TranscriptFold()
        self._replies: dict[int, AssistantMessage] = {}
        self._refused: list[tuple[AssistantMessage, int]] = []

    def apply(self, entry: journal.Entry) -> None:
        payload = entry.payload
        self._fold.apply(entry)
        if isinstance(payload, journal.MessageAdded):
            self._was_idle = bool(self._replied_ms) and entry.time_ms - self._replied_ms > LIFETIMES["auto"]
        elif isinstance(payload, journal.ReplyReceived | journal.Compacted | journal.LossRecorded):
            usage = payload.usage if isinstance(payload, journal.ReplyReceived) else None
            has_counts = usage is not None and (usage.cache_read_tokens or usage.cache_write_tokens)
            if has_counts or self.cache.stored is not None:
                self.cache.apply(entry, self.configured, self._cache(self.configured))
        if isinstance(payload, journal.Configured | journal.HandedOver):
            self.configured = config_after(self.configured, payload)
            if isinstance(payload, journal.HandedOver) or payload.scope == "session":
                self.session_config = config_after(self.session_config, payload)
        if isinstance(payload, journal.SteeringAdded) and payload.instructions:
            self._note = entry.seq, str(payload.message)
        if isinstance(payload, journal.ReplyReceived):
            self._replies[entry.seq] = payload.message
            self._response_id, self._replied_ms = payload.response_id, entry.time_ms
        if isinstance(payload, journal.ReplyReceived | journal.MessageAdded | journal.SteeringAdded):
            self.healed = 0
        elif isinstance(payload, journal.LossRecorded) and payload.reply_seq in self._replies:
            self._refused.append((self._replies[payload.reply_seq], payload.block_index))
            self.healed += 1

    def transcript(self) -> Transcript:
        """Return the whole conversation without the system prompt."""
        return self._fold.transcript()

    @property
    def compaction(self) -> journal.Compacted | None:
        """The compaction that holds."""
        return self._fold.compacted

    @property
    def note(self) -> str:
        """The last instructions that were sent as a message, if later requests contain them."""
        seq, text = self._note
        return text if self.compaction is None or self.compaction.up_to_seq < seq else ""

    def result_seqs(self) -> list[int]:
        """Return the sequence numbers of the tool results of the conversation, in order."""
        return self._fold.result_seqs()

    def view(self, in_scope: journal.Scope | None = None, up_to_seq: int | None = None) -> tuple[Message, ...]:
        """Return the messages of the request without the system prompt."""
        return self._fold.view(in_scope, up_to_seq)

    def length(self, in_scope: journal.Scope | None = None) -> int:
        """Return the number of messages of the request, including the system prompt."""
        return self._fold.view_length(in_scope) + bool(self.configured and _system_prompt(self.configured))

    def reply_at(self, message: Message) -> int:
        """Return the sequence number of the entry of a reply; 0 if this session did not receive it."""
        return next((seq for seq, reply in self._replies.items() if reply is message), 0)

    def request(
        self,
        tools: Tools | None = None,
        headers: Mapping[str, str] | None = None,
        in_scope: journal.Scope | None = None,
        up_to_seq: int | None = None,
    ) -> ChatRequest:
        """Build the request, with the tools of the configuration unless `tools` is passed, and its request for an output.

        `in_scope` tells the tokens that the target accepts: what its provider made in a compaction is sent back only
        there. With `up_to_seq`, later entries are left out. Raise `ConfigurationError` for a session without configuration, or with an unknown parameter.
        """
        config = self.configured
        if config is None:
            raise ConfigurationError("the session has no configuration: no request was made in it")
        if tools is None:
            definitions = jsonio.parse(config.tools) if config.tools else []
            tools = tuple(
                msgspec.convert(tool, ToolDefinition) if "name" in tool else msgspec.convert(tool, ServerTool)
                for tool in definitions
            )
        request = _parse_parameters(config.parameters)
        if request.cache == "auto" and self._was_idle:
            request = msgspec.structs.replace(request, cache="auto-1h")
        if request.cache_diagnosis is True and self._response_id:
            request = msgspec.structs.replace(request, cache_diagnosis=self._response_id)
        if config.output_mode == "tool":
            tools = (*tools, jsonio.decode_as(config.output_request, ToolDefinition))
        elif config.output_mode == "native":
            form = jsonio.decode_as(config.output_request, JsonSchema)
            request = msgspec.structs.replace(request, response_format=form)
        prompt = _system_prompt(config)
        messages = (*((SystemMessage(prompt),) if prompt else ()), *self._fold.view(in_scope, up_to_seq))
        omit_blocks = [
            (index, block)
            for reply, block in self._refused
            for index, message in enumerate(messages)
            if reply is message
        ]
        return msgspec.structs.replace(
            request,
            model=config.model,
            messages=messages,
            tools=tools,
            stream=True,
            extra_headers=dict(headers or {}),
            omit_blocks=tuple(omit_blocks),
        )

    def _cache(self, config: journal.Configured | None) -> str:
        """Return the value of `cache` in a request with this configuration; empty: no caching."""
        raw = jsonio.members(config.parameters).get("cache") if config is not None and config.parameters else None
        cache = jsonio.decode_as(raw, str) if raw is not None else ""
        return "auto-1h" if cache == "auto" and self._was_idle else "" if cache == "off" else cache

    def compaction_request(
        self,
        asked: journal.CompactionRequested,
        headers: Mapping[str, str] | None = None,
        in_scope: journal.Scope | None = None,
    ) -> ChatRequest:
        """Build the request for a summary. The tools are those of the configuration."""
        if asked.method == "model":
            text = summary_prompt(self._fold.view(None, asked.up_to_seq), asked.focus, asked.budget)
            return ChatRequest(
                model=asked.model, messages=(UserMessage(text),), stream=True, extra_headers=dict(headers or {})
            )
        request = self.request(None, headers, in_scope, asked.up_to_seq)
        is_endpoint = asked.method == "endpoint"
        instructions = summary_instructions(asked.focus) if asked.focus else ""
        extra = {name: value for name, value in request.extra_body.items() if name != "context_management"}
        native = NativeCompaction(endpoint=is_endpoint, instructions=instructions)
        return msgspec.structs.replace(
            request,
            compaction=native,
            response_format=None,
            cache_diagnosis=False,
            extra_body=extra,
            stream=not is_endpoint,
        )


def _system_prompt(config: journal.Configured) -> str:
    if config.output_mode != "prompt":
        return config.system
    return "\n\n".join(filter(None, (config.system, config.output_request)))


def config_after(config: journal.Configured | None, payload: object) -> journal.Configured | None:
    """Return the configuration of a session after an entry."""
    if isinstance(payload, journal.Configured):
        return payload
    if isinstance(payload, journal.HandedOver) and config is not None:
        return msgspec.structs.replace(config, model=payload.model)
    return config


def session_config(entries: Iterable[journal.Entry]) -> journal.Configured | None:
    """Return the configuration of a session, without those of single runs; None before its first entry."""
    config: journal.Configured | None = None
    for entry in entries:
        if not (isinstance(entry.payload, journal.Configured) and entry.payload.scope == "run"):
            config = config_after(config, entry.payload)
    return config


@lru_cache(maxsize=256)
def _parse_parameters(parameters: str) -> ChatRequest:
    members = jsonio.members(parameters) if parameters else {}
    fields = {field.encode_name: field for field in msgspec.structs.fields(ChatRequest)}
    unknown = members.keys() - fields.keys()
    if unknown:
        raise ConfigurationError(f"this version of tenuto does not know the session's parameter {min(unknown)!r}")
    values = {fields[name].name: jsonio.decode_as(raw, fields[name].type) for name, raw in members.items()}
    return msgspec.structs.replace(ChatRequest(model="", messages=()), **values)
