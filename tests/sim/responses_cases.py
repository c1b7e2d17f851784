"""For every rule of the Responses dialect, requests that break it and requests that keep it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sim.responses_help import AZURE, DEEPSEEK, OPENAI, XAI, Host, assistant, call, output, results, user, without
from tenuto.sim.asked import Style
from tenuto.sim.script import Call, Say, Search, Think

__all__ = ["BROKEN", "KEPT", "Case"]

SUMMARY = {"summary": "auto"}
THINK = (Think("Hm, let me see."), Call("weather", {"city": "Oslo"}))
SPOKEN = (Think("Hm, let me see."), Say("It rains."))
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


class Case(msgspec.Struct):
    """A request, as a body or as something that a host has to say first; and where and how it breaks its rule."""

    rule: str
    body: dict | Callable[[Host], dict]
    place: str = ""
    says: str = ""
    param: str | None = None
    style: Style = OPENAI
    model: str = ""

    def judged(self):
        """Judge it, by a host that has said what the request needs."""
        host = Host(self.style, self.model)
        body = self.body(host) if callable(self.body) else self.body
        return host.verdict(body)


def said(*steps, change=lambda items: items, store=False, more=(), **extra) -> Callable[[Host], dict]:
    """A request that brings back what the host said, changed."""

    def body(host: Host) -> dict:
        first = {"input": [user()], "reasoning": SUMMARY, "store": store}
        items = host.output(first, *steps)
        return {
            "input": [user(), *change(items), *results(items), *more],
            "reasoning": SUMMARY,
            "store": store,
            **extra,
        }

    return body


def body(*items, **more) -> dict:
    return {"input": [*items], **more}


def tools(*given, **more) -> dict:
    return {"input": "Hello", "tools": [*given], **more}


def tool(name="f", **more) -> dict:
    return {"type": "function", "name": name, "parameters": {}, **more}


def custom(id="call_1") -> dict:
    return {"type": "custom_tool_call", "call_id": id, "name": "sh", "input": "ls"}


def thought(**more) -> dict:
    return {"type": "reasoning", "summary": [], **more}


def alter(items, at=0, **more):
    return [item | more if place == at else item for place, item in enumerate(items)]


def bitten(items):
    """The blob with one letter changed in the middle."""
    blob = items[0]["encrypted_content"]
    half = len(blob) // 2
    return alter(items, encrypted_content=blob[:half] + ("A" if blob[half] != "A" else "B") + blob[half + 1 :])


def added(host: Host) -> dict:
    """A request with the blob of the event that opened the item."""
    first = {"input": [user()], "store": False}
    events = host.events(first, *SPOKEN)
    opening = next(one["item"] for one in events if one["type"] == "response.output_item.added")
    items = events[-1]["response"]["output"]
    return {"input": [user(), *alter(items, encrypted_content=opening["encrypted_content"]), user()]}


def elsewhere(style=OPENAI, account="mine", seed="seed"):
    """What another host, or this one for another key, has said."""

    def made(_: Host) -> dict:
        items = Host(style, account=account, seed=seed).output({"input": [user()]}, *SPOKEN)
        return {"input": [user(), without(items[0], "id"), without(items[1], "id"), user()]}

    return made


def go_on(*items, first=None, steps=SPOKEN, **more) -> Callable[[Host], dict]:
    """A request that goes on from a stored response."""

    def made(host: Host) -> dict:
        reply = host.reply({"input": [user()], **(first or {})}, *steps)
        new = [item(reply) if callable(item) else item for item in items]
        return {"input": new, "previous_response_id": reply["id"], **more}

    return made


def answered(reply):
    return output(reply["output"][-1]["call_id"])


def reference(at):
    """A request that refers to a stored item instead of sending it."""

    def made(host: Host) -> dict:
        items = host.output({"input": [user()]}, *SPOKEN)
        refer = [{"type": "item_reference", "id": item["id"]} for item in items]
        return {"input": [user(), *refer[at:], user()]}

    return made


def strange(_: Host) -> dict:
    """A reference to what another host stored."""
    (item,) = Host(seed="other").output({"input": [user()]}, "x")
    return {"input": [user(), {"type": "item_reference", "id": item["id"]}]}


def by_reference(host: Host) -> dict:
    """A call that is only referred to, with its output."""
    items = host.output({"input": [user()]}, *THINK)
    return {"input": [user(), *(_ref(item["id"]) for item in items), *results(items)]}


def _ref(id: str) -> dict:
    return {"type": "item_reference", "id": id}


LONG = "call_" + "x" * 60
FC = "of type 'function_call' was provided without its required 'reasoning' item: 'rs_"
SEAL = "could not be verified. Reason: Encrypted content could not be decrypted or parsed."
GONE = "not found. Items are not persisted when `store` is set to false."
JSON = {"text": {"format": {"type": "json_object"}}}
SPACE = {"type": "namespace", "name": "ns", "tools": [tool("weather")]}
TYPED = tool("weather", output_schema={"type": "object"})

BROKEN = [
    Case("OAR-PARAM-08", body(user()), "/model", "The requested model 'gpt-5.2-proo' does not exist.", "model", model="gpt-5.2-proo"),
    Case("OAR-PARAM-10", body(user(), messages=[]), "/messages", param="messages"),
    Case("OAR-PARAM-10", body(user(), response_format={}), "/response_format", style=AZURE),
    Case("OAR-PARAM-03", body(user(), temperature=-1), "/temperature", "Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -1 instead.", "temperature"),
    Case("OAR-PARAM-03", body(user(), top_p=-0.5), "/top_p", "Invalid 'top_p': decimal below minimum value. Expected a value >= 0, but got -0.5 instead."),
    Case("OAR-PARAM-02", body(user(), reasoning={"effort": "none"}), "/reasoning/effort", param="reasoning.effort", model="gpt-6.1-sol"),
    Case("OAR-PARAM-02", body(user(), reasoning={"effort": "minimal"}), "/reasoning/effort", model="gpt-5.6-luna"),
    Case("OAR-PARAM-01", body(user(), temperature=0.5), "/temperature", "Unsupported parameter: 'temperature' is not supported with this model.", "temperature", model="gpt-5"),
    Case("OAR-PARAM-01", body(user(), top_p=0.5), "/top_p", "Unsupported parameter: 'top_p' is not supported with this model.", "top_p", model="gpt-5.5"),
    Case("OAR-PARAM-01", body(user(), include=["message.output_text.logprobs"]), "/include", model="o3"),
    Case("OAR-REAS-12", body(user(), include=["reasoning.encrypted_content"]), "/include", model="gpt-4o"),
    Case("OAR-REAS-12", body(user(), reasoning={"effort": "low"}), "/reasoning/effort", model="gpt-4.1-mini"),
    Case("OAR-PARAM-04", body(user("Give me an object"), **JSON), "/text/format"),
    Case("OAR-PARAM-05", go_on(user(), conversation="conv_1"), "/previous_response_id"),
    Case("OAR-PARAM-06", body(user(), previous_response_id="resp_0"), "/previous_response_id", param="previous_response_id"),
    Case("OAR-PARAM-06", go_on(user(), first={"store": False}), "/previous_response_id"),
    Case("OAR-PARAM-06", body(user(), previous_response_id="x"), "/previous_response_id", style=XAI),
    Case("OAR-PARAM-11", go_on(user(), first={"instructions": "Be kind."}), "/instructions"),
    Case("OAR-PARAM-09", body(user("word " * 400_000)), "/input", "Your input exceeds the context window of this model. Please adjust your input and try again.", "input", model="gpt-5"),
    Case("OAR-TOOL-06", tools(*(tool(f"f{n}") for n in range(129))), "/tools", "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129 instead.", "tools"),
    Case("OAR-TOOL-04", tools(tool(), tool("what? no")), "/tools/1/name", param="tools[1].name"),
    Case("OAR-TOOL-04", tools(tool("x" * 65)), "/tools/0/name"),
    Case("OAR-TOOL-03", tools(tool(defer_loading=True)), "/tools/0/defer_loading", "Deferred tools require tools.tool_search"),
    Case("OAR-TOOL-05", tools(tool(strict=True, parameters={"type": "object", "properties": {}})), "/tools/0/parameters", "Invalid schema for function 'f': In context=(), 'additionalProperties' is required to be supplied and to be false.", "tools[0].parameters"),
    Case("OAR-TOOL-05", tools(tool(strict=True, parameters=CLOSED | {"required": []})), "/tools/0/parameters", "Invalid schema for function 'f': In context=(), 'required' is required to be supplied and to be an array including every key in properties. Missing 'a'."),
    Case("OAR-TOOL-05", tools(tool(strict=True, parameters=CLOSED | {"properties": {"a": {"anyOf": [{"type": "object"}]}}})), "/tools/0/parameters", "Invalid schema for function 'f': In context=('properties', 'a', 'anyOf', '0'), 'additionalProperties' is required to be supplied and to be false."),
    Case("OAR-TOOL-05", tools(tool(strict=True, parameters=CLOSED | {"properties": {"a": {"type": ["object", "null"]}}})), "/tools/0/parameters", "Invalid schema for function 'f': In context=('properties', 'a'), 'additionalProperties' is required to be supplied and to be false."),
    Case("OAR-TOOL-01", body(user(), call(), user()), "/input/1/call_id", "No tool output found for function call call_1.", "input"),
    Case("OAR-TOOL-01", go_on(user(), steps=THINK), "/previous_response_id"),
    Case("OAR-TOOL-01", body(user(), custom(), user()), "/input/1/call_id", style=AZURE),
    Case("OAR-TOOL-02", body(user(), output()), "/input/1/call_id", "No tool call found for function call output with call_id call_1.", "input"),
    Case("OAR-TOOL-02", body(user(), output(), call()), "/input/1/call_id", "No tool call found for function call output with call_id call_1."),
    Case("OAR-TOOL-02", by_reference, "/input/3/call_id"),
    Case("OAR-TOOL-07", body(user(), call(), output(text="warm"), tools=[TYPED]), "/input/2/output"),
    Case("OAR-TOOL-08", body(user(), custom(), output()), "/input/2/type"),
    Case("OAR-ITEM-01", body(user(), assistant(id="msg_1"), user(), assistant(id="msg_1")), "/input/3/id", "Duplicate item found with id msg_1. Remove duplicate items from your input and try again.", "input"),
    Case("OAR-ITEM-01", go_on(lambda reply: reply["output"][0], lambda reply: reply["output"][1], user()), "/input/0/id"),
    Case("OAR-ITEM-02", body(user(), call() | {"id": "toolu_1"}, output()), "/input/1/id", "Invalid 'input[1].id': 'toolu_1'. Expected an ID that begins with 'fc'.", "input[1].id"),
    Case("OAR-ITEM-02", body(user(), assistant(id="item_1")), "/input/1/id", "Invalid 'input[1].id': 'item_1'. Expected an ID that begins with 'msg'."),
    Case("OAR-ITEM-03", body(user(), call(LONG), output(LONG)), "/input/1/call_id", "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.", "input[1].call_id"),
    Case("OAR-ITEM-03", body(user(), assistant(id="msg_" + "a" * 70)), "/input/1/id", "Invalid 'input[1].id': string too long. Expected a string with maximum length 64, but got a string with length 74 instead.", "input[1].id"),
    Case("OAR-ITEM-04", body(user(), _ref("srvtoolu_1")), "/input/1/id", "Item with id 'srvtoolu_1' not found."),
    Case("OAR-ITEM-04", strange, "/input/1/id"),
    Case("OAR-ITEM-04", body(user(), {"type": "web_search_call", "id": "srvtoolu_1", "status": "completed"}), "/input/1/id"),
    Case("OAR-ITEM-05", body(user(), assistant() | {"content": [{"type": "input_text", "text": "x"}]}), "/input/1/content/0/type", param="input[1].content[0]"),
    Case("OAR-ITEM-05", body({"role": "user", "content": [{"type": "output_text", "text": "x"}]}), "/input/0/content/0/type"),
    Case("OAR-ITEM-06", body(user(), call(arguments={}), output()), "/input/1/arguments", param="input[1].arguments"),
    Case("OAR-ITEM-07", said(*SPOKEN, change=lambda items: [items[0], without(items[1], "phase")]), "/input/2/phase", model="gpt-5.6"),
    Case("OAR-ITEM-08", body(user(), call(), output(), tools=[SPACE]), "/input/1/namespace"),
    Case("OAR-ITEM-09", body(), "/input"),
    Case("OAR-ITEM-09", {"instructions": "x"}, "/input"),
    Case("OAR-ITEM-10", body({"type": "compaction_trigger"}, user()), "/input/0"),
    Case("OAR-ITEM-10", body(user(), {"type": "configuration_update"}), "/input/1", model="gpt-5.6"),
    Case("OAR-REAS-01", said(*THINK, change=lambda items: items[1:]), "/input/1/id", FC, "input"),
    Case("OAR-REAS-01", said(Think("a"), Think("b"), THINK[1], change=lambda items: items[1:]), "/input/1/id"),
    Case("OAR-REAS-01", said(Think("a"), Search("q"), Say("x"), change=lambda items: [items[1]]), "/input/1/id", style=AZURE),
    Case("OAR-REAS-02", said(*SPOKEN, change=lambda items: items[1:]), "/input/1/id", "of type 'message' was provided without its required 'reasoning' item: 'rs_", "input"),
    Case("OAR-REAS-03", said(*SPOKEN, change=lambda items: items[:1]), "/input/1", "of type 'reasoning' was provided without its required following item.", "input"),
    Case("OAR-REAS-03", said(*SPOKEN, change=lambda items: items[:1], more=[user()]), "/input/1", "of type 'reasoning' was provided without its required following item."),
    Case("OAR-REAS-03", said(*SPOKEN, change=lambda items: [items[0], user("?"), items[1]]), "/input/1"),
    Case("OAR-REAS-03", said(Think("a"), Think("b"), Say("c"), change=lambda items: [items[0], without(items[2], "id")]), "/input/1"),
    Case("OAR-REAS-04", said(*SPOKEN, change=lambda items: [without(items[0], "encrypted_content"), items[1]]), "/input/1/id", GONE, "input"),
    Case("OAR-REAS-04", body(user(), thought(id="rs_1"), assistant()), "/input/1/id", GONE),
    Case("OAR-REAS-04", said(*SPOKEN, change=lambda items: [_ref(items[0]["id"]), items[1]]), "/input/1/id", GONE),
    Case("OAR-REAS-04", said(*SPOKEN, change=lambda items: [without(items[0], "encrypted_content"), items[1]]), "/input/1/id", style=XAI),
    Case("OAR-REAS-05", said(*SPOKEN, change=bitten), "/input/1/encrypted_content", SEAL),
    Case("OAR-REAS-05", said(*SPOKEN, change=lambda items: alter(items, encrypted_content=items[0]["encrypted_content"][:-4])), "/input/1/encrypted_content", SEAL),
    Case("OAR-REAS-05", body(user(), {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAA"}, user()), "/input/1/encrypted_content", "The encrypted content for item cmp_1 could not be verified."),
    Case("OAR-REAS-05", said(*SPOKEN, change=lambda items: [{"type": "compaction", "encrypted_content": items[0]["encrypted_content"]}], more=[user()]), "/input/1/encrypted_content"),
    Case("OAR-REAS-05", elsewhere(account="yours"), "/input/1/encrypted_content", "The encrypted content gAAA..."),
    Case("OAR-REAS-05", elsewhere(style=AZURE), "/input/1/encrypted_content"),
    Case("OAR-REAS-05", elsewhere(seed="other"), "/input/1/encrypted_content", style=AZURE),
    Case("OAR-REAS-06", said(*SPOKEN, change=lambda items: [without(items[0], "summary"), items[1]]), "/input/1/summary", "Missing required parameter: 'input[1].summary'.", "input[1].summary"),
    Case("OAR-REAS-07", said(*SPOKEN, change=lambda items: alter(items, status="completed")), "/input/1/status", "Unknown parameter: 'input[1].status'.", "input[1].status"),
    Case("OAR-REAS-08", said(*SPOKEN, change=lambda items: alter(items, id="")), "/input/1/id", "Invalid 'input[1].id': ''. Expected an ID that contains letters, numbers, underscores, or dashes, but this value contained additional characters."),
    Case("OAR-REAS-09", said(*SPOKEN, change=lambda items: [without(item, "id") for item in items]), "/input/1"),
    Case("OAR-REAS-10", added, "/input/1/encrypted_content"),
    Case("OAR-REAS-11", said(*SPOKEN, more=[user()]), "/input/1", model="gpt-5"),
    Case("OAR-XAI-01", said(*SPOKEN, change=bitten), "/input/1/encrypted_content", "Could not decrypt the provided encrypted_content. Ensure the value is the unmodified encrypted_content from a previous response.", style=XAI),
    Case("OAR-XAI-02", said(*SPOKEN, change=lambda items: alter(items, content=None)), "/input/1", "Could not decode the compaction blob. Ensure it is unmodified from the compact response.", style=XAI),
    Case("OAR-XAI-02", said(*SPOKEN, change=lambda items: [without(items[0], "summary"), items[1]]), "/input/1", style=XAI),
    Case("OAR-DS-01", body(user(), call(), assistant(), output()), "/input/1", style=DEEPSEEK),
]  # fmt: skip

KEPT = [
    Case("OAR-PARAM-08", body(user()), model="gpt-5.2-2025-12-11"),
    Case("OAR-PARAM-10", body(user(), prompt_cache_key="x", service_tier="flex")),
    Case("OAR-PARAM-03", body(user(), temperature=0, top_p=1)),
    Case("OAR-PARAM-02", body(user(), reasoning={"effort": "none"}), model="gpt-5.4"),
    Case("OAR-PARAM-01", body(user(), temperature=0.5, reasoning={"effort": "none"}), model="gpt-5.5"),
    Case("OAR-PARAM-01", body(user(), temperature=0.5), model="gpt-5.4"),
    Case("OAR-REAS-12", body(user(), reasoning={"effort": "low"}), model="o3"),
    *(Case("OAR-REAS-12", body(user(), reasoning={"summary": "concise"}, include=["reasoning.encrypted_content"]), model=model) for model in ("computer-use-preview", "codex-mini-latest", "computer-use-preview-2025-03-11")),
    Case("OAR-PARAM-04", body(user("Give me JSON"), **JSON)),
    Case("OAR-PARAM-05", body(user(), conversation="conv_1")),
    Case("OAR-PARAM-06", go_on(user())),
    Case("OAR-PARAM-11", go_on(user(), first={"instructions": "Be kind."}, instructions="Be kind.")),
    Case("OAR-PARAM-09", body(user("word " * 250_000)), model="gpt-5"),
    Case("OAR-PARAM-09", body(user("word " * 400_000), truncation="auto"), model="gpt-5"),
    Case("OAR-TOOL-06", tools(*(tool(f"f{n}") for n in range(128)))),
    Case("OAR-TOOL-04", tools(tool("a-b_C9"), tool("x" * 64))),
    Case("OAR-TOOL-03", tools(tool(defer_loading=True), {"type": "tool_search"})),
    Case("OAR-TOOL-05", tools(tool(strict=True, parameters=CLOSED))),
    Case("OAR-TOOL-01", body(user(), call(), output())),
    Case("OAR-TOOL-01", body(user(), call(), call("call_2", **{"async": True}), output())),
    Case("OAR-TOOL-02", go_on(answered, steps=THINK)),
    Case("OAR-TOOL-02", body(user(), call("a"), call("b"), output("b"), output("a"))),
    Case("OAR-TOOL-07", body(user(), call(), output(text="{}"), tools=[TYPED])),
    Case("OAR-TOOL-08", body(user(), custom(), output(type="custom_tool_call_output"))),
    Case("OAR-ITEM-01", body(user(), assistant(id="msg_1"), assistant(id="msg_2"))),
    Case("OAR-ITEM-02", said(*THINK)),
    Case("OAR-ITEM-03", body(user(), call("x" * 64), output("x" * 64))),
    Case("OAR-ITEM-04", reference(0)),
    Case("OAR-ITEM-05", body(user(), assistant(), {"role": "developer", "content": [{"type": "input_text", "text": "x"}]})),
    Case("OAR-ITEM-06", body(user(), call(arguments="not json"), output())),
    Case("OAR-ITEM-07", said(*SPOKEN), model="gpt-5.6"),
    Case("OAR-ITEM-08", body(user(), call(namespace="ns"), output(), tools=[SPACE])),
    Case("OAR-ITEM-09", go_on()),
    Case("OAR-ITEM-10", body(user(), {"type": "compaction_trigger"})),
    Case("OAR-ITEM-10", body({"type": "configuration_update"}, user()), model="gpt-6-sol"),
    Case("OAR-REAS-01", said(*THINK)),
    Case("OAR-REAS-01", said(Think("a"), Think("b"), Say("c"), THINK[1], THINK[1])),
    Case("OAR-REAS-01", said(*THINK, change=lambda items: [without(items[0], "id"), items[1]])),
    Case("OAR-REAS-02", said(*SPOKEN, more=[user()])),
    Case("OAR-REAS-03", said(*SPOKEN, change=lambda items: [items[0], without(items[1], "id")])),
    Case("OAR-REAS-03", said(Think("a"), Think("b"), *SPOKEN)),
    Case("OAR-REAS-04", said(*SPOKEN, store=True, change=lambda items: [without(items[0], "encrypted_content"), items[1]])),
    Case("OAR-REAS-05", said(*SPOKEN, change=lambda items: [without(item, "id") for item in items])),
    Case("OAR-REAS-05", said(Think(""), Say("x"), change=lambda items: alter(items, summary=[{"type": "summary_text", "text": ""}]))),
    Case("OAR-REAS-05", said(*SPOKEN, change=lambda items: alter(items, summary=[]))),
    Case("OAR-REAS-05", said(Think("a\n\n**b**"), Say("x"), change=lambda items: alter(items, summary=[{"type": "summary_text", "text": "a\n**b**"}]))),
    Case("OAR-REAS-06", said(*SPOKEN)),
    Case("OAR-REAS-07", said(*SPOKEN)),
    Case("OAR-REAS-08", said(*SPOKEN)),
    Case("OAR-REAS-09", said(*SPOKEN)),
    Case("OAR-REAS-10", said(*SPOKEN)),
    Case("OAR-REAS-11", said(*SPOKEN, more=[user()]), model="gpt-5.6"),
    Case("OAR-REAS-11", said(*THINK), model="gpt-5"),
    Case("OAR-XAI-01", said(*SPOKEN), style=XAI),
    Case("OAR-XAI-02", said(*SPOKEN), style=XAI),
    Case("OAR-DS-01", body(user(), assistant(), call(), call("b"), output(), output("b")), style=DEEPSEEK),
]  # fmt: skip
