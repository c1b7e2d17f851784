"""Separate reasoning that a model writes into its text, between `<think>` and `</think>`.

Only a tag at the start of the text counts; whitespace may precede it. A later `<think>` is ordinary text. Nothing is
trimmed, so the original text can be restored exactly.
"""

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.wire.rawjson import text_or_empty

OPEN = "<think>"
CLOSE = "</think>"


class ThinkTags:
    """Split text that arrives in pieces into reasoning and answer, as early as possible."""

    def __init__(self) -> None:
        self.has_open_tag = False
        self.has_close_tag = False
        self.is_done = False
        """All further text is answer."""
        self._blanks: list[str] = []  # whitespace before the opening tag
        self._buffer = ""  # the possible start of a tag

    @property
    def is_pending(self) -> bool:
        """Whether text is held back, or the reasoning is open."""
        return not self.is_done and bool(self.has_open_tag or self._buffer or self._blanks)

    def feed(self, piece: str) -> tuple[str, str]:
        """Add a piece of text; return the reasoning and the answer that are certain now."""
        if self.is_done:
            return "", piece
        text, self._buffer = self._buffer + piece, ""
        if not self.has_open_tag:
            rest = text.lstrip()
            if not rest.startswith(OPEN) and not OPEN.startswith(rest):
                self.is_done = True
                return "", "".join(self._blanks) + text
            self._blanks.append(text[: len(text) - len(rest)])
            if not rest.startswith(OPEN):
                self._buffer = rest
                return "", ""
            self.has_open_tag = True
            text = rest[len(OPEN) :]
        end = text.find(CLOSE)
        if end >= 0:
            self.has_close_tag = self.is_done = True
            return text[:end], text[end + len(CLOSE) :]
        size = next((n for n in range(min(len(CLOSE) - 1, len(text)), 0, -1) if CLOSE.startswith(text[-n:])), 0)
        self._buffer = text[len(text) - size :]
        return text[: len(text) - size], ""

    def flush(self) -> tuple[str, str]:
        """Return the text that was held back, at the end of the stream."""
        text, self._buffer = self._buffer, ""
        if self.is_done:
            return "", ""
        self.is_done = True
        return (text, "") if self.has_open_tag else ("", "".join(self._blanks) + text)

    def extra(self) -> str:
        """Return extra fields for the reasoning block: whitespace before the tag, a missing closing tag."""
        fields: dict[str, Raw] = {}
        if before := "".join(self._blanks):
            fields["before"] = Raw(jsonio.encode(before))
        if not self.has_close_tag:
            fields["closed"] = Raw(b"false")
        return jsonio.object_text(fields)


def restore_tags(text: str, extra: str) -> str:
    """Put the tags around reasoning, as they were received."""
    fields = jsonio.members(extra) if extra else {}
    return f"{text_or_empty(fields.get('before'))}{OPEN}{text}{'' if 'closed' in fields else CLOSE}"
