"""The body of a Messages request, as its rules and the simulator read it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from tenuto.core import jsonio
from tenuto.rules.body import CallInBody, Fields, RequestBody, find_tokens, objects, text
from tenuto.rules.book import section
from tenuto.rules.issued_tokens import IssuedItem, IssuedToken, content_digest

REASONING = ("thinking", "redacted_thinking")
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
"""Calls of tools that the provider runs."""
TOKEN_FIELDS = {"thinking": "signature", "redacted_thinking": "data"}
_WITHOUT_TOKENS = ("text", "image", "document", "tool_use", "tool_result")
_OPAQUE = frozenset(("signature", "data", "encrypted_content", "encrypted_index", "encrypted_stdout", "cache_control"))
"""Fields that are not part of the prompt."""
_MEDIA_TOKENS = 1_600
_DEFAULT_TRIGGER = 150_000
_IDENTITY = ("id", "tool_use_id", "text", "thinking", "data", "content")
"""Fields of which the first string tells a block from others of its type."""

anthropic = section("anthropic-messages", type="invalid_request_error")
"""Rules of every host of the dialect."""
claude = section("anthropic-messages", type="invalid_request_error", applies=lambda request: request.is_claude)
"""Rules of Claude, on any host."""


class BodyBlock(msgspec.Struct, frozen=True, gc=False):
    """A block of a message. A message whose content is a string has one text block."""

    i: int
    j: int
    raw: Fields
    type: str
    plain: bool = False
    """Whether the content of the message is a string."""

    @property
    def pointer(self) -> str:
        return f"/messages/{self.i}/content" if self.plain else f"/messages/{self.i}/content/{self.j}"

    @property
    def text(self) -> str:
        return text(self.raw, "text")

    @property
    def is_compaction(self) -> bool:
        return self.type == "compaction"

    @property
    def token(self) -> str | None:
        """The signature or data of a reasoning block; None if it is missing or not a string."""
        value = self.raw.get(TOKEN_FIELDS[self.type]) if self.type in TOKEN_FIELDS else None
        return value if isinstance(value, str) else None


class BodyMessage(msgspec.Struct, frozen=True, gc=False):
    i: int
    role: str
    blocks: list[BodyBlock]
    content: Any

    @property
    def pointer(self) -> str:
        return f"/messages/{self.i}"

    @property
    def is_compaction(self) -> bool:
        """Whether it has only a compaction block, which belongs to no turn."""
        return bool(self.blocks) and all(block.is_compaction for block in self.blocks)


class MessagesTurn(msgspec.Struct, frozen=True, gc=False):
    """Adjacent messages of one role, which the provider joins. System messages do not separate turns.

    Compaction blocks belong to no turn: they stand for earlier ones.
    """

    role: str
    after_system: bool = False
    """Whether a system message precedes it."""
    blocks: list[BodyBlock] = []
    calls: list[BodyBlock] = []
    results: list[BodyBlock] = []

    @property
    def pointer(self) -> str:
        """The pointer of the message that starts the turn."""
        return f"/messages/{self.blocks[0].i}"

    def of(self, *types: str) -> list[BodyBlock]:
        return [block for block in self.blocks if block.type in types]

    def reply_keys(self) -> list[str]:
        """Return the values by which `IssuedTokens` finds the replies of the turn: the ids of its calls, else its text."""
        ids = [text(block.raw, "id") for block in self.blocks if block.type.endswith("tool_use")]
        return ids or ["".join([block.text for block in self.of("text")])]


class PromptBlock(NamedTuple):
    """A part of the prompt: a tool, or a block of the system prompt or of a message."""

    form: bytes
    """Its bytes without `cache_control`."""
    tokens: int
    mark: Fields | None
    """Its `cache_control`, or that of a block in it."""
    is_cacheable: bool


class ContentItem(msgspec.Struct, frozen=True, gc=False):
    """A block of a message, or a block inside a tool result."""

    pointer: str
    path: str
    """The place in the form of the provider's messages: `messages.0.content.1`."""
    raw: Fields


class SentReasoning(msgspec.Struct, frozen=True, gc=False):
    """A reasoning block that is sent back, and the token as it was issued."""

    block: BodyBlock
    turn: int
    position: int
    issued: IssuedToken | None
    is_latest: bool


def is_server_result(type: str) -> bool:
    """Tell whether a block is the result of a tool that the provider runs."""
    return type.endswith("_tool_result")


def block_form(raw: Fields) -> tuple[str, str] | None:
    """Return what tells a block from others: its type and its id, token or text. None for blank texts, compactions."""
    type = text(raw, "type")
    value = next((raw[name] for name in _IDENTITY if isinstance(raw.get(name), str)), "")
    return None if type == "compaction" or (type == "text" and not value.strip()) else (type, value)


def forms_of(blocks: Sequence[Fields]) -> list[str]:
    """Return the parts that `content_digest` joins for a list of blocks."""
    return [part for raw in blocks for part in block_form(raw) or ()]


def trigger_of(edit: Fields) -> int:
    """Return the number of prompt tokens above which an edit compacts."""
    trigger = edit.get("trigger")
    value = trigger.get("value") if isinstance(trigger, dict) else None
    return value if isinstance(value, int) else _DEFAULT_TRIGGER


def tool_changes_digest(changes: Any) -> str:
    return content_digest(jsonio.encode(changes))


class MessagesBody(RequestBody):
    dialect = "anthropic-messages"
    conversation = "messages"

    @cached_property
    def is_claude(self) -> bool:
        """Whether the model is Claude, on any host; others that use the dialect have rules of their own."""
        row = self.context.row
        if self.traits.dialect is not None:
            return self.traits.dialect == self.dialect
        return row.dialect == self.dialect or bool(row.anthropic.raw_predict)

    @cached_property
    def betas(self) -> frozenset[str]:
        """The betas in the header or, as clouds want them, in the body."""
        listed = self.body.get("anthropic_beta")
        names = self.headers.get("anthropic-beta", "").replace(" ", "").split(",")
        names += [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        return frozenset(filter(None, names))

    def has_beta(self, *starts: str) -> bool:
        """Tell whether a beta is requested, whatever its date."""
        return any(beta.startswith(starts) for beta in self.betas)

    def object(self, name: str) -> Fields:
        """Return a setting that is an object; empty if it is absent."""
        value = self.setting(name)
        return value if isinstance(value, dict) else {}

    @property
    def mode(self) -> str:
        """The `thinking.type`; empty if the request does not say."""
        return text(self.object("thinking"), "type")

    @property
    def budget(self) -> Any:
        """The `budget_tokens` of a model that accepts a budget, as far as it is known; None if there is no budget."""
        modes = self.traits.thinking
        accepted = self.mode == "enabled" and (not modes or "budget" in modes)
        return self.object("thinking").get("budget_tokens") if accepted else None

    @property
    def effort(self) -> str:
        return text(self.object("output_config"), "effort")

    @property
    def choice(self) -> str:
        """The `tool_choice.type`; empty if the request does not say."""
        return text(self.object("tool_choice"), "type")

    @cached_property
    def thinks(self) -> bool:
        if self.mode == "between_tools":
            return bool(self.turns and self.turns[-1].results)
        if self.mode:
            return self.mode != "disabled"
        return self.traits.thinking_default != "no" and "none" not in self.traits.thinking

    @cached_property
    def drops_unbound(self) -> bool:
        """Whether thinking blocks whose prefix changed are dropped instead of refused."""
        binding = self.object("thinking").get("block_binding")
        return isinstance(binding, dict) and binding.get("prefix_mismatch_behavior") == "drop_block"

    @property
    def is_summary_request(self) -> bool:
        """Whether the request asks for a summary of the conversation, and no reply."""
        return bool(self.object("compaction"))

    @property
    def compaction_edit(self) -> tuple[str, Fields] | None:
        """The setting by which a long conversation is compacted in a reply, with its pointer."""
        edits = objects(self.object("context_management").get("edits"), "/context_management/edits")
        return next((item for item in edits if item[1].get("type") == "compact_20260112"), None)

    def tools(self) -> Sequence[tuple[str, Fields]]:
        return self.list("tools")

    def custom_tools(self) -> Sequence[tuple[str, Fields]]:
        """Return the tools that the client defines; those of the provider have a type."""
        return [(pointer, tool) for pointer, tool in self.tools() if tool.get("type") in (None, "custom")]

    def strict_schemas(self) -> Sequence[tuple[str, str, Fields]]:
        """Return pointer, path and schema of strict tools and of the output format. The path is that of messages."""
        schemas = [
            (f"{pointer}/input_schema", f"{pointer[1:].replace('/', '.')}.custom", tool.get("input_schema"))
            for pointer, tool in self.custom_tools()
            if tool.get("strict") is True
        ]
        for place, output in (
            ("output_config.format", self.object("output_config").get("format")),
            ("output_format", self.object("output_format")),
        ):
            schema = output.get("schema") if isinstance(output, dict) else None
            schemas.append((f"/{place.replace('.', '/')}/schema", f"{place}.schema", schema))
        return [(pointer, path, schema) for pointer, path, schema in schemas if isinstance(schema, dict)]

    @cached_property
    def messages(self) -> list[BodyMessage]:
        found = []
        raw_messages = self.body.get("messages")
        for i, message in enumerate(raw_messages if isinstance(raw_messages, list) else []):
            if not isinstance(message, dict):
                continue
            content = message.get("content")
            if isinstance(content, str):
                blocks = [BodyBlock(i, 0, {"type": "text", "text": content}, "text", plain=True)] if content else []
            else:
                listed = enumerate(content if isinstance(content, list) else ())
                blocks = [BodyBlock(i, j, raw, text(raw, "type")) for j, raw in listed if isinstance(raw, dict)]
            found.append(BodyMessage(i, text(message, "role"), blocks, content))
        return found

    @cached_property
    def turns(self) -> list[MessagesTurn]:
        turns: list[MessagesTurn] = []
        after_system = False
        has_compactions = "compaction" in self._by_type
        for message in self.messages:
            role, blocks = message.role, message.blocks
            if role not in ("user", "assistant"):
                after_system = True
                continue
            if has_compactions:
                if message.is_compaction:
                    continue
                blocks = [block for block in blocks if not block.is_compaction]
            if not turns or turns[-1].role != role:
                turns.append(MessagesTurn(role, after_system))
            turn, after_system = turns[-1], False
            turn.blocks.extend(blocks)
            if role == "user":
                turn.results.extend([block for block in blocks if block.type == "tool_result"])
            else:
                turn.calls.extend([block for block in blocks if block.type == "tool_use"])
        return turns

    @cached_property
    def _assistant_turns(self) -> list[MessagesTurn]:
        return [turn for turn in self.turns if turn.role == "assistant"]

    def assistant_turns(self) -> Sequence[MessagesTurn]:
        return self.see(self._assistant_turns)

    @cached_property
    def _by_type(self) -> dict[str, list[BodyBlock]]:
        found: dict[str, list[BodyBlock]] = defaultdict(list)
        for message in self.messages:
            for block in message.blocks:
                found[block.type].append(block)
        return dict(found)

    def blocks(self, *types: str) -> Sequence[BodyBlock]:
        present = [type for type in types if type in self._by_type]
        if len(present) < 2:
            return self.see(self._by_type[present[0]]) if present else ()
        return self.see([block for message in self.messages for block in message.blocks if block.type in present])

    def types(self) -> Sequence[str]:
        return self.see(list(self._by_type))

    @cached_property
    def inner_blocks(self) -> dict[tuple[int, int], list[ContentItem]]:
        """The blocks inside tool results whose content is a list, by message and block index of the result."""
        return {
            (block.i, block.j): [
                ContentItem(pointer, f"messages.{block.i}.content.{block.j}.tool_result.content.{index}", raw)
                for index, (pointer, raw) in enumerate(objects(content, f"{block.pointer}/content"))
            ]
            for block in self._by_type.get("tool_result", ())
            if isinstance(content := block.raw.get("content"), list)
        }

    @cached_property
    def _content(self) -> list[ContentItem]:
        """The texts, images and blocks with `cache_control`, in messages and tool results; not contents that are strings."""
        found = []
        types = ("text", "image", "tool_result") if self.inner_blocks else ("text", "image")
        blocks = [block for message in self.messages for block in message.blocks]
        for block in [block for block in blocks if block.type in types or "cache_control" in block.raw]:
            if not block.plain and (block.type in ("text", "image") or "cache_control" in block.raw):
                found.append(ContentItem(block.pointer, f"messages.{block.i}.content.{block.j}", block.raw))
            found.extend(self.inner_blocks.get((block.i, block.j), ()))
        return found

    def content(self, *types: str) -> Sequence[ContentItem]:
        """Return the texts or images in messages and tool results, except texts that are a whole content."""
        return self.see([item for item in self._content if item.raw.get("type") in types])

    def cache_marks(self) -> Sequence[tuple[str, Fields]]:
        """Return the `cache_control` objects with their pointers, in the provider's order: tools, system, messages, body."""
        holders = [*objects(self.body.get("tools"), "/tools"), *objects(self.body.get("system"), "/system")]
        holders += [(item.pointer, item.raw) for item in self._content if "cache_control" in item.raw]
        holders.append(("", self.body))
        marks = [(f"{pointer}/cache_control", holder.get("cache_control")) for pointer, holder in holders]
        return self.see([(pointer, mark) for pointer, mark in marks if isinstance(mark, dict)])

    @cached_property
    def open_turn(self) -> MessagesTurn | None:
        """The assistant turn that the reply continues: a paused turn, or a prefill."""
        last = self.messages[-1] if self.messages else None
        if last is None or last.role != "assistant" or last.is_compaction or self.is_summary_request:
            return None
        return self.turns[-1]

    @cached_property
    def summary(self) -> BodyBlock | None:
        """The last compaction block with content. The model reads nothing before it."""
        filled = [block for block in self._by_type.get("compaction", ()) if text(block.raw, "content")]
        return filled[-1] if filled else None

    @cached_property
    def is_paused(self) -> bool:
        """Whether the provider interrupted the last turn at a tool of its own."""
        if self.open_turn is None or not self.open_turn.blocks:
            return False
        last = self.open_turn.blocks[-1].type
        if last in SERVER_CALLS or is_server_result(last):
            return True
        return any(item.paused for item in self.issued_items(self.open_turn))

    @cached_property
    def calls(self) -> Sequence[CallInBody]:
        calls = []
        for block in self._by_type.get("tool_use", ()):
            id, name = text(block.raw, "id"), text(block.raw, "name")
            calls.append(CallInBody(f"{block.pointer}/id" if id else block.pointer, id, name, block.raw.get("input")))
        return calls

    def accepts_call_id(self, id: str) -> bool:
        return CALL_ID.fullmatch(id) is not None

    def sent_tokens(self) -> Sequence[str]:
        groups = [blocks for type, blocks in self._by_type.items() if type not in _WITHOUT_TOKENS]
        return find_tokens([block.raw for blocks in groups for block in blocks])

    def results(self) -> Sequence[tuple[str, str]]:
        results = self._by_type.get("tool_result", ())
        return [(f"{block.pointer}/tool_use_id", text(block.raw, "tool_use_id")) for block in results]

    def issued_items(self, turn: MessagesTurn) -> Iterator[IssuedItem]:
        """Return the calls of a turn as they were issued; a turn without calls is found by its text."""
        return filter(None, map(self.tokens.item, turn.reply_keys()))

    reasoning_rules: list[tuple[SentReasoning, str]] | None = None
    """The reasoning blocks that break a rule, with the rule, once they have been judged."""

    @cached_property
    def reasoning(self) -> list[SentReasoning]:
        """The reasoning blocks of assistant turns that the model reads."""
        turns = [number for number, turn in enumerate(self.turns) if turn.role == "assistant"]
        summary, find = self.summary, self.tokens.find
        return [
            SentReasoning(block, number, index, find(block.token or ""), number == turns[-1])
            for number in turns
            for index, block in enumerate(self.turns[number].blocks)
            if block.type in REASONING and (summary is None or (block.i, block.j) >= (summary.i, summary.j))
        ]

    @cached_property
    def turn_prefixes(self) -> list[tuple[str, ...]]:
        """The digests of everything before each turn, and of the whole conversation. cache_control does not count.

        The first digest is that of the body. After a compaction, others stand for the messages that it replaces.
        """
        digests: tuple[str, ...] = (self.start_digest,)
        prefixes: list[tuple[str, ...]] = []
        role = ""
        for message in self.messages:
            blocks = [block for block in message.blocks if not block.is_compaction]
            for block in message.blocks:
                if block.is_compaction and text(block.raw, "content"):
                    digests = self._digests_after(block)
            if message.role in ("user", "assistant") and message.role != role and not message.is_compaction:
                prefixes.append(digests)
                role = message.role
            for block in blocks:
                form = _plain_json(block.raw)
                digests = tuple([content_digest(digest, message.role, form) for digest in digests])
        return [*prefixes, digests]

    @cached_property
    def start_digest(self) -> str:
        """The digest of the system prompt and the tools."""
        system = self.body.get("system") or []
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
        return content_digest(*map(_plain_json, blocks), b"/", *(_plain_json(tool) for _, tool in self.tools()))

    def digest_after(self, compaction: Fields) -> str:
        """Return the digest of everything up to a compaction block, which replaces all messages before it."""
        fields = {name: value for name, value in compaction.items() if value is not None}
        return content_digest(self.start_digest, _plain_json(fields))

    def _digests_after(self, block: BodyBlock) -> tuple[str, ...]:
        """Return the digest after a compaction, and those of the messages that a signed one replaces."""
        issued = self.tokens.find(text(block.raw, "signature"))
        replaced = issued.compacted if issued is not None else None
        roles = (
            message.role for message in self.messages[block.i :] for other in message.blocks if not other.is_compaction
        )
        if replaced is None or replaced.context != content_digest(self.start_digest, next(roles, "")):
            return (self.digest_after(block.raw),)
        return (self.digest_after(block.raw), *replaced.digests)

    @cached_property
    def prompt_tokens(self) -> int:
        """The approximate number of tokens of the prompt: an image or document has a fixed size, tokens have none."""
        return self.count_tokens(self._read_messages)

    def count_tokens(self, messages: Any) -> int:
        return 3 + sum(map(_count_tokens, (self.body.get("system"), self.body.get("tools"), messages)))

    @cached_property
    def prompt_blocks(self) -> list[PromptBlock]:
        """The tools, the blocks of the system prompt and those of the messages, in the order of the cache."""
        blocks = [_prompt_block(tool) for tool in self.body.get("tools") or ()]
        blocks += _prompt_blocks(self.body.get("system"))
        for message in self._read_messages or ():
            first, *rest = _prompt_blocks(message.get("content")) or [_prompt_block("")]
            around = _count_tokens({**message, "content": ""})
            form = str(message.get("role")).encode() + first.form
            blocks += [first._replace(form=form, tokens=first.tokens + around), *rest]
        return blocks

    @cached_property
    def prompt_characters(self) -> int:
        parts = {name: self.body.get(name) for name in ("system", "tools")}
        return count_characters({**parts, "messages": self._read_messages}, _OPAQUE)

    @cached_property
    def _read_messages(self) -> Any:
        """The messages that the model reads."""
        messages: Any = self.body.get("messages")
        if self.summary is None:
            return messages
        first = messages[self.summary.i]
        return [{**first, "content": first["content"][self.summary.j :]}, *messages[self.summary.i + 1 :]]


def _prompt_blocks(content: Any) -> list[PromptBlock]:
    return [_prompt_block(block) for block in ([content] if isinstance(content, str) else content or ())]


def _prompt_block(block: Any) -> PromptBlock:
    raw = {"type": "text", "text": block} if isinstance(block, str) else block
    content = raw.get("content")
    inner = content if isinstance(content, list) else []
    marks = [mark for part in (*inner, raw) if isinstance(part, dict) and (mark := part.get("cache_control"))]
    is_cacheable = raw.get("type") not in REASONING and raw.get("text") != ""
    return PromptBlock(_plain_json(raw), _count_tokens(block), marks[-1] if marks else None, is_cacheable)


def _plain_json(block: Any) -> bytes:
    """Write a block without cache_control, which may also stand in the content of a result or a document."""
    return jsonio.encode(_without_cache_control(block))


def _without_cache_control(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_cache_control(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {name: item for name, item in value.items() if name != "cache_control"}
    return fields | {name: _without_cache_control(fields[name]) for name in ("content", "source") if name in fields}


def _count_tokens(value: Any) -> int:
    if isinstance(value, str):
        return (len(value) + 3) // 4
    if isinstance(value, dict):
        if value.get("type") in ("image", "document"):
            source, title = value.get("source"), _count_tokens(value.get("title") or "")
            if isinstance(source, dict) and source.get("type") in ("text", "content"):
                return title + _count_tokens(source.get("data")) + _count_tokens(source.get("content"))
            return title + _MEDIA_TOKENS
        return sum(1 + _count_tokens(inner) for name, inner in value.items() if name not in _OPAQUE)
    return sum(map(_count_tokens, value)) if isinstance(value, list) else 1


def count_characters(value: Any, skipped: frozenset[str] = frozenset()) -> int:
    """Count the characters of every string in a JSON value, except in some fields."""
    count, pending = 0, [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            count += len(item)
        elif isinstance(item, dict):
            pending.extend(inner for name, inner in item.items() if name not in skipped)
        elif isinstance(item, list):
            pending.extend(item)
    return count
