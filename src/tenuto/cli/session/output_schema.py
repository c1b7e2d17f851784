"""Structured output (`--schema`): load the schema, request it, validate the answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import msgspec

from tenuto.cli.session.tools import load_attribute
from tenuto.client.reply import Reply
from tenuto.client.structured_output import extract_json, output_request
from tenuto.core import jsonio
from tenuto.core.journal import Configured
from tenuto.core.messages import AssistantMessage
from tenuto.core.request import JsonSchema
from tenuto.core.response import ChatResponse, Choice
from tenuto.core.transcript import Transcript
from tenuto.schema.validate import find_schema_problem

_TYPE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def load_schema(named: str) -> Any:
    """Return the type or the JSON Schema of `--schema`. Raise `click.UsageError` if it is invalid."""
    file = Path(named).expanduser()
    if _TYPE.fullmatch(named) and not file.is_file():
        found = load_attribute("--schema", named)
        try:
            output_request(found, native=True)
        except TypeError as exc:
            raise click.UsageError(f"--schema {named}: {exc}") from None
        return found
    try:
        text = file.read_bytes()
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or str(exc)
        raise click.UsageError(f"--schema {named!r} cannot be read: {why}; it is a file, or MODULE:TYPE") from None
    try:
        schema = jsonio.parse(text.removeprefix(b"\xef\xbb\xbf"))
    except jsonio.JsonError as exc:
        raise click.UsageError(f"--schema {named!r} is not JSON: {exc}") from None
    if not isinstance(schema, dict):
        raise click.UsageError(f"--schema {named!r} is not a JSON Schema: it must be an object")
    if problem := find_schema_problem(schema):
        raise click.UsageError(f"--schema {named!r}: {problem}")
    return schema


class OutputSchema:
    """The schema of the answer; `instructions` must be part of the message. A session that has another one is refused."""

    def __init__(self, named: str, session: Configured) -> None:
        self._kind = load_schema(named)
        form, _ = output_request(self._kind, native=True)
        _, words = output_request(self._kind, native=False)
        stored = jsonio.parse(session.parameters).get("response_format") if session.parameters else None
        held = msgspec.convert(stored, JsonSchema).schema if isinstance(stored, dict) else None
        self._native = held is not None and form is not None and held == form.schema
        if held is not None and not self._native:
            raise click.UsageError(f"--schema {named!r}: the session started with another schema and keeps it")
        self.instructions = "" if self._native or words in session.system else words

    def extract(self, message: AssistantMessage | None) -> str:
        response = ChatResponse("", "", "", (Choice(message or AssistantMessage(())),))
        return extract_json(self._kind, Reply(response=response, transcript=Transcript(())), native=self._native)
