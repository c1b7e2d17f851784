"""A request as the simulator sees it: how it came, whom it asks, and what is said in it, whatever the dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from tenuto.core.provider import Dialect
from tenuto.sim.mint import Mint, Seals

__all__ = ["Asked", "Made", "Malformed", "Offered", "Request", "Said", "Style"]


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that can be played. Its name is the first half of a model's: `deepseek`, `deepseek/deepseek-v4-pro`.

    `models` is a pattern for the ids that exist here; a bare style asks for no model in particular, and only what holds
    for all of the provider's models holds. `envelope` is the form of its errors.
    """

    name: str
    dialect: Dialect
    envelope: str
    error_list: bool = False
    """The body of an error is a list with one object."""
    models: str = ".*"
    reasoning: Literal["reasoning_content", "reasoning", "reasoning_details", "chunks", "tags", "none"] = "none"
    """Chat dialect: where its reasoning stands."""
    thinks: bool = True
    """Whether a bare style thinks unasked."""
    call_id: Literal["call", "nine", "functions", "plain"] = "call"
    """Chat dialect: what its call ids look like (`call_...`, nine letters, `functions.name:0`, 24 hex digits)."""
    window: int = 1_000_000
    """How many tokens fit, where the model does not say otherwise."""


class Malformed(Exception):
    """A request that cannot be read at all: the message and the place, to be put into the provider's envelope."""

    def __init__(self, message: str, place: str = "", *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.place = place
        self.status = status
        self.code = code


class Made(msgspec.Struct, frozen=True):
    """A reply that the log remembers, for what the real provider would have stored."""

    request: dict[str, Any]
    reply: dict[str, Any]


def _nothing(_id: str) -> Made | None:
    return None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `model` is the real model's id, empty for a bare style; `named` is what the request calls it, and what
    the reply calls it back. `account` tells keys apart. `digest` stands for everything but the wish to be streamed.
    `stored` finds a reply of this process by its id, or by the id of an item in it.
    """

    style: Style
    model: str
    named: str
    account: str
    headers: dict[str, str]
    body: dict[str, Any]
    digest: str
    seals: Seals
    verb: str = ""
    stream: bool = False
    stored: Callable[[str], Made | None] = _nothing


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model may use; `kind` is `function` (called by the client), `search`, `code` or `other`."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    kind: Literal["function", "custom", "search", "code", "other"] = "function"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One message: its text, the calls it makes (name, arguments), the results it brings (name, text)."""

    role: Literal["system", "user", "assistant"]
    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    results: tuple[tuple[str, str], ...] = ()


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, in no dialect. `turn` is the number of assistant turns there are: the place in a script.

    `choice` is `auto`, `none`, `required` or the name of the one tool that must be called. `schema` is what the answer
    has to fit, `{}` any JSON. `prompt_tokens` is the size of it all; `think` whether the model thinks, `show` whether
    its thoughts are to be seen.
    """

    request: Request
    turn: int
    system: str = ""
    said: tuple[Said, ...] = ()
    tools: tuple[Offered, ...] = ()
    choice: str = "auto"
    parallel: bool = True
    think: bool = False
    show: bool = True
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    choices: int = 1
    prompt_tokens: int = 0

    def mint(self, seed: str) -> Mint:
        """Return the chance of this reply."""
        return Mint(seed, self.request.digest)
