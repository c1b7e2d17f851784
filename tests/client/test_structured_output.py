"""Structured output: requested in the right way, checked, and repaired once."""

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
    """A chat with scripted replies that records its requests."""

    def __init__(self, *answers: str | AssistantMessage) -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []

    async def __call__(self, request: ChatRequest) -> Reply:
        self.requests.append(request)
        answer = self.answers[len(self.requests) - 1]
        message = make_reply(answer) if isinstance(answer, str) else answer
        usage = Usage(input_tokens=1, output_tokens=len(self.requests))
        response = ChatResponse("id", "mine", "model", (Choice(message),), usage)
        return Reply(response=response, transcript=Transcript((*request.transcript, message)), asked_at=1.79e9)


def make_reply(text: str, stop: StopReason = "stop") -> AssistantMessage:
    return AssistantMessage((Text(text),), stop)


def run(
    chat: Script, kind: Any, *, request: ChatRequest = ASKED, native: bool = True, repairs: int = 1
) -> Structured[Any]:
    return asyncio.run(ask_structured(chat, request, kind, native=native, repairs=repairs))


# --- requests --------------------------------------------------------------------------------------------------------


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
def test_answer_is_a_value_of_the_type(kind, expected, native):
    is_wrapped = native and isinstance(kind, UnionType)
    chat = Script(f'{{"value": {OSLO}}}' if is_wrapped else OSLO)
    found = run(chat, kind, native=native)

    assert found.data == expected
    assert found.response is found.reply.response
    assert len(chat.requests) == 1


def test_native_mode_receives_the_schema():
    chat = Script(OSLO)
    run(chat, City)

    assert chat.requests[0].response_format == JsonSchema(CLOSED, name="response", strict=True)
    assert chat.requests[0].messages == ASKED.messages


def test_schema_with_optional_properties_is_not_strict():
    """The strictest modes require every property."""
    chat = Script(OSLO)
    run(chat, {**SCHEMA, "required": ["name"]})

    assert chat.requests[0].response_format == JsonSchema({**CLOSED, "required": ["name"]}, strict=None)


def test_schema_is_prompted_without_native_mode():
    """The text of the specification is the first message."""
    system = SystemMessage("Be brief.")
    request = msgspec.structs.replace(ASKED, messages=Transcript((system, *ASKED.transcript)))
    chat = Script(OSLO)
    found = run(chat, City, request=request, native=False)
    prompt = SystemMessage(f"Respond ONLY with valid JSON matching this schema:\n{json.dumps(SCHEMA, indent=2)}")

    assert chat.requests[0].messages == Transcript((prompt, system, *ASKED.transcript))
    assert chat.requests[0].response_format is None
    assert found.reply.transcript == Transcript((prompt, system, *ASKED.transcript, make_reply(OSLO)))


@pytest.mark.parametrize(
    "kind", [Counted, {"type": "object"}, {"$ref": "#/$defs/n", "$defs": {"n": {"not": {"type": "null"}}}}]
)
def test_schema_without_strict_form_is_prompted(kind):
    chat = Script('{"counts": {"a": 1}}')
    run(chat, kind)

    assert chat.requests[0].response_format is None
    assert str(chat.requests[0].transcript[0]).startswith(PROMPT)


@pytest.mark.parametrize("native", [True, False])
def test_schema_prompt_replaces_the_earlier_one(native):
    """A conversation with two structured answers has one schema prompt."""
    first = run(Script(OSLO), City, native=False)
    request = msgspec.structs.replace(ASKED, messages=first.reply.transcript + "And its counts?")
    chat = Script(OSLO if native else '{"counts": {}}')
    run(chat, City if native else Counted, request=request, native=native)
    prompts = [message for message in chat.requests[0].transcript if str(message).startswith(PROMPT)]

    assert len(prompts) == (0 if native else 1)
    assert all("counts" in str(prompt) for prompt in prompts)


@pytest.mark.parametrize("given", ["json_object", JsonSchema({}), None])
def test_response_format_with_a_prompted_schema(given):
    """JSON mode is allowed together with the prompt, another schema is not."""
    chat = Script(OSLO)
    run(chat, City, request=msgspec.structs.replace(ASKED, response_format=given), native=False)

    assert chat.requests[0].response_format == (given if given == "json_object" else None)


def test_answer_that_is_not_an_object_is_wrapped():
    chat = Script('{"value": ["Oslo", "Bergen"]}')
    found = run(chat, list[str])
    form = chat.requests[0].response_format

    assert found.data == ["Oslo", "Bergen"]
    assert isinstance(form, JsonSchema)
    assert form.schema["properties"] == {"value": {"type": "array", "items": {"type": "string"}}}
    assert run(Script('["Oslo"]'), list[str], native=False).data == ["Oslo"]


@pytest.mark.parametrize("kind", [complex, list[object]])
def test_type_without_schema_is_refused_before_sending(kind):
    chat = Script()
    with pytest.raises(TypeError, match=r"output type (complex|list) is not supported"):
        run(chat, kind)

    assert chat.requests == []


@given(kinds.flatmap(with_value), st.booleans(), st.sampled_from(["{}", "```json\n{}\n```", "\n {}\n"]))
def test_values_of_all_types_are_read(drawn, native, around):
    """Native or prompted, with or without a code fence, and without a repair."""
    kind, value = drawn
    text = jsonio.as_text(jsonio.encode(value))

    async def chat(request: ChatRequest) -> Reply:
        form = request.response_format
        wrapped = isinstance(form, JsonSchema) and list(form.schema["properties"]) == ["value"]
        return await Script(around.replace("{}", f'{{"value":{text}}}' if wrapped else text))(request)

    found = asyncio.run(ask_structured(chat, ASKED, kind, native=native))

    assert found.data == value
    assert len(found.replies) == 1


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [f"```json\n{OSLO}\n```", f"```\n{OSLO}```", f" \n```JSON  \r\n{OSLO}\r\n```\n"])
def test_code_fence_around_the_answer_is_removed(text):
    assert run(Script(text), City).data == City("Oslo", 717710)


def test_code_fence_in_the_answer_stays():
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
def test_prose_around_the_json_is_an_error(text):
    with pytest.raises(SchemaMismatch, match="not JSON") as caught:
        run(Script(text), City, repairs=0)

    assert caught.value.text == text


@pytest.mark.parametrize("last", [OSLO, f"```json\n{OSLO}\n```"])
def test_text_before_a_search_is_not_the_answer(last):
    search = (ServerToolUse("s1", "web_search", "{}"), ServerToolResult("s1", "[]"))
    message = AssistantMessage((Text("Let me look."), *search, Text(last)), "stop")

    assert run(Script(message), City, repairs=0).data == City("Oslo", 717710)


def test_answer_in_several_blocks_is_joined():
    message = AssistantMessage((Text(OSLO[:9]), Reasoning("Hm."), Text(OSLO[9:])), "stop")

    assert run(Script(message), City, repairs=0).data == City("Oslo", 717710)


# --- repairs ---------------------------------------------------------------------------------------------------------

WRONG = '{"name": "Oslo", "population": "many"}'


@pytest.mark.parametrize("native", [True, False])
def test_invalid_answer_is_repaired_once(native):
    chat = Script(WRONG, OSLO)
    found = run(chat, City, native=native)
    *before, answer, repair = chat.requests[1].transcript

    assert found.data == City("Oslo", 717710)
    assert tuple(before) == chat.requests[0].transcript
    assert answer == make_reply(WRONG)
    assert '/population: expected integer, got string "many"' in str(repair)
    assert ("schema" in str(repair)) == native  # the prompt has the schema already
    assert chat.requests[1].response_format == chat.requests[0].response_format
    assert found.reply.transcript == Transcript((*chat.requests[1].transcript, make_reply(OSLO)))


def test_usage_of_all_replies_is_added():
    origin = Origin("anthropic", "anthropic-messages", "claude-sonnet-4-5")
    answers = [msgspec.structs.replace(make_reply(text), origin=origin) for text in (WRONG, OSLO)]
    found = run(Script(*answers), City)
    costs = [reply.cost for reply in found.replies]

    assert [reply.text for reply in found.replies] == [WRONG, OSLO]
    assert found.replies[-1] is found.reply
    assert found.usage == Usage(input_tokens=2, output_tokens=3)
    assert None not in costs
    assert found.cost == sum(costs)
    assert found.cost


def test_unknown_usage_or_cost_stays_unknown():
    """A price that is unknown for one reply is unknown for all."""
    reply = run(Script(OSLO), City).reply
    free = msgspec.structs.replace(reply, asked_at=None, response=msgspec.structs.replace(reply.response, usage=None))

    assert Structured(1, reply, (reply,)).cost is None
    assert Structured(1, reply, (free, reply)).cost is None
    assert Structured(1, free, (free,)).cost == Decimal(0)
    assert Structured(1, free, (free,)).usage is None


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 5000], ids=["large", "small", "long"])
@pytest.mark.parametrize("kind", [City, Town, SCHEMA, list[int], list[float]])
def test_number_out_of_range_is_repaired(kind, number):
    """It is valid JSON, but Python cannot represent it."""
    text = f'{{"value": [{number}]}}' if kind in (list[int], list[float]) else OSLO.replace("717710", number)
    good = '{"value": [1]}' if kind in (list[int], list[float]) else OSLO
    chat = Script(text, good)
    run(chat, kind)

    assert "could not be used" in str(chat.requests[1].transcript[-1])
    with pytest.raises(SchemaMismatch, match="does not fit the schema") as caught:
        run(Script(text), kind, repairs=0)
    assert caught.value.text == text


@pytest.mark.parametrize("repairs", [0, 1, 3])
def test_failed_repair_is_an_error_with_the_text(repairs):
    chat = Script(*[WRONG] * 4)
    with pytest.raises(SchemaMismatch, match=r"does not fit the schema.*/population: expected integer") as caught:
        run(chat, City, repairs=repairs)

    assert caught.value.text == WRONG
    assert len(chat.requests) == repairs + 1


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
def test_repair_request_names_the_problems(kind, text, problem):
    chat = Script(text, "{}")
    with pytest.raises(SchemaMismatch, match="after 2 answers"):
        run(chat, kind)

    assert problem in str(chat.requests[1].transcript[-1])


def test_repair_request_is_bounded():
    """A list may have thousands of invalid items."""
    chat = Script(json.dumps({"value": ["x"] * 1000}), '{"value": [1]}')
    run(chat, pydantic.create_model("Numbers", value=(list[int], ...)))

    assert len(str(chat.requests[1].transcript[-1])) < 6000


# --- errors that a repair does not fix -------------------------------------------------------------------------------

CALL = ToolUse("t1", "weather", "{}")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (make_reply('{"name": "Os', "length"), "cut off at its length limit; raise max_tokens"),
        (make_reply("I cannot.", "content_filter"), "refused"),
        (AssistantMessage((Refusal("No."),), "stop"), "refused"),
        (AssistantMessage((Text("Let me see."), CALL), "tool_calls"), "called weather instead"),
    ],
)
def test_refused_or_cut_answer_is_not_repaired(message, why):
    chat = Script(message)
    with pytest.raises(SchemaMismatch, match=why) as caught:
        run(chat, City, repairs=5)

    assert caught.value.text
    assert len(chat.requests) == 1


def test_invalid_schema_is_an_error_at_once():
    chat = Script("{}")
    with pytest.raises(SchemaMismatch, match=r"no answer would.*invalid schema"):
        run(chat, {"$ref": "#/$defs/nowhere"}, repairs=5)

    assert len(chat.requests) == 1


@pytest.mark.parametrize("stop", ["length", "content_filter"])
def test_valid_answer_is_accepted_for_any_stop_reason(stop):
    assert run(Script(make_reply(OSLO, stop)), City).data == City("Oslo", 717710)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (AssistantMessage((), "stop"), "Empty response for structured output"),
        (make_reply(" \n"), "Empty response for structured output"),
        (AssistantMessage((), "length"), "Empty response for structured output: the answer was cut off"),
        (AssistantMessage((CALL,), "tool_calls"), "Empty response for structured output: the model called weather"),
    ],
)
def test_answer_without_text_is_an_error_of_the_provider(message, expected):
    with pytest.raises(LLMError) as caught:
        run(Script(message), City)

    assert caught.value.message.startswith(expected)
    assert caught.value.provider == "mine"
