"""Calls whose arguments stream value by value."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import GeminiMeta, Text
from tenuto.core.events import ArgumentsDelta, ContentDelta, ContentDone, ContentStart, SignatureDelta
from tenuto.errors import IncompleteResponse, ProtocolError
from tenuto.wire.decoder import decode_stream
from tenuto.wire.gemini.decode import MAX_GAP
from tenuto.wire.gemini.encode import verbatim
from wire.gemini.cases import call, chunk, partial, sse, start_call, text
from wire.gemini.decode_helpers import SIGNED, decode_blocks, decode_events, make_decoder, stream

END = {"functionCall": {}}
STOP = chunk(reason="STOP")


def decode_call(*parts: dict):
    """Return the call that these parts add up to."""
    (block,) = decode_blocks(chunk(start_call("f", thoughtSignature="c2ln")), *(chunk(part) for part in parts), STOP)
    return block


def test_streamed_call_joins_its_pieces():
    block = decode_call(
        partial("$.city", stringValue="Bos", willContinue=True),
        partial("$.city", stringValue="ton", willContinue=True),
        partial("$.city", stringValue=""),
        END,
    )

    assert (block.name, block.args, block.meta, block.args_missing) == ("f", '{"city":"Boston"}', SIGNED, False)
    assert block.id_generated
    assert block.extra == ""


def test_partial_value_of_each_type_is_set_at_its_path():
    """Nested objects, lists, quoted names, numbers."""
    block = decode_call(
        partial("$.a.b", numberValue=0.5),
        partial("$.a.c[0].d", boolValue=True),
        partial("$.a.c[1].d", boolValue=False),
        partial("$.list[0]", stringValue="x"),
        partial("$.list[1]", nullValue="NULL_VALUE"),
        partial("$.list[3]", numberValue=7),
        partial("$['a key'].n", nullValue=None),
        partial('$["it\\"s"]', stringValue=""),
        {"functionCall": {"willContinue": True}},
        END,
    )

    assert json.loads(block.args) == {
        "a": {"b": 0.5, "c": [{"d": True}, {"d": False}]},
        "list": ["x", None, None, 7],
        "a key": {"n": None},
        'it"s': "",
    }


def test_partial_number_keeps_its_text():
    body = sse(chunk(start_call("f")), chunk(partial("$.n", numberValue=1.5)), STOP).replace(b"1.5", b"1.50")

    assert decode_stream(make_decoder(), [body]).message.blocks[0].args == '{"n":1.50}'


def test_streamed_call_ends_without_empty_call():
    """The last piece, the next part, the next call or the end of the candidate ends it."""
    last = partial("$.a", continues=False, numberValue=1)
    for rest in ([chunk(last)], [chunk(partial("$.a", numberValue=1))]):
        blocks = decode_blocks(
            chunk(start_call("f")), *rest, chunk(text("Hi")), chunk(start_call("g")), chunk(call("h", {})), STOP
        )
        assert [getattr(block, "name", block) for block in blocks] == ["f", Text("Hi"), "g", "h"]
        assert (blocks[0].args, blocks[2].args_missing) == ('{"a":1}', True)


def test_empty_call_after_the_end_is_ignored():
    blocks = decode_blocks(
        chunk(start_call("f")), chunk(partial("$.a", continues=False, numberValue=1)), chunk(END), STOP
    )

    assert [block.name for block in blocks] == ["f"]


def test_streamed_call_without_arguments_has_args_missing():
    block = decode_call(END)

    assert (block.args, block.args_missing) == ("", True)
    assert verbatim(stream(chunk(start_call("f")), chunk(END), STOP).message) == [{"functionCall": {"name": "f"}}]


def test_streamed_call_may_be_one_part():
    part = {"functionCall": {"id": "fc_1", "name": "f", "partialArgs": [{"jsonPath": "$.a", "numberValue": 1}]}}
    (block,) = decode_blocks(chunk(part), STOP)

    assert (block.id, block.id_generated, block.args) == ("fc_1", False, '{"a":1}')


def test_partial_values_extend_complete_arguments():
    """In nested objects and lists, too; a scalar in the path is replaced by a container."""
    first = {"functionCall": {"name": "f", "args": {"a": {"b": 1}, "l": [1], "s": 2}, "willContinue": True}}
    pieces = [partial("$.a.c", numberValue=2), partial("$.l[1]", numberValue=2), partial("$.s.t", numberValue=3)]
    (block,) = decode_blocks(chunk(first), *map(chunk, pieces), STOP)

    assert block.args == '{"a":{"b":1,"c":2},"l":[1,2],"s":{"t":3}}'


def test_streamed_call_emits_arguments_at_its_end():
    """Values arrive in any order, so the text is known only at the end; the deltas add up to it."""
    events = decode_events(
        sse(
            chunk(start_call("f")),
            chunk(partial("$.a.x", numberValue=1)),
            chunk(partial("$.b", numberValue=2)),
            chunk({**partial("$.a.y", numberValue=3), "thoughtSignature": "c2ln"}),
            STOP,
        )
    )
    (block,) = events[-1].response.message.blocks

    assert isinstance(events[1], ContentStart)
    assert events[2:5] == [
        ContentDelta(0, 0, ArgumentsDelta('{"a":{"x":1,"y":3},"b":2}')),
        ContentDelta(0, 0, SignatureDelta("c2ln")),
        ContentDone(0, 0, block),
    ]
    assert block.meta == SIGNED
    assert events[-1].response.message.stop_reason == "tool_calls"


def test_second_signature_of_a_call_is_a_loss():
    response = stream(
        chunk(start_call("f", thoughtSignature="Zmlyc3Q=")), chunk({**END, "thoughtSignature": "c2ln"}), STOP
    )

    assert response.message.blocks[0].meta == GeminiMeta("Zmlyc3Q=")
    assert [loss.kind for loss in response.losses] == ["second-signature"]


def test_streamed_call_merges_extra_fields():
    response = stream(
        chunk({**start_call("f"), "partMetadata": {"a": 1}}),
        chunk({"functionCall": {"willContinue": True, "tempo": 2}, "partMetadata": {"b": 2}}),
        chunk(partial("$.a", numberValue=1, confidence=0.5)),
        STOP,
    )

    assert json.loads(response.message.blocks[0].extra) == {
        "partMetadata": {"a": 1, "b": 2},
        "functionCall": {"tempo": 2},
    }
    assert [loss.detail for loss in response.losses] == ["confidence"]


def test_streamed_call_has_args_error_when_cut_off():
    """It has the arguments so far, an error, so that it is not run, and no signature."""
    body = sse(
        chunk(start_call("f", thoughtSignature="c2ln")),
        chunk(partial("$.path", stringValue="/home", willContinue=True)),
    )
    with pytest.raises(IncompleteResponse) as exc_info:
        decode_stream(make_decoder(), [body])
    (block,) = exc_info.value.partial.message.blocks

    assert (block.args, block.args_error, block.meta) == ('{"path":"/home"}', "the arguments were cut off", None)
    assert exc_info.value.partial.message.incomplete


@pytest.mark.parametrize(
    "path",
    ["", "a", "$", "$..a", "$[0]", "$.a[", "$.a[*]", f"$.a[{MAX_GAP + 1}]", "$" + ".a" * 300, "$.a[99999999999]"],
)
def test_partial_value_with_invalid_path_raises(path):
    with pytest.raises(ProtocolError):
        stream(chunk(start_call("f")), chunk(partial(path, numberValue=1)), STOP)


def test_partial_list_is_filled_with_null():
    block = decode_call(partial(f"$.a[{MAX_GAP}]", numberValue=1))

    assert len(json.loads(block.args)["a"]) == MAX_GAP + 1


def test_streamed_call_joins_many_pieces():
    """A string of ten thousand pieces, each with the same path."""
    pieces = [chunk(partial("$.s", stringValue="ab", willContinue=True)) for _ in range(10_000)]
    (block,) = decode_blocks(chunk(start_call("f")), *pieces, STOP)

    assert json.loads(block.args) == {"s": "ab" * 10_000}
