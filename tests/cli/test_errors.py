"""One table says what each error means to who called the command."""

from __future__ import annotations

import re

import pytest

from tenuto import errors
from tenuto.agent.runner import _FULL
from tenuto.cli.errors import TABLE, ExitCode, explain_error

CODES = [
    (errors.MissingKey("acme", ("ACME_API_KEY",)), 3, "ACME_API_KEY"),
    (errors.AuthenticationFailed("no", provider="acme"), 3, "key"),
    (errors.RateLimited("slow down", provider="acme"), 4, "wait"),
    (errors.Unavailable("overloaded"), 4, "wait"),
    (errors.QuotaExceeded("no money"), 1, "credit"),
    (errors.NotFound("no such model"), 2, "model name"),
    (errors.ContextTooLong("too much"), 1, "a larger context window (-m)"),
    (errors.ConnectionFailed("no route"), 1, "network"),
    (errors.TimedOut("nothing came"), 1, "network"),
    (errors.IncompleteResponse("cut"), 1, ""),
    (errors.BadRequest("what?"), 1, ""),
    (errors.UnsupportedModel("acme/one", "it takes no tools"), 2, "-m"),
    (errors.UnknownProvider("acm"), 2, "provider/model"),
    (errors.MissingTool("dig"), 2, "-T MODULE:dig"),
    (errors.LimitReached("turns"), 5, ""),
    (errors.SchemaMismatch("no fit"), 8, ""),
    (errors.SessionNotFound("no session"), 7, "tenuto sessions"),
    (errors.SessionInUse("01ab", pid=7, host="box"), 7, "tenuto resume 01ab --takeover"),
    (errors.LeaseLost("taken"), 7, "--takeover"),
    (errors.StoreCorrupt("damaged"), 7, ""),
    (errors.StoreError("full"), 7, ""),
    (errors.RunCancelled("over"), 130, ""),
    (OSError(28, "No space left on device"), 1, ""),
    (KeyError("bug"), 1, "TENUTO_DEBUG"),
]


@pytest.mark.parametrize("error, code, hint", CODES, ids=lambda value: type(value).__name__)
def test_each_error_has_code_and_hint(error, code, hint):
    told = explain_error(error)

    assert code == told.code
    assert hint in told.hint
    assert told.message


def test_every_error_class_has_a_row():
    """None falls through to what should not happen, and no row hides one that stands below it."""
    tree = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TenutoError)]

    assert [] == [error for error in tree if not any(issubclass(error, kind) for kind, _, _ in TABLE)]
    for at, (kind, _, _) in enumerate(TABLE):
        assert not any(issubclass(kind, above) for above, _, _ in TABLE[:at])


def test_help_names_every_exit_code(here):
    """All that a script may meet, but for a pipe that nobody reads."""
    listed = here("--help").out.partition("Exit codes:\n")[2]
    codes = {int(code) for code in re.findall(r"(?<!\S)(\d+)(?=[ ,])", listed)}

    assert codes == {int(code) for code in ExitCode} - {ExitCode.BROKEN_PIPE}


def test_notes_for_users_are_printed():
    error = errors.RateLimited("slow down")
    error.add_note("gave up after 5 attempts")

    assert explain_error(error).hint.startswith("gave up after 5 attempts; wait")
    for_programs = errors.ContextTooLong("too much")
    for_programs.add_note(_FULL)
    assert "session.handover(" in _FULL
    assert "session.handover(" not in explain_error(for_programs).hint
    in_use = errors.SessionInUse("01ab", pid=7, host="box")
    assert "session 01ab is in use by process 7 on box" == explain_error(in_use).message
