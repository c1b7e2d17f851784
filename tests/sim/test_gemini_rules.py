"""Every rule of Gemini that is checked: a request that breaks it, and one that looks alike and keeps it."""

from __future__ import annotations

import base64
import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sim.gemini_asking import GEMINI, VERTEX, answers, ask, chunks, exchange, parts_of, said, user, verdict, weather
from tenuto.core.rules import rule
from tenuto.sim.asked import Malformed, Style
from tenuto.sim.gemini.rules import CHECKS, UNCHECKED
from tenuto.sim.gemini.voice import VOICE
from tenuto.sim.judging import judge
from tenuto.sim.script import Call, Picture, RunCode, Say, Think

OLD, THREE, NEW, PRO = "gemini-2.5-flash", "gemini-3-flash-preview", "gemini-3.5-flash", "gemini-2.5-pro"
CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
SENTINEL = "skip_thought_signature_validator"
START = user("Weather in Oslo?")


def reply(*steps, model: str = "", style: Style = GEMINI, stream: bool = False, account: str = "", before=()):
    """What the model answers to the first question, as parts that can be sent back."""
    body = {"contents": [START, *before], "tools": [weather()]}
    request = ask(body, model, style, stream=stream, account=account)
    return parts_of(chunks(exchange(request, steps), stream=stream))


def contents(*more: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"contents": [START, *more], "tools": [weather()], **rest}


def asked(**rest: Any) -> dict[str, Any]:
    return {"contents": [START], **rest}


def config(**values: Any) -> dict[str, Any]:
    return asked(generationConfig=values)


def thinking(**values: Any) -> dict[str, Any]:
    return config(thinkingConfig=values)


def declared(**values: Any) -> dict[str, Any]:
    return asked(tools=[weather(**values)])


def loop(parts, answer=None, *more) -> dict[str, Any]:
    return contents(said(*parts), answer or answers(parts), *more)


def without(parts, at: int = -1):
    found = copy.deepcopy(parts)
    del found[at]["thoughtSignature"]
    return found


def with_(parts, at: int = -1, **values):
    found = copy.deepcopy(parts)
    found[at].update(values)
    return found


CALL = (Think("Let me look."), Call("weather", {"city": "Oslo"}))
BOTH = (Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Bergen"}))
CALLED, SAID = reply(*CALL), reply(Say("It rains."))
FOREIGN = [{"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}]
TRUSTED = [{**FOREIGN[0], "thoughtSignature": SENTINEL}]


def second(model: str = "", *, signed: bool):
    """A second step in the same turn."""
    first = reply(*CALL, model=model)
    then = reply(Call("weather", {"city": "Bergen"}), model=model, before=[said(*first), answers(first)])
    return loop(first, None, said(*(then if signed else without(then))), answers(then))


def merged(stream_parts):
    """Fold every text into the one that is signed."""
    text = "".join(part["text"] for part in stream_parts)
    return [{"text": f"So: {text}", "thoughtSignature": stream_parts[-1]["thoughtSignature"]}]


def swapped_ids(parts):
    """Two answers, each with the id of the other."""
    one, two = (part["functionResponse"] for part in parts)
    return [{"functionResponse": {**one, "id": two["id"]}}, {"functionResponse": {**two, "id": one["id"]}}]


def urlsafe(parts):
    """The same signatures, in the other alphabet."""
    letters = str.maketrans("+/", "-_")
    return [{**part, "thoughtSignature": part["thoughtSignature"].translate(letters).rstrip("=")} for part in parts]


def blob(type: str, data: str = "AAAA") -> dict[str, Any]:
    return {"inlineData": {"mimeType": type, "data": data}}


def result(**more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "weather", "response": {"output": "rain"}, **more}}


SCHEMA = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}}
LONG = "x" * 65
WORDS = "a word " * 600_000
PAPER = "A" * (70 * 1024 * 1024)
NEW_CALL, NEW_BOTH = reply(*CALL, model=NEW), reply(*BOTH, model=NEW)
NEW_MIXED = reply(Call("weather"), Call("time"), model=NEW)
OLD_CALL, TWICE = reply(*CALL, model=OLD), (Call("weather"), Call("weather"))


def on_all(parts):
    """The signature of the first part on every one of them."""
    return [{**part, "thoughtSignature": parts[0]["thoughtSignature"]} for part in parts]


def on_the_thought(parts):
    """The signature of a text on a thought of the same reply, and no longer on the text."""
    return [{"text": "Hm.", "thought": True, "thoughtSignature": parts[-1]["thoughtSignature"]}, *without(parts)]


BREAKS: list[tuple[str, Any, str, Style, str]] = [
    ("GEM-PART-04", asked(stream=True), "", GEMINI, "/stream"),
    ("GEM-PART-04", contents(user({"text": "a", "cache_control": {}})), "", GEMINI, "/contents/1/parts/0/cache_control"),
    ("GEM-PART-04", asked(toolConfig={"includeServerSideToolInvocations": True}), "", VERTEX,
     "/toolConfig/includeServerSideToolInvocations"),
    ("GEM-PARAM-09", asked(labels={"a": "b"}), "", GEMINI, "/labels"),
    ("GEM-PARAM-09", asked(tools=[weather()], toolConfig={"functionCallingConfig": {"streamFunctionCallArguments": True}}),
     "", GEMINI, "/toolConfig/functionCallingConfig/streamFunctionCallArguments"),
    ("GEM-SIG-04", loop([{"functionCall": {**FOREIGN[0]["functionCall"], "thoughtSignature": "AAAA"}}]), "", GEMINI,
     "/contents/1/parts/0/functionCall/thoughtSignature"),
    ("GEM-PART-04", loop(CALLED, user(result(thoughtSignature="AAAA"))), "", GEMINI,
     "/contents/2/parts/0/functionResponse/thoughtSignature"),
    ("GEM-PARAM-11", asked(), "gpt-5", GEMINI, "/model"),
    ("GEM-PARAM-11", asked(), "gemini-does-not-exist", VERTEX, "/model"),
    ("GEM-PARAM-11", asked(), "gemini-3.5-flash-live-preview", GEMINI, "/model"),
    ("GEM-PARAM-01", config(temperature=2.5), "", VERTEX, "/generationConfig/temperature"),
    ("GEM-PARAM-01", config(temperature=-1), "", GEMINI, "/generationConfig/temperature"),
    ("GEM-PARAM-01", config(temperature=2.0001), "", GEMINI, "/generationConfig/temperature"),
    ("GEM-PARAM-02", thinking(thinkingLevel="LOW"), OLD, GEMINI, "/generationConfig/thinkingConfig/thinkingLevel"),
    ("GEM-PARAM-02", thinking(thinkingLevel="LOW"), "gemini-2.0-flash", GEMINI,
     "/generationConfig/thinkingConfig/thinkingLevel"),
    ("GEM-PARAM-03", thinking(thinkingLevel="LOW", thinkingBudget=512), THREE, GEMINI, "/generationConfig/thinkingConfig"),
    ("GEM-PARAM-04", thinking(thinkingBudget=0), PRO, GEMINI, "/generationConfig/thinkingConfig/thinkingBudget"),
    ("GEM-PARAM-04", thinking(thinkingBudget=0), PRO, VERTEX, "/generationConfig/thinkingConfig/thinkingBudget"),
    ("GEM-PARAM-04", thinking(thinking_budget=64), PRO, GEMINI, "/generationConfig/thinkingConfig/thinkingBudget"),
    ("GEM-PARAM-04", thinking(thinkingBudget=128), "gemini-2.5-flash-lite", GEMINI,
     "/generationConfig/thinkingConfig/thinkingBudget"),
    *(("GEM-PARAM-05", thinking(thinkingLevel="minimal"), model, GEMINI, "/generationConfig/thinkingConfig/thinkingLevel")
      for model in ("gemini-3-pro-preview", "gemini-3.1-pro-preview", "gemini-3.7-flash", "gemini-3.8-flash", "gemini-4-argon")),
    ("GEM-PARAM-06", asked(toolConfig={"functionCallingConfig": {"mode": "ANY"}}), "", GEMINI, "/toolConfig"),
    ("GEM-PARAM-07", asked(tools=[weather(), {"googleSearch": {}}]), THREE, GEMINI, "/tools"),
    ("GEM-PARAM-07", asked(tools=[weather(), {"googleSearch": {}}], toolConfig={"includeServerSideToolInvocations": True}),
     OLD, GEMINI, "/tools"),
    ("GEM-PARAM-08", asked(tools=[weather()], generationConfig={"responseMimeType": "application/json"}), OLD, GEMINI,
     "/generationConfig/responseMimeType"),
    ("GEM-PARAM-10", contents(user(WORDS)), OLD, VERTEX, "/contents"),
    ("GEM-SCHEMA-01", declared(parameters={**SCHEMA, "additionalProperties": False}), "", GEMINI,
     "/tools/0/functionDeclarations/0/parameters/additionalProperties"),
    *(("GEM-SCHEMA-01", declared(parameters={"type": "OBJECT", "properties": {"a": {"type": "STRING", word: 1}}}), "", GEMINI,
       f"/tools/0/functionDeclarations/0/parameters/properties/a/{word}")
      for word in ("const", "$schema", "exclusiveMinimum", "propertyNames", "$ref", "oneOf")),
    ("GEM-SCHEMA-01", config(responseSchema={"type": "OBJECT", "additionalProperties": False}), "", GEMINI,
     "/generationConfig/responseSchema/additionalProperties"),
    ("GEM-SCHEMA-02", declared(parameters={"type": "OBJECT", "properties": {"a": {"type": ["string", "null"]}}}), "", GEMINI,
     "/tools/0/functionDeclarations/0/parameters/properties/a/type"),
    ("GEM-SCHEMA-02", declared(parameters={"type": "OBJECT", "properties": {"a": {"type": "array"}}}), "", GEMINI,
     "/tools/0/functionDeclarations/0/parameters/properties/a"),
    *(("GEM-SCHEMA-03", declared(name=name), "", GEMINI, "/tools/0/functionDeclarations/0/name")
      for name in ("9lives", "a b", "", LONG, "ærø")),
    ("GEM-SCHEMA-04", declared(parameters=SCHEMA, parametersJsonSchema={}), "", GEMINI, "/tools/0/functionDeclarations/0"),
    ("GEM-SCHEMA-04", config(responseSchema=SCHEMA, responseJsonSchema={}), "", GEMINI, "/generationConfig"),
    ("GEM-PART-02", {"contents": []}, "", GEMINI, "/contents"),
    ("GEM-PART-02", {}, "", GEMINI, "/contents"),
    ("GEM-PART-02", contents(said("a"), {"role": "user", "parts": []}), "", GEMINI, "/contents/2/parts"),
    ("GEM-PART-02", contents(said("a"), {"role": "user"}), "", VERTEX, "/contents/2/parts"),
    *(("GEM-TURN-03", contents({"role": role, "parts": [{"text": "a"}]}), "", GEMINI, "/contents/1/role")
      for role in ("system", "assistant", "tool")),
    ("GEM-TURN-03", contents({"parts": [{"text": "a"}]}), "", VERTEX, "/contents/1/role"),
    ("GEM-PART-01", contents(said("a", {}), user("b")), "", GEMINI, "/contents/1/parts/1"),
    ("GEM-PART-01", contents(said({"text": None}), user("b")), "", GEMINI, "/contents/1/parts/0"),
    ("GEM-PART-01", contents(said({"thoughtSignature": SENTINEL}), user("b")), "", GEMINI, "/contents/1/parts/0"),
    ("GEM-PART-01", contents(said(""), user("b")), "", VERTEX, "/contents/1/parts/0"),
    ("GEM-PART-03", asked(systemInstruction={"parts": [{}]}), "", GEMINI, "/systemInstruction/parts/0"),
    ("GEM-PART-05", contents(said("[Reasoning: it rains]", *SAID), user("b")), "", GEMINI, "/contents/1/parts/0"),
    *(("GEM-MEDIA-01", contents(user(blob(type))), "", style, "/contents/1/parts/0/inlineData/mimeType")
      for style in (GEMINI, VERTEX) for type in ("png", "image/jpg", "image/svg+xml", "application/zip", "")),
    ("GEM-MEDIA-01", loop(CALLED, user(result(parts=[blob("png")]))), "", GEMINI,
     "/contents/2/parts/0/functionResponse/parts/0/inlineData/mimeType"),
    ("GEM-MEDIA-02", contents(user(blob("application/pdf", PAPER))), "", GEMINI, "/contents"),
    ("GEM-MEDIA-03", loop(FOREIGN, user(result(parts=[blob("image/png")]))), OLD, GEMINI,
     "/contents/2/parts/0/functionResponse/parts"),
    ("GEM-TURN-01", {"contents": [said(*CALLED), answers(CALLED)], "tools": [weather()]}, "", GEMINI, "/contents/0"),
    ("GEM-TURN-04", {"contents": [said("a"), user("b")]}, "", GEMINI, "/contents/0/role"),
    ("GEM-TURN-04", contents(said("a")), "", GEMINI, "/contents/1/role"),
    ("GEM-TURN-04", contents(said("a"), said("b")), "gemini-3.6-flash", GEMINI, "/contents/2/role"),
    ("GEM-TURN-02", loop(CALLED, user("Never mind")), "", GEMINI, "/contents/2/parts"),
    ("GEM-TURN-02", loop(CALLED, user(result(), result())), "", GEMINI, "/contents/2/parts"),
    ("GEM-TURN-02", contents(user(result())), "", GEMINI, "/contents/1/parts"),
    ("GEM-TURN-02", contents(said(*CALLED)), THREE, GEMINI, "/contents/1/parts"),
    ("GEM-TURN-02", loop(reply(*BOTH), user(result())), "", VERTEX, "/contents/2/parts"),
    ("GEM-TURN-05", loop(FOREIGN, user(result(), blob("image/png"))), OLD, GEMINI, "/contents/2/parts"),
    ("GEM-TURN-06", loop(NEW_CALL, user(result(id="x"))), NEW, GEMINI, "/contents/2/parts/0/functionResponse/id"),
    ("GEM-TURN-06", loop(with_(NEW_CALL, functionCall=FOREIGN[0]["functionCall"]), user(result(id="x"))), NEW, GEMINI,
     "/contents/2/parts/0/functionResponse/id"),
    ("GEM-TURN-06", loop(NEW_BOTH, user(result(id=NEW_BOTH[0]["functionCall"]["id"]), result())), NEW, GEMINI,
     "/contents/2/parts/1/functionResponse/id"),
    ("GEM-TURN-06", loop(NEW_BOTH, user(*[result(id=NEW_BOTH[0]["functionCall"]["id"])] * 2)), NEW, GEMINI,
     "/contents/2/parts/1/functionResponse/id"),
    ("GEM-TURN-06", loop(NEW_MIXED, user(*swapped_ids(answers(NEW_MIXED)["parts"]))), NEW, GEMINI,
     "/contents/2/parts/0/functionResponse/id"),
    ("GEM-TURN-06", loop(TRUSTED, user(result(name="time"))), NEW, GEMINI, "/contents/2/parts/0/functionResponse/name"),
    ("GEM-TURN-06", loop(TRUSTED, user({"functionResponse": {"response": {}}})), NEW, GEMINI,
     "/contents/2/parts/0/functionResponse/name"),
    *(("GEM-SIG-01", loop(FOREIGN), model, style, "/contents/1/parts/0/thoughtSignature")
      for style in (GEMINI, VERTEX) for model in ("", THREE, "gemini-4-argon")),
    ("GEM-SIG-01", loop(without(reply(*BOTH), 0)), "", GEMINI, "/contents/1/parts/0/thoughtSignature"),
    ("GEM-SIG-03", second(signed=False), "", GEMINI, "/contents/3/parts/0"),
    ("GEM-SIG-03", second(THREE, signed=False), THREE, GEMINI, "/contents/3/parts/0"),
    ("GEM-SIG-02", loop(with_(CALLED, thoughtSignature="AAAA")), "", GEMINI, "/contents/1/parts/0/thoughtSignature"),
    ("GEM-SIG-02", loop(with_(CALLED, thoughtSignature="not base64!")), "", VERTEX, "/contents/1/parts/0/thoughtSignature"),
    ("GEM-SIG-02", loop(reply(*CALL, account="another")), "", GEMINI, "/contents/1/parts/0/thoughtSignature"),
    ("GEM-SIG-02", loop(reply(*CALL, style=VERTEX)), "", GEMINI, "/contents/1/parts/0/thoughtSignature"),
    ("GEM-SIG-02", loop(reply(*CALL, model="gemini-4-argon")), THREE, GEMINI, "/contents/1/parts/0/thoughtSignature"),
    ("GEM-SIG-02", loop(reply(*CALL, model=OLD)), THREE, GEMINI, "/contents/1/parts/0/thoughtSignature"),
    ("GEM-SIG-02", loop(with_(CALLED, functionCall={"name": "weather", "args": {"city": "Paris"}})), "", GEMINI,
     "/contents/1/parts/0/thoughtSignature"),
    ("GEM-SIG-02", loop([*CALLED, *CALLED]), "", GEMINI, "/contents/1/parts/1/thoughtSignature"),
    ("GEM-SIG-02", loop(on_all(reply(*BOTH, model=THREE))), THREE, GEMINI, "/contents/1/parts/1/thoughtSignature"),
    ("GEM-SIG-02", loop(with_(OLD_CALL, thoughtSignature="AAAA")), OLD, GEMINI, "/contents/1/parts/0/thoughtSignature"),
    ("GEM-SIG-02", loop(reply(*CALL, model=OLD, account="another")), OLD, GEMINI, "/contents/1/parts/0/thoughtSignature"),
    ("GEM-SIG-02", contents(said(*on_the_thought(reply(Say("a"), account="another"))), user("b")), "", GEMINI,
     "/contents/1/parts/0/thoughtSignature"),
    ("GEM-SIG-02", loop(CALLED, None, said(*urlsafe(CALLED)), answers(CALLED)), "", GEMINI,
     "/contents/3/parts/0/thoughtSignature"),
    ("GEM-SIG-02", contents(said(*SAID), user({"text": "b", "thoughtSignature": SAID[-1]["thoughtSignature"]})), "", GEMINI,
     "/contents/2/parts/0/thoughtSignature"),
    ("GEM-SIG-02", loop(CALLED, user(result(), {"text": "b", "thoughtSignature": CALLED[-1]["thoughtSignature"]})), "", GEMINI,
     "/contents/2/parts/1/thoughtSignature"),
    ("GEM-SIG-02", contents(said(*reversed(reply(RunCode("1"), RunCode("2"))[:3])), user("b")), "", GEMINI,
     "/contents/1/parts/2/thoughtSignature"),
    ("GEM-SIG-05", contents(said({**SAID[0], "text": "It rains. And more."}), user("b")), "", GEMINI, "/contents/1/parts/0"),
    ("GEM-SIG-05", contents(said(*merged(reply(Say("It rains on and on."), stream=True))), user("b")), "", GEMINI,
     "/contents/1/parts/0"),
    ("GEM-SIG-05", contents(said({**reply(Say("a"), style=VERTEX)[0], "text": "b"}), user("b")), "", VERTEX,
     "/contents/1/parts/0"),
    ("GEM-SIG-06", contents(said(*without(SAID)), user("b")), "", GEMINI, "/contents/1/parts/0"),
    ("GEM-SIG-07", contents(said(*reply(Say("a"), model=NEW)), user("b"), said("c"), user("d")), NEW, GEMINI, "/contents/3"),
    *(("GEM-SIG-08", loop(with_(FOREIGN, thoughtSignature=word)), "", GEMINI, "/contents/1/parts/0/thoughtSignature")
      for plain in (SENTINEL, "context_engineering_is_the_way_to_go")
      for word in (plain, base64.b64encode(plain.encode()).decode())),
    ("GEM-SIG-09", loop(FOREIGN), OLD, GEMINI, "/contents/1/parts/0"),
]  # fmt: skip
KEEPS: list[tuple[str, Any, str, Style]] = [
    ("GEM-PART-04", asked(system_instruction={"parts": [{"text": "Be kind"}]}, generation_config={"top_p": 0.5}), "", GEMINI),
    ("GEM-PART-04", {"contents": {"role": "user", "parts": {"text": "one"}}}, "", VERTEX),
    ("GEM-PARAM-09", asked(store=True), "", GEMINI),
    ("GEM-SIG-04", loop(CALLED), "", GEMINI),
    ("GEM-PARAM-11", asked(), "gemini-flash-latest", GEMINI),
    ("GEM-PARAM-01", config(temperature=2), "", VERTEX),
    ("GEM-PARAM-01", config(temperature=2.00005), "", VERTEX),
    ("GEM-PARAM-01", config(temperature="0.5"), "", GEMINI),
    ("GEM-PARAM-02", thinking(thinkingLevel="low"), THREE, GEMINI),
    ("GEM-PARAM-03", thinking(thinkingLevel="HIGH"), NEW, GEMINI),
    *(("GEM-PARAM-04", thinking(thinkingBudget=value), model, GEMINI)
      for model, value in ((PRO, 128), (PRO, -1), (OLD, 0), ("gemini-2.5-flash-lite", 512), ("gemini-2.5-flash-lite", 0))),
    *(("GEM-PARAM-05", thinking(thinkingLevel="MINIMAL"), model, GEMINI)
      for model in (THREE, NEW, "gemini-3.6-flash", "gemini-flash-lite-latest", "gemini-robotics-er-2-preview")),
    *(("GEM-PARAM-05", thinking(thinkingLevel="LOW"), model, GEMINI)
      for model in ("gemini-3-pro-preview", "gemini-3.7-flash", "gemini-4-argon")),
    ("GEM-PARAM-06", asked(tools=[{"googleSearch": {}}], toolConfig={"functionCallingConfig": {"mode": "AUTO"}}), THREE, GEMINI),
    ("GEM-PARAM-06", asked(tools=[weather()], toolConfig={"functionCallingConfig": {"mode": "ANY"}}), "", GEMINI),
    ("GEM-PARAM-07", asked(tools=[weather(), {"googleSearch": {}}], toolConfig={"includeServerSideToolInvocations": True}),
     THREE, GEMINI),
    ("GEM-PARAM-08", asked(tools=[weather()], generationConfig={"responseMimeType": "application/json"}), THREE, GEMINI),
    ("GEM-PARAM-10", asked(), OLD, GEMINI),
    ("GEM-SCHEMA-01", declared(parameters={"type": "object", "properties": {"const": {"type": "string"}, "$ref": SCHEMA}}),
     "", GEMINI),
    ("GEM-SCHEMA-01", declared(parameters={"type": "OBJECT", "additionalProperties": {"type": "STRING"},
                                           "defs": {"a": SCHEMA}, "properties": {"a": {"ref": "#/defs/a"}}}), "", VERTEX),
    ("GEM-SCHEMA-02", declared(parameters={"type": "ARRAY", "items": {"type": "STRING", "nullable": True}}), "", GEMINI),
    ("GEM-SCHEMA-03", declared(name="_a.b:c-9" + "x" * 56), "", GEMINI),
    ("GEM-SCHEMA-04", declared(parametersJsonSchema={"type": ["object"], "additionalProperties": False}), "", GEMINI),
    ("GEM-SCHEMA-04", declared(parameters=SCHEMA), "", GEMINI),
    *(("GEM-SCHEMA-04", config(**one), "", GEMINI) for one in ({"responseSchema": SCHEMA}, {"responseJsonSchema": {}})),
    ("GEM-PART-02", asked(), "", GEMINI),
    ("GEM-TURN-03", contents({"parts": [{"text": "a"}]}), "", GEMINI),
    ("GEM-PART-01", contents(said({"text": "", "thoughtSignature": reply()[-1]["thoughtSignature"]}), user("b")), "", GEMINI),
    ("GEM-PART-01", contents(said(""), user("b")), "", GEMINI),
    ("GEM-PART-01", contents(said({**reply(style=VERTEX)[-1], "text": ""}), user("b")), "", VERTEX),
    ("GEM-PART-03", asked(systemInstruction={"parts": [{"text": "Be kind"}]}), "", GEMINI),
    ("GEM-PART-05", contents(said({"text": "[Reasoning: it rains]", "thought": True}, *SAID), user("b")), "", GEMINI),
    *(("GEM-MEDIA-01", contents(user(blob(type))), "", GEMINI)
      for type in ("image/png", "image/jpeg", "audio/x-wav", "video/mp4", "text/plain", "application/pdf")),
    ("GEM-MEDIA-01", contents(user({"fileData": {"fileUri": "https://example.org/a"}})), "", GEMINI),
    ("GEM-MEDIA-02", contents(user(blob("application/pdf"))), "", GEMINI),
    ("GEM-MEDIA-03", loop(CALLED, user(result(parts=[blob("image/png")]))), "", GEMINI),
    ("GEM-TURN-01", contents(said("Let me look."), said(*CALLED), answers(CALLED)), "", GEMINI),
    ("GEM-TURN-04", contents(said(*SAID), user("b")), "", GEMINI),
    ("GEM-TURN-04", contents(said("It is")), NEW, GEMINI),
    ("GEM-TURN-02", contents(said(*CALLED), said(*FOREIGN), user(result()), user(result()), user("And?")), "", GEMINI),
    ("GEM-TURN-05", loop(FOREIGN, None, user(blob("image/png"))), OLD, GEMINI),
    ("GEM-TURN-06", loop(NEW_CALL), NEW, GEMINI),
    ("GEM-TURN-06", loop(NEW_BOTH, user(*reversed(answers(NEW_BOTH)["parts"]))), NEW, GEMINI),
    ("GEM-TURN-06", loop(NEW_BOTH, user(result(), result())), NEW, GEMINI),
    ("GEM-TURN-06", loop(NEW_CALL, user(result(id=""))), NEW, GEMINI),
    ("GEM-TURN-06", loop(TRUSTED), NEW, GEMINI),
    ("GEM-SIG-01", loop(reply(*BOTH)), "", GEMINI),
    ("GEM-SIG-01", loop(reply(*CALL, model=THREE)), "gemini-3-pro-preview", GEMINI),
    ("GEM-SIG-03", second(signed=True), "", GEMINI),
    ("GEM-SIG-02", loop(CALLED), "", GEMINI),
    ("GEM-SIG-02", loop(urlsafe(CALLED), answers(CALLED)), "", GEMINI),
    ("GEM-SIG-02", loop(with_(reply(Call("weather", {"a": 1, "b": 2.0}), model=NEW),
                              functionCall={"name": "weather", "args": {"b": 2, "a": 1.0}, "id": "x"}), user(result(id="x"))),
     NEW, GEMINI),
    ("GEM-SIG-02", loop(OLD_CALL), OLD, GEMINI),
    *(("GEM-SIG-02", loop(on_all(reply(*calls, model=OLD, style=style))), OLD, style)
      for style in (GEMINI, VERTEX) for calls in (BOTH, TWICE)),
    ("GEM-SIG-05", contents(said(*SAID), user("b")), "", GEMINI),
    *(("GEM-SIG-05", contents(said(*on_the_thought(reply(Say("It rains."), model=THREE, style=style))), user("b")), THREE, style)
      for style in (GEMINI, VERTEX)),
    ("GEM-SIG-06", contents(said(*SAID), user("b")), "", GEMINI),
    ("GEM-SIG-07", contents(said(*reply(Say("a"), model=NEW)), user("b")), NEW, GEMINI),
    ("GEM-SIG-08", loop(CALLED), "", GEMINI),
    ("GEM-SIG-09", loop(OLD_CALL), OLD, GEMINI),
]  # fmt: skip
FREE: list[tuple[Any, str, Style]] = [
    (asked(systemInstruction={"parts": [{}]}), "", VERTEX),
    (asked(toolConfig={"functionCallingConfig": {"mode": "VALIDATED"}}), THREE, GEMINI),
    (asked(tools=[weather(), {"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}]), "gemini-2.5-computer-use-preview-10-2025", GEMINI),
    (asked(tools=[weather(), {"computerUse": {}}]), THREE, VERTEX),
    (asked(tools=[weather(), {"mcpServers": [{}]}]), THREE, GEMINI),
    (contents(said({**reply(Say("It rains."), model=OLD)[0], "text": "It snows."}), user("b")), OLD, GEMINI),
    (loop(FOREIGN), "gemini-3-pro-image-preview", GEMINI),
    (loop(FOREIGN), "gemini-3-pro-image", VERTEX),
]  # fmt: skip
"""Requests just outside a rule's reach: another model, another host, another tool."""


@pytest.mark.parametrize(
    "id, body, model, style, place", BREAKS, ids=[f"{at}-{case[0]}" for at, case in enumerate(BREAKS)]
)
def test_a_broken_rule_is_told_where_it_is_broken(id, body, model, style, place):
    found = verdict(body, model, style)
    told = [found.refusal] if rule(id).severity == "refused" else found.noted
    broken = next((one for one in told if one and one.rule == id), None)

    assert broken, found
    assert broken.place == place
    assert "{" not in broken.message.replace("{..}", "")
    if rule(id).severity == "refused":
        assert broken.row.status in (400, 404)
        assert broken.message
    else:
        assert found.refusal is None


@pytest.mark.parametrize("id, body, model, style", KEEPS, ids=[f"{at}-{case[0]}" for at, case in enumerate(KEEPS)])
def test_a_kept_rule_was_looked_at(id, body, model, style):
    found = verdict(body, model, style)

    assert found.refusal is None
    assert id in found.tried
    assert id not in [broken.rule for broken in found.noted]


@pytest.mark.parametrize("body, model, style", FREE, ids=range(len(FREE)))
def test_a_rule_reaches_no_further_than_it_says(body, model, style):
    assert verdict(body, model, style).refusal is None


def test_every_check_is_seen_broken_and_kept():
    assert {case[0] for case in BREAKS} == set(CHECKS)
    assert {case[0] for case in KEEPS} == set(CHECKS)
    assert not CHECKS.keys() & UNCHECKED.keys()


@pytest.mark.parametrize(
    "body, model, style, message",
    [
        (loop(FOREIGN), THREE, GEMINI, "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:weather` , position 2. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details."),
        (second(signed=False), "", GEMINI, "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:weather` , position 4. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details."),
        (loop(with_(CALLED, thoughtSignature="AAAA")), "", GEMINI, "Corrupted thought signature."),
        (loop(with_(CALLED, thoughtSignature="AAAA")), "", VERTEX, "Unable to submit request because Thought signature is not valid.. Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"),
        (loop(CALLED, user("b")), "", GEMINI, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."),
        ({"contents": [said(*CALLED), answers(CALLED)]}, "", GEMINI, "Please ensure that function call turn comes immediately after a user turn or after a function response turn."),
        (contents({"role": "tool", "parts": [{"text": "a"}]}), "", VERTEX, "Please use a valid role: user, model."),
        (contents(said("a", {}), user("b")), "", GEMINI, "* GenerateContentRequest.contents[1].parts[1].data: required oneof field 'data' must have one initialized field"),
        (asked(systemInstruction={"parts": [{}]}), "", GEMINI, "* GenerateContentRequest.system_instruction.parts[0].data: required oneof field 'data' must have one initialized field"),
        (config(temperature=3), "", VERTEX, "Unable to submit request because it has a temperature value of 3 but the supported range is from 0 (inclusive) to 2.0001 (exclusive). Update the value and try again."),
        (config(temperature=1000.0), PRO, VERTEX, "Unable to submit request because it has a temperature value of 1000 but the supported range is from 0 (inclusive) to 2.0001 (exclusive). Update the value and try again."),
        (config(temperature=-0.5), "", GEMINI, "Unable to submit request because it has a temperature value of -0.5 but the supported range is from 0 (inclusive) to 2.0001 (exclusive). Update the value and try again."),
        (contents(said(""), user("b")), "", VERTEX, "Unable to submit request because it has an empty text parameter. Add a value to the parameter and try again. Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini"),
        (declared(parameters={"type": "OBJECT", "properties": {"a": {}, "b": {"const": 1}}}), "", GEMINI, "Invalid JSON payload received. Unknown name \"const\" at 'tools[0].function_declarations[0].parameters.properties[1].value': Cannot find field."),
        (contents(user({"text": "a", "cacheControl": {}})), "", GEMINI, "Invalid JSON payload received. Unknown name \"cacheControl\" at 'contents[1].parts[0]': Cannot find field."),
        (asked(stream=True), "", GEMINI, 'Invalid JSON payload received. Unknown name "stream": Cannot find field.'),
        (declared(name="a b"), "", GEMINI, "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."),
        (contents(user(blob("image/jpg"))), "", GEMINI, "Unsupported MIME type: image/jpg"),
        (asked(), "gemini-nothing", GEMINI, "models/gemini-nothing is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods."),
    ],
)  # fmt: skip
def test_known_wordings(body, model, style, message):
    assert verdict(body, model, style).refusal.message == message


def test_the_length_of_a_prompt_is_told():
    found = verdict(contents(user(WORDS)), OLD, VERTEX).refusal.message

    assert found == "The input token count (1050008) exceeds the maximum number of tokens allowed (1048576)."


def test_an_unknown_key_names_its_field():
    assert verdict(contents(user({"text": "a", "b": 1}))).refusal.parameter == "contents[1].parts[0]"


@pytest.mark.parametrize(
    "body, place",
    [
        ({"contents": "Hi"}, "/contents/0"),
        ({"contents": [{"role": "user", "parts": ["Hi"]}]}, "/contents/0/parts/0"),
        (contents(user({"text": 5})), "/contents/1/parts/0/text"),
        (contents(user({"text": ["a"]})), "/contents/1/parts/0/text"),
        (contents(said({"functionCall": {"name": "weather", "args": "{}"}})), "/contents/1/parts/0/functionCall/args"),
        (config(temperature="hot"), "/generationConfig/temperature"),
        (config(maxOutputTokens=True), "/generationConfig/maxOutputTokens"),
        (asked(generationConfig=[]), "/generationConfig"),
        (declared(parameters=None, name=None, description=[]), "/tools/0/functionDeclarations/0/description"),
        (config(stopSequences=[{}]), "/generationConfig/stopSequences/0"),
    ],
)
def test_values_of_the_wrong_shape_are_malformed(body, place):
    with pytest.raises(Malformed, match="Invalid") as refused:
        VOICE.open(ask(body))

    assert refused.value.place == place
    assert refused.value.status == 400


@pytest.mark.parametrize("model", ["", THREE, NEW, "gemini-3-pro-image-preview"])
def test_a_picture_is_signed_and_goes_back(model):
    drawn = reply(Say("Here:"), Picture(), model=model)

    assert all("thoughtSignature" in part for part in drawn)
    assert verdict(contents(said(*drawn), user("Larger")), model).refusal is None
    assert verdict(
        contents(said(with_(drawn, thoughtSignature=drawn[0]["thoughtSignature"])[1]), user("b")), model
    ).refusal


@pytest.mark.parametrize(
    "shown", ["And tomorrow?", blob("image/png"), {"fileData": {"fileUri": "https://example.org/a"}}]
)
def test_what_was_before_the_user_last_said_or_showed_something_needs_no_signature(shown):
    body = contents(said(*FOREIGN), user(result()), said("Rain."), user(shown))

    assert verdict(body).refusal is None
    assert verdict(contents(said(*FOREIGN), user(result(), shown))).refusal is None


def test_what_a_function_shows_begins_no_turn():
    body = contents(said(*FOREIGN), user(result(parts=[blob("image/png")])))

    assert verdict(body).refusal.rule == "GEM-SIG-01"


@pytest.mark.parametrize("budget", [0, 64, 512, -1])
@pytest.mark.parametrize("model", ["", THREE, NEW, "gemini-4-argon"])
def test_a_budget_alone_is_taken_by_newer_models(model, budget):
    assert verdict(thinking(thinkingBudget=budget), model).refusal is None


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no recorded traffic in {CORPUS}; set TENUTO_CORPUS to run it")
@pytest.mark.parametrize(
    "host, style, least", [("google", GEMINI, 200), ("vertex", VERTEX, 50)], ids=["google", "vertex"]
)
def test_what_the_provider_took_is_taken(host, style, least):
    """Every recorded request that was answered is accepted, but for signatures, which were given by somebody else."""
    order = [id for id in CHECKS if id not in ("GEM-SIG-02", "GEM-SIG-05")]
    taken, refused = 0, []
    for path in sorted((CORPUS / "gemini" / host).glob("*/request.json")):
        told = json.loads((path.parent / "exchange.json").read_bytes())
        if told["status"] == 200:
            found = judge(VOICE.open(ask(json.loads(path.read_bytes()), told["model"] or "", style)), CHECKS, order)
            taken += found.refusal is None
            refused += [(path.parent.name, found.refusal)] if found.refusal else []

    assert refused == []
    assert taken > least
