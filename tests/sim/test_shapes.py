"""What the simulator sends has the form of recorded traffic: no key that was never seen, none missing that always is."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.reply_values import frames
from sim.playing import TURNS, play

CORPUS = Path(os.environ.get("TENUTO_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
HOSTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("anthropic-messages", "anthropic"): ("anthropic",),
    ("openai-responses", "openai"): ("openai", "azure"),
    ("openai-chat", "openai"): ("openai", "azure"),
    ("openai-chat", "deepseek"): ("deepseek",),
    ("openai-chat", "mistral"): ("mistral",),
    ("openai-chat", "groq"): ("groq",),
    ("openai-chat", "openrouter"): ("openrouter",),
    ("openai-chat", "xai"): ("xai",),
    ("openai-chat", "zai"): ("zai",),
    ("openai-chat", "ollama"): ("ollama", "ollama-cloud"),
    ("openai-chat", "perplexity"): ("perplexity",),
    ("gemini", "gemini"): ("google", "vertex"),
}
"""Whose recordings speak for a style."""
USAGE_DETAILS = {"prompt_tokens_details", "completion_tokens_details", "cached_tokens", "reasoning_tokens"}
UNRECORDED: dict[tuple[str, str], set[str]] = {
    ("mistral", "content[thinking]"): {"signature"},
    **{("groq", place): USAGE_DETAILS for place in ("usage", "prompt_tokens_details", "completion_tokens_details")},
}
"""Keys that hosts document and no recording has, by style and last step of the place."""
RECORDED_WHOLE = {"anthropic", "openai"}
"""Styles whose own recordings have every kind of step; what others were never recorded with, other hosts speak for."""
pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason=f"no recorded traffic in {CORPUS}; set TENUTO_CORPUS to run it"
)


_ITEM = re.compile(r"^response.*?\.(?:output\[|item<)(\w+)[\]>]")

FREE = {
    "input", "args", "tools", "metadata", "schema", "parameters", "container", "logit_bias", "format", "tool_choice",
}  # fmt: skip
"""Subtrees whose keys are the caller's, or the tool's."""
ENOUGH = 3
"""How many recorded objects make a rule of what they have in common."""


@dataclasses.dataclass
class Shape:
    """The keys of the objects seen at one place: those that any has, and those that all have."""

    some: set[str] = dataclasses.field(default_factory=set)
    all: set[str] | None = None
    seen: int = 0

    def see(self, keys: set[str]) -> None:
        """Take one object into account."""
        self.some |= keys
        self.all = set(keys) if self.all is None else self.all & keys
        self.seen += 1

    @property
    def always(self) -> set[str]:
        """The keys that every object had, if there were enough of them to tell."""
        return (self.all or set()) if self.seen >= ENOUGH else set()


def events_of(data: bytes, *, streamed: bool) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a reply: one body, or the frames of a stream."""
    if not streamed:
        found = json.loads(data)
        yield from found if isinstance(found, list) else [found]
        return
    for _, text in frames(data):
        if text.strip() != "[DONE]":
            yield json.loads(text)


def objects_in(event: dict[str, Any], *, streamed: bool) -> Iterator[tuple[str, set[str]]]:
    """Yield every object of an event: its place, which begins with the event's type, and its keys."""
    kind = str(event.get("type") or event.get("object") or ("chunk" if streamed else "body"))
    yield from _objects(event, kind)


def _objects(value: Any, place: str) -> Iterator[tuple[str, set[str]]]:
    if isinstance(value, list):
        for element in value:
            tag = element.get("type") if isinstance(element, dict) else None
            yield from _objects(element, f"{place}[{tag or ''}]")
    if isinstance(value, dict):
        yield place, set(value)
        for name, inner in value.items():
            if name not in FREE:
                tag = inner.get("type") if isinstance(inner, dict) else None
                yield from _objects(inner, f"{place}.{name}" + (f"<{tag}>" if isinstance(tag, str) else ""))


def wherever(place: str) -> str:
    """Name a place for what stands there, whether it came in a stream or in a whole reply."""
    place = (
        _ITEM.sub(r"item<\1>", place).replace("chat.completion.chunk", "chat.completion").replace(".delta", ".message")
    )
    return re.sub("^(?:chunk|body)", "reply", place)


@functools.cache
def shapes(dialect: str, providers: tuple[str, ...] = ()) -> dict[str, Shape]:
    """Collect the shapes of recorded replies, of some hosts or of all."""
    found: dict[str, Shape] = {}
    for path in sorted((CORPUS / dialect).glob("*/*/exchange.json")):
        about = json.loads(path.read_bytes())
        if about.get("status") != 200 or (providers and about["provider"] not in providers):
            continue
        if about["transport"] not in ("sse", "json", "json-array") or about.get("recorded") is False:
            continue
        streamed = about["transport"] == "sse"
        for event in events_of((path.parent / about["response_file"]).read_bytes(), streamed=streamed):
            if isinstance(event, dict):
                for place, keys in objects_in(event, streamed=streamed):
                    found.setdefault(place, Shape()).see(keys)
                    found.setdefault(wherever(place), Shape()).some |= keys
    return found


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("dialect", "style"), HOSTS, ids=str)
def test_every_object_has_the_keys_that_recordings_have(dialect, style, stream):
    known = shapes(dialect, HOSTS[dialect, style])
    elsewhere = shapes(dialect)
    assert known, "no recordings of this host"
    faults = []
    for turn, steps in TURNS.items():
        for event in events_of(play(dialect, style, steps, stream=stream), streamed=stream):
            for place, keys in objects_in(event, streamed=stream):
                own = known.get(place, Shape())
                seen = (
                    own.some | known.get(wherever(place), Shape()).some
                )  # a delta may hold what a whole message holds
                if style not in RECORDED_WHOLE:
                    seen = seen | elsewhere.get(wherever(place), Shape()).some
                unknown = keys - seen - UNRECORDED.get((style, place.rpartition(".")[2]), set())
                faults += [f"{turn}: {place}: no recording has {key!r}" for key in sorted(unknown)]
                if dialect != "openai-chat":  # only the differences between hosts that clients depend on are simulated
                    faults += [f"{turn}: {place}: lacks {key!r}" for key in sorted(own.always - keys)]

    assert sorted(set(faults)) == []
