"""What a turn becomes in Gemini's words: parts in their order, how each is streamed, and how the answer ends."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from tenuto.core import jsonio
from tenuto.sim.asked import Asked
from tenuto.sim.gemini.grounding import Grounding
from tenuto.sim.gemini.models import Facts, facts
from tenuto.sim.gemini.signatures import Claims, kind, sealed, substance
from tenuto.sim.mint import Mint, tokens
from tenuto.sim.script import (  # fmt: skip
    Call,
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
    Step,
    Stop,
    Think,
    Turn,
)

__all__ = ["Plan", "Run", "Whole", "option", "plan"]

_IDS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_BLOCKS = {
    "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "MODEL_ARMOR", "JAILBREAK", "SPII",
}  # fmt: skip
_SIZES = {"toolResponse": (20_000, 40_000), "inlineData": (20_000, 60_000)}
_SIZE = (160, 1_900)
_OFTEN = 0.6
_P = TypeVar("_P", bound="str | Fault | Fail")


class Run(msgspec.Struct):
    """Text or thought, in the pieces it is streamed in, with faults between them.

    Its signature stands on its last piece, or, as a `tail`, on one more piece without text.
    """

    pieces: list[str | Fault | Fail]
    thought: bool = False
    signature: str = ""
    tail: bool = False

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(piece for piece in self.pieces if isinstance(piece, str))

    @property
    def last(self) -> str:
        """The piece that carries the signature when it is streamed."""
        return next((piece for piece in reversed(self.pieces) if isinstance(piece, str) and piece), "")

    @property
    def part(self) -> dict[str, Any]:
        """The part that it is when it is not streamed."""
        part: dict[str, Any] = {"text": self.text}
        if self.thought:
            part["thought"] = True
        return part | {"thoughtSignature": self.signature} if self.signature else part


class Whole(msgspec.Struct):
    """A part that comes in one piece, with what it counts. `args` are those of a call, as they were written."""

    bare: dict[str, Any]
    tokens: int
    signature: str = ""

    @property
    def part(self) -> dict[str, Any]:
        """The part as it is sent."""
        return self.bare | {"thoughtSignature": self.signature} if self.signature else self.bare


class Plan(msgspec.Struct):
    """A reply. `finish` is its reason to end, with a `message`; a `blocked` prompt has no answer at all."""

    items: list[Run | Whole | Fault | Fail]
    finish: str = "STOP"
    message: str = ""
    blocked: dict[str, str] | None = None
    grounding: dict[str, Any] | None = None
    thoughts: int = 0
    used: int = 0
    id: str = ""

    @property
    def said(self) -> int:
        """How many tokens the answer has, thoughts aside."""
        return sum(
            item.tokens if isinstance(item, Whole) else tokens(item.text)
            for item in self.items
            if isinstance(item, Whole) or (isinstance(item, Run) and not item.thought)
        )


def option(body: dict[str, Any], *names: str) -> Any:
    """Return what a body says at a place, whichever way its keys are written."""
    value: Any = body
    for name in names:
        snake = re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), name)
        value = value.get(name, value.get(snake)) if isinstance(value, dict) else None
    return value


def plan(asked: Asked, turn: Turn, mint: Mint) -> Plan:
    """Put a turn into parts, as far as length and stop sequences allow, and sign them."""
    planner = _Planner(asked, mint)
    for step in turn:
        planner.take(step)
        if planner.over:
            break
    found = planner.plan
    runs = [item for item in found.items if isinstance(item, Run) and not item.thought]
    found.grounding = planner.grounding.metadata(runs)
    if found.blocked is None:
        _sign(asked, found, mint)
    return found


class _Planner:
    def __init__(self, asked: Asked, mint: Mint) -> None:
        self.asked = asked
        self.mint = mint
        self.facts: Facts = facts(asked.request)
        self.vertex = asked.request.style.name == "vertex"
        self.plan = Plan([], id=mint.word(22, f"{_IDS}ABCDEFGHIJKLMNOPQRSTUVWXYZ-_"))
        self.grounding = Grounding(vertex=self.vertex)
        self.room = asked.max_tokens
        self.over = False

    def take(self, step: Step) -> None:
        match step:
            case Think():
                self._think(step)
            case Say():
                self._say(step)
            case Call():
                self._call(step)
            case Search():
                self._search(step)
            case RunCode() | Picture():
                self._made(step)
            case Cut() | Stall() | Drip() | Fail():
                self._fault(step)
            case _:
                self._end(step)

    def _think(self, step: Think) -> None:
        pieces, over = self._fitting(list(step.text) if isinstance(step.text, list) else [step.text])
        self.plan.thoughts += tokens("".join(pieces))
        if self.asked.show and not step.redacted and any(pieces):
            run = self._run(thought=True)
            run.pieces += pieces
        self._spend(tokens("".join(pieces)), over=over)

    def _say(self, step: Say) -> None:
        run = self._run(thought=False)
        before = run.text
        pieces = list(_grouped(self.mint, step.text))
        cut = _stop(before, "".join(pieces), self.asked.stop)
        if cut is not None:
            pieces = _cut(pieces, cut - len(before))
            run.pieces = _cut(run.pieces, cut)  # it may have begun in what was said before
        pieces, over = self._fitting(pieces)
        run.pieces += pieces
        said = "".join(pieces)
        self.grounding.say(run, before, said, step.cites)
        self._spend(tokens(said), over=over)
        self.over = self.over or cut is not None

    def _call(self, step: Call) -> None:
        args: Any = step.args
        if isinstance(args, str):
            args = _object(args)
            if args is None:
                return self._finish("MALFORMED_FUNCTION_CALL", f"Malformed function call: {step.name}({step.args})")
        call: dict[str, Any] = {"name": step.name, "args": args}
        if self.facts.ids or step.id:
            call["id"] = step.id or self.mint.word(8, _IDS)
        return self._whole({"functionCall": call}, tokens(step.name) + tokens(jsonio.encode(args).decode()))

    def _search(self, step: Search) -> None:
        self.grounding.search(step)
        self.plan.used += tokens(step.query) + sum(tokens(found.title + found.text) for found in step.found)
        config = option(self.asked.request.body, "toolConfig", "includeServerSideToolInvocations")
        if config and not self.vertex:
            shared = {"toolType": "GOOGLE_SEARCH_WEB", "id": self.mint.word(8, _IDS)}
            self._whole({"toolCall": {**shared, "args": {"queries": [step.query]}}}, tokens(step.query))
            shown = {"search_suggestions": self.grounding.shown}
            self._whole({"toolResponse": {**shared, "response": shown}}, 0)

    def _made(self, step: RunCode | Picture) -> None:
        if isinstance(step, Picture):
            return self._whole({"inlineData": {"mimeType": step.media_type, "data": step.data or _PNG}}, 1_120)
        id = {"id": self.mint.word(8, _IDS)} if self.facts.generation >= 3 else {}
        self._whole({"executableCode": {"language": "PYTHON", "code": step.code, **id}}, tokens(step.code))
        outcome = {"outcome": "OUTCOME_OK" if step.ok else "OUTCOME_FAILED"}
        output = {"output": step.output} if step.output else {}
        self.plan.used += tokens(step.output)
        return self._whole({"codeExecutionResult": {**outcome, **output, **id}}, 0)

    def _fault(self, step: Fault | Fail) -> None:
        last = self.plan.items[-1] if self.plan.items else None
        if isinstance(last, Run):
            last.pieces.append(step)
        else:
            self.plan.items.append(step)

    def _end(self, step: Step) -> None:
        if isinstance(step, Refuse):
            return self._refuse(step)
        if isinstance(step, Stop):
            return self._finish({"length": "MAX_TOKENS", "filter": "SAFETY"}.get(step.reason, "STOP"))
        self.over = isinstance(step, Pause)
        return None

    def _refuse(self, step: Refuse) -> None:
        named = step.category.upper()
        if any(isinstance(item, Run | Whole) for item in self.plan.items):
            return self._finish(named if named in _BLOCKS else "SAFETY", step.text)
        reason = named if named in _BLOCKS else "PROHIBITED_CONTENT"
        self.plan.blocked = {"blockReason": reason, "blockReasonMessage": step.text}
        self.over = True
        return None

    # --- room ---------------------------------------------------------------------------------------------------------

    def _run(self, *, thought: bool) -> Run:
        last = self.plan.items[-1] if self.plan.items else None
        if isinstance(last, Run) and last.thought == thought:
            return last
        run = Run([], thought)
        self.plan.items.append(run)
        return run

    def _whole(self, part: dict[str, Any], size: int) -> None:
        if self.room is not None and size > self.room:
            return self._finish("MAX_TOKENS")
        self.plan.items.append(Whole(part, size))
        return self._spend(size, over=False)

    def _fitting(self, pieces: list[str]) -> tuple[list[str], bool]:
        """Return the pieces that there is room for, and whether some were left out."""
        length = sum(map(len, pieces))
        if self.room is None or length <= self.room * 4:
            return pieces, False
        return _cut(pieces, self.room * 4), True

    def _spend(self, size: int, *, over: bool) -> None:
        if self.room is not None:
            self.room = max(0, self.room - size)
        if over:
            self._finish("MAX_TOKENS")

    def _finish(self, reason: str, message: str = "") -> None:
        self.plan.finish, self.plan.message, self.over = reason, message, True


def _grouped(mint: Mint, text: str | list[str]) -> list[str]:
    """Cut a text into the larger pieces that this provider sends; a list is cut already."""
    pieces = list(mint.pieces(text))
    if not isinstance(text, str):
        return pieces
    found: list[str] = []
    at, size = 0, 1
    while at < len(pieces):
        found.append("".join(pieces[at : at + size]))
        at += size
        size = mint.random.choice((2, 4, 8, 16))
    return found


def _cut(pieces: list[_P], length: int) -> list[_P]:
    """Return the first so many letters; what is no text stays."""
    found: list[Any] = []
    for piece in pieces:
        if isinstance(piece, str):
            found.append(piece[: max(0, length)])
            length -= len(piece)
        else:
            found.append(piece)
    return [piece for piece in found if piece != ""]


def _stop(before: str, said: str, stops: tuple[str, ...]) -> int | None:
    """Return how much of both texts is said before a stop sequence that ends in the second; None if none does."""
    whole = before + said
    places = [at for stop in stops if stop and (at := whole.find(stop, max(0, len(before) - len(stop) + 1))) >= 0]
    return min(places, default=None)


def _object(text: str) -> Any:
    """Return JSON text that is an object, to be sent as it stands; None for anything else."""
    try:
        found = jsonio.parse(text)
    except jsonio.JsonError:
        return None
    return msgspec.Raw(text.encode()) if isinstance(found, dict) else None


# --- signing ----------------------------------------------------------------------------------------------------------


def _sign(asked: Asked, found: Plan, mint: Mint) -> None:
    known = facts(asked.request)
    if known.signs == "required":
        chosen = _to_be_signed(found)
    elif known.signs == "optional" and asked.think and any(tool.kind == "function" for tool in asked.tools):
        chosen = [
            item for item in found.items if isinstance(item, Whole) or (isinstance(item, Run) and not item.thought)
        ]
        chosen = chosen[:1]
    else:
        chosen = []
    for order, item in enumerate(chosen):
        _seal(asked, found, mint, item, order)


def _to_be_signed(found: Plan) -> list[Run | Whole]:
    """Choose what is signed: the first call, or without calls the last text; and whatever runs or draws."""
    wholes = [item for item in found.items if isinstance(item, Whole)]
    calls = [item for item in wholes if "functionCall" in item.bare]
    runs = [item for item in found.items if isinstance(item, Run) and not item.thought]
    if not calls and not runs and found.finish == "STOP":
        runs = [Run([])]  # nothing is said: the signature comes on a text without words
        found.items += runs
    others = [item for item in wholes if item not in calls and "codeExecutionResult" not in item.bare]
    wanted = [*others, *(calls[:1] or runs[-1:])]
    return [item for item in found.items if isinstance(item, Run | Whole) and any(item is one for one in wanted)]


def _seal(asked: Asked, found: Plan, mint: Mint, item: Run | Whole, order: int) -> None:
    part = item.part
    accepted = [substance(_parsed(part))]
    if isinstance(item, Run):
        item.tail = mint.random.random() < _OFTEN or not item.last
        accepted.append(substance({"text": "" if item.tail else item.last}))
    call = part.get("functionCall") or {}
    told = Claims(
        family=facts(asked.request).family,
        style=asked.request.style.name,
        account=asked.request.account,
        reply=found.id,
        order=order,
        kind=kind(part),
        texts=accepted,
        id=call.get("id", ""),
    )
    item.signature = sealed(mint, asked.request, told, mint.random.randint(*_SIZES.get(told.kind, _SIZE)))


def _parsed(part: dict[str, Any]) -> dict[str, Any]:
    call = part.get("functionCall")
    if call and isinstance(call["args"], msgspec.Raw):
        return {"functionCall": {**call, "args": jsonio.parse(bytes(call["args"]))}}
    return part
