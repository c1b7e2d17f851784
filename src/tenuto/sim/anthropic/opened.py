"""A Messages request, laid out for judging: blocks with their places, and neighbours of one role joined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tenuto.sim.anthropic.models import ANY, Model
from tenuto.sim.asked import Request

__all__ = ["REASONING", "Block", "Message", "Opened", "is_server_result", "is_server_use"]

REASONING = ("thinking", "redacted_thinking")


class Block(msgspec.Struct, frozen=True):
    """A block and its place: message `i`, block `j`. `plain` is a message whose content is a string."""

    raw: dict[str, Any]
    i: int
    j: int
    plain: bool = False

    @property
    def type(self) -> str:
        """The block's type."""
        found: str = self.raw["type"]
        return found

    @property
    def place(self) -> str:
        """Where it is, as a JSON pointer."""
        return f"/messages/{self.i}/content" if self.plain else f"/messages/{self.i}/content/{self.j}"

    @property
    def at(self) -> dict[str, Any]:
        """The names in a rule's text and place."""
        return {"i": self.i, "j": self.j}


class Message(msgspec.Struct, frozen=True):
    """A message, or several of one role that the server joins. `i` is the place of the first."""

    role: str
    i: int
    blocks: tuple[Block, ...]

    def of(self, *types: str) -> list[Block]:
        """Return its blocks of some types."""
        return [block for block in self.blocks if block.raw["type"] in types]

    @property
    def thinks(self) -> bool:
        """Whether any reasoning is left in it."""
        return any(block.raw["type"] in REASONING for block in self.blocks)


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose shape is known to be right. `merged` has no two neighbours of one role."""

    request: Request
    model: Model
    betas: frozenset[str]
    messages: tuple[Message, ...]
    merged: tuple[Message, ...]
    known: dict[str, Any] = msgspec.field(default_factory=dict)
    """What several checks ask for is worked out once."""

    @property
    def body(self) -> dict[str, Any]:
        """The body as it came."""
        return self.request.body

    @property
    def mode(self) -> str:
        """The `thinking.type` that is asked for, empty if none is."""
        thinking = self.body.get("thinking")
        return str(thinking["type"]) if thinking else ""

    @property
    def signs(self) -> bool:
        """Whether thoughts are signed here: they are, but where another maker speaks the dialect."""
        return self.request.style.name != "deepseek"

    @property
    def thinks(self) -> bool:
        """Whether the model thinks in its reply."""
        if self.mode == "between_tools":
            return bool(self.merged[-1].of("tool_result"))
        if self.mode:
            return self.mode != "disabled"
        return self.request.style.thinks if self.model is ANY else self.model.thinks

    @property
    def shows(self) -> bool:
        """Whether its thoughts are to be seen."""
        display = (self.body.get("thinking") or {}).get("display")
        return display != "omitted" if display else not self.model.omits

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that are declared."""
        return self.body.get("tools") or []

    @property
    def choice(self) -> str:
        """The `tool_choice.type` that is asked for, empty if none is."""
        choice = self.body.get("tool_choice")
        return str(choice["type"]) if choice else ""

    @property
    def latest(self) -> int:
        """The place of the latest assistant message among the merged ones; -1 if there is none."""
        backwards = range(len(self.merged) - 1, -1, -1)
        return next((at for at in backwards if self.merged[at].role == "assistant"), -1)

    @property
    def continued(self) -> Message | None:
        """The assistant message that the reply goes on with: a paused turn, or a prefill."""
        return self.merged[-1] if self.merged[-1].role == "assistant" else None

    @property
    def paused(self) -> bool:
        """Whether the last message is a turn that stopped at a server tool or a compaction, rather than a prefill."""
        last = self.continued
        ends = last.blocks[-1].type if last and last.blocks else ""
        return is_server_use(ends) or is_server_result(ends) or ends == "compaction"

    def has_beta(self, *starts: str) -> bool:
        """Tell whether a beta is asked for, whatever its date."""
        return any(beta.startswith(starts) for beta in self.betas)

    def blocks(self, *types: str) -> Iterator[Block]:
        """Yield the blocks of all messages, of some types or of any."""
        for message in self.messages:
            for block in message.blocks:
                if not types or block.raw["type"] in types:
                    yield block

    def assistants(self) -> Iterator[tuple[int, Message]]:
        """Yield the merged assistant messages with their places among the merged."""
        return ((at, message) for at, message in enumerate(self.merged) if message.role == "assistant")

    def marks(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the cache marks in the order in which they are worked off, with their paths."""
        system = self.body.get("system")
        places = [(f"tools.{at}", tool) for at, tool in enumerate(self.tools)]
        places += [(f"system.{at}", block) for at, block in enumerate(system if isinstance(system, list) else [])]
        for block in self.blocks():
            path = f"messages.{block.i}.content.{block.j}"
            inner = block.raw.get("content")
            places.append((path, block.raw))
            if block.type == "tool_result" and isinstance(inner, list):
                places += [(f"{path}.content.{at}", found) for at, found in enumerate(inner)]
        for path, holder in [*places, ("", self.body)]:
            mark = holder.get("cache_control")
            if isinstance(mark, dict):
                yield f"{path}.cache_control".removeprefix("."), mark


def is_server_use(type: str) -> bool:
    """Tell whether a block is a call that the provider answers itself."""
    return type in ("server_tool_use", "mcp_tool_use")


def is_server_result(type: str) -> bool:
    """Tell whether a block is the provider's own answer to such a call."""
    return type.endswith("_tool_result")
