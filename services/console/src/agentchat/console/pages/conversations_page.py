"""Search the conversations of all accounts, the newest first or those with the last activity."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from litestar import get
from litestar.params import Parameter
from litestar.response import Template

from agentchat.administration.admin_conversations import ENDS, build_search
from agentchat.console.frame.access import AnyRequest, get_admin
from agentchat.console.frame.console_roles import Role
from agentchat.console.frame.directory_lists import list_filter_choices
from agentchat.console.frame.read_audit import record_list_read
from agentchat.console.frame.rendering import render_page
from agentchat.console.services import get_services
from agentchat.contracts.admin_errors import Invalid
from agentchat.conversations.database import read_server_time
from agentchat.conversations.projections.feedback_table import RATINGS
from agentchat.conversations.queries.conversation_search import (
    ConversationSearch,
    ConversationSearchResult,
    find_conversations,
)
from agentchat.directory.display_names import DisplayNames, load_display_names

MOST = 25
MOST_NEW = 100
_EVERY_SECONDS = 2
_FIELDS = ("q", "account", "agent", "day", "since", "until", "end", "rating", "tool", "tag", "user", "sort")
_DAYS = {"today": (0, None), "yesterday": (1, 1), "week": (6, None), "month": (29, None)}
"""For each choice: how many days before today it starts, and its length in days; None: until now."""

Text = Annotated[str, Parameter(max_length=500)]


class SearchForm(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the form and of the address; "" means any."""

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
    user: str = ""
    sort: str = ""

    @property
    def is_narrow(self) -> bool:
        """True if any condition is set."""
        return any(getattr(self, name) for name in _FIELDS if name != "sort")

    @property
    def is_by_activity(self) -> bool:
        """True if the conversation with the last activity is first."""
        return self.sort == "last_activity"

    def build_query(self, **more: str) -> str:
        """Build the query string of this search, with `more` fields."""
        given = {name: getattr(self, name) for name in _FIELDS} | more
        return urlencode({name: value for name, value in given.items() if value})

    def build_query_without(self, name: str) -> str:
        """Build the query string of this search without one field."""
        return self.build_query(**{name: ""})

    @property
    def named(self) -> dict[str, str]:
        """The fields that are set, without the text."""
        return {name: value for name in _FIELDS[1:] if (value := getattr(self, name))}


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A page of results.

    `next_before` is the cursor of the next page, `newest` that of the first row. `total` counts what a search
    for words found, or at least so many if not `is_total_exact`.
    """

    rows: list[ConversationSearchResult]
    names: DisplayNames
    next_before: str
    newest: str
    total: int | None = None
    is_total_exact: bool = True


def _read_form(request: AnyRequest) -> SearchForm:
    given = request.query_params
    return SearchForm(**{name: given.get(name, "").strip()[:500] for name in _FIELDS})


async def _build_filter(request: AnyRequest, form: SearchForm) -> ConversationSearch:
    """Build the filter of a search. Raises Invalid, DatabaseUnavailable."""
    since, until = form.since or None, form.until or None
    if form.day in _DAYS:
        since, until = _compute_bounds(form.day, await read_server_time(get_services(request).pool))
    wanted = build_search(
        form.account or None,
        form.agent or None,
        since,
        until,
        form.end or None,
        form.tool or None,
        form.tag or None,
        form.rating or None,
        form.sort or None,
        form.user or None,
        form.q or None,
    )
    return msgspec.structs.replace(wanted, account_ids=get_admin(request).limit["limited"])


def _compute_bounds(day: str, now: str) -> tuple[str, str | None]:
    """Compute start and end of a choice of days, in UTC."""
    before, length = _DAYS[day]
    today = datetime.fromisoformat(now).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    begin = today - timedelta(days=before)
    return begin.isoformat(), None if length is None else (begin + timedelta(days=length)).isoformat()


async def _find_results(request: AnyRequest, form: SearchForm) -> Results:
    pool = get_services(request).pool
    before = request.query_params.get("before") or None
    wanted = await _build_filter(request, form)
    found = await find_conversations(pool, wanted, before=before, limit=MOST + 1)
    rows = found.rows[:MOST]
    names = await load_display_names(
        pool,
        {each.account_id for each in rows} | ({form.account} if form.account else set()),
        {each.agent_id for each in rows if each.agent_id} | ({form.agent} if form.agent else set()),
    )
    return Results(
        rows=rows,
        names=names,
        next_before=rows[-1].get_place(wanted.sort) if len(found.rows) > MOST else "",
        total=found.total,
        is_total_exact=found.is_total_exact,
        newest=rows[0].id if rows and wanted.sort == "created" else "",
    )


@get("/conversations", role=Role.VIEWER, filtered=True)
async def get_conversations(request: AnyRequest) -> Template:
    """Show the page; for htmx, the rows, or those after `before`."""
    form, wrong = _read_form(request), ""
    try:
        results = await _find_results(request, form)
    except Invalid as error:
        wrong = str(error)
        results = Results(rows=[], names=DisplayNames({}, {}), next_before="", newest="")
    await record_list_read(request, "search", (each.id for each in results.rows))
    shown: dict[str, Any] = {"form": form, "results": results, "wrong": wrong, "every": _EVERY_SECONDS}
    if request.headers.get("hx-request"):
        part = "conversation_rows" if request.query_params.get("before") else "conversation_results"
        return render_page(request, f"parts/{part}.html", **shown)
    return render_page(
        request,
        "conversations.html",
        title="Conversations",
        choices=await list_filter_choices(request),
        ends=ENDS,
        ratings=RATINGS,
        days={"today": "today", "yesterday": "yesterday", "week": "last 7 days", "month": "last 30 days"},
        status_code=400 if wrong else 200,
        **shown,
    )


@get("/conversations/new", role=Role.VIEWER, filtered=True)
async def get_new_conversations(request: AnyRequest, after: Text) -> Template:
    """Show how many conversations are newer than the page."""
    form = _read_form(request)
    pool = get_services(request).pool
    wanted = await _build_filter(request, form)
    newer = (await find_conversations(pool, wanted, after=after or None, limit=MOST_NEW + 1)).rows
    return render_page(
        request,
        "parts/conversations_new.html",
        form=form,
        count=min(len(newer), MOST_NEW),
        more=len(newer) > MOST_NEW,
        newest=after,
        every=_EVERY_SECONDS,
    )


HANDLERS = (get_conversations, get_new_conversations)
