"""Structured output: the value has the requested type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import msgspec
from pydantic import BaseModel

from tenuto import ChatRequest, Client, Reply, Usage, user
from tenuto.errors import SchemaMismatch

MODEL, QUESTION = "openai/gpt-5.2", "Largest city of Norway?"


class City(msgspec.Struct):
    name: str
    population: int


@dataclass
class Town:
    name: str


class Village(TypedDict):
    name: str


class Hamlet(BaseModel):
    name: str


with Client() as ai:
    found = ai.chat_structured(MODEL, QUESTION, City)
    assert_type(found.data, City)
    assert_type(found.data.population, int)
    assert_type(found.reply, Reply)
    assert_type(found.usage, Usage | None)

    assert_type(ai.chat_structured(MODEL, QUESTION, Town).data, Town)
    assert_type(ai.chat_structured(MODEL, QUESTION, Village).data["name"], str)
    assert_type(ai.chat_structured(MODEL, QUESTION, Hamlet, effort="low", repairs=2).data, Hamlet)
    assert_type(ai.chat_structured(MODEL, QUESTION, list[City]).data, list[City])
    assert_type(ai.chat_structured(MODEL, QUESTION, {"type": "object"}).data, Any)

    request = ChatRequest(model=MODEL, messages=(user(QUESTION),))
    try:
        assert_type(ai.chat_structured(request, City, repairs=0, timeout=10).data, City)
    except SchemaMismatch as error:
        assert_type(error.text, str)
