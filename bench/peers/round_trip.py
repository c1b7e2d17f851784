"""Check which reasoning tokens survive a switch to another provider and back, in the agent loop of each library.

    python -m bench.peers.round_trip [NAME ...]

A loop has a thinking model and a tool; the simulator is both providers. The comparison in README.md uses the printed
table. Environments are those of `make bench-peers`, created if missing. The tokens are the signatures of Claude's
thinking blocks and the encrypted content of GPT's reasoning items, searched in the bodies of the requests.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import NamedTuple

from bench.peers.environments import ROOT, TENUTO, Environment, make_environments, make_variables
from tenuto.testing import Simulator

LOOPS = (TENUTO, "litellm", "pydantic-ai", "langchain")
ENCRYPTED = re.compile(r'"encrypted_content": ?"([^"]{8,})"')
SIGNATURE = re.compile(r'"signature": ?"([^"]{8,})"')


class LoopResult(NamedTuple):
    """The requests of one run, each with the number of sent and known tokens by provider."""

    requests: list[tuple[str, dict[str, tuple[int, int]]]]
    refused: list[str]
    losses: str
    failed: str = ""


def find_tokens(provider: str, reply: str) -> set[str]:
    """Return the tokens of a reply.

    In a stream, a signature consists of several deltas, and only the finished item has the final encrypted content.
    """
    if not reply.startswith(("event:", "data:")):
        return set((SIGNATURE if provider == "anthropic" else ENCRYPTED).findall(reply))
    lines = [line[5:].strip() for line in reply.splitlines() if line.startswith("data:")]
    events = [json.loads(line) for line in lines if line.startswith("{")]
    if provider == "openai":
        process = [event["item"] for event in events if event.get("type") == "response.output_item.done"]
        return {item["encrypted_content"] for item in process if item.get("encrypted_content")}
    signed: dict[int, str] = {}
    for event in events:
        fragment = event.get("delta", {}).get("signature") or event.get("content_block", {}).get("signature")
        if fragment:
            signed[event["index"]] = signed.get(event["index"], "") + fragment
    return set(signed.values())


def run_loop(one: Environment, first: str) -> LoopResult:
    """Run a loop with a new simulator."""
    with Simulator() as sim:
        variables = {
            **make_variables(),
            "ANTHROPIC_BASE_URL": sim.base_url,
            "ANTHROPIC_API_KEY": "none",
            "OPENAI_BASE_URL": f"{sim.base_url}/v1",
            "OPENAI_API_KEY": "none",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        command = [str(one.python), "-m", f"bench.peers.loops.{one.name.replace('-', '_')}", first]
        process = subprocess.run(
            command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120, check=False
        )
        failed = (process.stderr.strip().splitlines() or ["no message"])[-1] if process.returncode else ""
        losses = (process.stdout.strip().splitlines() or ["losses: not reported"])[-1].removeprefix("losses: ")
        tokens_by_provider: dict[str, set[str]] = {"anthropic": set(), "openai": set()}
        requests = []
        for record in sim.requests:
            provider = "anthropic" if record.provider == "anthropic" else "openai"
            body = json.dumps(record.body)
            token_counts = {
                issuer: (sum(token in body for token in known_tokens), len(known_tokens))
                for issuer, known_tokens in tokens_by_provider.items()
            }
            requests.append((f"{provider} {record.path}", token_counts))
            tokens_by_provider[provider] |= find_tokens(provider, record.reply)
        return LoopResult(requests, [str(record.refused) for record in sim.requests if record.refused], losses, failed)


def summarize_returned(runs: list[LoopResult], provider: str) -> str:
    """Return how many of a provider's tokens are sent back to it, over all requests after the first token."""
    counts = [
        token_counts[provider]
        for one in runs
        for request, token_counts in one.requests
        if request.startswith(provider) and token_counts[provider][1]
    ]
    sent, known_tokens = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    if not known_tokens:
        return "no requests"
    return "all" if sent == known_tokens else f"{sent} of {known_tokens}" if sent else "none"


def summarize_sent(runs: list[LoopResult]) -> str:
    """Return whether Claude's signatures are sent to OpenAI."""
    sent = sum(
        token_counts["anthropic"][0]
        for one in runs
        for request, token_counts in one.requests
        if request.startswith("openai")
    )
    return "yes" if sent else "no"


def main() -> int:
    names = [name for name in sys.argv[1:] if name in LOOPS] or list(LOOPS)
    rows = []
    for one in make_environments(names).values():
        if one.python is None:
            print(f"{one.name}: {one.reason}")
            continue
        runs = [run_loop(one, first) for first in ("anthropic", "openai")]
        for first, run in zip(("Claude", "GPT"), runs, strict=True):
            print(
                f"{one.name} {one.version}, {first} first: {len(run.requests)} requests; losses: {run.losses} {run.failed}"
            )
            for request, token_counts in run.requests:
                counts = "; ".join(
                    f"{sent} of {known_tokens} tokens of {issuer}"
                    for issuer, (sent, known_tokens) in token_counts.items()
                )
                print(f"    {request}: {counts}")
            for refused in run.refused:
                print(f"    refused: {refused}")
        counts = "no" if all(run.losses == "not reported" for run in runs) else "yes"
        rows.append(
            (
                f"{one.name} {one.version}",
                summarize_returned(runs, "anthropic"),
                summarize_returned(runs, "openai"),
                summarize_sent(runs),
                counts,
                str(one.packages),
            )
        )
    heads = (
        "",
        "Claude's signatures are sent back to Claude",
        "GPT's encrypted reasoning is sent back to GPT",
        "Claude's signatures are sent to OpenAI",
        "losses are reported on the reply",
        "packages installed for both providers",
    )
    for at, column in enumerate(zip(heads, *rows, strict=True)):
        print("| " + " | ".join(column) + " |")
        if not at:
            print("|---" * len(column) + "|")
    return 0


if __name__ == "__main__":
    sys.exit(main())
