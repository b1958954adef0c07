"""The plan is a pure function of the seed."""

from tests.chaos.plan import LINK_FAULTS, SERVERS, SERVICES, make_plan


def test_the_same_seed_gives_the_same_plan() -> None:
    assert make_plan(7, 200, 60) == make_plan(7, 200, 60)
    assert make_plan(7, 200, 60) != make_plan(8, 200, 60)


def test_every_kind_of_message_is_sent() -> None:
    steps = [step for talk in make_plan(1, 300, 60).talks for step in talk.steps]
    assert {step.form for step in steps} == {"json", "form1", "form2"}
    assert {step.agent for step in steps} == {"short", "long", "tools", "overloaded", "asking"}
    assert {step.gateway for step in steps} == {0, 1}
    assert any(step.leave_after for step in steps)
    assert any(step.cancel_after for step in steps)
    assert len({step.ask for step in steps}) == len(steps)


def test_every_process_and_every_kind_of_link_fault_is_in_a_long_plan() -> None:
    blows = make_plan(1, 10, 400).blows
    assert {blow.target for blow in blows if blow.kind == "kill"} == {*SERVICES, *SERVERS}
    assert {blow.target for blow in blows if blow.kind == "stop"} == {*SERVICES, *SERVERS}
    kinds = {"kill", "stop", "term", "wipe", "flush", "eat", *LINK_FAULTS}
    assert {blow.kind for blow in blows} == kinds


def test_a_plan_may_have_faults_of_some_kinds_alone() -> None:
    assert {blow.kind for blow in make_plan(1, 10, 60, only=("wipe", "eat")).blows} == {"wipe", "eat"}
    assert {blow.target for blow in make_plan(1, 10, 60, only=("kill:postgres",)).blows} == {"postgres"}
