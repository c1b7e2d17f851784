"""Go on with a conversation: with the same model, with another provider's, and back again."""

from tenuto import Client, Reply

CLAUDE, GPT = "anthropic/claude-sonnet-4-6", "openai/gpt-5.2"


def show(reply: Reply) -> None:
    """Print who said what, and what could not be handed over."""
    print(f"{reply.provider}: {reply.text}")
    for loss in reply.losses:
        print(f"   lost: {loss.detail} ({loss.location})")


with Client() as ai:
    reply = ai.chat(CLAUDE, "What is 27 * 453?", system="Be brief.", effort="high")
    show(reply)
    reply = ai.chat(GPT, reply.transcript + "Now divide that by 9.")  # handed over
    show(reply)
    reply = ai.chat(CLAUDE, reply.transcript + "Check it.", effort="high")  # back: its own thoughts are in place
    show(reply)

print(len(reply.transcript), "messages")
