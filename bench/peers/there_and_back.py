"""Which tokens come back: each library's own loop with a thinking model and a tool, handed from one provider to the other
and back, with the simulator as both providers. The table "Beside others" of the README is made with it.

    python -m bench.peers.there_and_back [NAME ...]

Environments are those of `make bench-peers`, and are made where they are not there. A signature is what Claude's
thinking is signed with, encrypted reasoning is what GPT's comes with; a request "has" one when it is in its body.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import NamedTuple

from bench.peers.environments import OURS, ROOT, Environment, environment, made
from tenuto.testing import Simulator

LOOPS = (OURS, "litellm", "pydantic-ai", "langchain")
ITEM = re.compile(r'"encrypted_content": ?"([^"]{8,})"')
SIGNATURE = re.compile(r'"signature": ?"([^"]{8,})"')


class Seen(NamedTuple):
    """What one run of a loop sent: for each request, who was asked and how many of whose tokens so far were in it."""

    requests: list[tuple[str, dict[str, tuple[int, int]]]]
    refused: list[str]
    losses: str
    failed: str = ""


def tokens(who: str, reply: str) -> set[str]:
    """The tokens that a reply ends up with. In a stream, a signature comes in pieces, and an item has another encrypted
    content when it begins than when it is done: it is the last that counts.
    """
    if not reply.startswith(("event:", "data:")):
        return set((SIGNATURE if who == "anthropic" else ITEM).findall(reply))
    lines = [line[5:].strip() for line in reply.splitlines() if line.startswith("data:")]
    events = [json.loads(line) for line in lines if line.startswith("{")]
    if who == "openai":
        done = [event["item"] for event in events if event.get("type") == "response.output_item.done"]
        return {item["encrypted_content"] for item in done if item.get("encrypted_content")}
    signed: dict[int, str] = {}
    for event in events:
        piece = event.get("delta", {}).get("signature") or event.get("content_block", {}).get("signature")
        if piece:
            signed[event["index"]] = signed.get(event["index"], "") + piece
    return set(signed.values())


def ran(one: Environment, first: str) -> Seen:
    """Run a loop against a simulator of its own."""
    with Simulator() as sim:
        variables = {
            **environment(),
            "ANTHROPIC_BASE_URL": sim.base_url,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_BASE_URL": f"{sim.base_url}/v1",
            "OPENAI_API_KEY": "none",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        command = [str(one.python), "-m", f"bench.peers.loops.{one.name.replace('-', '_')}", first]
        done = subprocess.run(
            command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120, check=False
        )
        failed = (done.stderr.strip().splitlines() or ["without a word"])[-1] if done.returncode else ""
        losses = (done.stdout.strip().splitlines() or ["losses: not told"])[-1].removeprefix("losses: ")
        known: dict[str, set[str]] = {"anthropic": set(), "openai": set()}
        requests = []
        for record in sim.requests:
            who = "anthropic" if record.style == "anthropic" else "openai"
            body = json.dumps(record.body)
            counted = {whose: (sum(token in body for token in held), len(held)) for whose, held in known.items()}
            requests.append((f"{who} {record.path}", counted))
            known[who] |= tokens(who, record.reply)
        return Seen(requests, [str(record.refused) for record in sim.requests if record.refused], losses, failed)


def back(seen: list[Seen], who: str) -> str:
    """How many of a provider's tokens come back to it, over all requests that could have had some."""
    counts = [
        counted[who] for one in seen for asked, counted in one.requests if asked.startswith(who) and counted[who][1]
    ]
    sent, held = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    if not held:
        return "it gets none"
    return "all" if sent == held else f"{sent} of {held}" if sent else "none"


def away(seen: list[Seen]) -> str:
    """Whether Claude's signatures are sent to OpenAI."""
    sent = sum(counted["anthropic"][0] for one in seen for asked, counted in one.requests if asked.startswith("openai"))
    return "yes" if sent else "no"


def main() -> int:
    names = [name for name in sys.argv[1:] if name in LOOPS] or list(LOOPS)
    rows = []
    for one in made(names).values():
        if one.python is None:
            print(f"{one.name}: {one.reason}")
            continue
        seen = [ran(one, first) for first in ("anthropic", "openai")]
        for first, run in zip(("Claude", "GPT"), seen, strict=True):
            print(
                f"{one.name} {one.version}, {first} first: {len(run.requests)} requests; losses: {run.losses} {run.failed}"
            )
            for asked, counted in run.requests:
                told = "; ".join(f"{sent} of {held} tokens of {whose}" for whose, (sent, held) in counted.items())
                print(f"    {asked}: {told}")
            for refused in run.refused:
                print(f"    refused: {refused}")
        told = "no" if all(run.losses == "not told" for run in seen) else "yes"
        rows.append(
            (
                f"{one.name} {one.version}",
                back(seen, "anthropic"),
                back(seen, "openai"),
                away(seen),
                told,
                str(one.packages),
            )
        )
    heads = (
        "",
        "Claude's signatures come back to Claude",
        "GPT's encrypted reasoning comes back to GPT",
        "Claude's signatures are sent to OpenAI",
        "what could not go along is on the reply",
        "packages of an installation with both providers",
    )
    for at, column in enumerate(zip(heads, *rows, strict=True)):
        print("| " + " | ".join(column) + " |")
        if not at:
            print("|---" * len(column) + "|")
    return 0


if __name__ == "__main__":
    sys.exit(main())
