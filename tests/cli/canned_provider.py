"""What is looked at, made without asking a model: a server that says what it is told to, and a store with sessions."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tenuto.core.journal import MessageAdded
from tenuto.core.messages import user
from tenuto.core.stored import make_draft
from tenuto.store.open import open_store
from tenuto.store.sessions import new_id


@contextmanager
def answering(status, body):
    """Answer every GET so; yield the address, and the headers of what was asked."""
    heard = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            heard.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def keep_sessions(file, said):
    """Make a store with a session for each text, the last one newest; return their ids. A name is given to those with one."""

    async def kept():
        ids = [new_id(at) for at in range(1, len(said) + 1)]
        async with open_store(file) as store:
            for at, (id, (words, name)) in enumerate(zip(ids, said, strict=True), 1):
                lease = await store.lease(id)
                await store.append(lease, [make_draft(MessageAdded(user(words)), id="first", time_ms=at)])
                await store.release(lease)
                if name:
                    await store.rename(id, name)
        return ids

    return asyncio.run(kept())
