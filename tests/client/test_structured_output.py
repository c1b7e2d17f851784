"""Structured output: an answer as a value, asked for in the right way, checked, and repaired once."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from decimal import Decimal
from types import UnionType
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.type_strategies import kinds, with_value
from tenuto.client.reply import Reply
from tenuto.client.structured_output import PROMPT, Structured, ask_structured
from tenuto.core import jsonio
from tenuto.core.blocks import Reasoning, Refusal, ServerToolResult, ServerToolUse, Text, ToolUse
from tenuto.core.messages import AssistantMessage, Origin, StopReason, SystemMessage, Usage, UserMessage
from tenuto.core.request import ChatRequest, JsonSchema
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript
from tenuto.errors import LLMError, SchemaMismatch


class City(msgspec.Struct):
    name: str
    population: int


@dataclasses.dataclass
class Town:
    name: str
    population: int


class Village(TypedDict):
    name: str
    population: int


class Capital(pydantic.BaseModel):
    name: str
    population: int


class Counted(msgspec.Struct):
    counts: dict[str, int]


SCHEMA = {
    "title": "City",
    "type": "object",
    "properties": {"name": {"type": "string"}, "population": {"type": "integer"}},
    "required": ["name", "population"],
}
CLOSED = {**SCHEMA, "additionalProperties": False}
OSLO = '{"name": "Oslo", "population": 717710}'
ASKED = ChatRequest(model="mine/model", messages=(UserMessage("Largest city of Norway?"),))


class Script:
    """A chat that answers what it is told to, and keeps what it was asked."""

    def __init__(self, *answers: str | AssistantMessage) -> None:
        self.answers = list(answers)
        self.asked: list[ChatRequest] = []

    async def __call__(self, request: ChatRequest) -> Reply:
        self.asked.append(request)
        answer = self.answers[len(self.asked) - 1]
        message = said(answer) if isinstance(answer, str) else answer
        usage = Usage(input_tokens=1, output_tokens=len(self.asked))
        response = ChatResponse("id", "mine", "model", (Choice(message),), usage)
        return Reply(response=response, transcript=Transcript((*request.transcript, message)), asked_at=1.79e9)


def said(text: str, stop: StopReason = "stop") -> AssistantMessage:
    return AssistantMessage((Text(text),), stop)


def run(
    chat: Script, kind: Any, *, request: ChatRequest = ASKED, native: bool = True, repairs: int = 1
) -> Structured[Any]:
    return asyncio.run(ask_structured(chat, request, kind, native=native, repairs=repairs))


# --- asking -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (City, City("Oslo", 717710)),
        (Town, Town("Oslo", 717710)),
        (Village, {"name": "Oslo", "population": 717710}),
        (Capital, Capital(name="Oslo", population=717710)),
        (SCHEMA, {"name": "Oslo", "population": 717710}),
        (Town | Capital, Town("Oslo", 717710)),
    ],
)
def test_the_answer_is_a_value_of_the_type(kind, expected, native):
    is_wrapped = native and isinstance(kind, UnionType)
    chat = Script(f'{{"value": {OSLO}}}' if is_wrapped else OSLO)
    found = run(chat, kind, native=native)

    assert found.data == expected
    assert found.response is found.reply.response
    assert len(chat.asked) == 1


def test_a_native_mode_is_told_the_schema():
    chat = Script(OSLO)
    run(chat, City)

    assert chat.asked[0].response_format == JsonSchema(CLOSED, name="response", strict=True)
    assert chat.asked[0].messages == ASKED.messages


def test_a_schema_that_leaves_things_open_is_not_strict():
    """A property that may be left out cannot be demanded, and the strictest modes demand all."""
    chat = Script(OSLO)
    run(chat, {**SCHEMA, "required": ["name"]})

    assert chat.asked[0].response_format == JsonSchema({**CLOSED, "required": ["name"]}, strict=None)


def test_without_a_native_mode_the_schema_is_prompted():
    """The specification's words, in a message of its own before all others."""
    system = SystemMessage("Be brief.")
    request = msgspec.structs.replace(ASKED, messages=Transcript((system, *ASKED.transcript)))
    chat = Script(OSLO)
    found = run(chat, City, request=request, native=False)
    prompt = SystemMessage(f"Respond ONLY with valid JSON matching this schema:\n{json.dumps(SCHEMA, indent=2)}")

    assert chat.asked[0].messages == Transcript((prompt, system, *ASKED.transcript))
    assert chat.asked[0].response_format is None
    assert found.reply.transcript == Transcript((prompt, system, *ASKED.transcript, said(OSLO)))


@pytest.mark.parametrize(
    "kind", [Counted, {"type": "object"}, {"$ref": "#/$defs/n", "$defs": {"n": {"not": {"type": "null"}}}}]
)
def test_a_schema_without_a_narrow_form_is_prompted_as_well(kind):
    chat = Script('{"counts": {"a": 1}}')
    run(chat, kind)

    assert chat.asked[0].response_format is None
    assert str(chat.asked[0].transcript[0]).startswith(PROMPT)


@pytest.mark.parametrize("native", [True, False])
def test_the_prompt_of_an_earlier_question_gives_way(native):
    """Going on from a structured answer to another does not leave two schemas in the conversation."""
    first = run(Script(OSLO), City, native=False)
    request = msgspec.structs.replace(ASKED, messages=first.reply.transcript + "And its counts?")
    chat = Script(OSLO if native else '{"counts": {}}')
    run(chat, City if native else Counted, request=request, native=native)
    prompts = [message for message in chat.asked[0].transcript if str(message).startswith(PROMPT)]

    assert len(prompts) == (0 if native else 1)
    assert all("counts" in str(prompt) for prompt in prompts)


@pytest.mark.parametrize("given", ["json_object", JsonSchema({}), None])
def test_a_format_asked_for_beside_the_prompt(given):
    """The JSON mode may stand beside the prompt; another schema may not."""
    chat = Script(OSLO)
    run(chat, City, request=msgspec.structs.replace(ASKED, response_format=given), native=False)

    assert chat.asked[0].response_format == (given if given == "json_object" else None)


def test_an_answer_that_is_no_object_is_asked_for_inside_one():
    chat = Script('{"value": ["Oslo", "Bergen"]}')
    found = run(chat, list[str])
    form = chat.asked[0].response_format

    assert found.data == ["Oslo", "Bergen"]
    assert isinstance(form, JsonSchema)
    assert form.schema["properties"] == {"value": {"type": "array", "items": {"type": "string"}}}
    assert run(Script('["Oslo"]'), list[str], native=False).data == ["Oslo"]


@pytest.mark.parametrize("kind", [complex, list[object]])
def test_a_type_without_a_schema_is_refused_before_anything_is_sent(kind):
    chat = Script()
    with pytest.raises(TypeError, match=r"output type (complex|list) is not supported"):
        run(chat, kind)

    assert chat.asked == []


@given(kinds.flatmap(with_value), st.booleans(), st.sampled_from(["{}", "```json\n{}\n```", "\n {}\n"]))
def test_a_value_of_any_type_arrives(drawn, native, around):
    """Natively or prompted, fenced or not, and without a repair."""
    kind, value = drawn
    text = jsonio.as_text(jsonio.encode(value))

    async def chat(request: ChatRequest) -> Reply:
        form = request.response_format
        wrapped = isinstance(form, JsonSchema) and list(form.schema["properties"]) == ["value"]
        return await Script(around.replace("{}", f'{{"value":{text}}}' if wrapped else text))(request)

    found = asyncio.run(ask_structured(chat, ASKED, kind, native=native))

    assert found.data == value
    assert len(found.replies) == 1


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [f"```json\n{OSLO}\n```", f"```\n{OSLO}```", f" \n```JSON  \r\n{OSLO}\r\n```\n"])
def test_a_fence_around_the_whole_is_taken_off(text):
    assert run(Script(text), City).data == City("Oslo", 717710)


def test_a_fence_inside_the_answer_stays():
    text = '{"name": "```", "population": 1}'

    assert run(Script(text), City).data == City("```", 1)
    assert run(Script(f"```json\n{text}\n```"), City).data == City("```", 1)


@pytest.mark.parametrize(
    "text",
    [
        f"Here it is: {OSLO}",
        f"```json\n{OSLO}\n```\nDone.",
        f"```{OSLO}```",
        "```json",
        f"```so this is it:\n{OSLO}\n```",
    ],
)
def test_prose_around_the_json_is_no_answer(text):
    with pytest.raises(SchemaMismatch, match="not JSON") as caught:
        run(Script(text), City, repairs=0)

    assert caught.value.text == text


@pytest.mark.parametrize("last", [OSLO, f"```json\n{OSLO}\n```"])
def test_what_is_said_before_a_search_is_not_the_answer(last):
    search = (ServerToolUse("s1", "web_search", "{}"), ServerToolResult("s1", "[]"))
    message = AssistantMessage((Text("Let me look."), *search, Text(last)), "stop")

    assert run(Script(message), City, repairs=0).data == City("Oslo", 717710)


def test_an_answer_in_several_blocks_is_one():
    message = AssistantMessage((Text(OSLO[:9]), Reasoning("Hm."), Text(OSLO[9:])), "stop")

    assert run(Script(message), City, repairs=0).data == City("Oslo", 717710)


# --- repairing --------------------------------------------------------------------------------------------------------

WRONG = '{"name": "Oslo", "population": "many"}'


@pytest.mark.parametrize("native", [True, False])
def test_what_does_not_fit_is_sent_back_once(native):
    chat = Script(WRONG, OSLO)
    found = run(chat, City, native=native)
    *before, answer, repair = chat.asked[1].transcript

    assert found.data == City("Oslo", 717710)
    assert tuple(before) == chat.asked[0].transcript
    assert answer == said(WRONG)
    assert '/population: expected integer, got string "many"' in str(repair)
    assert ("schema" in str(repair)) == native  # the prompt has shown it already
    assert chat.asked[1].response_format == chat.asked[0].response_format
    assert found.reply.transcript == Transcript((*chat.asked[1].transcript, said(OSLO)))


def test_all_replies_are_counted():
    origin = Origin("anthropic", "anthropic-messages", "claude-sonnet-4-5")
    answers = [msgspec.structs.replace(said(text), origin=origin) for text in (WRONG, OSLO)]
    found = run(Script(*answers), City)
    costs = [reply.cost for reply in found.replies]

    assert [reply.text for reply in found.replies] == [WRONG, OSLO]
    assert found.replies[-1] is found.reply
    assert found.usage == Usage(input_tokens=2, output_tokens=3)
    assert None not in costs
    assert found.cost == sum(costs)
    assert found.cost


def test_what_nobody_said_is_not_known():
    """A price that is not known of each reply is not known of all."""
    reply = run(Script(OSLO), City).reply
    free = msgspec.structs.replace(reply, asked_at=None, response=msgspec.structs.replace(reply.response, usage=None))

    assert Structured(1, reply, (reply,)).cost is None
    assert Structured(1, reply, (free, reply)).cost is None
    assert Structured(1, free, (free,)).cost == Decimal(0)
    assert Structured(1, free, (free,)).usage is None


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 5000], ids=["large", "small", "long"])
@pytest.mark.parametrize("kind", [City, Town, SCHEMA, list[int], list[float]])
def test_a_number_that_nobody_can_hold_is_repaired(kind, number):
    """It is JSON, and yet no value: the model is told, and the error is the usual one."""
    text = f'{{"value": [{number}]}}' if kind in (list[int], list[float]) else OSLO.replace("717710", number)
    good = '{"value": [1]}' if kind in (list[int], list[float]) else OSLO
    chat = Script(text, good)
    run(chat, kind)

    assert "could not be used" in str(chat.asked[1].transcript[-1])
    with pytest.raises(SchemaMismatch, match="does not fit the schema") as caught:
        run(Script(text), kind, repairs=0)
    assert caught.value.text == text


@pytest.mark.parametrize("repairs", [0, 1, 3])
def test_in_the_end_it_is_an_error_with_the_text(repairs):
    chat = Script(*[WRONG] * 4)
    with pytest.raises(SchemaMismatch, match=r"does not fit the schema.*/population: expected integer") as caught:
        run(chat, City, repairs=repairs)

    assert caught.value.text == WRONG
    assert len(chat.asked) == repairs + 1


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (Capital, '{"name": 3, "population": "x"}', "/name: Input should be a valid string"),
        (Capital, '{"name": 3, "population": "x"}', "/population: Input should be a valid integer"),
        (City, '{"population": "x"}', 'property "name" is missing'),
        (City, '{"population": "x"}', '/population: expected integer, got string "x"'),
        (City, '{"name": "Oslo",', "not JSON: "),
        (SCHEMA, "[]", "expected object, got an empty array"),
        (list[str], '["a"]', 'expected an object whose only property is "value"'),
        (list[str], '{"value": [], "more": 1}', 'expected an object whose only property is "value"'),
        (list[str], '{"value": [1]}', "/0: expected string, got number 1"),
        (bytes, '{"value": "?"}', "Invalid base64"),
    ],
)
def test_the_model_is_told_what_is_wrong(kind, text, problem):
    chat = Script(text, "{}")
    with pytest.raises(SchemaMismatch, match="after 2 answers"):
        run(chat, kind)

    assert problem in str(chat.asked[1].transcript[-1])


def test_what_is_quoted_is_bounded():
    """A model may complain of each of thousands of items."""
    chat = Script(json.dumps({"value": ["x"] * 1000}), '{"value": [1]}')
    run(chat, pydantic.create_model("Numbers", value=(list[int], ...)))

    assert len(str(chat.asked[1].transcript[-1])) < 6000


# --- where a repair would not help ------------------------------------------------------------------------------------

CALL = ToolUse("t1", "weather", "{}")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (said('{"name": "Os', "length"), "cut off at its length limit; raise max_tokens"),
        (said("I cannot.", "content_filter"), "refused"),
        (AssistantMessage((Refusal("No."),), "stop"), "refused"),
        (AssistantMessage((Text("Let me see."), CALL), "tool_calls"), "called weather instead"),
    ],
)
def test_an_answer_that_no_repair_can_help_is_an_error_at_once(message, why):
    chat = Script(message)
    with pytest.raises(SchemaMismatch, match=why) as caught:
        run(chat, City, repairs=5)

    assert caught.value.text
    assert len(chat.asked) == 1


def test_a_schema_that_makes_no_sense_is_told_at_once():
    chat = Script("{}")
    with pytest.raises(SchemaMismatch, match=r"no answer would.*invalid schema"):
        run(chat, {"$ref": "#/$defs/nowhere"}, repairs=5)

    assert len(chat.asked) == 1


@pytest.mark.parametrize("stop", ["length", "content_filter"])
def test_an_answer_that_fits_is_taken_however_it_ended(stop):
    assert run(Script(said(OSLO, stop)), City).data == City("Oslo", 717710)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (AssistantMessage((), "stop"), "Empty response for structured output"),
        (said(" \n"), "Empty response for structured output"),
        (AssistantMessage((), "length"), "Empty response for structured output: the answer was cut off"),
        (AssistantMessage((CALL,), "tool_calls"), "Empty response for structured output: the model called weather"),
    ],
)
def test_an_answer_without_text_is_the_providers_error(message, expected):
    with pytest.raises(LLMError) as caught:
        run(Script(message), City)

    assert caught.value.message.startswith(expected)
    assert caught.value.provider == "mine"
