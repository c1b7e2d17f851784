"""Calls whose arguments stream value by value: the pieces make the call that a body would have held."""

from __future__ import annotations

import json

import pytest

from tenuto.core.blocks import GeminiMeta, Text
from tenuto.core.events import ArgumentsDelta, ContentDelta, ContentDone, ContentStart, SignatureDelta
from tenuto.errors import IncompleteResponse, ProtocolError
from tenuto.wire.decoder import decode_stream
from tenuto.wire.gemini.encode import verbatim
from tenuto.wire.gemini.partial_args import MAX_GAP
from wire.gemini.cases import call, chunk, opened, partial, sse, text
from wire.gemini.reading import SIGNED, blocks, decoder, events, stream

END = {"functionCall": {}}
STOP = chunk(reason="STOP")


def streamed(*parts: dict):
    """Return the one call that these pieces make."""
    (block,) = blocks(chunk(opened("f", thoughtSignature="c2ln")), *(chunk(part) for part in parts), STOP)
    return block


def test_streamed_call_joins_its_pieces():
    block = streamed(
        partial("$.city", stringValue="Bos", willContinue=True),
        partial("$.city", stringValue="ton", willContinue=True),
        partial("$.city", stringValue=""),
        END,
    )

    assert (block.name, block.args, block.meta, block.args_missing) == ("f", '{"city":"Boston"}', SIGNED, False)
    assert block.id_generated
    assert block.extra == ""


def test_partial_value_of_each_type_is_set_at_its_path():
    """Nested objects, lists, quoted names; numbers as they were spelt."""
    block = streamed(
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
    body = sse(chunk(opened("f")), chunk(partial("$.n", numberValue=1.5)), STOP).replace(b"1.5", b"1.50")

    assert decode_stream(decoder(), [body]).message.blocks[0].args == '{"n":1.50}'


def test_streamed_call_ends_without_empty_call():
    """By a piece that does not go on, by the next part, by the next call, or with the candidate."""
    last = partial("$.a", goes_on=False, numberValue=1)
    for rest in ([chunk(last)], [chunk(partial("$.a", numberValue=1))]):
        said = blocks(chunk(opened("f")), *rest, chunk(text("Hi")), chunk(opened("g")), chunk(call("h", {})), STOP)
        assert [getattr(block, "name", block) for block in said] == ["f", Text("Hi"), "g", "h"]
        assert (said[0].args, said[2].args_missing) == ('{"a":1}', True)


def test_empty_call_after_the_end_is_ignored():
    said = blocks(chunk(opened("f")), chunk(partial("$.a", goes_on=False, numberValue=1)), chunk(END), STOP)

    assert [block.name for block in said] == ["f"]


def test_streamed_call_without_arguments_has_args_missing():
    block = streamed(END)

    assert (block.args, block.args_missing) == ("", True)
    assert verbatim(stream(chunk(opened("f")), chunk(END), STOP).message) == [{"functionCall": {"name": "f"}}]


def test_streamed_call_may_be_one_part():
    part = {"functionCall": {"id": "fc_1", "name": "f", "partialArgs": [{"jsonPath": "$.a", "numberValue": 1}]}}
    (block,) = blocks(chunk(part), STOP)

    assert (block.id, block.id_generated, block.args) == ("fc_1", False, '{"a":1}')


def test_partial_values_extend_complete_arguments():
    """In objects and lists of them too; what stood in the way of a container gives way."""
    first = {"functionCall": {"name": "f", "args": {"a": {"b": 1}, "l": [1], "s": 2}, "willContinue": True}}
    pieces = [partial("$.a.c", numberValue=2), partial("$.l[1]", numberValue=2), partial("$.s.t", numberValue=3)]
    (block,) = blocks(chunk(first), *map(chunk, pieces), STOP)

    assert block.args == '{"a":{"b":1,"c":2},"l":[1,2],"s":{"t":3}}'


def test_streamed_call_emits_arguments_at_its_end():
    """Values come in no promised order, so the text is known at the end; the deltas add up to it."""
    told = events(
        sse(
            chunk(opened("f")),
            chunk(partial("$.a.x", numberValue=1)),
            chunk(partial("$.b", numberValue=2)),
            chunk({**partial("$.a.y", numberValue=3), "thoughtSignature": "c2ln"}),
            STOP,
        )
    )
    (block,) = told[-1].response.message.blocks

    assert isinstance(told[1], ContentStart)
    assert told[2:5] == [
        ContentDelta(0, 0, ArgumentsDelta('{"a":{"x":1,"y":3},"b":2}')),
        ContentDelta(0, 0, SignatureDelta("c2ln")),
        ContentDone(0, 0, block),
    ]
    assert block.meta == SIGNED
    assert told[-1].response.message.stop_reason == "tool_calls"


def test_second_signature_of_a_call_is_a_loss():
    response = stream(chunk(opened("f", thoughtSignature="Zmlyc3Q=")), chunk({**END, "thoughtSignature": "c2ln"}), STOP)

    assert response.message.blocks[0].meta == GeminiMeta("Zmlyc3Q=")
    assert [loss.kind for loss in response.losses] == ["second-signature"]


def test_streamed_call_merges_extra_fields():
    response = stream(
        chunk({**opened("f"), "partMetadata": {"a": 1}}),
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
    """Nobody may run half a call: its arguments are as far as they came, and it bears no signature."""
    body = sse(
        chunk(opened("f", thoughtSignature="c2ln")), chunk(partial("$.path", stringValue="/home", willContinue=True))
    )
    with pytest.raises(IncompleteResponse) as caught:
        decode_stream(decoder(), [body])
    (block,) = caught.value.partial.message.blocks

    assert (block.args, block.args_error, block.meta) == ('{"path":"/home"}', "the arguments were cut off", None)
    assert caught.value.partial.message.incomplete


@pytest.mark.parametrize(
    "path",
    ["", "a", "$", "$..a", "$[0]", "$.a[", "$.a[*]", f"$.a[{MAX_GAP + 1}]", "$" + ".a" * 300, "$.a[99999999999]"],
)
def test_partial_value_with_invalid_path_raises(path):
    with pytest.raises(ProtocolError):
        stream(chunk(opened("f")), chunk(partial(path, numberValue=1)), STOP)


def test_partial_list_is_filled_with_null():
    block = streamed(partial(f"$.a[{MAX_GAP}]", numberValue=1))

    assert len(json.loads(block.args)["a"]) == MAX_GAP + 1


def test_streamed_call_joins_many_pieces():
    """A string of ten thousand pieces, each at the same place."""
    pieces = [chunk(partial("$.s", stringValue="ab", willContinue=True)) for _ in range(10_000)]
    (block,) = blocks(chunk(opened("f")), *pieces, STOP)

    assert json.loads(block.args) == {"s": "ab" * 10_000}
