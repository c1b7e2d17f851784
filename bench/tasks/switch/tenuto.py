from tenuto import Client

with Client() as client:
    reply = client.chat("openai/gpt-5.2", "Name a prime.", effort="medium")
    reply = client.chat("anthropic/claude-opus-4-6", reply.transcript + "And the next one?")
    reply = client.chat("openai/gpt-5.2", reply.transcript + "And the one after that?", effort="medium")
    print(reply.text)
