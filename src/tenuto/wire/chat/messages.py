"""Everything that is said to a model in the chat dialect: instructions, a user's words and things, tools' answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from tenuto.core.blocks import Audio, Document, Image, Opaque, Text, ToolUse
from tenuto.core.messages import (
    AssistantMessage,
    Content,
    Message,
    SystemMessage,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tenuto.wire.body_builder import BodyBuilder, error_text, extra_fields
from tenuto.wire.chat.assistant import assistant_object, is_legacy
from tenuto.wire.chat.switches import cache_control

__all__ = ["MessageListBuilder"]

_SOUNDS = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav"}
_HOISTED = ("rejected", "top_only", "ignored")
Fields = dict[str, Any]


class MessageListBuilder:
    """The messages of one request, being written. Reads the transcript once, in order."""

    def __init__(self, draft: BodyBuilder) -> None:
        self.draft = draft
        self.switches = draft.target.provider.chat
        self._names: dict[str, str] = {}
        self._legacy: dict[str, str] = {}

    def messages(self) -> list[Fields]:
        """Return the messages for the wire."""
        said = self.draft.request.transcript
        found: list[Fields] = []
        for at in self._order(said):
            message, place = said[at], f"messages[{at}]"
            if isinstance(message, UserMessage):
                found.append(self._user(message, place))
            elif isinstance(message, AssistantMessage):
                found += self._assistant(message, place)
            elif isinstance(message, ToolResults):
                found += self._results(message, place)
            else:
                found.append(self._system(message, place))
        if self.switches.one_system:
            found = _one_system(found)
        last = found[-1] if found else {}
        if last.get("role") == "assistant" and not last.get("tool_calls") and (flag := self._flag()):
            last[flag] = True
        return found

    def _flag(self) -> str:
        """Name the flag that asks to go on with the last assistant's message."""
        return self.draft.target.traits.prefill.partition("flag:")[2] or self.switches.prefix_flag

    def _order(self, said: tuple[Message, ...]) -> Sequence[int]:
        """Move instructions to the top for a model that takes them nowhere else."""
        places = range(len(said))
        if self.draft.target.traits.system_mid not in _HOISTED and not self.switches.alternate:
            return places
        first = next((at for at in places if not isinstance(said[at], SystemMessage)), len(said))
        late = [at for at in places[first:] if isinstance(said[at], SystemMessage)]
        for at in late:
            self.draft.record_loss(
                "moved-instructions", f"messages[{at}]", "moved to the top: this model takes them there only"
            )
        return [*places[:first], *late, *(at for at in places[first:] if at not in late)]

    # --- instructions and questions -----------------------------------------------------------------------------------

    def _system(self, message: SystemMessage, place: str) -> Fields:
        modes = self.draft.target.traits.thinking
        thinks = bool(modes) and "none" not in modes
        role = "developer" if self.switches.developer_role and thinks else "system"
        if isinstance(message.content, str):
            return {"role": role, "content": message.content}
        hinted = any(part.cache for part in message.content)
        if not (hinted and self.switches.cache_control):
            self._unhinted(message.content, place)
            return {"role": role, "content": str(message)}
        return {"role": role, "content": self._parts(message.content, place)}

    def _user(self, message: UserMessage, place: str) -> Fields:
        content = self._content(message.content, place)
        found: Fields = {"role": "user", "content": self.draft.placeholder(place) if _is_empty(content) else content}
        if message.name and self.switches.names:
            found["name"] = message.name
        elif message.name:
            self.draft.record_loss("unsupported-parameter", f"{place}.name", message.name)
        return found

    def _content(self, content: str | tuple[Content, ...], place: str) -> str | list[Any]:
        if isinstance(content, str):
            return content
        parts = self._parts(content, place)
        if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].keys() == {"type", "text"}:
            text = parts[0]["text"]
            if isinstance(text, str):  # and not one that was written by hand
                return text
        return parts or ""

    def _unhinted(self, parts: tuple[Content, ...], place: str, *, taken: bool = True) -> None:
        """Tell of what has no word here: hints where they are not `taken`, and most that describes a document."""
        taken = taken and self.switches.cache_control
        for at, part in enumerate(parts):
            where = f"{place}.content[{at}]"
            if isinstance(part, Text | Image | Document) and part.cache and (not taken or isinstance(part, Document)):
                self.draft.record_loss("cache-hint", where, part.cache, "this provider caches by itself")
            if isinstance(part, Document):
                self._undescribed(part, where)

    def _undescribed(self, part: Document, place: str) -> None:
        named = part.data and not (part.text or part.file_id)  # then the title goes out as the file's name
        for name in ("context", "citations") if named else ("title", "context", "citations"):
            if getattr(part, name):
                self.draft.record_loss("unsupported-field", f"{place}.{name}", repr(getattr(part, name))[:200])

    def _parts(self, content: tuple[Content, ...], place: str) -> list[Any]:
        self._unhinted(content, place)
        found: list[Any] = []
        for at, part in enumerate(content):
            written = self._part(part, f"{place}.content[{at}]")
            if written is not None:
                found.append(written)
        return found

    def _part(self, part: Content, place: str) -> Fields | Raw | None:
        if isinstance(part, Opaque):
            if part.dialect == "openai-chat":
                return Raw(part.raw.encode("utf-8", "surrogatepass"))
            self.draft.record_loss("foreign-block", place, f"a block of {part.dialect or 'a later version'}")
            return None
        written = self._written(part)
        if written is None:
            self.draft.record_loss("unsupported-content", place, _described(part), "give its bytes instead")
            return None
        hint: Fields = {}
        if isinstance(part, Text | Image) and part.cache and self.switches.cache_control:
            hint = {"cache_control": cache_control(part.cache)}
        return {**written, **hint, **extra_fields(part.extra)}

    def _written(self, part: Text | Image | Audio | Document) -> Fields | None:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if isinstance(part, Image):
            return self._image(part)
        if isinstance(part, Audio):
            return self._audio(part)
        return self._document(part)

    def _image(self, part: Image) -> Fields | None:
        if part.data:
            url = f"data:{part.mime};base64,{part.data}"
        elif part.url and self.switches.image_urls:
            url = part.url
        else:
            return None
        return {"type": "image_url", "image_url": {"url": url, **({"detail": part.detail} if part.detail else {})}}

    def _audio(self, part: Audio) -> Fields | None:
        if not part.data:
            return None
        kind = _SOUNDS.get(part.mime, part.mime.partition("/")[2])
        data = f"data:{part.mime};base64,{part.data}" if self.switches.audio_as_uri else part.data
        return {"type": "input_audio", "input_audio": {"data": data, "format": kind}}

    def _document(self, part: Document) -> Fields | None:
        if part.text:
            return {"type": "text", "text": part.text}
        if not self.switches.file_parts:
            return None
        if part.file_id:
            return {"type": "file", "file": {"file_id": part.file_id}}
        if not part.data:
            return None
        named = {"filename": part.title} if part.title else {}
        return {"type": "file", "file": {"file_data": f"data:{part.mime};base64,{part.data}", **named}}

    # --- turns --------------------------------------------------------------------------------------------------------

    def _assistant(self, message: AssistantMessage, place: str) -> list[Fields]:
        for block in message.blocks:
            if isinstance(block, ToolUse):
                self._names[block.id] = block.name
                self._legacy.pop(block.id, None)
                if is_legacy(block):
                    self._legacy[block.id] = block.name
        found = assistant_object(message, self.draft, place)
        return [found] if found is not None else []

    def _results(self, message: ToolResults, place: str) -> list[Fields]:
        return [self._result(result, f"{place}.results[{at}]") for at, result in enumerate(message.results)]

    def _result(self, result: ToolResult, place: str) -> Fields:
        content = self._answer(result, place)
        id = result.tool_use_id
        if id in self._legacy:
            return {"role": "function", "name": self._legacy[id], "content": content, **extra_fields(result.extra)}
        found: Fields = {"role": "tool", "tool_call_id": id, "content": content}
        if self.switches.name_on_tool_message and id in self._names:
            found["name"] = self._names[id]
        return {**found, **extra_fields(result.extra)}

    def _answer(self, result: ToolResult, place: str) -> str | list[Any]:
        """Write a tool's answer: as text, or as parts where pictures are taken. An error says so in its text."""
        if isinstance(result.content, str):
            return _told(result.content, is_error=result.is_error)
        if self.switches.images_in_results and any(isinstance(part, Image) for part in result.content):
            self._unflagged(result, place)
            return self._parts(result.content, place)
        texts = []
        self._unhinted(result.content, place, taken=False)
        for at, part in enumerate(result.content):
            if isinstance(part, Text | Document) and part.text:
                texts.append(part.text)
            elif not isinstance(part, Text):
                self.draft.record_loss(
                    "unsupported-content", f"{place}.content[{at}]", _described(part), "say it in words"
                )
        return _told("\n".join(texts), is_error=result.is_error)

    def _unflagged(self, result: ToolResult, place: str) -> None:
        if result.is_error:
            self.draft.record_loss(
                "unsupported-field", f"{place}.is_error", "a failed call's parts", "say it in a text"
            )


def _told(text: str, *, is_error: bool) -> str:
    return error_text(text) if is_error else text


def _described(part: Content) -> str:
    where = next((name for name in ("url", "file_id", "data") if getattr(part, name, "")), "")
    return f"{type(part).__name__} by {where}" if where else type(part).__name__


def _is_empty(content: str | list[Any]) -> bool:
    """Tell whether nothing is said: no part, or nothing but empty texts."""
    if isinstance(content, str):
        return not content
    return all(isinstance(part, dict) and part.get("type") == "text" and not part.get("text") for part in content)


def _one_system(found: list[Fields]) -> list[Fields]:
    """Join the leading instructions into one message."""
    lead = next((at for at, obj in enumerate(found) if obj["role"] not in ("system", "developer")), len(found))
    texts = [obj["content"] for obj in found[:lead]]
    if lead < 2 or not all(isinstance(text, str) for text in texts):
        return found
    return [{**found[0], "content": "\n\n".join(texts)}, *found[lead:]]
