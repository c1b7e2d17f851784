"""Where a thought signature helps: on the call. On the answer alone it does not; on both it does no harm."""

from __future__ import annotations

import pytest

from sim.gemini_asking import GEMINI, VERTEX, answers, ask, chunks, exchange, parts_of, said, user, verdict, weather
from tenuto.sim.script import Call, Think


@pytest.mark.parametrize("style", [GEMINI, VERTEX], ids=["gemini", "vertex"])
@pytest.mark.parametrize("model", ["", "gemini-3-pro-preview", "gemini-3.5-flash", "gemini-4-argon"])
@pytest.mark.parametrize(
    "on_call, on_answer, status",
    [(True, False, 200), (False, True, 400), (True, True, 200), (False, False, 400)],
    ids=["on the call", "on the answer only", "on both", "nowhere"],
)
def test_signature_matrix(on_call, on_answer, status, model, style):
    body = {"contents": [user("Weather in Oslo?")], "tools": [weather()]}
    turn = (Think("Let me look."), Call("weather", {"city": "Oslo"}))
    parts = parts_of(chunks(exchange(ask(body, model, style), turn), stream=False))
    signature = parts[-1].pop("thoughtSignature")
    answer = answers(parts)
    if on_call:
        parts[-1]["thoughtSignature"] = signature
    if on_answer:
        answer["parts"][0]["thoughtSignature"] = signature

    found = verdict({**body, "contents": [*body["contents"], said(*parts), answer]}, model, style)

    assert (found.refusal.row.status if found.refusal else 200) == status
    if status == 400:
        assert found.refusal.rule == "GEM-SIG-01"
        assert "position 2" in found.refusal.message


def test_only_a_copy_of_its_own_calls_signature_is_taken_on_an_answer():
    body = {"contents": [user("Weather?")], "tools": [weather()]}
    parts, others = (
        parts_of(chunks(exchange(ask(body | {"systemInstruction": user(word)}), (Call("weather"),)), stream=False))
        for word in ("one", "another")
    )
    answer = answers(parts)
    for spoilt in (others[0]["thoughtSignature"], "skip_thought_signature_validator", "AAAA"):
        answer["parts"][0]["thoughtSignature"] = spoilt
        found = verdict({**body, "contents": [*body["contents"], said(*parts), answer]})

        assert found.refusal.rule == "GEM-SIG-02"
        assert found.refusal.place == "/contents/2/parts/0/thoughtSignature"
