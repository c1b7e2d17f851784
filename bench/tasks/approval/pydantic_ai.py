import sys
from pathlib import Path

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.conversation import ConversationTypeAdapter

agent = Agent("openai:gpt-5.2", output_type=[str, DeferredToolRequests])
file = Path("mail-1.json")


@agent.tool_plain(requires_approval=True)
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}: {text}"


if sys.argv[1] == "ask":
    result = agent.run_sync("Tell Ada that I am late.")
    file.write_bytes(ConversationTypeAdapter.dump_json(result.conversation))
    for call in result.output.approvals:
        print(call.tool_name, call.args)
else:
    conversation = ConversationTypeAdapter.validate_json(file.read_bytes())
    approvals = conversation.deferred_tool_requests.build_results(approve_all=True)
    print(agent.run_sync(conversation=conversation, deferred_tool_results=approvals).output)
