"""Hypothesis strategies: small values of every kind, with unusual content.

They are built from four sorts of text: `words` (any characters), `broken_words` (also with half characters), `tokens`
(signatures) and `objects` (the text of a JSON object).
"""

from __future__ import annotations

import functools
import json

import msgspec
from hypothesis import strategies as st

from tenuto.core import jsonio
from tenuto.core.blocks import (
    AnthropicMeta,
    AnthropicRedactedMeta,
    Audio,
    ChatMeta,
    CodeExecution,
    CodeResult,
    Document,
    DocumentCitation,
    GeminiMeta,
    Image,
    Marker,
    Opaque,
    OpenAiMeta,
    OtherCitation,
    PageCitation,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.loss import Location, Loss
from tenuto.core.messages import (
    AssistantMessage,
    Origin,
    SystemMessage,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)
from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, ServerTool, Thinking, ToolDefinition
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript

DIALECTS = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")

# --- text -------------------------------------------------------------------------------------------------------------

words = st.text(max_size=12)
broken_words = st.text(st.characters(exclude_categories=()) | st.sampled_from('\ud800\udfff\x00"\\'), max_size=12).map(
    jsonio.join_surrogates
)
tokens = st.text("abcdefghijklmnopqrstuvwxyzABCDEF0123456789+/=", min_size=1, max_size=60)
names = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12)
numbers = st.integers(0, 2**40)

json_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
json_values = st.recursive(
    json_scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
documents = json_values.flatmap(
    lambda value: st.sampled_from(
        (json.dumps(value), json.dumps(value, separators=(",", ":"), ensure_ascii=False), json.dumps(value, indent=1))
    )
)
"""JSON texts in several spellings."""
objects = st.dictionaries(words, json_values, max_size=3).flatmap(
    lambda value: st.sampled_from((json.dumps(value), json.dumps(value, separators=(",", ":"), ensure_ascii=False)))
)
"""The texts of JSON objects."""
extras = st.dictionaries(names, json_values, max_size=2).map(
    lambda value: msgspec.json.encode(value).decode() if value else ""
)
"""The content of `extra`: the text of an object, or nothing."""
unreads = st.dictionaries(names.map("later_{}".format), json_values, max_size=2).map(
    lambda value: msgspec.json.encode(value).decode() if value else ""
)
"""The content of `unknown_fields`: fields that no version has."""


def _seldom(strategy, otherwise):
    return st.one_of(*[st.just(otherwise)] * 3, strategy)


_WORDS = {"cache": st.sampled_from(("5m", "1h")), "detail": st.sampled_from(("auto", "low", "high"))}


def _loaded(kind, fields, text):
    """Build a `kind`: `fields` are strategies; other fields have their default or, rarely, any other value.

    With `broken_words`, some values have unknown fields.
    """
    unread = _seldom(unreads, "") if text is broken_words else st.just("")
    any_of = {
        str: text,
        str | None: st.none() | text,
        int: numbers,
        int | None: st.none() | numbers,
        bool: st.booleans(),
    }
    others = {
        field.name: _seldom(_WORDS[field.name] if field.name in _WORDS else any_of[field.type], field.default)
        for field in msgspec.structs.fields(kind)
        if field.name not in fields and field.name != "unknown_fields"
    }
    return st.builds(kind, **fields, **others, unknown_fields=unread)


# --- tokens and citations ---------------------------------------------------------------------------------------------


@functools.cache
def metas_of(text=words):
    """Draw tokens of every kind. With `broken_words`, also half characters and unknown fields."""
    return st.one_of(
        _loaded(AnthropicMeta, {"signature": tokens}, text),
        _loaded(AnthropicRedactedMeta, {"data": tokens}, text),
        _loaded(GeminiMeta, {"thought_signature": tokens}, text),
        _loaded(OpenAiMeta, {"id": text, "encrypted_content": st.none() | tokens}, text),
        _loaded(ChatMeta, {"field": names, "signature": st.just("") | tokens, "details": st.just("") | words}, text),
    )


@functools.cache
def citations_of(text=words):
    """Draw citations of every kind."""
    document = {"document_index": numbers, "document_title": st.none() | text, "cited_text": st.none() | text}
    raw = {"raw": st.just("") | objects}
    return st.one_of(
        _loaded(UrlCitation, {"url": text, "title": st.none() | text, "start_index": st.none() | numbers, **raw}, text),
        _loaded(DocumentCitation, {**document, "start_char_index": st.none() | numbers, **raw}, text),
        _loaded(PageCitation, {**document, "start_page": st.none() | numbers, **raw}, text),
        _loaded(OtherCitation, {"raw": objects}, text),
    )


# --- blocks -----------------------------------------------------------------------------------------------------------


def _block(kind, sort, /, **fields):
    return _loaded(kind, {**fields, "meta": _seldom(metas_of(sort), None), "extra": _seldom(extras, "")}, sort)


@functools.cache
def contents_of(text=words):
    """Draw the content of messages for a model."""
    return st.one_of(
        _block(Text, text, text=text, citations=st.lists(citations_of(text), max_size=2).map(tuple)),
        _block(Image, text, data=tokens, mime=st.just("image/png"), url=st.just("") | text),
        _block(Audio, text, data=tokens, mime=st.just("audio/wav"), transcript=st.none() | text, id=st.just("") | text),
        _block(Document, text, data=tokens, mime=st.just("application/pdf"), title=text, citations=st.booleans()),
        _block(Opaque, text, dialect=st.sampled_from(DIALECTS), raw=objects),
    )


@functools.cache
def calls_of(text=words):
    """Draw calls; some are custom, invalid or have a generated id."""
    return _block(
        ToolUse,
        text,
        id=tokens,
        name=names,
        args=objects | text,
        kind=_seldom(st.sampled_from(("custom", "local_shell_call")), "function"),
        args_error=_seldom(text, ""),
        id_generated=st.booleans(),
        args_missing=st.booleans(),
    )


@functools.cache
def blocks_of(text=words):
    """Draw blocks of every kind."""
    server = {"kind": st.sampled_from(("", "server_tool_use", "mcp_call"))}
    return st.one_of(
        contents_of(text),
        calls_of(text),
        _block(Reasoning, text, text=text),
        _block(Refusal, text, text=text),
        _block(CodeExecution, text, code=text, language=st.sampled_from(("", "PYTHON", "python")), id=text),
        _block(CodeResult, text, outcome=st.sampled_from(("OUTCOME_OK", "OUTCOME_FAILED", "ok", "odd")), output=text),
        _block(ServerToolUse, text, id=tokens, name=names, args=objects | text, **server),
        _block(ServerToolResult, text, tool_use_id=tokens, content=documents | text, **server),
        _block(Marker, text, kind=names, text=st.none() | text),
    )


# --- messages ---------------------------------------------------------------------------------------------------------

stop_reasons = st.none() | st.sampled_from(("stop", "length", "tool_calls", "content_filter", "error"))


@functools.cache
def results_of(text=words):
    """Draw tool results."""
    content = text | st.lists(contents_of(text), max_size=2).map(tuple)
    fields = {"tool_use_id": tokens, "content": content, "is_error": st.booleans(), "extra": _seldom(extras, "")}
    return _loaded(ToolResult, fields, text)


@functools.cache
def assistant_messages_of(text=words):
    """Draw replies with blocks in any order."""
    origin = _loaded(
        Origin, {"provider": names, "dialect": st.sampled_from(DIALECTS), "model": text, "account": text}, text
    )
    fields = {
        "blocks": st.lists(blocks_of(text), max_size=3).map(tuple),
        "stop_reason": stop_reasons,
        "raw_stop_reason": st.none() | text,
        "origin": st.none() | origin,
        "extra": _seldom(extras, ""),
        "incomplete": st.booleans(),
    }
    return _loaded(AssistantMessage, fields, text)


@functools.cache
def messages_of(text=words):
    """Draw unrelated messages of every kind."""
    texts = st.lists(_block(Text, text, text=text, citations=st.just(())), max_size=2).map(tuple)
    return st.one_of(
        _loaded(SystemMessage, {"content": text | texts}, text),
        _loaded(
            UserMessage, {"content": text | st.lists(contents_of(text), max_size=3).map(tuple), "name": text}, text
        ),
        assistant_messages_of(text),
        _loaded(ToolResults, {"results": st.lists(results_of(text), max_size=2).map(tuple)}, text),
    )


@functools.cache
def transcripts_of(text=words):
    """Draw any messages in any order."""
    return _loaded(Transcript, {"messages": st.lists(messages_of(text), max_size=3).map(tuple)}, text)


_questions = st.builds(UserMessage, words.filter(str.strip))


@st.composite
def conversations(draw, text=words):
    """Draw transcripts that a provider accepts: the calls of each turn have results before the next message."""
    messages = [draw(_questions)]
    for _ in range(draw(st.integers(0, 2))):
        reply = draw(assistant_messages_of(text))
        messages.append(_with_own_ids(reply, len(messages)))
        calls = list(messages[-1].tool_calls())
        if calls:
            results = [msgspec.structs.replace(draw(results_of(text)), tool_use_id=call.id) for call in calls]
            messages.append(ToolResults(tuple(results)))
        else:
            messages.append(draw(_questions))
    return Transcript(tuple(messages))


def _with_own_ids(message, turn):
    blocks = tuple(
        msgspec.structs.replace(block, id=f"call_{turn}_{at}") if isinstance(block, ToolUse) else block
        for at, block in enumerate(message.blocks)
    )
    return msgspec.structs.replace(message, blocks=blocks)


# --- requests and responses -------------------------------------------------------------------------------------------

schemas = st.dictionaries(names, st.sampled_from(({"type": "string"}, {"type": "integer"})), max_size=2).map(
    lambda properties: {"type": "object", "properties": properties}
)
tools = st.builds(ToolDefinition, name=names, description=words, parameters=st.none() | schemas) | st.builds(
    ServerTool, kind=st.sampled_from(("web_search", "code_execution"))
)


def requests(models=None, messages=None):
    """Draw requests with any mix of parameters, with a conversation unless `messages` is passed."""
    return st.builds(
        ChatRequest,
        model=st.just("some/model") if models is None else models,
        messages=conversations() if messages is None else messages,
        tools=st.lists(tools, max_size=2).map(tuple),
        tool_choice=st.none() | st.sampled_from(("auto", "required", "none")) | st.builds(NamedTool, names),
        parallel_tool_calls=st.none() | st.booleans(),
        response_format=st.none() | st.sampled_from(("text", "json_object")) | st.builds(JsonSchema, schemas),
        effort=st.none() | st.sampled_from(("none", "minimal", "low", "medium", "high", "xhigh", "max")),
        thinking=st.none()
        | st.builds(Thinking, mode=st.none() | st.sampled_from(("on", "off")), budget=st.none() | st.integers(1, 9999)),
        max_tokens=st.none() | st.integers(1, 99999),
        temperature=st.none() | st.floats(0, 2),
        top_p=st.none() | st.floats(0, 1),
        top_k=st.none() | st.integers(1, 99),
        stop=st.none() | words | st.lists(words, max_size=3).map(tuple),
        seed=st.none() | numbers,
        n=st.none() | st.integers(1, 3),
        user=st.none() | words,
        stream=st.booleans(),
    )


@functools.cache
def usages_of(text=words):
    """Draw usages."""
    count = st.none() | numbers
    shares = st.none() | st.dictionaries(names, numbers, max_size=2)
    fields = {name: count for name in Usage.__struct_fields__ if name.endswith("_tokens")}
    return _loaded(Usage, {**fields, "input_by_modality": shares, "output_by_modality": shares}, text)


@functools.cache
def losses_of(text=words):
    """Draw losses."""
    index = st.none() | st.integers(0, 9)
    location = _loaded(Location, {"message": index, "block": index, "path": text}, text)
    return _loaded(Loss, {"kind": names, "location": location, "detail": text, "remedy": st.just("") | text}, text)


@functools.cache
def responses_of(text=words):
    """Draw normalized replies with the provider's raw values."""
    choice = _loaded(
        Choice, {"message": assistant_messages_of(text), "index": st.integers(0, 3), "extra": _seldom(extras, "")}, text
    )
    fields = {
        "id": text,
        "provider": names,
        "model": text,
        "choices": st.lists(choice, max_size=2).map(tuple),
        "usage": st.none() | usages_of(text),
        "raw_usage": st.just("") | objects,
        "extra": st.just("") | extras,
        "losses": st.lists(losses_of(text), max_size=1).map(tuple),
    }
    return _loaded(ChatResponse, fields, text)


metas = metas_of()
citations = citations_of()
contents = contents_of()
calls = calls_of()
blocks = blocks_of()
assistant_messages = assistant_messages_of()
messages = messages_of()
transcripts = transcripts_of()
usages = usages_of()
losses = losses_of()
responses = responses_of()
