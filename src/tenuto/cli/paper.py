"""A session as a Markdown document, to be read and passed on.

What was said stands in quotes, what was thought, called and returned in fences. So whatever a model, a tool or a user wrote
cannot be taken for a part of the document: no fence in it ends ours, no heading stands among ours, and HTML is shown, not
obeyed. What is invisible is spelt out. The document is for people: an export as JSONL has the very bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tenuto.cli.escaping import one_line, shown
from tenuto.cli.losing import loss_line
from tenuto.cli.reading import status_text, when
from tenuto.cli.render import part_line, said_of
from tenuto.core.blocks import Block, Reasoning, Refusal, Text, ToolUse
from tenuto.core.journal import (
    ApprovalDecided,
    CallFinished,
    Compacted,
    Configured,
    Entry,
    EntryPayload,
    HandedOver,
    LossRecorded,
    MessageAdded,
    ReplyReceived,
    RequestFailed,
    RunEnded,
    SteeringAdded,
    SubSessionLinked,
    TranscriptFold,
    UnknownPayload,
)
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage, Message, UserMessage
from tenuto.store.protocol import StoredSession

__all__ = ["code", "fenced", "paper", "plain", "quoted"]

_LINE = 400
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&!])")
_TICKS = re.compile(r"`+")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_FENCE = re.compile(r"(`{3,})[^`]*|(~{3,}).*")
_ENDS = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*")


def paper(stored: StoredSession, entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the document, piece by piece."""
    meta = stored.meta
    facts = [
        f"session {code(stored.id)}",
        status_text(stored.status, stored.reason),
        code(meta.model),
        f"{meta.message_count} messages",
    ]
    facts += [f"begun {when(meta.created_at)}"] if meta.created_at else []
    facts += [f"forked off {code(stored.parent)}"] if stored.parent else []
    yield f"# {plain(stored.name or meta.title, 120) or 'A session'}\n\n"
    yield f"{', '.join(fact for fact in facts if fact)}\n"
    page = _Paper()
    for entry in entries:
        for piece in page.entry(entry):
            yield f"\n{piece}"


# --- what cannot break out --------------------------------------------------------------------------------------------


def plain(text: str, most: int = _LINE) -> str:
    """Return a text as one line of the document's own, in which nothing is Markdown."""
    return _SPECIAL.sub(r"\\\1", one_line(text, most))


def code(text: str) -> str:
    """Return a name as code within a line; empty stays empty."""
    line = one_line(text, _LINE)
    if not line:
        return ""
    ticks = "`" * (1 + max(map(len, _TICKS.findall(line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def fenced(text: str, kind: str = "text") -> str:
    """Return a text in a fence that nothing in it can end."""
    body = shown(text)  # also lone carriage returns, which end a line for some who read Markdown
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(body)), default=0))
    return f"{fence}{kind}\n{body}{'' if not body or body.endswith(chr(10)) else chr(10)}{fence}\n"


def quoted(text: str) -> str:
    """Return words as a quote. They are Markdown, most of them, and stay it; but for HTML, which is shown."""
    return "".join(f"> {line}\n" if line else ">\n" for line in _tamed(shown(text).strip("\n")).split("\n"))


def _tamed(text: str) -> str:
    """Spell out what begins HTML, but not within code, where it means nothing and would be seen spelt out.

    Where code begins and ends is told only in the plainest case: fences at the beginning of lines, and ticks that come in
    pairs within a line. In any other, everything is spelt out.
    """
    lines = text.split("\n")
    if not _is_plain(lines):
        return _TAG.sub("&lt;", text)
    tamed: list[str] = []
    fence = ""
    for line in lines:
        if fence:
            tamed.append(line)
            fence = "" if _ends(fence, line) else fence
        elif _FENCE.fullmatch(line):
            tamed.append(line)
            fence = line[: len(line) - len(line.lstrip(line[0]))]
        else:
            tamed.append("".join(_tamed_around(line)))
    return "\n".join(tamed)


def _is_plain(lines: list[str]) -> bool:
    fence = ""
    for line in lines:
        if ("```" in line or "~~~" in line) and not _FENCE.fullmatch(line):
            return False
        if fence:
            fence = "" if _ends(fence, line) else fence
        elif _FENCE.fullmatch(line):
            fence = line[: len(line) - len(line.lstrip(line[0]))]
        elif "\\`" in line or list(_spans(line))[-1:] == [None]:
            return False
    return True


def _ends(fence: str, line: str) -> bool:
    found = _ENDS.fullmatch(line)
    return found is not None and found[1][0] == fence[0] and len(found[1]) >= len(fence)


def _spans(line: str) -> Iterator[tuple[int, int] | None]:
    """Yield where the code in a line begins and ends; None if ticks are left that have no match."""
    runs = list(_TICKS.finditer(line))
    while runs:
        first = runs.pop(0)
        at = next((at for at, run in enumerate(runs) if len(run[0]) == len(first[0])), None)
        if at is None:
            yield None
            return
        yield first.start(), runs[at].end()
        runs = runs[at + 1 :]


def _tamed_around(line: str) -> Iterator[str]:
    """A bar may end a cell of a table, and code with it."""
    done = 0
    for span in _spans(line):
        assert span is not None  # or the line would not be plain
        start, end = span
        yield _TAG.sub("&lt;", line[done:start])
        yield line[start:end] if "|" not in line[start:end] else _TAG.sub("&lt;", line[start:end])
        done = end
    yield _TAG.sub("&lt;", line[done:])


# --- the document -----------------------------------------------------------------------------------------------------


class _Paper:
    """Follows a journal, since a result names its call only by its place."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._model = ""
        self._fold = TranscriptFold()

    def entry(self, entry: Entry) -> Iterator[str]:
        """Yield what an entry comes to; most of those that only keep the books come to nothing."""
        act = entry.payload
        self._fold.apply(entry)
        if isinstance(act, UnknownPayload):
            yield f"Entry {entry.seq}, of a later version of tenuto: {code(act.kind)}\n"
            yield fenced(act.raw, "json")
        elif isinstance(act, ReplyReceived):
            yield from self._reply(act)
        elif isinstance(act, CallFinished):
            yield from self._result(act)
        elif isinstance(act, MessageAdded | SteeringAdded):
            yield from _message(act.message, f" ({len(self._fold)})")
        else:
            yield from self._rest(act)

    def _rest(self, act: EntryPayload) -> Iterator[str]:
        if isinstance(act, Configured):
            yield from self._configured(act)
        elif isinstance(act, RequestFailed):
            yield f"Asking failed: {plain(f'{act.error}: {act.message}')}\n"
        elif isinstance(act, ApprovalDecided):
            why = f": {plain(act.reason)}" if act.reason else ""
            yield f"{self._name(act.call_index)} was {'allowed' if act.allowed else 'denied'}{why}\n"
        elif isinstance(act, SubSessionLinked):
            yield f"Answered in session {code(act.session)}\n"
        elif isinstance(act, HandedOver):
            yield f"Handed over to {code(act.model)}\n"
            yield from map(_loss, act.losses)
        elif isinstance(act, LossRecorded):
            yield _loss(act.loss)
        elif isinstance(act, Compacted):
            yield f"What stands above entry {act.up_to_seq} is summed up from here on:\n"
            for message in act.messages:
                yield from _message(message)
        elif isinstance(act, RunEnded):
            reason = status_text(act.reason, act.waiting_for)
            yield f"---\n\nEnded: {plain(reason)}{f': {plain(act.detail)}' if act.detail else ''}\n"

    def _configured(self, act: Configured) -> Iterator[str]:
        if self._model and self._model != act.model:
            yield f"Asks {code(act.model)} from here on\n"
        if act.system and not self._model:
            yield "## system\n"
            yield quoted(act.system)
        self._model = act.model

    def _reply(self, act: ReplyReceived) -> Iterator[str]:
        message = act.message
        self._names = tuple(call.name for call in message.tool_calls())
        yield f"## {code(self._model) or 'model'} ({len(self._fold)})\n"
        for block in message.blocks:
            yield from _block(block)
        if message.stop_reason in ("length", "content_filter", "error"):
            yield f"Cut off: {message.stop_reason}\n"
        yield from map(_loss, act.losses)

    def _result(self, act: CallFinished) -> Iterator[str]:
        how = "" if act.outcome == "done" else f" ({plain(act.outcome)})"
        yield f"Result of {self._name(act.call_index)}{how}:\n"
        yield fenced(said_of(act.result.content))

    def _name(self, ordinal: int) -> str:
        return code(self._names[ordinal]) if 0 <= ordinal < len(self._names) else f"call {ordinal}"


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Reasoning):
        if block.text:
            yield f"<details>\n<summary>Thinking</summary>\n\n{fenced(block.text)}\n</details>\n"
        else:
            yield "Thinking, which is withheld\n"
    elif isinstance(block, Text | Refusal):
        if block.text.strip():
            yield quoted(block.text)
    elif isinstance(block, ToolUse):
        yield f"Calls {code(block.name)}:\n"
        yield fenced(block.args, "json")
    elif (line := part_line(block)) is not None:
        yield f"{plain(line)}\n"


def _message(message: Message, number: str = "") -> Iterator[str]:
    if isinstance(message, UserMessage):
        who, text = "user", said_of(message.content)
    else:
        who, text = ("model" if isinstance(message, AssistantMessage) else "system"), str(message)
    yield f"## {who}{number}\n"
    if text.strip():
        yield quoted(text)


def _loss(loss: Loss) -> str:
    return f"- lost: {plain(loss_line(loss))}\n"
