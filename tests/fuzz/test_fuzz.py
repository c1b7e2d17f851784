"""2,000 mutated replies keep every property; and the fuzzer finds a fault of each kind when the codecs have one."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import strategies as say
from fuzz import mutations
from fuzz.cases import OWN, RECORDED, mutant, recorded
from fuzz.document import read, write
from fuzz.run import SEED, Failure, lines_of, main, reproduction, run_part
from fuzz.stream import parse
from tenuto.core import stored
from tenuto.core.blocks import Text
from tenuto.wire import assembler, decoder
from tenuto.wire import codec as codecs

RUNS, PARTS = 2_000, 8
ROOTS = recorded(RECORDED)
"""The recorded traffic where it is at hand, else the project's own cases."""


@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_replies_keep_every_property(part):
    """`fuzz.properties` lists the properties. In parts, so that several processes can share them."""
    share = RUNS // PARTS
    done = run_part(ROOTS, SEED, range(part * share, (part + 1) * share))

    assert done.ends.total() == share
    assert not done.failures, "\n".join(lines_of(ROOTS, SEED, done.failures))


# --- the fuzzer itself ------------------------------------------------------------------------------------------------


def broken_properties(runs: int = 60) -> set[str]:
    return {failure.fault.property for failure in run_part((OWN,), SEED, range(runs)).failures}


def test_fuzzer_reports_an_escaped_exception(monkeypatch):
    def response(self, *, partial):
        raise RuntimeError("not one of ours")

    for dialect in codecs.dialect_names():
        monkeypatch.setattr(codecs.codec_for(dialect).decoder, "response", response)

    assert "escaped" in broken_properties()


def test_fuzzer_reports_a_hidden_mistake(monkeypatch):
    def body(self, data):
        return {}["nothing"]

    for dialect in codecs.dialect_names():
        monkeypatch.setattr(codecs.codec_for(dialect).decoder, "body", body)

    assert broken_properties() & {"cause", "escaped"}


def test_fuzzer_reports_dependence_on_cuts(monkeypatch):
    feed = decoder.Decoder.feed
    monkeypatch.setattr(decoder.Decoder, "feed", lambda self, piece: feed(self, piece.rstrip(b" ")))

    assert "cuts" in broken_properties()


def test_fuzzer_reports_a_store_that_loses_data(monkeypatch):
    dump = stored.dump_response
    monkeypatch.setattr(stored, "dump_response", lambda response: dump(replace(response, model="another")))

    assert "stored" in broken_properties()


def test_fuzzer_reports_a_reply_larger_than_its_bytes(monkeypatch):
    joined = assembler.BlockSlot.joined

    def longer(self):
        block = joined(self)
        return replace(block, text=block.text + "x" * 200_000) if isinstance(block, Text) else block

    monkeypatch.setattr(assembler.BlockSlot, "joined", longer)

    assert "size" in broken_properties()


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"a":NaN}', b'{"a":"\xff"}'])
def test_fuzzer_reports_an_invalid_request(monkeypatch, body):
    def encode(request, target, losses=()):
        return replace(written(request, target, losses), body=body)

    written = codecs.codec_for("openai-chat").encode
    codec = codecs.codec_for("openai-chat")
    monkeypatch.setitem(codecs._codecs, codec.name, msgspec.structs.replace(codec, encode=encode))

    assert "sent" in broken_properties()


def test_runs_are_the_same_for_the_same_seed():
    assert [mutant((OWN,), 1, at) for at in range(50)] == [mutant((OWN,), 1, at) for at in range(50)]
    assert [mutant((OWN,), 1, at).body for at in range(50)] != [mutant((OWN,), 2, at).body for at in range(50)]


def test_runs_reach_every_mutation(monkeypatch):
    """No mutation is unreachable, and none raises."""
    done = set()

    def noted(operation):
        def note(*args):
            done.add(operation.__name__)
            return operation(*args)

        return note

    missing = set()
    for name in ("VALUE_OPERATIONS", "FRAME_OPERATIONS", "BYTE_OPERATIONS"):
        operations = getattr(mutations, name)
        missing |= {operation.__name__ for operation in operations}
        monkeypatch.setattr(mutations, name, tuple(map(noted, operations)))
    for at in range(1_000):
        mutant((OWN,), SEED, at)

    assert done == missing


def test_failure_prints_how_to_repeat_it(monkeypatch, capsys):
    def response(self, *, partial):
        raise RuntimeError("not one of ours")

    monkeypatch.setattr(codecs.codec_for("gemini").decoder, "response", response)

    assert main(["--runs", "40", "--seed", "3", "--jobs", "1", str(OWN)]) == 1
    printed = capsys.readouterr().out
    assert "gemini, escaped: RuntimeError" in printed
    assert "make fuzz SEED=3 ONLY=" in printed


def test_shrinker_returns_a_shorter_reply_with_the_same_fault(monkeypatch):
    frame = codecs.codec_for("anthropic-messages").decoder.frame

    def mutated(self, name, data):
        if b"tool_use" in data:
            raise RuntimeError("not one of ours")
        frame(self, name, data)

    monkeypatch.setattr(codecs.codec_for("anthropic-messages").decoder, "frame", mutated)
    failures = [one for one in run_part((OWN,), SEED, range(200)).failures if one.fault.property == "escaped"]
    made, shortest = reproduction((OWN,), SEED, failures[0])

    assert isinstance(failures[0], Failure)
    assert b"tool_use" in shortest
    assert len(shortest) < 20 < len(made.body)


def test_recorded_directories_fall_back_to_own_cases(tmp_path):
    assert recorded([tmp_path / "absent"]) == (OWN,)
    assert recorded([tmp_path, tmp_path / "absent"]) == (tmp_path,)


@given(value=say.json_values, indent=st.sampled_from((None, 1)))
def test_document_round_trips(value, indent):
    assert json.loads(write(read(json.dumps(value, indent=indent)))) == value


def test_document_preserves_repeated_keys_and_spelling():
    text = '{"a":1.10,"a":[1e400,-0,"\\ud800"],"":null}'

    assert write(read(text)) == text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_frames_split_at_blank_lines(end):
    body = f"event: a{end}data: 1{end}{end}data: 2{end}{end}".encode()

    assert parse(body, "sse").frames == [f"event: a{end}data: 1".encode(), b"data: 2"]


@pytest.mark.parametrize("deep", ["[" * 5_000 + "]" * 5_000, '{"a":' * 400 + "1" + "}" * 400])
def test_document_refuses_deep_nesting(deep):
    with pytest.raises(ValueError, match="nested too deep"):
        read(deep)
