"""The readers and comparison functions."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from conformance import read_anthropic, read_chat, read_gemini, read_responses, stream_variants
from conformance.checks import difference
from conformance.corpus import READERS
from conformance.jsontext import Number, canonical_sha1, elements, load, members, plain, pruned, text_at
from conformance.leaves import CallLeaf, Leaf, held, turn_leaves
from conformance.neutral_ours import neutral_message
from conformance.neutral_wire import neutral_blocks
from conformance.oracle import block_faults, coalesce, faults
from conformance.reply_values import Call, Read, frames, merge
from conformance.requests import entries
from tenuto.core.blocks import ChatMeta, Reasoning, Text
from tenuto.core.messages import AssistantMessage

HERE = Path(__file__).parent
INDEPENDENT = (
    *("jsontext", "reply_values", "read_anthropic", "read_chat", "read_responses", "read_gemini"),
    *("corpus", "stream_variants", "neutral_wire", "oracle", "leaves", "requests", "named_types"),
)


@pytest.mark.parametrize("module", INDEPENDENT)
def test_readers_share_no_code_with_the_codecs(module: str) -> None:
    """Readers must not repeat the codecs' mistakes."""
    tree = ast.parse((HERE / f"{module}.py").read_text())
    named = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    named += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]

    assert [name for name in named if name.partition(".")[0] in ("tenuto", "msgspec")] == []
    inside = [name.removeprefix("conformance.") for name in named if name.startswith("conformance.")]
    assert [name for name in inside if name not in INDEPENDENT] == []


# --- chat -------------------------------------------------------------------------------------------------------------


def chat_stream(*deltas: dict[str, Any], logprobs: tuple[Any, ...] = ()) -> Read:
    """Read a chat stream with one chunk for each delta."""
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    for chunk, probabilities in zip(chunks, logprobs, strict=False):
        chunk["choices"][0]["logprobs"] = probabilities
    data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return read_chat.read(data.encode(), streamed=True)


def test_chat_logprobs_are_joined_over_chunks() -> None:
    """Each chunk has the log probabilities of its own tokens."""
    lists = ({"content": ["a"], "refusal": None}, {"content": ["b"], "reasoning_content": ["c"]}, None)
    read = chat_stream({"content": "a"}, {"content": "b"}, {}, logprobs=lists)

    assert read.first.fields["logprobs"] == {"content": ["a", "b"], "refusal": None, "reasoning_content": ["c"]}


def test_chat_blocks_follow_the_byte_order_of_a_stream() -> None:
    """An empty content that opens a stream is not the start of the text."""
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    late = chat_stream({"role": "assistant", "content": ""}, {"content": "a"}, {"reasoning_details": details}).first
    early = chat_stream({"content": "", "reasoning": "r"}, {"content": "a"}).first

    assert [b["type"] for b in neutral_blocks("openai-chat", late.blocks, late.order)] == ["text", "reasoning"]
    assert [b["type"] for b in neutral_blocks("openai-chat", early.blocks, early.order)] == ["reasoning", "text"]


def test_chat_custom_call_is_read_unless_there_is_a_function() -> None:
    """One host sends an empty `custom` next to each `function`."""
    custom = {"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}
    both = {"id": "d", "type": "function", "custom": {"name": "", "input": ""}, "function": {"name": "g"}}
    found = neutral_blocks("openai-chat", [{"tool_calls": [custom, both]}])

    assert found[0] == {"type": "custom_tool_call", "id": "c", "name": "f", "input": "x"}
    assert found[1] == {"type": "tool_call", "id": "d", "name": "g", "arguments": {}}


def test_chat_reasoning_text_is_read_from_its_details() -> None:
    """Some hosts send no field with the readable text."""
    details = [{"type": "reasoning.summary", "summary": "a"}, {"type": "reasoning.text", "text": "b"}]

    assert neutral_blocks("openai-chat", [{"reasoning_details": details}])[0]["text"] == "ab"


def test_chat_content_may_be_an_object() -> None:
    """A structured answer is one text; sent back, it is an object again."""
    read = chat_stream({"content": {"a": [1, "b"]}}).first

    assert neutral_blocks("openai-chat", read.blocks) == [{"type": "text", "text": '{"a": [1, "b"]}'}]
    leaves = turn_leaves("openai-chat", read.blocks, [])
    assert leaves == [Leaf(("message", "content", "a", "[]"), 1), Leaf(("message", "content", "a", "[]"), "b")]


def test_unclosed_think_tag_stays_unclosed() -> None:
    """A reply that is cut off within its reasoning has no closing tag."""
    closed = Reasoning("a", meta=ChatMeta(field="think"))
    cut = Reasoning("a", meta=ChatMeta(field="think"), extra='{"closed":false}')

    assert neutral_message("openai-chat", AssistantMessage((cut,)))[0]["text"] == "<think>a"
    assert neutral_message("openai-chat", AssistantMessage((closed, Text("b"))))[0]["text"] == "<think>a</think>b"


# --- other readers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["anthropic-messages", "gemini"])
def test_done_frame_is_skipped_in_every_dialect(dialect: str) -> None:
    """Some gateways end every stream with the frame of chat."""
    frame = {"anthropic-messages": {"type": "message_stop"}, "gemini": {"candidates": [{"finishReason": "STOP"}]}}
    data = f"data: {json.dumps(frame[dialect])}\n\ndata: [DONE]\n\n".encode()

    assert READERS[dialect].read(data, streamed=True).ended


def test_empty_ids_count_as_absent() -> None:
    """The codec makes an id for a call that has none."""
    call = {"type": "function_call", "id": "", "call_id": "", "name": "f", "arguments": "{}"}
    part = {"functionCall": {"id": "", "name": "f"}}

    assert neutral_blocks("openai-responses", [call])[0]["id"] is None
    assert neutral_blocks("openai-responses", [call])[0]["item_id"] is None
    assert neutral_blocks("gemini", [part])[0]["id"] is None


def test_gemini_part_with_only_a_signature_has_leaves() -> None:
    """Streams send such parts to carry a signature alone."""
    part = {"thought": True, "thoughtSignature": "s"}

    assert turn_leaves("gemini", [part], []) == [Leaf(("empty", "thought_signature"), "s")]


# --- JSON -------------------------------------------------------------------------------------------------------------


def test_numbers_are_equal_only_if_their_text_is_equal() -> None:
    """1.10 that comes back as 1.1 is a change."""
    assert load("1.10") == Number("1.10")
    assert load("1.10") != load("1.1")
    assert load("1") != "1"
    assert plain(load('{"a": [1, 2.50, "x"]}')) == {"a": [1, 2.5, "x"]}


def test_texts_are_split_without_changing_a_character() -> None:
    """Arguments are compared as they were written."""
    text = ' {"a" : {"b":1.10 ,"c": [ 1,2 ]} , "d":"\\u00e5"} '

    assert members(text) == {"a": '{"b":1.10 ,"c": [ 1,2 ]}', "d": '"\\u00e5"'}
    assert text_at(text, "a", "c") == "[ 1,2 ]"
    assert elements("[ 1,2 , {} ]") == ["1", "2", "{}"]
    assert members("[]") == {}
    assert elements("{}") == []
    assert text_at(text, "x", "y") == ""


def test_hashes_and_nulls_are_the_oracles() -> None:
    """Sorted keys, compact, non-ASCII unescaped; null equals absent."""
    assert canonical_sha1({"b": 1, "a": "å"}) == "4ddfe307dfa20eb71dd4d754c9ffb800b9296b21"
    assert canonical_sha1({"b": 1, "a": 2}) == canonical_sha1({"a": 2, "b": 1})
    assert pruned({"a": None, "b": [{"c": None, "d": 1}]}) == {"b": [{"d": 1}]}


@pytest.mark.parametrize(
    ("want", "have", "path"),
    [
        ('{"a": 1.0}', '{"a": 1}', ".a"),
        ('{"a": null}', "{}", ".a"),
        ('[{"x": [1, 2]}]', '[{"x": [2, 1]}]', "[0].x[0]"),
        ("[1, 2]", "[1]", "."),
        ('{"a": "1"}', '{"a": 1}', ".a"),
        ('{"a": true}', '{"a": 1}', ".a"),
    ],
)
def test_difference_names_its_path(want: str, have: str, path: str) -> None:
    """Literals, nulls, order and types all count."""
    assert difference(load(want), load(have)).startswith(f"{path}: ")
    assert difference(load(want), load(want)) == ""


def test_streamed_fields_merge_by_one_rule() -> None:
    """Null never replaces a value, objects merge, lists with an index merge by it, any other value is replaced."""
    merged: dict[str, Any] = {}
    merge(merged, {"a": None, "b": {"x": 1}, "c": [{"index": 0, "t": "p"}], "d": [1]})
    merge(merged, {"a": 2, "b": {"y": 2}, "c": [{"index": 1, "t": "q"}, {"index": 0, "u": "r"}], "d": [2]})
    merge(merged, {"a": None, "b": None})

    both = [{"index": 0, "t": "p", "u": "r"}, {"index": 1, "t": "q"}]
    assert merged == {"a": 2, "b": {"x": 1, "y": 2}, "c": both, "d": [2]}


def test_frames_have_names_and_joined_lines() -> None:
    """Comments are not frames; a last event without its blank line is one."""
    data = b": hi\r\n\r\nevent: a\r\ndata: 1\r\ndata:2\r\n\r\ndata: {}"

    assert frames(data) == [("a", "1\n2"), ("", "{}")]


# --- streams ----------------------------------------------------------------------------------------------------------


def test_stream_is_the_same_in_every_variant() -> None:
    stream = "event: a\ndata: å\n\ndata: 2\ndata: 3".encode()
    found = {name: frames(b"".join(pieces)) for name, pieces in stream_variants.variants(stream, "sse")}

    assert set(map(repr, found.values())) == {repr([("a", "å"), ("", "2\n3")])}
    assert len(found) == 7
    assert len(list(stream_variants.variants(b"[1]", "json-array"))) == 3


def test_calls_of_a_chat_stream_are_separate() -> None:
    """By index; by id where hosts give every call the same index or none; names are not doubled."""
    pieces = [
        '{"index":0,"id":"a","function":{"name":"f","arguments":""}}',
        '{"index":0,"id":"","function":{"name":"f","arguments":"{}"}}',
        '{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}',
        '{"id":"c","function":{"name":"h","arguments":{"x":1.0}}}',
    ]
    lines = [f'data: {{"choices":[{{"index":0,"delta":{{"tool_calls":[{piece}]}}}}]}}\n\n' for piece in pieces]
    read = read_chat.read("".join(lines).encode(), streamed=True)

    assert [(call.id, call.name) for call in read.first.calls] == [("a", "f"), ("b", "g"), ("c", "h")]
    assert not read.ended


def test_streamed_content_lists_are_joined() -> None:
    """A thought of many chunks is one chunk; text that changes its form stays in order."""
    deltas = [
        '""',
        '[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]',
        '[{"type":"thinking","thinking":[{"type":"text","text":"b"}],"closed":true}]',
        '"c"',
        '[{"type":"text","text":"d"}]',
    ]
    lines = [f'data: {{"choices":[{{"index":0,"delta":{{"content":{delta}}}}}]}}\n\n' for delta in deltas]
    read = read_chat.read(("".join(lines) + "data: [DONE]\n\n").encode(), streamed=True)

    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "ab"}], "closed": True}
    assert read.first.blocks[0]["content"] == [thought, {"type": "text", "text": "cd"}]
    assert read.ended


def test_streamed_gemini_arguments_follow_their_paths() -> None:
    """Strings grow, lists are filled; arguments without their own text are compared by value."""
    parts = [
        '{"functionCall":{"name":"f","willContinue":true},"thoughtSignature":"s"}',
        '{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"x","willContinue":true}],"willContinue":true}}',
        '{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"y"},{"jsonPath":"$.b[0].c","numberValue":2}],"willContinue":true}}',
        '{"functionCall":{}}',
        '{"text":"z"}',
    ]
    chunks = [f'{{"candidates":[{{"content":{{"parts":[{part}]}}}}]}}' for part in parts]
    read = read_gemini.read(f"[{','.join(chunks)}]".encode(), streamed=True)

    call, text = plain(read.first.blocks)
    assert call == {"functionCall": {"name": "f", "args": {"a": "xy", "b": [{"c": 2}]}}, "thoughtSignature": "s"}
    assert text == {"text": "z"}
    assert read.first.calls[0].composed


def test_unfinished_item_is_read_from_the_terminal_event() -> None:
    """A finished item keeps its form, with the other one in addition."""
    last = [
        '{"id":"a","type":"message","content":[1]}',
        '{"id":"b","type":"program","code":"2"}',
        '{"id":"c","type":"program"}',
    ]
    events = [
        '{"type":"response.output_item.added","output_index":0,"item":{"id":"a","type":"message","content":[]}}',
        '{"type":"response.output_item.done","output_index":1,"item":{"id":"b","type":"program","code":"1"}}',
        f'{{"type":"response.completed","response":{{"output":[{",".join(last)}]}}}}',
    ]
    read = read_responses.read("".join(f"data: {event}\n\n" for event in events).encode(), streamed=True)

    assert [block["id"] for block in read.first.blocks] == ["a", "b", "c"]
    assert plain(read.first.blocks[0]["content"]) == [1]
    assert read.first.blocks[1]["code"] == "1"
    assert read.variants[1]["code"] == "2"


def test_invalid_json_arguments_stay_text() -> None:
    """A model may be cut off in the middle of a call."""
    events = [
        '{"type":"message_start","message":{"content":[]}}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\\"x\\":"}}',
    ]
    read = read_anthropic.read("".join(f"data: {event}\n\n" for event in events).encode(), streamed=True)

    assert read.first.blocks[0]["input"] == '{"x":'
    assert read.first.calls == [Call("a", "f", '{"x":')]
    assert not read.ended


# --- the oracle -------------------------------------------------------------------------------------------------------


def test_either_ciphertext_of_a_block_is_accepted() -> None:
    """That of the finished item and that of the terminal event may both be replayed."""
    want = {"type": "reasoning", "text": "", "signature": "a", "signature_alt": "b"}

    assert block_faults(want, {"type": "reasoning", "text": "", "signature": "b"}) == []
    assert block_faults(want, {"type": "reasoning", "text": "", "signature": "c"}) != []
    assert block_faults({"type": "text", "text": "x"}, {"type": "text", "text": "x", "signature": "made up"}) != []


def test_large_payloads_are_compared_by_their_hash() -> None:
    """With their nulls or without."""
    raw = {"type": "x", "a": None, "b": 1}
    want = {"type": "server", "kind": "x", "raw_sha1": canonical_sha1({"type": "x", "b": 1}), "raw_ids": {}}

    assert block_faults(want, {"type": "server", "kind": "x", "raw": raw}) == []
    assert block_faults(want, {"type": "server", "kind": "x", "raw": {**raw, "b": 2}}) == ["raw: raw_sha1 differs"]


def test_gemini_text_is_joined_by_the_rule_of_the_oracle() -> None:
    """A signed text ends a joined text; order and number of blocks count."""
    parts = [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "signature": "s"},
        {"type": "text", "text": "c"},
    ]

    assert coalesce(parts) == [{"type": "text", "text": "ab", "signature": "s"}, {"type": "text", "text": "c"}]
    assert faults([{"type": "text", "text": "a"}], []) == ["blocks: ['text'] expected, [] found"]


# --- leaves -----------------------------------------------------------------------------------------------------------


def test_tokens_and_names_are_compared_in_normalized_form() -> None:
    """Clients re-encode base64 and spell fields in snake_case; the token is the same."""
    sent = turn_leaves("gemini", [{"text": "a", "thought_signature": "x-_w=="}], [])
    received = turn_leaves("gemini", [{"text": "a", "thoughtSignature": "x+/w"}], [])

    assert sent == received == [Leaf(("text", "text"), "a"), Leaf(("text", "thought_signature"), "x+/w")]


def test_call_is_one_leaf_with_its_exact_arguments() -> None:
    """A call with other text is another leaf."""
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}}
    leaves = turn_leaves("anthropic-messages", [block], [Call("t", "f", '{"a": 1}')])
    other = CallLeaf("t", "f", '{"a":1}')

    assert leaves == [CallLeaf("t", "f", '{"a": 1}'), Leaf(("tool_use", "#t", "caller", "type"), "direct")]
    assert other != leaves[0]
    assert held(other) == held(leaves[0])


def test_fields_count_only_on_their_block() -> None:
    """A signature that moves to another block changes its leaf's path or order."""
    here = turn_leaves("anthropic-messages", [{"type": "thinking", "thinking": "a", "signature": "s"}], [])
    there = turn_leaves("anthropic-messages", [{"type": "text", "text": "a", "signature": "s"}], [])

    assert {leaf.path for leaf in here if isinstance(leaf, Leaf)} == {
        ("thinking", "#s", "thinking"),
        ("thinking", "signature"),
    }
    assert not set(here) & set(there)


def test_requests_are_split_into_turns_results_and_other() -> None:
    anthropic = (
        b'{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},'
        b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"r"}]}]}]}'
    )
    responses = (
        b'{"input":[{"role":"user","content":"q"},{"type":"reasoning","id":"r"},{"role":"assistant","content":"a"},'
        b'{"type":"function_call_output","call_id":"c","output":"r"},{"type":"compaction_trigger"}]}'
    )
    chat = b'{"messages":[{"role":"developer","content":"s"},{"role":"tool","tool_call_id":"t","content":"r"}]}'

    assert [entry.kind for entry in entries("anthropic-messages", anthropic)] == ["user", "model", "result"]
    assert [entry.kind for entry in entries("openai-responses", responses)] == ["user", "model", "model", "result"]
    assert [entry.kind for entry in entries("openai-chat", chat)] == ["system", "result"]
    assert [entry.text for entry in entries("openai-responses", b'{"input":"hello"}')] == ["hello"]
