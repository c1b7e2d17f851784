"""The tokens of chat replies in a transcript: OpenRouter's reasoning details and Mistral's signed thinking."""

from __future__ import annotations

from functools import cached_property

from tenuto.audit.transcript_tokens import TranscriptTokens, parse_value
from tenuto.core.blocks import ChatMeta, Reasoning
from tenuto.core.messages import AssistantMessage
from tenuto.rules.chat_hosts import detail_content, detail_token
from tenuto.rules.issued_tokens import IssuedItem, IssuedToken, content_digest

_NO_REPLY = IssuedItem(kind="message", started_with_reasoning=False)


class ChatTokens(TranscriptTokens):
    def find(self, token: str) -> IssuedToken | None:
        known = self._tokens.get(token)
        if known is None:
            return None
        kind, reply, index, content = known
        return IssuedToken(kind=kind, reply=reply, index=index, contents=(content_digest(*content),))

    def item(self, id: str) -> IssuedItem | None:
        """Return the reply with this call, or the reply without calls whose text has this digest.

        A message of no reply had no reasoning.
        """
        return self._items.get(id, _NO_REPLY)

    @cached_property
    def _tokens(self) -> dict[str, tuple[str, str, int, list[str]]]:
        """The kind of each token, its reply, its index in it, and the content that it was issued for."""
        tokens: dict[str, tuple[str, str, int, list[str]]] = {}
        for number, (reply, foreign) in enumerate(zip(self.replies, self.foreign, strict=True)):
            if foreign:
                continue
            reasoning = _reasoning(reply)
            texts = [text for text, _ in reasoning]
            for index, (_, meta) in enumerate(reasoning):
                tokens[meta.signature] = "thinking", str(number), index, texts
            values = [parse_value(meta.details) for _, meta in reasoning]
            details = [
                detail for value in values if isinstance(value, list) for detail in value if type(detail) is dict
            ]
            content = detail_content(details)
            for index, detail in enumerate(details):
                tokens[detail_token(detail)] = str(detail.get("format")), str(number), index, content
        tokens.pop("", None)
        return tokens

    @cached_property
    def _items(self) -> dict[str, IssuedItem]:
        items: dict[str, IssuedItem] = {}
        for number, (reply, foreign) in enumerate(zip(self.replies, self.foreign, strict=True)):
            has_reasoning = any(text for text, _ in _reasoning(reply))
            for key in [call.id for call in reply.tool_calls()] or [content_digest(str(reply))]:
                # A message may be one of several replies with the same text.
                is_first = key not in items
                items[key] = IssuedItem(
                    kind="message",
                    reply=str(number) if is_first else "",
                    started_with_reasoning=has_reasoning and (is_first or bool(items[key].started_with_reasoning)),
                    foreign=foreign,
                )
        return items


def _reasoning(reply: AssistantMessage) -> list[tuple[str, ChatMeta]]:
    blocks = [block for block in reply.blocks if isinstance(block, Reasoning)]
    return [(block.text, block.meta) for block in blocks if isinstance(block.meta, ChatMeta)]
