"""What became of a call: its result, and the words for how it came about."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from tenuto.core.messages import ToolCallView, ToolResult

__all__ = ["Detail", "Outcome", "Refused", "failure"]

Detail: TypeAlias = Literal["", "unknown-tool", "arguments", "exception", "timeout", "oversize", "result", "cancelled"]
"""What went wrong; empty if nothing did.

`unknown-tool` and `arguments`: nothing was begun. `exception`: the tool raised. `timeout`: it took too long. `oversize`:
it gave more than is kept; text is cut and stays a result. `result`: what it gave cannot be shown to a model.
`cancelled`: it was ended from within.
"""


class Outcome(msgspec.Struct, frozen=True):
    """How a call ended, and the result that answers it.

    `done`: it ran. `failed`: it ran and did not succeed, or was never begun; `detail` tells. `cancelled`: it was ended
    before it was through. `unknown`: it may still be running, and nobody can say whether it took effect.
    """

    result: ToolResult
    outcome: Literal["done", "failed", "cancelled", "unknown"] = "done"
    detail: Detail = ""


class Refused(msgspec.Struct, frozen=True):
    """A call that cannot be run: `result` tells the model why, and what to do. Nothing was begun."""

    call: ToolCallView
    result: ToolResult
    detail: Detail

    @property
    def outcome(self) -> Outcome:
        """The same, as the outcome of a call."""
        return Outcome(self.result, "failed", self.detail)


def failure(call: ToolCallView, text: str, detail: Detail) -> Outcome:
    """Make the outcome of a call that did not succeed."""
    return Outcome(call.answer(text, is_error=True), "failed", detail)
