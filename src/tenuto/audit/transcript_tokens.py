"""What the tokens of a transcript's replies have in common in all dialects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from tenuto.core import jsonio
from tenuto.core.blocks import Block
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Target
from tenuto.rules.body import Fields, RequestBody
from tenuto.rules.issued_tokens import IssuedToken
from tenuto.wire.token_scope import foreign_replies


class TranscriptTokens:
    """The tokens and items that replies issued. A reply is known by its number."""

    is_known = True

    def __init__(self, replies: tuple[AssistantMessage, ...], target: Target) -> None:
        self.replies = replies
        self.target = target
        self.foreign = foreign_replies(replies, target)
        """For each reply whether another provider, host or account gave it."""

    def blocks(self) -> Iterator[tuple[int, int, Block]]:
        """Yield each block with the numbers of its reply and of itself."""
        for reply, message in enumerate(self.replies):
            for index, block in enumerate(message.blocks):
                yield reply, index, block

    def has_prefix(self, token: IssuedToken, body: RequestBody, turn: int) -> bool:
        return True  # only tokens of the Messages dialect are bound to their prefix


def parse_value(raw: str) -> Any:
    """Return the JSON value; the text itself if it is not JSON, None if it is empty."""
    try:
        return msgspec.json.decode(raw) if raw else None  # four times as fast as jsonio
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return raw if jsonio.problem(raw) else jsonio.parse(raw)


@lru_cache(64)  # most calls have the same fields
def parse_fields(raw: str) -> Fields:
    """Return the fields of a JSON object; nothing if it is not one."""
    value = parse_value(raw)
    return value if isinstance(value, dict) else {}
