"""The network: proxies, host names with private addresses, a client on several loops."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings

import pytest

from scripted import chat
from serving import RESET, Gate, Server, reply
from tenuto import AsyncClient, Image
from tenuto.client.fetch import is_public
from tenuto.client.http import HttpRequest
from tenuto.client.transport import AiohttpTransport
from tenuto.errors import ConnectionFailed, FetchRefused

HELLO = reply(json.dumps(chat()).encode())
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


def ask(url: str) -> str:
    async def main() -> str:
        async with AsyncClient(providers={"mine": {"base_url": url}}, middleware=[]) as ai:
            return (await ai.chat("mine/m", "Hi")).text

    return asyncio.run(main())


def test_proxy_of_the_environment_is_used(monkeypatch):
    with Server(HELLO) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)

        assert "hello" == ask("http://far.away.test/v1")
        assert "http://far.away.test/v1/chat/completions" == proxy.requests[0].path


def test_proxy_may_have_no_scheme(monkeypatch):
    with Server(HELLO) as proxy:
        monkeypatch.setenv("all_proxy", proxy.url.removeprefix("http://"))

        assert "hello" == ask("http://far.away.test/v1")


def test_no_proxy_hosts_are_connected_directly(monkeypatch):
    with Server(HELLO) as server, Server(HELLO) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")

        assert "hello" == ask(server.url + "/v1")
        assert [] == proxy.requests


def test_missing_proxy_is_connection_failed(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    with pytest.raises(ConnectionFailed):
        ask("http://far.away.test/v1")


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "２１３０７０６４３３", "１２７.0.0.1", "2130706433", "[::1]"]
)
def test_guarded_transport_refuses_private_addresses(host):
    """By name or by number in any notation; the server receives nothing."""
    with Server(reply(b"secret")) as server:
        port = server.url.rpartition(":")[2]

        async def main() -> None:
            transport = AiohttpTransport(guard=is_public)
            try:
                await transport.send(HttpRequest("GET", f"http://{host}:{port}/", {}))
            finally:
                await transport.close()

        with pytest.raises((FetchRefused, ConnectionFailed)):
            asyncio.run(main())
        assert [] == server.requests


def test_guarded_transport_uses_no_proxy(monkeypatch):
    """A proxy resolves names itself, so the address could not be checked."""
    with Server(reply(b"secret")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)

        async def main() -> None:
            transport = AiohttpTransport(guard=is_public)
            try:
                await transport.send(HttpRequest("GET", "http://localhost:1/", {}))
            finally:
                await transport.close()

        with pytest.raises(FetchRefused):
            asyncio.run(main())
        assert [] == proxy.requests


def test_client_fetches_from_public_addresses_only(monkeypatch):
    """The client refuses a local server, unless the check allows it."""
    picture = bytes.fromhex("89504e470d0a1a0a") + b"rest"
    with Server(reply(picture, content_type="image/png")) as server:

        async def main(url: str) -> Image:
            async with AsyncClient() as ai:
                return await ai.fetch(Image.from_url(url))

        with pytest.raises(FetchRefused):
            asyncio.run(main(server.url.replace("127.0.0.1", "localhost")))
        assert [] == server.requests

        monkeypatch.setattr("tenuto.client.fetch.is_public", lambda address: True)
        assert "image/png" == asyncio.run(main(server.url + "/a.png")).mime


def test_client_may_be_used_on_several_loops(caplog):
    """Each loop has its own connections; those of a loop that ended are not used."""
    with Server(HELLO) as server:
        ai = AsyncClient(providers={"mine": {"base_url": server.url}}, middleware=[])

        async def main() -> str:
            return (await ai.chat("mine/m", "Hi")).text

        async def last() -> str:
            async with ai:
                return await main()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the first loop ended with an open connection
            assert ["hello", "hello"] == [asyncio.run(main()), asyncio.run(last())]
            gc.collect()
        assert [] == [record for record in caplog.records if record.name == "asyncio"]


def test_reset_of_idle_connection_is_not_logged(caplog):
    """The next request opens another connection."""
    body = json.dumps(chat()).encode()
    later, reset = Gate(), Gate()
    with Server([HELLO[: -len(body)], later, body, reset, RESET], HELLO) as server:

        async def main() -> list[str]:
            async with AsyncClient(providers={"mine": {"base_url": server.url}}, middleware=[]) as ai:
                first = asyncio.create_task(ai.chat("mine/m", "Hi"))
                await asyncio.wrap_future(later.reached)
                later.open()
                said = [(await first).text]
                await asyncio.wrap_future(reset.reached)
                reset.open()
                await server.requests[0].left()
                while True:  # until the client has noticed it, too
                    try:
                        return [*said, (await ai.chat("mine/m", "Hi")).text]
                    except ConnectionFailed:
                        continue

        assert ["hello", "hello"] == asyncio.run(asyncio.wait_for(main(), 10))
        gc.collect()

    assert [] == [record for record in caplog.records if record.name == "asyncio"]


def test_large_request_is_sent_without_warning():
    """aiohttp warns about large bodies, and many test suites turn warnings into errors."""
    text = "x" * 3_000_000

    async def main(url: str) -> str:
        async with AsyncClient(providers={"mine": {"base_url": url}}, middleware=[]) as ai:
            return (await ai.chat("mine/m", text)).text

    with Server(HELLO) as server:
        assert asyncio.run(main(server.url)) == "hello"
        (request,) = server.requests
        assert request.json()["messages"][0]["content"] == text
        assert int(request.headers["content-length"]) == len(request.body)
