"""Build the body of a request, collect losses, and write the bytes.

Arguments, extra fields and opaque blocks are `Raw` in the body and keep their bytes. Lone surrogates cannot be sent:
they become U+FFFD, with a `Loss`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import compress, repeat
from operator import is_not
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import Text
from tenuto.core.loss import Loss
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest

_PLACEHOLDER = "(empty message)"
_METADATA = "use metadata={provider: {field: value}} or extra_body"

_ESCAPE = rb"(?s)\\(?:u([0-9a-fA-F]{4})|.)"  # compiled when there is one to look for


def extra_fields(extra: str) -> dict[str, Raw]:
    """Return a block's or message's extra fields, ready to be merged into a wire object."""
    return jsonio.members(extra) if extra else {}


def set_parameters(request: ChatRequest, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the parameters that the request sets, with their values."""
    # Iterate in C: a Python loop was 10 % of encoding a plain request.
    values = [*map(getattr, repeat(request), names)]
    return compress(zip(names, values, strict=True), map(is_not, values, repeat(None)))


def raw_object(text: str) -> Raw | None:
    """Return `text` as a JSON object to splice in; None if it is something else."""
    stripped = text.strip()
    if not stripped.startswith("{") or jsonio.problem(stripped):
        return None
    return Raw(stripped.encode("utf-8", "surrogatepass"))


def splice_json(text: str) -> Raw | str:
    """Return JSON text as `Raw`; text that is not JSON stays a string."""
    return text if jsonio.problem(text) else Raw(text.encode("utf-8", "surrogatepass"))


def error_text(text: str) -> str:
    """Say in words that a tool failed, for dialects whose results have no flag for it."""
    return text if text.lower().startswith("error") else f"Error: {text}"


class BodyBuilder:
    """The body, headers and losses of one request."""

    def __init__(self, request: ChatRequest, target: Target, losses: tuple[Loss, ...] = ()) -> None:
        self.request = request
        self.target = target
        self.losses: list[Loss] = list(losses)
        self.body: dict[str, Any] = {}
        self.headers: dict[str, str] = {"content-type": "application/json"}
        self._joined: dict[str, list[str]] = {}

    def placeholder(self, place: str) -> str:
        """Return the text that is sent for a user message without content, and record the `Loss`."""
        self.record_loss("empty-message", place, "a user message without content: a placeholder is sent")
        return _PLACEHOLDER

    def leave_out_if_empty(self, message: AssistantMessage, place: str) -> None:
        """Record the `Loss` of an assistant message that has no content, and so is not sent."""
        if all(isinstance(block, Text) and not block.text.strip() for block in message.blocks):
            self.record_loss("empty-message", place, "an assistant message without content is left out")

    def record_loss(self, rule: str, place: str, what: str, remedy: str = "") -> None:
        """Record something that could not be carried."""
        self.losses.append(Loss(rule, place, what, remedy))

    def set_if_given(self, **fields: Any) -> None:
        """Set body fields; those that are None stay out."""
        for name, value in fields.items():
            if value is not None:
                self.body[name] = value

    def record_unsupported(self, *names: str, remedy: str = "") -> None:
        """Record parameters of the request that this dialect has no word for, where they were given."""
        for name, value in set_parameters(self.request, names):
            if value not in ((), {}):
                self.record_loss("unsupported-parameter", name, repr(value)[:200], remedy)

    def join_header(self, name: str, value: str) -> None:
        """Add a value to a header that holds a list; the row's and the caller's own values stay in it."""
        self._joined.setdefault(name, []).append(value)

    def finish(self, path: str) -> WireRequest:
        """Merge what the caller adds for this provider, and write the bytes."""
        request, provider = self.request, self.target.provider
        if request.metadata:
            by_provider = {name: fields for name, fields in request.metadata.items() if isinstance(fields, dict)}
            for name in sorted(request.metadata.keys() - by_provider.keys()):
                self.record_loss(
                    "unsupported-parameter", f"metadata.{name}", repr(request.metadata[name])[:200], _METADATA
                )
            for name in (provider.name, *provider.aliases):
                self.body.update(by_provider.get(name, {}))
        self.body.update(request.extra_body)
        body = self._scrubbed(jsonio.encode(self.body))
        headers = {**provider.headers, **self.headers}
        if request.extra_headers or self._joined:
            self._add_headers(headers)
        return WireRequest("POST", path, headers, body, tuple(self.losses))

    def _add_headers(self, headers: dict[str, str]) -> None:
        """Add the caller's headers, and join those that hold a list."""
        own = {name.lower(): value for name, value in self.request.extra_headers.items()}
        headers |= own
        for name, values in self._joined.items():
            listed = [*values, *self.target.provider.headers.get(name, "").split(","), *own.get(name, "").split(",")]
            headers[name] = ",".join(dict.fromkeys(value.strip() for value in listed if value.strip()))

    def _scrubbed(self, body: bytes) -> bytes:
        if b"\\ud" not in body and b"\\uD" not in body:
            return body
        halves = _lone(body)
        if not halves:
            return body
        self.record_loss("lone-surrogate", "body", f"{len(halves)} half characters became U+FFFD")
        ends = [0, *(start + 6 for start in halves)]
        return b"\\ufffd".join(body[end:start] for end, start in zip(ends, [*halves, len(body)], strict=True))


def _lone(body: bytes) -> list[int]:
    """Find the escapes of lone surrogates."""
    found: list[int] = []
    high: int | None = None
    for escape in re.finditer(_ESCAPE, body):
        code = int(escape.group(1), 16) if escape.group(1) else 0
        if 0xDC00 <= code < 0xE000 and high is not None and escape.start() == high + 6:
            high = None
            continue
        if high is not None:
            found.append(high)
            high = None
        if 0xD800 <= code < 0xDC00:
            high = escape.start()
        elif 0xDC00 <= code < 0xE000:
            found.append(escape.start())
    return [*found, high] if high is not None else found
