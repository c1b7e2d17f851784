"""Hooks around runs, requests and tool calls: the public names of `tenuto.agent.hooks`, `CallPolicy`, `Instruction`, `Outcome`."""

from tenuto.agent.call_policy import CallPolicy as CallPolicy
from tenuto.agent.hooks import CallInfo as CallInfo
from tenuto.agent.hooks import Hooks as Hooks
from tenuto.agent.hooks import RequestInfo as RequestInfo
from tenuto.agent.hooks import RunInfo as RunInfo
from tenuto.agent.run_settings import Instruction as Instruction
from tenuto.tools.execution import Outcome as Outcome
