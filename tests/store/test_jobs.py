"""Pieces of work that are awaited: who waits goes on in the turn in which it is answered, with value, error or neither."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from tenuto.store.bells import bell_of
from tenuto.store.jobs import Job

VARIABLE = contextvars.ContextVar("variable", default="")


def job_here():
    bell = bell_of(asyncio.get_running_loop())
    return Job(None, bell, bell.loop)


def told(act):
    """Run `act(job)` in a task; return its result."""

    async def run():
        return await asyncio.create_task(act(job_here()))

    return asyncio.run(run())


def done(job, value=None, error=None):
    """End a job as its thread does, in the loop's next turn."""
    job.value, job.error = value, error
    job.bell.ring(job)


def test_who_waits_goes_on_in_the_turn_in_which_it_is_answered():
    seen = []

    async def act(job):
        def answer():
            job.value = "value"
            job.heard()
            seen.append("answered")

        asyncio.get_running_loop().call_soon(answer)
        seen.append(await job)
        await asyncio.sleep(0)
        return seen

    assert told(act) == ["value", "answered"]


def test_an_error_is_raised_where_it_is_awaited():
    async def act(job):
        done(job, error=ValueError("no"))
        await job

    with pytest.raises(ValueError, match="no"):
        told(act)


@pytest.mark.parametrize("error", [None, ValueError("no")], ids=["value", "error"])
def test_one_that_was_answered_before_it_is_awaited(error):
    async def act(job):
        done(job, "value", error)
        while not job.answered:
            await asyncio.sleep(0)
        return await job

    if error is None:
        assert told(act) == "value"
    else:
        with pytest.raises(ValueError, match="no"):
            told(act)


@pytest.mark.parametrize("word", [None, "enough"])
def test_who_is_cancelled_stops_waiting_and_a_later_answer_is_nobodys(word):
    async def act(job):
        async def one():
            await job

        task = asyncio.ensure_future(one())
        await asyncio.sleep(0)
        assert task.cancel(word)
        with pytest.raises(asyncio.CancelledError, match=word):
            await task
        done(job, "late")
        while not job.answered:
            await asyncio.sleep(0)
        return job.cancel(), task.cancelled()

    assert told(act) == (False, True)


def test_one_that_nobody_awaits_cannot_be_cancelled():
    async def act(job):
        return job.cancel(), Job(None).cancel()

    assert told(act) == (False, False)


def test_it_can_be_waited_for_gathered_and_shielded():
    async def act(job):
        done(job, "value")
        return await asyncio.wait_for(asyncio.shield(asyncio.gather(job)), 10)

    assert told(act) == ["value"]


def test_a_time_limit_ends_the_waiting():
    async def act(job):
        async with asyncio.timeout(0.01):
            await job

    with pytest.raises(TimeoutError):
        told(act)


def test_the_context_is_that_of_who_waits():
    async def act(job):
        VARIABLE.set("mine")

        def answer():
            VARIABLE.set("another's")
            job.value = VARIABLE.get()
            job.heard()

        contextvars.Context().run(asyncio.get_running_loop().call_soon, answer)
        return await job, VARIABLE.get()

    assert told(act) == ("another's", "mine")


def test_who_ends_the_program_ends_it():
    """What a task raises that no task keeps goes on through whoever gave the answer, as it does through the loop."""

    async def act(job):
        done(job)
        await job
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        told(act)


def test_who_ends_the_program_takes_no_answer_from_others():
    """If the loop goes on all the same, as in a notebook, everybody else has what was given."""
    loop = asyncio.new_event_loop()
    bell = bell_of(loop)
    first, second = (Job(None, bell, bell.loop) for _ in range(2))

    async def ends():
        await first
        raise SystemExit(3)

    async def other():
        return await second

    tasks = [loop.create_task(ends()), loop.create_task(other())]
    first.value = second.value = "value"
    loop.call_soon(bell.ring, first, second)
    with pytest.raises(SystemExit):
        loop.run_forever()
    assert loop.run_until_complete(tasks[1]) == "value"
    assert isinstance(tasks[0].exception(), SystemExit)
    loop.close()


def test_a_task_written_in_python_can_wait_for_it_too():
    """As on interpreters without asyncio's own in C."""

    async def act(job):
        async def one():
            return await job

        task = asyncio.tasks._PyTask(one(), loop=asyncio.get_running_loop())
        await asyncio.sleep(0)
        done(job, "value")
        return await task

    assert told(act) == "value"
