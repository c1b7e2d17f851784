"""The typed output of an agent: requested in the best way of each model, checked, repaired, streamed, read again."""

from __future__ import annotations

import dataclasses
import json
import signal
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.helpers import add, agent, journal_labels, pay, scene
from crash import output_program, programs
from tenuto import Agent, Hooks, Limits, ModelRetry, tool
from tenuto.agent.partial_output import PartialJson
from tenuto.audit.journal import REQUEST_CHANGED
from tenuto.core import jsonio
from tenuto.core.journal import Configured, SteeringAdded
from tenuto.errors import LimitReached, SchemaMismatch, TenutoError
from tenuto.events import OutputRetried
from tenuto.hooks import RunInfo
from tenuto.testing import call, refuse, say, stall, stop, think, turn


@dataclasses.dataclass
class City:
    name: str
    population: int


class Capital(pydantic.BaseModel):
    country: str
    seat: City


class Town(msgspec.Struct):
    name: str
    river: str


class Village(TypedDict):
    name: str


OSLO = City("Oslo", 717710)
TEXT = '{"name": "Oslo", "population": 717710}'
WRONG = '{"name": "Oslo", "population": "many"}'
MODELS = {
    "anthropic/claude-sonnet-5-5": "native",
    "anthropic/claude-3-5-haiku-latest": "tool",
    "openai/gpt-5.2": "native",
    "google/gemini-3-pro-preview": "native",
    "google/gemini-2.5-flash": "tool",
    "openai/gpt-4o": "native",
    "openai/gpt-4-turbo": "tool",
    "mistral/mistral-large-latest": "native",
    "groq/llama-3.3-70b-versatile": "prompt",
    "deepseek/deepseek-chat": "prompt",
    "zai/glm-5.3": "prompt",
    "openrouter/anthropic/claude-sonnet-5-5": "native",
    "together/meta-llama/Llama-3.3-70B-Instruct-Turbo": "native",
    "moonshot/kimi-k2": "native",
    "sim/deepseek": "tool",
}
"""Models of the four dialects and of seven chat hosts, and how they request a value next to a tool."""


def give(mode: str, text: str):
    """Return the part of a reply with an output."""
    return call("final_answer", text) if mode == "tool" else say(text)


async def configs(session) -> list[Configured]:
    return [entry.payload for entry in await session.entries() if isinstance(entry.payload, Configured)]


@pytest.mark.parametrize(("model", "mode"), MODELS.items())
@scene
async def test_output_is_requested_in_the_way_of_the_model(tenuto_sim, model, mode):
    """A tool, a rejected output, a correct one; the audit rebuilds each request."""
    tenuto_sim.script(
        turn(call("add", {"a": 1, "b": 2})), turn(give(mode, WRONG)), turn(give(mode, TEXT)), turn("Then this.")
    )
    async with agent(add, model=model, output=City, store=None, allow_unverified=True) as ai:
        result = await ai.run("Which city?")

        assert (result.output, result.pending) == (OSLO, ())
        [config] = await configs(result.session)
        assert (config.output_mode, config.scope) == (mode, "session")
        assert "name" in jsonio.parse(config.output_schema)["properties"]
        report = await result.session.audit()
        assert [finding.rule for finding in report.findings if finding.rule == REQUEST_CHANGED] == []
        assert result.session.status == "completed"
        assert len(tenuto_sim.requests) == 3
        follow_up = await result.session.send("And then?", output=str)
        assert follow_up.output == "Then this."
    tenuto_sim.assert_clean()


@pytest.mark.parametrize(
    ("output", "text", "expected"),
    [
        (Capital, '{"country": "Norway", "seat": ' + TEXT + "}", Capital(country="Norway", seat=OSLO)),
        (Town, '{"name": "Bergen", "river": "none"}', Town("Bergen", "none")),
        (Village, '{"name": "Flam"}', {"name": "Flam"}),
        (Town | City, '{"value": ' + TEXT + "}", OSLO),
        (list[City], '{"value": [' + TEXT + "]}", [OSLO]),
        (int, '{"value": 3}', 3),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, '{"a": 1}', {"a": 1}),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (str, "Oslo", "Oslo"),
        (None, "Oslo", "Oslo"),
    ],
)
@scene
async def test_output_is_a_value_of_the_type(tenuto_sim, output, text, expected):
    tenuto_sim.script(turn(say(text)))
    async with agent(output=output, store=None) as ai:
        result = await ai.run("Which city?")

        assert result.output == expected
        assert type(result.output) is type(expected)
    tenuto_sim.assert_clean()


def test_type_without_a_schema_is_refused_at_once():
    with pytest.raises(TypeError, match="output type complex is not supported"):
        agent(output=complex)


def test_tool_with_the_name_of_the_final_tool_is_refused():
    @tool
    def final_answer() -> str:
        """Answer."""
        return ""

    with pytest.raises(ValueError, match=r"'final_answer'.*rename it"):
        agent(final_answer, output=City, model="sim/deepseek")


# --- repair -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["sim/anthropic", "sim/deepseek", "groq/llama-3.3-70b-versatile"])
@scene
async def test_repairs_are_bounded_and_count(tenuto_sim, model):
    mode = MODELS.get(model, "native")
    tenuto_sim.script(*[turn(give(mode, WRONG)) for _ in range(3)], turn("Something else."))
    async with agent(output=City, repairs=2, model=model, store=None) as ai:
        session = ai.session()
        with pytest.raises(SchemaMismatch, match=r"after 3 answers.*population") as error:
            await session.send("Which city?")

        assert error.value.response is not None
        assert (session.status, session._log.spent.turns, session._log.spent.repairs) == (
            ("failed", 3, 2) if mode != "tool" else ("failed", 3, 3)
        )
    async with agent(output=City, repairs=9, model=model, store=None, limits=Limits(turns=2)) as ai:
        with pytest.raises(LimitReached, match="2 turns"):
            await ai.run("Which city?")
    tenuto_sim.assert_clean()


@scene
async def test_repair_is_journalled_and_emitted(tenuto_sim):
    tenuto_sim.script(turn(think("Hm."), say(WRONG)), turn(say(TEXT)))
    events: list[Any] = []
    async with agent(output=City, listeners=[events.append], store=None) as ai:
        result = await ai.run("Which city?")

        assert await journal_labels(result.session) == [
            "configured",
            "message_added",
            "request_started",
            "reply_received",
            "steering_added",
            "request_started",
            "reply_received",
            "completed",
        ]
        [repair] = [e.payload for e in await result.session.entries() if isinstance(e.payload, SteeringAdded)]
        assert repair.repair
        assert "population" in str(repair.message)
    assert [event.reason for event in events if isinstance(event, OutputRetried)] == [
        '/population: expected integer, got string "many"'
    ]
    tenuto_sim.assert_clean()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (turn(say("So"), refuse("No.")), "refused"),
        (turn(say("{"), stop("length")), "raise max_tokens"),
    ],
)
@scene
async def test_refusal_and_cut_answer_are_not_repaired(tenuto_sim, reply, message):
    tenuto_sim.script(reply)
    async with agent(output=City, store=None) as ai:
        with pytest.raises(SchemaMismatch, match=message):
            await ai.run("Which city?")
    assert len(tenuto_sim.requests) == 1


@scene
async def test_text_instead_of_the_final_call_is_repaired(tenuto_sim):
    """A text with valid JSON is accepted."""
    tenuto_sim.script(turn(say("It is Oslo.")), turn(say(TEXT)))
    async with agent(output=City, model="sim/deepseek", store=None) as ai:
        assert (await ai.run("Which city?")).output == OSLO
    assert "Call final_answer with the answer" in str(tenuto_sim.requests[1].body)
    tenuto_sim.assert_clean()


@scene
async def test_other_calls_next_to_the_final_one_run(tenuto_sim):
    """Also one that needs approval: the run has no output before."""
    tenuto_sim.script(turn(call("pay", {"amount": 1}), call("final_answer", TEXT), call("add", {"a": 1, "b": 1})))
    async with agent(pay, add, output=City, model="sim/deepseek", store=None, limits=Limits(tool_calls=2)) as ai:
        result = await ai.run("Which city?")
        assert [one.call.name for one in result.pending] == ["pay"]
        with pytest.raises(TenutoError, match="waits for approval"):
            _ = result.output
        result = await result.session.approve()
        assert (result.output, result.session.status) == (OSLO, "completed")
    assert len(tenuto_sim.requests) == 1
    tenuto_sim.assert_clean()


@scene
async def test_message_before_the_end_changes_the_output(tenuto_sim):
    """The output is that of the reply after them."""

    async def check(city: City) -> None:
        if city == OSLO:
            await session.steer("Another one.")

    tenuto_sim.script(turn(call("final_answer", TEXT)), turn(say('{"name":"Flam","population":9}')))
    async with agent(output=City, model="sim/deepseek", validators=[check], store=None) as ai:
        session = ai.session()
        assert (await session.send("Which city?")).output == City("Flam", 9)
    tenuto_sim.assert_clean()


class Nothing(Hooks):
    """Permits no call."""

    def permit(self, call):
        return "nothing is permitted"


@scene
async def test_final_call_needs_no_permission_and_is_not_counted(tenuto_sim):
    tenuto_sim.script(*[turn(give("tool", text)) for text in (WRONG, WRONG, TEXT)])
    limits = Limits(tool_calls=1)
    async with agent(
        add, output=City, repairs=2, model="sim/deepseek", limits=limits, hooks=[Nothing()], store=None
    ) as ai:
        assert (await ai.run("Which city?")).output == OSLO
    tenuto_sim.assert_clean()


# --- validators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["sim/anthropic", "sim/deepseek", "groq/llama-3.3-70b-versatile"])
@scene
async def test_validators_change_and_reject(tenuto_sim, model):
    mode = MODELS.get(model, "native")
    tenuto_sim.script(turn(give(mode, TEXT)), turn(give(mode, '{"name": "Flam", "population": 350}')))
    validated = []

    async def is_small(city: City, run: RunInfo[int]) -> City:
        if city.population > run.deps:
            raise ModelRetry(f"{city.name} is too large")
        return dataclasses.replace(city, name=city.name.upper())

    def record(city: City) -> None:
        validated.append(city.name)

    async with agent(output=City, validators=[record, is_small], model=model, store=None) as ai:
        result = await ai.run("Which city?", deps=1000)

        assert (result.output, validated) == (City("FLAM", 350), ["Oslo", "Flam"])
    assert "Oslo is too large" in str(tenuto_sim.requests[1].body)
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("model", ["sim/anthropic", "sim/deepseek"])
@scene
async def test_validator_that_fails_ends_the_run(tenuto_sim, model):
    tenuto_sim.script(turn(give(MODELS.get(model, "native"), TEXT)))

    def check(city: City) -> None:
        raise KeyError(city.name)

    async with agent(output=City, validators=[check], model=model, store=None) as ai:
        session = ai.session()
        with pytest.raises(KeyError, match="Oslo"):
            await session.send("Which city?")
        assert session.status == "failed"
    assert len(tenuto_sim.requests) == 1


@scene
async def test_handover_requests_the_output_in_another_way(tenuto_sim):
    tenuto_sim.script(turn(say(TEXT)), turn(call("final_answer", TEXT)), turn(say(TEXT)))
    async with agent(output=City, model="sim/anthropic", store=None) as ai:
        session = ai.session()
        outputs = [(await session.send("Which city?")).output]
        for model in ("sim/deepseek", "groq/llama-3.3-70b-versatile"):
            await session.handover(model)
            outputs.append((await session.send("Which city?")).output)
        assert outputs == [OSLO] * 3
        assert [config.output_mode for config in await configs(session)] == ["native", "tool", "prompt"]
        assert not [each for each in (await session.audit()).findings if each.rule == REQUEST_CHANGED]
    tenuto_sim.assert_clean()


@scene
async def test_validators_of_text(tenuto_sim):
    tenuto_sim.script(turn("Oslo."), turn("Oslo!"))

    def is_loud(text: str) -> None:
        if not text.endswith("!"):
            raise ValueError("say it louder")

    async with agent(validators=[is_loud], store=None) as ai:
        assert (await ai.run("Which city?")).output == "Oslo!"
    assert "say it louder" in str(tenuto_sim.requests[1].body)


@scene
async def test_model_retry_in_a_tool_is_a_failed_result(tenuto_sim):
    @tool
    def look(name: str) -> str:
        """Look."""
        raise ModelRetry("use the English name")

    tenuto_sim.script(turn(call("look", {"name": "Kobenhavn"})), turn("Done."))
    async with agent(look, store=None) as ai:
        result = await ai.run("Look.")
        assert "failed 0 (retry)" in await journal_labels(result.session)
        [answer] = result.session.transcript[2].results
        assert (answer.content, answer.is_error) == ("use the English name", True)
    tenuto_sim.assert_clean()


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", ["sim/anthropic", "sim/openai", "sim/gemini", "sim/deepseek", "groq/llama-3.3-70b-versatile"]
)
@scene
async def test_partial_output_grows_to_the_output(tenuto_sim, model):
    mode = MODELS.get(model, "native")
    tenuto_sim.script(turn(think("Hm."), give(mode, WRONG)), turn(give(mode, TEXT)))
    async with agent(output=City, model=model, store=None) as ai:
        async with ai.session().stream("Which city?") as run:
            values = [value async for value in run.partial_output()]

        assert values[-1] == run.result.output == OSLO
        assert values[-2] == {"name": "Oslo", "population": 717710}
        assert {"name": "Oslo"} in values
        assert {"name": "Oslo", "population": "many"} in values  # before the repair
    tenuto_sim.assert_clean()


@scene
async def test_partial_output_of_a_list_has_no_wrapper(tenuto_sim):
    tenuto_sim.script(turn(say('{"value": [' + TEXT + ", " + TEXT + "]}")))
    async with agent(store=None) as ai, ai.session().stream("Which cities?", output=list[City]) as run:
        values = [value async for value in run.partial_output()]
    assert values[-1] == [OSLO, OSLO]
    assert all(isinstance(value, list) for value in values)


def test_partial_output_of_the_sync_agent(tenuto_sim):
    tenuto_sim.script(turn(say(TEXT)), turn("Oslo is large."))
    with Agent("sim/anthropic", output=City, store=None) as ai:
        session = ai.session()
        with session.stream("Which city?") as run:
            assert [*run.partial_output()][-1] == run.result.output == OSLO
        with session.stream("Is it large?", output=str) as run:
            values = [*run.partial_output()]
        assert values[-1] == "Oslo is large."
        assert all("Oslo is large.".startswith(value) for value in values)
        assert run.result.session is session


json_texts = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
).filter(lambda value: isinstance(value, list | dict))


def is_part(part: Any, complete: Any) -> bool:
    """Return whether a value is a part of another one: strings may be cut, and later elements may be missing."""
    if isinstance(part, dict) and isinstance(complete, dict):
        return all(name in complete and is_part(value, complete[name]) for name, value in part.items())
    if isinstance(part, list) and isinstance(complete, list):
        return len(part) <= len(complete) and all(map(is_part, part, complete))
    if isinstance(part, str) and isinstance(complete, str):
        return complete.startswith(part)
    return part == complete


def test_partial_json_has_the_complete_parts():
    reader, values = PartialJson(), []
    for char in '{"a": [12, true, "x\\u00e9"], "bc": nul':
        reader.feed(char)
        if not values or values[-1] != reader.value():
            values.append(reader.value())
    assert values == [
        {}, {"a": []}, {"a": [12]}, {"a": [12, True]}, {"a": [12, True, ""]}, {"a": [12, True, "x"]}, {"a": [12, True, "xé"]}
    ]  # fmt: skip


@given(json_texts, st.booleans(), st.integers(1, 7))
def test_partial_json_is_always_a_part(value, is_ascii, step):
    text = f"```json\n{json.dumps(value, ensure_ascii=is_ascii, indent=2)}\n```"
    reader, previous = PartialJson("{" if isinstance(value, dict) else "["), msgspec.UNSET
    for start in range(0, len(text), step):
        reader.feed(text[start : start + step])
        part = reader.value()
        assert part is msgspec.UNSET or is_part(part, value)
        assert previous is msgspec.UNSET or is_part(previous, part)
        previous = part
    assert previous == value


# --- crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["sim/anthropic", "sim/deepseek", "groq/llama-3.3-70b-versatile"])
@scene
async def test_run_continues_after_each_entry(tenuto_sim, model):
    """A crash after any entry: one output, one end, and no additional repair."""
    mode = MODELS.get(model, "native")
    tenuto_sim.script(turn(call("add", {"a": 1, "b": 2})), turn(give(mode, WRONG)), turn(give(mode, TEXT)))
    async with agent(add, output=City, model=model, store=None) as ai:
        complete = await ai.run("Which city?")
        expected = await journal_labels(complete.session)
        first = expected.index("request_started")
        for count in range(first, len(expected)):
            session = await ai._fork(complete.session.id, count)
            assert (session.status, session.has_pending_work) == ("interrupted", True)
            result = await session.continue_()
            assert result.output == OSLO
            ended = await journal_labels(session)
            assert ended.count("completed") == 1
            assert ended.count("steering_added") == expected.count("steering_added")
            assert await session.continue_() is None
    tenuto_sim.assert_clean()


@pytest.mark.parametrize("model", ["sim/openai", "sim/deepseek"])
def test_run_killed_in_a_repair_continues(tenuto_sim, tmp_path, model):
    mode, where = MODELS.get(model, "native"), str(tmp_path / "sessions.db")
    answer = [call("final_answer", TEXT)] if mode == "tool" else [say(TEXT[1:])]
    repair = [say("{"), stall(times=1), *answer]
    tenuto_sim.script(turn(give(mode, WRONG)), turn(*repair))

    with programs.start_program(output_program, where, model) as process:
        programs.wait_for(process, "rejected")
        programs.wait_for(process, "delta")
        process.send_signal(signal.SIGKILL)

    with output_program.agent(where, model) as ai:
        session = ai.resume("run")
        result = session.continue_()
        assert result is not None
        assert (result.output, session.status) == (output_program.City("Oslo", 717710), "completed")
        assert [entry.kind for entry in session.entries()].count("run_ended") == 1
    tenuto_sim.assert_clean()
    assert programs.find_problems(where) == []


@scene
async def test_message_with_a_key_has_the_same_output_later(tenuto_sim, stores):
    tenuto_sim.script(turn(say(TEXT)), turn("Fine."))
    async with stores() as store, agent(store=store) as ai:
        first = await ai.run("Which city?", session="s", key="job", output=City)
        await ai.run("And?", session="s")
    async with stores() as store, agent(store=store) as ai:
        again = await ai.run("Which city?", session="s", key="job", output=City)
        assert (first.output, again.output) == (OSLO, {"name": "Oslo", "population": 717710})
    async with stores() as store, agent(store=store, output=City) as ai:
        assert (await ai.run("Which city?", session="s", key="job")).output == OSLO
    assert len(tenuto_sim.requests) == 2


@pytest.mark.parametrize("background", [False, True])
@scene
async def test_output_of_a_sub_agent_is_its_answer_as_json(tenuto_sim, background):
    tenuto_sim.script(turn(call("guide", {"prompt": "Which city?"})), turn("Done."), turn("Oslo it is."), when="Go.")
    tenuto_sim.script(turn(call("final_answer", WRONG)), turn(call("final_answer", TEXT)), when="Which city?")
    guide = agent(output=City, model="sim/deepseek", store=None)
    async with guide, agent(guide.as_tool("guide", background=background), store=None) as ai:
        session = (await ai.run("Go.")).session
        texts = [str(message) for message in session.transcript if not hasattr(message, "blocks")]
        assert any('{"name":"Oslo","population":717710}' in text for text in texts), texts
    tenuto_sim.assert_clean()
