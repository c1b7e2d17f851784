"""Tokens, items and calls that a provider issued in earlier replies.

Rules never open a token or read a transcript: they ask `IssuedTokens`. The simulator answers from the token itself, the
audit from the replies of the transcript.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from tenuto.core.blocks import AnthropicMeta, AnthropicRedactedMeta, ChatMeta, GeminiMeta, OpenAiMeta, ProviderMeta

if TYPE_CHECKING:
    from tenuto.rules.body import RequestBody


class CompactedMessages(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The messages that a compaction stands for."""

    turns: int = 0
    """The number of replies among them."""
    summary: str = ""
    """The summary, if the token hides it."""
    tool_changes: str = ""
    """The digest of the `tool_changes` of the block; empty: unknown."""
    digests: tuple[str, ...] = ()
    """Digests of the conversation up to here; reasoning after it may be bound to any of them."""
    context: str = ""
    """The digest of the system prompt, the tools and the role of the next message, for which `digests` hold."""


class IssuedToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A signature, encrypted content or other opaque token, with its origin as far as it is known.

    An empty field is unknown and matches anything.
    """

    kind: str
    """The type of the block that has the token, such as `thinking`, `redacted_thinking`, `reasoning`, `compaction`."""
    provider: str = ""
    """The name of the provider row."""
    platform: str = ""
    account: str = ""
    model: str = ""
    reply: str = ""
    """The id of the reply: equal for all tokens of one reply, different for two replies."""
    index: int = -1
    """The index of the block in its reply."""
    contents: tuple[str, ...] = ()
    """Digests (`content_digest`) of the content that the token was issued for; any of them matches."""
    parts: tuple[str, ...] | None = None
    """The content itself instead of its digest, if it is at hand."""
    length: int = 0
    """The number of characters of the signed text."""
    before: str = ""
    """The digest of the blocks before it in the same reply."""
    reasoning_before: int = 0
    """The number of reasoning blocks before it in the same reply."""
    offset: int = 0
    """The number of blocks that the assistant message already had when the reply started (prefill, paused turn); -1:
    unknown."""
    prefix: str = ""
    """The digest of everything before the reply, if the token is bound to it."""
    id: str = ""
    """The id of the item or call that has the token."""
    foreign: bool = False
    """Whether another provider, platform or account issued it, as far as the source can say."""
    compacted: CompactedMessages | None = None
    """The messages that a compaction stands for, as far as they are known."""

    def is_from_target(self, request: RequestBody) -> bool:
        """Tell whether the target of a request issued the token: the same provider, platform and account."""
        is_from_provider = not self.foreign and matches(self.provider, request.provider)
        is_from_platform = is_from_provider and matches(self.platform, request.context.platform)
        return is_from_platform and matches(self.account, request.account)


class IssuedItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An output item or a tool call, found by its id."""

    kind: str
    """The type of the item or call."""
    reply: str = ""
    index: int = -1
    after_reasoning: str = ""
    """The id of the reasoning item that must precede it; empty: none."""
    next_kind: str = ""
    """The type of the item that followed it in its reply; empty: none, or unknown."""
    name: str = ""
    args: str = ""
    foreign: bool = False
    started_with_reasoning: bool | None = None
    """Whether its reply started with reasoning; None: unknown, or it had none."""
    has_reasoning: bool = False
    """Whether its reply had reasoning."""
    fields: tuple[str, ...] = ()
    """Further fields of the call or the reply that are sent back, such as `caller`, `container`, `phase`, `namespace`."""
    paused: bool = False
    """Whether the provider interrupted its reply, which the next request continues."""


class IssuedTokens:
    """The tokens of earlier replies, as far as they are known; in this base class, nothing is known."""

    is_known = False
    """Whether earlier replies are known. If not, no rule judges a token."""

    def find(self, token: str) -> IssuedToken | None:
        """Return the token as it was issued; None if this provider did not issue it."""
        return None

    def item(self, id: str) -> IssuedItem | None:
        """Return the item or tool call with this id; None if no reply had it."""
        return None

    def issued_fields(self, id: str) -> tuple[str, ...]:
        """Return the further fields that an item or call of this provider had, or its reply."""
        issued = self.item(id) if id else None
        return issued.fields if issued is not None and not issued.foreign else ()

    def has_prefix(self, token: IssuedToken, body: RequestBody, turn: int) -> bool:
        """Tell whether everything before turn number `turn` of the body is what the token is bound to."""
        return True


class StoredReply(msgspec.Struct, frozen=True):
    """A reply that the provider stored: the request and the response, as JSON objects."""

    request: dict[str, Any]
    response: dict[str, Any]


def token_of(meta: ProviderMeta | None) -> str:
    """Return the token in the metadata of a block, or the list of details that has it; empty without one."""
    match meta:
        case AnthropicMeta(signature=token) | AnthropicRedactedMeta(data=token) | GeminiMeta(thought_signature=token):
            return token
        case OpenAiMeta(encrypted_content=content):
            return content or ""
        case ChatMeta(details=details, signature=signature):
            return details or signature
        case _:
            return ""


_NO_CONTENT = hashlib.blake2b(digest_size=8).hexdigest()


def content_digest(*parts: str | bytes) -> str:
    """Return 16 hex digits that identify these parts in their order."""
    if not parts:
        return _NO_CONTENT
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


def matches(issued: str, current: str) -> bool:
    """Compare two fields of which either may be unknown."""
    return not issued or not current or issued == current


def has_content(token: IssuedToken, *parts: str | bytes) -> bool:
    """Tell whether the token was issued for this content, as far as it is known."""
    if token.parts is not None:
        return token.parts == parts
    return not token.contents or content_digest(*parts) in token.contents
