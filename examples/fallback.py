"""Try models of other providers if the first one fails."""

from tenuto import Client
from tenuto.middleware import fallback

with Client() as ai:
    ai.use(fallback(["anthropic/claude-sonnet-4-6", "groq/llama-3.3-70b-versatile"]))
    reply = ai.chat("openai/gpt-5.2", "Hello")

print(f"{reply.provider}/{reply.model} answered:", reply.text)
