"""Grounding: what was searched for and found, and which words rest on it. Offsets count bytes."""

from __future__ import annotations

from typing import Any, Protocol

from tenuto.sim.script import Cite, Search

__all__ = ["Grounding"]

_SHOWN = (
    "<style>\n.container {{\n  align-items: center;\n  border-radius: 8px;\n  display: flex;\n}}\n</style>\n"
    '<div class="container">\n  <a class="chip" href="https://example.org/search">{query}</a>\n</div>\n'
)


class _Text(Protocol):
    @property
    def text(self) -> str: ...


class Grounding:
    """Gathers, step by step, what the metadata of an answer will tell."""

    def __init__(self, *, vertex: bool) -> None:
        self._vertex = vertex
        self._queries: list[str] = []
        self._sources: list[tuple[str, str]] = []
        self._found: list[int] = []
        self._supports: list[tuple[_Text, int, str, list[int]]] = []

    @property
    def shown(self) -> str:
        """What the provider wants to be shown for a search."""
        return _SHOWN.format(query=self._queries[-1] if self._queries else "")

    def search(self, step: Search) -> None:
        """Take a search into account."""
        self._queries.append(step.query)
        self._found = [self._source(found.url, found.title) for found in step.found]

    def say(self, run: _Text, before: str, said: str, cites: tuple[Cite, ...]) -> None:
        """Take a text into account: it rests on what it cites, or else on what was found just before."""
        indices = [self._source(cite.url, cite.title) for cite in cites] or self._found
        if indices and said:
            start = len(before.encode("utf-8", "surrogatepass"))
            self._supports.append((run, start, said, indices))
        self._found = []

    def metadata(self, runs: list[Any]) -> dict[str, Any] | None:
        """Return the metadata; None if nothing was searched or cited. A part is named only where there are several."""
        if not self._queries and not self._sources:
            return None
        told: dict[str, Any] = {}
        if self._queries:
            told["searchEntryPoint"] = {"renderedContent": self.shown}
        if self._sources:
            told["groundingChunks"] = [self._chunk(*source) for source in self._sources]
        if self._supports:
            told["groundingSupports"] = [self._support(runs, *support) for support in self._supports]
        if self._vertex:
            told["retrievalMetadata"] = {}
        if self._queries:
            told["webSearchQueries"] = self._queries
        return told

    def _source(self, url: str, title: str) -> int:
        for at, (known, _) in enumerate(self._sources):
            if known == url:
                return at
        self._sources.append((url, title))
        return len(self._sources) - 1

    def _chunk(self, url: str, title: str) -> dict[str, Any]:
        host = url.partition("://")[2].partition("/")[0]
        web = {"uri": url, "title": title or host}
        return {"web": {**web, "domain": host} if self._vertex else web}

    def _support(self, runs: list[Any], run: _Text, start: int, said: str, indices: list[int]) -> dict[str, Any]:
        place = next(at for at, one in enumerate(runs) if one is run)
        segment: dict[str, Any] = {"partIndex": place} if place else {}
        if start:
            segment["startIndex"] = start
        segment["endIndex"] = start + len(said.encode("utf-8", "surrogatepass"))
        segment["text"] = said
        return {"segment": segment, "groundingChunkIndices": indices}
