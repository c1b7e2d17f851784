"""The codecs by the name of their dialect."""

import importlib

from tenuto.wire.codec import Codec

_MODULES: dict[str, str] = {
    "anthropic-messages": "tenuto.wire.anthropic",
    "openai-responses": "tenuto.wire.responses",
    "openai-chat": "tenuto.wire.chat",
    "gemini": "tenuto.wire.gemini",
}
_codecs: dict[str, Codec] = {}


def codec_for(dialect: str) -> Codec:
    """Return the codec of a dialect, and import it if this is its first use. Raise `KeyError` for an unknown one."""
    codec = _codecs.get(dialect)
    if codec is None:
        codec = _codecs[dialect] = importlib.import_module(_MODULES[dialect]).CODEC
    return codec


def dialect_names() -> tuple[str, ...]:
    return (*_MODULES, *(name for name in _codecs if name not in _MODULES))


def register(codec: Codec) -> None:
    """Add a dialect, or replace one of the same name."""
    _codecs[codec.name] = codec
