"""Send the cases to the providers whose keys are in the environment, and record what they answer: `make probe-rules`.

`body` must be refused with the status and the text of the rule, the repaired request must be accepted. What a provider
answered is written into the case, under `recorded`. Errors of keys, limits, networks and unknown models are no answer.
"""

from __future__ import annotations

import asyncio
import copy
import datetime
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rules.runner import DIRECTORIES, ROOT, Case, cases, expand
from tenuto import settings
from tenuto.audit import audit_body
from tenuto.catalog import find_provider, is_known_provider, resolve
from tenuto.client.exchange import Sender
from tenuto.client.parameters import Timeouts
from tenuto.client.routing import Router
from tenuto.client.transport import AiohttpTransport
from tenuto.core.messages import UserMessage
from tenuto.core.provider import Target
from tenuto.core.request import ChatRequest
from tenuto.errors import BadRequest, LLMError, NotFound, TenutoError
from tenuto.rules import all_rules
from tenuto.wire.write import write_request

_OUTPUT_LIMITS = (16, 1040)
"""The smallest limit that every provider accepts, and the smallest beside a thinking budget."""
_LIMIT_FIELDS = {
    "anthropic-messages": "max_tokens",
    "openai-responses": "max_output_tokens",
    "gemini": "maxOutputTokens",
}
_TIMEOUTS = Timeouts(total=300.0)


class Answer(msgspec.Struct, frozen=True):
    """The answer of a provider: status 200, or the status and the text of its error."""

    status: int
    text: str = ""
    is_verdict: bool = True
    """Whether it tells something of the rule: an invalid key or an unknown model does not."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one case."""

    case: Case
    skipped: str = ""
    """The reason why nothing was sent."""
    no_verdict: str = ""
    """The error that says nothing about the rule."""
    disagreements: tuple[str, ...] = ()
    recorded: dict[str, Any] = {}


async def probe(chosen: Iterable[Case], *, simulated: bool = False) -> list[Probe]:
    """Send the cases one after the other; `simulated`: to the simulator, for each provider that has a key."""
    transport = AiohttpTransport()
    sender = Sender(Router({}, (), None), transport, time.time, on_loss="keep")
    try:
        return [await _probe(case, sender, simulated) for case in chosen]
    finally:
        await transport.close()
        await sender.router.close()


async def _probe(case: Case, sender: Sender, simulated: bool) -> Probe:
    if case.replies:
        return Probe(case=case, skipped="needs tokens that the provider issued in a live first turn")
    name, _, model = case.target.partition("/")
    if not is_known_provider(name) or not settings.first_set(_key_variables(name)):
        return Probe(case=case, skipped=f"no key for {name}")
    start = f"sim/{name}/" if simulated else f"{name}/"
    target = resolve(start + (model or find_provider(name).default_model), dialect=case.dialect)
    other_model = case.repaired_target.partition("/")[2]
    twin_target = resolve(start + other_model, dialect=case.dialect) if other_model else target
    answer = await _ask(sender, case, target, case.body)
    if not answer.is_verdict:
        return Probe(case=case, no_verdict=f"HTTP {answer.status}: {answer.text}")
    twin = await _ask(sender, case, twin_target, case.repaired)
    recorded = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "model": f"{name}/{target.model}",
        "status": answer.status, "text": answer.text,
    }  # fmt: skip
    if twin.is_verdict:
        recorded |= {"repaired_status": twin.status, "repaired_text": twin.text}
    return Probe(case=case, disagreements=tuple(_compare(case, answer, twin)), recorded=recorded)


def _key_variables(name: str) -> tuple[str, ...]:
    row = find_provider(name)
    return (*row.key_env, *row.bearer_env)


def _compare(case: Case, answer: Answer, twin: Answer) -> Iterable[str]:
    if answer.status == 200:
        yield "it is not refused"
    elif answer.status not in _statuses(case):
        yield f"the status is {answer.status}, not {all_rules()[case.rule].status}: {answer.text}"
    elif not case.also and not _has_text(answer.text, case.message):  # otherwise any of several rules may refuse it
        yield f"the text is {answer.text!r}, not {case.message!r}"
    if twin.status != 200 and twin.is_verdict:
        yield f"the repaired request is refused with {twin.status}: {twin.text}"


def _statuses(case: Case) -> set[int]:
    return {all_rules()[name].status for name in (case.rule, *case.also)}


def _has_text(text: str, expected: str) -> bool:
    """Tell whether an error has the expected text, as a whole or as a value in its JSON. Unknown texts fit."""
    return not expected or text == expected or json.dumps(expected) in text


async def _ask(sender: Sender, case: Case, target: Target, body: dict[str, Any]) -> Answer:
    """Send a body to the URL and with the headers that a chat with the target has."""
    body = _with_limit(case, target, _with_model(case, target, expand(body)))
    try:
        model = f"{target.provider.name}/{target.model}"
        wire = write_request(ChatRequest(model=model, messages=(UserMessage("Hi"),)), target)
        headers = {**wire.headers, **(case.headers or {})}
        wire = msgspec.structs.replace(wire, headers=headers, body=json.dumps(body).encode(), losses=())
        await sender.ask(target, wire, _TIMEOUTS, None)
    except LLMError as error:
        statuses = _statuses(case)
        is_refusal = isinstance(error, BadRequest) or (isinstance(error, NotFound) and 404 in statuses)
        is_expected = error.status in statuses and bool(case.message) and _has_text(error.message, case.message)
        return Answer(error.status or 0, error.message, is_refusal or is_expected)
    except TenutoError as error:
        return Answer(0, str(error), is_verdict=False)
    return Answer(200)


def _with_model(case: Case, target: Target, body: dict[str, Any]) -> dict[str, Any]:
    """Name the model as the target does. Gemini has it in the path; a body may have a wrong one on purpose."""
    name = case.target.partition("/")[2]
    is_named = body.get("model") in (None, name, case.repaired_target.partition("/")[2])
    is_missing = "model" not in body and "model" in case.repaired
    return body if case.dialect == "gemini" or is_missing or not is_named else {**body, "model": target.model}


def _with_limit(case: Case, target: Target, body: dict[str, Any]) -> dict[str, Any]:
    """Set the smallest output limit that leaves the verdict of the rules unchanged."""
    chat_field = target.traits.max_tokens_field or target.provider.chat.max_tokens_field
    field = _LIMIT_FIELDS.get(case.dialect, chat_field)
    verdict = audit_body(body, target, headers=case.headers)
    for limit in _OUTPUT_LIMITS:
        limited = copy.deepcopy(body)
        holder = limited.setdefault("generationConfig", {}) if case.dialect == "gemini" else limited
        if isinstance(holder, dict):
            holder[field] = limit
            if audit_body(limited, target, headers=case.headers) == verdict:
                return limited
    return body


def record(result: Probe, directory: Path) -> None:
    """Write what a provider answered into the file of its case."""
    names = {dialect: name for name, dialect in DIRECTORIES.items()}
    path = directory / names[result.case.dialect] / f"{result.case.name}.json"
    fields = {**json.loads(path.read_text("utf-8")), "recorded": result.recorded}
    path.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n", "utf-8")


def summary(results: list[Probe]) -> str:
    """List the disagreements, the errors that are no verdict, and how many cases were skipped for which reason."""
    lines = [f"{one.case.name} ({one.case.target}): {text}" for one in results for text in one.disagreements]
    lines += [f"{one.case.name} ({one.case.target}): no verdict: {one.no_verdict}" for one in results if one.no_verdict]
    reasons = [one.skipped for one in results if one.skipped]
    lines += [f"skipped, {reason}: {reasons.count(reason)}" for reason in dict.fromkeys(reasons)]
    disagree = sum(bool(one.disagreements) for one in results)
    return "\n".join([*lines, f"{sum(bool(one.recorded) for one in results)} recorded, {disagree} disagree"])


def main(prefixes: list[str]) -> int:
    """Probe the cases whose names start with one of the prefixes; all without any."""
    chosen = [case for case in cases() if not prefixes or case.name.startswith(tuple(prefixes))]
    results = asyncio.run(probe(chosen))
    for result in results:
        if result.recorded:
            record(result, ROOT)
    print(summary(results))
    return int(any(result.disagreements for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
