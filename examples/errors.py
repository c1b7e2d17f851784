"""Handle errors: specific classes first, then their base classes."""

from tenuto import Client, LLMError, TenutoError
from tenuto.errors import AuthenticationFailed, NotFound, RateLimited, UnknownProvider

MODELS = ["openai/gpt-5.2", "openai/gpt-0", "anthropic/claude-sonnet-4-6", "groq/llama-3.3-70b-versatile", "opnai/gpt"]


def ask(ai: Client, model: str) -> str:
    """Return the answer or a description of the error."""
    try:
        return ai.chat(model, "Hello", timeout=60).text
    except NotFound:
        return "model not found"
    except AuthenticationFailed as error:
        return f"{error.provider} rejected the key (request {error.request_id})"
    except RateLimited as error:
        return f"rate limit, retry in {error.retry_after} s"
    except UnknownProvider as error:
        return f"unknown provider, did you mean {' or '.join(error.suggestions)}?"
    except LLMError as error:  # any other error of the provider or the connection
        return f"{error.provider}, status {error.status}: {error.message}"
    except TenutoError as error:  # a missing key, calls without results, ...
        return str(error)


with Client(keys={"anthropic": "not-my-key"}, middleware=[]) as ai:  # the default middleware would retry
    for model in MODELS:
        print(f"{model}: {ask(ai, model)}")
