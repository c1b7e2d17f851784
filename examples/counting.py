"""See what there is to ask, how long a question is, and what an answer took."""

from tenuto import Client

MODEL, QUESTION = "anthropic/claude-sonnet-4-6", "What is 27 * 453?"

with Client() as ai:
    for model in ai.models("anthropic"):
        print(f"{model.id}: {model.context_window} tokens fit")

    print("the question has", ai.count_tokens(MODEL, QUESTION), "tokens")
    reply = ai.chat(MODEL, QUESTION)

usage = reply.usage
if usage is not None:  # None: the provider did not say
    print(f"{usage.prompt_tokens} tokens in ({usage.cache_read_tokens} from a cache), {usage.completion_tokens} out")
print("cost:", reply.cost, "USD")  # None where the price is not known, never a guess
