"""What becomes of a block on its way to a target: one table.

| block | issued by the target | made by hand | issued by somebody else |
|---|---|---|---|
| Text | keep | keep | strip; citations are translated |
| Refusal | keep | keep | strip |
| Reasoning | keep | keep | drop, or translate into a note |
| ToolUse | keep | keep | translate |
| Image, Audio, Document | keep | keep | translate |
| CodeExecution, CodeResult | keep | keep | translate |
| ServerToolUse, ServerToolResult | keep | keep | translate |
| Marker, Opaque | keep | keep | drop |

A block that was made by hand counts as somebody else's where its token or its form is of another dialect. Whatever is
somebody else's goes without its token and without the fields that only its own dialect knows. To translate is to write a
block as the target's dialect has it, or else as a short text in its place. Each time a `Loss` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Raw
from msgspec.structs import replace

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Block,
    CodeExecution,
    CodeResult,
    Document,
    Image,
    Marker,
    Opaque,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.loss import Loss
from tenuto.core.provider import Target
from tenuto.wire import placeholders
from tenuto.wire.rawjson import extra_fields, list_or_empty, text_or_empty
from tenuto.wire.registry import codec_for

__all__ = ["RULES", "TABLE", "Action", "BlockTranslator", "LossEffect", "accepts", "extra_fields"]

Action: TypeAlias = Literal["keep", "strip", "translate", "drop"]
LossEffect: TypeAlias = Literal["stripped", "translated", "dropped"]
_BACK = "going back to its issuer finds it in place"

TABLE: dict[type[Block], tuple[Action, Action, Action, tuple[str, ...]]] = {
    # block            own     by hand  foreign      why, beside foreign-token and foreign-fields
    Text:             ("keep", "keep", "translate", ("foreign-citations", "citations-translated")),
    Refusal:          ("keep", "keep", "strip", ()),
    Reasoning:        ("keep", "keep", "drop", ("foreign-reasoning", "reasoning-noted", "reasoning-inlined")),
    ToolUse:          ("keep", "keep", "translate", ("custom-tool", "foreign-call")),
    Image:            ("keep", "keep", "translate", ("stand-in",)),
    Audio:            ("keep", "keep", "translate", ("stand-in",)),
    Document:         ("keep", "keep", "translate", ("stand-in",)),
    CodeExecution:    ("keep", "keep", "translate", ("stand-in",)),
    CodeResult:       ("keep", "keep", "translate", ("code-translated", "stand-in")),
    ServerToolUse:    ("keep", "keep", "translate", ("code-translated", "stand-in")),
    ServerToolResult: ("keep", "keep", "translate", ("code-translated", "stand-in")),
    Marker:           ("keep", "keep", "drop", ("foreign-block",)),
    Opaque:           ("keep", "keep", "drop", ("foreign-block",)),
}  # fmt: skip
RULES: dict[str, LossEffect] = {
    "foreign-token": "stripped",
    "foreign-fields": "stripped",
    "foreign-citations": "translated",
    "citations-translated": "translated",
    "foreign-reasoning": "dropped",
    "reasoning-noted": "translated",
    "reasoning-inlined": "translated",
    "custom-tool": "translated",
    "foreign-call": "translated",
    "code-translated": "translated",
    "stand-in": "translated",
    "foreign-block": "dropped",
}
"""What each of these losses means for its block."""

_CODE = frozenset(("code_execution", "code_interpreter"))
_OUTCOMES = ("OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED", "OUTCOME_UNSPECIFIED")


def _says_nothing(name: str, value: bytes) -> bool:
    """Tell whether an extra field holds nothing; an empty `content` only tells the form that the content came in."""
    return value in (b"null", b"[]") or (name == "content" and value == b"{}")


def accepts(block: Block, target: Target) -> bool:
    """Return whether a block that no provider issued can be sent to this target: by its token, then by its form."""
    codec = codec_for(target.dialect)
    if block.meta is not None and not isinstance(block.meta, codec.metas):
        return False
    if isinstance(block, Opaque):
        return block.dialect == target.dialect
    return codec.accepts(block, target)


# --- what is done -----------------------------------------------------------------------------------------------------

Made: TypeAlias = "tuple[Block | str, ...]"
"""What is made of a block: other blocks, and short texts that stand in."""


class BlockTranslator:
    """Makes the blocks of turns fit for one target. `losses` grows by what does not come along.

    `notes` collects the readable reasoning of others; None if it is not sent as a note. With `inline` it is sent as text.
    """

    def __init__(self, target: Target, losses: list[Loss], *, inline: bool = False) -> None:
        self.notes: list[str] | None = None
        self._inline = inline
        self._target = target
        self._losses = losses
        self._codec = codec_for(target.dialect)
        self._translate: dict[type[Block], Callable[[Any, str], Made]] = {
            Text: self._text,
            ToolUse: self._call,
            Image: self._media,
            Audio: self._media,
            Document: self._media,
            CodeExecution: self._code,
            CodeResult: self._code,
            ServerToolUse: self._served,
            ServerToolResult: self._served,
        }

    def blocks(self, given: list[tuple[int, Block]], turn: int, *, by_hand: bool) -> list[tuple[int, Block]]:
        """Return what goes out for the blocks of a turn; each has its place in it, here and there."""
        places: list[int] = []
        found: list[Block | str] = []
        for at, block in given:
            kept = by_hand and accepts(block, self._target)
            found += (block,) if kept else self._made(block, f"messages[{turn}].blocks[{at}]")
            places += [at] * (len(found) - len(places))
        return list(zip(places, _set_off(found), strict=True))

    def fields(self, extra: str, place: str) -> None:
        """Record the loss of fields that only their own dialect knows; those that say nothing are none."""
        said = [name for name, value in extra_fields(extra).items() if not _says_nothing(name, bytes(value))]
        if said or (extra and not extra_fields(extra)):
            self._lose("foreign-fields", place, ", ".join(said) or "what cannot be read")

    def _lose(self, rule: str, place: str, what: str, remedy: str = _BACK) -> None:
        self._losses.append(Loss(rule, place, what, remedy))

    def _made(self, block: Block, place: str) -> Made:
        deed = TABLE[type(block)][2]
        if block.meta is not None:
            self._lose("foreign-token", place, type(block.meta).__name__)
        if not isinstance(block, ServerToolUse):  # what it gave may stand there
            self.fields(block.extra, place)
        if isinstance(block, Reasoning) and self._inline and block.text.strip():
            self._lose("reasoning-inlined", place, f"{len(block.text)} characters of reasoning are sent as text")
            text = f"[Reasoning: {block.text}]"
            return (Text(text),) if self._codec.separate_reasoning_text else (text,)
        if deed == "drop":
            self._drop(block, place)
            return ()
        bare = replace(block, meta=None, extra="") if block.meta is not None or block.extra else block
        return (bare,) if deed == "strip" else self._translate[type(block)](block, place)

    def _drop(self, block: Block, place: str) -> None:
        if not isinstance(block, Reasoning):
            kind = getattr(block, "kind", "") or getattr(block, "dialect", "")
            self._lose("foreign-block", place, f"{type(block).__name__} {kind}".strip())
        elif self.notes is not None and block.text.strip():
            self.notes.append(block.text.strip())
            self._lose("reasoning-noted", place, f"{len(block.text)} characters are told in a note of the user's")
        else:
            self._lose("foreign-reasoning", place, f"{len(block.text)} characters of reasoning")

    def _stand_in(self, block: Block, place: str, text: str) -> Made:
        self._lose("stand-in", place, f"{type(block).__name__}: {text}"[:240])
        return (text,)

    def _text(self, block: Text, place: str) -> Made:
        bare = replace(block, meta=None, extra="", citations=())
        if not block.citations:
            return (bare,)
        pages = [cited for cited in block.citations if isinstance(cited, UrlCitation)]
        if self._codec.holds_annotations and pages and block.text:
            self._lose(
                "citations-translated", place, f"{len(pages)} of {len(block.citations)} citations became annotations"
            )
            return (replace(bare, citations=tuple(_annotation(page, block.text) for page in pages)),)
        told = placeholders.describe_sources(block.citations)
        self._lose(
            "foreign-citations", place, f"{len(block.citations)} citations {'are told' if told else 'without a name'}"
        )
        return (bare, told) if told else (bare,)

    def _call(self, block: ToolUse, place: str) -> Made:
        block = replace(block, meta=None, extra="")
        if block.kind == "custom":
            self._lose("custom-tool", place, "free text input became a string named `input`")
            block = replace(block, args=jsonio.as_text(jsonio.encode({"input": block.args})))
        elif block.kind != "function":
            self._lose("foreign-call", place, f"{block.kind} became a plain call")
        generated = block.id_generated and not self._codec.call_needs_id
        return (replace(block, kind="function", id_generated=generated, args_missing=False, args=block.args or "{}"),)

    def _media(self, block: Image | Audio | Document, place: str) -> Made:
        if self._codec.holds_media and (block.data or block.url.startswith(("data:", "http"))):
            if block.file_id:
                self._lose("foreign-fields", place, f"file {block.file_id[:80]}: what it holds goes along")
            return (replace(block, meta=None, extra="", file_id=""),)
        return self._stand_in(block, place, placeholders.describe_media(block))

    def _code(self, block: CodeExecution | CodeResult, place: str) -> Made:
        if block.id:
            self._lose("foreign-fields", place, f"id {block.id[:80]}")
        block = replace(block, meta=None, extra="", id="")
        if self._codec.holds_code and isinstance(block, CodeExecution) and block.code:
            return (replace(block, language=block.language or "PYTHON"),)
        if self._codec.holds_code and isinstance(block, CodeResult):
            if block.outcome not in _OUTCOMES:
                self._lose("code-translated", place, f"the outcome {block.outcome[:80]!r} became {_OUTCOMES[0]}")
                block = replace(block, outcome=_OUTCOMES[0])
            return (block,)
        told = (
            placeholders.describe_code(block)
            if isinstance(block, CodeExecution)
            else placeholders.describe_result(block)
        )
        return self._stand_in(block, place, told)

    def _served(self, block: ServerToolUse | ServerToolResult, place: str) -> Made:
        code = _as_code(block) if self._codec.holds_code else ()
        if code:
            self._lose("code-translated", place, f"{block.kind} became {len(code)} parts")
            return code
        if isinstance(block, ServerToolResult):
            return self._stand_in(block, place, placeholders.describe_result(block))
        told = placeholders.describe_call(block)
        gave = (
            placeholders.describe_result(ServerToolResult(block.id, jsonio.as_text(outputs)))
            if (outputs := _outputs(block))
            else ""
        )
        return self._stand_in(block, place, f"{told} {gave}".rstrip())


def _set_off(found: list[Block | str]) -> Iterator[Block]:
    """Make texts of the stand-ins, on lines of their own: some dialects join neighbouring texts."""
    for at, made in enumerate(found):
        if not isinstance(made, str):
            yield made
            continue
        before = "\n" if at and isinstance(found[at - 1], Text) else ""
        after = "\n" if at + 1 < len(found) and isinstance(found[at + 1], Text | str) else ""
        yield Text(f"{before}{made}{after}")


def _annotation(page: UrlCitation, text: str) -> UrlCitation:
    """Write a citation as Responses has them. Others count in their own way, so it stands for the whole text."""
    fields = {
        "type": "url_citation",
        "url": page.url,
        "title": page.title or "",
        "start_index": 0,
        "end_index": len(text),
    }
    raw = jsonio.as_text(jsonio.encode(fields))
    return UrlCitation(page.url, page.title or "", start_index=0, end_index=len(text), raw=raw)


def _outputs(block: ServerToolUse) -> Raw | None:
    """Return what a provider's tool gave where that stands on the call itself."""
    held = extra_fields(block.extra)
    return next(
        (held[name] for name in ("outputs", "output", "results") if bytes(held.get(name, b"null")) != b"null"), None
    )


def _as_code(block: ServerToolUse | ServerToolResult) -> tuple[Block, ...]:
    """Return code that another provider ran as Gemini has it; nothing if it is no Python, or cannot be read."""
    if isinstance(block, ServerToolUse):
        if block.name not in _CODE:
            return ()
        code = block.args if block.kind.endswith("_call") else text_or_empty(extra_fields(block.args).get("code"))
        outputs = _outputs(block)
        gave = (CodeResult("OUTCOME_OK", _logs(outputs)),) if outputs is not None else ()
        return (CodeExecution(code, "PYTHON"), *gave) if code else ()
    held = extra_fields(block.content) if block.kind == "code_execution_tool_result" else {}
    if text_or_empty(held.get("type")) != "code_execution_result":
        return ()
    failed = bytes(held.get("return_code", b"0")) != b"0"
    output = text_or_empty(held.get("stderr")) if failed else text_or_empty(held.get("stdout"))
    return (CodeResult("OUTCOME_FAILED" if failed else "OUTCOME_OK", output),)


def _logs(outputs: Raw) -> str:
    listed = list_or_empty(outputs)
    return "\n".join(
        text_or_empty(extra_fields(jsonio.as_text(one)).get("logs")) for one in listed if bytes(one)[:1] == b"{"
    )
