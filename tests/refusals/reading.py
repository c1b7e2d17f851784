"""Reads the cases, and puts them before the audit and before the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from tenuto.audit import Finding, audit_body
from tenuto.catalog import resolve
from tenuto.core.messages import AssistantMessage
from tenuto.core.provider import Target
from tenuto.sim.asked import Request
from tenuto.sim.judging import Broken, judge
from tenuto.sim.mint import Seals, digest
from tenuto.sim.styles import find
from tenuto.sim.voices import voice
from tenuto.wire.decoder import decode_body
from tenuto.wire.registry import codec_for

__all__ = ["FOLDERS", "SEED", "Case", "audited", "cases", "judged"]

FOLDERS = {
    "anthropic": "anthropic-messages",
    "responses": "openai-responses",
    "chat": "openai-chat",
    "gemini": "gemini",
}
SEED = "tenuto"


class Case(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A request that breaks a rule, and the same request repaired.

    `target` is whose rules hold: a provider's row, with a model behind a slash where the rule is one of that model.
    `pointer` is the place in `body`. `given` are the provider's replies that the request sends back, whole, as they were
    received: tokens are signed by the simulator with the seed `tenuto` for the account `me`. `also` are rules that the
    same body cannot but break.
    """

    rule: str
    source: str
    says: str = ""
    target: str
    pointer: str
    body: dict[str, Any]
    repaired: dict[str, Any]
    given: list[dict[str, Any]] = []
    headers: dict[str, str] = {}
    also: list[str] = []
    name: str = ""
    dialect: str = ""


def cases() -> list[Case]:
    """Read every case, in order."""
    found = []
    for folder, dialect in FOLDERS.items():
        for path in sorted((Path(__file__).parent / folder).glob("*.json")):
            document = json.loads(path.read_text("utf-8"))
            found.append(msgspec.convert({**document, "name": path.stem, "dialect": dialect}, Case))
    return found


def target(case: Case) -> Target:
    """Return whom it is sent to."""
    return msgspec.structs.replace(resolve(f"sim/{case.target}", dialect=case.dialect), account="me")


def replies(case: Case) -> tuple[AssistantMessage, ...]:
    """Decode what the provider gave."""
    found = []
    for reply in case.given:
        read = decode_body(codec_for(case.dialect).decoder(target(case)), json.dumps(reply).encode())
        found.append(read.choices[0].message)
    return tuple(found)


def audited(case: Case, body: dict[str, Any]) -> tuple[Finding, ...]:
    """Ask the audit."""
    return audit_body(body, target(case), headers=case.headers, given=replies(case))


def judged(case: Case, body: dict[str, Any]) -> Broken | None:
    """Ask the simulator."""
    style, model = find(case.target, case.dialect)
    request = Request(
        style=style, model=model, named=case.target, account="me", headers=dict(case.headers), body=body,
        digest=digest(json.dumps(body), case.target, "me"), seals=Seals(SEED),
        verb="generateContent" if case.dialect == "gemini" else "",
    )  # fmt: skip
    opened = voice(case.dialect).open(request)
    return judge(opened, voice(case.dialect).checks).refusal
