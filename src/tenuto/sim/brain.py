"""From an HTTP request to its answer: a function of seed, scripts and request. Only the log remembers anything."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeGuard

import msgspec

from tenuto.core import jsonio
from tenuto.core.provider import Dialect
from tenuto.sim import envelopes, listing, styles
from tenuto.sim.asked import Asked, Malformed, Request
from tenuto.sim.cues import Scripts, acting, timed
from tenuto.sim.envelopes import Problem
from tenuto.sim.judging import Verdict, judge
from tenuto.sim.log import Log, Record, Refused
from tenuto.sim.mint import Seals, digest
from tenuto.sim.routes import HELP, Route, route
from tenuto.sim.script import Deny, Drip, Fail, Fault, Stall, Turn, load
from tenuto.sim.voice import Voice
from tenuto.sim.voices import voice

__all__ = ["LARGEST", "Answer", "Brain", "Call", "frames", "whole"]

LARGEST = 32 * 1024 * 1024
"""How many bytes a request may have."""
_JSON = {"content-type": "application/json"}
_UNREAD = ("stream", "stream_options")
"""What a request may say without becoming another one."""


class Call(msgspec.Struct, frozen=True):
    """A request as it came: header names in lower case. A body of None was too large to be read.

    `flaw` says why the body could not be read, if there is another reason.
    """

    method: str
    path: str
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: bytes | None = b""
    flaw: str = ""

    @property
    def key(self) -> str:
        """The key that pays for it, wherever it stands; empty if there is none."""
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        bearer = token.strip() if kind.lower() == "bearer" else ""
        named = (self.headers.get(name, "") for name in ("x-api-key", "x-goog-api-key", "api-key"))
        return next((key for key in (*named, bearer, self.query.get("key", "")) if key), "")


class Answer(msgspec.Struct, frozen=True):
    """What is answered: bytes, and faults where they happen. A stream is written as it comes."""

    status: int
    headers: dict[str, str]
    pieces: list[bytes | Fault]
    stream: bool = False


def whole(pieces: list[bytes | Fault]) -> TypeGuard[list[bytes]]:
    """Tell whether there are no faults in it. A reply has a thousand pieces, so it is not asked piece by piece."""
    return set(map(type, pieces)) <= {bytes}


def frames(pieces: list[bytes | Fault]) -> list[bytes]:
    """Return the pieces without the faults."""
    return pieces if whole(pieces) else [piece for piece in pieces if isinstance(piece, bytes)]


class _Refusal(Exception):
    """The request gets an error: what is told to the client, and what is written down of it."""

    def __init__(self, problem: Problem, refused: Refused | None, before: tuple[Fault, ...] = ()) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.refused = refused
        self.before = before


class _Case:
    """One request on its way: what is known of it so far."""

    def __init__(self, call: Call, place: Route, voice: Voice) -> None:
        self.call = call
        self.place = place
        self.voice = voice
        self.account = digest(call.key) if call.key else ""
        self.body: Any = None
        self.trouble = call.flaw
        self._read()
        self.named = place.named or self._model()
        self.style, self.model = styles.find(self.named, place.dialect)
        self.stream = place.streams or (voice.stream_in_body and self._said("stream") is True)
        self.array = self.stream and voice.array_without_sse and self.alt != "sse"
        self.digest = self._digest()
        self.id = envelopes.request_id(self.style, self.digest)
        self.verdict: Verdict | None = None

    @property
    def alt(self) -> str:
        """The form in which Gemini's dialect is to stream."""
        return self.call.query.get("alt", "")

    def record(self, status: int, data: bytes, refused: Refused | None = None) -> Record:
        """Write down how it ended."""
        return Record(
            method=self.call.method, path=self.call.path, status=status, style=self.style.name, model=self.model,
            stream=self.stream and refused is None, body=self.body, verdict=self.verdict, refused=refused, data=data,
            size=len(self.call.body or b""), account=self.account, digest=self.digest,
        )  # fmt: skip

    def _read(self) -> None:
        if self.place.methods != ("POST",) or not self.call.body:
            return
        try:
            self.body = jsonio.parse(self.call.body)
        except jsonio.JsonError as exc:
            self.trouble = str(exc)
            return
        if not isinstance(self.body, dict):
            self.trouble = "a request is a JSON object"
        elif self.call.path.endswith("awPredict"):  # Claude as Google Cloud has it: the model stands in the path
            named = {"model": self.place.named} if self.place.named else {}
            self.body = {**{name: value for name, value in self.body.items() if name != "anthropic_version"}, **named}
        elif self.place.verb == "countTokens" and isinstance(inner := self.body.get("generateContentRequest"), dict):
            self.body = {name: value for name, value in inner.items() if name != "model"}

    def _model(self) -> str:
        named = self._said("model")
        return named if isinstance(named, str) else ""

    def _said(self, name: str) -> Any:
        return self.body.get(name) if isinstance(self.body, dict) else None

    def _digest(self) -> str:
        if isinstance(self.body, dict):
            said = _canonical({name: value for name, value in self.body.items() if name not in _UNREAD})
        else:
            said = self.call.body or b""
        kind = f"{self.place.dialect} {self.place.kind}"
        return digest(kind, f"{self.style.name}/{self.model}", said, self.account)


class Brain:
    """Answers requests. `keys` are those that are taken; None: any, and none at all."""

    def __init__(
        self,
        seed: str,
        log: Log,
        scripts: Scripts,
        keys: Collection[str] | None = None,
        voices: Callable[[Dialect], Voice] = voice,
    ) -> None:
        self._seed = seed
        self._seals = Seals(seed)
        self._log = log
        self._scripts = scripts
        self._keys = None if keys is None else frozenset(keys)
        self._voices = voices

    def answer(self, call: Call) -> Answer:
        """Answer a request, and write it down."""
        place = route(call.path, call.headers)
        if place.kind in ("log", "script", "rules") and call.method in place.methods:
            return self._own(call, place)
        case = _Case(call, place, self._voices(place.dialect))
        status, data = 500, b""
        refused: Refused | None = _FAILED
        try:
            answer, refused = self._answered(case)
            status = answer.status
            data = b"".join(frames(answer.pieces))
            return answer
        finally:  # a fault of our own is written down, too
            self._log.write(case.record(status, data, refused))

    def _answered(self, case: _Case) -> tuple[Answer, Refused | None]:
        try:
            self._admit(case)
            return self._acted(case), None
        except _Refusal as exc:
            return _told(case, exc), exc.refused

    # --- before a voice is asked --------------------------------------------------------------------------------------

    def _admit(self, case: _Case) -> None:
        """Refuse what no voice has to hear: strange paths, wrong keys, too many bytes, no JSON."""
        call, place = case.call, case.place
        if place.kind == "nothing":
            raise _refusal(404, f"no such path: {call.path}; {HELP}")
        if call.method not in place.methods:
            raise _refusal(405, f"{call.path} takes {' and '.join(place.methods)}, not {call.method}")
        if self._keys is not None and call.key not in self._keys:
            raise _Refusal(
                envelopes.envelope_of(case.style).bad_key, Refused(message="the key is none of those that are taken")
            )
        if call.body is None:
            raise _Refusal(Problem(status=413), Refused(message=f"the request has more than {LARGEST} bytes"))
        if place.methods == ("POST",) and (case.trouble or not isinstance(case.body, dict)):
            raise _refusal(400, f"the request's body is no JSON: {case.trouble or 'it is empty'}")

    # --- what can be asked for ----------------------------------------------------------------------------------------

    def _acted(self, case: _Case) -> Answer:
        match case.place.kind:
            case "turn":
                return self._turn(case)
            case "count":
                return self._count(case)
            case "embed":
                return self._embed(case)
            case "list":
                ids = listing.list_ids(case.voice.listed_dialects)
                return _document(case, case.voice.model_list([case.voice.model_entry(id) for id in ids]))
            case _:
                return self._model(case)

    def _turn(self, case: _Case) -> Answer:
        try:
            asked = self._asked(case)
            turn = self._played(asked, case)
            pieces = case.voice.write(asked, turn, asked.mint(self._seed))
        except Malformed as exc:
            raise _malformed(exc) from exc
        kind = "text/event-stream; charset=utf-8" if case.stream and not case.array else _JSON["content-type"]
        return Answer(200, {"content-type": kind, **_ids(case)}, pieces, case.stream)

    def _count(self, case: _Case) -> Answer:
        try:
            told = case.voice.count(self._asked(case))
        except Malformed as exc:
            raise _malformed(exc) from exc
        return _document(case, told)

    def _embed(self, case: _Case) -> Answer:
        from tenuto.sim.embedding import gemini_reply, openai_reply

        body, verb = case.body, case.place.verb
        try:
            if verb == "predict":
                told = {"predictions": [_predicted(one, case.named) for one in _instances(body)]}
            elif verb:
                own = body.get("embedContentConfig")  # as Google Cloud has it
                told = gemini_reply({**own, **body} if isinstance(own, dict) else body, verb, case.named)
            else:
                told = openai_reply(body, case.named)
        except Malformed as exc:
            raise _malformed(exc) from exc
        return _document(case, told)

    def _model(self, case: _Case) -> Answer:
        if not listing.has_model(case.named, case.voice.listed_dialects):
            raise _refusal(404, f"there is no model {case.named}")
        return _document(case, case.voice.model_entry(case.named))

    def _own(self, call: Call, place: Route) -> Answer:
        """Answer what is asked of the simulator itself."""
        if place.kind == "rules":
            return Answer(200, _JSON, [jsonio.encode({"exercised": sorted(self._log.tried)})])
        if call.method == "DELETE":
            (self._log if place.kind == "log" else self._scripts).clear()
            return Answer(200, _JSON, [b"{}"])
        if place.kind == "log":
            return Answer(200, _JSON, [jsonio.encode({"exchanges": [one.told() for one in self._log.records]})])
        try:
            scripts = load(call.body or b"")
        except ValueError as exc:
            return Answer(400, _JSON, [jsonio.encode({"error": {"message": str(exc)}})])
        self._scripts.put(scripts)
        return Answer(200, _JSON, [jsonio.encode({"scripts": len(scripts)})])

    # --- a turn -------------------------------------------------------------------------------------------------------

    def _asked(self, case: _Case) -> Asked:
        """Open the request, judge it, and read what it asks."""
        call = case.call
        request = Request(
            style=case.style, model=case.model, named=case.named, account=case.account,
            headers={**call.headers, "x-sim-alt": case.alt}, body=case.body, digest=case.digest, seals=self._seals,
            verb=case.place.verb, stream=case.stream, stored=partial(self._log.stored, account=case.account),
        )  # fmt: skip
        opened = case.voice.open(request)
        case.verdict = verdict = judge(opened, case.voice.checks)
        broken = verdict.refusal
        if broken is not None:
            row = broken.row
            refused = Refused(message=broken.message, rule=row.id, place=broken.place, remedy=row.remedy)
            raise _Refusal(envelopes.refusal(broken), refused)
        return case.voice.read(opened)

    def _played(self, asked: Asked, case: _Case) -> Turn:
        """Return what is said: by the script, or by the assistant where there is none."""
        try:
            scripted = self._scripts.turn(asked)
        except LookupError as exc:
            raise _overrun(str(exc.args[0])) from exc
        if scripted is None:
            from tenuto.sim.assistant import reply

            return reply(asked, asked.mint(self._seed))
        turn = acting(scripted, self._log.again(case.digest)) if timed(scripted) else scripted
        if scripted and not turn:
            raise _overrun("the script denies this request, and has no answer behind that")
        for at, step in enumerate(turn):
            if isinstance(step, Deny) or (isinstance(step, Fail) and not case.stream):
                wait = step.retry_after if isinstance(step, Deny) else None
                before = tuple(fault for fault in turn[:at] if isinstance(fault, Stall | Drip))
                raise _Refusal(Problem(status=step.status, message=step.message, retry_after=wait), None, before)
        return turn


_FAILED = Refused(message="the simulator itself failed", remedy="the log of aiohttp.server says where; report it")


def _instances(body: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the texts of a `:predict`, each with the number of dimensions that is wanted."""
    given, wanted = body.get("instances"), body.get("parameters")
    size = wanted.get("outputDimensionality") if isinstance(wanted, dict) else None
    found = [one.get("content") for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    texts = [text for text in found if isinstance(text, str)]
    if not texts or len(texts) != len(found):
        raise Malformed("The PredictRequest.instances must be a list of objects with a text as content.", "instances")
    return [(text, size) for text in texts]


def _predicted(instance: tuple[str, Any], named: str) -> dict[str, Any]:
    from tenuto.sim.embedding import gemini_reply

    text, size = instance
    wanted = {} if size is None else {"outputDimensionality": size}
    told = gemini_reply({"content": {"parts": [{"text": text}]}, **wanted}, "embedContent", named)
    count = told["usageMetadata"]["promptTokenCount"]
    return {"embeddings": {**told["embedding"], "statistics": {"token_count": count, "truncated": False}}}


def _canonical(body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body, order="sorted")
    except (UnicodeEncodeError, ValueError):
        return jsonio.encode(body)


def _ids(case: _Case) -> dict[str, str]:
    return envelopes.headers(case.style, Problem(status=200, request_id=case.id))


def _document(case: _Case, told: dict[str, Any]) -> Answer:
    return Answer(200, {**_JSON, **_ids(case)}, [jsonio.encode(told)])


def _refusal(status: int, message: str) -> _Refusal:
    return _Refusal(Problem(status=status, message=message), Refused(message=message))


def _malformed(exc: Malformed) -> _Refusal:
    param = exc.place if exc.place and not exc.place.startswith("/") else None  # a pointer is for the log only
    problem = Problem(status=exc.status, message=str(exc), param=param, code=exc.code)
    return _Refusal(problem, Refused(message=str(exc), place=exc.place))


def _overrun(message: str) -> _Refusal:
    return _Refusal(Problem(status=400, message=message), Refused(message=message, overrun=True))


def _told(case: _Case, exc: _Refusal) -> Answer:
    """Put an error into the provider's envelope."""
    problem = msgspec.structs.replace(exc.problem, status=exc.problem.status or 400, request_id=case.id)
    body: Any = envelopes.body(case.style, problem)
    if case.array:
        body = [body]
    headers = {**_JSON, **envelopes.headers(case.style, problem)}
    return Answer(problem.status, headers, [*exc.before, jsonio.encode(body)])
