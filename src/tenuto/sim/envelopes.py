"""Errors in the form in which each provider sends them."""

from __future__ import annotations

from typing import Any

import msgspec

from tenuto.sim.asked import Style

__all__ = ["Problem", "body", "headers"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error to be told. What is empty or None is filled in as the provider would for this status."""

    status: int
    message: str = ""
    type: str = ""
    param: str | None = None
    code: str | None = None
    retry_after: float | None = None
    details: list[dict[str, Any]] = []


def body(style: Style, problem: Problem) -> dict[str, Any]:
    """Return the body of an error."""
    assert style
    return {"error": {"message": problem.message, "type": problem.type, "param": problem.param, "code": problem.code}}


def headers(style: Style, problem: Problem) -> dict[str, str]:
    """Return the headers of an error."""
    assert style
    return {} if problem.retry_after is None else {"retry-after": f"{problem.retry_after:g}"}
