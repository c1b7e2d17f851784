"""What the simulated model thinks before it answers: what was asked, what it has, what it will do."""

from __future__ import annotations

from tenuto.core import jsonio
from tenuto.sim.asked import Asked
from tenuto.sim.calling import Situation
from tenuto.sim.mint import Mint, tokens
from tenuto.sim.script import Call, Think
from tenuto.sim.words import quotation, shortened

__all__ = ["thoughts"]


def thoughts(asked: Asked, at: Situation, calls: tuple[Call, ...], mint: Mint) -> tuple[Think, ...]:
    """Return what is thought, mostly in one piece, sometimes in two; shorter where few tokens are left for it."""
    if not asked.think:
        return ()
    sentences = [*_asked_for(asked, at, mint), *(_about_results(at, mint) if at.results else _about_tools(asked, mint))]
    plan = _about_calls(asked, calls, mint) if calls else _about_answer(asked, at, mint)
    room = max(8, (asked.max_tokens or 4000) // 3)
    if mint.random.random() < 0.2 and room > 200:
        first = _within(sentences, room // 2)
        return Think(f"{first}\n\n"), Think(_within(plan, room // 2))  # some put both into one text
    return (Think(_within([*sentences, *plan], room)),)


def _within(sentences: list[str], room: int) -> str:
    text = sentences[0] if tokens(sentences[0]) <= room else shortened(sentences[0], room * 4)
    for sentence in sentences[1:]:
        if tokens(text) + tokens(sentence) + 1 > room:
            break
        text += f" {sentence}"
    return text


def _asked_for(asked: Asked, at: Situation, mint: Mint) -> list[str]:
    task = quotation(at.words, 160)
    if not at.words.strip():
        return ["There is no question in this conversation yet.", "I should say so and ask what is wanted."]
    found = [
        mint.random.choice(
            (f"The user says: {task}", f"This is what I am told: {task}", f"Let me look at the request: {task}")
        )
    ]
    if asked.system:
        found.append(f"The instructions say: {quotation(asked.system, 80)}")
    if at.before:
        found.append(
            mint.random.choice(
                ("This goes on from what was said before.", "There is some history here that may matter.")
            )
        )
    return found


def _about_tools(asked: Asked, mint: Mint) -> list[str]:
    names = [tool.name for tool in asked.tools]
    if not names:
        return [
            mint.random.choice(
                (
                    "I have no tools here, so I answer from what I have.",
                    "No tool is offered; this needs a plain answer.",
                )
            )
        ]
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    if asked.choice == "none":
        return [f"There are tools ({shown}), but I am told not to use any."]
    return [
        mint.random.choice(
            (f"The tools I can use are {shown}.", f"I have {shown} at hand.", f"Let me see what could help: {shown}.")
        )
    ]


def _about_results(at: Situation, mint: Mint) -> list[str]:
    name, text = at.results[-1]
    return [
        mint.random.choice(("The results are in.", "Now there is something to go by.", "I have heard back.")),
        f"{name or 'The tool'} came back with {quotation(text, 120)}" if text.strip() else "It is empty.",
        *([f"That makes {len(at.results)} results altogether."] if len(at.results) > 1 else []),
    ]


def _about_calls(asked: Asked, calls: tuple[Call, ...], mint: Mint) -> list[str]:
    first = calls[0]
    given = first.args if isinstance(first.args, str) else jsonio.encode(first.args).decode("utf-8", "replace")
    found = [
        mint.random.choice(
            (f"{first.name} fits this.", f"I should call {first.name}.", f"The right thing here is {first.name}.")
        ),
        f"These are its arguments: {shortened(given, 160)}.",
    ]
    if asked.choice not in ("auto", "none"):
        found.append("I have to call a tool now, whatever the request is.")
    if len(calls) > 1:
        found.append(
            f"There are {len(calls)} things to find out that do not depend on each other, so I make the calls at once."
        )
    found.append(
        mint.random.choice(
            ("Then I will see what comes back.", "After that I can answer.", "With the result I can go on.")
        )
    )
    return found


def _about_answer(asked: Asked, at: Situation, mint: Mint) -> list[str]:
    found = []
    if asked.schema is not None:
        found.append(
            "The answer has to be JSON, and fit the schema that came with the request; I go through its fields one by one."
        )
    if at.prefill:
        found.append("The beginning of the answer is given already, so I go on from there.")
    found.append(
        mint.random.choice(
            ("That is enough to answer.", "I can answer this now, and briefly.", "A short answer will do.")
        )
    )
    return found
