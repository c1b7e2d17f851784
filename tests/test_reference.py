"""docs/reference.md lists every option with its description from the source."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pytest

from tenuto import Agent, Client, Session

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reference.md").read_text("utf-8")


def test_reference_page_is_current():
    """`python docs/reference.py` updates it."""
    assert runpy.run_path(str(ROOT / "docs" / "reference.py"))["render"]() == PAGE


@pytest.mark.parametrize(
    "function", [Agent, Agent.run, Session.send, Session.stream, Client, Client.chat, Client.chat_structured]
)
def test_reference_page_lists_every_parameter(function):
    listed = {*re.findall(r"(?m)^- `(\w+)[:`]", PAGE)}
    named = {*inspect.signature(function).parameters} - {"self", "messages", "message", "output_type"}
    assert named - listed == set()
