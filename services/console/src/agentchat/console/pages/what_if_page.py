"""Answer recorded runs again with another version, model or prompt, and compare them.

The runs of a what-if are rows of `what_if_runs`. While its page is open, it asks the orchestrators for the
runs without a result, some at a time; a page that is opened later continues.
"""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime, timedelta
from typing import Any

from litestar import Response, get, post
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Redirect, Stream

from agentchat.administration import admin_agents
from agentchat.administration.admin_values import Agent
from agentchat.console.pages.agent_choice import load_choices, read_number, read_text
from agentchat.console.pages.what_if_answers import WhatIfView, answer_runs, build_view
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin, get_session
from agentchat.console.shared.audit_reads import record_read
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.rendering import render_page
from agentchat.console.shared.sse_parts import render_part, stream_parts
from agentchat.contracts.admin_errors import AdminError, Invalid, NotFound
from agentchat.contracts.ids import is_uuid, make_id
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.conversations.queries import what_if_runs
from agentchat.conversations.queries.find_by_trace import find_run
from agentchat.conversations.queries.sample_conversations import RunSelection
from agentchat.conversations.queries.time_travel import log_time
from agentchat.conversations.queries.what_if_runs import WhatIfQuestion
from agentchat.evals.run_choice import (
    ENDS,
    ChosenRun,
    Estimate,
    RunChoice,
    choose_runs,
    estimate,
    load_conversation,
)

MOST_RUNS = 25
AT_ONCE = 4
_SAMPLE = 10
_DAYS = 7
_LISTED = 10
_FIELDS = ("runs", "sample", "since", "until", "end")
_UNKNOWN = "Unknown what-if: it is older than 30 days, or its conversations were deleted."


@get("/what-if", role=Role.OPERATOR)
async def get_what_if(request: AnyRequest, agent: str = "", version: int | None = None) -> Response[Any]:
    """Show the form, filled from the address. `runs` has ids of traces and conversations.

    The ids are separated by blanks. Without `agent`, the agent of the first run is chosen.
    """
    agent = agent or await _find_agent_of(request, request.query_params.get("runs", ""))
    if not agent:
        return render_page(
            request,
            "what_if.html",
            title="What if",
            agent=None,
            **await load_choices(request),
            newest=await what_if_runs.list_newest(get_services(request).pool, _LISTED),
        )
    found = await admin_agents.get(get_admin(request), agent, version)
    today = datetime.fromisoformat(await read_server_time(get_services(request).pool)).date()
    defaults = {"sample": str(_SAMPLE), "since": str(today - timedelta(days=_DAYS)), "end": "completed"}
    given = {name: request.query_params.get(name, defaults.get(name, "")) for name in _FIELDS}
    return await _render_form(
        request, found, given | {"model": found.model, "system_prompt": found.system_prompt}
    )


@post("/what-if", status_code=200, role=Role.OPERATOR)
async def post_what_if(request: AnyRequest) -> Response[Any]:
    """Estimate or start a what-if. A refused form comes back as it was filled in."""
    form = await request.form()
    found = await admin_agents.get(get_admin(request), read_text(form, "agent"), read_number(form, "version"))
    given = {name: read_text(form, name) for name in (*_FIELDS, "model", "system_prompt")}
    try:
        chosen = await _choose(request, found, given)
        expected = estimate(chosen, get_services(request).prices, given["model"].strip() or None, AT_ONCE)
        if read_text(form, "do") != "start":
            return await _render_form(request, found, given, expected=expected)
        what_if_id = await _start(request, found, given, chosen)
    except AdminError as error:
        return await _render_form(request, found, given, problem=error)
    return Redirect(f"/what-if/{what_if_id}", status_code=303)


@get("/what-if/{what_if_id:str}", role=Role.OPERATOR)
async def get_runs(
    request: AnyRequest, what_if_id: FromPath[str], run: str = "", only: str = ""
) -> Response[Any]:
    """Show the runs of a what-if, their comparison, and one run side by side."""
    view = await _load_view(request, what_if_id, run, only)
    await record_read(request, what_if_id, view.agent.account_id, kind="what-if")
    if view.chosen is not None:
        await record_read(request, view.chosen.conversation_id, view.agent.account_id)
    return render_page(request, "what_if_result.html", title="What if", view=view, problem="")


@get("/what-if/{what_if_id:str}/stream", role=Role.OPERATOR)
async def get_stream(request: AnyRequest, what_if_id: FromPath[str], run: str = "", only: str = "") -> Stream:
    """Answer the runs without a result, and send the page's parts after each."""
    services = get_services(request)
    view = await _load_view(request, what_if_id, run, only)
    await record_read(request, what_if_id, view.agent.account_id, kind="what-if")

    async def stream_results() -> AsyncGenerator[str, None]:
        answers = answer_runs(services.pool, services.bus, services.prices, what_if_id, AT_ONCE)
        async with contextlib.aclosing(answers):
            async for problem in answers:
                try:
                    view = await _load_view(request, what_if_id, run, only)
                except NotFoundException:
                    return  # stopped before the first answer, or erased
                yield render_part(request, "parts/what_if.html", problem=problem, view=view)

    return stream_parts(request, stream_results())


@post("/what-if/{what_if_id:str}/stop", status_code=200, role=Role.OPERATOR)
async def post_stop(request: AnyRequest, what_if_id: FromPath[str]) -> Redirect:
    """Delete the runs without a result; the others stay."""
    await _load_view(request, what_if_id, "", "")
    pool = get_services(request).pool
    await what_if_runs.drop_unanswered(pool, what_if_id)
    is_left = bool(await what_if_runs.find(pool, what_if_id))
    return Redirect(f"/what-if/{what_if_id}" if is_left else "/what-if", status_code=303)


async def _load_view(request: AnyRequest, what_if_id: str, trace_id: str, only: str) -> WhatIfView:
    """Load a what-if. Raises NotFoundException if it is unknown, NotFound if its agent is."""
    pool = get_services(request).pool
    rows = await what_if_runs.find(pool, what_if_id) if is_uuid(what_if_id) else []
    if not rows:
        raise NotFoundException(_UNKNOWN)
    agent = await admin_agents.get(get_admin(request), rows[0].agent_id, rows[0].agent_version)
    return await build_view(rows, agent, trace_id, only_different=only == "different")


async def _find_agent_of(request: AnyRequest, runs: str) -> str:
    """Return the id of the agent of the first run; "" without runs. Raises NotFound."""
    named = runs.replace(",", " ").split()
    if not named:
        return ""
    pool, conversation_id = get_services(request).pool, named[0].lower()
    if not is_uuid(conversation_id):
        found = await find_run(pool, conversation_id)
        if found is None:
            raise NotFound("run", named[0][:40])
        conversation_id = found.conversation_id
    conversation = await load_conversation(Log(pool), conversation_id)
    run = conversation.run(named[0].lower()) or (conversation.runs[-1] if conversation.runs else None)
    return "" if run is None else run.agent_id


async def _render_form(
    request: AnyRequest,
    agent: Agent,
    given: Mapping[str, str],
    *,
    expected: Estimate | None = None,
    problem: AdminError | None = None,
) -> Response[Any]:
    is_part = "hx-request" in request.headers
    return render_page(
        request,
        "parts/estimate.html" if is_part else "what_if.html",
        title="What if",
        status_code=400 if problem is not None and not is_part else 200,
        agent=agent,
        given=given,
        ends=ENDS,
        expected=expected,
        problem=problem,
        **({} if is_part else await load_choices(request, agent.id)),
    )


async def _choose(request: AnyRequest, agent: Agent, given: Mapping[str, str]) -> list[ChosenRun]:
    """Choose the runs. Raises Invalid with the name of the field, NotFound, Conflict."""
    named = given["runs"].lower().replace(",", " ").split()
    sample = read_number(given, "sample")
    if sample is not None and not 1 <= sample <= MOST_RUNS:
        raise Invalid("sample", f"must be 1 to {MOST_RUNS}")
    if named:  # the time filter does not apply to them
        choice = RunChoice(
            traces=tuple(each for each in named if not is_uuid(each)),
            conversations=tuple(each for each in named if is_uuid(each)),
            runs=RunSelection(ends=ENDS),
        )
    else:
        choice = RunChoice(
            sample=sample or _SAMPLE,
            runs=RunSelection(
                ends=(given["end"],) if given["end"] in ENDS else ENDS,
                since=_parse_time("since", given),
                until=_parse_time("until", given),
            ),
        )
    chosen = await choose_runs(get_services(request).pool, agent.account_id, agent.id, choice)
    if len(chosen) > MOST_RUNS:
        raise Invalid("runs", f"has {len(chosen):,} runs; a what-if takes at most {MOST_RUNS}")
    return chosen


def _parse_time(name: str, given: Mapping[str, str]) -> str | None:
    if not given[name].strip():
        return None
    try:
        return log_time(given[name].strip())
    except ValueError:
        raise Invalid(name, "must be a date or a time, such as 2026-11-21 or 2026-11-21T09:30:00Z") from None


async def _start(request: AnyRequest, agent: Agent, given: Mapping[str, str], chosen: list[ChosenRun]) -> str:
    """Store a what-if and its audit row; return its id."""
    admin, model, prompt = get_admin(request), given["model"].strip(), given["system_prompt"]
    question = WhatIfQuestion(
        account_id=agent.account_id,
        agent_id=agent.id,
        agent_version=agent.version,
        model=model if model not in ("", agent.model) else None,
        system_prompt=prompt if prompt != agent.system_prompt else None,
        actor=get_session(request).actor,
    )
    async with admin.connection() as conn:
        after = {"account_id": agent.account_id, "version": agent.version, "runs": len(chosen)}
        after["conversations"] = list(dict.fromkeys(each.conversation_id for each in chosen))
        await admin.note(conn, "what_if", "agent", agent.id, after=after)
    what_if_id = make_id()
    runs = [(each.conversation_id, each.trace_id) for each in chosen]
    await what_if_runs.add(get_services(request).pool, what_if_id, question, runs)
    return what_if_id


HANDLERS = (get_what_if, post_what_if, get_runs, get_stream, post_stop)
