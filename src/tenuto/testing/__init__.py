"""For tests of programs that use tenuto: no network, no keys, no surprises."""

from __future__ import annotations

from tenuto.testing.transport import Answer, ScriptedTransport

__all__ = ["Answer", "ScriptedTransport"]
