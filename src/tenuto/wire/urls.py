"""Write names into URLs."""

import re
from functools import lru_cache
from urllib.parse import quote

from tenuto.errors import UnsupportedModel

_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]"  # compiled on first use: most dialects have no model names in URLs


def model_resource(model: str) -> str:
    """Return the resource name of a model in the Gemini dialect. A name with a slash is one already."""
    return model if "/" in model else f"models/{model}"


@lru_cache(maxsize=256)
def model_path(model: str) -> str:
    """Return the path of a model below the base URL.

    Raise `UnsupportedModel` for a name that would lead elsewhere: with `.`, `..` or nothing between two slashes, or with
    a control character.
    """
    if re.search(_CONTROL, model):
        raise UnsupportedModel(model, "a model name with a control character cannot be part of a URL")
    if any(step in ("", ".", "..") for step in model.split("/")):
        raise UnsupportedModel(model, "a model name with an empty step, `.` or `..` cannot be part of a URL")
    return f"/{quote(model_resource(model), safe='/:@', errors='replace')}"


def query(**fields: str) -> str:
    """Return the fields that are not empty as a query string."""
    written = "&".join(f"{name}={quote(value, safe='', errors='replace')}" for name, value in fields.items() if value)
    return f"?{written}" if written else ""
