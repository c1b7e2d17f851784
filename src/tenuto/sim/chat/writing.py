"""Writing an answer in the chat dialect: one body, or the frames of a stream."""

from __future__ import annotations

from typing import Any

from tenuto.core import jsonio
from tenuto.sim import script
from tenuto.sim.asked import Asked
from tenuto.sim.chat import models
from tenuto.sim.chat.details import details, signature
from tenuto.sim.chat.habits import filled, habits
from tenuto.sim.chat.reply import Reply, Told
from tenuto.sim.chat.saying import Calling, Refusal, Saying, Sources, Text, Thought, placement, say
from tenuto.sim.chat.streaming import frames
from tenuto.sim.chat.usage import cost, usage
from tenuto.sim.mint import Mint, digest
from tenuto.sim.script import Fault, Turn, texts

__all__ = ["write"]

_HOSTS = {"anthropic": "Anthropic", "google": "Google", "openai": "OpenAI", "moonshotai": "Moonshot AI", "x-ai": "xAI"}


def write(asked: Asked, turn: Turn, mint: Mint) -> list[bytes | Fault]:
    """Say a turn: one body, or the frames of a stream, with faults where they are to happen."""
    reply = _reply(asked, turn, mint)
    if asked.request.stream:
        return frames(reply, mint)
    first = reply.told[0].said.items
    body = jsonio.encode(_body(reply))
    out: list[bytes | Fault] = [fault for fault in first if isinstance(fault, script.Stall | script.Drip)]
    if any(isinstance(item, script.Cut) for item in first):
        return [*out, body[: len(body) // 2], script.Cut()]
    return [*out, body]


def _reply(asked: Asked, turn: Turn, mint: Mint) -> Reply:
    """Draw everything that is left to chance: the same for a body and for a stream."""
    own = habits(asked.request.style.name)
    created = 1_780_000_000 + mint.random.randrange(10_000_000)
    host = _HOSTS.get(models.vendor(asked.request.model) or "anthropic", "DeepInfra")
    sound = tuple(step for step in turn if not isinstance(step, script.Cut | script.Stall | script.Drip | script.Fail))
    place, signs = placement(asked), models.matches(r"magistral-.*|mistral-(?:medium-3|large-4).*", asked.request.model)
    told = []
    for index in range(asked.choices):
        said = say(asked, sound if index else turn, mint, own)
        detailed = details(asked, said, mint) if place == "reasoning_details" else []
        signed = [_signed(one, mint) if signs else None for one in said.of(Thought)] if place == "chunks" else []
        told.append(Told(index=index, said=said, details=detailed, signatures=signed))
    answer, thought = sum(one.said.answer for one in told), sum(one.said.thought for one in told)
    return Reply(
        asked=asked,
        habits=own,
        place=place,
        id=filled(own.id.replace("{created}", str(created)), mint),
        created=created,
        top={name: host if value == "{provider}" else filled(value, mint) for name, value in own.top.items()},
        extra=filled(own.body, mint),
        told=told,
        spent=cost(asked, answer, thought),
    )


def _signed(thought: Thought, mint: Mint) -> str | None:
    """Mistral's later models sign most of what they think."""
    token = signature(mint, {"t": digest(texts(thought.text))}, 96)
    return token if mint.random.random() < 0.75 else None


def _body(reply: Reply) -> dict[str, Any]:
    return {
        "id": reply.id,
        "object": "chat.completion",
        "created": reply.created,
        "model": reply.asked.request.named,
        **reply.top,
        "choices": [_choice(reply, told) for told in reply.told],
        "usage": usage(reply.style, reply.spent),
        **reply.extra,
        **reply.beside(),
    }


def _choice(reply: Reply, told: Told) -> dict[str, Any]:
    choice = {"index": told.index, "message": _message(reply, told), **reply.habits.choice}
    return {**choice, "finish_reason": told.said.finish, **reply.native(told.said.finish)}


def _message(reply: Reply, told: Told) -> dict[str, Any]:
    own, said = reply.habits, told.said
    message: dict[str, Any] = {"role": "assistant", **_content(reply, told)}
    message |= own.message
    message |= _reasoning(reply, told)
    calls = [_call(call, indexed=own.indexed) for call in said.of(Calling)]
    if calls:
        message["tool_calls"] = calls
    refusals = said.of(Refusal)
    if refusals:
        message["refusal"] = "".join(one.text for one in refusals)
    notes = [_bare(note) for one in said.of(Sources) for note in one.notes]
    if notes:
        message["annotations"] = notes
    return message


def _content(reply: Reply, told: Told) -> dict[str, Any]:
    said = told.said
    text = "".join(texts(one.text) for one in said.of(Text))
    if reply.place == "chunks" and said.of(Thought):
        return {"content": _chunks(said, told.signatures)}
    if text or not (said.of(Calling) or said.of(Refusal)):
        return {"content": text}
    silent = reply.habits.silent
    return {} if silent == "absent" else {"content": None if silent == "null" else ""}


def _chunks(said: Saying, signatures: list[str | None]) -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = []
    left = iter(signatures)
    for item in said.items:
        if isinstance(item, Thought):
            chunk = {"type": "thinking", "thinking": [{"type": "text", "text": texts(item.text)}], "closed": True}
            token = next(left)
            chunks.append(chunk if token is None else {**chunk, "signature": token})
        elif isinstance(item, Text):
            if chunks and chunks[-1]["type"] == "text":
                chunks[-1]["text"] += texts(item.text)
            else:
                chunks.append({"type": "text", "text": texts(item.text)})
    return chunks


def _reasoning(reply: Reply, told: Told) -> dict[str, Any]:
    thoughts = told.said.of(Thought)
    text = "".join(texts(one.text) for one in thoughts)
    match reply.place:
        case "reasoning_content":
            return {"reasoning_content": text} if thoughts or reply.always or reply.blank else {}
        case "reasoning" if thoughts:
            both = {"reasoning_content": text} if reply.style == "together" else {}
            return {"reasoning": text, **both}
        case "reasoning_details" if told.details:
            plain = {"reasoning": text or None} if reply.style == "openrouter" else {}
            return {**plain, "reasoning_details": [detail for _, detail in told.details]}
    return {}


def _bare(note: dict[str, Any]) -> dict[str, Any]:
    """Only streams quote what was found."""
    inner = {name: value for name, value in note["url_citation"].items() if name != "content"}
    return {**note, "url_citation": inner}


def _call(call: Calling, *, indexed: bool) -> dict[str, Any]:
    place = {"index": call.at} if indexed else {}
    function = {"name": call.name, "arguments": call.args}
    return {**place, "id": call.id, "type": "function", "function": function}
