"""Build the body of a request, collect losses and the places of blocks, and write the bytes.

Arguments, extra fields and opaque blocks are `Raw` in the body and keep their bytes. Lone surrogates cannot be sent:
they become U+FFFD, with a `Loss`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from tenuto.core import jsonio
from tenuto.core.blocks import Audio, Citation, Document, Image, Text
from tenuto.core.loss import Location, Loss, Placement
from tenuto.core.messages import AssistantMessage, Content, Message
from tenuto.core.provider import Target, WireRequest
from tenuto.core.request import ChatRequest, JsonSchema, ToolDefinition
from tenuto.errors import UnsupportedModel

T = TypeVar("T")
Node = TypeVar("Node")
_PLACEHOLDER = "(empty message)"
_FREE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
_METADATA = "use metadata={provider: {field: value}} or extra_body"
# Both halves of a character, a lone half as group 1, or another escape; compiled when there is one to look for
_ESCAPE = rb"(?s)\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u([dD][89a-fA-F]..)|.)"


def extra_fields(extra: str) -> dict[str, Raw]:
    """Return a block's or message's extra fields, ready to be merged into a wire object."""
    return jsonio.members(extra) if extra else {}


def citation_type(citation: Citation) -> str:
    """Return the provider's type of a citation; empty if it has none."""
    return jsonio.text_or_empty(jsonio.extra_fields_or_empty(citation.raw).get("type"))


def set_parameters(request: ChatRequest, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yield the parameters that the request sets, with their values."""
    return ((name, value) for name in names if (value := getattr(request, name)) is not None)


def error_text(text: str) -> str:
    """Say in words that a tool failed, for dialects whose results have no flag for it."""
    return text if text.lower().startswith("error") else f"Error: {text}"


def with_locations(items: Iterable[T], location: Location) -> list[tuple[Location, T]]:
    """Return the blocks or results of the message at `location`, each with its own location."""
    return [(Location(location.message, index), item) for index, item in enumerate(items)]


@lru_cache(64)  # most keys are the same in all messages
def _escape(key: object) -> str:
    """Write a key as one step of a JSON pointer."""
    return str(key).replace("~", "~0").replace("/", "~1")


class WrittenMessages(Struct):
    """The messages of a conversation's last request as JSON text, so that the next request writes only the new ones.

    A message is found by its identity, and its text is used again for the same target. An encoder stores a text here if
    it depends on the message and the target alone, and if writing it recorded no loss.
    """

    target: Target | None = None
    texts: dict[int, tuple[Message, list[Raw]]] = {}
    """The texts, with their messages, by the `id()` of the message."""


class BodyBuilder:
    def __init__(
        self,
        request: ChatRequest,
        target: Target,
        losses: tuple[Loss, ...] = (),
        *,
        trace: bool = False,
        written: WrittenMessages | None = None,
    ) -> None:
        self.request = request
        self.target = target
        self.written = written
        self.losses: list[Loss] = list(losses)
        self.body: dict[str, Any] = {}
        self.headers: dict[str, str] = {"content-type": "application/json"}
        self._list_headers: dict[str, list[str]] = {}
        self.trace = trace
        self._nodes: dict[int, list[tuple[Location, object, str]]] = {}
        """The blocks that each object of the body contains, by the `id()` of the object: location, object, field."""

    def place(self, location: Location, node: object, field: str = "") -> None:
        """Note that the block at `location` is written as an object or list of the body, or as a field of it."""
        self._nodes.setdefault(id(node), []).append((location, node, field))

    def write_all(self, items: Iterable[tuple[Location, T]], write: Callable[[T, Location], Node | None]) -> list[Node]:
        """Write each item and note where it is. An item for which `write` returns None is left out."""
        nodes = []
        for location, item in items:
            if (node := write(item, location)) is not None:
                nodes.append(node)
                self._nodes.setdefault(id(node), []).append((location, node, ""))
        return nodes

    def place_texts(self, location: Location, parts: Iterable[Content], node: object, field: str) -> None:
        """Note that the texts of a message are joined in one field of an object of the body."""
        for index, part in enumerate(parts):
            if getattr(part, "text", ""):
                self.place(Location(location.message, index), node, field)

    def location_of(self, node: object, default: Location) -> Location:
        """Return the location of the block that was written as this object."""
        return self._nodes[id(node)][0][0] if id(node) in self._nodes else default

    def replace_node(self, old: object, new: object, field: str | None = None) -> None:
        """Note that an object of the body was replaced by another one. `field`: the blocks are in this field of it now."""
        for location, _, earlier in self._nodes.pop(id(old), ()):
            self.place(location, new, earlier if field is None else field)

    def accepted_parts(self, parts: Iterable[Content], location: Location) -> Iterator[tuple[Location, Content]]:
        """Yield the parts that the model accepts, with their locations; for a refused document its text."""
        traits = self.target.traits
        media = ((Image, traits.images_in), (Audio, traits.audio_in), (Document, traits.documents_in))
        refused = tuple(kind for kind, is_accepted in media if traits.known and not is_accepted)
        is_result = location.block is not None
        for index, part in enumerate(parts):
            place = location.field(f"content[{index}]") if is_result else Location(location.message, index)
            if not isinstance(part, refused):
                yield place, part
                continue
            self.record_loss("content-refused", place, type(part).__name__.lower(), "choose a model that takes it")
            if isinstance(part, Document) and part.text:
                yield place, Text(part.text)

    def placeholder(self, location: Location) -> str:
        """Return the text that is sent for a user message without content, and record the `Loss`."""
        self.record_loss("empty-message", location, "a user message without content: a placeholder is sent")
        return _PLACEHOLDER

    def leave_out_if_empty(self, message: AssistantMessage, location: Location) -> None:
        """Record the `Loss` of an assistant message that has no content, and so is not sent."""
        if all(isinstance(block, Text) and not block.text.strip() for block in message.blocks):
            self.record_loss("empty-message", location, "an assistant message without content is left out")

    @staticmethod
    def tool_fields(tool: ToolDefinition) -> dict[str, Any]:
        """Return the name of a tool, and its description if it has one."""
        return {"name": tool.name, **({"description": tool.description} if tool.description else {})}

    @staticmethod
    def schema_fields(output: JsonSchema) -> dict[str, Any]:
        """Return the name and the schema of a response format, and its other fields that are set."""
        fields = {**msgspec.structs.asdict(output), "description": output.description or None}
        return {name: fields[name] for name in ("name", "schema", "strict", "description") if fields[name] is not None}

    def schema_of(self, tool: ToolDefinition) -> dict[str, Any] | None:
        """Return the schema of the arguments for a dialect without free text input, which is a `Loss`."""
        if tool.kind != "custom":
            return tool.parameters
        self.record_loss("custom-tool", f"tools[{tool.name}]", "free text input became a string named `input`")
        return _FREE_TEXT

    def record_loss(self, kind: str, location: Location | str, detail: str, remedy: str = "") -> None:
        """Record something that could not be carried. A text as `location` is the name of a parameter."""
        place = Location(path=location) if isinstance(location, str) else location
        self.losses.append(Loss(kind, place, detail, remedy))

    def set_if_given(self, **fields: Any) -> None:
        """Set body fields; those that are None stay out."""
        for name, value in fields.items():
            if value is not None:
                self.body[name] = value

    def record_unsupported(self, *names: str, remedy: str = "") -> None:
        """Record the parameters that the request sets and this dialect cannot express."""
        for name in names:
            if (value := getattr(self.request, name)) not in (None, (), {}):
                self.record_loss("unsupported-parameter", name, repr(value)[:200], remedy)

    def join_header(self, name: str, value: str) -> None:
        """Add a value to a header that holds a list; the row's and the caller's own values stay in it."""
        self._list_headers.setdefault(name, []).append(value)

    def finish(self, path: str, without_numbers: object = None) -> WireRequest:
        """Merge what the caller adds, and write the bytes. For `without_numbers` see `jsonio.encode`."""
        request, provider = self.request, self.target.provider
        if request.metadata:
            by_provider = {name: fields for name, fields in request.metadata.items() if isinstance(fields, dict)}
            for name in sorted(request.metadata.keys() - by_provider.keys()):
                detail = repr(request.metadata[name])[:200]
                self.record_loss("unsupported-parameter", f"metadata.{name}", detail, _METADATA)
            for name in (provider.name, *provider.aliases):
                self.body.update(by_provider.get(name, {}))
        self.body.update(request.extra_body)
        body = jsonio.encode(self.body, without_numbers)
        if b"\\u" in body:
            body = self._replace_lone_surrogates(body)
        own = {name.lower(): value for name, value in request.extra_headers.items()}
        headers = {**provider.headers, **self.headers, **own}
        for name, values in self._list_headers.items():
            listed = [*values, *provider.headers.get(name, "").split(","), *own.get(name, "").split(",")]
            headers[name] = ",".join(dict.fromkeys(value.strip() for value in listed if value.strip()))
        placements = self._placements() if self.trace else ()
        return WireRequest("POST", path, headers, body, tuple(self.losses), placements)

    def _placements(self) -> tuple[Placement, ...]:
        """Find the pointers of the placed blocks that are still in the body."""
        nodes = self._nodes
        pointers = {id(self.body): ""}
        pending: list[tuple[dict[Any, Any] | list[Any], str]] = [(self.body, "")]
        for outer, above in pending:  # the list grows during the loop
            if len(pointers) > len(nodes):
                break
            for key, value in outer.items() if type(outer) is dict else enumerate(outer):
                kind, is_placed = type(value), id(value) in nodes
                has_items = kind is dict or kind is list
                if is_placed or has_items:
                    pointer = f"{above}/{key if type(key) is int else _escape(key)}"
                    if is_placed:
                        pointers[id(value)] = pointer
                    if has_items:
                        pending.append((value, pointer))
        return tuple(
            Placement(location, f"{pointers[key]}/{field}" if field else pointers[key])
            for key, blocks in self._nodes.items()
            if key in pointers
            for location, _, field in blocks
            if not location.path
        )

    def _replace_lone_surrogates(self, body: bytes) -> bytes:
        halves: list[bytes] = []

        def replace_half(escape: re.Match[bytes]) -> bytes:
            if escape[1] is None:
                return escape[0]
            halves.append(escape[1])
            return b"\\ufffd"

        body = re.sub(_ESCAPE, replace_half, body)
        if halves:
            self.record_loss("lone-surrogate", "body", f"{len(halves)} half characters became U+FFFD")
        return body


class TurnList:
    """Messages with alternating roles: neighbors of one role share a message, an empty user turn is filled."""

    def __init__(self, builder: BodyBuilder, field: str, write_text: Callable[[str], dict[str, Any]]) -> None:
        self.messages: list[dict[str, Any]] = []
        self.locations: list[Location] = []  # the location of each message: of the last one, if several share it
        self._builder = builder
        self._field = field  # the field of a message that has its parts
        self._write_text = write_text
        self.empty_turn: Location | None = None
        """The location of an empty user turn that needs a placeholder if an assistant turn follows, or nothing."""

    def append(self, role: str, parts: list[Any], location: Location, *, joins: bool = True) -> None:
        """Append the parts of a turn: to the last message if it has the same role and the turn `joins` it."""
        is_same_role = bool(self.messages) and self.messages[-1]["role"] == role
        if not parts:
            if role == "user" and not is_same_role:
                self.empty_turn = location
            return
        if role != "user" and self.empty_turn is not None:
            self.fill_empty_turn(self.empty_turn)
            is_same_role = bool(self.messages) and self.messages[-1]["role"] == role
        self.empty_turn = None
        if is_same_role and joins:
            self.messages[-1][self._field] += parts
            self.locations[-1] = location
        else:
            self.messages.append({"role": role, self._field: parts})
            self.locations.append(location)

    def fill_empty_turn(self, location: Location) -> None:
        """Write a placeholder for the empty user turn at this location."""
        text = self._write_text(self._builder.placeholder(location))
        self._builder.place(Location(location.message, 0), text)
        self.messages.append({"role": "user", self._field: [text]})
        self.locations.append(location)
        self.empty_turn = None


_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]"  # compiled on first use: most dialects have no model names in URLs


def model_resource(model: str) -> str:
    """Return the resource name of a model in the Gemini dialect. A name with a slash is one already."""
    return model if "/" in model else f"models/{model}"


@lru_cache(maxsize=256)
def model_path(model: str) -> str:
    """Return the path of a model below the base URL. Raise `UnsupportedModel` for a name that would lead elsewhere."""
    if re.search(_CONTROL, model):
        raise UnsupportedModel(model, "a model name with a control character cannot be part of a URL")
    if any(step in ("", ".", "..") for step in model.split("/")):
        raise UnsupportedModel(model, "a model name with an empty step, `.` or `..` cannot be part of a URL")
    return f"/{quote(model_resource(model), safe='/:@', errors='replace')}"


def query(**fields: str) -> str:
    """Return the fields that are not empty as a query string."""
    written = "&".join(f"{name}={quote(value, safe='', errors='replace')}" for name, value in fields.items() if value)
    return f"?{written}" if written else ""
