"""A loss: content or a parameter that could not be carried from one form to another."""

from __future__ import annotations

from tenuto.core.blocks import Value


class Location(Value, frozen=True):
    """A place in a request: a message, a block of it, a field of either, or a parameter."""

    message: int | None = None
    """The index of the message in the transcript; None for a parameter."""
    block: int | None = None
    """The index of the block, content part or tool result in the message; None for the message itself."""
    path: str = ""
    """A field below the message or block, such as `content[2]`; without a message, a parameter such as `temperature`."""

    def field(self, name: str) -> Location:
        return Location(self.message, self.block, f"{self.path}.{name}" if self.path else name)

    def __str__(self) -> str:
        parts = [] if self.message is None else [f"messages[{self.message}]"]
        if self.block is not None:
            parts.append(f"blocks[{self.block}]")
        return ".".join([*parts, self.path] if self.path else parts)


class Loss(Value, frozen=True):
    """Content or a parameter that a request or a response could not carry."""

    kind: str
    """The reason in one word, such as `foreign-token`."""
    location: Location
    detail: str
    """The content or the parameter that was lost."""
    remedy: str = ""
    """What the caller can do about it."""


class Placement(Value, frozen=True):
    """What became of one block of a transcript in a request."""

    location: Location
    pointer: str = ""
    """The JSON pointer of the block in the body; empty if it was not sent."""
    losses: tuple[Loss, ...] = ()
    """What the block lost, or why it was not sent. Without a pointer and without losses the block was empty."""
