"""Read the reasoning of a model. It is in `reply.thinking` for every provider that returns it."""

from tenuto import Client

with Client() as ai:
    # or "anthropic/claude-sonnet-4-6", or "google/gemini-3-flash-preview"
    reply = ai.chat("deepseek/deepseek-v4-flash", "Solve: x^2 + 5x + 6 = 0", effort="high")

print("reasoning:", reply.thinking)
print("answer:   ", reply.text)
