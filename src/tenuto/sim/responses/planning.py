"""From a turn to the items of a response: what they hold, which ids they get, and where the answer ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from tenuto.core import jsonio
from tenuto.sim.asked import Asked
from tenuto.sim.mint import Mint, digest, tokens
from tenuto.sim.responses import ids
from tenuto.sim.responses.models import model_of
from tenuto.sim.responses.opening import functions_in
from tenuto.sim.responses.sealed import seal
from tenuto.sim.script import (
    Call,
    Cite,
    Cut,
    Drip,
    Fail,
    Fault,
    Pause,
    Picture,
    Refuse,
    RunCode,
    Say,
    Search,
    Stall,
    Stop,
    Think,
    Turn,
    texts,
)

__all__ = ["Piece", "Plan", "Planned", "plan"]

Piece: TypeAlias = "str | list[str] | Fault"
"""Text, cut or to be cut, and what happens in the midst of it."""
_EMPTY_THOUGHT = 64
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_REASONS = {"length": "max_output_tokens", "filter": "content_filter"}


class Planned(msgspec.Struct, kw_only=True):
    """One item: its text in pieces, what it is when it begins (`opening`) and when it is done (`done`)."""

    kind: str
    pieces: list[Piece] = []
    text: str = ""
    refusal: bool = False
    cites: tuple[Cite, ...] = ()
    step: Call | Search | RunCode | Picture | None = None
    hidden: bool = False
    status: str = "completed"
    id: str = ""
    opening: dict[str, Any] = {}
    done: dict[str, Any] = {}


class Plan(msgspec.Struct, kw_only=True):
    """A whole answer. `steps` are its items with the faults between them."""

    id: str
    made: int
    took: int
    steps: list[Planned | Fault]
    status: Literal["completed", "incomplete", "failed"] = "completed"
    reason: str | None = None
    failure: Fail | None = None
    thought: int = 0
    written: int = 0

    @property
    def items(self) -> list[Planned]:
        """The items alone."""
        return [step for step in self.steps if isinstance(step, Planned)]


def plan(asked: Asked, turn: Turn, mint: Mint) -> Plan:
    """Lay out an answer. All chance that a plain reply shares with a streamed one is spent here."""
    request = asked.request
    root = digest(request.digest, request.account, request.style.name)
    made = 1_780_000_000 + int(root[:6], 16)
    told = Plan(id="", made=made, took=mint.random.randrange(1, 20), steps=[])
    for step in _folded(asked, turn, told):
        told.steps.append(step)
    _shorten(asked.max_tokens, told)
    if told.status == "completed" and (not told.items or told.items[-1].kind == "reasoning"):
        told.steps.append(Planned(kind="message"))  # a finished answer never ends with a thought
    _name(asked, told, mint, root)
    for at, item in enumerate(told.items):
        _fill(asked, told, mint, at, item)
    return told


def _folded(asked: Asked, turn: Turn, told: Plan) -> Iterator[Planned | Fault]:
    """Make items of steps, up to the one that ends the answer. Text goes on after a fault in the same message."""
    message: Planned | None = None
    waiting: list[Fault] = []
    for step in turn:
        if isinstance(step, Cut | Stall | Drip):
            waiting.append(step)
            continue
        if isinstance(step, Say) and message and waiting:
            message.pieces += [*waiting, step.text]
            message.text += texts(step.text)
            message.cites += step.cites
            waiting = []
            continue
        if message:
            yield message
        message = None
        yield from waiting
        waiting = []
        if _ends(step, told):
            return
        item = _item(asked, step)
        if item and item.kind == "message":
            message = item
        elif item:
            yield item
    if message:
        yield message
    yield from waiting


def _ends(step: object, told: Plan) -> bool:
    if isinstance(step, Fail):
        told.status, told.failure = "failed", step
    elif isinstance(step, Stop) and step.reason in _REASONS:
        told.status, told.reason = "incomplete", _REASONS[step.reason]
    return isinstance(step, Fail | Stop | Pause)


def _item(asked: Asked, step: object) -> Planned | None:
    if isinstance(step, Think):
        return Planned(
            kind="reasoning", pieces=[step.text], text=texts(step.text), hidden=step.redacted or not asked.show
        )
    if isinstance(step, Say):
        return Planned(kind="message", pieces=[step.text], text=texts(step.text), cites=step.cites)
    if isinstance(step, Refuse):
        return Planned(kind="message", pieces=[step.text], text=step.text, refusal=True)
    if isinstance(step, Call):
        custom = any(tool.name == step.name and tool.kind == "custom" for tool in asked.tools)
        given = _input(step) if custom else _arguments(step)
        return Planned(kind="custom_tool_call" if custom else "function_call", pieces=[given], text=given, step=step)
    if isinstance(step, Search):
        return Planned(kind="web_search_call", step=step)
    if isinstance(step, RunCode):
        return Planned(kind="code_interpreter_call", pieces=[step.code], text=step.code, step=step)
    if isinstance(step, Picture):
        return Planned(kind="image_generation_call", step=step)
    return None


def _arguments(call: Call) -> str:
    return call.args if isinstance(call.args, str) else jsonio.encode(call.args).decode()


def _input(call: Call) -> str:
    """A custom tool takes free text: the one value of the arguments if it is text, else all of them."""
    if isinstance(call.args, dict) and len(call.args) == 1:
        only = next(iter(call.args.values()))
        if isinstance(only, str):
            return only
    return _arguments(call)


def _shorten(limit: int | None, told: Plan) -> None:
    """Count what is written, and end the answer where the limit is."""
    for at, item in enumerate(told.steps):
        if not isinstance(item, Planned):
            continue
        cost = tokens(item.text) or (_EMPTY_THOUGHT if item.kind == "reasoning" else 0)
        left = cost if limit is None else max(limit - told.thought - told.written, 0)
        over = cost > left
        if over:
            _cut_off(item, left * 4)
            del told.steps[at + (left > 0) :]
            told.status, told.reason, told.failure = "incomplete", "max_output_tokens", None
        if item.kind == "reasoning":
            told.thought += min(cost, left)
        else:
            told.written += min(cost, left)
        if over:
            break
    if told.status == "incomplete" and told.items:
        told.items[-1].status = "incomplete"


def _cut_off(item: Planned, letters: int) -> None:
    item.text = item.text[:letters]
    kept: list[Piece] = []
    for piece in item.pieces:
        if isinstance(piece, Cut | Stall | Drip):
            kept.append(piece)
            continue
        for part in [piece] if isinstance(piece, str) else piece:
            kept.append(part[:letters])
            letters -= len(part[:letters])
    item.pieces = [piece for piece in kept if piece != ""]


def _name(asked: Asked, told: Plan, mint: Mint, root: str) -> None:
    style = asked.request.style.name
    if style == "xai":
        told.id = ids.xai_id(mint.seals, root)
        for at, item in enumerate(told.items):
            prefix = "fc" if item.kind in ("web_search_call", "code_interpreter_call") else ids.PREFIXES[item.kind]
            item.id = f"{prefix}_{told.id}" + ("" if prefix in ("rs", "msg") else f"_{at}")
    elif style == "deepseek":
        told.id = ids.uuid(mint.hex(32))
        for item in told.items:
            item.id = ids.uuid(mint.hex(32))
    else:
        told.id = ids.response_id(mint.seals, root, told.made)
        places = ids.foretell([item.kind for item in told.items], root, told.made)
        for item, place in zip(told.items, places, strict=True):
            item.id = ids.item_id(mint.seals, place)


def _fill(asked: Asked, told: Plan, mint: Mint, at: int, item: Planned) -> None:
    if item.kind == "reasoning":
        _fill_reasoning(asked, told, mint, item)
    elif item.kind == "message":
        later = any(other.kind != "message" for other in told.items[at + 1 :])
        _fill_message(asked, item, "commentary" if later else "final_answer")
    elif isinstance(item.step, Call):
        _fill_call(asked, mint, at, item, item.step)
    else:
        _fill_hosted(asked, mint, item)


def _fill_reasoning(asked: Asked, told: Plan, mint: Mint, item: Planned) -> None:
    style = asked.request.style.name
    if style == "deepseek":
        item.opening = {"type": "reasoning", "id": item.id, "status": "in_progress", "content": [], "summary": []}
        item.done = item.opening | {"status": item.status, "content": [{"type": "reasoning_text", "text": item.text}]}
        return
    summary = [{"type": "summary_text", "text": part} for part in summary_parts(item)]
    claims = {"id": item.id}
    blob = seal(mint, asked.request, claims | {"part": "done"}, told.made + 1, len(item.text))
    if style == "xai":
        item.opening = {"id": item.id, "type": "reasoning", "summary": [], "status": "in_progress"}
        item.done = item.opening | {"summary": summary, "status": item.status, "encrypted_content": blob}
        return
    first = seal(mint, asked.request, claims | {"part": "added"}, told.made, 0)
    item.opening = {"id": item.id, "type": "reasoning", "content": [], "encrypted_content": first, "summary": []}
    item.done = item.opening | {"encrypted_content": blob, "summary": summary}


def summary_parts(item: Planned) -> list[str]:
    """The parts of a summary: each begins with a heading in bold, if there are several."""
    if item.hidden or not item.text:
        return []
    first, *more = item.text.split("\n\n**")
    return [first, *(f"**{part}" for part in more)]


def _fill_message(asked: Asked, item: Planned, phase: str) -> None:
    phased = model_of(asked.request).phased
    head: dict[str, Any] = {"id": item.id, "type": "message", "status": "in_progress", "content": []}
    item.opening = head | ({"phase": phase} if phased else {}) | {"role": "assistant"}
    part: dict[str, Any] = {"type": "refusal", "refusal": item.text}
    if not item.refusal:
        part = {"type": "output_text", "annotations": _annotations(asked, item), "logprobs": [], "text": item.text}
    item.done = item.opening | {"status": item.status, "content": [part]}


def _annotations(asked: Asked, item: Planned) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for cite in item.cites:
        if asked.request.style.name == "xai":
            found.append({"type": "url_citation", "url": cite.url})
            continue
        start = max(item.text.find(cite.quote), 0) if cite.quote else max(len(item.text) - 1, 0)
        end = min(start + len(cite.quote or " "), len(item.text))
        found.append(
            {"type": "url_citation", "end_index": end, "start_index": start, "title": cite.title, "url": cite.url}
        )
    return found


def _fill_call(asked: Asked, mint: Mint, at: int, item: Planned, call: Call) -> None:
    style = asked.request.style.name
    made = {
        "xai": lambda: f"call-{ids.uuid(mint.hex(32))}-{at}",
        "deepseek": lambda: f"call_{at:02}_{mint.word(20)}{mint.word(4, '0123456789')}",
    }.get(style, lambda: f"call_{mint.word(24)}")()
    head: dict[str, Any] = {"id": item.id, "type": item.kind, "status": "in_progress"}
    key = "arguments" if item.kind == "function_call" else "input"
    item.opening = head | {key: "", "call_id": call.id or made, "name": call.name}
    spaces = [space for tool, space in functions_in(asked.request.body.get("tools") or []) if tool["name"] == call.name]
    if spaces and all(spaces):
        item.opening["namespace"] = spaces[0]
    item.done = item.opening | {key: item.text, "status": item.status}


def _fill_hosted(asked: Asked, mint: Mint, item: Planned) -> None:
    head: dict[str, Any] = {"id": item.id, "type": item.kind, "status": "in_progress"}
    if asked.request.style.name == "xai":
        _fill_hosted_by_xai(item, head | {"status": "completed"})
        return
    include = asked.request.body.get("include") or []
    item.opening = head
    step = item.step
    if isinstance(step, Search):
        item.done = head | {"action": _searched(asked, include, step)}
    elif isinstance(step, RunCode):
        logs = [{"type": "logs", "logs": step.output}] if "code_interpreter_call.outputs" in include else None
        item.opening = head | {"code": "", "container_id": f"cntr_{mint.hex(48)}", "outputs": [] if logs else None}
        item.done = item.opening | {"code": item.text, "outputs": logs}
    elif isinstance(step, Picture):
        item.done = head | {
            "background": "opaque", "output_format": step.media_type.removeprefix("image/"), "quality": "medium",
            "result": step.data or _PNG, "revised_prompt": "A picture, as asked for.", "size": "1024x1024",
        }  # fmt: skip
    item.done["status"] = "failed" if isinstance(step, RunCode) and not step.ok else "completed"


def _fill_hosted_by_xai(item: Planned, head: dict[str, Any]) -> None:
    """Its own tools are told of as calls that are over when they are first heard of."""
    if isinstance(item.step, Picture):
        item.opening = head | {"status": "in_progress", "result": None}
        item.done = head | {"result": item.step.data or _PNG}
        return
    given = {"query": item.step.query, "num_results": 5} if isinstance(item.step, Search) else {"code": item.text}
    name = "web_search" if isinstance(item.step, Search) else "code_execution"
    item.done = head | {"arguments": jsonio.encode(given).decode(), "call_id": "", "name": name}
    item.opening = item.done


def _searched(asked: Asked, include: list[Any], step: Search) -> dict[str, Any]:
    action: dict[str, Any] = {"type": "search", "queries": [step.query]}
    if asked.request.style.name != "deepseek":
        action["query"] = step.query
    if "web_search_call.action.sources" in include:
        action["sources"] = [{"type": "url", "url": found.url} for found in step.found]
    return action
