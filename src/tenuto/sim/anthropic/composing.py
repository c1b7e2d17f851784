"""Puts a turn into blocks of the dialect, with their ids, tokens and sizes, however it is to be sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from tenuto.core import jsonio
from tenuto.sim.anthropic import server_blocks
from tenuto.sim.anthropic.opened import REASONING, Opened, is_server_result, is_server_use
from tenuto.sim.anthropic.sealing import account, chain, prefix, reasoning_claims, sealed, tool_id
from tenuto.sim.asked import Asked
from tenuto.sim.mint import Mint, tokens
from tenuto.sim.script import (
    Call,
    Fail,
    Fault,
    Pause,
    Picture,
    Refuse,
    RunCode,
    Say,
    Search,
    Step,
    Stop,
    Think,
    Turn,
    texts,
)  # fmt: skip

__all__ = ["Composer", "Part"]

_PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one pixel
)
_SIGNATURE = 210
_DIRECT = {"type": "direct"}
Text = str | list[str]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A block: whole, as it starts in a stream, and the deltas between: some first, a text in pieces, one last.

    What is `joined` goes on with the text of the block before, behind a fault.
    """

    block: dict[str, Any]
    start: dict[str, Any]
    first: tuple[dict[str, Any], ...] = ()
    delta: str = ""
    text: Text = ""
    last: dict[str, Any] | None = None
    joined: bool = False


class Composer:
    """One reply in the making. It is over when `reason` is set."""

    def __init__(self, asked: Asked, opened: Opened, mint: Mint) -> None:
        self.asked, self.opened, self.mint = asked, opened, mint
        self.parts: list[Part | Fault | Fail] = []
        self.blocks: list[dict[str, Any]] = []
        self.reason = ""
        self.sequence: str | None = None
        self.details: dict[str, Any] | None = None
        self.spent = self.thought = self.searches = 0
        self.ran = False

    def compose(self, turn: Turn) -> None:
        """Say the whole turn, up to where it ends."""
        self._answer_pending()
        if self._owes_a_thought(turn):
            self._think(Think())
        for step in turn:
            if self._left() <= 0 and not self.reason:
                self.reason = "max_tokens"
            if self.reason:
                break
            take = self._STEPS.get(type(step))
            if take:
                take(self, step)
            elif isinstance(step, Fault | Fail):
                self.parts.append(step)
        called = any(block["type"] == "tool_use" for block in self.blocks)
        self.reason = self.reason or ("tool_use" if called else "end_turn")

    def _owes_a_thought(self, turn: Turn) -> bool:
        """Tell whether a turn that begins without a thought gets one, because it must have one when it comes back.

        With a budget, the id of a call says that there was none; an id from the script cannot say it.
        """
        said = [step for step in turn if not isinstance(step, Fault)]
        if self.opened.mode == "enabled" and self.opened.signs:
            named = any(isinstance(step, Call) and step.id for step in said)
            return named and not isinstance(said[0], Think)
        return self.asked.think and not self.opened.signs and not any(isinstance(step, Think) for step in said)

    def _left(self) -> int:
        limit = self.asked.max_tokens
        return 1 << 40 if limit is None else limit - self.spent

    def _fitted(self, text: Text) -> Text:
        """Cut a text where the reply is full, and count it."""
        left = max(0, self._left())
        if tokens(texts(text)) > left:
            text, self.reason = _shortened(text, left * 4), "max_tokens"
        self.spent += tokens(texts(text))
        return text

    def _add(self, part: Part) -> None:
        self.parts.append(part)
        self.blocks.append(part.block)

    def _think(self, step: Think) -> None:
        text = self._fitted(step.text)
        whole = texts(text)
        self.thought += tokens(whole)
        shown = whole if self.asked.show and not step.redacted else ""
        token = self._signature(shown, len(whole.encode("utf-8", "replace")), hidden=step.redacted)
        if step.redacted:
            block = {"type": "redacted_thinking", "data": token}
            self._add(Part(block=block, start=block))
            return
        self._add(
            Part(
                block={"type": "thinking", "thinking": shown, "signature": token},
                start={"type": "thinking", "thinking": "", "signature": ""},
                delta="thinking",
                text=text if shown else "",
                last={"type": "signature_delta", "signature": token},
            )
        )

    def _signature(self, shown: str, size: int, *, hidden: bool) -> str:
        request, continued = self.opened.request, self.opened.continued
        earlier = [block.raw for block in continued.blocks] if continued else []
        bound = ""
        if self.opened.model.bound:
            heads = chain(self.opened)
            bound = prefix(heads[-2], "assistant", earlier) if continued else heads[-1]
        claims = reasoning_claims(self.blocks, shown) | {
            "r": hidden, "m": request.model, "a": account(request.account), "p": request.style.name,
            "c": len(earlier), "x": bound,
        }  # fmt: skip
        return sealed(self.mint, claims, _SIGNATURE + size + self.mint.random.randrange(12))

    def _say(self, step: Say) -> None:
        text = step.text
        whole = texts(text)
        found = [(at, stop) for stop in self.asked.stop if (at := whole.find(stop)) >= 0]
        if found:
            at, self.sequence = min(found)
            text = _shortened(text, at)
        text = self._fitted(text)
        if found:
            self.reason, self.sequence = (self.reason, None) if self.reason else ("stop_sequence", self.sequence)
        whole = texts(text)
        if not whole:
            return
        if self._interrupted() and not step.cites:
            self.blocks[-1]["text"] += whole
            self.parts.append(Part(block=self.blocks[-1], start={}, delta="text", text=text, joined=True))
            return
        cites = [server_blocks.citation(self.mint, cite) for cite in step.cites]
        sources = {"citations": cites} if cites else {}
        self._add(
            Part(
                block={**sources, "type": "text", "text": whole},
                start={**({"citations": []} if cites else {}), "type": "text", "text": ""},
                first=tuple({"type": "citations_delta", "citation": cite} for cite in cites),
                delta="text",
                text=text,
            )
        )

    def _interrupted(self) -> bool:
        """Tell whether a fault has just come into a text."""
        broken = bool(self.parts) and isinstance(self.parts[-1], Fault)
        return broken and bool(self.blocks) and self.blocks[-1]["type"] == "text"

    def _call(self, step: Call) -> None:
        written = step.args if isinstance(step.args, str) else json.dumps(step.args, ensure_ascii=False)
        self.spent += tokens(step.name)
        text = texts(self._fitted("" if written == "{}" else written))
        base = {"type": "tool_use", "id": step.id or tool_id(self.mint, self._kind()), "name": step.name}
        self._add(
            Part(
                block={**base, "input": _input(text), "caller": _DIRECT},
                start={**base, "input": {}, "caller": _DIRECT},
                delta="partial_json",
                text=text,
            )
        )

    def _kind(self) -> str:
        begun = bool(self.blocks) and self.blocks[0]["type"] in REASONING
        if self.opened.mode == "enabled" and not begun:
            return "silent"
        return "thought" if any(block["type"] in REASONING for block in self.blocks) else "plain"

    def _served(self, use: dict[str, Any], result: dict[str, Any] | None) -> bool:
        """Add a use of a tool of the provider's, and its result; neither, where the reply is full before the tool runs."""
        text = json.dumps(use["input"], ensure_ascii=False)
        if tokens(text) > self._left():
            self.reason = "max_tokens"
            return False
        self.spent += tokens(text)
        self._add(Part(block=use, start={**use, "input": {}}, delta="partial_json", text=text))
        if result is not None:
            self._add(Part(block=result, start=result))
        return True

    def _search(self, step: Search) -> None:
        use = server_blocks.search_use(self.mint, step.query)
        self.searches += self._served(use, server_blocks.search_result(self.mint, use["id"], step.found))

    def _run(self, step: RunCode) -> None:
        form = server_blocks.code_form(self.opened.tools)
        use = server_blocks.code_use(self.mint, form, step.code)
        self.ran |= self._served(use, server_blocks.code_result(self.mint, form, use["id"], step))

    def _picture(self, step: Picture) -> None:
        """Claude draws nothing: what it would have drawn is said, as Markdown has it."""
        self._say(Say(f"![picture](data:{step.media_type};base64,{step.data or _PICTURE})"))

    def _refuse(self, step: Refuse) -> None:
        self.reason = "refusal"
        self.details = {"type": "refusal", "category": step.category or None, "explanation": step.text}
        self.spent += 5

    def _pause(self, _: Pause) -> None:
        """Pause as the provider does: before the result of a tool of its own."""
        form = server_blocks.code_form(self.opened.tools)
        if any(tool.kind == "code" for tool in self.asked.tools) and not any(
            tool.kind == "search" for tool in self.asked.tools
        ):
            use = server_blocks.code_use(self.mint, form, "echo done")
        else:
            use = server_blocks.search_use(self.mint, "more about it")
        if self._served(use, None):
            self.reason = "pause_turn"

    def _answer_pending(self) -> None:
        """A turn that was paused goes on with the results that were missing."""
        last = self.opened.continued
        blocks = [block.raw for block in last.blocks] if last else []
        done = {block.get("tool_use_id") for block in blocks if is_server_result(block["type"])}
        for use in blocks:
            if is_server_use(use["type"]) and use["id"] not in done:
                result = server_blocks.late_result(self.mint, use, self.opened.tools)
                self._add(Part(block=result, start=result))

    def _stop(self, step: Stop) -> None:
        self.reason = {"length": "max_tokens", "stop_sequence": "stop_sequence", "filter": "refusal"}[step.reason]
        if step.reason == "stop_sequence":
            self.sequence = step.sequence or next(iter(self.asked.stop), "")
        if step.reason == "filter":
            self.details = {"type": "refusal", "category": None, "explanation": None}

    _STEPS: ClassVar[dict[type[Step], Callable[..., None]]] = {
        Think: _think, Say: _say, Call: _call, Search: _search, RunCode: _run, Picture: _picture, Refuse: _refuse,
        Pause: _pause, Stop: _stop,
    }  # fmt: skip


def _shortened(text: Text, size: int) -> Text:
    """Cut a text, in pieces or not, to so many characters."""
    if isinstance(text, str):
        return text[:size]
    kept: list[str] = []
    for piece in text:
        if size <= 0:
            break
        kept.append(piece[:size])
        size -= len(piece)
    return kept


def _input(text: str) -> Any:
    """Read the input of a call. What is no object is kept in one, as a whole reply has no other way to say it."""
    if not text:
        return {}
    try:
        value = jsonio.parse(text)
    except jsonio.JsonError:
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": text}
