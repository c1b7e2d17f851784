"""Encode messages: contents, parts, signatures, tool results."""

from __future__ import annotations

import base64
import json

import pytest
from msgspec.structs import replace

from tenuto.core.blocks import (
    AnthropicMeta,
    Audio,
    CodeExecution,
    Document,
    GeminiMeta,
    Image,
    Marker,
    Opaque,
    Reasoning,
    Refusal,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.messages import AssistantMessage, Origin, SystemMessage, ToolResult, ToolResults, UserMessage
from wire.gemini.cases import PARTS, chunk
from wire.gemini.decode_helpers import whole
from wire.gemini.encode_helpers import BUDGET, LEVEL, SIGNED, body, contents, losses, target, write

OWN = Origin("here", "gemini", "gemini-3-pro")


def assistant(*blocks) -> AssistantMessage:
    return AssistantMessage(blocks)


def parts(*blocks, to=None, **fields) -> list:
    """Return the parts of an assistant message between two user messages."""
    turns = contents("Hi", assistant(*blocks), "Go on", to=to, **fields)
    return turns[1]["parts"] if len(turns) > 2 else []


# --- path, roles, other fields ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "stream", "path"),
    [
        ("gemini-3-pro", False, "/models/gemini-3-pro:generateContent"),
        ("gemini-3-pro", True, "/models/gemini-3-pro:streamGenerateContent?alt=sse"),
        ("models/gemini-3-pro", False, "/models/gemini-3-pro:generateContent"),
        ("tunedModels/mine", False, "/tunedModels/mine:generateContent"),
        ("a b?", False, "/models/a%20b%3F:generateContent"),
    ],
)
def test_path_has_model_and_verb(model, stream, path):
    request = write("Hi", to=target(model=model), stream=stream)

    assert (request.method, request.path) == ("POST", path)
    assert "stream" not in json.loads(request.body)


def test_system_messages_become_system_instruction():
    """All of them, joined; moving one from mid-conversation is a loss."""
    messages = (SystemMessage("Be kind."), "Hi", SystemMessage((Text("Be "), Text("brief."))))

    assert body(*messages)["systemInstruction"] == {"parts": [{"text": "Be kind.\n\nBe brief."}]}
    assert [c["role"] for c in contents(*messages)] == ["user"]
    assert losses(*messages) == [("system-hoisted", "messages[2]")]
    assert losses(SystemMessage("a"), SystemMessage("b"), "Hi") == []
    assert "systemInstruction" not in body(SystemMessage(""), "Hi")


def test_neighbors_of_one_role_share_a_content():
    turns = contents("a", UserMessage("b"), assistant(Text("c")), assistant(Text("d")), "e")

    assert [(c["role"], [p["text"] for p in c["parts"]]) for c in turns] == [
        ("user", ["a", "b"]),
        ("model", ["c", "d"]),
        ("user", ["e"]),
    ]


def test_empty_messages_are_omitted():
    """Empty text without a signature gives no part, and no content."""
    assert contents("Hi", assistant(Text("")), UserMessage((Text(""),)), "there") == [
        {"role": "user", "parts": [{"text": "Hi"}, {"text": "there"}]}
    ]


def test_extra_body_and_metadata_are_merged():
    request = body("Hi", extra_body={"cachedContent": "cachedContents/1"}, metadata={"here": {"labels": {"a": "b"}}})

    assert (request["cachedContent"], request["labels"]) == ("cachedContents/1", {"a": "b"})


# --- assistant messages -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PARTS))
def test_received_parts_are_sent_back_unchanged(name):
    """To their issuer, with signatures; except empty parts and fields that a request refuses."""
    message = whole(chunk(*PARTS[name], reason="STOP")).message
    turns = contents("Hi", message, "Go on")
    back = turns[1]["parts"] if len(turns) > 2 else []

    changed = {
        "signature_alone": [{"text": "", "thoughtSignature": "c2ln"}, {"text": "Hi"}],
        "signature_and_thought_alone": [{"text": "", "thought": True, "thoughtSignature": "c2ln"}],
        "call_with_null_args": [{"functionCall": {"name": "f"}}],
        "call_with_will_continue": [{"functionCall": {"name": "f", "args": {}}}],
        "empty": [],
    }
    assert back == changed.get(name, PARTS[name])


def test_signed_empty_text_is_sent_back():
    assert parts(Text("Hi"), Text("", meta=SIGNED)) == [{"text": "Hi"}, {"text": "", "thoughtSignature": "c2ln"}]


def test_signed_reasoning_is_sent_back_as_thought():
    assert parts(Reasoning("Hm.", meta=SIGNED), Text("Hi"))[0] == {
        "text": "Hm.",
        "thought": True,
        "thoughtSignature": "c2ln",
    }


def test_own_unsigned_reasoning_is_sent_back():
    """Its turn has signed parts, too, and is sent back complete."""
    message = AssistantMessage((Reasoning("Hm."), Text("Hi", meta=SIGNED)), origin=OWN)

    assert contents("Hi", message, "Go on")[1]["parts"][0] == {"text": "Hm.", "thought": True}
    assert losses("Hi", message, "Go on") == []


def test_foreign_unsigned_reasoning_is_a_loss():
    assert parts(Reasoning("Hm."), Text("Hi")) == [{"text": "Hi"}]
    assert losses("Hi", assistant(Reasoning("Hm."), Text("Hi")), "Go on") == [
        ("unsigned-reasoning", "messages[1].blocks[0]")
    ]


def test_unsupported_blocks_are_losses():
    blocks = (
        Marker("compaction"),
        Opaque("openai-chat", "{}"),
        ServerToolUse("s", "web_search", "{}", "server_tool_use"),
    )

    assert parts(*blocks, Refusal("I will not."), Text("", meta=AnthropicMeta("x"))) == [{"text": "I will not."}]
    assert [kind for kind, _ in losses("Hi", assistant(*blocks, Image(), Audio()), "Go on")] == [
        "unsupported-content",
        "unreadable-block",
        "unsupported-content",
        "unsupported-content",
        "unsupported-content",
    ]


def test_media_of_other_models_are_sent():
    blocks = (Image(url="data:image/png;base64,AAAA"), Audio(id="a", transcript="Hello"), CodeExecution("1", "PYTHON"))

    assert parts(*blocks, Image("/9j/4AAQ")) == [
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"text": "Hello"},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"inlineData": {"mimeType": "image/jpeg", "data": "/9j/4AAQ"}},
    ]


# --- calls and results ------------------------------------------------------------------------------------------------


def call(id: str, name: str = "f", args: str = "{}", **fields) -> ToolUse:
    return ToolUse(id, name, args, **fields)


def test_arguments_are_sent_verbatim():
    request = write(
        "Hi", assistant(call("c1", args='{"b": 1.10,  "a":1}', meta=SIGNED)), ToolResults((ToolResult("c1"),))
    )

    assert b'"args":{"b": 1.10,  "a":1}},"thoughtSignature":"c2ln"' in request.body


@pytest.mark.parametrize(
    ("block", "args"),
    [
        (call("c", args="[1.10]"), {"value": [1.10]}),
        (call("c", args="3"), {"value": 3}),
        (call("c", args='{"a":', args_error="cut off"), {"INVALID_JSON": '{"a":'}),
        (call("c", args="free text", kind="custom"), {"input": "free text"}),
    ],
)
def test_arguments_are_wrapped_unless_object(block, args):
    assert parts(block)[0]["functionCall"]["args"] == args
    assert losses("Hi", assistant(block), "Go on") == [("arguments-not-an-object", "messages[1].blocks[0]")]


def test_missing_arguments_are_omitted():
    assert parts(call("c", args="", args_missing=True), call("d", args="")) == [
        {"functionCall": {"id": "c", "name": "f"}},
        {"functionCall": {"id": "d", "name": "f", "args": {}}},
    ]


def result_parts(*results: ToolResult, **fields) -> list:
    """Return the content with the results of two calls, the first with a generated id."""
    turn = assistant(call("c1", "f", id_generated=True), call("c2", "g"))
    return contents("Hi", turn, ToolResults(results), **fields)[2]["parts"]


def test_results_of_one_turn_share_a_content_in_call_order():
    """With the names of their calls, the ids that were received, and no signature."""
    assert result_parts(ToolResult("c2", "two"), ToolResult("c1", "one")) == [
        {"functionResponse": {"name": "f", "response": {"output": "one"}}},
        {"functionResponse": {"name": "g", "id": "c2", "response": {"output": "two"}}},
    ]


def test_results_of_several_messages_share_a_content():
    turn = assistant(call("c1"), call("c2", "g"))
    turns = contents("Hi", turn, ToolResults((ToolResult("c2", "2"),)), ToolResults((ToolResult("c1", "1"),)), "And?")

    assert [p["functionResponse"]["name"] for p in turns[2]["parts"]] == ["f", "g"]
    assert turns[3] == {"role": "user", "parts": [{"text": "And?"}]}


def test_result_has_name_of_latest_call_with_its_id():
    """In all earlier messages; without a call, the name is the id."""
    first = (assistant(call("c", "f")), ToolResults((ToolResult("c", "1"),)))
    second = (assistant(call("c", "g")), ToolResults((ToolResult("c", "2"),)))
    orphan = ToolResults((ToolResult("zzz", "3"),))
    turns = contents("Hi", *first, *second, "And?", orphan)

    names = [p["functionResponse"]["name"] for c in turns for p in c["parts"] if "functionResponse" in p]
    assert names == ["f", "g", "zzz"]


@pytest.mark.parametrize(
    ("result", "response"),
    [
        (ToolResult("c1", "sunny"), {"output": "sunny"}),
        (ToolResult("c1", ""), {"output": ""}),
        (ToolResult("c1", "no such city", is_error=True), {"error": "no such city"}),
        (ToolResult("c1", ' {"t": 20} '), {"output": {"t": 20}}),
        (ToolResult("c1", "[1]", is_error=True), {"error": [1]}),
        (ToolResult("c1", "{oops"), {"output": "{oops"}),
        (ToolResult("c1", (Text("a"), Text("b"))), {"output": "a\nb"}),
    ],
)
def test_result_body(result, response):
    assert result_parts(result)[0]["functionResponse"]["response"] == response


def test_result_body_with_content_switch():
    to = target(result_body="content")

    assert result_parts(ToolResult("c1", '{"a":1}'), to=to)[0]["functionResponse"]["response"] == {
        "content": '{"a":1}',
        "error": False,
    }
    assert (
        result_parts(ToolResult("c1", "no", is_error=True), to=to)[0]["functionResponse"]["response"]["error"] is True
    )


def test_extra_fields_of_a_result_are_sent():
    assert (
        result_parts(ToolResult("c1", "a", extra='{"scheduling":"SILENT"}'))[0]["functionResponse"]["scheduling"]
        == "SILENT"
    )


def test_image_in_result_is_a_part_of_the_response():
    result = ToolResult("c1", (Text("Look"), Image("AAAA", "image/png")))
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}

    assert result_parts(result)[0]["functionResponse"] == {
        "name": "f",
        "response": {"output": "Look"},
        "parts": [image],
    }
    older = contents("Hi", assistant(call("c1")), ToolResults((result,)), "And?", to=target(BUDGET))
    assert "parts" not in older[2]["parts"][0]["functionResponse"]
    assert older[3] == {"role": "user", "parts": [image, {"text": "And?"}]}


# --- calls that Gemini did not sign -----------------------------------------------------------------------------------

SKIP = "skip_thought_signature_validator"


def signatures(*messages, to) -> list:
    return [
        [p.get("thoughtSignature") for p in c["parts"] if "functionCall" in p]
        for c in contents(*messages, to=to)
        if c["role"] == "model"
    ]


def step(id: str, *metas) -> tuple:
    ids = [f"{id}{at}" for at in range(len(metas))]
    calls = (call(i, meta=meta) for i, meta in zip(ids, metas, strict=True))
    return assistant(*calls), ToolResults(tuple(ToolResult(i, "ok") for i in ids))


def test_first_unsigned_calls_of_a_turn_get_skip_signature():
    """The first call of each step since the last user text, and no other; each is a loss."""
    old, first, second, third = step("a", None), step("b", None, None), step("c", SIGNED, None), step("d", None)
    messages = ("Hi", *old, "Next", *first, *second, *third)

    assert signatures(*messages, to=target(LEVEL)) == [[None], [SKIP, None], ["c2ln", None], [SKIP]]
    assert [kind for kind, _ in losses(*messages, to=target(LEVEL))] == ["missing-signature"] * 2


def test_budget_models_get_no_skip_signature():
    assert signatures("Hi", *step("a", None), to=target(BUDGET)) == [[None]]


def test_unknown_model_gets_skip_signature_for_foreign_calls():
    own = replace(step("a", None)[0], origin=Origin("here", "gemini", "gemini-3-pro"))

    assert signatures("Hi", *step("a", None), to=target(None)) == [[SKIP]]
    assert signatures("Hi", own, *step("a", None)[1:], to=target(None)) == [[None]]


def test_signature_is_next_to_the_call():
    (part,) = parts(call("c", meta=SIGNED))

    assert part.keys() == {"functionCall", "thoughtSignature"}


# --- user content -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (Text("Hi"), {"text": "Hi"}),
        (Image("AAAA", "image/webp"), {"inlineData": {"mimeType": "image/webp", "data": "AAAA"}}),
        (Image("AAAA", "image/jpg"), {"inlineData": {"mimeType": "image/jpeg", "data": "AAAA"}}),
        (Image("iVBORw0KGgoAAAA"), {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgoAAAA"}}),
        (Image("UklGRiQAAABXRUJQ"), {"inlineData": {"mimeType": "image/webp", "data": "UklGRiQAAABXRUJQ"}}),
        (Audio("UklGRv////9XQVZF"), {"inlineData": {"mimeType": "audio/wav", "data": "UklGRv////9XQVZF"}}),
        (Image("zzzz"), {"inlineData": {"mimeType": "image/png", "data": "zzzz"}}),
        (Image(url="data:image/gif;base64,R0lG"), {"inlineData": {"mimeType": "image/gif", "data": "R0lG"}}),
        (
            Image(url="https://a.example/b.PNG?x=1"),
            {"fileData": {"mimeType": "image/png", "fileUri": "https://a.example/b.PNG?x=1"}},
        ),
        (Image(url="https://a.example/b"), {"fileData": {"fileUri": "https://a.example/b"}}),
        (Document(file_id="files/1", mime="video/mp4"), {"fileData": {"mimeType": "video/mp4", "fileUri": "files/1"}}),
        (Document("JVBERi0x"), {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0x"}}),
        (Document(text="Once upon a time"), {"text": "Once upon a time"}),
        (Audio("SUQzAAAA"), {"inlineData": {"mimeType": "audio/mpeg", "data": "SUQzAAAA"}}),
        (Opaque("gemini", '{"text": "raw"}'), {"text": "raw"}),
        (
            Document("AAAA", "video/mp4", extra='{"videoMetadata":{"fps":1},"inlineData":{"displayName":"v"}}'),
            {
                "inlineData": {"mimeType": "video/mp4", "data": "AAAA", "displayName": "v"},
                "videoMetadata": {"fps": 1},
            },
        ),
    ],
)
def test_content_of_each_type_is_written(content, part):
    """Bytes inline, URLs as files; the bytes or the URL give a missing type, but a URL gets no default."""
    assert contents(UserMessage((content,)))[0]["parts"] == [part]
    assert losses(UserMessage((content,))) == []


def test_data_url_may_be_plain_text():
    (part,) = contents(UserMessage((Document(url="data:text/plain,a%20b"),)))[0]["parts"]

    assert part["inlineData"] == {"mimeType": "text/plain", "data": base64.b64encode(b"a b").decode()}


@pytest.mark.parametrize("detail", ["low", "high"])
def test_detail_sets_media_resolution_if_supported(detail):
    message = UserMessage((Image("AAAA", "image/png", detail=detail),))

    assert contents(message, to=target(LEVEL))[0]["parts"][0]["mediaResolution"] == {
        "level": f"MEDIA_RESOLUTION_{detail.upper()}"
    }
    assert losses(message) == [("unsupported-parameter", "messages[0].blocks[0].detail")]


def test_unsupported_content_fields_are_losses():
    document = Document(text="t", title="T", context="C", citations=True, cache="5m")
    message = UserMessage((document, Image(), Opaque("openai-chat", "{}"), Text("Hi", cache="1h")), name="ann")

    assert [location for _, location in losses(message)] == [
        "messages[0].blocks[0].cache",
        "messages[0].blocks[0].title",
        "messages[0].blocks[0].context",
        "messages[0].blocks[0].citations",
        "messages[0].blocks[1]",
        "messages[0].blocks[2]",
        "messages[0].blocks[3].cache",
        "messages[0].name",
    ]


def test_lone_surrogates_are_a_loss():
    assert losses("a\ud83d") == [("lone-surrogate", "body")]


def test_same_request_gives_same_bytes():
    turn = assistant(Text("a", meta=GeminiMeta("x")), call("c"))

    assert (
        write("Hi", turn, ToolResults((ToolResult("c"),))).body
        == write("Hi", turn, ToolResults((ToolResult("c"),))).body
    )


def test_call_in_extra_fields_of_text_is_sent():
    text = Text("Hi.", extra='{"functionCall": {"name": "f"}}')
    wire = write(UserMessage("?"), AssistantMessage((text,)))

    assert json.loads(wire.body)["contents"][1]["parts"][0]["functionCall"] == {"name": "f"}
