"""Typed output: of an agent, of one run, of a stream; validators."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any, assert_type

import msgspec
import pydantic

from tenuto import Agent, AsyncAgent, AsyncSession, Client, Loss, ModelRetry, PendingCall, Reply, Result, Usage
from tenuto.hooks import RunInfo

MODEL = "openai/gpt-5.2"


@dataclasses.dataclass
class City:
    name: str


class Country(pydantic.BaseModel):
    capital: City


class Town(msgspec.Struct):
    name: str


def known(city: City, run: RunInfo[None]) -> City:
    if not city.name:
        raise ModelRetry("give the name")
    return dataclasses.replace(city, name=f"{city.name} ({run.model})")


def report(result: Result[City]) -> Usage:
    assert_type(result.cost, Decimal | None)
    assert_type(result.losses, tuple[Loss, ...])
    assert_type(result.pending, tuple[PendingCall, ...])
    assert_type(result.reply, Reply)
    return result.usage


with Agent(MODEL, output=City, validators=[known, lambda city: None], repairs=2) as agent:
    result = agent.run("Which city?")
    assert_type(result.output, City)
    report(result)
    assert_type(agent.session("trip").send("Which?").output, City)
    assert_type(agent.session().send("Which countries?", output=list[Country]).output, list[Country])
    with agent.session().stream("Which city?") as run:
        for part in run.partial_output():
            print(part)
        assert_type(run.result.output, City)
    either: Agent[Any, City | Town] = Agent(MODEL, output=City | Town)
    assert_type(either.run("Which?").output, City | Town)
    assert_type(agent.run("Which?", output={"type": "object"}).output, Any)

with Client() as client:
    print(client.chat_structured(MODEL, "Which?", City | Town).data)


async def awaiting(agent: AsyncAgent[None, Country]) -> None:
    assert_type(await agent.run("Which?"), Result[Country, AsyncSession[None, Country]])
    async with agent.session().stream("Which?", output=City) as run:
        assert_type(run.result.output, City)
