"""Reasoning that a model writes into its text, between `<think>` and `</think>`.

Only a tag that opens the text counts; blanks may stand before it. A `<think>` later on is prose. Nothing is trimmed:
what stood before the tag, between the tags and behind them can be put together again to the very text that came.
"""

from __future__ import annotations

from msgspec import Raw

from tenuto.core import jsonio

__all__ = ["CLOSE", "OPEN", "ThinkTags", "retagged"]

OPEN = "<think>"
CLOSE = "</think>"


class ThinkTags:
    """Takes text in pieces cut anywhere, and tells thought from speech as soon as that is certain.

    `opened` and `closed` say which of the tags have come; `decided` that everything still to come is speech; `before`
    is what stood before the opening tag.
    """

    def __init__(self) -> None:
        self.opened = False
        self.closed = False
        self.decided = False
        self._blanks: list[str] = []
        self._held = ""

    @property
    def before(self) -> str:
        """The blanks before the opening tag."""
        return "".join(self._blanks)

    @property
    def pending(self) -> bool:
        """Whether something is held back, or a thought is open."""
        return not self.decided and bool(self.opened or self._held or self._blanks)

    def feed(self, piece: str) -> tuple[str, str]:
        """Take a piece; return the thought and the speech it settles."""
        if self.decided:
            return "", piece
        return self._inside(piece) if self.opened else self._start(piece)

    def flush(self) -> tuple[str, str]:
        """No more comes: return what was held back."""
        held, self._held = self._held, ""
        if self.decided:
            return "", ""
        self.decided = True
        return (held, "") if self.opened else ("", self.before + held)

    def _start(self, piece: str) -> tuple[str, str]:
        text = self._held + piece
        self._held = ""
        if not self._held_back(text):
            bare = text.lstrip()
            if bare.startswith(OPEN):
                self._blanks.append(text[: len(text) - len(bare)])
                self.opened = True
                return self._inside(bare[len(OPEN) :])
            self.decided = True
            return "", self.before + text
        return "", ""

    def _held_back(self, text: str) -> bool:
        """Keep what may still become the opening tag."""
        bare = text.lstrip()
        if not OPEN.startswith(bare) or bare == OPEN:
            return False
        self._blanks.append(text[: len(text) - len(bare)])
        self._held = bare
        return True

    def _inside(self, piece: str) -> tuple[str, str]:
        text = self._held + piece
        end = text.find(CLOSE)
        if end >= 0:
            self._held = ""
            self.closed = self.decided = True
            return text[:end], text[end + len(CLOSE) :]
        keep = next((n for n in range(min(len(CLOSE) - 1, len(text)), 0, -1) if CLOSE.startswith(text[-n:])), 0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], ""

    def extra(self) -> str:
        """Return what a reasoning block must remember to be put back: blanks before the tag, a tag never closed."""
        fields: dict[str, Raw] = {}
        if self.before:
            fields["before"] = Raw(jsonio.encode(self.before))
        if not self.closed:
            fields["closed"] = Raw(b"false")
        return jsonio.object_text(fields)


def retagged(text: str, extra: str) -> str:
    """Put the tags back around a thought: the inverse of reading it."""
    fields = jsonio.members(extra) if extra else {}
    raw = fields.get("before")
    before = jsonio.text_of(raw) if raw is not None and bytes(raw)[:1] == b'"' else ""
    return f"{before}{OPEN}{text}{'' if 'closed' in fields else CLOSE}"
