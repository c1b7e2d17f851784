"""Continue a conversation with a model of another provider, and switch back."""

from tenuto import Client, Reply

CLAUDE, GPT = "anthropic/claude-sonnet-4-6", "openai/gpt-5.2"


def show(reply: Reply) -> None:
    """Print the provider, the text and the losses."""
    print(f"{reply.provider}: {reply.text}")
    for loss in reply.losses:
        print(f"   lost: {loss.detail} ({loss.location})")


with Client() as ai:
    reply = ai.chat(CLAUDE, "What is 27 * 453?", system="Be brief.", effort="high")
    show(reply)
    reply = ai.chat(GPT, reply.transcript + "Now divide that by 9.")  # another provider
    show(reply)
    reply = ai.chat(CLAUDE, reply.transcript + "Check it.", effort="high")  # its own reasoning is sent again
    show(reply)

print(len(reply.transcript), "messages")
