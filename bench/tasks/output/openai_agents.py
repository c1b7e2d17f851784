from agents import Agent, Runner
from pydantic import BaseModel


class City(BaseModel):
    name: str
    population: int


agent = Agent(name="Geographer", model="gpt-5.2", output_type=City)
city = Runner.run_sync(agent, "What is the largest city of Norway?").final_output
print(city.name, city.population)
