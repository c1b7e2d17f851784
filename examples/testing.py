"""Test a program that calls models: no network, no keys. `pytest testing.py`, or run it."""

from tenuto import Client
from tenuto.testing import ScriptedResponse, ScriptedTransport


def translate(ai: Client, text: str) -> str:
    """Return the answer to a question: the program under test."""
    return ai.chat("groq/llama-3.3-70b-versatile", text, system="Translate into Norwegian.").text


def answer(text: str) -> dict[str, object]:
    """Write a response in the provider's format."""
    message = {"role": "assistant", "content": text}
    return {"id": "1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def test_translate() -> None:
    """Check the answer, the request and a retry."""
    transport = ScriptedTransport(ScriptedResponse({}, status=503, headers={"retry-after": "0"}), answer("Hei!"))
    with Client(transport=transport, keys={"groq": "any"}) as ai:
        assert translate(ai, "Hi!") == "Hei!"

    request = transport.bodies()[-1]
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert transport.left == 0


if __name__ == "__main__":
    test_translate()
    print("passed")
