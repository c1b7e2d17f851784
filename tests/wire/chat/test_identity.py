"""Any message, whole or in pieces, is decoded and written back unchanged."""

from __future__ import annotations

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from tenuto.core.messages import UserMessage
from tenuto.core.provider import ChatSwitches
from tenuto.core.request import ChatRequest
from tenuto.errors import LLMError
from tenuto.wire.body_builder import BodyBuilder
from tenuto.wire.chat.decode import ChatDecoder
from tenuto.wire.chat.encode import encode
from wire.chat.cases import STREAMS, back, body, chunk, sse, stream, target, whole

words = st.text(max_size=8) | st.sampled_from(["<think>", "</think>", "<thi", "nk>a", " \n", "\ud800", "\x00"])
scalars = st.none() | st.booleans() | st.integers() | st.just("") | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2), max_leaves=4
)
args = st.sampled_from(["{}", "", '{"n": 1.10}', '{"a":', "[1]"]) | words
functions = st.fixed_dictionaries(
    {"name": words}, optional={"arguments": args | st.none() | st.dictionaries(words, values), "x": values}
)
calls = st.fixed_dictionaries(
    {"function": functions},
    optional={
        "id": words | st.none(),
        "type": st.sampled_from(["function", "builtin_function", ""]),
        "index": st.integers(0, 3) | st.none(),
        "extra_content": values,
    },
) | st.fixed_dictionaries(
    {"type": st.just("custom"), "custom": st.fixed_dictionaries({"name": words, "input": words})},
    optional={"id": words},
)
chunks = (
    st.fixed_dictionaries({"type": st.just("text"), "text": words}, optional={"n": values})
    | st.fixed_dictionaries(
        {
            "type": st.just("thinking"),
            "thinking": st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": words}), max_size=2) | words,
        },
        optional={"signature": st.sampled_from(["Er=", "x"]), "closed": st.booleans()},
    )
    | st.fixed_dictionaries({"type": st.sampled_from(["reference", "image"])}, optional={"n": values})
)
details = st.fixed_dictionaries(
    {"type": st.sampled_from(["reasoning.text", "reasoning.encrypted", "odd"])},
    optional={"text": words, "data": words, "index": st.integers(0, 2) | st.none(), "n": values},
)
messages = st.fixed_dictionaries(
    {"role": st.just("assistant")},
    optional={
        "content": words | st.none() | st.lists(chunks, max_size=3),
        "reasoning": words | st.none(),
        "reasoning_content": words | st.none(),
        "reasoning_details": st.lists(details, max_size=3) | st.none(),
        "tool_calls": st.lists(calls, max_size=3) | st.none(),
        "function_call": functions | st.none(),
        "refusal": words | st.none(),
        "audio": st.none() | st.fixed_dictionaries({"id": words}, optional={"data": words, "expires_at": values}),
        "images": st.lists(values, max_size=2) | st.none(),
        "annotations": st.lists(values, max_size=2) | st.none(),
        "novel": values,
    },
)
rows = st.builds(
    ChatSwitches,
    think_tags=st.booleans(),
    passback=st.sampled_from(["never", "tool_turns", "always"]),
    call_id=st.sampled_from(["free", "nine"]),
    empty_reasoning=st.booleans(),
    reasoning_field=st.sampled_from(["reasoning_content", "reasoning", "reasoning_details", "content"]),
)


@given(messages, rows)
def test_any_message_is_written_back_unchanged(message, row):
    response = whole(body(message), row)

    assert back(response) == json.loads(json.dumps(message))
    wire = encode(BodyBuilder(ChatRequest(model="m", messages=(UserMessage("Hi"), response.message)), target(row)))
    assert json.loads(wire.body)["messages"]


@st.composite
def cut_up(draw):
    """Make a message, and the deltas of a stream that contains it."""
    fields = {name: draw(st.lists(words, max_size=4)) for name in ("reasoning_content", "content", "refusal")}
    deltas = [{name: piece} for name, pieces in fields.items() for piece in pieces]
    order = draw(st.permutations(deltas)) if draw(st.booleans()) else deltas
    texts = {name: "".join(d[name] for d in order if name in d) for name, pieces in fields.items() if pieces}
    names = draw(st.lists(st.sampled_from(["f", "g", "h"]), max_size=2))
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": n, "arguments": ""}} for at, n in enumerate(names)
    ]
    starts = json.loads(json.dumps(calls))
    order = [*order, *({"tool_calls": [{**call, "index": at}]} for at, call in enumerate(starts))]
    for at in draw(st.lists(st.integers(0, len(calls) - 1), max_size=4)) if calls else ():
        piece = draw(args)
        order.append({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
        calls[at]["function"]["arguments"] += piece
    return order, {"role": "assistant", **texts, **({"tool_calls": calls} if calls else {})}


@given(cut_up(), st.booleans())
def test_any_streamed_message_is_written_back_joined(case, tags):
    deltas, message = case
    frames = [chunk({"role": "assistant"}), *map(chunk, deltas), chunk({}, "stop")]
    result = back(stream(sse(*frames), ChatSwitches(think_tags=tags)))

    assert result == json.loads(json.dumps(message))  # json joins surrogates of two pieces


@given(st.data())
def test_damaged_frames_raise_only_llm_errors(data):
    frames = [line for line in STREAMS[data.draw(st.sampled_from(sorted(STREAMS)))].split(b"\n\n") if line]
    at = data.draw(st.integers(0, len(frames) - 1))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(frames[at]))] * 2)))
    frames[at] = frames[at][:start] + data.draw(st.binary(max_size=6)) + frames[at][end:]
    decoder = ChatDecoder(target())
    decoder.feed(b"\n\n".join((*frames, b"")))
    with contextlib.suppress(LLMError):
        decoder.finish()
