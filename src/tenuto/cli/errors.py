"""Exit codes, and the message and hint for each kind of error."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from tenuto import errors


class ExitCode(IntEnum):
    """Exit codes. From 128 on: 128 plus the number of a signal."""

    OK = 0
    FAILED = 1
    USAGE = 2  # also settings that cannot be used, an unknown model, a missing tool
    MISSING_KEY = 3
    BUSY = 4  # rate limited or overloaded, after retries
    LIMIT = 5
    APPROVAL = 6  # a tool call waits for approval or was denied
    SESSION = 7  # session not found, in use or damaged; store unusable
    CHECK_FAILED = 8  # audit findings, or an answer that does not match its schema
    HUNG_UP = 129
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


class Explanation(NamedTuple):
    """Exit code and message of an error, and a hint what to do unless the message says it."""

    code: ExitCode
    message: str
    hint: str = ""


def _missing_key_hint(exc: errors.MissingKey) -> str:
    names = " or ".join(exc.variables)
    return f"{f'set {names}, or ' if names else ''}run tenuto keys set {exc.provider} (or try -m sim/anthropic)"


_DISK_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
_DISK_HINT = "free some space or choose another place"
_OTHER_MODEL, _UNVERIFIED = "choose another model with -m", ", or pass --allow-unverified"
_NETWORK = "check your network, then resume"
_PROVIDERS = "list providers with tenuto providers; a model is written provider/model"
_CONTEXT = "context too long; use /compact or tenuto compact, or a model with a larger context window (-m)"
_IN_USE = "wait, or take over with: tenuto resume {} --takeover"
TABLE: tuple[tuple[type[BaseException], ExitCode, str | Callable[[Any], str]], ...] = (  # the first match counts
    (errors.MissingKey, ExitCode.MISSING_KEY, _missing_key_hint),
    (errors.AuthenticationFailed, ExitCode.MISSING_KEY, "check the key, then resume"),
    (errors.RateLimited, ExitCode.BUSY, "wait, then resume"),
    (errors.Unavailable, ExitCode.BUSY, "wait, then resume"),
    (errors.QuotaExceeded, ExitCode.FAILED, "add credit or change the plan, then resume"),
    (errors.NotFound, ExitCode.USAGE, "check the model name or pass another with -m"),
    (errors.ContextTooLong, ExitCode.FAILED, _CONTEXT),
    (errors.ConnectionFailed, ExitCode.FAILED, _NETWORK),
    (errors.TimedOut, ExitCode.FAILED, _NETWORK),
    (errors.UnsupportedModel, ExitCode.USAGE, lambda exc: _OTHER_MODEL + _UNVERIFIED * bool(exc.remedy)),
    (errors.UnsupportedContent, ExitCode.USAGE, _OTHER_MODEL),
    (errors.UnknownProvider, ExitCode.USAGE, lambda exc: "" if exc.suggestions else _PROVIDERS),
    (errors.MissingTool, ExitCode.USAGE, lambda exc: f"add -T MODULE:{exc.name}"),
    (errors.LimitReached, ExitCode.LIMIT, ""),
    (errors.SchemaMismatch, ExitCode.CHECK_FAILED, "resume and describe what is wrong"),
    (errors.SessionInUse, ExitCode.SESSION, lambda exc: _IN_USE.format(exc.session)),
    (errors.LeaseLost, ExitCode.SESSION, "another process took it over; see tenuto show, or use --takeover"),
    (errors.SessionNotFound, ExitCode.SESSION, "list them with tenuto sessions"),
    (errors.StoreError, ExitCode.SESSION, ""),
    (errors.RunCancelled, ExitCode.INTERRUPTED, ""),
    (errors.TenutoError, ExitCode.FAILED, ""),
    (OSError, ExitCode.FAILED, lambda exc: _DISK_HINT if exc.errno in _DISK_FULL else ""),
)


def explain_error(error: BaseException, *, model: str = "") -> Explanation:
    """Return code, message and hint for an error. `model` is the model of the request, if there was one."""
    for type_, code, hint in TABLE:
        if isinstance(error, type_):
            # the note of `ContextTooLong` is a remedy for callers of the library
            notes = [] if isinstance(error, errors.ContextTooLong) else [*getattr(error, "__notes__", ())]
            name = model or getattr(error, "model", "")
            if name and isinstance(error, errors.NotFound | errors.UnsupportedModel):
                from tenuto.cli.session.models import suggest_models

                notes += [f"use {' or '.join(names)}"] if (names := suggest_models(name)) else []
            text = hint if isinstance(hint, str) else hint(error)
            return Explanation(code, _describe_error(error), "; ".join(filter(None, (*notes, text))))
    message = f"internal error (please report): {type(error).__name__}: {error}"
    return Explanation(ExitCode.FAILED, message, "run with TENUTO_DEBUG=1 for details")


def _describe_error(error: BaseException) -> str:
    if isinstance(error, errors.SessionInUse):
        holder = f"process {error.pid} on {error.host or 'this machine'}" if error.pid else "another process"
        return f"session {error.session} is in use by {holder}"
    if isinstance(error, errors.MissingKey):
        return f"no API key for {error.provider}"
    if isinstance(error, errors.MissingTool):
        return f"this session uses a tool that is not loaded: {error.name}"
    if isinstance(error, errors.UnsupportedModel):  # without the remedy, which is for callers of the library
        return f"{error.model} is not supported in sessions: {error.reason}"
    if isinstance(error, errors.LLMError):
        provider = f"{error.provider}: " if error.provider and error.provider not in error.message else ""
        return f"{provider}{error.message} ({error_kind(type(error).__name__)})"
    if isinstance(error, OSError) and error.strerror:
        # other writers name their file, so an error without a name is about stdout
        stdout = "cannot write stdout" if error.errno in (*_DISK_FULL, errno.EIO, errno.EBADF) else ""
        return ": ".join(filter(None, (str(error.filename or stdout), error.strerror)))
    return str(error).replace("\n", "; ") or type(error).__name__


def error_kind(name: str) -> str:
    """Return the name of an error class as words: `rate limited` for `RateLimited`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def plural(count: int, word: str) -> str:
    """Return a count with its noun: `1 entry`, `3 entries`, `2 losses`."""
    if count != 1:
        word = f"{word[:-1]}ies" if word.endswith("ry") else f"{word}es" if word.endswith(("s", "ch")) else f"{word}s"
    return f"{count:,} {word}"
