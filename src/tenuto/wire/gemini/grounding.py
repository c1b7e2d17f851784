"""Convert grounding supports to citations of the text that they ground.

A support has a segment (byte offsets into a part, and usually its text) and the indices of the chunks that back it. The
offsets of a stream count over the joined text, and the part index is often missing, so the text of the segment decides
where possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from tenuto.core import jsonio
from tenuto.core.blocks import UrlCitation

Json = dict[str, Any]
# a stored document has no URI, only the name of its store
_URI_FIELDS = ("uri", "sourceUri", "source_uri", "imageUri", "documentName", "fileSearchStore", "file_search_store")


def cite_texts(metadata: Raw, texts: Sequence[tuple[int, str]]) -> dict[int, tuple[UrlCitation, ...]]:
    """Return the citations of each text part by its index. `texts` are (index of the part, text), in order."""
    grounding = jsonio.parse(metadata)
    if not isinstance(grounding, dict) or not texts:
        return {}
    chunks = _objects(grounding, "groundingChunks", "grounding_chunks")
    citations: dict[int, list[UrlCitation]] = {}
    for support in _objects(grounding, "groundingSupports", "grounding_supports"):
        segment = support.get("segment")
        segment = segment if isinstance(segment, dict) else {}
        indices = support.get("groundingChunkIndices", support.get("grounding_chunk_indices"))
        part_citations = citations.setdefault(_find_part(segment, texts), [])
        for index in indices if isinstance(indices, list) else ():
            chunk = chunks[index] if isinstance(index, int) and 0 <= index < len(chunks) else {}
            uri, title = _read_chunk(chunk)
            if uri is not None:
                start, end = _offset(segment, "start"), _offset(segment, "end")
                part_citations.append(UrlCitation(uri, title, _text(segment), start, end))
    return {part: tuple(part_citations) for part, part_citations in citations.items() if part_citations}


def _objects(fields: Json, *names: str) -> list[Json]:
    """Return the first list of these names. Other values than objects count as empty, so that indices stay valid."""
    items: list[Any] = next((fields[name] for name in names if isinstance(fields.get(name), list)), [])
    return [item if isinstance(item, dict) else {} for item in items]


def _read_chunk(chunk: Json) -> tuple[str | None, str | None]:
    """Return the URI and the title of a chunk."""
    source = next((value for value in chunk.values() if isinstance(value, dict)), {})
    title = source.get("title")
    uri = next((source[name] for name in _URI_FIELDS if isinstance(source.get(name), str)), None)
    return uri, title if isinstance(title, str) else None


def _text(segment: Json) -> str | None:
    text = segment.get("text")
    return text if isinstance(text, str) else None


def _offset(segment: Json, end: str) -> int | None:
    """Return an offset. A start of 0 is left out on the wire."""
    offset = segment.get(f"{end}Index", segment.get(f"{end}_index", 0 if end == "start" and segment else None))
    return offset if isinstance(offset, int) and not isinstance(offset, bool) else None


def _find_part(segment: Json, texts: Sequence[tuple[int, str]]) -> int:
    """Find the part of a segment: where its text is at its offset, else where its text occurs, else by index."""
    part_index = segment.get("partIndex", segment.get("part_index", 0))
    candidates = sorted(texts, key=lambda text: text[0] != part_index)
    segment_text, start = _text(segment), _offset(segment, "start") or 0
    if segment_text:
        encoded = segment_text.encode("utf-8", "surrogatepass")
        for part, text in candidates:
            if text.encode("utf-8", "surrogatepass")[start : start + len(encoded)] == encoded:
                return part
        for part, text in candidates:
            if segment_text in text:
                return part
    return candidates[0][0] if candidates[0][0] == part_index else texts[-1][0]
