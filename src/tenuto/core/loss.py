"""A loss: content or a parameter that could not be carried from one form to another."""

from __future__ import annotations

from tenuto.core.blocks import Value


class Loss(Value, frozen=True):
    """Content or a parameter that a request or a response could not carry."""

    kind: str
    """The reason in one word, such as `foreign-token`."""
    place: str
    """Where the content was, such as `messages[3].blocks[1]` or `temperature`."""
    detail: str
    """The content or the parameter that was lost."""
    remedy: str = ""
    """What the caller can do about it."""
