"""A support desk: it sorts messages, looks up orders, and refunds them if a person approves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from tenuto import Agent, Client, Image, Loss, tool, user

ORDERS = {"A-17": ("kettle", 45), "B-4": ("lamp", 250)}
LARGE_MODEL = "openai/gpt-5.2"


class Ticket(msgspec.Struct):
    """A message of a customer, sorted."""

    topic: Literal["refund", "delivery", "other"]
    urgent: bool


@tool(effect="pure")
def find_order(number: str) -> str:
    """Find an order by its number."""
    if number not in ORDERS:
        return f"there is no order {number}"
    item, price = ORDERS[number]
    return f"order {number}: {item}, {price} EUR"


def is_large(amount: int, **_: object) -> bool:
    return amount > 100


@tool(approval=is_large)
def refund(number: str, amount: int) -> str:
    """Refund an order."""
    return f"refunded {amount} EUR for {number}"


client = Client()
agent = Agent(
    "anthropic/claude-sonnet-5-5",
    name="support",
    system="You are the support desk of a shop. Be brief.",
    tools=[find_order, refund],
    effort="high",
)


def sort_message(message: str) -> Ticket:
    """Sort a message with a small model."""
    return client.chat_structured("groq/openai/gpt-oss-120b", message, Ticket).data


def answer(customer: str, message: str) -> str:
    """Answer a message; empty if a person must approve first."""
    session = agent.session(customer)
    session.send(message)
    return "" if session.pending else session.text


def stream_answer(customer: str, message: str) -> Iterator[str]:
    """Yield the answer to a message as it arrives."""
    with agent.session(customer).stream(message) as run:
        yield from run.text_deltas()


def decide(customer: str, *, approved: bool) -> str:
    """Approve or deny the agent's pending calls for a customer; return its answer."""
    session = agent.resume(customer)
    if approved:
        session.approve()
    else:
        session.deny(reason="a person has denied it")
    return session.text


def escalate(customer: str) -> tuple[Loss, ...]:
    """Hand the conversation over to a larger model; return the content that it does not receive."""
    return agent.resume(customer).handover(LARGE_MODEL)


def describe_photo(url: str) -> str:
    """Describe a photo that a customer has sent."""
    photo = client.fetch(Image(url=url))
    return client.chat("google/gemini-3-flash-preview", [user("What is broken?", photo)]).text
