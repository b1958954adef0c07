"""What must hold of a history, whatever happened in it (interface specification, section 16)."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeGuard

import msgspec

from agentchat.contracts import events, wire
from agentchat.contracts.tool_messages import ToolRequested
from agentchat.contracts.updates import INTERRUPTED, Broken, Finished, Started, TextUpdate, ToolStarted
from agentchat.contracts.values import Usage
from agentchat.conversations.aggregate.conversation import Conversation, evolve_all
from tests.simulator.plan import GATEWAYS, Kind

if TYPE_CHECKING:
    from tests.simulator.services import Caller
    from tests.simulator.simulate import Simulation

_ENDS = (events.RunCompleted, events.RunFailed, events.RunCancelled)


def check(simulation: "Simulation") -> None:
    """Note every violation in the world of the simulation."""
    for caller in simulation.callers:
        _check_end(simulation, caller)
        _check_saved(simulation, caller)
        for number, life in enumerate(caller.lives):
            _check_stream(simulation, caller, number, life)
    for conversation_id, stored in simulation.postgres.events.items():
        _check_log(simulation, conversation_id, stored)
    _check_tools(simulation)
    _check_quiet(simulation)
    _check_tasks(simulation)


def _check_end(simulation: "Simulation", caller: "Caller") -> None:
    """I6, I7: every caller gets an end, in bounded time."""
    world = simulation.world
    if not caller.done:
        world.report("I6", f"{caller.request.key} has no end after {world.now:.0f} s")
    elif caller.accepted and not isinstance(caller.last, Finished | Broken):
        world.report("I6", f"{caller.request.key} was never told the end")
    if caller.refused is not None and not _excuses_refusal(simulation):
        world.report("I6", f"{caller.request.key} was refused with {caller.refused} for no reason")


def _excuses_refusal(simulation: "Simulation") -> bool:
    """Whether a request may have been refused: more had happened to it than a death of its worker."""
    kinds = [fault.kind for fault in simulation.world.plan.faults]
    if _has_lasting_faults(kinds) or any(kind.startswith(("pause", "slow")) for kind in kinds):
        return True
    deaths = sum(kind.startswith(("crash", "killed", "stopped")) for kind in kinds)
    at_a_gateway = any(fault.process in GATEWAYS for fault in simulation.world.plan.faults)
    return deaths > 1 or at_a_gateway or len(simulation.callers) > 1


def _has_lasting_faults(kinds: Iterable[Kind]) -> bool:
    """Whether messages or calls were lost for longer than a moment."""
    return any(kind.startswith(("nats", "postgres", "lose")) for kind in kinds)


def _check_saved(simulation: "Simulation", caller: "Caller") -> None:
    """I1, I3: what was accepted is saved once and ends once; what was refused is saved once at most."""
    world, key = simulation.world, caller.request.key
    own = [
        event
        for stored in simulation.postgres.events.values()
        for event in stored
        if event.trace_id == caller.trace_id
    ]
    users = [event for event in own if _is_question(event)]
    joined = [
        event
        for stored in simulation.postgres.events.values()
        for event in stored
        if isinstance(event, events.MessageSaved) and event.steers == caller.trace_id
    ]
    saved = [event for event in own if isinstance(event, events.MessageSaved) and not event.interrupted]
    replies = [event for event in saved if event.role == "assistant"]
    ends = [event for event in own if isinstance(event, _ENDS)]
    count = len(users) + len(joined)
    if count > 1 or (caller.accepted and count != 1):
        world.report("I1", f"{key} is saved {count} times")
    if any(event.content != key for event in (*users, *joined)):
        world.report("I1", f"{key} is saved as {(*users, *joined)[0].content!r}")
    if len(ends) != len(users) or len(replies) > 1:
        world.report(
            "I3", f"{key} is saved {len(users)} times, with {len(ends)} ends, {len(replies)} replies"
        )
    if not users or not ends:
        return
    last = ends[-1]
    if isinstance(last, events.RunCompleted):
        _check_reply(simulation, caller, own, replies)
    elif isinstance(last, events.RunFailed) and last.code not in _find_excused_codes(simulation):
        world.report("I3", f"{key} failed with {last.code} for no reason")
    elif isinstance(last, events.RunCancelled) and not caller.cancels:
        by = {each.trace_id for each in simulation.callers if each.request.on_busy == "interrupt"}
        if last.interrupted_by not in by:
            world.report("I3", f"{key} was cancelled by nobody")


def _is_question(event: events.Event) -> TypeGuard[events.MessageSaved]:
    """Whether a run begins with it."""
    return isinstance(event, events.MessageSaved) and event.role == "user" and event.steers is msgspec.UNSET


def _check_reply(
    simulation: "Simulation", caller: "Caller", own: list[events.Event], replies: list[events.MessageSaved]
) -> None:
    """The text is the model's own, once and whole; and I13, its price."""
    world, plan, request = simulation.world, simulation.world.plan, caller.request
    expected = "".join("".join(pieces) for pieces in request.rounds[: plan.max_tool_rounds + 1])
    if [reply.content for reply in replies] != [expected]:
        world.report("text", f"{request.key} is {[reply.content for reply in replies]}, not {expected!r}")
        return
    spent = Usage()
    for event in own:
        if isinstance(
            event, events.ModelReplied | events.ContextCompacted | events.ReplyLost | events.WarningRaised
        ):
            spent += event.usage
    if replies[0].token_count != spent.total:
        world.report("I13", f"{request.key} cost {spent.total}, and is told {replies[0].token_count}")
    rounds = sum(1 for event in own if isinstance(event, events.ModelReplied))
    attempts = sum(1 for event in own if isinstance(event, events.RunStarted))
    breaks = sum(1 for fault in plan.faults if fault.kind == "reply_breaks") + simulation.asked.failed
    pauses = sum(1 for fault in plan.faults if fault.kind not in ("frame_lost", "frame_late", "frame_twice"))
    if simulation.asked.calls.get(request.key, 0) > rounds + attempts - 1 + breaks + pauses:
        world.report("I13", f"{request.key} took {simulation.asked.calls[request.key]} calls")


def _find_excused_codes(simulation: "Simulation") -> set[str]:
    """The codes with which a run may fail, given what has happened to it."""
    plan = simulation.world.plan
    kinds = {fault.kind for fault in plan.faults}
    excused: set[str] = set()
    if kinds:
        excused.add("overloaded")
    if "reply_breaks" in kinds:
        excused.add("provider_error")
    if "model_fails" in kinds and (not plan.fallback or plan.on_interruption == "fail"):
        excused.add("provider_overloaded")
    if plan.on_interruption == "fail" and kinds:
        excused.add("generation_interrupted")
    return excused


def _check_stream(simulation: "Simulation", caller: "Caller", number: int, life: Sequence[object]) -> None:
    """I5, and I4's text: one beginning, one end, and the pieces add up to the content."""
    world, key = simulation.world, caller.request.key
    if not life:
        return
    streamed = number > 0 or caller.request.streaming
    if not isinstance(life[0], Started) and not isinstance(life[0], Broken):
        world.report("I5", f"{key} begins with {life[0]}")
    if sum(isinstance(update, Started) for update in life) > 1:
        world.report("I5", f"{key} begins twice")
    if any(isinstance(update, Finished | Broken) for update in life[:-1]):
        world.report("I5", f"{key} goes on after its end")
    calls = [update.call_id for update in life if isinstance(update, ToolStarted)]
    if len(calls) != len(set(calls)):
        world.report("I5", f"{key} is told a call twice: {calls}")
    text = "".join(update.text for update in life if isinstance(update, TextUpdate))
    if not caller.answer.startswith(text):
        world.report("text", f"{key} is told {text!r}, of {caller.answer!r}")
    last = life[-1]
    if isinstance(last, Finished) and streamed and text != last.message.content:
        world.report("I4", f"{key} is told {text!r}, saved is {last.message.content!r}")
    kinds = {fault.kind for fault in world.plan.faults}
    may_end = {caller.request.cancel_at for caller in simulation.callers} != {None}
    may_end = may_end or any(each.request.on_busy == "interrupt" for each in simulation.callers)
    if isinstance(last, Broken) and not kinds and not may_end:
        world.report("I6", f"{key} ends with {last.code} for no reason")
    if isinstance(last, Broken) and last == INTERRUPTED and not _has_lasting_faults(kinds):
        world.report("I6", f"{key} was interrupted although nothing of it was lost")


def _check_log(simulation: "Simulation", conversation_id: str, stored: list[events.Event]) -> None:
    """I8, I9: one run at a time, attempts that grow, nothing after an end, the log in its order."""
    world = simulation.world
    rows = simulation.postgres.threads[conversation_id]
    if [row.version for row in rows] != list(range(1, len(rows) + 1)):
        world.report("I9", f"the versions of {conversation_id} have gaps")
    active: str | None = None
    attempts: dict[str, int] = {}
    ended: set[str] = set()
    for event in stored:
        trace = event.trace_id
        if trace in ended:
            world.report("I9", f"{type(event).__name__} of {trace[-2:]} after its end")
        if isinstance(event, events.RunStarted):
            if active not in (None, trace):
                world.report("I8", f"{trace[-2:]} begins while {active} runs")
            if event.attempt != attempts.get(trace, 0) + 1:
                world.report("I8", f"attempt {event.attempt} of {trace[-2:]} after {attempts.get(trace)}")
            active, attempts[trace] = trace, event.attempt
        elif isinstance(event, _ENDS):
            ended.add(trace)
            active = None if active == trace else active
    conversation = evolve_all(Conversation(conversation_id=conversation_id), stored)
    for run in conversation.runs:
        for each in run.rounds[:-1]:
            if any(call.output is None for call in each.calls):
                world.report("I9", f"a call of round {each.number} of {run.trace_id[-2:]} has no result")


def _check_tools(simulation: "Simulation") -> None:
    """I10: what may not be repeated ran once at most; what succeeded did run.

    Nothing ran by a delivery that came after the end of its run.
    """
    world, executions = simulation.world, simulation.tools.executions
    names: dict[str, str] = {}
    for stored in simulation.postgres.events.values():
        for event in stored:
            if isinstance(event, events.ToolCalled):
                names[event.call_id] = event.name
            elif (
                isinstance(event, events.ToolReturned)
                and not event.is_error
                and not executions.get(event.call_id)
            ):
                world.report("I10", f"{event.call_id} returned and never ran")
    for call_id, count in executions.items():
        if names.get(call_id) == "write" and count > 1:
            world.report("I10", f"{call_id}, which may not be repeated, ran {count} times")
        if count > 1 + len(world.plan.faults):
            world.report("I10", f"{call_id} ran {count} times")
    asked = Counter(_calls_of_open_runs(simulation))
    for call_id, count in executions.items():
        if count > asked[call_id]:
            world.report("I10", f"{call_id} ran {count} times, {asked[call_id]} of them before its run's end")


def _calls_of_open_runs(simulation: "Simulation") -> Iterator[str]:
    """One id for each time that a call was handed to a runner while its run had not ended."""
    ended_at = simulation.postgres.ended_at
    for when, data in simulation.nats.tools.handed_out:
        request = wire.decode_message(ToolRequested, data)
        if when < ended_at.get(request.trace_id, math.inf):
            yield request.call_id


def _check_quiet(simulation: "Simulation") -> None:
    """I7: nothing is left in a queue."""
    for queue in (simulation.nats.requests, simulation.nats.tools):
        if queue.messages:
            simulation.world.report("I7", f"{queue.name} still holds {len(queue.messages)} messages")


def _check_tasks(simulation: "Simulation") -> None:
    """No task ended with an exception that nobody looked at, in a process that could have."""
    for loop in simulation.loops:
        for task in loop.tasks if loop.alive and not loop.standing else ():
            if task.done() and not task.cancelled() and task._log_traceback:
                simulation.world.report_internal(f"a task ended with {task.exception()!r}")
