"""Fetching what a block names by its address, for those who ask for it.

A URL is passed on to the provider, who reads it. Only here is one read by us, and whoever wrote it may be nobody's
friend: every hop is checked before it is sent, no key or cookie goes along, redirects are counted, what comes is cut
off at a limit and must be of the kind that the block is. The transport does the last check, for only it knows to which
address a name leads: it is given `is_public` as its guard.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec

from tenuto.client.http import HttpReply, HttpRequest, Transport
from tenuto.core import files, media_types
from tenuto.core.blocks import Audio, Document, Image
from tenuto.core.messages import AssistantMessage, SystemMessage, ToolResult, ToolResults, UserMessage
from tenuto.core.transcript import Transcript
from tenuto.errors import FetchRefused, TimedOut

__all__ = ["HOPS", "LIMIT", "fetch", "fetch_public", "is_public"]

_CLOSED = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers; also one cloud's metadata
        "127.0.0.0/8",  # this machine
        "168.63.129.16/32",  # public by its number, but inside one cloud the platform itself
        "169.254.0.0/16",  # link-local; the metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; one cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # multicast tunnels
        "192.88.99.0/24",  # relays into IPv6
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and the broadcast address
    )
)
_OPEN_6 = ipaddress.IPv6Network(
    "2000::/3"
)  # nothing outside is given out as public: not mapped, NAT64, local, multicast
_CLOSED_6 = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, overlays
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address in other clothes
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
_TUNNEL = 0x00005EFE  # in the second half of an address, an IPv4 address follows


def is_public(address: str) -> bool:
    """Tell whether an IP address is one of the open Internet; False for anything that is not exactly an address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return _public_4(found) if isinstance(found, ipaddress.IPv4Address) else _public_6(found)


def _public_4(address: ipaddress.IPv4Address) -> bool:
    return address.is_global and not any(address in block for block in _CLOSED)


def _public_6(address: ipaddress.IPv6Address) -> bool:
    if address.scope_id is not None or address not in _OPEN_6 or not address.is_global:
        return False
    if any(address in block for block in _CLOSED_6):
        return False
    last = int(address) & 0xFFFF_FFFF_FFFF_FFFF
    if (last >> 32) & ~0x02000000 == _TUNNEL:
        return _public_4(ipaddress.IPv4Address(last & 0xFFFF_FFFF))
    return True


T = TypeVar("T")
Media = Image | Audio | Document

LIMIT = 20 * 2**20
"""How many bytes are read of one address."""
HOPS = 5
"""How many redirects are followed."""

_HEADERS = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "tenuto"}
_MOVED = (301, 302, 303, 307, 308)
_ODD = re.compile(r"[\s\\\x00-\x1f\x7f]")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
_CHARSETS = {"us-ascii": "ascii", "iso-8859-1": "cp1252", "latin1": "cp1252", "windows-1252": "cp1252"}


async def fetch(value: T, transport: Transport, *, limit: int = LIMIT, hops: int = HOPS) -> T:
    """Return a picture, sound, document, message or transcript with the data of its web addresses in it.

    Blocks that name no web address, or hold their data already, stay as they are, and so does what a model said. An
    address that occurs twice is fetched once. Raise `FetchRefused` for an address that is not fetched or does not hold
    what the block is, and what the transport raises.
    """
    fetching = _Fetching(transport, limit, hops)
    found: T = await fetching.value(value)
    return found


async def fetch_public(value: T, timeout: float | None = 60.0) -> T:
    """Do the same over the network, to public addresses only; raise `TimedOut` if it takes longer, in seconds."""
    from tenuto.client.transport import AiohttpTransport

    transport = AiohttpTransport(guard=is_public)
    try:
        async with asyncio.timeout(timeout):
            return await fetch(value, transport)
    except TimeoutError:
        raise TimedOut(f"what was to be fetched did not come within {timeout} seconds") from None
    finally:
        await transport.close()


class _Fetching:
    """One errand: what has been fetched, and the bounds."""

    def __init__(self, transport: Transport, limit: int, hops: int) -> None:
        self._transport = transport
        self._limit = limit
        self._hops = hops
        self._held: dict[str, tuple[bytes, str]] = {}

    async def value(self, value: Any) -> Any:
        if isinstance(value, Media):
            return await self._block(value)
        if isinstance(value, UserMessage | ToolResult):
            return await self._said(value)
        if isinstance(value, ToolResults):
            return await self._each(value, "results", (ToolResult,))
        if isinstance(value, Transcript):
            return await self._each(value, "messages", (UserMessage, ToolResults))
        if isinstance(value, SystemMessage | AssistantMessage):
            return value
        raise TypeError(f"expected an image, audio, document, message or transcript, got {type(value).__name__}")

    async def _said(self, value: UserMessage | ToolResult) -> Any:
        return value if isinstance(value.content, str) else await self._each(value, "content", (Image, Audio, Document))

    async def _each(self, value: Any, name: str, kinds: tuple[type, ...]) -> Any:
        """Go through a tuple; what nothing was fetched for stays the same value."""
        items = getattr(value, name)
        found = tuple([await self.value(item) if isinstance(item, kinds) else item for item in items])
        same = all(new is old for new, old in zip(found, items, strict=True))
        return value if same else msgspec.structs.replace(value, **{name: found})

    async def _block(self, block: Media) -> Media:
        held = block.data or (isinstance(block, Document) and block.text)
        if held or not block.url.lower().startswith(("http://", "https://")):
            return block
        if block.url not in self._held:
            self._held[block.url] = await self._get(block.url)
        data, told = self._held[block.url]
        try:
            return _filled(block, data, told)
        except ValueError as exc:
            raise FetchRefused(f"{_shown(block.url)}: {exc}") from None

    async def _get(self, url: str) -> tuple[bytes, str]:
        """Return what an address holds, and what its server calls it."""
        for _ in range(self._hops + 1):
            url = _checked(url)
            reply = await self._transport.send(HttpRequest("GET", url, dict(_HEADERS)))
            try:
                if reply.status not in _MOVED:
                    return await self._body(reply, url), reply.headers.get("content-type", "")
                url = _next(reply, url)
            finally:
                reply.close()
        raise FetchRefused(f"{_shown(url)}: it was moved more than {self._hops} times")

    async def _body(self, reply: HttpReply, url: str) -> bytes:
        if reply.status != 200:
            raise FetchRefused(f"{_shown(url)}: the answer was {reply.status}")
        packed = reply.headers.get("content-encoding", "identity")
        if packed.lower() not in ("identity", ""):
            raise FetchRefused(f"{_shown(url)}: it came packed ({packed}), which was not asked for")
        length = reply.headers.get("content-length", "")
        found = bytearray()
        while len(found) <= self._limit and not (length.isdecimal() and int(length[:20]) > self._limit):
            piece = await reply.read()
            if not piece:
                return bytes(found)
            found += piece
        raise FetchRefused(f"{_shown(url)}: it is larger than {self._limit} bytes")


# --- addresses --------------------------------------------------------------------------------------------------------


def _checked(url: str) -> str:
    """Return an address that may be sent to the transport: http or https, a host in plain letters, nobody's password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as exc:
        raise FetchRefused(f"{_shown(url)}: it cannot be read: {exc}") from None
    if parts.scheme not in ("http", "https"):
        raise FetchRefused(f"{_shown(url)}: only http and https are fetched, not {parts.scheme or 'nothing'}")
    if parts.username is not None or parts.password is not None:
        raise FetchRefused(f"{_shown(url)}: a name or password stands in the address")
    if _ODD.search(url) or port == 0:
        raise FetchRefused(f"{_shown(url)}: it is no address")
    host = _host(host, url)
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
    return parts._replace(netloc=place, fragment="").geturl()


def _host(host: str, url: str) -> str:
    """Return a host in plain letters, so that nobody reads it otherwise later on; refuse one that is not public."""
    try:
        name = host if ":" in host else host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        name = ""
    bare = name.removesuffix(".")
    if not _HOST.fullmatch(name):
        raise FetchRefused(f"{_shown(url)}: it names no host")
    number = ":" in bare or _NUMBER.fullmatch(bare.rpartition(".")[2]) is not None
    if (number and not is_public(bare)) or bare == "localhost" or bare.endswith(".localhost"):
        raise FetchRefused(f"{_shown(url)}: {bare} is no public address: it is not fetched")
    return name


def _next(reply: HttpReply, url: str) -> str:
    where = reply.headers.get("location", "")
    if not where:
        raise FetchRefused(f"{_shown(url)}: it was moved, and nobody says where to")
    try:
        return urljoin(url, where)
    except ValueError as exc:
        raise FetchRefused(f"{_shown(url)}: it was moved to what is no address: {exc}") from None


def _shown(url: str) -> str:
    """Return an address as it may be told: without what may be a secret in it."""
    bare = re.split(r"[?#]", url, maxsplit=1)[0]
    head, mark, rest = bare.partition("://")
    place, slash, path = rest.partition("/")
    return f"{head}{mark}{place.rpartition('@')[2]}{slash}{path}"[:200]


# --- what came --------------------------------------------------------------------------------------------------------


def _filled(block: Media, data: bytes, content_type: str) -> Media:
    """Put what was fetched into its block; raise `ValueError` if it is of another kind."""
    told, _, parameters = content_type.partition(";")
    told = told.strip().lower()
    if not data:
        raise ValueError("it is empty")
    name = urlsplit(block.url).path.rpartition("/")[2]
    generic = told in ("", "application/octet-stream", "binary/octet-stream")
    mime = media_types.detect_type(data) or ((block.mime or media_types.type_from_name(name)) if generic else told)
    if isinstance(block, Document):
        return _document(block, data, mime, parameters)
    kind = "image" if isinstance(block, Image) else "audio"
    return msgspec.structs.replace(block, **files.read_content(kind, data, mime), url="")


def _document(block: Document, data: bytes, mime: str, parameters: str) -> Document:
    named = re.search(r"charset=\"?([\w-]+)", parameters, re.IGNORECASE)
    codec = _CHARSETS.get(named[1].lower(), "") if named else ""
    if codec and media_types.is_text(mime):
        data = _recoded(data, codec)
    content = files.read_content("document", data, mime)
    if content["data"] and content["mime"] != "application/pdf" and not media_types.is_text(content["mime"]):
        raise ValueError(f"it is no document that can be read here, but {content['mime']}")
    if content["text"]:
        content["mime"] = "text/plain"  # the only type of text that every provider accepts
    return msgspec.structs.replace(block, **content, url="")


def _recoded(data: bytes, codec: str) -> bytes:
    try:
        return data.decode(codec).encode()
    except UnicodeDecodeError:
        return data  # not what its server says; it goes out as it is
