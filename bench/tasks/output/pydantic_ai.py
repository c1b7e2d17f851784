from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput


class City(BaseModel):
    name: str
    population: int


agent = Agent("openai:gpt-5.2", output_type=NativeOutput(City))
city = agent.run_sync("What is the largest city of Norway?").output
print(city.name, city.population)
