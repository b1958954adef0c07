"""Conversations: a search over those of all accounts, the newest first."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from litestar import get
from litestar.params import Parameter
from litestar.response import Template

from agentchat.administration.admin_conversations import ENDS, conversation_filter
from agentchat.console.console_services import services_of
from agentchat.console.frame.access import AnyRequest
from agentchat.console.frame.acting import note_list
from agentchat.console.frame.directory import filter_choices
from agentchat.console.frame.rendering import page
from agentchat.console.frame.roles import Role
from agentchat.contracts.admin_errors import Invalid
from agentchat.conversations.database import read_server_time
from agentchat.conversations.projections.feedback_table import RATINGS
from agentchat.conversations.queries.conversation_search import ConversationSearchResult, find_conversations
from agentchat.directory.display_names import DisplayNames, load_display_names

MOST = 25
MOST_NEW = 100
_EVERY_SECONDS = 2
_FIELDS = ("q", "account", "agent", "day", "since", "until", "end", "rating", "tool", "tag")
_DAYS = {"today": (0, None), "yesterday": (1, 1), "week": (6, None), "month": (29, None)}
"""Of each choice how many days before today it begins, and how many days it is; None: until now."""

Text = Annotated[str, Parameter(max_length=500)]


class SearchForm(msgspec.Struct, frozen=True, kw_only=True):
    """What the form holds, and so the address; "" is any."""

    q: str = ""
    account: str = ""
    agent: str = ""
    day: str = ""
    since: str = ""
    until: str = ""
    end: str = ""
    rating: str = ""
    tool: str = ""
    tag: str = ""

    @property
    def is_narrow(self) -> bool:
        return any(getattr(self, name) for name in _FIELDS)

    def query(self, **more: str) -> str:
        """The query of an address that shows the same, with `more`."""
        given = {name: getattr(self, name) for name in _FIELDS} | more
        return urlencode({name: value for name, value in given.items() if value})

    def without(self, name: str) -> str:
        return self.query(**{name: ""})

    @property
    def named(self) -> dict[str, str]:
        """The filters that are set, without the text."""
        return {name: value for name in _FIELDS[1:] if (value := getattr(self, name))}


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what was found. `next_before` is the place of the page after, `newest` that of the first."""

    rows: list[ConversationSearchResult]
    names: DisplayNames
    next_before: str
    newest: str


def _form(request: AnyRequest) -> SearchForm:
    given = request.query_params
    return SearchForm(**{name: given.get(name, "").strip()[:500] for name in _FIELDS})


async def _wanted(request: AnyRequest, form: SearchForm) -> Any:
    """The filter. Raises Invalid, DatabaseUnavailable."""
    since, until = form.since or None, form.until or None
    if form.day in _DAYS:
        since, until = _bounds(form.day, await read_server_time(services_of(request).pool))
    wanted = conversation_filter(
        form.account or None,
        form.agent or None,
        since,
        until,
        form.end or None,
        form.tool or None,
        form.tag or None,
        form.rating or None,
    )
    return msgspec.structs.replace(wanted, text=form.q.replace("\0", "") or None)


def _bounds(day: str, now: str) -> tuple[str, str | None]:
    """Of a choice of days, in UTC."""
    before, length = _DAYS[day]
    today = datetime.fromisoformat(now).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    begin = today - timedelta(days=before)
    return begin.isoformat(), None if length is None else (begin + timedelta(days=length)).isoformat()


async def _results(request: AnyRequest, form: SearchForm) -> Results:
    pool = services_of(request).pool
    before = request.query_params.get("before") or None
    found = await find_conversations(pool, await _wanted(request, form), before=before, limit=MOST + 1)
    rows = found[:MOST]
    names = await load_display_names(
        pool,
        {each.account_id for each in rows} | ({form.account} if form.account else set()),
        {each.agent_id for each in rows if each.agent_id} | ({form.agent} if form.agent else set()),
    )
    return Results(
        rows=rows,
        names=names,
        next_before=rows[-1].id if len(found) > MOST else "",
        newest=rows[0].id if rows else "",
    )


@get("/conversations", role=Role.VIEWER)
async def get_conversations(request: AnyRequest) -> Template:
    """The page; where htmx asks, the rows, or those after `before`."""
    form, wrong = _form(request), ""
    try:
        results = await _results(request, form)
    except Invalid as error:
        wrong = str(error)
        results = Results(rows=[], names=DisplayNames({}, {}), next_before="", newest="")
    await note_list(request, "search", (each.id for each in results.rows))
    shown: dict[str, Any] = {"form": form, "results": results, "wrong": wrong, "every": _EVERY_SECONDS}
    if request.headers.get("hx-request"):
        part = "conversation_rows" if request.query_params.get("before") else "conversation_results"
        return page(request, f"parts/{part}.html", **shown)
    return page(
        request,
        "conversations.html",
        title="Conversations",
        choices=await filter_choices(request),
        ends=ENDS,
        ratings=RATINGS,
        days={"today": "today", "yesterday": "yesterday", "week": "last 7 days", "month": "last 30 days"},
        status_code=400 if wrong else 200,
        **shown,
    )


@get("/conversations/new", role=Role.VIEWER)
async def get_new_conversations(request: AnyRequest, after: Text) -> Template:
    """How many there are by now that the page does not show."""
    form = _form(request)
    pool = services_of(request).pool
    newer = await find_conversations(
        pool, await _wanted(request, form), after=after or None, limit=MOST_NEW + 1
    )
    return page(
        request,
        "parts/conversations_new.html",
        form=form,
        count=min(len(newer), MOST_NEW),
        more=len(newer) > MOST_NEW,
        newest=after,
        every=_EVERY_SECONDS,
    )


HANDLERS = (get_conversations, get_new_conversations)
