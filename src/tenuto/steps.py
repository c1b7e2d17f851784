"""The results of `Session.step()`: the public names of `tenuto.agent.runner`."""

from tenuto.agent.runner import Blocked as Blocked
from tenuto.agent.runner import Done as Done
from tenuto.agent.runner import More as More
from tenuto.agent.runner import Step as Step
from tenuto.agent.runner import Wait as Wait
