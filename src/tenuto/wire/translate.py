"""Translate the blocks of a turn for a target that did not issue them.

Blocks that no provider issued pass unchanged if the target accepts them. Any other block loses its token and the fields
of its dialect and is dropped, written in the target's dialect, or replaced by a placeholder of one short line: a long
tool output would fill the context window, and the model would take it for its own text. Each change is a `Loss`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Raw
from msgspec.structs import replace

from tenuto.core import jsonio
from tenuto.core.blocks import (
    Audio,
    Block,
    Citation,
    CodeExecution,
    CodeResult,
    Document,
    DocumentCitation,
    Image,
    Marker,
    Opaque,
    PageCitation,
    Reasoning,
    Refusal,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolUse,
    UrlCitation,
)
from tenuto.core.jsonio import NULL, extra_fields_or_empty, is_null, is_object, list_or_empty, text_or_empty
from tenuto.core.loss import Location, Loss
from tenuto.core.provider import Target
from tenuto.wire.codec import codec_for

LossEffect: TypeAlias = Literal["stripped", "translated", "dropped"]
_RETURNS = "it is sent again when the session returns to its issuer"

_EFFECTS: dict[LossEffect, str] = {
    "stripped": "foreign-token foreign-fields item-id",
    "translated": """
        foreign-citations citations-translated reasoning-noted reasoning-inlined custom-tool foreign-call
        code-translated stand-in call-id-mapped open-call calls-last first-turn bridged-turn
    """,
    "dropped": "foreign-reasoning foreign-block orphan-result incomplete-turn left-out prefill-refused",
}
LOSS_EFFECTS = {kind: effect for effect, kinds in _EFFECTS.items() for kind in kinds.split()}
"""What each kind of loss does to the block or message at its place."""

MAX_TEXT = 200  # characters of a call or a result in a placeholder
_READABLE = frozenset(("title", "url", "text", "stdout", "stderr", "output", "logs", "error_code", "content", "result"))
"""Names of the fields of a result whose strings a placeholder contains."""
_KINDS = {Image: "picture", Audio: "sound", Document: "document"}
_CODE = frozenset(("code_execution", "code_interpreter"))
_EMPTY_FIELDS = (b"null", b"[]")
_OUTCOMES = ("OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED", "OUTCOME_UNSPECIFIED")


def accepts(block: Block, target: Target) -> bool:
    """Return whether a block that no provider issued can be sent to this target: by its token, then by its form."""
    codec = codec_for(target.dialect)
    if block.meta is not None and not isinstance(block.meta, codec.metas):
        return False
    if isinstance(block, Opaque):
        return block.dialect == target.dialect
    return codec.accepts(block, target)


Translation: TypeAlias = "tuple[Block | str, ...]"  # the translation of a block: other blocks, and placeholder texts


class BlockTranslator:
    """Translate the blocks of turns for one target; with `inline`, readable reasoning is sent as text."""

    def __init__(self, target: Target, losses: list[Loss], *, inline: bool = False) -> None:
        self.notes: list[str] | None = None
        """Collects the readable reasoning of other models; None: it is not sent as a note."""
        self._inline = inline
        self._target = target
        self._losses = losses
        self._codec = codec_for(target.dialect)

    def blocks(self, blocks: list[tuple[int, Block]], turn: int, *, by_hand: bool) -> list[tuple[int, Block]]:
        """Translate the blocks of a turn, each with its index before. `by_hand`: no provider issued the turn."""
        places: list[int] = []
        result: list[Block | str] = []
        for index, block in blocks:
            is_accepted = by_hand and accepts(block, self._target)
            result += (block,) if is_accepted else self._translate_block(block, Location(turn, index))
            places += [index] * (len(result) - len(places))
        return list(zip(places, _separate_placeholders(result), strict=True))

    def fields(self, extra: str, place: Location) -> None:
        """Record the loss of fields that only their own dialect knows; empty ones are not a loss."""
        fields = extra_fields_or_empty(extra)
        if bytes(fields.get("content", b"")) == b"{}":
            fields["content"] = NULL  # it only shows the form of the content
        names = [name for name, value in fields.items() if bytes(value) not in _EMPTY_FIELDS]
        if names or (extra and not fields):
            self._lose("foreign-fields", place, ", ".join(names) or "unreadable fields")

    def _lose(self, kind: str, place: Location, detail: str, remedy: str = _RETURNS) -> None:
        self._losses.append(Loss(kind, place, detail, remedy))

    def _translate_block(self, block: Block, place: Location) -> Translation:
        if block.meta is not None:
            self._lose("foreign-token", place, type(block.meta).__name__)
        if not isinstance(block, ServerToolUse):  # its extra fields can have the result
            self.fields(block.extra, place)
        return _TRANSLATORS[type(block)](self, block, place)

    def _drop(self, block: Marker | Opaque, place: Location) -> Translation:
        kind = block.kind if isinstance(block, Marker) else block.dialect
        self._lose("foreign-block", place, f"{type(block).__name__} {kind}".strip())
        return ()

    def _refusal(self, block: Refusal, _: Location) -> Translation:
        return (replace(block, meta=None, extra=""),)

    def _reasoning(self, block: Reasoning, place: Location) -> Translation:
        size = f"{len(block.text)} characters"
        if self._inline and block.text.strip():
            self._lose("reasoning-inlined", place, f"{size} of reasoning are sent as text")
            text = f"[Reasoning: {block.text}]"
            return (Text(text),) if self._codec.separate_reasoning_text else (text,)
        if self.notes is not None and block.text.strip():
            self.notes.append(block.text.strip())
            self._lose("reasoning-noted", place, f"{size} are sent in a user message")
        else:
            self._lose("foreign-reasoning", place, f"{size} of reasoning")
        return ()

    def _use_placeholder(self, block: Block, place: Location) -> Translation:
        text = _describe(block)
        self._lose("stand-in", place, f"{type(block).__name__}: {text}"[:240])
        return (text,)

    def _text(self, block: Text, place: Location) -> Translation:
        bare = replace(block, meta=None, extra="", citations=())
        if not block.citations:
            return (bare,)
        pages = [cited for cited in block.citations if isinstance(cited, UrlCitation)]
        if self._codec.holds_annotations and pages and block.text:
            detail = f"{len(pages)} of {len(block.citations)} citations became annotations"
            self._lose("citations-translated", place, detail)
            return (replace(bare, citations=tuple(_annotation(page, block.text) for page in pages)),)
        sources = _describe_sources(block.citations)
        detail = f"{len(block.citations)} citations {'became text' if sources else 'without a name'}"
        self._lose("foreign-citations", place, detail)
        return (bare, sources) if sources else (bare,)

    def _call(self, block: ToolUse, place: Location) -> Translation:
        block = replace(block, meta=None, extra="")
        if block.kind == "custom":
            self._lose("custom-tool", place, "free text input became a string named `input`")
            block = replace(block, args=jsonio.as_text(jsonio.encode({"input": block.args})))
        elif block.kind != "function":
            self._lose("foreign-call", place, f"{block.kind} became a plain call")
        generated = block.id_generated and not self._codec.call_needs_id
        return (replace(block, kind="function", id_generated=generated, args_missing=False, args=block.args or "{}"),)

    def _media(self, block: Image | Audio | Document, place: Location) -> Translation:
        if self._codec.holds_media and (block.data or block.url.startswith(("data:", "http"))):
            if block.file_id:
                self._lose("foreign-fields", place, f"file {block.file_id[:80]}: its content is sent")
            return (replace(block, meta=None, extra="", file_id=""),)
        return self._use_placeholder(block, place)

    def _code(self, block: CodeExecution | CodeResult, place: Location) -> Translation:
        if block.id:
            self._lose("foreign-fields", place, f"id {block.id[:80]}")
        block = replace(block, meta=None, extra="", id="")
        if not self._codec.holds_code or (isinstance(block, CodeExecution) and not block.code):
            return self._use_placeholder(block, place)
        if isinstance(block, CodeExecution):
            return (replace(block, language=block.language or "PYTHON"),)
        if block.outcome not in _OUTCOMES:
            self._lose("code-translated", place, f"the outcome {block.outcome[:80]!r} became {_OUTCOMES[0]}")
            block = replace(block, outcome=_OUTCOMES[0])
        return (block,)

    def _server_tool(self, block: ServerToolUse | ServerToolResult, place: Location) -> Translation:
        code = _as_code(block) if self._codec.holds_code else ()
        if code:
            self._lose("code-translated", place, f"{block.kind} became {len(code)} parts")
            return code
        return self._use_placeholder(block, place)


_TRANSLATORS: dict[type[Block], Callable[[BlockTranslator, Any, Location], Translation]] = {
    Text: BlockTranslator._text,
    Refusal: BlockTranslator._refusal,
    Reasoning: BlockTranslator._reasoning,
    ToolUse: BlockTranslator._call,
    Image: BlockTranslator._media,
    Audio: BlockTranslator._media,
    Document: BlockTranslator._media,
    CodeExecution: BlockTranslator._code,
    CodeResult: BlockTranslator._code,
    ServerToolUse: BlockTranslator._server_tool,
    ServerToolResult: BlockTranslator._server_tool,
    Marker: BlockTranslator._drop,
    Opaque: BlockTranslator._drop,
}
"""How to handle each type of block that the target did not issue."""


def _separate_placeholders(blocks: list[Block | str]) -> Iterator[Block]:
    """Make each placeholder a text on a line of its own: some dialects join adjacent texts."""
    for index, block in enumerate(blocks):
        if not isinstance(block, str):
            yield block
            continue
        before = "\n" if index and isinstance(blocks[index - 1], Text) else ""
        after = "\n" if index + 1 < len(blocks) and isinstance(blocks[index + 1], Text | str) else ""
        yield Text(f"{before}{block}{after}")


def _annotation(page: UrlCitation, text: str) -> UrlCitation:
    """Write a citation as a Responses annotation of the whole text: providers count positions differently."""
    title, end = page.title or "", len(text)
    fields = {"type": "url_citation", "url": page.url, "title": title, "start_index": 0, "end_index": end}
    raw = jsonio.as_text(jsonio.encode(fields))
    return UrlCitation(page.url, title, start_index=0, end_index=end, raw=raw)


def _outputs(block: ServerToolUse) -> Raw | None:
    """Return the outputs of a server tool that are fields of the call itself."""
    fields = extra_fields_or_empty(block.extra)
    return next((fields[name] for name in ("outputs", "output", "results") if not is_null(fields.get(name))), None)


def _as_code(block: ServerToolUse | ServerToolResult) -> tuple[Block, ...]:
    """Return code that another provider ran as Gemini blocks; empty if it is not Python or not readable."""
    if isinstance(block, ServerToolUse):
        if block.name not in _CODE:
            return ()
        is_plain, outputs = block.kind.endswith("_call"), _outputs(block)
        code = block.args if is_plain else text_or_empty(extra_fields_or_empty(block.args).get("code"))
        objects = filter(is_object, list_or_empty(outputs))
        logs = (text_or_empty(jsonio.members(output).get("logs")) for output in objects)
        result = () if outputs is None else (CodeResult("OUTCOME_OK", "\n".join(logs)),)
        return (CodeExecution(code, "PYTHON"), *result) if code else ()
    fields = extra_fields_or_empty(block.content) if block.kind == "code_execution_tool_result" else {}
    if text_or_empty(fields.get("type")) != "code_execution_result":
        return ()
    failed = bytes(fields.get("return_code", b"0")) != b"0"
    output = text_or_empty(fields.get("stderr")) if failed else text_or_empty(fields.get("stdout"))
    return (CodeResult("OUTCOME_FAILED" if failed else "OUTCOME_OK", output),)


def _describe(block: Block) -> str:
    """Describe a block in one line. Audio is replaced by its transcript."""
    match block:
        case ServerToolUse():
            name, args = block.name or block.kind, _shorten(block.args)
            call = f"[{name}: {args}]" if args else f"[{name}]"
            outputs = _outputs(block)
            return f"{call} {_describe(ServerToolResult(block.id, jsonio.as_text(outputs)))}" if outputs else call
        case ServerToolResult():
            return f"[Gave: {_shorten('; '.join(_words(block.content))) or 'nothing readable'}]"
        case CodeExecution():
            return f"[Ran: {_shorten(block.code)}]"
        case CodeResult():
            return f"[Gave: {_shorten(block.output) or _shorten(block.outcome) or 'nothing'}]"
        case Audio() if block.transcript:
            return block.transcript
        case Image() | Audio() | Document():
            title = _shorten(block.title or block.text) if isinstance(block, Document) else ""
            return f"[A {_KINDS[type(block)]}: {title or block.mime or 'of an unknown kind'}]"
    raise TypeError(f"{type(block).__name__} has no placeholder")


def _shorten(text: str) -> str:
    line = " ".join(text[: MAX_TEXT * 4].split())
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 1]}…"


def _describe_sources(citations: Iterable[Citation]) -> str:
    """Name the sources of a text; empty if its citations have no names."""
    names: dict[str, None] = {}
    for citation in citations:
        if isinstance(citation, UrlCitation):
            names[f"{citation.title} {citation.url}" if citation.title else citation.url] = None
        elif isinstance(citation, DocumentCitation | PageCitation) and citation.document_title:
            names[citation.document_title] = None
    names.pop("", None)
    return f"[Sources: {_shorten('; '.join(names))}]" if names else ""


def _words(content: str) -> Iterator[str]:
    """Find the readable strings of a result: titles, URLs, texts; no tokens and no files."""
    try:
        yield from _strings(jsonio.parse(content)) if content else ()
    except jsonio.JsonError:
        yield content


def _strings(value: Any, name: str = "text") -> Iterator[str]:
    if isinstance(value, str):
        if name in _READABLE and value:
            yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner, name)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(inner, key)
