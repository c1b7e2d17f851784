"""The steps of a script for the simulator under short names: `turn(think("hm"), call("weather", {"city": "Oslo"}))`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tenuto.sim import script
from tenuto.sim.script import turn

__all__ = [
    "call", "compact", "cut", "deny", "drip", "fail", "image", "pause", "refuse", "run_code", "say", "search", "stall",
    "stop", "think", "turn",
]  # fmt: skip

think = script.Think
run_code = script.RunCode
image = script.SendImage
refuse = script.Refuse
pause = script.Pause
stop = script.Stop
compact = script.Compact
deny = script.HttpError
fail = script.StreamError
cut = script.Disconnect
stall = script.Stall
drip = script.SlowStream


def say(text: str | list[str], *, cites: Iterable[script.Cite | str] = ()) -> script.Say:
    """Say a text. A list of texts is streamed in these pieces; `cites` are its sources, or their URLs."""
    sources = (cites,) if isinstance(cites, str) else cites
    return script.Say(text, tuple(script.Cite(source) if isinstance(source, str) else source for source in sources))


def call(name: str, args: dict[str, Any] | str | None = None, *, id: str = "") -> script.CallTool:
    """Call a tool. `args` as a string is sent unchanged, valid JSON or not. Adjacent calls are parallel."""
    return script.CallTool(name, {} if args is None else args, id)


def search(query: str, *found: script.SearchResult | str) -> script.Search:
    """Search with a server tool; `found` are the pages, or their URLs."""
    return script.Search(query, tuple(script.SearchResult(page) if isinstance(page, str) else page for page in found))
