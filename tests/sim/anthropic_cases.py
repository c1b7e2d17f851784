"""For each rule of the dialect: a request that breaks it, and one that keeps it."""

from __future__ import annotations

import base64
import copy
import struct
from collections.abc import Callable
from typing import Any

import msgspec

from sim.anthropic_talk import BOUND, OPEN, WEATHER, ask, blocks, go_on, reply, tell, user
from tenuto.sim.script import Call, Cite, Found, Pause, RunCode, Say, Search, Think

__all__ = ["CASES", "Case"]

Body = dict[str, Any]
ADAPTIVE = {"thinking": {"type": "adaptive", "display": "summarized"}}
BINDING = "thinking-binding-controls-2026-08-01"
CALL = (Think("What about Oslo?"), Call("weather", {"city": "Oslo"}))
TWO = (Think("First."), Say("Let me look."), Think("Second."), Call("weather", {"city": "Oslo"}))
SAY = (Think("I know."), Say("It rains."))
TEXT = {"type": "text", "text": "Hello"}
USE = {"type": "tool_use", "id": "a", "name": "weather", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "rain"}
SEARCHED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
NOTHING = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
MARK = {"cache_control": {"type": "ephemeral"}}


class Case(msgspec.Struct, kw_only=True):
    """A rule, a body that breaks it and one that keeps it; the place, and the provider's words where they are known."""

    rule: str
    breaks: Callable[[], Body]
    keeps: Callable[[], Body]
    at: str
    says: str = ""
    model: str = ""
    more: dict[str, Any] = {}
    keeps_model: str | None = None
    keeps_more: dict[str, Any] | None = None


CASES: list[Case] = []


def case(rule: str, at: str, breaks: Any, keeps: Any, says: str = "", **rest: Any) -> None:
    """Enter a case. A body stands for itself."""
    made = [given if callable(given) else (lambda given=given: copy.deepcopy(given)) for given in (breaks, keeps)]
    CASES.append(Case(rule=rule, at=at, breaks=made[0], keeps=made[1], says=says, **rest))


def base(bound: bool = False) -> Body:
    return ask(**ADAPTIVE) if not bound else ask(**ADAPTIVE, system="Be brief.")


def altered(change: Callable[[Body], Any], *turns: Any, bound: bool = False, **more: Any) -> Callable[[], Body]:
    """Play turns, send them back, and tamper with what is sent."""

    def make() -> Body:
        body = go_on(base(bound), *(turns or (CALL,)), model=BOUND if bound else OPEN, **more)
        change(body)
        return body

    return make


def whole(*turns: Any, bound: bool = False, **more: Any) -> Callable[[], Body]:
    return altered(lambda _: None, *turns, bound=bound, **more)


def history(*messages: Body, **settings: Any) -> Body:
    return ask(user("Hi"), *messages, **settings)


def replaced(at: int, key: str, value: Any, message: int = 1) -> Callable[[Body], Any]:
    return lambda body: blocks(body, message)[at].__setitem__(key, value)


def without(at: int, key: str) -> Callable[[Body], Any]:
    return lambda body: blocks(body)[at].pop(key)


def swapped(first: int, second: int) -> Callable[[Body], Any]:
    def change(body: Body) -> None:
        held = blocks(body)
        held[first], held[second] = held[second], held[first]

    return change


def joined(body: Body) -> None:
    """Make one thought of two, under the first one's signature."""
    held = blocks(body)
    held[0]["thinking"] += held.pop(1)["thinking"]


def joined_last(body: Body) -> None:
    """Make one thought of two, under the last one's signature."""
    first, second = blocks(body)[:2]
    second["thinking"] = first["thinking"] + second["thinking"]
    blocks(body).pop(0)


def picture(width: int, height: int = 10, kind: str = "image/png", weight: int = 0) -> Body:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0"
    data = base64.b64encode(head + b"\0" * weight).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def tools(**changes: Any) -> Body:
    return ask(tools=[{**WEATHER, **changes}])


def schema(**parts: Any) -> Body:
    return {"type": "object", "properties": {"city": {"type": "string"}}, **parts}


def thinking(**setting: Any) -> Body:
    return {"thinking": setting}


BUDGET = {"type": "enabled", "budget_tokens": 2000}
INVALID = "messages.1.content.0: Invalid `signature` in `thinking` block"
MODIFIED = (
    "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)


# A table reads best in lines.
# fmt: off

# Reasoning

case("ANT-THINK-01", "/messages/1/content/0/signature", altered(without(0, "signature")), whole(),
     "messages.1.content.0.thinking.signature: Field required")
case("ANT-THINK-02", "/messages/1/content/0/signature", altered(replaced(0, "signature", "")), whole(), INVALID)
case("ANT-THINK-02", "/messages/1/content/0/signature", altered(replaced(0, "thinking", "Other."), SAY, SAY), whole(SAY, SAY), INVALID, model=OPEN)
case("ANT-THINK-02", "/messages/1/content/0/signature", whole(), whole(), INVALID, model=OPEN, more={"account": "you"}, keeps_more={})
case("ANT-THINK-03", "/messages/1/content/0/thinking", altered(without(0, "thinking")), whole(),
     "messages.1.content.0.thinking.thinking: Field required")
case("ANT-THINK-04", "/messages/1/content/0", altered(replaced(0, "thinking", "Other.")), whole(), MODIFIED)
case("ANT-THINK-04", "/messages/1/content/1", altered(swapped(0, 1), TWO), whole(TWO), MODIFIED.replace("0:", "1:"))
case("ANT-THINK-04", "/messages/1/content/2", altered(replaced(1, "text", "Else."), TWO), whole(TWO), MODIFIED.replace("0:", "2:"))
case("ANT-THINK-04", "/messages/1/content/1", altered(lambda body: blocks(body).pop(0), TWO), whole(TWO), MODIFIED.replace("0:", "1:"))
case("ANT-THINK-05", "/messages/1/content/0", history(tell(TEXT, USE), user(RESULT), thinking=BUDGET),
     lambda: go_on(ask(thinking=BUDGET), CALL, (Call("weather"),), model=OPEN),
     "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking` is enabled, a final "
     "`assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We "
     "recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`. Please consult our "
     "documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking", model=OPEN)
case("ANT-THINK-06", "/messages/1/content/0",
     altered(lambda body: (body["messages"].pop(), body.update(thinking={"type": "disabled"})), (Think("Hm."), Pause())),
     altered(lambda body: body["messages"].pop(), (Pause(),)),
     "messages.1.content.0: When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`. "
     "To use thinking blocks, enable `thinking` in your request.", keeps_more={}, model=OPEN)
CASES[-1].keeps = lambda: {**altered(lambda body: body["messages"].pop(), (Pause(),))(), "thinking": {"type": "disabled"}}
case("ANT-THINK-07", "/messages/1/content/1", altered(lambda body: blocks(body).append({**blocks(body)[0]})), whole(),
     "messages.1: The final block in an assistant message cannot be `thinking`.")
CASES[-1].breaks = altered(lambda body: blocks(body).append({**blocks(body).pop(0)}), SAY)
for change in (
    lambda body: body.update(system="Be long."),
    lambda body: body.update(tools=[{**WEATHER, "description": "The weather"}]),
    lambda body: body["messages"][0].update(content="Wetter?"),
):
    case("ANT-THINK-08", "/messages/1/content/0", altered(change, bound=True), whole(bound=True), model=BOUND)
case("ANT-THINK-08", "/messages/3/content/0", altered(lambda body: blocks(body).pop(0), CALL, CALL, bound=True),
     altered(lambda body: body["messages"][0].update(content=[{"type": "text", "text": "Weather?", **MARK}]), CALL, CALL, bound=True),
     model=BOUND)
case("ANT-THINK-09", "/messages/1/content/1", altered(lambda body: blocks(body).pop(0), TWO, bound=True), whole(TWO, bound=True), model=BOUND)
case("ANT-THINK-08", "/messages/1/content/2", altered(replaced(1, "text", "Else."), TWO, SAY, bound=True), whole(TWO, SAY, bound=True), model=BOUND)
case("ANT-THINK-10", "/messages/1/content/0", lambda: go_on(ask(), SAY, model="claude-opus-5"), lambda: go_on(ask(), SAY, model="claude-haiku-5-5"), model="claude-haiku-5-5")
case("ANT-THINK-10", "/messages/1/content/0", lambda: go_on(base(bound=True), CALL, model="claude-fable-5-1"), whole(bound=True), model=BOUND)
case("ANT-THINK-11", "/messages/1/content/0", whole(bound=True), whole(bound=True), model=BOUND, more={"account": "you"}, keeps_more={})
DROPPING = {"thinking": {**ADAPTIVE["thinking"], "block_binding": {"prefix_mismatch_behavior": "drop_block"}}}
case("ANT-THINK-12", "/messages/1/content/0", altered(lambda body: body.update(DROPPING, system="Else."), bound=True),
     altered(lambda body: body.update(DROPPING), bound=True), model=BOUND, more={"betas": BINDING})
case("ANT-THINK-12", "/messages/1/content/1", altered(lambda body: (body.update(DROPPING), blocks(body).pop(0)), TWO, bound=True),
     altered(lambda body: body.update(DROPPING), TWO, bound=True), model=BOUND, more={"betas": BINDING})
case("ANT-THINK-13", "/messages/1/content/0", whole(style="bedrock"), whole(), INVALID, model=OPEN)
HIDDEN = (Think("Secret.", redacted=True), Say("It rains."))
case("ANT-THINK-14", "/messages/1/content/0/data", altered(without(0, "data"), HIDDEN), whole(HIDDEN))
case("ANT-THINK-14", "/messages/1/content/0/data", altered(lambda body: blocks(body)[0].update(data=blocks(body)[0]["data"][4:]), HIDDEN), whole(HIDDEN))
DISGUISED = altered(lambda body: blocks(body).insert(0, {"type": "thinking", "thinking": "", "signature": blocks(body).pop(0)["data"]}), HIDDEN)
case("ANT-THINK-02", "/messages/1/content/0/signature", DISGUISED, whole(SAY), INVALID)
case("ANT-THINK-15", "/messages/1", altered(lambda body: blocks(body).pop(0)), whole())
DOUBLE = (Think("First."), Think("Second."), Say("It rains."))
case("ANT-THINK-16", "/messages/1/content/0", altered(joined, DOUBLE, SAY), whole(DOUBLE, SAY), INVALID, model=OPEN)
case("ANT-THINK-16", "/messages/1/content/0",
     altered(lambda body: (blocks(body).insert(0, {**blocks(body)[0], "thinking": "I "}), blocks(body)[1].update(thinking="know.")), SAY, SAY),
     whole(DOUBLE, SAY), INVALID, model=OPEN)
case("ANT-THINK-16", "/messages/1/content/0", altered(joined_last, DOUBLE, SAY), whole(DOUBLE, SAY), INVALID, model=OPEN)
case("ANT-THINK-17", "/messages/1/content/0", history(tell({"type": "text", "text": "<thinking>hm</thinking>Hi"}), user("x")),
     history(tell(TEXT), user("x")))
case("ANT-THINK-18", "/messages/1/content/0/cache_control", altered(replaced(0, "cache_control", MARK["cache_control"])), whole())
case("ANT-THINK-19", "/messages/1/content", history(tell(TEXT), user("x")),
     history(tell({"type": "thinking", "thinking": ""}, TEXT), user("x")),
     "The `content[].thinking` in the thinking mode must be passed back to the API.", model="deepseek-v4-pro", more={"style": "deepseek"})

# Settings

for name in ("temperature", "top_p", "top_k"):
    case("ANT-PARAM-01", f"/{name}", ask(**{name: 1}), ask(**{name: 1}), f"`{name}` is deprecated for this model.", model="claude-opus-4-7", keeps_model=OPEN)
case("ANT-PARAM-02", "/top_p", ask(temperature=1, top_p=1), ask(top_p=1),
     "`temperature` and `top_p` cannot both be specified for this model. Please use only one.", model="claude-haiku-4-5")
case("ANT-PARAM-03", "/temperature", ask(thinking=BUDGET, temperature=0.5), ask(thinking=BUDGET, temperature=1), model=OPEN)
case("ANT-PARAM-04", "/thinking/type", ask(thinking=BUDGET), ask(thinking=BUDGET),
     '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
     model="claude-sonnet-5", keeps_model="claude-sonnet-4-5")
case("ANT-PARAM-05", "/thinking/type", ask(thinking={"type": "disabled"}), ask(thinking={"type": "disabled"}),
     '"thinking.type.disabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
     model="claude-fable-5", keeps_model="claude-opus-5")
case("ANT-PARAM-06", "/thinking/type", ask(thinking={"type": "disabled"}, output_config={"effort": "max"}),
     ask(thinking={"type": "disabled"}, output_config={"effort": "high"}), model="claude-opus-5")
case("ANT-PARAM-06", "/thinking/type", ask(thinking={"type": "between_tools"}, output_config={"effort": "xhigh"}),
     ask(thinking={"type": "between_tools"}, output_config={"effort": "high"}), model="claude-sonnet-5-5")
case("ANT-PARAM-07", "/thinking/type", ask(thinking={"type": "adaptive"}), ask(thinking={"type": "adaptive"}), model="claude-opus-4-5", keeps_model=OPEN)
case("ANT-PARAM-07", "/thinking/type", ask(thinking={"type": "between_tools"}), ask(thinking={"type": "between_tools"}), model=BOUND, keeps_model="claude-sonnet-5-5")
case("ANT-PARAM-08", "/thinking/budget_tokens", ask(thinking={**BUDGET, "budget_tokens": 1023}), ask(thinking={**BUDGET, "budget_tokens": 1024}),
     "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
case("ANT-PARAM-09", "/max_tokens", ask(thinking=BUDGET, max_tokens=2000), ask(thinking=BUDGET, max_tokens=2001))
FORCED = {"tool_choice": {"type": "any"}}
case("ANT-PARAM-10", "/tool_choice", ask(thinking=BUDGET, **FORCED), ask(thinking=BUDGET, tool_choice={"type": "auto"}),
     "Thinking may not be enabled when tool_choice forces tool use.", model=OPEN)
case("ANT-PARAM-11", "/tool_choice/type", ask(**FORCED), ask(**FORCED),
     'tool_choice: type "tool" and "any" are not supported for this model.', model=BOUND, keeps_model="claude-fable-5")
case("ANT-PARAM-12", "/max_tokens", ask(max_tokens=None), ask(max_tokens=0))
case("ANT-PARAM-13", "/frequency_penalty", ask(frequency_penalty=1), ask(metadata={"user_id": "x"}, service_tier="auto", container="c", top_k=3))
case("ANT-PARAM-13", "/context_management", ask(context_management={"edits": []}), ask(context_management={"edits": []}),
     keeps_more={"betas": "x, context-management-2025-06-27"})
case("ANT-PARAM-13", "/thinking/block_binding", ask(**DROPPING), ask(**DROPPING), keeps_more={"betas": BINDING})
UPDATES = {"type": "adaptive", "display": "updates"}
case("ANT-PARAM-13", "/thinking/display/updates", ask(thinking=UPDATES), ask(thinking=UPDATES, anthropic_beta=["thinking-display-updates-2026-08-18"]))
case("ANT-PARAM-14", "/output_config/effort", ask(output_config={"effort": "max"}), ask(output_config={"effort": "high"}), model="claude-opus-4-5")
case("ANT-PARAM-15", "/model", ask(), ask(), "model: gpt-9", model="gpt-9", keeps_model="claude-opus-5")
case("ANT-PARAM-17", "/speed", ask(speed="fast"), ask(speed="fast"), model="claude-opus-4-7", keeps_model="claude-opus-4-8")

# Tools

case("ANT-TOOL-01", "/messages/1/content/0/id", history(tell(USE, {**USE, "id": "b"}), user("No.")), history(tell(USE), user(RESULT, TEXT)),
     "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a, b. Each `tool_use` block must have a "
     "corresponding `tool_result` block in the next message.")
case("ANT-TOOL-01", "/messages/1/content/0/id", history(tell(USE)),
     history(tell(USE), tell({**USE, "id": "b"}), user(RESULT), user({**RESULT, "tool_use_id": "b"})),
     "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a. Each `tool_use` block must have a "
     "corresponding `tool_result` block in the next message.")
case("ANT-TOOL-02", "/messages/1/content/0/tool_use_id", ask(user("Hi"), user(RESULT)), history(tell(USE), user(RESULT)),
     "messages.1.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a. Each `tool_result` block must have a "
     "corresponding `tool_use` block in the previous message.")
case("ANT-TOOL-03", "/messages/1/content/1/id", history(tell(USE, USE), user(RESULT)), history(tell(USE), user(RESULT), tell(USE), user(RESULT)),
     "messages.1.content.1: `tool_use` ids must be unique")
case("ANT-TOOL-04", "/messages/2/content/1", history(tell(USE), user(RESULT, RESULT)), history(tell(USE), user(RESULT)))
case("ANT-TOOL-05", "/messages/1/content/0/id", history(tell({**USE, "id": "functions.a:0"}), user({**RESULT, "tool_use_id": "functions.a:0"})),
     history(tell(USE), user(RESULT)), "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
case("ANT-TOOL-05", "/messages/2/content/0/tool_use_id", history(tell(USE), user({**RESULT, "tool_use_id": ""})),
     history(tell(USE), user(RESULT)), "messages.2.content.0.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'")
case("ANT-TOOL-06", "/messages/2/content/0", history(tell(USE), user(TEXT, RESULT)), history(tell(USE), user(RESULT, TEXT)),
     "messages.2: Did not find 1 `tool_result` block(s) at the beginning of this message. Messages following `tool_use` blocks must "
     "begin with a matching number of `tool_result` blocks.")
case("ANT-TOOL-07", "/tools/0/name", tools(name="my tool"), tools(name="x" * 128))
case("ANT-TOOL-07", "/tools/0/name", tools(name="x" * 129), tools())
case("ANT-TOOL-08", "/tools/1/name", ask(tools=[WEATHER, WEATHER]), ask(tools=[WEATHER, {**WEATHER, "name": "b"}]), "tools: Tool names must be unique.")
case("ANT-TOOL-09", "/tools/0/input_schema", tools(input_schema=schema(anyOf=[])), tools(input_schema=schema(properties={"a": {"anyOf": []}})),
     "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level")
case("ANT-TOOL-10", "/tools/0/input_schema", tools(input_schema={"properties": {}}), tools(input_schema={"type": "object"}))
case("ANT-TOOL-10", "/tools/0/input_schema", tools(input_schema={"type": "object", "required": "city"}), tools())
LIMITED = schema(properties={"a": {"type": "array", "items": {"type": "string"}, "maxItems": 3}})
case("ANT-TOOL-11", "/tools/0/input_schema", tools(strict=True, input_schema=LIMITED), tools(strict=True),
     "tools.0.custom: For 'array' type, property 'maxItems' is not supported")
NULLABLE = schema(properties={"a": {"oneOf": [{"type": ["null", "string"], "minLength": 3}]}})
case("ANT-TOOL-11", "/tools/0/input_schema", tools(strict=True, input_schema=NULLABLE), tools(input_schema=NULLABLE, strict=False),
     "tools.0.custom: For 'string' type, property 'minLength' is not supported")
CASES[-1].keeps = lambda: tools(strict=True, input_schema=schema(properties={"a": {"type": ["null", "string"]}}))
case("ANT-TOOL-12", "/messages/1/content/0/input", history(tell({**USE, "input": '{"city"'}), user(RESULT)), history(tell(USE), user(RESULT)))
case("ANT-TOOL-13", "/messages/2/content/0/content", history(tell(USE), user({**RESULT, "content": []})), history(tell(USE), user({**RESULT, "content": ""})))
case("ANT-TOOL-14", "/tools", history(tell(USE), user(RESULT), tools=None), history(tell(USE), user(RESULT)))
case("ANT-TOOL-15", "/tool_choice/name", ask(tool_choice={"type": "tool", "name": "x"}), ask(tool_choice={"type": "tool", "name": "weather"}))
LOOKED = {**SEARCHED, "name": "tool_search_tool_regex"}
def listed(name: str) -> Body:
    """Find a tool, as the provider's own search for tools does."""
    found = {"type": "tool_search_tool_search_result", "tool_references": [{"type": "tool_reference", "tool_name": name}]}
    return history(tell(LOOKED, {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found}), user("x"))
case("ANT-TOOL-15", "/messages/1/content/1", listed("gone"), listed("weather"))
case("ANT-TOOL-16", "/tools/0/cache_control", tools(defer_loading=True, **MARK), tools(defer_loading=True))
case("ANT-TOOL-17", "/tools/0/type", ask(tools=[{"type": "computer_20251124", "name": "computer"}]),
     ask(tools=[{"type": "computer_toolset_20260801"}]), model=BOUND)
case("ANT-TOOL-18", "/messages/1/content/1/caller", altered(without(1, "caller")), whole())

# Messages

case("ANT-MSG-01", "/messages/0/content/0/text", ask(user({**TEXT, "text": ""})), ask(), "messages: text content blocks must be non-empty")
case("ANT-MSG-01", "/messages/2/content/0/content/0/text", history(tell(USE), user({**RESULT, "content": [{**TEXT, "text": ""}]})), ask(),
     "messages: text content blocks must be non-empty")
case("ANT-MSG-01", "/system/0/text", ask(system=[{**TEXT, "text": ""}]), ask(system=[TEXT]), "system: text content blocks must be non-empty")
case("ANT-MSG-02", "/messages/0/content", ask(user(" \n")), history(tell({**TEXT, "text": " "}, USE), user(RESULT)),
     "messages: text content blocks must contain non-whitespace text")
case("ANT-MSG-03", "/messages/1/content", history(tell(""), user("x")), history(tell("")),
     "messages.1: all messages must have non-empty content except for the optional final assistant message")
case("ANT-MSG-04", "/messages/1/role", history(tell(TEXT)), history(tell(SEARCHED)),
     "This model does not support assistant message prefill. The conversation must end with a user message.", model="claude-opus-4-6", keeps_model="")
CASES[-1].keeps = lambda: history(tell(TEXT))
case("ANT-MSG-04", "/messages/1/role", history(tell(SEARCHED, NOTHING, TEXT)), history(tell(SEARCHED, NOTHING, TEXT), user("x")),
     "This model does not support assistant message prefill. The conversation must end with a user message.", model="claude-opus-4-8")
case("ANT-MSG-05", "/messages/1/content", history(tell("Hello ")), history(tell("Hello")), model="claude-haiku-4-5")
case("ANT-MSG-05", "/messages/1/content", history(tell("Hello"), thinking=BUDGET), history(tell("Hello")), model="claude-haiku-4-5")
case("ANT-MSG-06", "/messages/0/role", ask(tell("Hi"), user("Hi")), ask())
case("ANT-MSG-06", "/messages/0/role", ask(tell(TEXT, {"type": "compaction", "content": "x"}), user("Hi")), ask(tell({"type": "compaction", "content": "x"}), user("Hi")))
case("ANT-MSG-07", "/messages/1/role", history(user("x")), history(tell("x"), user("y")))
SYSTEM = {"role": "system", "content": "Be brief."}
case("ANT-MSG-08", "/messages/1/role", history(SYSTEM), history(SYSTEM), "role 'system' is not supported on this model",
     model="claude-opus-4-7", keeps_model="claude-opus-4-8")
case("ANT-MSG-08", "/messages/1/role", history(SYSTEM), history(SYSTEM), "role 'system' is not supported on this model",
     model="claude-sonnet-4-6", keeps_model="claude-sonnet-5")
case("ANT-MSG-09", "/messages/0", ask(SYSTEM, user("Hi")), history(SYSTEM, SYSTEM, tell("x"), user("y")), model="claude-opus-5")
case("ANT-MSG-09", "/messages/2", history(tell("x"), SYSTEM), history(SYSTEM), model="claude-opus-5")
case("ANT-MSG-10", "/messages", lambda: ask(user("word " * 200_000)), ask(), "prompt is too long: 250024 tokens > 200000 maximum", model="claude-haiku-4-5")
case("ANT-MSG-11", "/messages/0/content/0", ask(user({"type": "input_text", "text": "x"})), ask(user(TEXT)))
case("ANT-MSG-11", "/messages/0/content/0", ask(user({**TEXT, "id": "x"})), ask(user({**TEXT, **MARK, "citations": None})))
case("ANT-MSG-11", "/messages/2/content/0/content/1", history(tell(USE), user({**RESULT, "content": [TEXT, {"type": "input_text", "text": "x"}]})),
     history(tell(USE), user({**RESULT, "content": [TEXT, picture(10), {"type": "tool_reference", "tool_name": "weather"}]})))
case("ANT-MSG-11", "/messages/2/content/0/content/0", history(tell(USE), user({**RESULT, "content": [{**TEXT, "id": "x"}]})), history(tell(USE), user({**RESULT, "content": [{**TEXT, **MARK}]})))
case("ANT-MSG-11", "/messages/2/content/0/content/0", history(tell(USE), user({**RESULT, "content": [USE]})), ask())
case("ANT-MSG-12", "/", ask(), ask(), more={"headers": {"content-length": str(32 * 1024 * 1024 + 1)}}, keeps_more={})
case("ANT-CACHE-01", "/", ask(user(*[{**TEXT, **MARK}] * 4), **MARK), ask(user(*[{**TEXT, **MARK}] * 4)),
     "A maximum of 4 blocks with cache_control may be provided. Found 5.")
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
case("ANT-CACHE-02", "/messages/0/content/1/cache_control/ttl", ask(user({**TEXT, **MARK}, {**TEXT, **HOUR})), ask(user({**TEXT, **HOUR}, {**TEXT, **MARK})),
     "messages.0.content.1.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
     "Note that blocks are processed in the following order: tools, system, messages.")
case("ANT-CACHE-01", "/", history(tell(USE), user({**RESULT, "content": [{**TEXT, **MARK}] * 3}), system=[{**TEXT, **MARK}], tools=[{**WEATHER, **MARK}]),
     history(tell(USE), user({**RESULT, "content": [{**TEXT, **MARK}] * 2}), system=[{**TEXT, **MARK}], tools=[{**WEATHER, **MARK}]),
     "A maximum of 4 blocks with cache_control may be provided. Found 5.")
case("ANT-CACHE-03", "/messages/0/content/0", ask(user({**TEXT, **MARK, "text": ""})), ask(user({**TEXT, **MARK})))
LARGE = "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size"
case("ANT-MEDIA-01", "/messages/0/content/0/source", ask(user(picture(8001))), ask(user(picture(8000))), f"{LARGE}: 8000 pixels")
case("ANT-MEDIA-02", "/messages/0/content/0/source", ask(user(*[picture(2001)] * 21)), ask(user(*[picture(2000)] * 21)),
     f"{LARGE} for many-image requests: 2000 pixels")
case("ANT-MEDIA-01", "/messages/2/content/0/content/0/source", history(tell(USE), user({**RESULT, "content": [picture(8001)]})),
     ask(user({**picture(8001), "transformations": {"oversized_image": "downsize"}})), f"{LARGE}: 8000 pixels".replace("messages.0", "messages.2"))
case("ANT-MEDIA-03", "/messages/0/content/0/source", lambda: ask(user(picture(10, weight=5 * 1024 * 1024))), ask(user(picture(10))))
case("ANT-MEDIA-04", "/messages/0/content/0/source/media_type", ask(user(picture(10, kind="image/jpeg"))), ask(user(picture(10))), model=OPEN)
case("ANT-MEDIA-04", "/messages/0/content/0/source/media_type", ask(user(picture(10, kind="image/bmp"))), ask(user(picture(10))))

# Tools of the provider's

case("ANT-SRV-01", "/messages/1/content/0/tool_use_id", history(tell(NOTHING, SEARCHED), user("x")), history(tell(SEARCHED, NOTHING), user("x")),
     "messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_1. Each `web_search_tool_result` "
     "block must have a corresponding `server_tool_use` block before it.")
case("ANT-SRV-02", "/messages/1/content/0", history(tell(SEARCHED, TEXT), user("x")), history(tell(SEARCHED, USE), user(RESULT), tell(NOTHING, TEXT), user("x")))
ADVISED = {**SEARCHED, "name": "advisor"}
ADVICE = {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "advisor_result", "text": "4"}}
case("ANT-SRV-03", "/messages/1/content/0", history(tell(ADVISED, ADVICE), user("x")),
     history(tell(ADVISED, ADVICE), user("x"), tools=[{"type": "advisor_20260301", "name": "advisor", "model": "x"}]))
FOUND = (Search("rain", (Found("https://example.org/a", "A"),)), Say("Rain.", cites=(Cite("https://example.org/a", "A", "words"),)))
case("ANT-SRV-04", "/messages/1/content/1", altered(lambda body: blocks(body)[1]["content"][0].pop("encrypted_content"), FOUND), whole(FOUND))
case("ANT-SRV-04", "/messages/1/content/1", altered(lambda body: blocks(body)[1]["content"][0].update(url="https://example.org/b"), FOUND), whole(FOUND))
case("ANT-SRV-04", "/messages/1/content/2", altered(lambda body: blocks(body)[2]["citations"][0].update(encrypted_index="Eo8B"), FOUND), whole(FOUND))
FILTERING = ask(tools=[{"type": "web_search_20260318", "name": "web_search"}, {"type": "code_execution_20260120", "name": "code_execution"}])


def ran(**content: Any) -> Body:
    """Run code whose output is sealed, and send it back, in its container."""
    message = reply(FILTERING, (RunCode("1 + 1", "2"), Say("2")))
    body = copy.deepcopy(FILTERING) | {"container": message["container"]["id"]}
    message["content"][1]["content"].update(content)
    return {**body, "messages": [*body["messages"], tell(*message["content"]), user("x")]}


case("ANT-SRV-04", "/messages/1/content/1", lambda: ran(encrypted_stdout="Eo8BCioI"), ran)
case("ANT-SRV-05", "/container", lambda: {name: value for name, value in ran().items() if name != "container"}, ran)
PAUSED_CODE = {"type": "server_tool_use", "id": "srvtoolu_9", "name": "code_execution", "input": {"code": "1"}}


def paused(container: Any) -> Body:
    """Go on with a turn that was paused in its second run of code."""
    body = ran()
    blocks(body).append(PAUSED_CODE)
    return {**body, "messages": body["messages"][:2], "container": container}


case("ANT-SRV-05", "/container", lambda: paused({"id": "container_01", "skills": []}), lambda: paused("container_01"))
COMPACT = {"type": "compaction", "content": "All that was said."}
case("ANT-SRV-06", "/messages/1/content/0", history(tell({**COMPACT, "content": ""}), user("x")), history(tell(COMPACT), user("x")))
case("ANT-SRV-06", "/messages/1/content/0", history(tell(COMPACT), user("x")), ask(user(COMPACT, TEXT)), more={"betas": "compact-2026-09-04"})
case("ANT-SRV-06", "/messages/0/content/0", ask(user(COMPACT, COMPACT, TEXT)), ask(user(COMPACT, TEXT)), more={"betas": "compact-2026-09-04"})
case("ANT-SRV-07", "/thread", ask(user({**TEXT, **MARK}), thread={"type": "create"}), ask(user(TEXT), thread={"type": "create"}), more={"betas": "message-threads-2026-08-12"})
case("ANT-SRV-07", "/thread", ask(thread={"type": "create"}, **MARK), ask(thread={"type": "create"}), more={"betas": "message-threads-2026-08-12"})
# fmt: on
