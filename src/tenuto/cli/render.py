"""What happens in a run, as a person sees it: each kind of event has its line or its piece of one."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from tenuto.agent.events import (
    AgentEvent,
    ModelChanged,
    RefusedBlockDropped,
    Retrying,
    RunStopped,
    SubAgentEvent,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnStarted,
)
from tenuto.cli.cells import clipped
from tenuto.cli.escaping import one_line, shown
from tenuto.cli.screen import Screen
from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Block,
    CodeExecution,
    Document,
    Image,
    Reasoning,
    Refusal,
    ServerToolUse,
    Text,
    ToolUse,
)
from tenuto.core.events import (
    ContentDelta,
    ContentDone,
    ContentStart,
    MessageDone,
    MessageStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    UsageUpdate,
)
from tenuto.core.messages import AssistantMessage, Content, ToolCallView, ToolResult, Usage
from tenuto.core.response import ChatResponse

__all__ = ["View", "answer_of", "call_line", "call_lines", "result_line", "said_of", "usage_line"]

_ARGUMENT = 60
_LINE = 160
_RESULT = 4
"""So many lines of a result are shown on a terminal."""
_ASKED = 4_000
"""How much of one argument somebody is shown who is asked about a call."""


class View:
    """Shows one run on a screen."""

    def __init__(self, screen: Screen, model: str, *, thinking: bool) -> None:
        self._screen = screen
        self._model = model
        self._thinking = thinking
        self._running: dict[int, str] = {}
        """The calls that act, by their place in the turn."""
        self._used = Usage()
        """What the replies before this one used."""

    def hear(self, event: StreamEvent | AgentEvent) -> None:
        """Show an event."""
        if isinstance(event, ContentDelta):
            self._delta(event)
        elif isinstance(event, ContentStart | ContentDone):
            self._part(event)
        elif isinstance(event, MessageStart):
            self._void("the provider started over")
        elif isinstance(event, UsageUpdate):
            self._count(event.usage)
        elif isinstance(event, ToolStarted | ToolProgress | ToolFinished):
            self._tool(event)
        else:
            self._step(event)

    def _step(self, event: StreamEvent | AgentEvent) -> None:
        screen = self._screen
        if isinstance(event, TurnStarted):
            screen.begin_reply()
            self._running.clear()
            screen.status(f"asking {self._model}")
        elif isinstance(event, Retrying):
            self._void(event.error)
            what = one_line(event.message, _LINE)
            screen.note(f"! {event.error}: {what}; asking again in {event.delay:.1f} s", "yellow")
        elif isinstance(event, RefusedBlockDropped | ModelChanged):
            self._warned(event)
        elif isinstance(event, SubAgentEvent):
            self._below(event)
        elif isinstance(event, MessageDone):
            self._done(event.response)
        elif isinstance(event, RunStopped):
            screen.status("")
            screen.end_line()

    def _tool(self, event: ToolStarted | ToolProgress | ToolFinished) -> None:
        """A call has a line when it begins; of what it gives, a terminal shows how it begins."""
        line = _tool_line(event, _RESULT if self._screen.how.err_live else 1)
        self._screen.note(line, "red" if line.startswith("!") else "dim")
        if isinstance(event, ToolStarted):
            self._running[event.ordinal] = event.call.name
        elif isinstance(event, ToolFinished):
            self._running.pop(event.ordinal, None)
        self._screen.status(f"running {', '.join(self._running.values())}" if self._running else "")

    def _warned(self, event: RefusedBlockDropped | ModelChanged) -> None:
        if isinstance(event, ModelChanged):
            self._model = event.model
            count = len(event.losses)
            lost = f", {count} {'loss' if count == 1 else 'losses'}" if count else ""
            self._screen.note(f"! goes on with {one_line(event.model, _LINE)}{lost}", "yellow")
        else:
            self._screen.note(f"! left out: {one_line(event.loss.detail, _LINE)}", "yellow")

    def _delta(self, event: ContentDelta) -> None:
        if event.choice_index:
            return
        if isinstance(event.delta, TextDelta):
            self._screen.answer(event.delta.text)
        elif isinstance(event.delta, ThinkingDelta) and self._thinking:
            self._screen.aside(event.delta.thinking)

    def _part(self, event: ContentStart | ContentDone) -> None:
        """What comes whole, or is done by the provider, has a line; so have thoughts and words an end."""
        part = event.part
        if isinstance(event, ContentStart):
            doing = _doing(part)
            if doing:
                self._screen.status(f"{self._model} is {doing}")
            return
        if isinstance(part, Reasoning):
            if self._thinking and part.text:
                self._screen.end_line()
            self._screen.status(f"asking {self._model}")
        elif (line := part_line(part)) is not None:
            self._screen.end_line()
            self._screen.note(line, "dim")

    def _done(self, response: ChatResponse) -> None:
        """What is said before tools are called is not yet the answer: off a terminal it stands with everything else."""
        self._screen.status("")
        self._screen.end_line()
        if response.usage is not None:
            self._count(response.usage)
            self._used += response.usage
        message = response.choices[0].message if response.choices else None
        text = answer_of(message).strip()
        if text and message is not None and message.has_tool_calls() and not self._screen.how.out_live:
            self._screen.note(text)

    def _count(self, usage: Usage) -> None:
        total = (self._used + usage).total_tokens
        self._screen.tally(f"{total:,} tokens" if total else "")

    def _void(self, why: str) -> None:
        """What came of a reply that broke off is taken back; of what cannot be it is said that it is void."""
        if self._screen.take_back():
            self._screen.note(f"! the reply broke off ({why}): what stands above of it is void", "yellow")

    def _below(self, event: SubAgentEvent) -> None:
        inner = event.event
        while isinstance(inner, SubAgentEvent):
            inner = inner.event
        line = _tool_line(inner)
        if line:
            self._screen.note(f"    {event.call.name}: {line}", "dim")


def _doing(part: Block) -> str:
    """What the model does while a part comes."""
    if isinstance(part, Reasoning):
        return "thinking"
    if isinstance(part, Text):
        return "answering"
    return f"calling {part.name}" if isinstance(part, ToolUse) else ""


def _tool_line(event: object, lines: int = 1) -> str:
    if isinstance(event, ToolStarted):
        again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
        return f"> {call_line(event.call)}{again}"
    if isinstance(event, ToolProgress):
        return f". {event.call.name}: {one_line(event.text, _LINE)}"
    if isinstance(event, ToolFinished):
        return result_line(event.call.name, event.result, event.outcome, lines)
    return ""


def call_line(call: ToolCallView) -> str:
    """A call in one line: its name and its arguments, shortened."""
    return one_line(f"{call.name} {' '.join(_arguments(call))}".rstrip(), _LINE)


def _arguments(call: ToolCallView) -> Iterator[str]:
    for name, value in _parsed(call).items():
        text = value if isinstance(value, str) else jsonio.encode(value).decode("utf-8", "replace")
        short = one_line(text, _ARGUMENT)
        yield f'{name}="{short}"' if isinstance(value, str) else f"{name}={short}"


def _parsed(call: ToolCallView) -> dict[str, object]:
    """The arguments by name; what is no object stands as it was written."""
    try:
        parsed = call.parse()
    except ValueError:
        return {"arguments": call.args}
    return parsed if isinstance(parsed, dict) else {"arguments": call.args}


def call_lines(call: ToolCallView) -> Iterator[str]:
    """A call for who is to decide on it: every argument, line by line; what is too long says how much is missing.

    A line that goes on is marked, so that no argument can be mistaken for another.
    """
    yield shown(call.name)
    for name, value in _parsed(call).items():
        text = value if isinstance(value, str) else jsonio.encode(value).decode("utf-8", "replace")
        first, *rest = shown(text[:_ASKED]).split("\n")
        yield f"  {one_line(name, _ARGUMENT)}: {first}"
        for line in rest:
            yield f"  | {line}"
        if len(text) > _ASKED:
            yield f"  ({len(text) - _ASKED} more characters are not shown: tenuto show --json has them)"


def result_line(name: str, result: ToolResult, outcome: str = "done", most: int = 1) -> str:
    """A result in one line, or in up to `most` lines: how it begins, and how much there is of it."""
    text = said_of(result.content).strip()
    lines = text.split("\n", most)
    count = text.count("\n") + 1 if text else 0
    first = one_line(lines[0], _LINE - len(name) - 20)
    mark = "!" if result.is_error else "<"
    how = "" if outcome in ("done", "failed") else f" [{outcome}]"
    head = f"{mark} {one_line(name, _ARGUMENT)}{how}: {first or '(nothing)'}"
    if most == 1:
        return f"{head} ({count} lines)" if count > 1 else head
    more = [f"    {clipped(shown(line[:_LINE]).expandtabs(), _LINE)}".rstrip() for line in lines[1:most]]
    if count > most:
        more.append(f"    ({count - most} more {'line' if count - most == 1 else 'lines'})")
    return "\n".join([head, *more])


def said_of(content: str | tuple[Content, ...]) -> str:
    """What a user or a tool said; what is no text is named."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, Text) else part_line(part) or "" for part in content)


def part_line(part: Block) -> str | None:
    """A part that has no words of its own, in a line; None for one that has, or that is nobody's business."""
    if isinstance(part, Image | Audio | Document):
        return f"[{type(part).__name__.lower()}]"
    if isinstance(part, ServerToolUse):
        return f"> {one_line(f'{part.name} {part.args}', _LINE)} (run by the provider)"
    if isinstance(part, CodeExecution):
        return f"> code {one_line(part.code, _LINE)} (run by the provider)"
    return None


def answer_of(message: AssistantMessage | None) -> str:
    """What the model says in a message: its text, or its words for why it will not answer."""
    if message is None:
        return ""
    return "".join(block.text for block in message.blocks if isinstance(block, Text | Refusal))


def usage_line(usage: Usage | None, cost: Decimal | float | None, seconds: float | None, model: str) -> str:
    """What was used, in a line: whom, tokens in and out, money in USD, time; what nobody knows is left out."""
    parts = [one_line(model, _ARGUMENT)]
    if usage is not None:
        parts += _tokens(usage)
    if cost is not None:
        parts.append(_money(cost))
    if seconds is not None:
        parts.append(f"{seconds:.1f} s")
    return "  ".join(filter(None, parts))


def _tokens(usage: Usage) -> Iterator[str]:
    if usage.prompt_tokens is not None:
        cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
        yield f"{usage.prompt_tokens:,} in{cached}"
    if usage.completion_tokens is not None:
        yield f"{usage.completion_tokens:,} out"


def _money(cost: Decimal | float) -> str:
    """Four places where it is little, as it mostly is; what is less than they can say is not nothing."""
    if cost < 0.0001:
        return "< $0.0001" if cost > 0 else "$0"
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"
