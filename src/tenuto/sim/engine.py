"""From an HTTP request to its response: a function of seed, scripts and request. Only the log has state."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeGuard
from urllib.parse import unquote

import msgspec

from tenuto.core import jsonio
from tenuto.core.provider import Dialect
from tenuto.rules.body import RequestContext
from tenuto.rules.book import Judgement, RuleFinding, judge, open_body
from tenuto.rules.issued_tokens import content_digest
from tenuto.sim import errors, providers
from tenuto.sim.default_reply import default_reply
from tenuto.sim.dialects import InvalidRequest, ParsedRequest, SimDialect, TurnRequest, load_dialect
from tenuto.sim.embeddings import embeddings_reply
from tenuto.sim.errors import ApiError
from tenuto.sim.log import ExchangeLog, ExchangeRecord, RefusedRequest
from tenuto.sim.routes import HELP, Route, route
from tenuto.sim.script import (
    Compact,
    Fault,
    HttpError,
    ScriptPlayer,
    SlowStream,
    Stall,
    StreamError,
    Turn,
    depends_on_attempt,
    load,
    steps_for_attempt,
)
from tenuto.sim.tokens import SealedTokens, SeededRandom, TokenSealer

MAX_BODY = 32 * 1024 * 1024
"""The maximum number of bytes of a request."""
_JSON = {"content-type": "application/json"}
_STREAM_OPTIONS = ("stream", "stream_options")
"""Fields that do not make another request."""
_PROVIDER_HEADER = "x-tenuto-provider"
"""The header that names the provider to imitate, for requests with the model names of the provider itself."""
_LOCAL_HOST = re.compile(r"(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?")


class RawRequest(msgspec.Struct, frozen=True):
    """An HTTP request; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: bytes | None = b""
    """None: too large to read."""
    flaw: str = ""
    """The reason why the body could not be read, if there is one."""

    @property
    def key(self) -> str:
        """The API key, from any of the headers or the query; empty without one."""
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        bearer = token.strip() if kind.lower() == "bearer" else ""
        named = [self.headers.get(name, "") for name in ("x-api-key", "x-goog-api-key", "api-key")]
        return next(filter(None, (*named, bearer, self.query.get("key", ""))), "")


class RawResponse(msgspec.Struct, frozen=True):
    """An HTTP response: bytes, with faults at their positions."""

    status: int
    headers: dict[str, str]
    pieces: list[bytes | Fault]
    stream: bool = False


def has_no_faults(pieces: list[bytes | Fault]) -> TypeGuard[list[bytes]]:
    return set(map(type, pieces)) <= {bytes}  # a reply has a thousand pieces: no loop in Python


def without_faults(pieces: list[bytes | Fault]) -> list[bytes]:
    return pieces if has_no_faults(pieces) else [piece for piece in pieces if isinstance(piece, bytes)]


class _Refusal(Exception):
    """The request gets an error: the error for the client and the entry for the log."""

    def __init__(
        self, error: ApiError, refused: RefusedRequest | None, before: tuple[Fault, ...] = (), rule: str = ""
    ) -> None:
        super().__init__(error.message)
        self.error, self.refused, self.before, self.rule = error, refused, before, rule


class _RequestContext:
    """One request while it is processed."""

    def __init__(self, raw: RawRequest, route: Route, dialect: SimDialect) -> None:
        self.raw = raw
        self.route = route
        self.dialect = dialect
        self.account = content_digest(raw.key) if raw.key else ""
        self.flaw = raw.flaw
        self.body = self._parse_body()
        self.requested_model = route.model or self._field("model", "")
        self.named = unquote(raw.headers.get(_PROVIDER_HEADER, ""))
        self.provider, self.model = providers.find(self.requested_model, route.dialect, self.named)
        self.stream = route.streams or (self.dialect.stream_in_body and self._field("stream", False))
        self.is_array = self.stream and self.dialect.array_without_sse and raw.query.get("alt") != "sse"
        self.digest = self._digest()
        self.id = errors.request_id(self.provider, self.digest)
        self.judgement: Judgement | None = None

    def record(self, status: int, data: bytes, refused: RefusedRequest | None = None) -> ExchangeRecord:
        return ExchangeRecord(
            method=self.raw.method, path=self.raw.path, status=status, provider=self.provider.name, model=self.model,
            stream=self.stream and refused is None, body=self.body, judgement=self.judgement, refused=refused,
            data=data, size=len(self.raw.body or b""), account=self.account, digest=self.digest,
        )  # fmt: skip

    def _parse_body(self) -> Any:
        if self.route.methods != ("POST",) or not self.raw.body:
            return None
        try:
            body = jsonio.parse(self.raw.body)
        except jsonio.JsonError as exc:
            self.flaw = str(exc)
            return None
        if not isinstance(body, dict):
            self.flaw = "a request is a JSON object"
        elif self.raw.path.endswith("awPredict"):  # Claude on Vertex AI: the path names the model
            body = {name: value for name, value in body.items() if name != "anthropic_version"}
            return {**body, "model": self.route.model} if self.route.model else body
        return body

    def _field(self, name: str, default: Any) -> Any:
        value = self.body.get(name) if isinstance(self.body, dict) else None
        return value if isinstance(value, type(default)) else default

    def _digest(self) -> str:
        content = self.raw.body or b""
        if isinstance(self.body, dict):
            body = {name: value for name, value in self.body.items() if name not in _STREAM_OPTIONS}
            try:
                content = msgspec.json.encode(body, order="sorted")
            except (UnicodeEncodeError, ValueError):
                content = jsonio.encode(body)
        operation = f"{self.route.dialect} {self.route.kind}"
        return content_digest(operation, f"{self.provider.name}/{self.model}", content, self.account)


class SimEngine:
    """Answer requests. `keys` are the valid API keys; None: any key, or no key, is valid.

    `default` gives the turn where no script does.
    """

    def __init__(
        self,
        seed: str,
        log: ExchangeLog,
        scripts: ScriptPlayer,
        keys: Collection[str] | None = None,
        dialects: Callable[[Dialect], SimDialect] = load_dialect,
        default: Callable[[TurnRequest], Turn] = default_reply,
    ) -> None:
        self._seed = seed
        self._sealer = TokenSealer(seed)
        self._log = log
        self._scripts = scripts
        self._keys = None if keys is None else frozenset(keys)
        self._dialects = dialects
        self._default = default

    def answer(self, raw: RawRequest) -> RawResponse:
        """Answer a request and log the exchange."""
        target = route(raw.path, raw.headers)
        if target.kind in ("log", "script", "rules") and raw.method in target.methods and _is_local(raw):
            return self._control(raw, target)
        if raw.method == "HEAD" and raw.path == "/":  # clients test with it whether there is a server
            return RawResponse(200, {}, [b""])
        context = _RequestContext(raw, target, self._dialects(target.dialect))
        response, refused = RawResponse(500, {}, []), _INTERNAL_ERROR
        try:
            try:
                self._check_access(context)
                response, refused = self._dispatch(context), None
            except _Refusal as exc:
                response, refused = _error_response(context, exc), exc.refused
            return response
        finally:  # an internal error is logged, too
            data = b"".join(without_faults(response.pieces))
            self._log.add(context.record(response.status, data, refused))

    def _check_access(self, context: _RequestContext) -> None:
        """Refuse foreign pages, unknown paths, wrong keys and bodies that are not JSON."""
        raw, target = context.raw, context.route
        if not _is_local(raw):
            origin = raw.headers.get("origin") or raw.headers.get("host", "")
            raise _refuse(
                403, f"requests from {origin} are not allowed: use localhost or 127.0.0.1, and no Origin header"
            )
        if target.kind == "nothing":
            raise _refuse(404, f"no such path: {raw.path}; {HELP}")
        if raw.headers.get("upgrade", "").lower() == "websocket":
            raise _refuse(426, "WebSocket is not supported: use HTTP")
        if raw.method not in target.methods:
            raise _refuse(405, f"{raw.path} accepts {' and '.join(target.methods)}, not {raw.method}")
        if self._keys is not None and raw.key not in self._keys:
            raise _Refusal(errors.form_of(context.provider).bad_key, RefusedRequest(message="unknown API key"))
        if raw.body is None:
            raise _Refusal(ApiError(status=413), RefusedRequest(message=f"the request has more than {MAX_BODY} bytes"))
        if target.methods == ("POST",) and (context.flaw or not isinstance(context.body, dict)):
            raise _refuse(400, f"the body is not JSON: {context.flaw or 'it is empty'}")

    def _dispatch(self, context: _RequestContext) -> RawResponse:
        dialect = context.dialect
        try:
            match context.route.kind:
                case "turn":
                    return self._reply(context)
                case "count":
                    document = dialect.count(self._turn_request(context))
                case "embed":
                    document = embeddings_reply(context.body, context.route.verb, context.requested_model)
                case "list":
                    ids = providers.list_ids(context.route.dialect, context.provider if context.named else None)
                    document = providers.model_list(context.route.dialect, ids)
                case _:
                    if not providers.has_model(context.requested_model, context.route.dialect):
                        raise _refuse(404, f"model not found: {context.requested_model}")
                    document = providers.model_entry(context.route.dialect, context.requested_model)
            return RawResponse(200, {**_JSON, **_id_headers(context)}, [jsonio.encode(document)])
        except InvalidRequest as exc:
            param = exc.param if exc.param and not exc.param.startswith("/") else None  # a pointer is for the log only
            error = ApiError(status=exc.status, message=str(exc), param=param, code=exc.code)
            raise _Refusal(error, RefusedRequest(message=str(exc), pointer=exc.param)) from exc

    def _reply(self, context: _RequestContext) -> RawResponse:
        request = self._turn_request(context)
        turn = self._next_turn(request, context)
        pieces = context.dialect.write(request, turn, SeededRandom(self._seed, context.digest))
        is_sse = context.stream and not context.is_array
        content_type = "text/event-stream; charset=utf-8" if is_sse else _JSON["content-type"]
        return RawResponse(200, {"content-type": content_type, **_id_headers(context)}, pieces, context.stream)

    def _turn_request(self, context: _RequestContext) -> TurnRequest:
        """Parse the request, apply the rules and read its content."""
        dialect, provider = context.dialect, context.provider
        stored = partial(self._log.stored, account=context.account)
        target = providers.target(provider, context.model)
        headers = {**context.raw.headers, "x-sim-alt": context.raw.query.get("alt", "")}
        request = ParsedRequest(
            provider=provider, target=target, model=context.model, requested_model=context.requested_model,
            account=context.account, headers=headers, body=context.body, digest=context.digest,
            method=context.route.verb, stream=context.stream, prompt_cache=self._log.prompt_cache,
        )  # fmt: skip
        tokens = SealedTokens(self._sealer, dialect.read_id, dialect.prefix_digests)
        rule_context = RequestContext(
            row=providers.imitated_row(provider), model=context.model, traits=target.traits, headers=headers,
            account=context.account, tokens=tokens, stored=stored, size=len(context.raw.body or b""),
            method=context.route.verb,
        )  # fmt: skip
        body = open_body(context.route.dialect, context.body, rule_context)
        context.judgement = judge(body)
        if context.judgement.refusal is not None:
            raise _refuse_by_rule(context.judgement.refusal)
        return dialect.to_turn_request(body, request)

    def _next_turn(self, request: TurnRequest, context: _RequestContext) -> Turn:
        """Return the turn of the script, or the default reply if no script has one."""
        try:
            scripted = self._scripts.turn(request)
        except LookupError as exc:
            raise _script_exhausted(str(exc.args[0])) from exc
        if scripted is None and request.compaction == "alone":
            return (Compact(),)
        if scripted is None:
            return self._default(request)
        attempts = self._log.count_attempt(context.digest) if depends_on_attempt(scripted) else 0
        turn = steps_for_attempt(scripted, attempts)
        if scripted and not turn:
            raise _script_exhausted("the script denies this request and has no answer after that")
        for index, step in enumerate(turn):
            if isinstance(step, HttpError) or (isinstance(step, StreamError) and not context.stream):
                retry_after = step.retry_after if isinstance(step, HttpError) else None
                is_compaction = request.compaction == "alone" and step.status == 529
                code = "compaction_unavailable" if is_compaction else None
                error = ApiError(status=step.status, message=step.message, retry_after=retry_after, code=code)
                raise _Refusal(
                    error, None, tuple(step for step in turn[:index] if isinstance(step, Stall | SlowStream))
                )
        return turn

    def _control(self, raw: RawRequest, target: Route) -> RawResponse:
        status, document = 200, dict[str, Any]()
        if raw.method == "DELETE":
            (self._log if target.kind == "log" else self._scripts).clear()
        elif target.kind == "rules":
            document = {"exercised": sorted(self._log.exercised_rules)}
        elif target.kind == "log":
            document = {"exchanges": [record.to_dict() for record in self._log.records]}
        else:
            try:
                scripts = load(raw.body or b"")
                self._scripts.put(scripts)
                document = {"scripts": len(scripts)}
            except ValueError as exc:
                status, document = 400, {"error": {"message": str(exc)}}
        return RawResponse(status, _JSON, [jsonio.encode(document)])


_INTERNAL_ERROR: RefusedRequest | None = RefusedRequest(
    message="internal error of the simulator", remedy="see the log of aiohttp.server; report it"
)


def _is_local(raw: RawRequest) -> bool:
    """Tell whether a request comes from this machine and not from a web page (DNS rebinding, cross-origin forms)."""
    host = raw.headers.get("host")
    return "origin" not in raw.headers and (host is None or _LOCAL_HOST.fullmatch(host) is not None)


def _id_headers(context: _RequestContext) -> dict[str, str]:
    return errors.headers(context.provider, ApiError(status=200, request_id=context.id))


def _refuse(status: int, message: str) -> _Refusal:
    return _Refusal(ApiError(status=status, message=message), RefusedRequest(message=message))


def _refuse_by_rule(finding: RuleFinding) -> _Refusal:
    rule = finding.rule
    error = ApiError(
        status=rule.status, message=finding.message, type=rule.type, param=finding.param, code=finding.code,
        extra={name: finding.fields[name] for name in errors.EXTRA_FIELDS if name in finding.fields},
    )  # fmt: skip
    refused = RefusedRequest(message=finding.message, rule=rule.id, pointer=finding.pointer, remedy=rule.remedy)
    wording = "verbatim" if finding.verbatim else "unverified"
    header = f"{rule.id}; words={wording}; pointer={finding.pointer}".encode("ascii", "backslashreplace").decode()
    return _Refusal(error, refused, rule=header)


def _script_exhausted(message: str) -> _Refusal:
    return _Refusal(ApiError(status=400, message=message), RefusedRequest(message=message, script_exhausted=True))


def _error_response(context: _RequestContext, refusal: _Refusal) -> RawResponse:
    error = msgspec.structs.replace(refusal.error, status=refusal.error.status or 400, request_id=context.id)
    body = errors.error_body(context.provider, error)
    rule = {"x-tenuto-rule": refusal.rule} if refusal.rule else {}
    headers = {**_JSON, **errors.headers(context.provider, error), **rule}
    return RawResponse(error.status, headers, [*refusal.before, jsonio.encode([body] if context.is_array else body)])
