from pydantic import BaseModel

from tenuto import Agent


class City(BaseModel):
    name: str
    population: int


agent = Agent("openai/gpt-5.2", output=City)
city = agent.run("What is the largest city of Norway?").output
print(city.name, city.population)
