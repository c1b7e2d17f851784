"""Read the cases of the rule book; judge them with the tokens of a transcript and with those of the simulator."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tenuto.audit import Finding, audit_body
from tenuto.catalog import resolve
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Dialect, Target
from tenuto.rules.body import RequestContext
from tenuto.rules.book import RuleFinding, open_body, refusal
from tenuto.sim import providers
from tenuto.sim.dialects import load_dialect
from tenuto.sim.tokens import SealedTokens, TokenSealer
from tenuto.wire.codec import codec_for
from tenuto.wire.decoder import decode_body

DIRECTORIES: dict[str, Dialect] = {
    "anthropic": "anthropic-messages",
    "responses": "openai-responses",
    "chat": "openai-chat",
    "gemini": "gemini",
}
SEED = "tenuto"
ROOT = Path(__file__).parent / "cases"


class Case(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A request that breaks a rule, the same request repaired, and legal requests that differ in one value.

    `{"$repeat": ["x", 1000]}` stands for a string: the text, repeated.
    """

    rule: str
    target: str
    """The provider, or `provider/model` for a rule of that model."""
    pointer: str
    """The place of the violation in `body`."""
    body: dict[str, Any]
    repaired: dict[str, Any]
    near_misses: list[dict[str, Any]] = []
    """Legal variants of `repaired`: JSON pointers to their new values. A last step `-` appends to a list; null removes."""
    message: str = ""
    """The provider's text; empty if its wording is not verified."""
    certain: bool = True
    """Whether the audit reports `refused`; otherwise it reports `warned`."""
    replies: list[dict[str, Any]] = []
    """Earlier responses of the provider that the body sends back, signed by the simulator with the seed `tenuto`."""
    headers: dict[str, str] | None = {}
    """The headers of the request; null: the audit does not know them."""
    also: list[str] = []
    """Rules that the same body breaks inevitably."""
    other_targets: list[str] = []
    """Targets for which the rule does not hold, and no other rule refuses `body`."""
    repaired_target: str = ""
    """The target of `repaired` and the near misses, if the model name itself is refused; default: `target`."""
    issuer: str = ""
    """The target that gave `replies`; default: `target`."""
    simulator_only: bool = False
    """Whether only the simulator can see the violation: it has the storage of the provider, the audit does not."""
    recorded: dict[str, Any] = {}
    """What the provider answered to `make probe-rules`: date, model, status and text, also for the repaired request."""
    name: str = ""
    dialect: Dialect = "openai-chat"


@functools.cache
def cases() -> tuple[Case, ...]:
    """Read every case, in order."""
    return tuple(
        msgspec.convert({**json.loads(path.read_text("utf-8")), "name": path.stem, "dialect": dialect}, Case)
        for directory, dialect in DIRECTORIES.items()
        for path in sorted((ROOT / directory).glob("*.json"))
    )


def near_misses(case: Case) -> Iterator[dict[str, Any]]:
    """Build the legal variants of a case."""
    for edits in case.near_misses:
        body = copy.deepcopy(case.repaired)
        for pointer, value in edits.items():
            _edit(body, pointer, value)
        yield body


def _edit(body: Any, pointer: str, value: Any) -> None:
    *path, last = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    for step in path:
        body = body[int(step)] if isinstance(body, list) else body.setdefault(step, {})
    if isinstance(body, list):
        if last == "-":
            body.append(value)
        elif value is None:
            del body[int(last)]
        else:
            body[int(last)] = value
    elif value is None:
        del body[last]
    else:
        body[last] = value


def expand(value: Any) -> Any:
    """Return a JSON value with its `$repeat` objects replaced by strings."""
    if isinstance(value, list):
        return [expand(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$repeat"}:
        text, count = value["$repeat"]
        return text * count
    return {name: expand(item) for name, item in value.items()}


def target(case: Case, name: str = "") -> Target:
    """Return a simulated target in the dialect of a case; default: the target of the case."""
    return msgspec.structs.replace(resolve(f"sim/{name or case.target}", dialect=case.dialect), account="me")


def replies(case: Case) -> tuple[AssistantMessage, ...]:
    """Decode the earlier responses."""
    decoder, issuer = codec_for(case.dialect).decoder, target(case, case.issuer)
    responses = (decode_body(decoder(issuer), json.dumps(reply).encode()) for reply in case.replies)
    return tuple(response.choices[0].message for response in responses)


def audit_findings(case: Case, body: dict[str, Any], name: str = "") -> list[Finding]:
    """Audit a body with the replies of the case; return refusals, certain or not."""
    found = audit_body(expand(body), target(case, name), headers=case.headers, replies=replies(case))
    return [finding for finding in found if finding.severity == "refused" or not finding.certain]


def sim_refusal(case: Case, body: dict[str, Any], name: str = "") -> RuleFinding | None:
    """Return the refusal of the simulator."""
    provider_name, _, model = (name or case.target).partition("/")
    provider, _ = providers.find(provider_name, case.dialect)
    dialect = load_dialect(case.dialect)
    context = RequestContext(
        row=providers.imitated_row(provider), model=model, traits=providers.target(provider, model).traits,
        account="me", headers=dict(case.headers or {}), stored=lambda id: None,
        tokens=SealedTokens(TokenSealer(SEED), dialect.read_id, dialect.prefix_digests),
        method="generateContent" if case.dialect == "gemini" else "",
    )  # fmt: skip
    return refusal(open_body(case.dialect, expand(body), context))


def accepted_bodies(case: Case) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield what is accepted: what it is, the body, and its target. For another target the body names its model."""
    repaired_target = case.repaired_target or case.target
    yield "repaired", case.repaired, repaired_target
    for body in near_misses(case):
        yield "near miss", body, repaired_target
    for name in case.other_targets:
        model = name.partition("/")[2]
        yield f"for {name}", {**case.body, "model": model} if model and "model" in case.body else case.body, name


def audit_problems(case: Case) -> list[str]:
    """Return what the audit gets wrong in a case."""
    problems: list[str] = []
    found = audit_findings(case, case.body)
    match = next((finding for finding in found if (finding.rule, finding.pointer) == (case.rule, case.pointer)), None)
    if case.simulator_only:
        if match is not None:
            problems.append(f"{case.rule} is reported")
    elif match is None:
        places = [(finding.rule, finding.pointer) for finding in found]
        problems.append(f"{case.rule} at {case.pointer} is not reported, but {places}")
    elif match.certain != case.certain:
        problems.append(f"certain is {match.certain}")
    elif case.message and match.says != case.message:
        problems.append(f"the message is {match.says!r}")
    elif match.verbatim != bool(case.message):
        problems.append(f"verbatim is {match.verbatim}")
    if others := {finding.rule for finding in found} - {case.rule, *case.also}:
        problems.append(f"other rules are reported: {others}")
    for kind, body, name in accepted_bodies(case):
        problems += [f"{kind}: {finding.rule} at {finding.pointer}" for finding in audit_findings(case, body, name)]
    return problems


def sim_problems(case: Case) -> list[str]:
    """Return what the simulator gets wrong in a case."""
    refused = sim_refusal(case, case.body)
    if refused is None:
        return ["the simulator accepts the body"]
    problems: list[str] = []
    if refused.rule.id not in (case.rule, *case.also):
        problems.append(f"refused by {refused.rule.id}")
    elif refused.rule.id == case.rule and (refused.pointer, case.message or refused.message) != (
        case.pointer,
        refused.message,
    ):
        problems.append(f"refused at {refused.pointer}: {refused.message}")
    for kind, body, name in accepted_bodies(case):
        if (finding := sim_refusal(case, body, name)) is not None:
            problems.append(f"{kind}: refused by {finding.rule.id} at {finding.pointer}")
    return problems
