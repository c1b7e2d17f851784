"""A chat service with FastAPI: streamed answers, several workers, approvals that another request answers.

    TENUTO_STORE=sessions.db uvicorn examples.web_service.app:app --workers 2

The workers share a store, which has the whole state of a session: any worker may take the next request, and a session is used by
one of them at a time. A real service takes `user` from its login, and checks that the session is the user's.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from tenuto import AsyncAgent, AsyncSession, tool
from tenuto.errors import InvalidSessionId, SessionInUse, TenutoError
from tenuto.events import ContentDelta, TextDelta, ToolFinished

ORDERS = {"A-17": ("kettle", 45), "B-4": ("lamp", 250)}


@tool(effect="pure")
def find_order(number: str) -> str:
    """Find an order by its number."""
    item, price = ORDERS[number]
    return f"order {number}: {item}, {price} EUR"


@tool(approval=True)
def refund(number: str, amount: int) -> str:
    """Refund an order."""
    return f"refunded {amount} EUR for {number}"


agent = AsyncAgent(
    "anthropic/claude-sonnet-5-5",
    name="shop",
    system="You are the support desk of a shop. Be brief.",
    tools=[find_order, refund],
)


class Question(BaseModel):
    user: str
    text: str
    key: str = ""
    """Set it, and the message is sent once, even if the request is repeated."""


class Decision(BaseModel):
    call: str
    allowed: bool
    reason: str = ""


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Finish the runs of dead workers while requests are served; close the agent at the end."""
    async with agent:
        resuming = asyncio.create_task(agent.resume_all())
        yield
        resuming.cancel()
        with suppress(asyncio.CancelledError):
            await resuming


app = FastAPI(lifespan=lifespan)


@app.post("/sessions/{id}/messages")
async def send(id: str, question: Question) -> StreamingResponse:
    """Stream the answer as server-sent events. If the reader leaves, the run is cancelled and may be continued."""
    session = agent.session(id, metadata={"user": question.user})
    run = session.stream(question.text, key=question.key)
    try:
        first = await anext(run, None)  # an error before it becomes a status
    except BaseException:
        await run.close()
        raise

    async def events() -> AsyncIterator[str]:
        async with run:
            try:
                yield _sse(first)
                async for event in run:
                    yield _sse(event)
            except TenutoError as exc:
                yield _line({"type": "error", "error": type(exc).__name__, "message": str(exc)})
        yield _line({"type": "end", **_describe(session)})

    return StreamingResponse(events(), media_type="text/event-stream")


@app.get("/sessions")
async def list_sessions(user: str) -> list[dict[str, Any]]:
    found = agent.sessions(metadata={"user": user}, limit=100)
    return [{"id": one.id, "title": one.meta.title, "status": one.status} async for one in found]


@app.get("/sessions/{id}")
async def show(id: str) -> dict[str, Any]:
    return _describe(await _find(id))


@app.post("/sessions/{id}/decisions")
async def decide(id: str, decision: Decision) -> dict[str, Any]:
    """Approve or deny a call. If another worker holds the session, that worker continues the run."""
    session = await _find(id)
    try:
        if decision.allowed:
            await session.approve(decision.call)
        else:
            await session.deny(decision.call, reason=decision.reason)
    except ValueError as exc:  # the call does not wait
        raise HTTPException(409, str(exc)) from exc
    return _describe(session)


@app.delete("/sessions/{id}")
async def delete(id: str) -> None:
    await agent.delete(await _find(id))


@app.exception_handler(SessionInUse)
async def refuse_session_in_use(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 409, {"retry-after": "1"})


@app.exception_handler(InvalidSessionId)
async def refuse_invalid_id(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 404)


async def _find(id: str) -> AsyncSession:
    session = agent.session(id)
    await session.load()
    if session.is_new:
        raise HTTPException(404, f"there is no session {id!r}")
    return session


def _describe(session: AsyncSession) -> dict[str, Any]:
    pending = [{"call": one.call.id, "tool": one.call.name, "arguments": one.call.parse()} for one in session.pending]
    return {
        "id": session.id,
        "status": session.status,
        "text": session.text,
        "pending": pending,
        "cost": None if session.cost is None else str(session.cost),
        "worker": os.getpid(),
    }


def _sse(event: object) -> str:
    """Return the events that a browser needs: text and finished tool calls."""
    if isinstance(event, ContentDelta) and isinstance(event.delta, TextDelta):
        return _line({"type": "text", "text": event.delta.text})
    if isinstance(event, ToolFinished):
        return _line({"type": "tool", "name": event.call.name, "outcome": event.outcome})
    return ""


def _line(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value)}\n\n"
