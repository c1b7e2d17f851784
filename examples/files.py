"""Show a model pictures and documents: `python files.py photo.png paper.pdf`; without names, it reads this file."""

import sys
from mimetypes import guess_type

from tenuto import Client, Document, Image, user


def opened(path: str) -> Image | Document:
    """Read a file as what it is."""
    kind = guess_type(path)[0] or ""
    return Image.from_path(path) if kind.startswith("image/") else Document.from_path(path)


files = [opened(path) for path in sys.argv[1:] or [__file__]]
# An address is passed on, for the provider to read; `Image.from_bytes` takes what you hold in memory.
logo = Image.from_url("https://www.python.org/static/community_logos/python-logo.png")

with Client() as ai:
    reply = ai.chat("anthropic/claude-sonnet-4-6", user("What is in these?", *files, logo))

print(reply.text)
