"""An HTTP service with two worker processes on one store. Each request of a conversation goes to either worker."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
from multiprocessing.connection import Connection

import aiohttp
import msgspec
from aiohttp import web

from tenuto import AsyncAgent
from tenuto.core.messages import UserMessage
from tenuto.store.open import open_store
from tenuto.testing import Simulator

TURNS = 4
AT_ONCE = 20


class ServiceResult(msgspec.Struct, frozen=True):
    """The results of the clients, and the state of the store."""

    requests: int
    errors: list[str]
    wrong: list[str]
    """Sessions whose messages differ from those sent, each once and in order."""


def run(store: str, conversations: int, *, seed: int = 21) -> ServiceResult:
    """Start the simulator and two workers, run the conversations and check the store."""
    fresh = multiprocessing.get_context("spawn")
    with Simulator() as sim:
        workers, ports = [], []
        for _ in range(2):
            here, there = fresh.Pipe()
            worker = fresh.Process(target=_work, args=(store, sim.base_url, there), daemon=True)
            worker.start()
            workers.append(worker)
            ports.append(here.recv())
        try:
            return asyncio.run(_converse(store, ports, conversations, random.Random(seed)))
        finally:
            for worker in workers:
                worker.terminate()
                worker.join()


def _work(store: str, base_url: str, ready: Connection) -> None:
    asyncio.run(_serve(store, base_url, ready))


async def _serve(store: str, base_url: str, ready: Connection) -> None:
    async with AsyncAgent("sim/anthropic", store=store, providers={"sim": {"base_url": base_url}}) as agent:

        async def say(request: web.Request) -> web.Response:
            parameters = await request.json()
            try:
                session = agent.session(parameters["id"]) if parameters["new"] else await agent.resume(parameters["id"])
                reply = await session.send(parameters["text"])
            except Exception as exc:  # the client counts it
                return web.json_response({"error": f"{type(exc).__name__}: {exc}"}, status=500)
            return web.json_response({"text": reply.text})

        app = web.Application()
        app.add_routes([web.post("/", say)])
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        ready.send(runner.addresses[0][1])
        await asyncio.Event().wait()


async def _converse(store: str, ports: list[int], conversations: int, chance: random.Random) -> ServiceResult:
    errors: list[str] = []
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(http: aiohttp.ClientSession, id: str, order: list[int]) -> None:
        for turn, port in enumerate(order):
            body = {"id": id, "new": turn == 0, "text": f"{id} turn {turn}"}
            async with slots, http.post(f"http://127.0.0.1:{port}/", data=json.dumps(body)) as answer:
                if answer.status != 200:
                    errors.append(f"{id} turn {turn}: {(await answer.json())['error']}")

    ids = [f"conversation-{at}" for at in range(conversations)]
    async with aiohttp.ClientSession() as http:
        await asyncio.gather(*(one(http, id, chance.choices(ports, k=TURNS)) for id in ids))
    wrong = []
    async with AsyncAgent("sim/anthropic", store=open_store(store)) as agent:
        for id in ids:
            session = await agent.resume(id)
            sent = [str(message) for message in session.transcript if isinstance(message, UserMessage)]
            if sent != [f"{id} turn {turn}" for turn in range(TURNS)] or len(session.transcript) != 2 * TURNS:
                wrong.append(id)
        await agent.store.close()
    return ServiceResult(conversations * TURNS, errors, wrong)
