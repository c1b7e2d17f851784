"""The inbox of a session: items that any process may post without holding the lease.

The process that holds the lease takes an item in the transaction that writes the entries the item becomes. An item of a
kind that a later version has added is an `UnknownItem`.
"""

from typing import TypeAlias

import msgspec

from tenuto.core.blocks import Value
from tenuto.core.messages import Message, Usage


class _Item(Value, frozen=True, tag_field="item"):
    pass


class Prompt(_Item, frozen=True, tag="prompt"):
    """A user message that starts a run. It becomes `MessageAdded`."""

    message: Message
    key: str = ""
    """The idempotency key of `send(key=)`."""


class Steer(_Item, frozen=True, tag="steer"):
    """A message for the running session. It becomes `SteeringAdded` at the next turn boundary."""

    message: Message


class Decision(_Item, frozen=True, tag="decision"):
    """The approval or denial of a tool call. It becomes `ApprovalDecided`."""

    call_id: str
    call_index: int
    """The index of the call in its reply; ids may repeat."""
    allowed: bool
    reason: str = ""
    reply_seq: int = 0
    """The sequence number of the reply with the call; 0: the last reply."""
    session: str = ""
    """The sub-agent session that made the call, if the item is posted to a session above it, which forwards it."""


class Cancel(_Item, frozen=True, tag="cancel"):
    """Ends the run."""

    reason: str = ""


class Finished(_Item, frozen=True, tag="finished"):
    """A background sub-agent ended. It becomes `SteeringAdded` in the parent session."""

    session: str
    """The session of the sub-agent."""
    message: Message
    """The message for the model of the parent session."""
    usage: Usage | None = None
    cost: str = ""
    """The cost in USD as a decimal number."""


class UnknownItem(msgspec.Struct, frozen=True, gc=False):
    """An item that this version does not know."""

    kind: str
    raw: str
    """The exact JSON text."""


InboxItem: TypeAlias = Prompt | Steer | Decision | Cancel | Finished


class PostedItem(msgspec.Struct, frozen=True, gc=False):
    number: int
    """The position in the inbox. A later item has a higher number; no number is used twice."""
    id: str
    """The id of the item. The entry that it becomes gets the same id."""
    time_ms: int
    """The time of the post: milliseconds since 1970."""
    item: InboxItem | UnknownItem


def item_kind(item: InboxItem | UnknownItem) -> str:
    """Return the kind of an item: the value of `item` in its stored form."""
    return item.kind if isinstance(item, UnknownItem) else str(item.__struct_config__.tag)
