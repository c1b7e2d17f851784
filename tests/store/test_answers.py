"""Futures that wake who waits for them in the same turn of the loop; in everything else they are as any other."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from tenuto.store import worker
from tenuto.store.answers import Answer

VARIABLE = contextvars.ContextVar("variable", default="")


def told(act):
    """Run `act(answer)` in a task; return its result, and an answer for whoever gives it."""

    async def run():
        loop = asyncio.get_running_loop()
        answer = Answer(loop)
        task = loop.create_task(act(answer))
        return await task

    return asyncio.run(run())


def soon(act, *args):
    asyncio.get_running_loop().call_soon(act, *args)


def test_who_waits_goes_on_in_the_turn_in_which_it_is_given():
    seen = []

    async def act(answer):
        def give():
            answer.give("value")
            seen.append("given")

        soon(give)
        seen.append(await answer)
        return seen

    assert told(act) == ["value", "given"]


def test_an_error_is_raised_where_it_is_awaited():
    async def act(answer):
        soon(answer.refuse, ValueError("no"))
        await answer

    with pytest.raises(ValueError, match="no"):
        told(act)


def test_one_that_is_done_gives_its_value_again():
    async def act(answer):
        soon(answer.give, 1)
        return await answer, await answer, answer.result()

    assert told(act) == (1, 1, 1)


def test_many_may_wait():
    async def act(answer):
        async def one():
            return await answer

        tasks = [asyncio.ensure_future(one()) for _ in range(3)]
        await asyncio.sleep(0)
        soon(answer.give, "value")
        return await asyncio.gather(*tasks)

    assert told(act) == ["value"] * 3


def test_who_is_cancelled_stops_waiting_and_a_later_value_is_nobodys():
    async def act(answer):
        async def one():
            await answer

        task = asyncio.ensure_future(one())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        answer.give("late")
        answer.refuse(ValueError("later"))
        return answer.cancelled()

    assert told(act) is True


def test_it_can_be_shielded_gathered_and_waited_for():
    async def act(answer):
        soon(answer.give, "value")
        return await asyncio.wait_for(asyncio.shield(asyncio.gather(answer)), 10)

    assert told(act) == ["value"]


def test_a_callback_that_was_removed_is_not_called():
    called = []

    async def act(answer):
        answer.add_done_callback(called.append)
        answer.add_done_callback(called.append)
        assert answer.remove_done_callback(called.append) == 2
        soon(answer.give, 1)
        await answer

    told(act)
    assert called == []


def test_a_callback_that_comes_late_is_called():
    called = []

    async def act(answer):
        answer.give(1)
        answer.add_done_callback(called.append)
        assert called == []  # not before the loop's next turn
        await asyncio.sleep(0)
        return called == [answer]

    assert told(act)


def test_the_context_is_that_of_who_waits():
    async def act(answer):
        VARIABLE.set("mine")

        def give():
            VARIABLE.set("another's")
            answer.give(VARIABLE.get())

        contextvars.Context().run(soon, give)
        return await answer, VARIABLE.get()

    assert told(act) == ("another's", "mine")


def test_who_ends_the_program_ends_it():
    """What a task raises that no task keeps goes on through whoever gave the answer, as it does through the loop."""

    async def act(answer):
        soon(answer.give, 1)
        await answer
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        told(act)


@pytest.mark.parametrize("shared", [True, False], ids=["one answer", "two answers"])
def test_who_ends_the_program_takes_no_answer_from_others(shared):
    """If the loop goes on all the same, as in a notebook, everybody else has what was given."""
    loop = asyncio.new_event_loop()
    first = Answer(loop)
    second = first if shared else Answer(loop)

    async def ends():
        await first
        raise SystemExit(3)

    async def other():
        return await second

    tasks = [loop.create_task(ends()), loop.create_task(other())]
    jobs = [worker._Job(None, future=answer) for answer in dict.fromkeys((first, second))]
    for job in jobs:
        job.value = "value"
    loop.call_soon(loop.call_soon, worker._set, jobs)
    with pytest.raises(SystemExit):
        loop.run_forever()
    assert loop.run_until_complete(tasks[1]) == "value"
    assert isinstance(tasks[0].exception(), SystemExit)
    loop.close()
