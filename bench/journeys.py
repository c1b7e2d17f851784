"""Print the functions of tenuto that one frame, one request and one agent run pass through.

    python -m bench.journeys [DIALECT]

An `AsyncClient` with its default middleware reads the same streamed chat from a local HTTP server three times. An
`AsyncAgent` with one tool and a SQLite store sends two messages; each answer calls the tool once. Four journeys are
recorded with `sys.setprofile`:

- frame: from the arrival of one text frame in the middle of the third stream to its event;
- first call: from `client.stream()` to the reply, in a process that has sent no request before;
- second call: the same with all modules loaded and the connection open;
- agent send: the second message, from `session.send()` to the last reply, with the threads of the store. The HTTP
  transport is scripted.

Functions that run while a module is imported are left out; comprehensions and lambdas belong to the function around
them. A function forwards if its body is one call whose arguments are its own parameters: such a function is a candidate
for removal. Nothing is timed.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import functools
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import tenuto
from bench.agent import PROVIDER, look, make_tool_replies
from bench.streams import DIALECTS, MAKERS
from tenuto import AsyncAgent, AsyncClient, Provider
from tenuto.testing import ScriptedTransport

PACKAGE = Path(tenuto.__file__).parent
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Station:
    """One function on a journey."""

    module: str
    name: str
    lines: int
    forwards: bool


# --- recording --------------------------------------------------------------------------------------------------------


class Recorder:
    """Collect the code objects of tenuto that this thread runs while recording, in the order of their first call."""

    def __init__(self) -> None:
        self.codes: dict[CodeType, None] = {}
        self._importing = 0
        self._active = False

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        self._active = True
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._active = False

    @contextlib.contextmanager
    def in_new_threads(self) -> Iterator[None]:
        """Record in threads that start inside this block, too, while `recording` is active."""
        threading.setprofile(self._on_event)
        try:
            yield
        finally:
            threading.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        if not self._active:
            return
        code = frame.f_code
        if code.co_name == "<module>":
            self._importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._importing and code.co_filename.startswith(str(PACKAGE)):
            self.codes[code] = None

    def stations(self) -> list[Station]:
        return [station_of(code) for code in [*self.codes] if not code.co_name.startswith("<")]


def station_of(code: CodeType) -> Station:
    path = Path(code.co_filename)
    module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    function = functions_in(path)[code.co_firstlineno]
    lines = (function.end_lineno or 0) - function.lineno + 1
    return Station(module, code.co_qualname.replace(".<locals>", ""), lines, is_forwarding(function))


@functools.cache
def functions_in(path: Path) -> dict[int, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions of a file by the number of their first line, decorators included."""
    functions = {}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions[min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])] = node
    return functions


def is_forwarding(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the body, apart from a docstring, is one call whose arguments are the function's own parameters."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value
    if isinstance(call, ast.Await | ast.YieldFrom):
        call = call.value
    if not isinstance(call, ast.Call):
        return False
    own = function.args
    parameters = [parameter.arg for parameter in (*own.posonlyargs, *own.args, *own.kwonlyargs)]
    parameters += [f"*{own.vararg.arg}"] if own.vararg else []
    parameters += [f"**{own.kwarg.arg}"] if own.kwarg else []
    if parameters[:1] in (["self"], ["cls"]):
        del parameters[0]
    arguments = [ast.unparse(argument) for argument in call.args]
    arguments += [f"{'' if keyword.arg else '**'}{ast.unparse(keyword.value)}" for keyword in call.keywords]
    return sorted(arguments) == sorted(parameters)


# --- the chat ---------------------------------------------------------------------------------------------------------


class StreamServer:
    """A local server that answers each request with one stream, in parts that the client asks for.

    The first part has two text frames, the second one text frame, the third the rest.
    """

    def __init__(self, dialect: str) -> None:
        frames = [frame + b"\n\n" for frame in MAKERS[dialect](4, 20).split(b"\n\n") if frame]
        third = next(number for number, frame in enumerate(frames) if b"2 the quick" in frame)
        self._parts = [b"".join(frames[:third]), frames[third], b"".join(frames[third + 1 :])]
        self._next = asyncio.Semaphore(0)

    def send_next(self) -> None:
        """Send the next part of the stream."""
        self._next.release()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve, and yield the base URL."""
        server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line[15:]) for line in head.lower().splitlines() if line.startswith(b"content-length:")
                )
                await reader.readexactly(length)
                for number, part in enumerate(self._parts):
                    if number:
                        await self._next.acquire()
                    chunk = b"%x\r\n%s\r\n" % (len(part), part)
                    writer.write((b"" if number else HEAD) + chunk + (b"0\r\n\r\n" if number == 2 else b""))
        writer.close()


async def read_chat(client: AsyncClient, server: StreamServer, frame: Recorder | None = None) -> None:
    """Read one streamed chat; record the frame in its middle."""
    async with client.stream("journey/m", "hi", max_tokens=100) as stream:
        events = aiter(stream)
        await read_texts(events, 2)
        with frame.recording() if frame else contextlib.nullcontext():
            server.send_next()
            await read_texts(events, 1)
        server.send_next()
        async for _ in events:
            pass
    if not stream.reply.text.startswith("0 the quick"):
        raise SystemExit(f"another text than was sent: {stream.reply.text!r}")


async def read_texts(events: AsyncIterator[object], count: int) -> None:
    """Read events up to the given number of text deltas."""
    while count:
        event = await anext(events)
        count -= hasattr(getattr(event, "delta", None), "text")


async def record_agent() -> list[Station]:
    """Return the stations of an agent's second send with one tool call."""
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as directory, recorder.in_new_threads():
        answers = [*make_tool_replies(2, "first_"), *make_tool_replies(2, "second_")]  # providers repeat no ids
        client = AsyncClient(providers=[PROVIDER], middleware=[], transport=ScriptedTransport(*answers))
        async with AsyncAgent("bench/m", tools=[look], client=client, store=Path(directory) / "sessions.db") as agent:
            session = agent.session()
            await session.send("hi")
            with recorder.recording():
                reply = await session.send("hi")
        await client.close()
    if reply.text != "It is done.":
        raise SystemExit(f"another text than was sent: {reply.text!r}")
    return [station for station in recorder.stations() if not station.module.startswith("tenuto.testing")]


async def record(dialect: str) -> dict[str, list[Station]]:
    """Return the stations of each journey."""
    server, first, second, frame = StreamServer(dialect), Recorder(), Recorder(), Recorder()
    async with server.serving() as url:
        client = AsyncClient(providers=[Provider("journey", dialect, url)])
        with first.recording():
            await read_chat(client, server)
        with second.recording():
            await read_chat(client, server)
        await read_chat(client, server, frame)
        await client.close()
    return {
        "frame": frame.stations(),
        "first call": first.stations(),
        "second call": second.stations(),
        "agent send": await record_agent(),
    }


# --- printing ---------------------------------------------------------------------------------------------------------


def print_journeys(journeys: dict[str, list[Station]]) -> None:
    for name, stations in journeys.items():
        print(f"{name}:")
        for station in stations:
            forwards = "  forwards" if station.forwards else ""
            print(f"  {station.lines:4}  {station.module:32} {station.name}{forwards}")
        print()
    for name, stations in journeys.items():
        modules = {station.module for station in stations}
        lines = sum(station.lines for station in stations)
        print(f"{name}: {len(modules)} modules, {len(stations)} functions, {lines} lines")
    long = {station for stations in journeys.values() for station in stations if station.lines > 80}
    print(f"functions over 80 lines: {len(long)}")
    for name in sorted(f"{station.module}.{station.name} ({station.lines})" for station in long):
        print(f"  {name}")
    forwarding = {station for stations in journeys.values() for station in stations if station.forwards}
    print(f"functions that only forward: {len(forwarding)}")
    for name in sorted(f"{station.module}.{station.name}" for station in forwarding):
        print(f"  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.journeys", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("dialect", nargs="?", choices=DIALECTS, default=DIALECTS[0], help="[%(default)s]")
    print_journeys(asyncio.run(record(parser.parse_args().dialect)))


if __name__ == "__main__":
    main()
