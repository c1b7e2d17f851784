"""The blocks of messages, their citations and their continuity tokens: the public names of `tenuto.core.blocks`."""

from tenuto.core.blocks import *  # noqa: F403 - lists the same names
from tenuto.core.blocks import __all__ as __all__
