"""A server for the benchmark, in a process of its own so that its CPU is not counted.

    python -m bench.server FOLDER

It writes `plain.port`, `tls.port` and `cert.pem` into the folder, and ends when its input does. A request whose body
asks for a stream gets 1,000 deltas of the dialect of its path, each event a chunk of its own, in one write; `/slow`
before the path gets 600 of them, 32 at a time, a turn of the loop and 20 ms apart. Any other gets a whole reply.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import json
import ssl
import sys
from pathlib import Path

from bench.streams import MAKERS

SIZE = 20
DIALECTS = {
    b"/messages": "anthropic-messages",
    b"/responses": "openai-responses",
    b"/chat/completions": "openai-chat",
    b":streamGenerateContent": "gemini",
}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = json.dumps(
    {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "The quick brown fox jumps over the lazy dog. " * 10}],
        "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 100},
    }
).encode()  # fmt: skip


def chunks(dialect: str, count: int) -> list[bytes]:
    events = MAKERS[dialect](count, SIZE).split(b"\n\n")[:-1]
    return [b"%x\r\n%s\n\n\r\n" % (len(event) + 2, event) for event in events]


STREAMS = {path: HEAD + b"".join(chunks(dialect, 1000)) + b"0\r\n\r\n" for path, dialect in DIALECTS.items()}
SLOW = chunks("anthropic-messages", 600)
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(WHOLE), WHOLE)


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.held += data
        while b"\r\n\r\n" in self.held:
            head, _, rest = self.held.partition(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
            )
            if len(rest) < length:
                return
            self.held = rest[length:]
            self.answer(head.split(b" ", 2)[1], rest[:length])

    def answer(self, path: bytes, body: bytes) -> None:
        if b'"stream":true' not in body.replace(b" ", b"") and b"stream" not in path:
            self.transport.write(REPLY)
        elif path.startswith(b"/slow"):
            self.transport.write(HEAD)
            self.drip(0)
        else:
            self.transport.write(next(stream for end, stream in STREAMS.items() if end in path))

    def drip(self, at: int) -> None:
        if self.transport.is_closing():
            return
        self.transport.write(b"".join(SLOW[at : at + 32]))
        if at + 32 < len(SLOW):
            asyncio.get_running_loop().call_later(0.02, self.drip, at + 32)
        else:
            self.transport.write(b"0\r\n\r\n")


def certificate(folder: Path) -> ssl.SSLContext:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


async def main(folder: Path) -> None:
    loop = asyncio.get_running_loop()
    for name, context in (("plain", None), ("tls", certificate(folder))):
        server = await loop.create_server(Connection, "127.0.0.1", 0, ssl=context, backlog=512)
        (folder / f"{name}.part").write_text(str(server.sockets[0].getsockname()[1]))
        (folder / f"{name}.part").rename(folder / f"{name}.port")
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
