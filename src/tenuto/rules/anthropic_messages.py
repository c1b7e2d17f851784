"""Rules of the messages of a Messages request: blocks, roles, images, calls and results, server tools, length, reasoning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tenuto.rules.anthropic_body import (
    CALL_ID,
    REASONING,
    SERVER_CALLS,
    BodyBlock,
    ContentItem,
    MessagesBody,
    MessagesTurn,
    SentReasoning,
    anthropic,
    block_form,
    claude,
    forms_of,
    is_server_result,
)
from tenuto.rules.body import Fields, Violation, objects, text
from tenuto.rules.book import UnverifiedText
from tenuto.rules.images import decode_head, decoded_size, read_head
from tenuto.rules.issued_tokens import IssuedToken, content_digest, has_content, matches

_COMMON = "type cache_control"
_BLOCK_KEYS: dict[str, frozenset[str]] = {
    type: frozenset(f"{_COMMON} {keys}".split())
    for types, keys in {
        "text": "text citations",
        "image": "source transformations",
        "document": "source title context citations",
        "search_result": "source title content citations",
        "thinking": "thinking signature",
        "redacted_thinking": "data",
        "tool_use": "id name input caller toolset_name",
        "tool_result": "tool_use_id content is_error toolset_name",
        "server_tool_use": "id name input caller",
        "web_search_tool_result web_fetch_tool_result": "tool_use_id content caller",
        "advisor_tool_result tool_search_tool_result": "tool_use_id content",
        "code_execution_tool_result bash_code_execution_tool_result": "tool_use_id content",
        "text_editor_code_execution_tool_result": "tool_use_id content",
        "mcp_tool_use": "id name input server_name",
        "mcp_tool_result": "tool_use_id content is_error",
        "mcp_tool_listing": "mcp_server_name tools",
        "container_upload": "file_id",
        "compaction": "content encrypted_content signature tool_changes",
        "fallback": "from to trigger",
        "tool_addition tool_removal": "tool",
    }.items()
    for type in types.split()
}
"""The fields of each block type in the SDK. cache_control on reasoning has its own rule."""
_INNER_KEYS = {type: _BLOCK_KEYS[type] for type in ("text", "image", "document", "search_result")} | {
    "tool_reference": frozenset(f"{_COMMON} tool_name".split()),
    "browser_state": frozenset(f"{_COMMON} tabs state_changes".split()),
}
"""The blocks that a tool result may have."""


@anthropic("ANT-MSG-11", "A block has a known type, and only the fields of its type.",
    UnverifiedText("{path}: Input tag '{type}' found using 'type' does not match any of the expected tags"),
    "{path}.{type}.{key}: Extra inputs are not permitted",
    remedy="Send only blocks of this dialect, and unknown ones only to the provider that sent them.", as_of="2026-11",
    inferred="SDK types; error texts quoted by clients")  # fmt: skip
def unknown_block(request: MessagesBody) -> Iterator[Violation]:
    inner = request.inner_blocks
    known = {type: _BLOCK_KEYS.get(type, frozenset()) for type in request.types()}
    if not inner and all(block.raw.keys() <= keys for type, keys in known.items() for block in request.blocks(type)):
        return
    for message in request.messages:
        for block in message.blocks:
            if not block.raw.keys() <= known[block.type]:
                issued = request.tokens.issued_fields(f"block:{block.type}")
                issued_keys = {block.type: frozenset((*issued, "cache_control"))} if issued else {}
                item = ContentItem(block.pointer, f"messages.{block.i}.content.{block.j}", block.raw)
                yield from _unknown_in_block(item, _BLOCK_KEYS | issued_keys)
            if block.type == "tool_result":
                for item in inner.get((block.i, block.j), ()):
                    yield from _unknown_in_block(item, _INNER_KEYS)


def _unknown_in_block(item: ContentItem, known: dict[str, frozenset[str]]) -> Iterator[Violation]:
    type = text(item.raw, "type")
    keys = known.get(type)
    if type == "connector_text":  # documented, but not in the SDK
        return
    if keys is None:
        yield Violation(item.pointer, {"path": item.path, "type": type})
        return
    key = next((key for key in item.raw if key not in keys), None)
    if key is not None:
        certain = key != "caller" or not is_server_result(type)
        yield Violation(item.pointer, {"path": item.path, "type": type, "key": key}, 1, certain)


anthropic("ANT-MSG-07", "Two messages of one role follow each other: the server joins them.",
    UnverifiedText('roles must alternate between "user" and "assistant", but found multiple "{role}" roles in a row'),
    severity="warned",
    each=lambda request: [after for before, after in pairwise(request.see(request.messages))
    if after.role == before.role],
    at="/role", when=lambda message: message.role != "system", fields=lambda message: {"role": message.role},
    remedy="None needed; join them before checking calls and results.", as_of="2026",
    recorded="6 recorded requests, as crewai__agents.TestAnthropicNativeToolCalling.*; coai#209 (2024)")  # fmt: skip

claude("ANT-MSG-08", "The model has a system role among the messages.",
    "role 'system' is not supported on this model", applies=lambda request: request.traits.system_mid == "rejected",
    each=lambda request: request.messages, at="/role", when=lambda message: message.role == "system",
    remedy="Send it as marked text of the user, or in `system`, which changes the prefix.", as_of="2026-07",
    source="claude-code#61412; pydantic-ai#6765")  # fmt: skip


@claude("ANT-MSG-09", "A system message follows a user message.",
    UnverifiedText("messages.{i}: a `system` message must directly follow a `user` message"),
    applies=lambda request: request.traits.system_mid in ("native", "unverified"),
    remedy="Move it after the user message.", as_of="2026-07",
    documented="pydantic-ai#6765; documentation")  # fmt: skip
def system_message_misplaced(request: MessagesBody) -> Iterator[Violation]:
    before = ""
    for message in request.messages:
        if message.role != "system":
            before = message.role
        elif before != "user":
            yield Violation(f"/messages/{message.i}")


@anthropic("ANT-MSG-03", "Every message has content, except a last assistant message.",
    "messages.{i}: all messages must have non-empty content except for the optional final assistant message",
    remedy="Omit empty messages.", as_of="2026-03",
    source="claude-code#6774; inspect_ai#832; langchain#35676; recorded: mirascope-ts__input.empty-call")  # fmt: skip
def message_empty(request: MessagesBody) -> Iterator[Violation]:
    for message in [message for message in request.see(request.messages) if message.content in ("", [])]:
        is_prefill = message is request.messages[-1] and message.role == "assistant"
        # Claude Code 2.1.327 changes the effort with an empty system message
        is_setting = message.role == "system" and "output_config" in request.body["messages"][message.i]
        if not is_prefill and not is_setting:
            yield Violation(f"/messages/{message.i}/content")


claude("ANT-CACHE-03", "An empty text block has no cache_control.",
    "{path}.text: cache_control cannot be set for empty text blocks", each=lambda request: request.content("text"),
    when=lambda item: item.raw.get("cache_control") is not None and item.raw.get("text") == "",
    fields=lambda item: {"path": item.path}, remedy="Omit the empty text.", as_of="2026-03",
    source="ad4m#996; error texts quoted by clients")  # fmt: skip


def _texts(request: MessagesBody) -> list[tuple[str, Fields, str]]:
    system = [(pointer, block, "system") for pointer, block in objects(request.body.get("system"), "/system")]
    return [*system, *((item.pointer, item.raw, "messages") for item in request.content("text"))]


anthropic("ANT-MSG-01", "Text blocks are not empty.",
    "{part}: text content blocks must be non-empty", each=_texts, at="/text",
    when=lambda item: item[1].get("text") == "", fields=lambda item: {"part": item[2]},
    remedy="Omit the block; in a signed turn, put nothing in its place.", as_of="2026-05",
    source="claude-code#59812; mtga#68")  # fmt: skip


@anthropic("ANT-MSG-02", "A message is not only whitespace; a blank block next to others of an assistant is accepted.",
    "messages: text content blocks must contain non-whitespace text", remedy="Omit the message.", as_of="2026-07",
    source="home-assistant#175637; claude-code#23369; accepted, recorded: "
    "llm-anthropic__anthropic.tools-02")  # fmt: skip
def message_blank(request: MessagesBody) -> Iterator[Violation]:
    request.types()
    for message in request.messages:
        blocks = message.blocks
        if not blocks or blocks[-1].type != "text" or any(b.type != "text" or b.text.strip() for b in blocks):
            continue
        blank = next((block for block in message.blocks if block.text), None)
        if blank is not None:
            yield Violation(blank.pointer if blank.plain else f"{blank.pointer}/text")


claude("ANT-MSG-04", "Models since 4.6 refuse a last message of the assistant, unless the provider paused the turn.",
    "This model does not support assistant message prefill. The conversation must end with a user message.",
    applies=lambda request: request.traits.prefill == "rejected",
    each=lambda request: request.messages[-1:] if request.see(request.turns) and request.open_turn
    and not request.is_paused else (),
    at="/role", remedy="End with a user message or results; for a fixed form, use structured output.", as_of="2026-05",
    recorded="opencode#13768; DCP#520; claude-code#52433; recorded: "
    "activeagent__docs.actions.structured_output")  # fmt: skip


@anthropic("ANT-MSG-05", "A prefill does not end with whitespace and is not combined with thinking.",
    "messages: final assistant content cannot end with trailing whitespace",
    UnverifiedText("messages: final assistant content cannot be prefilled when thinking is enabled"),
    applies=lambda request: request.traits.prefill != "rejected",
    remedy="Strip the text; send no prefill with thinking.", as_of="2025",
    source="error texts quoted by clients; second text from memory")  # fmt: skip
def prefill_invalid(request: MessagesBody) -> Iterator[Violation]:
    last = request.open_turn
    if last is None or request.is_paused:
        return
    value = last.blocks[-1].text if last.blocks else ""
    thinks = request.mode in ("enabled", "adaptive")
    if thinks or value != value.rstrip():
        yield Violation(f"/messages/{request.messages[-1].i}/content", message=int(thinks), certain=not thinks)


_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MAX_IMAGE_BYTES, _SURE_IMAGE_BYTES = 5 * 1024 * 1024, 10 * 1024 * 1024
_MAX_SIDE, _MAX_SIDE_OF_MANY, _MANY_IMAGES = 8000, 2000, 20


class _Image(ContentItem, frozen=True):
    """An image that is sent as base64."""

    data: str

    @property
    def side(self) -> int:
        """The longer side in pixels; 0 if it is not known, or if the request has the image scaled down."""
        change = self.raw.get("transformations")
        if isinstance(change, dict) and change.get("oversized_image") == "downsize":
            return 0
        return max(read_head(decode_head(self.data))[1:])


def _images(request: MessagesBody) -> Iterator[_Image]:
    for item in request.content("image"):
        data = text(item.raw["source"], "data") if item.raw["source"].get("type") == "base64" else ""
        if data:
            yield _Image(item.pointer, item.path, item.raw, data)


@claude("ANT-MEDIA-04", "An image is a JPEG, PNG, GIF or WebP, and has the media type that it names.",
    "{path}.image.source.base64: The image was specified using the {t} media type, but the image appears to be a "
    "{actual} image",
    UnverifiedText("{path}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or "
    "'image/webp'"), remedy="Read the media type from the first bytes.", as_of="2026",
    source="error texts quoted by clients, as for a tool result of Claude Code")  # fmt: skip
def image_type_wrong(request: MessagesBody) -> Iterator[Violation]:
    modes = request.traits.thinking
    compared = bool(request.model and modes) and "none" not in modes  # older models accepted any name
    for item in _images(request):
        named, actual = text(item.raw["source"], "media_type"), read_head(decode_head(item.data)).media_type
        fields: dict[str, object] = {"path": item.path, "t": named, "actual": actual}
        if named not in _IMAGE_TYPES:
            yield Violation(f"{item.pointer}/source/media_type", fields, 1)
        elif compared and actual not in ("", named):
            yield Violation(f"{item.pointer}/source/media_type", fields)


claude("ANT-MEDIA-03", "An image has at most 5 MB; 10 MB of base64 were reported lately.",
    "{path}.image.source.base64: image exceeds 5 MB maximum: {n} bytes > 5242880 bytes", each=_images, at="/source",
    when=lambda image: decoded_size(image.data) > _MAX_IMAGE_BYTES,
    fields=lambda image: {"path": image.path, "n": decoded_size(image.data)},
    certain=lambda image: decoded_size(image.data) > _SURE_IMAGE_BYTES, remedy="Compress the image.", as_of="2026-09",
    source="error texts quoted by clients; oh-my-pi#10633 (10 MB)")  # fmt: skip

claude("ANT-MEDIA-01", "An image is at most 8000 pixels wide and high.",
    "{path}.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels",
    each=_images, at="/source", when=lambda image: image.side > _MAX_SIDE, fields=lambda image: {"path": image.path},
    remedy="Scale it down before storing it, or request that with `transformations`.", as_of="2026-09",
    source="claude-code#4778,#5147; oh-my-pi#10633")  # fmt: skip

claude("ANT-MEDIA-02", "Among more than 20 images, each is at most 2000 pixels wide and high.",
    "{path}.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image "
    "requests: 2000 pixels",
    each=lambda request: _images(request) if len(request.content("image")) > _MANY_IMAGES else (), at="/source",
    when=lambda image: image.side > _MAX_SIDE_OF_MANY, fields=lambda image: {"path": image.path},
    remedy="Scale all of them down, or remove old ones where a turn is complete.", as_of="2026-04",
    source="claude-code#49537,#9375; oh-my-pi#10633")  # fmt: skip


@anthropic("ANT-TOOL-05", "Call ids have only letters, digits, underscores and hyphens.",
    "messages.{i}.content.{j}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    "messages.{i}.content.{j}.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    remedy="Map the ids of call and result the same way, to at most 64 characters.", as_of="2026-07",
    source="LibreChat agents#153; langchain#37756; bifrost#5097; litellm#31094")  # fmt: skip
def call_id_invalid(request: MessagesBody) -> Iterator[Violation]:
    keys = {"tool_use": "id", "tool_result": "tool_use_id"}
    ids = {block.raw[key] for type, key in keys.items() for block in request.blocks(type)}
    if all(map(CALL_ID.fullmatch, ids)):
        return
    for block in request.blocks(*keys):
        key = keys[block.type]
        if not CALL_ID.fullmatch(block.raw[key]):
            yield Violation(f"{block.pointer}/{key}", message=int(key != "id"))


anthropic("ANT-TOOL-12", "The input of a call is an object.",
    "messages.{i}.content.{j}.tool_use.input: Input should be a valid dictionary",
    each=lambda request: request.blocks("tool_use"), at="/input",
    when=lambda block: not isinstance(block.raw.get("input"), dict),
    remedy="Wrap the text as a field, and return a result that says that the call failed.", as_of="2026-06",
    source="error texts quoted by clients")  # fmt: skip

anthropic("ANT-TOOL-13", "A result whose content is a list has a block in it.",
    UnverifiedText("messages.{i}.content.{j}.tool_result.content: List should have at least 1 item"),
    each=lambda request: request.blocks("tool_result"), at="/content",
    when=lambda block: block.raw.get("content") == [],
    remedy="Omit the content, or send a text; an empty string is accepted.", as_of="2026-06",
    source="reports of clients")  # fmt: skip

anthropic("ANT-TOOL-03", "The calls of one turn have different ids; another turn may use an id again.",
    "messages.{i}.content.{j}: `tool_use` ids must be unique",
    each=lambda request: [block for turn in request.assistant_turns() if len(turn.calls) > 1
    for block in _repeated(turn.calls, "id")],
    at="/id", remedy="Map ids one to one within a request.", as_of="2026-02",
    source="cua#524; claude-code#20700,#28515; accepted across turns, recorded: "
    "pydantic-ai__tool_search.*")  # fmt: skip


@anthropic("ANT-TOOL-01", "Every call has its result in the next turn.",
    "messages.{i}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each `tool_use` "
    "block must have a corresponding `tool_result` block in the next message.",
    remedy="Give every call a result, even one that says it was denied or interrupted. Put text before the calls.",
    as_of="2026-07",
    recorded="claude-code#7929; text after a call, recorded: opencode__rejects-malformed-assistant-tool-order; joined "
    "messages accepted, recorded: pydantic-ai__tool_search.*")  # fmt: skip
def call_without_result(request: MessagesBody) -> Iterator[Violation]:
    request.see(request.blocks("tool_use"))
    for turn, after in pairwise([*request.turns, MessagesTurn("")]):
        calls = turn.calls
        if not calls:
            continue
        answered = {text(block.raw, "tool_use_id") for block in after.results}
        lone = [block for block in calls if block.raw["id"] not in answered]
        for block in lone:
            yield Violation(f"{block.pointer}/id", {"ids": ", ".join(other.raw["id"] for other in lone)})
        if not lone:
            # One recorded refusal of a text after a call; a system message in between is not known to be accepted
            last = turn.blocks[-1]
            if after.after_system or (last.type == "text" and request.is_claude):
                yield Violation(f"{calls[0].pointer}/id", {"ids": calls[0].raw["id"]}, certain=False)


@anthropic("ANT-TOOL-02", "Every result answers a call of the turn before it.",
    "messages.{i}.content.{j}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block "
    "must have a corresponding `tool_use` block in the previous message.",
    remedy="Shorten conversations only where all calls are answered; omit a lone result.", as_of="2026-02",
    source="claude-code#18947; Anthropic.SDK#184")  # fmt: skip
def result_without_call(request: MessagesBody) -> Iterator[Violation]:
    request.see(request.blocks("tool_result"))
    calls: set[str] = set()
    for turn in request.turns:
        for block in turn.results:
            id = block.raw["tool_use_id"]
            if id not in calls:
                yield Violation(f"{block.pointer}/tool_use_id", {"id": id})
        calls = {block.raw["id"] for block in turn.calls}


anthropic("ANT-TOOL-04", "A call has one result.",
    "messages.{i}.content.{j}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
    "{id}",
    each=lambda request: [block for turn in request.turns if request.blocks("tool_result") and len(turn.results) > 1
    for block in _repeated(turn.results, "tool_use_id")],
    fields=lambda block: {"id": block.raw["tool_use_id"]}, remedy="Keep the first result.", as_of="2026-11",
    source="error texts quoted by clients")  # fmt: skip


@anthropic("ANT-TOOL-06", "Results come first in the turn after the calls.",
    "messages.{i}: Did not find {n} `tool_result` block(s) at the beginning of this message. Messages following "
    "`tool_use` blocks must begin with a matching number of `tool_result` blocks.",
    remedy="Put the results first and the text after them.", as_of="2025-03",
    source="rivet#487; documentation")  # fmt: skip
def results_not_first(request: MessagesBody) -> Iterator[Violation]:
    request.see(request.blocks("tool_result"))
    for before, turn in pairwise(request.turns):
        results = turn.results
        if before.calls and results and turn.blocks[: len(results)] != results:
            yield Violation(turn.blocks[0].pointer, {"n": len(before.calls)})


@claude("ANT-TOOL-18", "A call comes back with the `caller` and `toolset_name` that it had.", severity="lost",
    remedy="Send back every field of a call, known or not.", as_of="2026-11", documented="SDK types")  # fmt: skip
def call_field_missing(request: MessagesBody) -> Iterator[Violation]:
    for block in request.blocks("tool_use") if request.tokens.is_known else ():
        fields = request.tokens.issued_fields(block.raw["id"])
        for name in ("caller", "toolset_name"):
            if name in fields and block.raw.get(name) is None:
                yield Violation(f"{block.pointer}/{name}")


def _repeated(blocks: list[BodyBlock], key: str) -> Iterator[BodyBlock]:
    seen: set[str] = set()
    for block in blocks:
        if block.raw[key] in seen:
            yield block
        seen.add(block.raw[key])


_SEALED = {"web_search_result": "encrypted_content", "web_search_result_location": "encrypted_index"}
"""The token that results and citations of a search always have."""


@anthropic("ANT-SRV-01", "The result of a server tool follows its call.",
    "messages.{i}.content.{j}: unexpected `tool_use_id` found in `{type}` blocks: {id}. Each `{type}` block must have "
    "a corresponding `{use}` block before it.", remedy="Keep both in place, or omit both.", as_of="2026-08",
    source="claude-code#64383,#80439,#84783")  # fmt: skip
def server_result_without_call(request: MessagesBody) -> Iterator[Violation]:
    for blocks in _server_work(request):
        calls: set[tuple[str, str]] = set()
        for block in blocks:
            if block.type in SERVER_CALLS:
                calls.add((block.type, block.raw["id"]))
            elif is_server_result(block.type):
                use = "mcp_tool_use" if block.type == "mcp_tool_result" else "server_tool_use"
                id = block.raw["tool_use_id"]
                if (use, id) not in calls:
                    yield Violation(f"{block.pointer}/tool_use_id", {"type": block.type, "use": use, "id": id})


@anthropic("ANT-SRV-02", "A server tool that was called in a complete turn has a result.",
    "messages.{i}: `{name}` tool use with id `{id}` was found without a corresponding `{name}_tool_result` block",
    remedy="Omit the call, or keep its result.", as_of="2026",
    documented="documentation; error texts quoted by clients")  # fmt: skip
def server_call_without_result(request: MessagesBody) -> Iterator[Violation]:
    for blocks in _server_work(request)[:-1]:
        answered = {text(block.raw, "tool_use_id") for block in blocks if is_server_result(block.type)}
        for block in blocks:
            if block.type in SERVER_CALLS and block.raw["id"] not in answered:
                yield Violation(block.pointer, {"name": block.raw["name"], "id": block.raw["id"]})


@anthropic("ANT-SRV-03", "Advisor blocks in the conversation need the advisor tool.",
    UnverifiedText("messages.{i}.content.{j}: `advisor` blocks need the advisor tool in `tools`"),
    remedy="Define the tool, or omit the advisor blocks.", as_of="2026-08", source="reports of clients")  # fmt: skip
def advisor_not_defined(request: MessagesBody) -> Iterator[Violation]:
    if any(text(tool, "type").startswith("advisor") for _, tool in request.tools()):
        return
    for block in request.blocks("server_tool_use", "advisor_tool_result"):
        if block.type == "advisor_tool_result" or block.raw["name"] == "advisor":
            yield Violation(block.pointer)


@claude("ANT-SRV-04", "Encrypted contents, indices and outputs of server tools come back unchanged.",
    UnverifiedText("messages.{i}.content.{j}: Invalid `{key}` in `{type}` block"),
    remedy="Send tokens back unchanged; exclude them from redaction.", as_of="2026-07",
    source="inspect_ai#4603; vercel/ai#17379")  # fmt: skip
def encrypted_content_invalid(request: MessagesBody) -> Iterator[Violation]:
    broken = ""
    for block, key, holder, subject in _sealed_fields(request):
        token = text(holder, key)
        issued = request.tokens.find(token) if token and request.tokens.is_known else None
        unknown = request.tokens.is_known and (issued is None or not has_content(issued, subject))
        if block.pointer != broken and (not token or unknown):
            broken = block.pointer
            yield Violation(broken, {"key": key, "type": block.type})


def _sealed_fields(request: MessagesBody) -> Iterator[tuple[BodyBlock, str, Fields, str]]:
    """Yield block, name of the token, its holder, and what it was issued for: a URL or a call id."""
    for block in request.blocks("web_search_tool_result", "text", "code_execution_tool_result"):
        content = block.raw.get("citations" if block.type == "text" else "content")
        if isinstance(content, dict) and content.get("type") == "encrypted_code_execution_result":
            yield block, "encrypted_stdout", content, text(block.raw, "tool_use_id")
        for _, item in objects(content, ""):
            key = _SEALED.get(text(item, "type"))
            if key is not None:
                yield block, key, item, text(item, "url")


@anthropic("ANT-SRV-05", "A conversation with code execution names its container by id.", severity="lost",
    remedy="Store the id of the container with the turn and send it.", as_of="2026-08",
    source="litellm#36228")  # fmt: skip
def container_missing(request: MessagesBody) -> Iterator[Violation]:
    container = request.setting("container")
    if request.is_paused and isinstance(container, dict) and container.get("id") is not None:
        yield Violation("/container")
    if container is not None:
        return
    offered = any(text(tool, "type").startswith("code_execution") for _, tool in request.tools())
    ran = offered and any("code_execution_tool_result" in type for type in request.types())
    keys = (key for turn in request.assistant_turns() for key in turn.reply_keys())
    if ran or any("container" in request.tokens.issued_fields(key) for key in keys):
        yield Violation("/container")


def _server_work(request: MessagesBody) -> list[list[BodyBlock]]:
    """Return the assistant's blocks, split where the user sends more than results; empty without server tools."""
    if not any(type in SERVER_CALLS or is_server_result(type) for type in request.types()):
        return []
    work: list[list[BodyBlock]] = [[]]
    for turn in request.turns:
        if turn.role == "assistant":
            work[-1].extend(turn.blocks)
        elif len(turn.results) < len(turn.blocks):
            work.append([])
    return work


_LARGEST_WINDOW = 1_000_000
_CHARACTERS_PER_TOKEN = 6
"""More than any prose has on average: a prompt that is too long by this count is too long by any."""


@claude("ANT-MSG-10", "The prompt fits into the context window.",
    "prompt is too long: {n} tokens > {max} maximum", remedy="Shorten the conversation.", as_of="2026",
    recorded="recorded: ruby-llm__chat_real_error_scenarios_anthropic_claude-haiku-4-5")  # fmt: skip
def prompt_too_long(request: MessagesBody) -> Iterator[Violation]:
    request.exercised.add(request.running)
    window = request.traits.context_window or _LARGEST_WINDOW
    if request.has_beta("context-1m-"):
        window = max(window, _LARGEST_WINDOW)
    if request.may_exceed(2 * window) and request.prompt_tokens > window:  # a token takes at least two bytes
        certain = request.traits.context_window is not None and (
            request.prompt_characters // _CHARACTERS_PER_TOKEN > window
        )
        yield Violation("/messages", {"n": request.prompt_tokens, "max": window}, certain=certain)


_INVALID_SIGNATURE = "messages.{i}.content.{j}: Invalid `signature` in `thinking` block"
_BOUND = f"{_INVALID_SIGNATURE}. The block is bound to a different conversation."
_DOCS = "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
_THINKING_TAGS = ("<thinking>", "<think>")


def _broken_rules(request: MessagesBody) -> Sequence[tuple[SentReasoning, str]]:
    """Return the reasoning blocks that break a rule, each with the first one."""
    if request.reasoning_rules is None:
        rules = [(item, _broken_rule(request, item)) for item in request.reasoning]
        request.reasoning_rules = [(item, rule) for item, rule in rules if rule]
    request.see(request.reasoning)
    return request.reasoning_rules


def _broken_rule(request: MessagesBody, item: SentReasoning) -> str:
    """Return the first rule that a reasoning block breaks: by its form, token, issuer, model, text, place or prefix."""
    block, issued = item.block, item.issued
    invalid = "ANT-THINK-14" if block.type == "redacted_thinking" else "ANT-THINK-02"
    if issued is None or issued.kind != block.type:
        if block.token is None:
            return "ANT-THINK-14" if block.type == "redacted_thinking" else "ANT-THINK-01"
        return "" if block.token and not request.tokens.is_known else invalid
    if not matches(issued.provider, request.provider) or not matches(issued.platform, request.context.platform):
        return "ANT-THINK-13"
    if not matches(issued.account, request.account):
        return "ANT-THINK-11" if request.traits.prefix_bound else invalid
    unreadable = request.traits.unreadable_thinking
    if unreadable and issued.model and re.fullmatch(unreadable, issued.model):
        return "ANT-THINK-10"
    value = block.raw.get("thinking")
    if block.type == "thinking" and isinstance(value, str) and not has_content(issued, value):
        return "ANT-THINK-04" if item.is_latest else _text_rule(request.turns[item.turn], item)
    return _place_rule(request, item, issued)


def _text_rule(turn: MessagesTurn, item: SentReasoning) -> str:
    """Tell a text that was joined with another, or split in two, from one that was changed."""
    issued, value = item.issued, text(item.block.raw, "thinking")
    assert issued is not None
    size = issued.length
    candidates = [value[:size], value[-size:]] if size and len(value) > size else []
    for start in (item.position - 1, item.position):
        pair = turn.blocks[max(start, 0) : start + 2]
        candidates.append("".join(text(block.raw, "thinking") for block in pair))
    return "ANT-THINK-16" if any(has_content(issued, candidate) for candidate in candidates) else "ANT-THINK-02"


def _place_rule(request: MessagesBody, item: SentReasoning, issued: IssuedToken) -> str:
    turn = request.turns[item.turn]
    is_bound = request.traits.prefix_bound and bool(issued.prefix)
    if not _is_in_place(request, turn, item.position, issued):
        before = turn.blocks[max(issued.offset, 0) : item.position]
        if is_bound and sum(block.type in REASONING for block in before) < issued.reasoning_before:
            return "ANT-THINK-12" if request.drops_unbound else "ANT-THINK-09"
        if item.is_latest:
            return "ANT-THINK-04"
        if is_bound:
            return "ANT-THINK-12" if request.drops_unbound else "ANT-THINK-08"
    elif is_bound and not request.tokens.has_prefix(issued, request, item.turn):
        return "ANT-THINK-12" if request.drops_unbound else "ANT-THINK-08"
    return ""


def _is_in_place(request: MessagesBody, turn: MessagesTurn, index: int, issued: IssuedToken) -> bool:
    """Tell whether the blocks before a reasoning block are those of its reply. Blank texts do not count."""
    if not issued.before or (index == issued.index == 0 >= issued.offset):  # nothing is before it, nor was
        return True
    if index < issued.offset:
        return False
    before = [block for block in turn.blocks[max(issued.offset, 0) : index] if block_form(block.raw)]
    others: list[BodyBlock] = []
    if issued.offset < 0:  # the blocks before the reply are unknown
        start = len(before) - issued.index
        if start < 0:
            return False
        others, before = before[:start], before[start:]
    return content_digest(*forms_of([block.raw for block in before])) == issued.before and _may_precede(
        request, others, issued.reply
    )


def _may_precede(request: MessagesBody, blocks: Sequence[BodyBlock], reply: str) -> bool:
    """Tell whether blocks may stand before a reply in its turn: a prefill, or another reply."""
    if not blocks:
        return True
    issued = [request.tokens.find(block.token or "") for block in blocks]
    calls = [request.tokens.item(text(block.raw, "id")) for block in blocks]
    replies = {entry.reply for entry in (*issued, *calls) if entry is not None}
    if reply in replies:
        return False
    return bool(replies) or request.traits.prefill != "rejected"


def _refused_reasoning(request: MessagesBody) -> Iterator[BodyBlock]:
    """Yield the blocks that break the running rule."""
    return (item.block for item, rule in _broken_rules(request) if rule == request.running)


claude("ANT-THINK-18", "A reasoning block has no cache_control.",
    "messages.{i}.content.{j}.{type}.cache_control: Extra inputs are not permitted",
    each=lambda request: request.blocks(*REASONING), at="/cache_control",
    when=lambda block: "cache_control" in block.raw, fields=lambda block: {"type": block.type},
    remedy="Put the cache_control on the next block that may have one.", as_of="2026-09",
    source="litellm#39815; error texts quoted by clients")  # fmt: skip

claude("ANT-THINK-01", "A thinking block has its signature.",
    "messages.{i}.content.{j}.thinking.signature: Field required",
    "messages.{i}.content.{j}.thinking.signature: Input should be a valid string",
    each=lambda request: request.blocks("thinking"), at="/signature",
    when=lambda block: not isinstance(block.raw.get("signature"), str),
    message=lambda block: block.raw.get("signature") is not None,
    remedy="Omit this block and record the loss; a signature cannot be made up.", as_of="2026-09",
    source="clawcodex#862; bifrost#6942")  # fmt: skip

claude("ANT-THINK-03", "A thinking block has its `thinking` field, even if the text is empty.",
    "messages.{i}.content.{j}.thinking.thinking: Field required", each=lambda request: request.blocks("thinking"),
    at="/thinking", when=lambda block: not isinstance(block.raw.get("thinking"), str), remedy="Always write the field.",
    as_of="2026-06", source="reports of clients")  # fmt: skip

claude("ANT-THINK-14", "A redacted thinking block has its data, unchanged.",
    "messages.{i}.content.{j}.redacted_thinking.data: Field required",
    UnverifiedText("messages.{i}.content.{j}: Invalid `data` in `redacted_thinking` block"), each=_refused_reasoning,
    at="/data", message=lambda block: "data" in block.raw, remedy="Send it back unchanged and in its place.",
    as_of="2026-07", inferred="bifrost#5094; error texts quoted by clients")  # fmt: skip


@claude("ANT-THINK-05", "With a thinking budget, a turn whose calls are being answered starts with reasoning.",
    "messages.{i}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{type}`. When `thinking` is "
    "enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` "
    "and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this "
    f"requirement, disable `thinking`. Please consult our documentation at {_DOCS}",
    remedy="Send the reasoning back; if it is lost, turn thinking off for this request.", as_of="2025-12",
    source="pydantic-ai#2075; haystack#2146; n8n#22550; claude-code#11978")  # fmt: skip
def call_turn_without_reasoning(request: MessagesBody) -> Iterator[Violation]:
    first = _first_call_turn(request.turns) if request.budget is not None else None
    if first is None or first.blocks[0].type in REASONING:
        return
    if any(item.started_with_reasoning is False for item in request.issued_items(first)):
        return  # the provider sent it in this form
    yield Violation(f"/messages/{first.blocks[0].i}/content/{first.blocks[0].j}", {"type": first.blocks[0].type})


def _first_call_turn(turns: list[MessagesTurn]) -> MessagesTurn | None:
    """Return the turn that starts the calls and results at the end; None if the end is something else."""
    first = None
    for index in range(len(turns) - 1, 0, -2):
        answer, call = turns[index], turns[index - 1]
        results = answer.results
        if not results or not call.blocks:
            break
        if first is not None and len(results) < len(answer.blocks):  # the user wrote something: a new turn
            break
        first = call
    return first


claude("ANT-THINK-06", "Without thinking, a last assistant message has no reasoning.",
    "messages.{i}.content.{j}: When thinking is disabled, an `assistant` message in the final position cannot contain "
    "`thinking`. To use thinking blocks, enable `thinking` in your request.",
    each=lambda request: request.open_turn.of(*REASONING)[:1]
    if (request.mode or request.traits.thinking_default) in ("disabled", "no") and request.open_turn else (),
    remedy="Turn thinking on, or omit the reasoning of the last message.", as_of="2025-11",
    source="forgecode#1195,#1853")  # fmt: skip


claude("ANT-THINK-07", "An assistant turn does not end with a thinking block.",
    "messages.{i}: The final block in an assistant message cannot be `thinking`.",
    each=lambda request: [turn.blocks[-1] for turn in request.assistant_turns() if turn.blocks],
    when=lambda block: block.type == "thinking",
    remedy="Do not send a turn that is only reasoning; store it and record the loss.", as_of="2026-04",
    source="forgecode#2107,PR#3073; hermes PR#13010")  # fmt: skip

claude("ANT-THINK-02", "A signature is one that this account received for the same text.",
    _INVALID_SIGNATURE, each=_refused_reasoning, at="/signature",
    remedy="Store signatures byte for byte; omit blocks of another issuer; retry once without the reasoning of the "
    "message.", as_of="2026-08", source="claudish#182; UncommonRoute#20; anthropic-sdk-python#1598")  # fmt: skip

claude("ANT-THINK-13", "Reasoning goes back to the platform that signed it: Anthropic, Bedrock, Vertex or Foundry.",
    _INVALID_SIGNATURE, each=_refused_reasoning,
    remedy="Treat the platform as part of the scope of a token; omit the token on another platform.", as_of="2026-07",
    source="openclaw#110079")  # fmt: skip

claude("ANT-THINK-16", "Thinking blocks are not joined under one signature, nor split.",
    _INVALID_SIGNATURE, each=_refused_reasoning, remedy="Store one token per block.", as_of="2026-07",
    source="any-llm#1312; litellm#13834")  # fmt: skip

claude("ANT-THINK-04", "In the latest assistant turn, reasoning has its text, its place and the blocks before it.",
    "messages.{i}.content.{j}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
    "modified. These blocks must remain as they were in the original response.", each=_refused_reasoning,
    remedy="Send that message unchanged; as a last resort, omit all of its reasoning once.", as_of="2026-09",
    source="claude-code#63203,#63284; pi-anthropic-auth#66; anthropic-auth#49")  # fmt: skip

claude("ANT-THINK-09", "Bound reasoning follows the reasoning that preceded it in its turn.",
    f"{_BOUND} The `thinking` block that preceded this one when it was created is missing from this request.",
    applies=lambda request: request.traits.prefix_bound, each=_refused_reasoning,
    remedy="Send all reasoning of a turn, or none.", as_of="2026-09", source="KiroCrew PR#11513")  # fmt: skip

claude("ANT-THINK-08", "Bound reasoning follows the same system prompt, tools and messages as before.",
    f"{_BOUND} Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".",
    applies=lambda request: request.traits.prefix_bound, each=_refused_reasoning,
    remedy="Only append to a conversation; keep tools and system prompt; send changes as system messages.",
    as_of="2026-09", documented="KiroCrew#11485; opencode#46653; goose PR#11836")  # fmt: skip

claude("ANT-THINK-10", "Reasoning of a model that this one cannot read is dropped silently.", severity="lost",
    each=_refused_reasoning, remedy="Omit it before sending and record the loss.", as_of="2026-09",
    documented="Anthropic docs on preserved thinking; SDK types")  # fmt: skip

claude("ANT-THINK-11", "Bound reasoning of another account is dropped silently.", severity="lost",
    applies=lambda request: request.traits.prefix_bound, each=_refused_reasoning,
    remedy="Store the account with every token.", as_of="2026-09",
    documented="Anthropic docs on preserved thinking; SDK types")  # fmt: skip

claude("ANT-THINK-12", "With drop_block, bound reasoning after a changed prefix is dropped on every request.",
    severity="lost", applies=lambda request: request.traits.prefix_bound, each=_refused_reasoning,
    remedy="After shortening a conversation, remove the stale reasoning once.", as_of="2026-09",
    documented="pi#9391")  # fmt: skip


claude("ANT-THINK-15", "A turn without its reasoning is accepted, with worse answers.", severity="warned",
    each=lambda request: [turn for turn in request.assistant_turns() if turn.blocks and not turn.of(*REASONING)
    and any(item.has_reasoning and not item.foreign for item in request.issued_items(turn))],
    remedy="Of all ways to degrade, this is the safe one; count how often it happens.", as_of="2026-07",
    source="live test on Sonnet 4.5")  # fmt: skip


claude("ANT-THINK-17", "Reasoning as plain text in thinking tags is accepted, and then imitated.", severity="warned",
    each=lambda request: [block for turn in request.assistant_turns() for block in turn.of("text")],
    when=lambda block: block.text.lstrip().startswith(_THINKING_TAGS),
    remedy="Omit it, or mention it in a note of the user or the system.", as_of="2026-06",
    source="pydantic-ai#5869")  # fmt: skip


anthropic("ANT-THINK-19", "If DeepSeek thinks, every assistant turn has its reasoning.",
    "The `content[].thinking` in the thinking mode must be passed back to the API.", only=("deepseek",),
    code="invalid_request_error",
    each=lambda request: () if request.mode == "disabled" or request.traits.thinking_default == "no"
    else [turn for turn in request.assistant_turns() if turn.blocks],
    at="/content", when=lambda turn: not turn.of(*REASONING),
    remedy="For this target, keep blocks without a signature, and send an empty one with other turns.", as_of="2026-08",
    source="9router#2397; DeepSeek-Reasonix#8902; cursor-byok#276")  # fmt: skip
