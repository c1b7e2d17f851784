"""What can be put around a call. The homes of these names are below `tenuto.client`."""

from tenuto.client.budget import Budget, budget
from tenuto.client.cache import Cache, CacheStore, cache
from tenuto.client.middleware import (
    LogEntry,
    NextResponse,
    Retry,
    Timeout,
    fallback,
    logger,
    response_middleware,
    retry,
    timeout,
)
from tenuto.client.pipeline import Middleware, Next, closing, compose
from tenuto.client.rates import RateLimit, rate_limit

__all__ = [
    "Budget",
    "Cache",
    "CacheStore",
    "LogEntry",
    "Middleware",
    "Next",
    "NextResponse",
    "RateLimit",
    "Retry",
    "Timeout",
    "budget",
    "cache",
    "closing",
    "compose",
    "fallback",
    "logger",
    "rate_limit",
    "response_middleware",
    "retry",
    "timeout",
]
