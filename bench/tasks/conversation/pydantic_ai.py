import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.conversation import ConversationTypeAdapter

agent = Agent("openai:gpt-5.2")
file = Path("customer-42.json")
conversation = ConversationTypeAdapter.validate_json(file.read_bytes()) if file.exists() else None
result = agent.run_sync(sys.argv[1], conversation=conversation)
file.write_bytes(ConversationTypeAdapter.dump_json(result.conversation))
print(result.output)
