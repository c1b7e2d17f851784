"""A proxy for Postgres that closes a connection at a COMMIT, before or after the server executes it."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
DONE = b"Z\x00\x00\x00\x05I"  # the server is ready for the next transaction


class CommitProxy:
    """Connects a store and a server through a Unix socket. `cut` determines what happens at the next commit."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder = folder
        self.cut = ""
        self.cuts = 0
        self._server = str(server / ".s.PGSQL.5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """Wait until all connections have ended: their users must close them first."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._threads.append(threading.Thread(target=self._carry, args=(client, server)))
            self._threads[-1].start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        back = threading.Thread(target=self._answer, args=(client, server))
        back.start()
        with client, server:
            self._ask(client, server)
            for end in (client, server):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            back.join()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if data == COMMIT and self.cut == "before":
                    self.cut = ""
                    self.cuts += 1
                    return
                server.sendall(data)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                if self.cut == "after" and b"COMMIT\x00" in data and data.endswith(DONE):
                    self.cut = ""
                    self.cuts += 1
                    break
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
