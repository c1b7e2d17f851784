"""Stream events as documents: one for each event, or the shorter `delta` events that chat completions stream."""

from collections.abc import Iterable, Iterator

from tenuto.core.blocks import ToolUse
from tenuto.core.events import (
    ArgumentsDelta,
    CitationDelta,
    ContentDelta,
    ContentDone,
    ContentStart,
    ErrorEvent,
    MessageDelta,
    MessageDone,
    MessageStart,
    StreamEvent,
    TextDelta,
    UsageUpdate,
)
from tenuto.interop.unified import JsonObject, camel_case, to_document, to_part, to_unified, usage_document


def to_event_document(event: StreamEvent) -> JsonObject:
    """Write an event as a document with the keys of the specification, such as `type` and `choiceIndex`.

    An event of a session has `sessionId`, too.
    """
    document: JsonObject = {"type": event.type}
    for name in event.__struct_fields__:
        if name != "session_id" or event.session_id:
            document[camel_case(name)] = getattr(event, name)
    if isinstance(event, ContentStart | ContentDone):
        document["part"] = to_part(event.part)
    elif isinstance(event, ContentDelta):
        delta = event.delta
        fields = {name: getattr(delta, name) for name in delta.__struct_fields__}
        document["delta"] = {"type": delta.type, **fields}
        if isinstance(delta, CitationDelta):
            document["delta"]["citation"] = to_document(delta.citation)
    elif isinstance(event, UsageUpdate):
        document["usage"] = usage_document(event.usage)
    elif isinstance(event, MessageDone):
        document["response"] = to_unified(event.response)
    elif isinstance(event, ErrorEvent):
        return {"type": event.type, "error": {"message": event.message, "raw": event.raw}}
    return document


def to_delta_events(events: Iterable[StreamEvent]) -> Iterator[JsonObject]:
    """Yield `delta`, `usage`, `done` and `error` events, in the form of chat completions.

    They contain text, refusals and function calls; reasoning, images, audio, server tools and citations are left out.
    The `index` of a call is that of its part. Usage comes once, before `done`, if it is known. If the provider restarts
    the reply, its events are emitted twice.
    """
    calls: set[tuple[int, int]] = set()
    for event in events:
        match event:
            case MessageStart():
                calls.clear()
            case ContentStart(part=ToolUse(id=id, name=name)):
                calls.add((event.choice_index, event.part_index))
                yield _call_delta(event, id=id, type="function", function={"name": name})
            case ContentDelta(delta=ArgumentsDelta(arguments=text)) if (event.choice_index, event.part_index) in calls:
                yield _call_delta(event, function={"arguments": text})
            case ContentDelta(delta=TextDelta(text=text)):
                yield _delta(event.choice_index, {"content": text})
            case MessageDelta(finish_reason=finish_reason):
                yield _delta(event.choice_index, {}, finish_reason)
            case MessageDone(response=response):
                usage = response.usage
                if usage is not None:
                    counts = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
                    yield {"type": "usage", "usage": {**counts, "total_tokens": usage.total_tokens}}
                yield {"type": "done"}
            case ErrorEvent():
                yield to_event_document(event)


def _call_delta(event: ContentStart | ContentDelta, **fields: object) -> JsonObject:
    return _delta(event.choice_index, {"tool_calls": [{"index": event.part_index, **fields}]})


def _delta(choice_index: int, delta: JsonObject, finish_reason: str | None = None) -> JsonObject:
    return {"type": "delta", "index": choice_index, "delta": delta, "finish_reason": finish_reason}
