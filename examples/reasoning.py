"""Read what a model thought before it answered. Any model that shows its thoughts shows them in the same place."""

from tenuto import Client

with Client() as ai:
    # or "anthropic/claude-sonnet-4-6", or "google/gemini-3-flash-preview"
    reply = ai.chat("deepseek/deepseek-v4-flash", "Solve: x^2 + 5x + 6 = 0", effort="high")

print("thought:", reply.thinking)
print("answer: ", reply.text)
