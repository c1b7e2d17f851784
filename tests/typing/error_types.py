"""Errors, caught by any class of the tree, with their fields."""

from __future__ import annotations

from typing import assert_type

from tenuto import ChatResponse, Client, LLMError, TenutoError
from tenuto.errors import (
    AuthenticationFailed,
    ContextTooLong,
    IncompleteResponse,
    LimitReached,
    MissingKey,
    ProtocolError,
    RateLimited,
    SchemaMismatch,
    Unavailable,
    UnknownProvider,
    UnsupportedModel,
)


def ask(ai: Client, model: str) -> str | float | None:
    try:
        return ai.chat(model, "Hello").text
    except (RateLimited, Unavailable) as error:
        assert_type(error.retry_after, float | None)
        return error.retry_after
    except AuthenticationFailed as error:
        assert_type(error.status, int | None)
        return error.request_id
    except ContextTooLong as error:
        return error.message
    except IncompleteResponse as error:
        assert_type(error.partial, ChatResponse | None)
        return error.partial.text if error.partial else None
    except ProtocolError as error:
        assert_type(error.frame, bytes)
        return error.raw
    except LLMError as error:
        assert_type(error.retryable, bool)
        return error.provider
    except MissingKey as error:
        return error.variables[0]
    except UnknownProvider as error:
        return " or ".join(error.suggestions)
    except UnsupportedModel as error:
        return error.reason
    except (SchemaMismatch, LimitReached, TenutoError) as error:
        return str(error)
