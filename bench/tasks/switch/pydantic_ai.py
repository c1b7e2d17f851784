from pydantic_ai import Agent

agent = Agent("openai:gpt-5.2", model_settings={"thinking": "medium"})
result = agent.run_sync("Name a prime.")
result = agent.run_sync("And the next one?", model="anthropic:claude-opus-4-6", conversation=result.conversation)
result = agent.run_sync("And the one after that?", conversation=result.conversation)
print(result.output)
