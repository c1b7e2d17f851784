"""List models, count the tokens of a prompt, and read the usage and cost of a reply."""

from tenuto import Client

MODEL, PROMPT = "anthropic/claude-sonnet-4-6", "What is 27 * 453?"

with Client() as ai:
    for model in ai.models("anthropic"):
        print(f"{model.id}: context window of {model.context_window} tokens")

    print("the prompt has", ai.count_tokens(MODEL, PROMPT), "tokens")
    reply = ai.chat(MODEL, PROMPT)

usage = reply.usage
if usage is not None:  # None if the provider reports no usage
    print(f"{usage.prompt_tokens} tokens in ({usage.cache_read_tokens} from a cache), {usage.completion_tokens} out")
print("cost:", reply.cost, "USD")  # None if the price is unknown
