"""Attach images and documents: `python files.py photo.png paper.pdf`; without arguments, this file is attached."""

import sys
from mimetypes import guess_type

from tenuto import Client, Document, Image, user


def read_file(path: str) -> Image | Document:
    """Read an image or a document."""
    kind = guess_type(path)[0] or ""
    return Image.from_path(path) if kind.startswith("image/") else Document.from_path(path)


files = [read_file(path) for path in sys.argv[1:] or [__file__]]
# The provider loads the URL; `Image.from_bytes` takes an image in memory.
logo = Image.from_url("https://www.python.org/static/community_logos/python-logo.png")

with Client() as ai:
    reply = ai.chat("anthropic/claude-sonnet-4-6", user("What is in these files?", *files, logo))

print(reply.text)
