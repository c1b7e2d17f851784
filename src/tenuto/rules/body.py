"""A request body with all that a rule may ask about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, TypeVar

import msgspec

from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Dialect, ModelTraits, Provider
from tenuto.rules.issued_tokens import IssuedTokens, StoredReply

T = TypeVar("T")
Fields: TypeAlias = dict[str, Any]
_TOKEN_KEYS = frozenset({"signature", "encrypted_content", "thoughtSignature", "thought_signature"})
_NAMES = _TOKEN_KEYS | {"data"}
_DATA_TYPES = ("redacted_thinking", "reasoning.encrypted")
"""Types whose token is called `data`, the name of the content of an image, too."""


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a request and the history that is known of its session."""

    row: Provider
    """The provider whose rules hold; for a simulator the provider that it imitates."""
    model: str = ""
    """The model id; empty: no particular model."""
    traits: ModelTraits = ModelTraits()
    headers: dict[str, str] = {}
    """Request headers with lower-case names."""
    headers_known: bool = True
    """Whether `headers` are all of the request's headers. If not, a missing header is not certain."""
    account: str = ""
    platform: str = ""
    tokens: IssuedTokens = IssuedTokens()
    stored: Callable[[str], StoredReply | None] | None = None
    """Find a stored reply by its id or the id of an item in it; None: the provider's storage is not known."""
    replies: tuple[AssistantMessage, ...] = ()
    """The replies of the transcript, in order, if they are known."""
    foreign: tuple[bool, ...] = ()
    """For each of `replies`: whether another issuer gave it (provider, dialect, host or account)."""
    size: int | None = None
    """The length of the body in bytes, if it is known."""
    method: str = ""
    """The method in the path, such as `countTokens`; empty: the ordinary one."""


class Violation(msgspec.Struct, frozen=True):
    """One place of a body that breaks a rule."""

    pointer: str
    """JSON pointer into the body."""
    fields: dict[str, Any] = {}
    """Values for the names in the rule's message, `param` and `code`; `model` and `i`, `j`, `k`, the numbers in the pointer,
    have values already."""
    message: int = 0
    """The index of the message among those of the rule."""
    certain: bool = True
    """Whether the refusal is certain; otherwise the audit only warns."""


class CallInBody(msgspec.Struct, frozen=True, gc=False):
    """A tool call that a body sends back."""

    pointer: str
    """The pointer of the call's id; of the call if it has no id."""
    id: str
    name: str
    args: Any
    """The arguments: text, or an object if the dialect has one."""


class RequestBody:
    """The JSON body of a request. Reading is tolerant: a value of an unexpected type is passed over.

    Subclasses add selectors for their dialect. A selector calls `see` with what it selects, so that `exercised` lists
    the rules that had something to check.
    """

    dialect: ClassVar[Dialect]
    conversation: ClassVar[str]
    """The field with the messages or items."""
    pointer: ClassVar[str] = ""

    def __init__(self, body: Fields, context: RequestContext) -> None:
        self.body = body
        self.context = context
        self.tokens = context.tokens
        self.traits = context.traits
        self.provider = context.row.name
        self.model = context.model
        self.account = context.account
        self.headers = context.headers
        self.running = ""
        self.exercised: set[str] = set()

    def violation(
        self, pointer: str, fields: Fields | None = None, *, message: int = 0, certain: bool = True
    ) -> Violation:
        return Violation(pointer, fields or {}, message, certain)

    def see(self, selected: Sequence[T]) -> Sequence[T]:
        """Return the selection; note that the running rule had something to check."""
        if selected:
            self.exercised.add(self.running)
        return selected

    def setting(self, name: str) -> Any:
        """Return a top-level value; None if it is absent or null."""
        value = self.body.get(name)
        if value is not None:
            self.exercised.add(self.running)
        return value

    def settings(self, *names: str) -> Sequence[tuple[str, Any]]:
        """Return the top-level values that are neither absent nor null, with their pointers."""
        return [(f"/{name}", value) for name in names if (value := self.setting(name)) is not None]

    def list(self, name: str) -> Sequence[tuple[str, Fields]]:
        """Return the objects of a top-level list with their pointers."""
        return self.see(tuple(objects(self.body.get(name), f"/{name}")))

    @cached_property
    def calls(self) -> Sequence[CallInBody]:
        """The tool calls in the conversation, for the cross-provider rules."""
        return ()

    def sent_tokens(self) -> Sequence[str]:
        """Return the tokens where the dialect has them, for the cross-provider rules."""
        return find_tokens(self.body.get(self.conversation))

    def results(self) -> Sequence[tuple[str, str]]:
        """Return the call ids that are answered in the conversation, each with its pointer."""
        return ()

    @property
    def is_well_named(self) -> bool | None:
        """Whether the name of the model fits the names of the provider's models; None without a name or a pattern."""
        names = self.context.row.model_names
        self.setting("model")
        return bool(re.fullmatch(names, self.model)) if names and self.model else None

    def accepts_call_id(self, id: str) -> bool:
        return True

    @property
    def has_stored_history(self) -> bool:
        """Whether the request continues or refers to replies that only the provider has."""
        return False

    def may_exceed(self, characters: int) -> bool:
        """Tell whether all texts together may be longer: a character takes at least one byte of the body."""
        return self.context.size is None or self.context.size > characters


def find_tokens(value: Any) -> list[str]:
    """Return the tokens in a JSON value. Their pointers take most of the time and are needed only for a violation."""
    tokens: list[str] = []
    pending = [value]
    for part in pending:  # the list grows during the loop
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            pending += [inner for inner in part.values() if type(inner) is not str]
            if not _NAMES.isdisjoint(part):
                tokens += [part[key] for key in token_keys(part) if isinstance(part[key], str) and part[key]]
    return tokens


def token_keys(fields: Fields) -> Iterable[str]:
    keys = _TOKEN_KEYS & fields.keys()
    return keys | {"data"} if "data" in fields and fields.get("type") in _DATA_TYPES else keys


def objects(value: Any, pointer: str) -> Iterator[tuple[str, Fields]]:
    """Yield the objects of a JSON list with their pointers; nothing if it is not a list."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict):
                yield f"{pointer}/{index}", item


def text(fields: Fields, key: str) -> str:
    """Return a field that is a string; empty if it is anything else."""
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def escape(key: str) -> str:
    """Write a key as one step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
