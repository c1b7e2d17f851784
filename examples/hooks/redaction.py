"""Redaction: mail addresses, card numbers and keys in tool results reach neither the model nor the journal."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import msgspec

from tenuto import Agent, Hooks, Text, tool
from tenuto.hooks import CallInfo, Outcome

PATTERNS = {
    "mail": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "card": re.compile(r"\b(?:\d[ -]?){15}\d\b"),
    "key": re.compile(r"\b(?:sk|pk|ghp)[-_][A-Za-z0-9_-]{8,}"),
}


def redact(text: str) -> str:
    for name, pattern in PATTERNS.items():
        text = pattern.sub(f"[{name}]", text)
    return text


class Redaction(Hooks):
    """Redact the text of each tool result, also of failed calls, and the text of exceptions."""

    async def around_tool(self, call: CallInfo, next: Callable[[], Awaitable[Outcome]]) -> Outcome:
        outcome = await next()
        content = outcome.result.content
        if isinstance(content, str):
            redacted: str | tuple[object, ...] = redact(content)
        else:
            redacted = tuple(
                msgspec.structs.replace(part, text=redact(part.text)) if isinstance(part, Text) else part
                for part in content
            )
        result = msgspec.structs.replace(outcome.result, content=redacted)
        return msgspec.structs.replace(outcome, result=result)


@tool(effect="pure")
def customer(name: str) -> str:
    """Look up a customer."""
    if name != "Ada":
        raise LookupError(f"{name}@example.com is not a customer")
    return "Ada, ada@example.com, card 4111 1111 1111 1111"


agent = Agent("anthropic/claude-sonnet-5-5", name="redaction", tools=[customer], hooks=[Redaction()])

if __name__ == "__main__":
    with agent:
        session = agent.session()
        session.send("How do I reach Ada?")
        print(session.text)
