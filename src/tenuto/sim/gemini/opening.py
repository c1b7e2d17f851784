"""Opening a request: names made one, neighbours of one role merged, and what is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.sim.asked import Asked, Offered, Request, Said
from tenuto.sim.gemini.fields import Stray, sorted_out
from tenuto.sim.gemini.models import Facts, facts
from tenuto.sim.mint import tokens

__all__ = ["Opened", "Placed", "Side", "count", "media", "open_request", "read", "size"]

_HEAVY = {"image": ("IMAGE", 258), "audio": ("AUDIO", 192), "video": ("VIDEO", 1_315), "application": ("DOCUMENT", 516)}
_NUMBERED = {1: "string", 2: "number", 3: "integer", 4: "boolean", 5: "array", 6: "object", 7: "null"}
"""The types of a schema, by the numbers that they may be told by."""
_SEARCHES = {"googleSearch", "googleSearchRetrieval", "enterpriseWebSearch", "parallelAiSearch", "exaAiSearch"}


class Placed(msgspec.Struct, frozen=True):
    """A part, and where it stands: its content and its place in it."""

    i: int
    j: int
    part: dict[str, Any]

    @property
    def at(self) -> dict[str, Any]:
        """The names that the rules' places are told by."""
        return {"i": self.i, "j": self.j}

    @property
    def signature(self) -> str:
        """Its thought signature; empty if it has none."""
        return str(self.part.get("thoughtSignature", ""))


class Side(msgspec.Struct, frozen=True):
    """What one side says before the other does: neighbouring contents of one role, merged."""

    role: str
    parts: list[Placed]
    i: int

    def having(self, name: str) -> list[Placed]:
        """Return the parts that have such a field."""
        return [placed for placed in self.parts if name in placed.part]


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the rules see it. `body` has the names in camelCase; `sides` are the merged contents.

    `turn` is where the current turn begins: the last thing that the user said or showed, as (content, part).
    """

    request: Request
    facts: Facts
    body: dict[str, Any]
    strays: list[Stray]
    contents: list[dict[str, Any]]
    sides: list[Side]
    turn: tuple[int, int]

    @property
    def vertex(self) -> bool:
        """Whether the request goes to Vertex AI, not to the Gemini API."""
        return self.request.style.name == "vertex"

    @property
    def config(self) -> dict[str, Any]:
        """The generation config; empty if there is none."""
        return self.body.get("generationConfig") or {}

    @property
    def thinking(self) -> dict[str, Any]:
        """The thinking config; empty if there is none."""
        return self.config.get("thinkingConfig") or {}

    def declared(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Yield every function that is declared: the tool's place, its place in it, and the declaration."""
        for t, tool in enumerate(self.body.get("tools") or []):
            for k, function in enumerate(tool.get("functionDeclarations") or []):
                yield t, k, function

    def built_in(self) -> list[str]:
        """Return the names of the tools that run on the provider's side."""
        return [name for tool in self.body.get("tools") or [] for name in tool if name != "functionDeclarations"]

    def current(self) -> list[Side]:
        """Return the model's sides of the current turn."""
        return [side for side in self.sides if side.role == "model" and (side.i, 0) > self.turn]


def open_request(request: Request) -> Opened:
    """Read a request as far as the rules need it. `Malformed` where a value has the wrong shape."""
    host = "vertex" if request.style.name == "vertex" else "gemini"
    counting = request.verb == "countTokens"
    body, strays = sorted_out(request.body, "CountTokensRequest" if counting else "GenerateContentRequest", host)
    body = body.get("generateContentRequest") or body
    contents = body.get("contents") or []
    sides = _sides(contents)
    return Opened(
        request=request,
        facts=facts(request),
        body=body,
        strays=strays,
        contents=contents,
        sides=sides,
        turn=_turn(sides),
    )


def _sides(contents: list[dict[str, Any]]) -> list[Side]:
    sides: list[Side] = []
    for i, content in enumerate(contents):
        role = content.get("role") or "user"
        parts = [Placed(i, j, part) for j, part in enumerate(content.get("parts") or [])]
        if sides and sides[-1].role == role:
            sides[-1].parts.extend(parts)
        else:
            sides.append(Side(role, parts, i))
    return sides


def _turn(sides: list[Side]) -> tuple[int, int]:
    said = [
        (placed.i, placed.j)
        for side in sides
        if side.role == "user"
        for placed in side.parts
        if any(placed.part.get(name) for name in ("text", "inlineData", "fileData")) and not placed.part.get("thought")
    ]
    return said[-1] if said else (-1, 0)


# --- what is asked ----------------------------------------------------------------------------------------------------


def read(opened: Opened) -> Asked:
    """Say what is asked, in no dialect."""
    request, config = opened.request, opened.config
    system = _system(opened)
    said = tuple(_said(content) for content in opened.contents)
    tools = tuple(_offered(opened))
    return Asked(
        request=request,
        turn=sum(content.get("role") == "model" for content in opened.contents),
        system=system,
        said=said,
        tools=tools,
        choice=_choice(opened),
        think=opened.facts.thinks and opened.thinking.get("thinkingBudget") != 0,
        show=bool(opened.thinking.get("includeThoughts")),
        max_tokens=config.get("maxOutputTokens"),
        stop=tuple(config.get("stopSequences") or ()),
        schema=_schema(config),
        choices=max(1, config.get("candidateCount") or 1),
        prompt_tokens=size(opened),
    )


def size(opened: Opened) -> int:
    """Return about how many tokens a request has."""
    told = sum(tokens(function.get("description", "") + function.get("name", "")) for *_, function in opened.declared())
    parts = [part for content in opened.contents for part in content.get("parts") or []]
    return tokens(_system(opened)) + told + sum(map(_size, parts))


def _system(opened: Opened) -> str:
    return "\n".join(_texts((opened.body.get("systemInstruction") or {}).get("parts") or []))


def count(asked: Asked) -> dict[str, Any]:
    """Answer a question for the number of tokens."""
    heavy = media(asked.request.body)
    light = asked.prompt_tokens - sum(heavy.values())
    details = [{"modality": name, "tokenCount": number} for name, number in {"TEXT": light, **heavy}.items()]
    return {"totalTokens": asked.prompt_tokens, "promptTokensDetails": details}


def media(body: dict[str, Any]) -> dict[str, int]:
    """Return how many tokens of a request are no text, by their kind."""
    found: dict[str, int] = {}
    asked = body.get("generateContentRequest") or body.get("generate_content_request") or body
    contents = asked.get("contents") or []
    for content in contents if isinstance(contents, list) else [contents]:
        parts = content.get("parts") or []
        for part in parts if isinstance(parts, list) else [parts]:
            for key in ("inlineData", "inline_data", "fileData", "file_data"):
                if blob := part.get(key):
                    name, size = _weight(str(blob.get("mimeType") or blob.get("mime_type") or ""))
                    found[name] = found.get(name, 0) + size
    found.pop("TEXT", None)
    return found


def _weight(media_type: str) -> tuple[str, int]:
    return _HEAVY.get(media_type.partition("/")[0], ("TEXT", 64))


def _size(part: dict[str, Any]) -> int:
    blob = part.get("inlineData") or part.get("fileData")
    if blob:
        return _weight(blob.get("mimeType", ""))[1]
    if "text" in part:
        return tokens(part["text"])
    return sum(tokens(jsonio.encode(value).decode()) for value in part.values() if isinstance(value, dict))


def _texts(parts: list[dict[str, Any]]) -> list[str]:
    return [part["text"] for part in parts if part.get("text") and not part.get("thought")]


def _said(content: dict[str, Any]) -> Said:
    parts = content.get("parts") or []
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    results = [part["functionResponse"] for part in parts if "functionResponse" in part]
    return Said(
        role="assistant" if content.get("role") == "model" else "user",
        text="".join(_texts(parts)),
        calls=tuple((call.get("name", ""), jsonio.encode(call.get("args") or {}).decode()) for call in calls),
        results=tuple((result.get("name", ""), _result(result.get("response") or {})) for result in results),
    )


def _result(response: dict[str, Any]) -> str:
    for key in ("output", "result", "content", "error"):
        if len(response) == 1 and isinstance(response.get(key), str):
            return str(response[key])
    return jsonio.encode(response).decode()


def _offered(opened: Opened) -> Iterator[Offered]:
    for _, _, function in opened.declared():
        schema = function.get("parametersJsonSchema")
        if not isinstance(schema, dict):
            schema = _lowered(function.get("parameters") or {})
        yield Offered(name=function.get("name", ""), description=function.get("description", ""), schema=schema)
    for name in opened.built_in():
        yield Offered(name=name, kind="search" if name in _SEARCHES else "code" if name == "codeExecution" else "other")


def _choice(opened: Opened) -> str:
    config = (opened.body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    mode = str(config.get("mode", "AUTO")).upper()
    if mode == "ANY":
        names = config.get("allowedFunctionNames") or [function.get("name", "") for _, _, function in opened.declared()]
        return names[0] if len(names) == 1 else "required"
    return "none" if mode == "NONE" else "auto"


def _schema(config: dict[str, Any]) -> dict[str, Any] | None:
    formats = config.get("responseFormat") or []
    for told in formats if isinstance(formats, list) else [formats]:
        text = told.get("text") if isinstance(told, dict) else None
        if isinstance(text, dict):
            schema = text.get("jsonSchema") or text.get("json_schema") or text.get("schema")
            return schema if isinstance(schema, dict) else {}
    if isinstance(config.get("responseJsonSchema"), dict):
        return dict(config["responseJsonSchema"])
    if "responseSchema" in config:
        return _lowered(config["responseSchema"])
    return {} if config.get("responseMimeType") == "application/json" else None


def _lowered(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of Google's as JSON Schema has it: types in small letters, `nullable` as another type."""
    found = dict(schema)
    if "type" in found:
        name = _NUMBERED.get(found["type"]) or str(found["type"]).lower()
        found["type"] = [name, "null"] if found.pop("nullable", False) else name
    if isinstance(found.get("properties"), dict):
        found["properties"] = {name: _lowered(inner) for name, inner in found["properties"].items()}
    if isinstance(found.get("items"), dict):
        found["items"] = _lowered(found["items"])
    if "anyOf" in found:
        found["anyOf"] = [_lowered(inner) for inner in found["anyOf"]]
    return found
