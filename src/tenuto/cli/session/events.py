"""Print the events of a run, each kind with its own line."""

from __future__ import annotations

from decimal import Decimal

from tenuto.agent import events as agent
from tenuto.cli.errors import error_kind, plural
from tenuto.cli.session.call_view import format_call
from tenuto.cli.terminal.display import Display
from tenuto.cli.terminal.text import escape_control, one_line, truncate
from tenuto.core import blocks, events
from tenuto.core.messages import Content, ToolResult, Usage
from tenuto.core.response import ChatResponse
from tenuto.wire.loss_report import summarize_losses

_ARGUMENT_LENGTH = 60
_LINE_LENGTH = 160
_RESULT_LINES = 4  # the maximum number of lines of a result on a terminal


class EventPrinter:
    def __init__(self, display: Display, model: str, *, thinking: bool) -> None:
        self._display = display
        self._model = model
        self._thinking = thinking
        self._running: dict[int, str] = {}  # the running calls, by their index in the reply
        self._used = Usage()  # the usage of earlier replies

    def handle(self, event: events.StreamEvent | agent.AgentEvent) -> None:
        display = self._display
        match event:
            case events.ContentDelta(choice_index=0, delta=events.TextDelta() as delta):
                display.answer(delta.text)
            case events.ContentDelta(choice_index=0, delta=events.ThinkingDelta() as delta) if self._thinking:
                display.thinking(delta.thinking)
            case events.ContentStart(part=blocks.Reasoning()):
                display.status(f"{self._model} is thinking")
            case events.ContentStart(part=blocks.Text()):
                display.status(f"{self._model} is answering")
            case events.ContentStart(part=blocks.ToolUse() as part):
                display.status(f"{self._model} is calling {part.name}")
            case events.ContentDone():
                self._part_done(event.part)
            case events.MessageStart():
                self._discard_reply("the provider started over")
            case events.UsageUpdate():
                self._count_tokens(event.usage)
            case agent.ToolStarted() | agent.ToolProgress() | agent.ToolFinished():
                self._tool(event)
            case agent.TurnStarted():
                display.begin_reply()
                self._running.clear()
                display.status(f"asking {self._model}")
            case agent.Retrying():
                reason = error_kind(event.error)
                self._discard_reply(reason)
                message = one_line(event.message, _LINE_LENGTH)
                display.info(f"! {reason}: {message}; retrying in {event.delay:.1f} s", "yellow")
            case agent.ModelChanged():
                self._model = event.model
                losses = f"\n{summarize_losses(event.losses)}" if event.losses else ""
                display.info(f"! switched to {one_line(event.model, _LINE_LENGTH)}{losses}", "yellow")
            case agent.RefusedBlockDropped():
                display.info(f"! omitted: {one_line(event.loss.detail, _LINE_LENGTH)}", "yellow")
            case agent.CompactionStarted():
                display.status("summarizing older messages")
            case agent.CompactionFinished():
                sizes = f"{event.before:,} -> about {event.after:,} tokens"
                display.info(f"! {'no usable summary was made' if event.failed else f'compacted: {sizes}'}", "yellow")
            case agent.SubAgentEvent():
                inner = event.event
                while isinstance(inner, agent.SubAgentEvent):
                    inner = inner.event
                if line := _format_tool_event(inner):
                    display.info(f"    {event.call.name}: {line}", "dim")
            case events.MessageDone():
                self._reply_done(event.response)
            case agent.RunStopped():
                display.status("")
                display.end_line()

    def _tool(self, event: agent.ToolStarted | agent.ToolProgress | agent.ToolFinished) -> None:
        line = _format_tool_event(event, _RESULT_LINES if self._display.terminal.is_err_live else 1)
        if isinstance(event, agent.ToolStarted):
            self._running[event.ordinal] = event.call.name
            name, space, rest = line.removeprefix("> ").partition(" ")
            self._display.info(f"{space}{rest}", lead=f"> {name}")
        else:
            self._display.info(line, "red" if line.startswith("!") else "dim")
        if isinstance(event, agent.ToolFinished):
            self._running.pop(event.ordinal, None)
        self._display.status(f"running {', '.join(self._running.values())}" if self._running else "")

    def _part_done(self, part: blocks.Block) -> None:
        """Print parts without text, such as provider tools, as one line."""
        if isinstance(part, blocks.Reasoning):
            if self._thinking and part.text:
                self._display.end_line()
            self._display.status(f"asking {self._model}")
        elif (line := format_part(part)) is not None:
            self._display.end_line()
            self._display.info(line, "dim")

    def _reply_done(self, response: ChatResponse) -> None:
        """Print text before tool calls with the other messages if there is no terminal: it is not the answer."""
        self._display.status("")
        self._display.end_line()
        if response.usage is not None:
            self._count_tokens(response.usage)
            self._used += response.usage
        text = response.text.strip()
        if (
            text
            and response.message.has_tool_calls()
            and not (self._display.terminal.is_out_terminal or self._display.terminal.streams)
        ):
            self._display.info(text)

    def _count_tokens(self, usage: Usage) -> None:
        total = (self._used + usage).total_tokens
        self._display.usage = f"{total:,} tokens" if total else ""

    def _discard_reply(self, why: str) -> None:
        if self._display.discard_reply():
            self._display.info(f"! reply interrupted ({why}); ignore the text above", "yellow")


def _format_tool_event(event: object, lines: int = 1) -> str:
    if isinstance(event, agent.ToolStarted):
        again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
        return f"> {format_call(event.call)}{again}"
    if isinstance(event, agent.ToolProgress):
        return f". {event.call.name}: {one_line(event.text, _LINE_LENGTH)}"
    if isinstance(event, agent.ToolFinished):
        return format_result(event.call.name, event.result, event.outcome, lines)
    return ""


def format_result(name: str, result: ToolResult, outcome: str = "done", most: int = 1) -> str:
    """Return a result in up to `most` lines, with the number of omitted lines."""
    text = content_text(result.content).strip()
    count = text.count("\n") + 1
    lines = [escape_control(line[:_LINE_LENGTH]).expandtabs() for line in text.split("\n", most)[:most]]
    first = truncate(lines[0], _LINE_LENGTH - len(name) - 20) or "(empty)"
    how = "" if outcome in ("done", "failed") else f" [{outcome}]"
    head = f"{'!' if result.is_error else '<'} {one_line(name, _ARGUMENT_LENGTH)}{how}: {first}"
    if most == 1:
        return f"{head} ({count} lines)" if count > 1 else head
    more = [f"    {truncate(line, _LINE_LENGTH)}".rstrip() for line in lines[1:]]
    if count > most:
        more.append(f"    ({plural(count - most, 'more line')})")
    return "\n".join([head, *more])


def content_text(content: str | tuple[Content, ...]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, blocks.Text) else format_part(part) or "" for part in content)


def format_part(part: blocks.Block) -> str | None:
    """Return a part without text as one line; None for other parts."""
    if isinstance(part, blocks.Image | blocks.Audio | blocks.Document):
        return f"[{type(part).__name__.lower()}]"
    if isinstance(part, blocks.ServerToolUse):
        return f"> {one_line(f'{part.name} {part.args}', _LINE_LENGTH)} (run by the provider)"
    if isinstance(part, blocks.CodeExecution):
        return f"> code {one_line(part.code, _LINE_LENGTH)} (run by the provider)"
    return None


def format_usage(usage: Usage | None, cost: Decimal | float | None, seconds: float | None, model: str) -> str:
    """Return model, tokens, cost in USD and time as one line, without unknown values."""
    parts = [one_line(model, _ARGUMENT_LENGTH)]
    if usage is not None and usage.prompt_tokens is not None:
        cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
        parts.append(f"{usage.prompt_tokens:,} in{cached}")
    if usage is not None and usage.completion_tokens is not None:
        parts.append(f"{usage.completion_tokens:,} out")
    if cost is not None:
        parts.append(_format_money(cost))
    if seconds is not None:
        parts.append(f"{seconds:.1f} s")
    return "  ".join(filter(None, parts))


def _format_money(cost: Decimal | float) -> str:
    if cost < 0.0001:
        return "< $0.0001" if cost > 0 else "$0"
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"
