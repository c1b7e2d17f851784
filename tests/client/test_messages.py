"""Reading messages, dictionaries, tools and parameters."""

from __future__ import annotations

import base64
import functools
import json
from types import MappingProxyType, SimpleNamespace

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import assistant_messages_of, broken_words, conversations, json_values, names, objects, tokens, words
from tenuto.client.chat_dicts import to_message
from tenuto.client.request import (
    build_checked_request,
    build_request,
    check_open_calls,
    to_messages,
    to_tools,
)
from tenuto.core import jsonio
from tenuto.core.blocks import Audio, ChatMeta, Document, Image, Opaque, Reasoning, Refusal, Text, ToolUse, UrlCitation
from tenuto.core.messages import (
    AssistantMessage,
    Origin,
    SystemMessage,
    ToolResult,
    ToolResults,
    UserMessage,
    user,
)
from tenuto.core.request import ChatRequest, JsonSchema, NamedTool, ServerTool, Thinking, ToolDefinition
from tenuto.core.response import ChatResponse
from tenuto.core.transcript import Transcript
from tenuto.errors import TranscriptError
from tenuto.wire.chat.encode import verbatim

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00").decode()


class Note(pydantic.BaseModel):
    role: str
    content: str


def call(id="a", name="weather", arguments='{"city": "Oslo"}', **fields):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **fields}


def get_args(*blocks, **fields):
    return AssistantMessage(blocks, **fields)


# --- kinds of messages -----------------------------------------------------------------------------------------------


def test_string_is_a_user_message():
    assert to_messages("Hi") == (UserMessage("Hi"),)
    assert to_messages(["Hi", "there"]) == (UserMessage("Hi"), UserMessage("there"))


def test_message_values_are_used_as_they_are():
    look = user("Look:", Image(url="https://x.org/a.png"))
    results = ToolResults((ToolResult("a", "1"),))

    assert to_messages(look) == (look,)
    assert to_messages((look, results, results)) == (look, results, results)
    assert to_messages(Transcript((look,))) == (look,)
    assert to_messages(iter([look])) == (look,)


def test_consecutive_tool_results_are_one_message():
    asked = get_args(ToolUse("a", "f", "{}"), ToolUse("b", "g", "{}"))
    loose = [
        asked,
        ToolResult("b", "2"),
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        "And?",
        ToolResult("c"),
    ]

    assert to_messages(loose) == (
        asked,
        ToolResults((ToolResult("b", "2"), ToolResult("a", "1"))),
        UserMessage("And?"),
        ToolResults((ToolResult("c"),)),
    )
    assert to_messages(ToolResult("a", "1")) == (ToolResults((ToolResult("a", "1"),)),)


@pytest.mark.parametrize(
    "odd, reason",
    [
        (3, r"messages: .*got int"),
        (None, r"messages are missing"),
        ([None], r"messages\[0\]: .*got NoneType"),
        (Note(role="user", content="Hi"), r"messages: .*got Note; .*model_dump\(\)"),
        (["Hi", Note(role="user", content="Hi")], r"messages\[1\]: .*got Note; .*model_dump\(\)"),
        (SimpleNamespace(role="user"), r"messages: .*got SimpleNamespace"),
        (b"Hi", r"messages: .*got bytes"),
        (Image(url="https://x.org"), r"messages: .*got Image; wrap it in user"),
        (["Hi", Text("there")], r"messages\[1\]: .*got Text; wrap it in user"),
        ([["Hi"]], r"messages\[0\]: .*got list"),
        ([ChatResponse("", "", "", ())], r"messages\[0\]: .*use its `message` or `transcript`"),
    ],
)
def test_invalid_message_is_refused(odd, reason):
    with pytest.raises(TypeError, match=reason):
        to_messages(odd)


# --- dictionaries -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_and_developer_messages_are_instructions(role):
    assert to_messages({"role": role, "content": "Be brief."}) == (SystemMessage("Be brief."),)
    parts = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    assert to_messages({"role": role, "content": parts}) == (SystemMessage((Text("Be brief.", cache="1h"),)),)


def test_user_message_with_name():
    assert to_messages({"role": "user", "content": "Hi", "name": "ann"}) == (UserMessage("Hi", "ann"),)
    assert to_messages(MappingProxyType({"role": "user", "content": "Hi", "tool_calls": None})) == (UserMessage("Hi"),)


def test_all_parts_of_a_user_message_are_read():
    parts = [
        {"type": "text", "text": ""},
        {"type": "text", "text": "Look:", "cache_control": {"type": "ephemeral"}, "citations": None},
        {"type": "image_url", "image_url": {"url": "https://x.org/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": f"data:image/jpg;base64,{PNG}"}},
        {"type": "image_url", "image_url": "gs://bucket/a"},
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
        {"type": "input_audio", "input_audio": {"data": "data:audio/flac;base64,ZkxhQw==", "format": "flac"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": "data:;base64,JVBERi0="}},
        {"type": "file", "file": {"file_data": "JVBERi0=", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"block_type": "text", "text": "stored"},
        Image(file_id="f"),
    ]  # fmt: skip

    assert to_messages({"role": "user", "content": parts}) == (
        UserMessage(
            (
                Text(""),
                Text("Look:", cache="5m"),
                Image(url="https://x.org/a.png", detail="low"),
                Image(PNG, "image/jpg"),
                Image(url="gs://bucket/a"),
                Audio("UklG", "audio/wav"),
                Audio("SUQz", "audio/mpeg"),
                Audio("ZkxhQw==", "audio/flac"),
                Document("JVBERi0=", "application/pdf", title="a.pdf"),
                Document("JVBERi0=", "application/pdf"),
                Document("JVBERi0=", "application/pdf", title="a.pdf"),
                Document(file_id="file-1"),
                Text("stored"),
                Image(file_id="f"),
            )
        ),
    )
    assert to_messages({"role": "user", "content": Image(file_id="f")}) == (UserMessage((Image(file_id="f"),)),)


@pytest.mark.parametrize("role", ["system", "user", "tool"])
@pytest.mark.parametrize(
    "hint",
    [{"cache": "1h"}, {"cache_control": {"type": "ephemeral", "ttl": "1h"}}, {"cache": "1h", "cache_control": None}],
)
def test_text_part_has_a_cache_lifetime(role, hint):
    part = {"type": "text", "text": "a", **hint}
    asked = [{"role": "assistant", "tool_calls": [call()]}] if role == "tool" else []
    *_, message = to_messages([*asked, {"role": role, "tool_call_id": "a" if asked else None, "content": [part]}])
    content = message.results[0].content if role == "tool" else message.content

    assert content == (Text("a", cache="1h"),)


def test_image_part_has_a_cache_lifetime():
    part = {"type": "image_url", "image_url": {"url": "https://x.org"}, "cache": "5m", "later": 1}

    assert to_messages({"role": "user", "content": [part]}) == (
        UserMessage((Image(url="https://x.org", cache="5m", extra='{"later":1}'),)),
    )


@pytest.mark.parametrize("role", ["system", "user"])
def test_unknown_key_of_a_text_part_is_an_error(role):
    """Every provider would refuse it."""
    part = {"type": "text", "text": "a", "cahce": "5m"}

    with pytest.raises(TranscriptError) as raised:
        to_messages({"role": role, "content": [part]})
    get_args = str(raised.value)
    assert get_args.startswith("messages[0].content[0].cahce: ")
    assert all(name in get_args for name in ("type", "text", "cache", "cache_control"))


@pytest.mark.parametrize(
    "hint",
    [
        {"cache": "9h"},
        {"cache": True},
        {"cache_control": {"type": "ephemeral", "ttl": "9h"}},
        {"cache_control": {"type": "other"}},
        {"cache_control": {"type": "ephemeral", "scope": "all"}},
        {"cache_control": "5m"},
    ],
)
def test_unreadable_cache_lifetime_is_an_error(hint):
    with pytest.raises(TranscriptError, match=rf"^messages\[0\]\.content\[0\]\.{next(iter(hint))}"):
        to_messages({"role": "user", "content": [{"type": "text", "text": "a", **hint}]})


def test_tool_message_is_a_result():
    asked = {"role": "assistant", "content": None, "tool_calls": [call()]}
    image = [{"type": "image_url", "image_url": {"url": "https://x.org"}}]

    def answer(**fields):
        return to_messages([asked, {"role": "tool", "tool_call_id": "a", **fields}])[1].results[0]

    assert answer(content="12") == ToolResult("a", "12")
    assert answer(content=None) == ToolResult("a", "")
    assert answer(content="12", name="weather") == ToolResult("a", "12")
    assert answer(content="12", name="other") == ToolResult("a", "12", extra='{"name":"other"}')
    assert answer(content="no", is_error=True, later=1) == ToolResult("a", "no", is_error=True, extra='{"later":1}')
    assert answer(content=image) == ToolResult("a", (Image(url="https://x.org"),))


def test_assistant_text_and_calls_are_read():
    args = '{"city":  "Oslo", "t": 1.10}'
    calls = [call("a", arguments=args, index=0), call("b", arguments="{oops", later=2), call("c", arguments={"x": 1})]
    calls += [
        {"id": "d", "function": {"name": "f"}},
        {"id": "e", "type": "custom", "custom": {"name": "g", "input": "x"}},
    ]

    assert to_messages({"role": "assistant", "content": "Let me see.", "tool_calls": calls, "refusal": None}) == (
        get_args(
            Text("Let me see."),
            ToolUse("a", "weather", args),
            ToolUse("b", "weather", "{oops", args_error=jsonio.problem("{oops"), extra='{"later":2}'),
            ToolUse("c", "weather", '{"x":1}'),
            ToolUse("d", "f", "", args_missing=True),
            ToolUse("e", "g", "x", kind="custom"),
        ),
    )
    assert to_messages({"role": "assistant", "content": "Hi"}) == (get_args(Text("Hi")),)
    assert to_messages({"role": "assistant", "content": ""}) == (get_args(),)
    assert to_messages({"role": "assistant", "content": "", "tool_calls": [call(arguments="{}")]}) == (
        get_args(ToolUse("a", "weather", "{}")),
    )


def test_assistant_reasoning_audio_and_citations_are_read():
    details = [{"type": "reasoning.encrypted", "data": "tok", "id": "r1"}]
    source = {"type": "url_citation", "url_citation": {"url": "https://x.org", "title": "X"}}
    documents = [
        {"role": "assistant", "content": "Hi", "reasoning_content": "hm"},
        {"role": "assistant", "content": "Hi", "reasoning": "hm", "reasoning_details": details},
        {"role": "assistant", "audio": {"id": "audio_1"}},
        {"role": "assistant", "content": None, "refusal": "No."},
        {
            "role": "assistant",
            "content": "Hi",
            "annotations": [source],
            "later": 1,
            "name": "bob",
            "tool_calls": [call()],
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}, Text("c")],
        },
        {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
        {"role": "assistant", "content": [{"block_type": "reasoning", "text": "hm"}]},
    ]
    read = to_messages(documents)

    assert read[0] == get_args(Reasoning("hm", meta=ChatMeta(field="reasoning_content")), Text("Hi"))
    assert read[1].blocks[0].meta.field == "reasoning"
    assert json.loads(read[1].blocks[0].meta.details) == details
    assert read[2] == get_args(Audio(id="audio_1"))
    assert read[3] == get_args(Refusal("No."))
    assert [type(block) for block in read[4].blocks] == [Text, ToolUse]
    assert isinstance(read[4].blocks[0].citations[0], UrlCitation)
    assert json.loads(read[4].extra) == {"annotations": [source], "later": 1, "name": "bob"}
    assert read[5] == get_args(Text("a"), Refusal("b"), Text("c"))
    assert read[6] == get_args(Reasoning("hm", meta=ChatMeta(field="content")))
    assert read[7] == get_args(Reasoning("hm"))


def test_older_form_of_calls_is_read():
    """A result of a function has no id: its name determines the call."""
    documents = [
        "Weather?",
        {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}},
        {"role": "function", "name": "weather", "content": "12"},
    ]
    _, asked, answered = to_messages(documents)

    (use,) = asked.blocks
    assert (use.name, use.args, use.id_generated, use.extra) == ("weather", "{}", True, "")
    assert answered == ToolResults((ToolResult(use.id, "12"),))
    assert to_messages(documents) == to_messages(documents)
    assert to_messages(["Hm", *documents])[2].blocks[0].id != use.id
    with pytest.raises(TranscriptError, match=r"messages\[0\]\.name: no earlier function_call of 'f'"):
        to_messages({"role": "function", "name": "f", "content": ""})
    with pytest.raises(TranscriptError, match=r"messages\[3\]\.name: no earlier function_call"):
        to_messages([*documents, documents[-1]])


USER = "messages[0].content[0]"
BAD = [
    ({}, "messages[0].role: the role is missing: use system, developer, user"),
    ({"role": 1}, "messages[0].role: expected a string, got int"),
    ({"role": "bot", "content": ""}, "messages[0].role: unknown role 'bot': use system, developer"),
    ({"role": "model", "parts": []}, "messages[0].parts: a message in the form of Gemini"),
    ({"type": "function_call_output", "output": ""}, "an item 'function_call_output' has the form of Responses"),
    ({"role": "user"}, "messages[0].content: expected a string or a list"),
    ({"role": "user", "content": 3}, "messages[0].content: expected a list, got int"),
    ({"role": "user", "content": ["Hi"]}, f"{USER}: expected a part, an object with a type; got a string"),
    ({"role": "user", "content": [{"text": "Hi"}]}, f"{USER}.type: the type is missing"),
    ({"role": "user", "content": [{"type": "video"}]}, f"{USER}.type: unknown type 'video'; messages must have"),
    ({"role": "user", "content": [{"type": ["text"]}]}, f"{USER}.type: unknown type ['text']"),
    ({"role": "user", "content": [{"type": "input_text"}]}, f"{USER}.type: 'input_text' has the form of Responses"),
    ({"role": "user", "content": [{"type": "tool_result"}]}, "'tool_result' has the form of Anthropic Messages"),
    ({"role": "user", "content": [{"type": "refusal"}]}, f"{USER}.type: unknown type 'refusal'"),
    ({"role": "user", "content": [{"type": "text"}]}, f"{USER}.text: a string is missing"),
    ({"role": "user", "content": [{"type": "text", "text": 1}]}, f"{USER}.text: expected a string, got int"),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": "https://x.org", "x": object()}]},
        f"{USER}.x: cannot be written as JSON",
    ),
    ({"role": "user", "content": [{"block_type": "refusal", "text": ""}]}, f"{USER}: a block Refusal is not allowed"),
    ({"role": "user", "content": [{"type": "image_url"}]}, f"{USER}.image_url.url: a string is missing"),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": ""}}]},
        f"{USER}.image_url.url: must not be empty",
    ),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x", "x": 1}}]},
        f"{USER}.image_url.x: unknown field of an image_url; known fields: url, detail",
    ),
    (
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:application/pdf;base64,JVBERi0="}}],
        },
        f"{USER}: the data is application/pdf, not an image",
    ),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,#"}}]},
        f"{USER}: invalid base64 in a data: URL",
    ),
    (
        {"role": "user", "content": [{"type": "input_audio", "input_audio": "x"}]},
        f"{USER}.input_audio: expected an object",
    ),
    ({"role": "user", "content": [{"type": "input_audio"}]}, f"{USER}.input_audio.format: a string is missing"),
    ({"role": "user", "content": [{"type": "file", "file": {"filename": "a"}}]}, f"{USER}.file: file_data or file_id"),
    (
        {"role": "user", "content": "", "later": 1},
        "messages[0].later: unknown field of a user message; known fields: role",
    ),
    ({"role": "system", "content": None}, "messages[0].content: expected a string or a list"),
    ({"role": "system", "content": "", "name": "x"}, "messages[0].name: unknown field of a system message"),
    (
        {"role": "system", "content": [{"type": "image_url", "image_url": "https://x"}]},
        f"{USER}: a system message must be text, not Image",
    ),
    ({"role": "tool", "content": ""}, "messages[0].tool_call_id: the id of the call is missing"),
    (
        {"role": "tool", "tool_call_id": "a", "content": "", "is_error": 1},
        "messages[0].is_error: expected true or false",
    ),
    ({"role": "assistant", "tool_calls": {}}, "messages[0].tool_calls: expected a list, got an object"),
    ({"role": "assistant", "tool_calls": [1]}, "messages[0].tool_calls[0]: expected a call"),
    ({"role": "assistant", "tool_calls": [{"type": "function"}]}, "messages[0].tool_calls[0].id: a string is missing"),
    ({"role": "assistant", "tool_calls": [call(type="mcp")]}, "tool_calls[0].type: unknown type 'mcp'"),
    (
        {"role": "assistant", "tool_calls": [{"id": "a"}]},
        "tool_calls[0].function: expected an object with the name and arguments",
    ),
    ({"role": "assistant", "tool_calls": [call(name="")]}, "tool_calls[0].function.name: must not be empty"),
    ({"role": "assistant", "tool_calls": [call(arguments=[1])]}, "tool_calls[0].function.arguments: expected a string"),
    ({"role": "assistant", "function_call": "f"}, "messages[0].function_call: expected an object"),
    ({"role": "assistant", "function_call": {"arguments": ""}}, "messages[0].function_call.name: a string is missing"),
    ({"role": "assistant", "reasoning_content": 1}, "messages[0].reasoning_content: expected a string"),
    ({"role": "assistant", "content": [{"type": "tool_use"}]}, "'tool_use' has the form of Anthropic Messages"),
    (
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}]},
        f"{USER}.type: 'thinking' has the form of Anthropic Messages",
    ),
    ({"role": "assistant", "content": [{"type": "text"}]}, f"{USER}.text: a string is missing"),
    ({"role": "assistant", "blocks": [{"type": "text"}]}, "messages[0].blocks[0]: expected a block in its stored form"),
    ({"role": "assistant", "blocks": {}}, "messages[0].blocks: expected a list"),
    ({"role": "assistant", "stored": "{"}, "messages[0]: invalid stored form"),
    (
        {"role": "assistant", "stored": '{"role":"user","content":""}'},
        "messages[0].stored: expected a reply, got a UserMessage",
    ),
]


@pytest.mark.parametrize("document, reason", BAD, ids=[told for _, told in BAD])
def test_error_of_a_dictionary_names_position_and_reason(document, reason):
    with pytest.raises(TranscriptError) as raised:
        to_messages([document])

    assert reason in str(raised.value)


def test_fields_that_cannot_be_sent_are_refused():
    deep = functools.reduce(lambda inner, _: [inner], range(300), [])
    endless: dict[str, object] = {}
    endless["again"] = endless

    for value in (deep, endless, float("nan"), {3, object()}):
        for document in (
            {"role": "assistant", "content": "", "later": value},
            {"role": "assistant", "blocks": [], "later": value},
            {"role": "user", "content": [{"type": "text", "text": "", "later": value}]},
            {"role": "tool", "tool_call_id": "a", "later": value},
        ):
            with pytest.raises(TranscriptError, match=r"^messages\[0\]\S*: "):
                to_messages([document])


def test_position_counts_messages_and_parts():
    documents = [
        "Hi",
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": [Text("a"), {"type": "odd"}]},
    ]

    with pytest.raises(TranscriptError, match=r"^messages\[2\]\.content\[1\]\.type: unknown type 'odd'"):
        to_messages(documents)


# --- any dictionary ---------------------------------------------------------------------------------------------------

_later = st.dictionaries(names.map("later_{}".format), json_values.filter(lambda value: value is not None), max_size=2)


def _objects(optional=None, **needed):
    return st.fixed_dictionaries(needed, optional=optional or {})


def _with_later(strategy):
    return st.tuples(strategy, _later).map(lambda pair: {**pair[0], **pair[1]})


_texts = _with_later(_objects(type=st.just("text"), text=words))
_parts = st.one_of(
    _objects({"cache": st.sampled_from(("5m", "1h"))}, type=st.just("text"), text=words),
    _with_later(
        _objects(
            type=st.just("image_url"),
            image_url=_objects({"detail": st.sampled_from(("low", "high"))}, url=words.map("https://x.org/{}".format)),
        )
    ),
    _objects(
        type=st.just("input_audio"), input_audio=_objects(data=tokens, format=st.sampled_from(("wav", "mp3", "aac")))
    ),
    _objects(type=st.just("file"), file=_objects({"filename": words}, file_id=tokens)),
)
_calls = _with_later(
    _objects(id=tokens, type=st.just("function"), function=_with_later(_objects(name=names, arguments=objects | words)))
) | _objects(id=tokens, type=st.just("custom"), custom=_objects(name=names, input=words))
_assistants = _with_later(
    _objects(
        {
            "reasoning_content": words.filter(bool),
            "refusal": words.filter(bool),
            "tool_calls": st.lists(_calls, min_size=1, max_size=3),
        },
        role=st.just("assistant"),
        content=words.filter(bool) | st.lists(_texts.filter(lambda part: len(part) > 2), min_size=1, max_size=3),
    )
)
_users = _objects({"name": words.filter(bool)}, role=st.just("user"), content=words | st.lists(_parts, max_size=3))


@settings(max_examples=25)
@given(_assistants)
def test_reply_dictionary_round_trips(document):
    """The message without its reading has the text of the dictionary."""
    (message,) = to_messages([document])

    assert json.loads(jsonio.encode(verbatim(message)[0])) == document


@settings(max_examples=25)
@given(_users)
def test_message_dictionary_loses_nothing(document):
    """Every value of the dictionary is in the message."""
    (message,) = to_messages([document])

    assert message.name == document.get("name", "")
    if isinstance(document["content"], str):
        assert message.content == document["content"]
        return
    for part, block in zip(document["content"], message.content, strict=True):
        fields = jsonio.parse(block.extra) if block.extra else {}
        held = [value for name, value in msgspec.structs.asdict(block).items() if name != "extra"]
        for name, value in part.items():
            if name.startswith("later_"):
                assert fields[name] == value
            elif isinstance(value, dict):
                assert all(inner in held or f"audio/{inner}" in held or inner == "mp3" for inner in value.values())
            elif name != "type":
                assert value in held


_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | broken_words | st.sampled_from(("text", "user", "assistant")),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ("role", "content", "type", "text", "image_url", "url", "file", "file_data", "input_audio", "data", "format",
             "tool_calls", "id", "function", "name", "arguments", "function_call", "tool_call_id", "reasoning_details",
             "reasoning", "audio", "images", "annotations", "refusal", "blocks", "stored", "block_type", "thinking",
             "cache_control")
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
_roles = st.sampled_from(("system", "user", "assistant", "tool", "function", "odd"))


@settings(max_examples=60)
@given(
    st.lists(
        _junk | st.tuples(_junk, _roles).map(lambda p: {**(p[0] if isinstance(p[0], dict) else {}), "role": p[1]}),
        max_size=3,
    )
)
def test_random_dictionary_is_read_or_refused(documents):
    """The result is a list of messages or one of three errors."""
    try:
        found = to_messages(documents)
    except (TranscriptError, ValueError, TypeError):
        return
    assert all(isinstance(message, SystemMessage | UserMessage | AssistantMessage | ToolResults) for message in found)


# --- round trips -----------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(assistant_messages_of() | assistant_messages_of(broken_words))
def test_reply_as_a_dictionary_makes_the_same_reply(message):
    """Tokens, origin, reasons and fields of later versions survive, also after another JSON library."""
    document = to_message(message)

    assert to_messages([document]) == (message,)
    assert to_messages([json.loads(json.dumps(document))]) == (message,)
    assert document["role"] == "assistant"


def test_reply_as_a_dictionary_has_the_standard_fields():
    message = get_args(
        Reasoning("hm"),
        Text("Let "),
        Text("me see."),
        ToolUse("a", "weather", '{"t":1.10}'),
        ToolUse("b", "g", "x", kind="custom"),
        Refusal("No."),
        origin=Origin("mine", "openai-chat"),
    )
    document = to_message(message)

    assert document["content"] == "Let me see."
    assert document["refusal"] == "No."
    assert document["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"t":1.10}'}},
        {"id": "b", "type": "custom", "custom": {"name": "g", "input": "x"}},
    ]
    assert [block["block_type"] for block in document["blocks"]] == [
        "reasoning", "text", "text", "tool_use", "tool_use", "refusal",
    ]  # fmt: skip
    assert "stored" not in document
    assert to_message(get_args())["content"] is None


def test_number_that_json_parsers_change_is_stored_as_text():
    """JSON parsers read `1.10` as 1.1."""
    later = get_args(Opaque("", '{"block_type":"later","n":1.10}'), unknown_fields='{"n":1.10}')
    document = to_message(later)

    assert to_messages([json.loads(json.dumps(document))]) == (later,)
    with pytest.raises(TranscriptError, match=r"messages\[0\]\.blocks: differs"):
        to_messages([{**document, "blocks": [{"block_type": "text", "text": "x"}]}])


def test_blocks_that_contradict_the_content_are_refused():
    document = to_message(get_args(Text("Hi"), ToolUse("a", "f", "{}")))

    assert to_messages({"role": "assistant", "blocks": document["blocks"]}) == (
        get_args(Text("Hi"), ToolUse("a", "f", "{}")),
    )
    assert to_messages({"role": "assistant", "blocks": [Text("Hi")]}) == (get_args(Text("Hi")),)
    for name, value in (("content", "Ho"), ("tool_calls", [call()]), ("refusal", "No.")):
        with pytest.raises(TranscriptError, match=rf"messages\[0\]\.{name}: differs"):
            to_messages({**document, name: value})


# --- instructions and open calls --------------------------------------------------------------------------------------


def test_instructions_are_the_first_message():
    old, hi = SystemMessage("Old."), UserMessage("Hi")

    def messages(messages_arg, system):
        return build_request("some/model", messages_arg, {"system": system}).messages

    assert messages((hi,), "New.") == (SystemMessage("New."), hi)
    assert messages((old, hi, old), "New.") == (SystemMessage("New."), hi, old)
    assert messages((), "New.") == (SystemMessage("New."),)
    assert messages((old, hi), None) == (old, hi)


def test_open_calls_are_named():
    asked = get_args(ToolUse("a", "weather", "{}"), ToolUse("b", "clock", "{}"))

    with pytest.raises(TranscriptError, match=r"weather \(a\), clock \(b\)"):
        check_open_calls((asked,))
    with pytest.raises(TranscriptError, match=r"without a result: clock \(b\);"):
        check_open_calls((asked, ToolResults((ToolResult("a"),)), UserMessage("Hi")))
    check_open_calls((asked, ToolResults((ToolResult("b"),)), UserMessage("Hi"), ToolResults((ToolResult("a"),))))
    check_open_calls((get_args(*asked.blocks, incomplete=True), UserMessage("Hi")))
    check_open_calls((get_args(ToolUse("a", "f", "{}", extra='{"async":true}')), UserMessage("Hi")))


@settings(max_examples=25)
@given(conversations())
def test_complete_conversation_has_no_open_calls(transcript):
    check_open_calls(transcript.messages)


# --- tools ------------------------------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def test_tools_in_every_form_are_read():
    weather = ToolDefinition("weather", "The weather.", SCHEMA)
    search = ServerTool("web_search")
    nested = {"type": "function", "function": {"name": "a", "description": "A.", "parameters": SCHEMA, "strict": True}}
    flat = {"type": "function", "name": "b", "parameters": SCHEMA, "later": 1, "description": None}
    custom = {
        "type": "custom",
        "custom": {"name": "c", "format": {"type": "text"}},
        "cache_control": {"type": "ephemeral"},
    }
    odd_hint = {"type": "custom", "name": "d", "cache_control": {"type": "other"}}
    tool = SimpleNamespace(definition=ToolDefinition("e"))

    assert to_tools([weather, search, nested, flat, custom, odd_hint, tool]) == (
        weather,
        search,
        ToolDefinition("a", "A.", SCHEMA, strict=True),
        ToolDefinition("b", parameters=SCHEMA, options={"later": 1}),
        ToolDefinition("c", kind="custom", cache="5m", options={"custom": {"format": {"type": "text"}}}),
        ToolDefinition("d", kind="custom", options={"cache_control": {"type": "other"}}),
        ToolDefinition("e"),
    )
    assert to_tools(SimpleNamespace(definitions=lambda: [weather, search])) == (weather, search)
    assert to_tools([SimpleNamespace(definitions=lambda: [weather]), search]) == (weather, search)
    assert to_tools([]) == to_tools(None) == ()
    assert to_tools([search, search]) == (search, search)


@pytest.mark.parametrize(
    "tools, error, reason",
    [
        ("weather", TypeError, "tools: expected a list of tools, got str"),
        ({"type": "function"}, TypeError, "tools: expected a list of tools, got dict"),
        (ToolDefinition("a"), TypeError, "tools: expected a list of tools, got ToolDefinition"),
        ([3], TypeError, r"tools\[0\]: expected a tool or its definition, got int"),
        ([ToolDefinition("a"), len], TypeError, r"tools\[1\]: .*put @tool on it"),
        ([{"name": "a", "input_schema": {}}], ValueError, r"tools\[0\]: expected .*'function'.* got the type None"),
        (
            [{"type": "web_search"}],
            ValueError,
            r"tools\[0\]: .*'web_search'; a tool that the provider runs is a Server",
        ),
        ([{"type": "function", "function": 1}], ValueError, r"tools\[0\]\.function: expected an object"),
        ([{"type": "function", "function": {}}], ValueError, r"tools\[0\]: .*`name`"),
        ([{"type": "function", "name": "a", "parameters": 1}], ValueError, r"tools\[0\]: .*parameters"),
        ([ToolDefinition("a"), {"type": "function", "name": "a"}], ValueError, "tools: duplicate names: 'a'"),
    ],
)
def test_invalid_tool_is_refused(tools, error, reason):
    with pytest.raises(error, match=reason):
        to_tools(tools)


# --- requests ---------------------------------------------------------------------------------------------------------


def test_request_is_built_from_arguments():
    request = build_request(
        "some/model",
        "Hi",
        {
            "system": "Be brief.",
            "tools": [{"type": "function", "name": "f"}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": SCHEMA, "strict": None, "description": None},
            },
            "stop": ["a", "b"],
            "modalities": iter(["text"]),
            "logit_bias": {50256: -100},
            "thinking": {"mode": "on"},
            "effort": "high",
            "temperature": 1,
            "extra_body": MappingProxyType({"a": 1}),
            "metadata": None,
            "seed": None,
        },
    )

    assert request == ChatRequest(
        model="some/model",
        messages=(SystemMessage("Be brief."), UserMessage("Hi")),
        tools=(ToolDefinition("f"),),
        tool_choice=NamedTool("f"),
        response_format=JsonSchema(SCHEMA, "x"),
        stop=("a", "b"),
        modalities=("text",),
        logit_bias={"50256": -100},
        thinking=Thinking(mode="on"),
        effort="high",
        temperature=1,
        extra_body={"a": 1},
    )
    assert isinstance(request.temperature, int)
    assert build_request("some/model", "Hi", {"stop": "a"}).stop == "a"


def test_transcript_is_used_as_it_is():
    transcript = Transcript((UserMessage("Hi"),), unknown_fields='{"later":1}')

    assert build_request("some/model", transcript, {}).messages == transcript
    assert build_request("some/model", transcript, {"system": "x"}).messages == Transcript(
        (SystemMessage("x"), UserMessage("Hi")), unknown_fields='{"later":1}'
    )


@pytest.mark.parametrize(
    "given_choice, choice",
    [
        ("auto", "auto"),
        ("required", "required"),
        (NamedTool("f"), NamedTool("f")),
        ({"type": "function", "name": "f"}, NamedTool("f")),
        ({"type": "custom", "custom": {"name": "f"}}, NamedTool("f")),
    ],
)
def test_tool_choices_are_read(given_choice, choice):
    assert build_request("m", "Hi", {"tool_choice": given_choice}).tool_choice == choice


@pytest.mark.parametrize(
    "given_format, format",
    [
        ("text", "text"),
        ({"type": "text"}, "text"),
        ({"type": "json_object"}, "json_object"),
        (JsonSchema(SCHEMA), JsonSchema(SCHEMA)),
        ({"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": True}}, JsonSchema(SCHEMA, strict=True)),
    ],
)
def test_output_formats_are_read(given_format, format):
    assert build_request("m", "Hi", {"response_format": given_format}).response_format == format


@pytest.mark.parametrize(
    "parameters, error, reason",
    [
        ({"temprature": 1}, TypeError, "unknown parameter 'temprature': did you mean 'temperature'?"),
        ({"max_completion_tokens": 1}, TypeError, "did you mean 'max_tokens'?"),
        ({"reasoning_effort": "low"}, TypeError, "did you mean 'effort'?"),
        ({"zzzz": 1}, TypeError, "extra_body; the parameters are system, tools"),
        ({"model": "x"}, TypeError, "unknown parameter 'model'"),
        ({"temperature": "hot"}, ValueError, "temperature: Expected `float | null`, got `str`"),
        (
            {"effort": "hihg"},
            ValueError,
            "effort: expected 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max', got 'hihg'",
        ),
        ({"effort": 3}, ValueError, "effort: expected 'none'"),
        ({"cache": "forever"}, ValueError, "cache: expected 'auto', 'auto-1h', '5m', '1h', 'off', got 'forever'"),
        ({"foreign_reasoning": "x"}, ValueError, "foreign_reasoning: expected 'omit', 'note', 'inline', got 'x'"),
        ({"omit_blocks": ((0, 0),)}, TypeError, "unknown parameter 'omit_blocks'"),
        ({"max_tokens": 1.5}, ValueError, "max_tokens: "),
        ({"stop": 3}, ValueError, "stop: "),
        ({"tool_choice": "any"}, ValueError, "tool_choice: expected 'auto', 'required', 'none'"),
        ({"tool_choice": {"type": "tool", "name": "f"}}, ValueError, "tool_choice: expected"),
        ({"response_format": "json"}, ValueError, "response_format: expected 'text'"),
        ({"response_format": {"type": "json_schema"}}, ValueError, "response_format: expected"),
        ({"response_format": {"type": "json_object", "x": 1}}, ValueError, "response_format: expected"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, ValueError, "response_format.json_schema: "),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "x": 1}}},
            ValueError,
            "expected 'text'",
        ),
        ({"system": ["x"]}, TypeError, "system: expected a string, got list"),
    ],
)
def test_invalid_parameter_is_refused(parameters, error, reason):
    with pytest.raises(error) as raised:
        build_request("some/model", "Hi", parameters)

    assert reason in str(raised.value)


def test_empty_request_is_refused():
    with pytest.raises(TranscriptError, match="at least one message"):
        build_request("some/model", [], {})
    with pytest.raises(TypeError, match="model: expected provider/model"):
        build_request(None, "Hi", {})


def test_request_is_read_from_one_dictionary():
    document = {
        "model": "some/model",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
    }

    def read_request(document):
        return build_checked_request(document, None, {}, str, stream=True)

    assert read_request(document) == ChatRequest(
        model="some/model", messages=(UserMessage("Hi"),), stream=True, max_tokens=5
    )
    for name in ("model", "messages"):
        with pytest.raises(TypeError, match=f"the request has no {name}"):
            read_request({key: value for key, value in document.items() if key != name})
    with pytest.raises(ValueError, match="stream_options: only include_usage"):
        read_request({**document, "stream_options": {"x": 1}})


def test_call_takes_a_request_or_a_model_with_messages():
    hi = ChatRequest(model="own/m", messages=(UserMessage("Hi"),), stream=True, max_tokens=5)

    def read_request(asked, messages=None, **parameters):
        return build_checked_request(asked, messages, parameters, "own/{}".format, stream=True)

    assert read_request("m", "Hi", max_tokens=5) == hi
    assert read_request(msgspec.structs.replace(hi, model="m", stream=False)) == hi
    assert read_request({"model": "m", "messages": "Hi", "max_tokens": 5}) == hi
    with pytest.raises(TypeError, match="messages are missing"):
        read_request("m")
    with pytest.raises(TypeError, match="a complete request: put max_tokens into it"):
        read_request(hi, max_tokens=5)
    with pytest.raises(TypeError, match="a complete request: put messages into it"):
        read_request(hi, "Hi")
    for asked, reason in (
        ((3,), "got int"),
        ((3, "Hi"), r"the model is int: expected a string, provider/model"),
        ((None, "Hi"), r"the model is None: expected a string, provider/model"),
        ((None,), r"the model is None"),
        (("m", None), r"messages are missing"),
    ):
        with pytest.raises(TypeError, match=reason):
            read_request(*asked)
    with pytest.raises(TypeError, match="the model is None"):
        read_request(None, max_tokens=5)
    for asked in (
        ("m", [get_args(ToolUse("a", "f", "{}"))]),
        (ChatRequest(model="m", messages=(get_args(ToolUse("a", "f", "{}")),)),),
    ):
        with pytest.raises(TranscriptError, match=r"f \(a\)"):
            read_request(*asked)


@pytest.mark.parametrize(
    "asked", [("own/m", "Hi", {"stream": True}), ({"model": "own/m", "messages": "Hi", "stream": True}, None, {})]
)
def test_chat_refuses_stream(asked):
    with pytest.raises(TypeError, match=r"use stream\(\)"):
        build_checked_request(*asked, str, stream=False)
    assert build_checked_request(*asked, str, stream=True).stream


def test_stream_refuses_stream_false():
    with pytest.raises(TypeError, match=r"use chat\(\)"):
        build_checked_request("own/m", "Hi", {"stream": False}, str, stream=True)
    assert not build_checked_request("own/m", "Hi", {"stream": False}, str, stream=False).stream


@pytest.mark.parametrize(
    "part, error, reason",
    [
        (Image("photo.png"), ValueError, "Image.from_path, from_bytes or from_url"),
        (Audio("./a.wav"), ValueError, "Audio.from_path"),
        (Image("data:image/png;base64,aGk="), ValueError, "from_url"),
        (Image(b"x"), TypeError, "Image.from_bytes"),
        (b"x", TypeError, "Image.from_bytes"),
        (3, TypeError, "cannot hold int"),
    ],
)
def test_newest_message_refuses_invalid_content(part, error, reason):
    for make in (lambda: user("See", part), lambda: build_request("some/model", UserMessage((part,)), {})):
        with pytest.raises(error, match=reason):
            make()
