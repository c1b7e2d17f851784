from agents import Agent, ModelSettings, Runner, SQLiteSession
from openai.types.shared import Reasoning

gpt = Agent(name="Mathematician", model="gpt-5.2", model_settings=ModelSettings(reasoning=Reasoning(effort="medium")))
claude = Agent(name="Mathematician", model="litellm/anthropic/claude-opus-4-6")
session = SQLiteSession("primes")
Runner.run_sync(gpt, "Name a prime.", session=session)
Runner.run_sync(claude, "And the next one?", session=session)
print(Runner.run_sync(gpt, "And the one after that?", session=session).final_output)
