"""A session as a DBOS workflow: one durable step is one turn, with a key. Needs `pip install dbos` and Postgres.

    python -m examples.temporal.dbos_session SESSION PROMPT...

The step returns a status and a text; the history stays in the store of tenuto. If the process is killed, the same executor
continues the workflow when it starts again, and the key makes the repeated turn harmless. Restate, Inngest and Prefect work in
the same way; only DBOS is tested.
"""

import asyncio
import os
import sys

from dbos import DBOS, DBOSConfig, SetWorkflowID

from examples.temporal.support import make_agent


@DBOS.step(retries_allowed=True, max_attempts=10)
async def turn(session: str, prompt: str, key: str) -> tuple[str, str]:
    """Do one turn of a session. The same key again returns the same reply."""
    async with make_agent() as agent:
        handle = agent.session(session)
        result = await handle.send(prompt, key=key)
        return handle.status, result.text


@DBOS.workflow()
async def conversation(session: str, prompts: list[str]) -> list[str]:
    """Send the prompts in order."""
    texts = []
    for number, prompt in enumerate(prompts):
        status, text = await turn(session, prompt, f"{DBOS.workflow_id}-{number}")
        texts.append(f"{status}: {text}")
    return texts


async def main(session: str, *prompts: str) -> None:
    config = DBOSConfig(name="support", system_database_url=os.environ["DBOS_DATABASE"], executor_id="one")
    DBOS(config=config)
    DBOS.launch()  # continues the workflows of this executor that did not end
    with SetWorkflowID(f"conversation-{session}"):
        handle = await DBOS.start_workflow_async(conversation, session, list(prompts))
    for text in await handle.get_result():
        print(text, flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
