"""Fetch the content of blocks that name a URL, if the caller asks for it.

The URL may be hostile, so each redirect is checked, no key or cookie is sent, the number of redirects and bytes is
limited, and the content must have the type of the block. The transport knows the IP address of a name: `is_public` is
its guard.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec

from tenuto.client.http import HttpReply, HttpRequest, Transport, safe_url
from tenuto.core import files, media_types
from tenuto.core.blocks import Audio, Document, Image
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.transcript import Transcript
from tenuto.errors import FetchRefused, TimedOut

T = TypeVar("T")
Media = Image | Audio | Document

LIMIT = 20 * 2**20
"""The maximum number of bytes of one URL."""
HOPS = 5
"""The maximum number of redirects."""

_OPEN_6 = ipaddress.IPv6Network("2000::/3")  # the only public part: not mapped, NAT64, local or multicast addresses
_CLOSED = tuple(
    ipaddress.ip_network(block)
    for block in (
        "168.63.129.16/32",  # the platform itself inside one cloud
        "192.0.0.0/24",  # protocol assignments; metadata of one cloud
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # multicast tunnels
        "192.88.99.0/24",  # relays into IPv6
        "192.175.48.0/24",  # AS112
        "224.0.0.0/4",  # multicast
        "2001::/23",  # protocol assignments: Teredo, benchmarks, overlays
        "2002::/16",  # 6to4: contains an IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
"""Networks that `is_global` accepts, at least in some versions of Python, and that must not be fetched."""
_ISATAP = 0x00005EFE  # the third quarter of an IPv6 address whose last quarter is an IPv4 address

_HEADERS = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "tenuto"}
_REDIRECTS = (301, 302, 303, 307, 308)
_INVALID_CHARACTERS = re.compile(r"[\s\\\x00-\x1f\x7f]")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_ITEMS: tuple[tuple[Any, str, Any], ...] = (
    (UserMessage | ToolResult, "content", Media),
    (ToolResults, "results", ToolResult),
    (Transcript, "messages", UserMessage | ToolResults),
)
"""Values, their field with items, and the types of items that may contain URLs."""
_CHARSETS = {"us-ascii": "ascii", "iso-8859-1": "cp1252", "latin1": "cp1252", "windows-1252": "cp1252"}


async def fetch(value: T, transport: Transport) -> T:
    """Return an image, audio, document, message or transcript with the content of its web URLs.

    Blocks without a web URL, blocks with data and messages of a model stay unchanged. A URL that occurs twice is fetched
    once. Raise `FetchRefused` for a URL that is not fetched or has content of another type, and the transport's errors.
    """
    fetched: T = await _Fetcher(transport).fetch(value)
    return fetched


async def fetch_public(value: T, timeout: float | None = 60.0) -> T:
    """Fetch from public addresses over the network. Raise `TimedOut` after `timeout` seconds."""
    from tenuto.client.transport import AiohttpTransport

    transport = AiohttpTransport(guard=is_public)
    try:
        async with asyncio.timeout(timeout):
            return await fetch(value, transport)
    except TimeoutError:
        raise TimedOut(f"the URLs were not fetched within {timeout} seconds") from None
    finally:
        await transport.close()


def is_public(address: str) -> bool:
    """Tell whether a text is an IP address of the public Internet."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if not parsed.is_global or any(parsed in network for network in _CLOSED):
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return True
    if parsed.scope_id is not None or parsed not in _OPEN_6:
        return False
    third_quarter, last_quarter = int(parsed) >> 32 & 0xFFFF_FFFF, int(parsed) & 0xFFFF_FFFF
    return third_quarter & ~0x02000000 != _ISATAP or is_public(str(ipaddress.IPv4Address(last_quarter)))


class _Fetcher(msgspec.Struct):
    """Fetches the URLs of one value."""

    _transport: Transport
    _responses: dict[str, tuple[bytes, str]] = {}

    async def fetch(self, value: Any) -> Any:
        """Return the value with its content; the same value if nothing changes."""
        if isinstance(value, Media):
            return await self._fetch_block(value)
        for holder, field, types in _ITEMS:
            if isinstance(value, holder):
                items = getattr(value, field)
                if isinstance(items, str):
                    return value
                fetched = tuple([await self.fetch(item) if isinstance(item, types) else item for item in items])
                is_same = all(new is old for new, old in zip(fetched, items, strict=True))
                return value if is_same else msgspec.structs.replace(value, **{field: fetched})
        if isinstance(value, SystemMessage | AssistantMessage):
            return value
        raise TypeError(f"expected an image, audio, document, message or transcript, got {type(value).__name__}")

    async def _fetch_block(self, block: Media) -> Media:
        has_content = block.data or (isinstance(block, Document) and block.text)
        if has_content or not block.url.lower().startswith(("http://", "https://")):
            return block
        if block.url not in self._responses:
            self._responses[block.url] = await self._get(block.url)
        try:
            return _fill(block, *self._responses[block.url])
        except ValueError as exc:
            raise _refuse(block.url, str(exc)) from None

    async def _get(self, url: str) -> tuple[bytes, str]:
        """Return the content of a URL and its `content-type`."""
        for _ in range(HOPS + 1):
            url = _check_url(url)
            reply = await self._transport.send(HttpRequest("GET", url, dict(_HEADERS)))
            try:
                if reply.status not in _REDIRECTS:
                    return await self._read(reply, url), reply.headers.get("content-type", "")
                location = reply.headers.get("location", "")
                if not location:
                    raise _refuse(url, "a redirect without a location")
                url = urljoin(url, location)
            except ValueError as exc:
                raise _refuse(url, f"a redirect to an invalid URL: {exc}") from None
            finally:
                reply.close()
        raise _refuse(url, f"more than {HOPS} redirects")

    async def _read(self, reply: HttpReply, url: str) -> bytes:
        if reply.status != 200:
            raise _refuse(url, f"HTTP {reply.status}")
        encoding = reply.headers.get("content-encoding", "identity")
        if encoding.lower() not in ("identity", ""):
            raise _refuse(url, f"the response is compressed ({encoding}), which was not requested")
        length = reply.headers.get("content-length", "")
        body = bytearray()
        while len(body) <= LIMIT and not (length.isdecimal() and int(length[:20]) > LIMIT):
            chunk = await reply.read()
            if not chunk:
                return bytes(body)
            body += chunk
        raise _refuse(url, f"it is larger than {LIMIT} bytes")


def _refuse(url: str, reason: str) -> FetchRefused:
    return FetchRefused(f"{safe_url(url)[:200]}: {reason}")


def _check_url(url: str) -> str:
    """Return a URL for the transport: http or https, an ASCII host that may be public, no password. Refuse any other."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as exc:
        raise _refuse(url, f"invalid URL: {exc}") from None
    if parts.scheme not in ("http", "https"):
        raise _refuse(url, f"only http and https are fetched, not {parts.scheme or 'a URL without a scheme'}")
    if parts.username is not None or parts.password is not None:
        raise _refuse(url, "the URL contains a user name or password")
    if _INVALID_CHARACTERS.search(url) or port == 0:
        raise _refuse(url, "invalid URL")
    # every later reader must read the same host, so it becomes ASCII
    try:
        host = host if ":" in host else host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        host = ""
    if not _HOST.fullmatch(host):
        raise _refuse(url, "invalid host")
    bare = host.removesuffix(".")
    is_address = ":" in bare or _NUMBER.fullmatch(bare.rpartition(".")[2]) is not None
    if (is_address and not is_public(bare)) or bare == "localhost" or bare.endswith(".localhost"):
        raise _refuse(url, f"{bare} is not a public address: it is not fetched")
    netloc = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
    return parts._replace(netloc=netloc, fragment="").geturl()


def _fill(block: Media, data: bytes, content_type: str) -> Media:
    """Return a block with its content. Raise `ValueError` if the content has another type."""
    server_type, _, parameters = content_type.partition(";")
    server_type = server_type.strip().lower()
    if not data:
        raise ValueError("it is empty")
    mime = media_types.detect_type(data) or server_type
    if mime in ("", "application/octet-stream", "binary/octet-stream"):
        mime = block.mime or media_types.type_from_name(urlsplit(block.url).path.rpartition("/")[2])
    if not isinstance(block, Document):
        kind = "image" if isinstance(block, Image) else "audio"
        return msgspec.structs.replace(block, **files.read_content(kind, data, mime), url="")
    charset = re.search(r"charset=\"?([\w-]+)", parameters, re.IGNORECASE)
    codec = _CHARSETS.get(charset[1].lower(), "") if charset else ""
    if codec and media_types.is_text(mime):
        with suppress(UnicodeDecodeError):  # the server may name a wrong charset
            data = data.decode(codec).encode()
    content = files.read_content("document", data, mime)
    if content["data"] and content["mime"] != "application/pdf" and not media_types.is_text(content["mime"]):
        raise ValueError(f"a document of type {content['mime']} cannot be read")
    if content["text"]:
        content["mime"] = "text/plain"  # the only type of text that every provider accepts
    return msgspec.structs.replace(block, **content, url="")
