"""What is said in one choice, before it is written: the steps of a turn, as this provider can say them."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from tenuto.sim import script
from tenuto.sim.asked import Asked
from tenuto.sim.chat import models
from tenuto.sim.chat.habits import Habits, filled
from tenuto.sim.envelopes import Problem
from tenuto.sim.mint import Mint, tokens
from tenuto.sim.script import Fault, Turn, texts

__all__ = ["Broke", "Calling", "Item", "Refusal", "Saying", "Sources", "Text", "Thought", "placement", "say"]

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+M8AAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
_EXCUSE = "I need a tool for this."
_SPACED = ("deepseek", "mistral", "alibaba", "openrouter")
"""Who writes JSON with spaces."""
_UPSTREAM_CALLS = {"anthropic": "toolu_bdrk_01{w22}", "google": "tool_{nth}_{name}_{w20}", "moonshotai": "{name}:{nth}"}


class Thought(msgspec.Struct, frozen=True):
    """Reasoning; `hidden`: only its token is to be seen."""

    text: str | list[str]
    hidden: bool = False


class Text(msgspec.Struct, frozen=True):
    """Text."""

    text: str | list[str]


class Calling(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool, the `at`-th of its message."""

    id: str
    name: str
    args: str
    at: int


class Refusal(msgspec.Struct, frozen=True):
    """A refusal in a field of its own."""

    text: str


class Sources(msgspec.Struct, frozen=True):
    """Sources, as annotations."""

    notes: list[dict[str, Any]]


class Broke(msgspec.Struct, frozen=True):
    """An error inside the stream, which ends it."""

    problem: Problem


Item: TypeAlias = Thought | Text | Calling | Refusal | Sources | Broke | Fault


class Saying(msgspec.Struct, kw_only=True):
    """One choice: its items in their order, how it ends, and what it cost; with the sources that stand beside it."""

    items: list[Item] = []
    finish: str = ""
    answer: int = 0
    thought: int = 0
    found: list[script.Found] = []

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the items of a kind."""
        return [item for item in self.items if isinstance(item, kind)]


def placement(asked: Asked) -> str:
    """Say where this request's reasoning is put: a field, chunks of the content, tags in it, or nowhere."""
    request = asked.request
    body, style = request.body, request.style
    if not asked.show:
        return "reasoning_details" if _must_sign(asked) else "none"
    if style.name == "minimax" and body.get("reasoning_split") is True:
        return "reasoning_details"
    if style.name == "groq":
        mute = bool(request.model) and not models.thinks(style, request.model, {})
        return "tags" if mute or body.get("reasoning_format") == "raw" else "reasoning"
    return style.reasoning


def say(asked: Asked, turn: Turn, mint: Mint, habits: Habits) -> Saying:
    """Say a turn's steps, up to the first that ends it, as far as the limit of tokens lets it come."""
    speaker = _Speaker(asked, mint, habits)
    for step in turn:
        if isinstance(step, script.Cut | script.Stall | script.Drip):
            speaker.said.items.append(step)
        elif not speaker.done:
            speaker.step(step)
    speaker.said.finish = speaker.said.finish or ("tool_calls" if speaker.calls else "stop")
    if speaker.calls and _must_think(asked) and not any(not one.hidden for one in speaker.said.of(Thought)):
        speaker.said.items.insert(0, Thought(_EXCUSE))
        speaker.said.thought += tokens(_EXCUSE)
    return speaker.said


def _must_think(asked: Asked) -> bool:
    """Kimi behind OpenRouter wants its thoughts back, so it always has some before it calls a tool."""
    kimi = models.matches(r"moonshotai/kimi-(?:k2\.[5-9]|k[3-9]).*", asked.request.model)
    return kimi and asked.think and asked.show


def _must_sign(asked: Asked) -> bool:
    """Gemini behind OpenRouter wants its tokens back, so they come even where no thought is to be seen."""
    request = asked.request
    return request.style.name == "openrouter" and models.matches(models.SIGNED, request.model)


class _Speaker:
    def __init__(self, asked: Asked, mint: Mint, habits: Habits) -> None:
        self.asked, self.mint, self.habits = asked, mint, habits
        self.style = asked.request.style.name
        self.place = placement(asked)
        self.said = Saying(items=[], found=[])
        self.text = ""
        self.since = 0
        """Where in the text it was last interrupted: what stops an answer is said in one go."""
        self.calls = 0
        self.left = asked.max_tokens
        self.done = False
        self._before = sum(len(one.calls) for one in asked.said)

    def step(self, step: script.Step) -> None:
        match step:
            case script.Think():
                self._think(step)
            case script.Say():
                self._say(step)
            case script.Call():
                self._call(step)
            case script.Search():
                self._search(step)
            case script.RunCode():
                self._write(f"```python\n{step.code}\n```\n\n```\n{step.output}\n```\n\n")
            case script.Picture():
                self._picture(step)
            case script.Fail():
                problem = Problem(status=step.status, message=step.message)
                self.said.items.append(Broke(problem))
                self.done = True
            case script.Refuse() | script.Pause() | script.Stop():
                self._end(step)

    # --- what is said -------------------------------------------------------------------------------------------------

    def _think(self, step: script.Think) -> None:
        text = self._fit(step.text)
        self.since = len(self.text)
        self.said.thought += tokens(texts(text)) or (0 if self.done else 1)
        if step.redacted or self.place == "none" or not self.asked.show:
            if self.place == "reasoning_details" and self.style == "openrouter":
                self.said.items.append(Thought("", hidden=True))
        elif self.place == "tags":
            pieces = [text] if isinstance(text, str) else text
            self.said.items.append(Text(["<think>\n", *pieces, *([] if self.done else ["\n</think>\n\n"])]))
        elif self.place == "chunks" and self.said.items and isinstance(last := self.said.items[-1], Thought):
            self.said.items[-1] = Thought(_joined(last.text, text))  # nothing in a stream would tell them apart
        else:
            self.said.items.append(Thought(text))

    def _say(self, step: script.Say) -> None:
        start = len(self.text)
        self._write(step.text)
        if not step.cites or self.done:
            return
        found = [script.Found(url=one.url, title=one.title, text=one.quote) for one in step.cites]
        if self.habits.sources == "text":
            self._write(" " + ", ".join(f"[{one.title or one.url}]({one.url})" for one in found))
        else:
            self._sources(found, start)

    def _write(self, text: str | list[str]) -> None:
        start, said = len(self.text), self.text + texts(text)
        stops = [said.find(stop, max(self.since, start - len(stop) + 1)) for stop in self.asked.stop]
        stop = min((at for at in stops if at >= 0), default=-1)
        if stop >= 0:
            text, self.done, self.said.finish = _kept(text, max(0, stop - start)), True, "stop"
            self._unsay(start - stop)
        text = self._fit(text)
        self.text += texts(text)
        self.said.answer += tokens(texts(text))
        self.said.items.append(Text(text))

    def _unsay(self, count: int) -> None:
        """Take back the end of what was said: it began what stops the answer."""
        items = self.said.items
        for at in range(len(items) - 1, -1, -1):
            item = items[at]
            if count > 0 and isinstance(item, Text):
                size = len(texts(item.text))
                kept = Text(_kept(item.text, max(0, size - count)))
                items[at], count = kept, count - size
                self.said.answer -= tokens(texts(item.text)) - tokens(texts(kept.text))

    def _call(self, step: script.Call) -> None:
        args = step.args if isinstance(step.args, str) else self._json(step.args)
        trouble = self._misfit(step) if self.style == "groq" and self.asked.request.stream else ""
        if trouble:
            self._fail_call(step.name, args, trouble)
            return
        self.since = len(self.text)
        name = texts(self._fit(step.name))
        self.said.answer += tokens(name)
        if self.done:  # the limit comes before the call has a name
            return
        kept = texts(self._fit(args))
        self.said.answer += tokens(kept)
        self.said.items.append(Calling(id=step.id or self._id(step.name), name=step.name, args=kept, at=self.calls))
        self.calls += 1

    def _json(self, args: dict[str, Any]) -> str:
        spaces = (", ", ": ") if self.style in _SPACED else (",", ":")
        return json.dumps(args, ensure_ascii=False, separators=spaces)

    def _id(self, name: str) -> str:
        form = self.habits.call
        model = self.asked.request.model
        if self.style == "openrouter":
            form = _UPSTREAM_CALLS.get(models.vendor(model) or "anthropic", form)
        elif self.style == "groq" and "gpt-oss" in model:
            form = "fc_{u}"
        form = form.replace("{at}", f"{self.calls:02}").replace("{nth}", str(self._before + self.calls))
        return str(filled(form.replace("{name}", name), self.mint))

    def _search(self, step: script.Search) -> None:
        if step.found and self.habits.sources != "text":
            self._sources(list(step.found), None)
            return
        lines = "".join(f"- [{one.title or one.url}]({one.url}): {one.text}\n" for one in step.found)
        self._write(f'Searched the web for "{step.query}".\n{lines}\n')

    def _sources(self, found: list[script.Found], start: int | None) -> None:
        self.said.found += found
        if self.habits.sources == "citations":
            return
        begin, end = (0, 0) if start is None else (start, len(self.text))
        notes = []
        for one in found:
            note: dict[str, Any] = {"url": one.url, "title": one.title, "start_index": begin, "end_index": end}
            if self.style == "openrouter":
                note["content"] = one.text
            notes.append({"type": "url_citation", "url_citation": note})
        self.said.items.append(Sources(notes))

    def _picture(self, step: script.Picture) -> None:
        url = f"data:{step.media_type};base64,{step.data or _PIXEL}"
        self.since = len(self.text)
        self.said.items.append(Text([f"![image]({url})"]))  # no recording of this dialect has a picture of its own
        self.said.answer += 1290

    def _end(self, step: script.Refuse | script.Pause | script.Stop) -> None:
        self.done = True
        if isinstance(step, script.Refuse):
            if self.habits.refusals:
                text = texts(self._fit(step.text))
                self.said.items.append(Refusal(text))
                self.said.answer += tokens(text)
            else:
                self._write(step.text)
            self.said.finish = self.said.finish or "stop"
        elif isinstance(step, script.Pause):
            self.said.finish = "stop"
        else:
            self.said.finish = {"length": "length", "filter": self.habits.filtered}.get(step.reason, "stop")

    # --- limits -------------------------------------------------------------------------------------------------------

    def _fit(self, text: str | list[str]) -> str | list[str]:
        """Cut a text to what the limit leaves, and end there."""
        if self.left is None:
            return text
        price = tokens(texts(text))
        if price > self.left:
            text, self.done, self.said.finish = _kept(text, self.left * 4), True, "length"
        self.left = max(0, self.left - price)
        return text

    def _misfit(self, step: script.Call) -> str:
        """Say in what a call does not fit its tool's schema, as far as names go."""
        tool = next((one for one in self.asked.tools if one.name == step.name), None)
        if tool is None or not isinstance(step.args, dict):
            return ""
        required, known = tool.schema.get("required"), tool.schema.get("properties")
        wanted = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        lacks = [name for name in wanted if name not in step.args]
        closed = tool.schema.get("additionalProperties") is False and isinstance(known, dict)
        strange = [name for name in step.args if name not in known] if closed and isinstance(known, dict) else []
        told = ["missing properties: " + ", ".join(f"'{name}'" for name in lacks)] if lacks else []
        return ", ".join(told + [f"additionalProperties '{name}' not allowed" for name in strange])

    def _fail_call(self, name: str, args: str, trouble: str) -> None:
        told = f"parameters for tool {name} did not match schema: errors: [{trouble}]"
        problem = Problem(
            status=400,
            message=f"Tool call validation failed: tool call validation failed: {told}",
            code="tool_use_failed",
            extra={"failed_generation": f'{{"name": "{name}", "arguments": {args}}}'},
        )
        self.said.items.append(Broke(problem))
        self.done = True


def _joined(text: str | list[str], more: str | list[str]) -> str | list[str]:
    if isinstance(text, str) and isinstance(more, str):
        return text + more
    return [piece for one in (text, more) for piece in ([one] if isinstance(one, str) else one)]


def _kept(text: str | list[str], size: int) -> str | list[str]:
    """Keep so many characters of a text, in its pieces."""
    if isinstance(text, str):
        return text[:size]
    kept = []
    for piece in text:
        if size <= 0:
            break
        kept.append(piece[:size])
        size -= len(piece)
    return kept
