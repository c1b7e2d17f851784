"""The simulated model, where no script says what it does: a small assistant of rules, the same for the same request.

It calls the tools that a request speaks of, with arguments that fit; reads what they bring; answers; and stops. It knows
sums and what was said before, and of everything else it says honestly that it is a simulator.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

from tenuto.core import jsonio
from tenuto.sim import choosing, sums
from tenuto.sim.asked import Asked
from tenuto.sim.calling import Situation, calls, situation
from tenuto.sim.filling import fill
from tenuto.sim.mint import Mint, tokens
from tenuto.sim.script import Call, Cite, Found, RunCode, Say, Search, Step, Turn
from tenuto.sim.smalltalk import Talk, answer
from tenuto.sim.thoughts import thoughts
from tenuto.sim.words import Words, content, shortened

__all__ = ["reply"]

_SEARCHES = re.compile(
    r"\b(?:search|look up|look for|find out|browse|google|news|latest|web|internet|online|current(?:ly)?|today)\b",
    re.IGNORECASE,
)
_COMPUTES = re.compile(
    r"\b(?:comput\w*|calculat\w*|run|execut\w*|python|code|script|plot|simulat\w*|evaluat\w*)\b", re.IGNORECASE
)
_ERROR = re.compile(
    r"^[^\w{\[]*(?:(?:\w+\s)?(?:[\w.]*(?:error|exception)|failure|failed|fatal)(?:\s\d{3})?(?:\s*:|[.!]?\s*$)|(?:error|failed|unable|failure) (?:to|in|while|when)\b"
    r"|error (?:calling|executing|running|reading|occurred)|traceback \()|\"error\"\s*:\s*+(?!null|false|0\b|\"\"|\[\s*\]|\{\s*\})|\"is_?error\"\s*:\s*true",
    re.IGNORECASE,
)
_ABLE = re.compile(r"\b(?:what|which) tools\b|\bwhat can you do\b", re.IGNORECASE)
_KEYS = re.compile(
    r"\b(?:keys?|fields?|propert(?:y|ies)|attributes?)\b(?: called| named|:)?\s+([^.?!\n]{2,200})", re.IGNORECASE
)


_WANTS_JSON = re.compile(
    r"\b(?:only|just|valid|return|respond|reply|answer|output|produce|give me|format)\b[^.\n]{0,40}?\bJSON\b",
    re.IGNORECASE,
)
_COUNTED = {
    "age",
    "amount",
    "count",
    "number",
    "population",
    "price",
    "quantity",
    "score",
    "temperature",
    "total",
    "year",
}
_SCHEMA_KEYS = {"type", "properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "$defs"}
_LONG = 20_000


def reply(asked: Asked, mint: Mint) -> Turn:
    """Return what the simulated model does next."""
    at = situation(asked.said)
    made = () if at.prefill else calls(asked, at, mint)
    thought = thoughts(asked, at, made, mint)
    if made:
        return (*thought, *_announced(asked, made, mint), *made)
    served = () if at.results or at.prefill else _served(asked, at)
    schema = asked.schema if asked.schema is not None else _described(asked, at)
    if served and schema is None:
        return (*thought, *served)
    text = _text(asked, at, mint) if schema is None else _json(schema, asked, at, mint)
    return (*thought, Say(_continued(at, text) if at.prefill else text))


def _announced(asked: Asked, made: tuple[Call, ...], mint: Mint) -> tuple[Say, ...]:
    """Some calls are announced, those that nobody forces."""
    if asked.choice != "auto" or mint.random.random() > 0.3:
        return ()
    what = made[0].name
    return (
        Say(
            mint.random.choice(
                (f"Let me use {what} for that.", f"I'll call {what}.", f"One moment: I'm calling {what}.")
            )
        ),
    )


# --- text ---------------------------------------------------------------------------------------------------------------


def _talk(asked: Asked, at: Situation) -> Talk:
    return Talk(task=at.task, before=at.before, said=at.said, named=asked.request.named, max_tokens=asked.max_tokens)


def _text(asked: Asked, at: Situation, mint: Mint) -> str:
    if not at.results and asked.tools and _ABLE.search(at.task):
        return "I can use these tools: " + ", ".join(tool.name for tool in asked.tools)
    if not at.results:
        return _fitted(answer(_talk(asked, at), mint), asked.max_tokens)
    room = 300 if asked.max_tokens is None else max(40, min(300, asked.max_tokens * 3 // len(at.results)))
    told = [_result(name, text, room) for name, text in at.results]
    if len(told) == 1:
        return told[0]
    lead = mint.random.choice(("Here is what I found:", "This is what came back:", f"I have {len(told)} results:"))
    return "\n".join([lead, *(f"- {one}" for one in told)])


def _result(name: str, text: str, room: int) -> str:
    who = name or "the tool"
    if not text.strip():
        return f"{who} returned nothing."
    if _ERROR.search(text[:500]):
        return f"{who} failed with an error: {shortened(text, room)}"
    return f"{who} says: {shortened(text, room)}"


def _fitted(text: str, most: int | None) -> str:
    """Cut prose to whole sentences if it would run into the limit; counting and lists run into it, as they do."""
    if most is None or tokens(text) <= most or not re.search(r"[a-z]{3} [a-z]{2}", text):
        return text
    kept = ""
    for sentence in re.findall(r"[^.!?]+[.!?]*\s*", text):
        if tokens(kept + sentence) > most:
            break
        kept += sentence
    return kept.strip() or text


def _continued(at: Situation, text: str) -> str:
    """Go on from the beginning of the answer that the request gives."""
    start = at.prefill.rstrip()
    if start[:1] in ("{", "["):
        return _closing(start, text)
    if text.lower().startswith(start.lower()):
        return text[len(start) :]
    space = "" if at.prefill[-1:].isspace() or not start else " "
    if re.search(r"(?:[:=,(]|\b(?:is|are|was|be|says?|the|a|an|to|of|and))$", start, re.IGNORECASE):
        found = sums.find(at.task)
        text = f"{sums.told(found.value)}." if found and found.value is not None else text
    return space + text


def _closing(start: str, text: str) -> str:
    """Go on with JSON that has begun: one more value, then whatever is open is closed."""
    inside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', start)
    in_string = inside.count('"') % 2 == 1
    bare = inside[: inside.rindex('"')] if in_string else inside
    ends: list[str] = []
    for char in bare:
        if char in "{[":
            ends.append("}" if char == "{" else "]")
        elif char in "}]" and ends:
            ends.pop()
    value = jsonio.encode(shortened(text, 200)).decode("utf-8", "replace")
    close = "".join(reversed(ends))
    last = bare.rstrip()[-1:]
    is_key = in_string and ends[-1:] == ["}"] and last in ("{", ",")
    if in_string:
        return f"{value[1:]}{': true' if is_key else ''}{close}"
    if last == ":":
        return f" {value}{close}"
    if last in ("{", "[", ","):
        return f'"answer": {value}{close}' if ends[-1] == "}" else f"{value}{close}"
    return close


# --- JSON ---------------------------------------------------------------------------------------------------------------


def _described(asked: Asked, at: Situation) -> dict[str, Any] | None:
    """Return the schema that the words ask for, `{}` for any JSON; None if they ask for no JSON."""
    system = asked.system if len(asked.system) < _LONG else f"{asked.system[:_LONG]}\n{asked.system[-_LONG:]}"
    for text in (at.task, system):
        found = _WANTS_JSON.search(text)
        if found:
            given = _value(text, found.start())
            return given if given and _SCHEMA_KEYS & given.keys() else {}
    return None


def _value(text: str, start: int) -> dict[str, Any] | None:
    """Return the first JSON object that stands in a text."""
    for found in islice(re.compile(r"\{").finditer(text, start), 5):
        try:
            value, _ = json.JSONDecoder().raw_decode(text, found.start())
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def _json(schema: dict[str, Any], asked: Asked, at: Situation, mint: Mint) -> str:
    plain = "\n".join(text for _, text in at.results) if at.results else answer(_talk(asked, at), mint)
    earlier = at.before if sum(map(len, at.before)) < 2000 else ()
    words = Words("\n".join([*earlier, at.task, at.brought]).strip(), shortened(plain, 300), at.task)
    value: Any
    if schema:
        value = fill(schema, words, mint, "all")
    else:
        value = _any(f"{asked.system[-_LONG:]}\n{at.task}", words, mint)
    return jsonio.encode(value).decode("utf-8", "replace")


def _any(text: str, words: Words, mint: Mint) -> dict[str, Any]:
    """Make a JSON object that no schema describes: with the keys that the request names, if it does."""
    shown = _WANTS_JSON.search(text)
    example = _value(text, shown.start()) if shown else None
    if example:
        return example
    found = _KEYS.search(text)
    listed = re.split(r"\b(?:for|from|of|about|in|with|that|where|which)\b", found[1])[0] if found else ""
    named = re.findall(r"[\"'`](\w+)[\"'`]|\b([a-z]\w*)\b", listed)
    keys = [one or other for one, other in named if content(one or other)][:12]
    if not keys:
        return {"answer": words.answer}
    near = {key: key in _COUNTED or words.number_near(key, key.rstrip("s")) is not None for key in keys}
    schema = {
        "type": "object",
        "properties": {key: {"type": "number" if near[key] else "string"} for key in keys},
        "required": keys,
    }
    value = fill(schema, words, mint)
    return value if isinstance(value, dict) else {}


# --- tools on the provider's side -----------------------------------------------------------------------------------------


def _served(asked: Asked, at: Situation) -> tuple[Step, ...]:
    """Search, or run code, if that is offered and asked for."""
    kinds = {tool.kind for tool in asked.tools if asked.choice in ("auto", "required", tool.name)}
    if asked.choice == "none":
        return ()
    forced = asked.choice not in ("auto", "none")
    found = sums.find(at.task)
    if "code" in kinds and (found or _COMPUTES.search(at.task) or (forced and "search" not in kinds)):
        return _computed(at.task, found)
    if "search" in kinds and (_SEARCHES.search(at.task) or forced):
        return _searched(at.task)
    return ()


def _computed(task: str, found: sums.Sum | None) -> tuple[Step, ...]:
    if found is None:
        code = f"print({shortened(task, 80)!r})"
        return RunCode(code, f"{shortened(task, 80)}\n"), Say(
            "The code ran, and printed the request: there was no sum in it."
        )
    expression = re.sub(r"√\s*(\([^()]*\)|[\d.]+)", r"math.sqrt(\1)", found.expression).replace("^", "**")
    expression = re.sub(r"(\d+)!", r"math.factorial(\1)", expression)
    code = f"import math\nprint({expression})" if "math." in expression else f"print({expression})"
    if found.value is None:
        return RunCode(code, f"Error: {found.why}\n", ok=False), Say(f"The code failed: {found.why}.")
    value = sums.told(found.value)
    return RunCode(code, f"{value}\n"), Say(f"The result is {value}.")


def _searched(task: str) -> tuple[Step, ...]:
    query = next(choosing.strings(choosing.Field("query"), Words(task)), task) or "anything"
    slug = "-".join(re.findall(r"[a-z0-9]+", query.lower())[:6]) or "page"
    topic = shortened(query, 80)
    found = (
        Found(
            f"https://example.org/{slug}",
            f"{topic[:1].upper()}{topic[1:]}: an overview",
            f"An overview of {topic}, invented for a simulated search.",
        ),
        Found(
            f"https://example.com/articles/{slug}",
            f"More about {topic}",
            f"What is said about {topic} here is invented as well.",
        ),
        Found(
            f"https://www.example.org/archive/{slug}",
            f"{topic[:1].upper()}{topic[1:]} in the archive",
            f"Older notes on {topic}.",
        ),
    )
    cites = [Cite(one.url, one.title, one.text) for one in found]
    return (
        Search(query, found),
        Say(
            f"I searched for {topic}. The first page gives an overview of it, invented for this simulated search.",
            cites=(cites[0],),
        ),
        Say(" A second page says more about it, and none of it is true.", cites=(cites[1],)),
    )
