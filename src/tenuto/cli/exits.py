"""What a run that went wrong says, and the code that the command ends with. One table, in one place."""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from tenuto import errors

__all__ = ["TABLE", "Exit", "Told", "explained"]


class Exit(IntEnum):
    """The codes that the command ends with. 128 and more are those of a signal, as shells count."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    """What was typed or is set cannot be used: an unknown model, a missing tool."""
    KEY = 3
    BUSY = 4
    """Rate limited or overloaded, after trying again."""
    LIMIT = 5
    APPROVAL = 6
    """A call waits for somebody's word, or was denied: the model was told so, and its answer is printed."""
    SESSION = 7
    """Not found, in use, damaged, or the store cannot be read or written."""
    FINDINGS = 8
    """An audit found something, or an answer does not fit its schema."""
    HUNG_UP = 129
    INTERRUPTED = 130
    UNREAD = 141
    """Nobody reads what is printed."""
    TERMINATED = 143


class Told(NamedTuple):
    """What is said of an error: the code, what happened, and what to do next, if that does not stand there already."""

    code: Exit
    what: str
    next: str = ""


def _key(exc: errors.MissingKey) -> str:
    names = " or ".join(exc.variables)
    where = f"set {names}, or keep one" if names else "keep one"
    return f"{where} with tenuto keys set {exc.provider}; -m sim/anthropic needs none"


def _in_use(exc: errors.SessionInUse) -> str:
    return f"wait for its end or stop it, or take the session over: tenuto resume {exc.session} --take"


def _near(exc: errors.UnknownProvider) -> str:
    if exc.suggestions:
        return ""
    return "a model is named provider/model: anthropic/claude-sonnet-4-5, openai/gpt-5.2, sim/anthropic, ..."


def _nearly(model: str) -> list[str]:
    """Return a hint that names models to use instead of one that cannot be used."""
    from tenuto.cli.catalogue import near_models

    near = near_models(model) if model else []
    return [f"there is {' or '.join(near)}"] if near else []


def _say(text: str) -> Callable[[Any], str]:
    return lambda _: text


def _room(exc: OSError) -> str:
    return "make room, or send it elsewhere; then do it again" if exc.errno in _FULL else ""


def _unknown(exc: errors.UnsupportedModel) -> str:
    own = ", or allow this one with --allow-unverified" if "allow_unverified=True" in exc.reason else ""
    return f"choose another model with -m{own}"


_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
_TOO_LONG = "the session is saved: resume it with a model that has a larger context window (-m)"
_NETWORK = "look at the connection, then go on with the session"
TABLE: tuple[tuple[type[BaseException], Exit, Callable[[Any], str]], ...] = (
    (errors.MissingKey, Exit.KEY, _key),
    (errors.AuthenticationFailed, Exit.KEY, _say("look at the key that is set for this provider, then go on")),
    (errors.RateLimited, Exit.BUSY, _say("wait a while, then go on with the session")),
    (errors.Unavailable, Exit.BUSY, _say("wait a while, then go on with the session")),
    (errors.QuotaExceeded, Exit.FAILED, _say("the account needs money or another plan; then go on with the session")),
    (errors.NotFound, Exit.USAGE, _say("look at the name of the model; -m names another, also for tenuto resume")),
    (errors.ContextTooLong, Exit.FAILED, _say(_TOO_LONG)),
    (errors.ConnectionFailed, Exit.FAILED, _say(_NETWORK)),
    (errors.TimedOut, Exit.FAILED, _say(_NETWORK)),
    (errors.UnsupportedModel, Exit.USAGE, _unknown),
    (errors.UnsupportedContent, Exit.USAGE, _say("choose another model with -m")),
    (errors.UnknownProvider, Exit.USAGE, _near),
    (errors.MissingTool, Exit.USAGE, lambda exc: f"give it with -T MODULE:{exc.name}"),
    (errors.LimitReached, Exit.LIMIT, _say("")),
    (errors.SchemaMismatch, Exit.FINDINGS, _say("go on with the session, and say what is wrong")),
    (errors.SessionInUse, Exit.SESSION, _in_use),
    (
        errors.LeaseLost,
        Exit.SESSION,
        _say("somebody else goes on with it: look with tenuto show, or take it with --take"),
    ),
    (errors.SessionNotFound, Exit.SESSION, _say("tenuto sessions lists what there is")),
    (errors.StoreError, Exit.SESSION, _say("")),
    (errors.RunCancelled, Exit.INTERRUPTED, _say("")),
    (errors.TenutoError, Exit.FAILED, _say("")),
    (OSError, Exit.FAILED, _room),
)
"""The first row that fits counts: which error, which code, and what to do next."""


def explained(error: BaseException, *, model: str = "") -> Told:
    """Say what an error means to who called the command; `model` is whom was asked, as far as somebody was."""
    for kind, code, next_step in TABLE:
        if isinstance(error, kind):
            # what can be called cannot be typed here: the table says what can
            notes = [note for note in getattr(error, "__notes__", ()) if "session.handover(" not in note]
            if isinstance(error, errors.NotFound | errors.UnsupportedModel):
                notes += _nearly(model or getattr(error, "model", ""))
            return Told(code, _said(error), "; ".join(filter(None, (*notes, next_step(error)))))
    what = f"something went wrong that should not: {type(error).__name__}: {error}"
    return Told(Exit.FAILED, what, "TENUTO_DEBUG=1 shows where; please report it")


def _said(error: BaseException) -> str:
    if isinstance(error, errors.SessionInUse):
        who = f"process {error.pid} on {error.host or 'this machine'}" if error.pid else "somebody else"
        return f"session {error.session} is in use by {who}"
    if isinstance(error, errors.MissingKey):
        return f"there is no API key for {error.provider}"
    if isinstance(error, errors.MissingTool):
        return f"the session was told of a tool that is not here: {error.name}"
    if isinstance(error, errors.UnsupportedModel):  # the remedy for the library is not one for the command
        return f"{error.model} cannot be used in a session: {error.reason.partition('; pass ')[0]}"
    if isinstance(error, errors.LLMError):
        who = f"{error.provider}: " if error.provider and error.provider not in error.message else ""
        return f"{who}{error.message} ({type(error).__name__})"
    if isinstance(error, OSError) and error.strerror:
        # what goes wrong with a file of ours is told where it is written: what has no name is stdout
        where = "stdout cannot be written" if error.errno in (*_FULL, errno.EIO, errno.EBADF) else ""
        return ": ".join(filter(None, (str(error.filename or where), error.strerror)))
    return str(error).replace("\n", "; ") or type(error).__name__
