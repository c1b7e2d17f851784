"""Events of a reply and of an agent run: the public names of `tenuto.core.events` and `tenuto.agent.events`."""

from tenuto.agent import events as _agent
from tenuto.agent.events import *  # noqa: F403 - lists the same names
from tenuto.core import events as _core
from tenuto.core.events import *  # noqa: F403 - lists the same names

__all__ = []
__all__ += _agent.__all__
__all__ += _core.__all__
