"""Catch what can go wrong, at the height that you need."""

from tenuto import Client, LLMError, TenutoError
from tenuto.errors import AuthenticationFailed, NotFound, RateLimited, UnknownProvider

MODELS = ["openai/gpt-5.2", "openai/gpt-0", "anthropic/claude-sonnet-4-6", "groq/llama-3.3-70b-versatile", "opnai/gpt"]


def ask(ai: Client, model: str) -> str:
    """Return the answer, or what became of the question."""
    try:
        return ai.chat(model, "Hello", timeout=60).text
    except NotFound:
        return "there is no such model"
    except AuthenticationFailed as error:
        return f"{error.provider} does not take the key (request {error.request_id})"
    except RateLimited as error:
        return f"too many questions, try again in {error.retry_after} s"
    except UnknownProvider as error:
        return f"no such provider; perhaps {' or '.join(error.suggestions)}?"
    except LLMError as error:  # anything else that the provider said, or failed to say
        return f"{error.provider}, status {error.status}: {error.message}"
    except TenutoError as error:  # a missing key, calls left unanswered, ...
        return str(error)


with Client(keys={"anthropic": "not-my-key"}, middleware=[]) as ai:  # without `retry`, which would wait and ask again
    for model in MODELS:
        print(f"{model}: {ask(ai, model)}")
