"""What if: recorded runs chosen, answered again by another configuration, and compared while that goes on."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from litestar import Response, get, post
from litestar.datastructures import FormMultiDict
from litestar.params import FromPath
from litestar.response import Redirect, Stream

from administration.admin_values import Agent
from console.console_services import services_of
from console.frame.access import AnyRequest, session_of
from console.frame.acting import admin_of, note_read
from console.frame.event_source import rendered, stream
from console.frame.rendering import page
from console.frame.roles import Role
from console.frame.running_experiments import MOST_RUNS, RunningExperiment
from console.pages.agent_choice import (
    agent_options,
    changes,
    draft_fields,
    drafted,
    find_agent,
    newest_versions,
    number,
    text,
)
from contracts.admin_errors import AdminError, Invalid, NotFound
from contracts.ids import is_uuid
from conversations.database import server_now
from conversations.event_store.log import Log
from conversations.queries.find_run import find_run
from conversations.queries.sampling import RunFilter
from conversations.queries.time_travel import log_time
from experiments.chosen_runs import ENDS, ChosenRun, Estimate, RunChoice, choose, estimate, read
from experiments.comparison import ComparedRun, summarised
from experiments.experiment import Candidate, Experiment
from experiments.text_diff import call_pairs, word_diff

_AT_ONCE = 4
_SAMPLE = 20
_DAYS = 7
_SHOWN = 10
_MOST_SHOWN = 200
"""Runs in the list of an experiment."""
_PAUSE_SECONDS = 0.5
_FIELDS = ("runs", "sample", "since", "until", "end", "tag", "seed")


@get("/what-if", role=Role.OPERATOR)
async def get_what_if(request: AnyRequest, agent: str = "", version: int | None = None) -> Response[Any]:
    """The form; the address fills it: `runs` has ids of traces and conversations, separated by blanks.

    Without an agent it is the one that answered the first of them, at the version that it has now.
    """
    agent = agent or await _answered_by(request, request.query_params.get("runs", ""))
    if not agent:
        return page(
            request,
            "what_if.html",
            title="What if",
            agents=await agent_options(request),
            agent=None,
            experiments=services_of(request).experiments.newest(_SHOWN),
        )
    found = await find_agent(request, agent, version)
    today = datetime.fromisoformat(await server_now(services_of(request).pool)).date()
    usual = {"sample": str(_SAMPLE), "since": str(today - timedelta(days=_DAYS)), "end": "completed"}
    given = {name: request.query_params.get(name, usual.get(name, "")) for name in _FIELDS}
    return await _form(request, found, given)


@post("/what-if", status_code=200, role=Role.OPERATOR)
async def post_what_if(request: AnyRequest) -> Response[Any]:
    """Estimate, or start; where it is not taken, the form comes back as it was filled in."""
    form = await request.form()
    found = await find_agent(request, text(form, "agent"), number(form, "version"))
    given = {name: text(form, name) for name in _FIELDS}
    try:
        changed = changes(found, form)
        model = changed.get("model", found.model)
        chosen = await _chosen(request, found, given)
        expected = estimate(chosen, services_of(request).prices, model, _AT_ONCE)
        if text(form, "do") != "start":
            return await _form(request, found, given, sent=form, expected=expected)
        answering = await drafted(request, found, form)
        running = await _started(request, answering, chosen, expected, found.version, changed)
    except AdminError as error:
        return await _form(request, found, given, sent=form, problem=error)
    return Redirect(f"/what-if/{running.id}", status_code=303)


async def _answered_by(request: AnyRequest, runs: str) -> str:
    """ "" where none is named, or nothing was answered. Raises NotFound."""
    named = runs.replace(",", " ").split()
    if not named:
        return ""
    pool, conversation_id = services_of(request).pool, named[0].lower()
    if not is_uuid(conversation_id):
        found = await find_run(pool, conversation_id)
        if found is None:
            raise NotFound("run", named[0][:40])
        conversation_id = found.conversation_id
    conversation = await read(Log(pool), conversation_id)
    run = conversation.run(named[0].lower()) or (conversation.runs[-1] if conversation.runs else None)
    return "" if run is None else run.agent_id


async def _form(
    request: AnyRequest,
    agent: Agent,
    given: Mapping[str, str],
    *,
    sent: FormMultiDict | None = None,
    expected: Estimate | None = None,
    problem: AdminError | None = None,
) -> Response[Any]:
    is_part = "hx-request" in request.headers
    return page(
        request,
        "parts/estimate.html" if is_part else "what_if.html",
        title="What if",
        status_code=400 if problem is not None and not is_part else 200,
        agent=agent,
        agents=() if is_part else await agent_options(request),
        versions=() if is_part else await newest_versions(request, agent.id),
        draft=draft_fields(agent, sent, problem),
        given=given,
        ends=ENDS,
        expected=expected,
        currency=services_of(request).prices.currency,
        problem=problem,
    )


async def _chosen(request: AnyRequest, agent: Agent, given: Mapping[str, str]) -> list[ChosenRun]:
    """Raises Invalid with the name of the field, NotFound, Conflict."""
    named = given["runs"].replace(",", " ").split()
    if len(named) > MOST_RUNS:
        raise Invalid("runs", f"has {len(named):,} ids; an experiment takes {MOST_RUNS} runs at most")
    sample = number(given, "sample")
    if sample is not None and not 1 <= sample <= MOST_RUNS:
        raise Invalid("sample", f"must be 1 to {MOST_RUNS}")
    key, equals, value = given["tag"].partition("=")
    if given["tag"] and not (key and equals):
        raise Invalid("tag", "must be KEY=VALUE")
    choice = RunChoice(
        traces=tuple(each.lower() for each in named if not is_uuid(each.lower())),
        conversations=tuple(each.lower() for each in named if is_uuid(each.lower())),
        sample=sample or _SAMPLE,
        seed=number(given, "seed") or 0,
        runs=RunFilter(
            ends=(given["end"],) if given["end"] in ENDS else ENDS,
            since=_time("since", given),
            until=_time("until", given),
            metadata={key: value} if equals else {},
        ),
    )
    if named:  # they are meant, whenever they were
        choice = RunChoice(
            traces=choice.traces, conversations=choice.conversations, runs=RunFilter(ends=ENDS)
        )
    chosen = await choose(services_of(request).pool, agent.account_id, agent.id, choice)
    if len(chosen) > MOST_RUNS:
        raise Invalid("sample", f"has {len(chosen):,} runs; an experiment takes {MOST_RUNS} at most")
    return chosen


def _time(name: str, given: Mapping[str, str]) -> str | None:
    if not given[name].strip():
        return None
    try:
        return log_time(given[name].strip())
    except ValueError:
        raise Invalid(name, "must be a day or a time, such as 2026-11-21 or 2026-11-21T09:30:00Z") from None


async def _started(
    request: AnyRequest,
    agent: Agent,
    chosen: list[ChosenRun],
    expected: Estimate,
    of_version: int,
    changed: Iterable[str],
) -> RunningExperiment:
    """Raises Conflict."""
    services, admin = services_of(request), admin_of(request)
    services.experiments.check_room(session_of(request).id)
    async with admin.connection() as conn:
        after = {"account_id": agent.account_id, "version": agent.version, "runs": len(chosen)}
        after["conversations"] = list(dict.fromkeys(each.conversation_id for each in chosen))
        await admin.note(conn, "what_if", "agent", agent.id, after=after)
    candidate = Candidate(account_id=agent.account_id, agent_id=agent.id, version=agent.version)
    experiment = Experiment(
        *(services.bus, Log(services.pool), candidate, chosen), prices=services.prices, at_once=_AT_ONCE
    )
    running = RunningExperiment(
        experiment,
        agent,
        expected,
        of_version=of_version,
        changes=changed,
        actor=session_of(request).actor,
        session_id=session_of(request).id,
        begun_at=await server_now(services.pool),
    )
    return services.experiments.add(running)


@get("/what-if/{experiment_id:str}", role=Role.OPERATOR)
async def get_experiment(
    request: AnyRequest, experiment_id: FromPath[str], run: str = "", only: str = ""
) -> Response[Any]:
    """How far it is, what has come of it, and one run side by side."""
    running = services_of(request).experiments.find(experiment_id)
    shown = await _shown(running, run, only)
    await note_read(request, running.id, running.agent.account_id, kind="experiment")
    await _note_read(request, running, shown)
    return page(request, "experiment.html", title="What if", **shown)


@get("/what-if/{experiment_id:str}/stream", role=Role.OPERATOR)
async def get_experiment_stream(
    request: AnyRequest, experiment_id: FromPath[str], run: str = "", only: str = ""
) -> Stream:
    """The same as long as it runs, twice a second at most."""
    running = services_of(request).experiments.find(experiment_id)

    await note_read(request, running.id, running.agent.account_id, kind="experiment")

    async def parts() -> AsyncGenerator[str, None]:
        is_read = bool(run) or bool(running.experiment.done)
        async for _ in running.changes():
            shown = await _shown(running, run, only)
            if is_read:
                shown["sides"] = None
            elif shown["compared"] is not None:
                is_read = True
                await _note_read(request, running, shown)
            yield rendered(request, "parts/experiment.html", **shown)
            await asyncio.sleep(_PAUSE_SECONDS)

    return await stream(request, parts())


@post("/what-if/{experiment_id:str}/stop", status_code=200, role=Role.OPERATOR)
async def post_stop(request: AnyRequest, experiment_id: FromPath[str]) -> Redirect:
    running = services_of(request).experiments.find(experiment_id)
    running.stop()
    await running.until_ended()
    return Redirect(f"/what-if/{experiment_id}", status_code=303)


async def _shown(running: RunningExperiment, trace_id: str, only: str) -> dict[str, Any]:
    experiment = running.experiment
    done = experiment.done
    listed = [each for each in done if only != "different" or each.diverges or not each.was_replayed]
    first = next((each for each in listed if each.diverges), listed[0] if listed else None)
    compared = experiment.result(trace_id) or first
    return {
        "running": running,
        "experiment": experiment,
        "summary": summarised(done),
        "runs": listed,
        "most_shown": _MOST_SHOWN,
        "only": only,
        "chosen": trace_id,
        "compared": compared,
        "sides": None if compared is None else await _sides(compared),
        "currency": experiment.prices.currency,
    }


async def _note_read(request: AnyRequest, running: RunningExperiment, shown: Mapping[str, Any]) -> None:
    if shown["compared"] is not None:
        await note_read(request, shown["compared"].conversation_id, running.agent.account_id)


async def _sides(compared: ComparedRun) -> dict[str, Any]:
    """Both replies as pieces of text, and their calls in pairs; in a thread, as long texts take a while."""
    before, after = compared.before, compared.after
    pieces = await asyncio.to_thread(word_diff, before.content, after.content)
    return {"pieces": pieces, "calls": call_pairs(before.calls, after.calls)}


HANDLERS = (get_what_if, post_what_if, get_experiment, get_experiment_stream, post_stop)
