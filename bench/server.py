"""Run the server of the benchmark, plain and with TLS, as a separate process so that its CPU is not counted.

    python -m bench.server DIRECTORY

It prints two ports, plain and TLS, writes `cert.pem` into the directory, and exits at the end of its input.
`bench.peers.server` defines the responses, the same for tenuto and for other libraries.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import ssl
import sys
from pathlib import Path

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Connection(asyncio.Protocol):
    """Parse HTTP requests; subclasses respond to them."""

    def __init__(self) -> None:
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, rest = self.buffer.partition(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
            )
            if len(rest) < length:
                return
            self.buffer = rest[length:]
            self.respond(head.split(b" ", 2)[1], rest[:length])

    def respond(self, path: bytes, body: bytes) -> None:
        raise NotImplementedError


def make_tls_context(directory: Path) -> ssl.SSLContext:
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
    (directory / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private_format = serialization.PrivateFormat.PKCS8
    no_encryption = serialization.NoEncryption()
    (directory / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, private_format, no_encryption))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    return context


async def main(directory: Path) -> None:
    from bench.peers.server import ReplyConnection  # imports this module

    loop = asyncio.get_running_loop()
    contexts = (None, make_tls_context(directory))
    servers = [
        await loop.create_server(ReplyConnection, "127.0.0.1", 0, ssl=context, backlog=512) for context in contexts
    ]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
