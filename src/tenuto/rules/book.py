"""Rules, the decorator that registers them, and the engine that applies them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tenuto.core.provider import Dialect
from tenuto.rules.body import Fields, RequestBody, RequestContext, Violation

RuleDialect: TypeAlias = Dialect | Literal["cross"]
_NAME = re.compile(r"\{(\w+)\}")
_NUMBER = re.compile(r"/(\d+)(?=/|$)")
_MODULES: dict[RuleDialect, tuple[str, ...]] = {
    "anthropic-messages": ("anthropic_request", "anthropic_messages"),
    "openai-responses": ("responses_request", "responses_items"), "openai-chat": ("chat", "chat_hosts"),
    "gemini": ("gemini", "gemini_turns"), "cross": ("handoff",),
}  # fmt: skip
"""The modules of each dialect, in the order in which the provider checks."""
_registered: dict[RuleDialect, list[Rule]] = {}


class UnverifiedText(str):
    """A message whose wording is ours: no traffic, document or issue shows the provider's."""

    __slots__ = ()


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One condition under which a provider refuses a request or drops a part of it."""

    id: str
    dialect: RuleDialect
    summary: str
    messages: tuple[str, ...]
    """The provider's texts with names in braces, one per variant; `UnverifiedText` if the wording is not known."""
    applies: tuple[Callable[[Any], bool], ...] = ()
    """The conditions under which the rule holds for the target; empty: for all targets of the dialect."""
    refused_by: tuple[str, ...] = ()
    """Providers known to refuse. If given, the refusal of every other provider is not certain."""
    accepted_by: tuple[str, ...] = ()
    """Providers known to accept: the rule does not hold for them."""
    only: tuple[str, ...] = ()
    """The providers that have this rule; empty: all."""
    severity: Literal["refused", "lost", "warned"] = "refused"
    """`refused`: an error; `lost`: accepted, but content is dropped; `warned`: accepted, with a caveat."""
    certain: bool = True
    """Whether a violation is certain. False for rules with a single source or an open question."""
    status: int = 400
    type: str = ""
    param: str | None = None
    code: str | None = None
    remedy: str
    source: str
    confidence: Literal["recorded", "documented", "practice", "inferred"] = "practice"
    as_of: str = ""
    unchecked: str = ""
    """The reason why no request can show a violation; such a rule has no check."""
    final: bool = False
    """Whether no further rule is checked after a violation: the body has the wrong shape."""
    check: Callable[[Any], Iterable[Violation]] | None = None


class RuleFinding(msgspec.Struct, frozen=True):
    """A rule that a request breaks, with the place and the provider's text."""

    rule: Rule
    pointer: str
    message: str
    certain: bool
    verbatim: bool
    """Whether the message is the provider's own text."""
    param: str | None = None
    code: str | None = None
    fields: dict[str, Any] = {}
    """The values of the violation: an error body may repeat more of them than the message does."""


class Judgement(msgspec.Struct, frozen=True):
    """The result for a simulator: the first refusal, the findings that do not refuse, the rules with something to check."""

    refusal: RuleFinding | None = None
    warnings: tuple[RuleFinding, ...] = ()
    exercised: frozenset[str] = frozenset()


class Condition(NamedTuple):
    """The check of a rule without a function: it is broken at every item for which `when` holds."""

    at: str = ""
    """The place of the violation, below the pointer of the item."""
    each: Callable[[Any], Iterable[Any]] | None = None
    """Selects the items: tuples that start with a pointer, or objects that have one; None: the request is the only one."""
    when: Callable[[Any], Any] = lambda item: True
    fields: Callable[[Any], Fields] = lambda item: {}
    message: Callable[[Any], int] = lambda item: 0
    certain: Callable[[Any], Any] = lambda item: True

    def __call__(self, request: RequestBody) -> Iterator[Violation]:
        items = (request,) if self.each is None else request.see(tuple(self.each(request)))
        for item in filter(self.when, items):
            pointer = (item[0] if isinstance(item, tuple) else item.pointer) + self.at
            message, certain = int(self.message(item)), bool(self.certain(item))
            yield request.violation(pointer, self.fields(item), message=message, certain=certain)


def section(dialect: RuleDialect, **defaults: Any) -> Callable[..., Callable[[Any], Any]]:
    """Return the decorator for the rules of a dialect, with default values of `Rule` fields. All of `applies` must hold.

    `@decorator(id, summary, *messages, remedy=..., source=..., ...)` registers the function in file order and returns it.
    `recorded`, `documented` or `inferred` instead of `source` is the source of such a confidence.
    A rule with a plain condition needs no function: `decorator(..., at=..., when=...)` has the fields of a `Condition`.
    """

    def decorator(id: str, summary: str, *messages: str, **facts: Any) -> Callable[[Any], Any]:
        names = [name for name in Condition._fields if name in facts and not isinstance(facts[name], bool)]
        condition = {name: facts.pop(name) for name in names}
        for evidence in ("recorded", "documented", "inferred"):
            if evidence in facts:
                facts |= {"source": facts.pop(evidence), "confidence": evidence}

        def register(check: Any) -> Any:
            entries = _registered.setdefault(dialect, [])
            if any(id == other.id for other in entries):
                raise ValueError(f"rule {id} is registered twice")
            applies = tuple(filter(None, (defaults.get("applies"), facts.get("applies"))))
            every = {**defaults, **facts, "applies": applies}
            entries.append(Rule(id=id, dialect=dialect, summary=summary, messages=messages, check=check, **every))
            return check

        if condition:
            register(Condition(**condition))
        elif "unchecked" in facts:
            register(None)
        return register

    return decorator


@cache
def rules_of(dialect: RuleDialect) -> tuple[Rule, ...]:
    """Return the rules of a dialect in the order of checking. Its modules are imported on first use."""
    for module in _MODULES[dialect]:
        importlib.import_module(f"tenuto.rules.{module}")
    return tuple(_registered[dialect])


@cache
def all_rules() -> dict[str, Rule]:
    return {entry.id: entry for dialect in _MODULES for entry in rules_of(dialect)}


def rule(id: str) -> Rule:
    """Return a rule; raise `KeyError` for an unknown id."""
    return all_rules()[id]


def open_body(dialect: Dialect, body: Fields, context: RequestContext) -> RequestBody:
    rules_of(dialect)
    views = {view.dialect: view for view in RequestBody.__subclasses__()}
    return views[dialect](body, context)


def findings(request: RequestBody) -> Iterator[RuleFinding]:
    """Yield every broken rule, in the provider's order; cross-provider rules last."""
    for entry in rules_of(request.dialect):
        broken = False
        for finding in _apply(entry, request):
            yield finding
            broken = True
        if broken and entry.final:
            break
    if request.context.replies:
        for entry in rules_of("cross"):
            yield from _apply(entry, request)


def refusal(request: RequestBody) -> RuleFinding | None:
    """Return the first finding of severity `refused`, certain or not: the answer of the simulator."""
    return judge(request).refusal


def judge(request: RequestBody) -> Judgement:
    """Apply the rules up to the first refusal."""
    warnings: list[RuleFinding] = []
    for finding in findings(request):
        if finding.rule.severity == "refused":
            return Judgement(finding, tuple(warnings), frozenset(request.exercised))
        warnings.append(finding)
    return Judgement(None, tuple(warnings), frozenset(request.exercised))


def _apply(entry: Rule, request: RequestBody) -> Iterator[RuleFinding]:
    provider = request.provider
    if entry.check is None or provider in entry.accepted_by or (entry.only and provider not in entry.only):
        return
    if not all(applies(request) for applies in entry.applies):
        return
    certain = entry.certain and (not entry.refused_by or provider in entry.refused_by)
    request.running = entry.id
    for violation in entry.check(request):
        request.exercised.add(entry.id)
        numbers = dict(zip("ijkmn", _NUMBER.findall(violation.pointer), strict=False))
        names = {"model": request.model, **numbers, **violation.fields}
        template = entry.messages[violation.message] if entry.messages else ""
        yield RuleFinding(
            rule=entry, pointer=violation.pointer, message=_fill(template, names),
            certain=certain and violation.certain, verbatim=not isinstance(template, UnverifiedText),
            param=None if entry.param is None else _fill(entry.param, names),
            code=None if entry.code is None else _fill(entry.code, names) or None, fields=violation.fields,
        )  # fmt: skip
        request.running = entry.id


def _fill(template: str, names: dict[str, object]) -> str:
    return _NAME.sub(lambda match: str(names.get(match[1], match[0])), template)
