"""OpenRouter's reasoning details, with tokens that hold where they stood and what they were given for."""

from __future__ import annotations

import base64
from typing import Any

from tenuto.sim.asked import Asked
from tenuto.sim.chat import models
from tenuto.sim.chat.models import matches
from tenuto.sim.chat.saying import Calling, Item, Saying, Thought
from tenuto.sim.chat.thoughts import ENCRYPTED
from tenuto.sim.mint import Mint, digest
from tenuto.sim.script import texts

__all__ = ["Detail", "details", "signature"]

Detail = tuple[Item, dict[str, Any]]
"""A detail, and the item beside which it comes."""


def signature(mint: Mint, claims: dict[str, Any], size: int) -> str:
    """Return a token in base64."""
    return base64.b64encode(mint.seal(claims, size)).decode()


def details(asked: Asked, said: Saying, mint: Mint) -> list[Detail]:
    """Return the details of a choice, in their order."""
    if asked.request.style.name == "minimax":
        return _minimax(said)
    form = models.family(asked.request.model)
    if form == models.FORMATS["anthropic"]:
        found = _claude(said, form)
    elif form == models.FORMATS["openai"]:
        found = _openai(said, form, mint)
    elif form == models.FORMATS["google"]:
        found = _google(asked, said, form)
    else:
        return [(item, _text(item, form, at)) for at, item in enumerate(_thoughts(said)) if not item.hidden]
    return [_sealed(item, detail, {"n": n, "of": len(found)}, mint) for n, (item, detail) in enumerate(found)]


def _thoughts(said: Saying) -> list[Thought]:
    return said.of(Thought)


def _text(item: Thought, form: str, at: int) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": texts(item.text), "format": form, "index": at}


def _minimax(said: Saying) -> list[Detail]:
    found = [item for item in _thoughts(said) if not item.hidden]
    return [
        (item, {**_text(item, "MiniMax-response-v1", at), "id": f"reasoning-text-{at + 1}"})
        for at, item in enumerate(found)
    ]


def _claude(said: Saying, form: str) -> list[Detail]:
    return [
        (item, {"type": "reasoning.encrypted", "data": "", "id": None, "format": form, "index": at})
        if item.hidden
        else (item, {**_text(item, form, at), "signature": ""})
        for at, item in enumerate(_thoughts(said))
    ]


def _openai(said: Saying, form: str, mint: Mint) -> list[Detail]:
    found: list[Detail] = []
    for at, item in enumerate(_thoughts(said)):
        common = {"format": form, "index": at}
        if not item.hidden:
            found.append((item, {"type": "reasoning.summary", "summary": texts(item.text), **common}))
        found.append((item, {"type": "reasoning.encrypted", "data": "", "id": f"rs_{mint.hex(50)}", **common}))
    return found


def _google(asked: Asked, said: Saying, form: str) -> list[Detail]:
    """The token stands on the first call, which it names; without a call, on the last thought."""
    shown = [item for item in _thoughts(said) if not item.hidden]
    found: list[Detail] = [(item, _text(item, form, at)) for at, item in enumerate(shown)]
    calls: list[Calling] = said.of(Calling)
    if calls and (_thoughts(said) or matches(models.SIGNED, asked.request.model)):
        common = {"format": form, "index": len(found)}
        found.append((calls[0], {"type": "reasoning.encrypted", "data": "", "id": calls[0].id, **common}))
    elif found:
        found[-1][1]["signature"] = ""
    return found


def _sealed(item: Item, detail: dict[str, Any], place: dict[str, Any], mint: Mint) -> Detail:
    key = "data" if "data" in detail else "signature"
    if key not in detail:
        return item, detail
    said = detail.get("text", "")
    claims = {**place, "f": detail["format"], "id": detail.get("id") or "", "t": digest(said)}
    token = signature(mint, claims, 200 + len(said) // 2 + mint.random.randrange(200))
    if detail["format"] == models.FORMATS["openai"]:
        token = ENCRYPTED + token.replace("+", "-").replace("/", "_")
    return item, {**detail, key: token}
