"""Where a reply says its statements come from: grounding supports as citations of the text they ground.

A support names a segment (byte offsets into a part, and usually its words) and the chunks that back it. A stream's
offsets run over the joined text, and the part's number is often left out, so the words decide where they can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import UrlCitation

__all__ = ["citations"]


def citations(metadata: Raw, texts: Sequence[tuple[int, str]]) -> dict[int, tuple[UrlCitation, ...]]:
    """Return the citations of each text. `texts` are the text parts as (number of the part, text), in order."""
    grounding = jsonio.parse(metadata)
    if not isinstance(grounding, dict) or not texts:
        return {}
    chunks = _listed(grounding, "groundingChunks", "grounding_chunks")
    found: dict[int, list[UrlCitation]] = {}
    for support in _listed(grounding, "groundingSupports", "grounding_supports"):
        segment = support.get("segment")
        segment = segment if isinstance(segment, dict) else {}
        backing = [_source(chunks, index) for index in _indices(support)]
        found.setdefault(_home(segment, texts), []).extend(
            UrlCitation(url, title, _text(segment), _number(segment, "start"), _number(segment, "end"))
            for url, title in backing
            if url is not None
        )
    return {part: tuple(cited) for part, cited in found.items() if cited}


def _listed(holder: dict[str, Any], *names: str) -> list[Any]:
    """Return the first list found; what is no object in it counts as an empty one, so that numbers keep their places."""
    found: list[Any] = next((holder[name] for name in names if isinstance(holder.get(name), list)), [])
    return [item if isinstance(item, dict) else {} for item in found]


def _indices(support: dict[str, Any]) -> list[int]:
    found = support.get("groundingChunkIndices", support.get("grounding_chunk_indices"))
    return [index for index in found if isinstance(index, int)] if isinstance(found, list) else []


def _source(chunks: list[dict[str, Any]], index: int) -> tuple[str | None, str | None]:
    """Return a chunk's address and title; a stored document has no address but the name of its store."""
    chunk = chunks[index] if 0 <= index < len(chunks) else {}
    for value in chunk.values():
        if isinstance(value, dict):
            names = (
                "uri",
                "sourceUri",
                "source_uri",
                "imageUri",
                "documentName",
                "fileSearchStore",
                "file_search_store",
            )
            address = next((value[name] for name in names if isinstance(value.get(name), str)), None)
            title = value.get("title")
            return address, title if isinstance(title, str) else None
    return None, None


def _text(segment: dict[str, Any]) -> str | None:
    words = segment.get("text")
    return words if isinstance(words, str) else None


def _number(segment: dict[str, Any], end: str) -> int | None:
    """Return an offset; the start is left out where it is 0."""
    found = segment.get(f"{end}Index", segment.get(f"{end}_index", 0 if end == "start" and segment else None))
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _home(segment: dict[str, Any], texts: Sequence[tuple[int, str]]) -> int:
    """Find the part that a segment lies in: where its words stand at its offsets, else where they stand at all."""
    named = segment.get("partIndex", segment.get("part_index", 0))
    ordered = sorted(texts, key=lambda text: text[0] != named)
    words, start = _text(segment), _number(segment, "start") or 0
    if words:
        spelt = words.encode("utf-8", "surrogatepass")
        for part, text in ordered:
            if text.encode("utf-8", "surrogatepass")[start : start + len(spelt)] == spelt:
                return part
        for part, text in ordered:
            if words in text:
                return part
    return ordered[0][0] if ordered[0][0] == named else texts[-1][0]
