"""Search the conversations of all accounts, in a table with filters."""

from typing import Annotated

from litestar import get
from litestar.params import Parameter
from litestar.response import Stream, Template

from agentchat.administration.admin_conversations import build_search
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.audit_reads import record_export, record_list_read
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.rendering import render_page
from agentchat.console.shared.table_view import (
    TableAddress,
    TableColumn,
    TableLayout,
    TablePage,
    build_page,
    is_asking_for_rows,
    render_table,
    stream_csv,
)
from agentchat.contracts.admin_errors import Invalid
from agentchat.contracts.ids import make_id
from agentchat.conversations.queries.conversation_search import (
    CONVERSATIONS,
    ConversationSearch,
    find_conversations,
)

MOST = 25
MOST_NEW = 100
_EVERY_SECONDS = 2

Text = Annotated[str, Parameter(max_length=500)]

TABLE = TableLayout(
    path="/conversations",
    first=TableColumn("title", "Conversation"),
    columns=(
        TableColumn("state", "Last run", "state"),
        TableColumn("agent_id", "Agent", "agent"),
        TableColumn("account_id", "Account", "account"),
        TableColumn("user_id", "User", "user"),
        TableColumn("tokens", "Tokens", "tokens"),
        TableColumn("cost", "Cost", "money"),
        TableColumn("rating", "Rating", "rating"),
        TableColumn("message_count", "Messages", "number"),
        TableColumn("created_at", "Started", "time", sorts_by="created"),
        TableColumn("updated_at", "Last activity", "time", sorts_by="last_activity"),
    ),
    shown=(
        "state",
        "agent_id",
        "account_id",
        "user_id",
        "tokens",
        "cost",
        "rating",
        "message_count",
        "updated_at",
    ),
    filters=(
        *("q", "account", "agent", "when", "end", "rating", "user", "tool", "tag", "since", "until"),
        *("min_cost", "min_tokens"),
    ),
    sorts=CONVERSATIONS.keys,
)


async def _build_search(request: AnyRequest, address: TableAddress) -> ConversationSearch:
    """Build the search of an address. Raises Invalid, DatabaseUnavailable."""
    filters = await address.read_filters(request)
    return build_search(get_admin(request), address.filters["q"] or None, str(address.order), **filters)


@get("/conversations", role=Role.VIEWER, filtered=True)
async def get_conversations(request: AnyRequest) -> Template:
    """Show the page; for htmx, what was found, or the rows after a place."""
    address, wrong = TABLE.read_address(request), ""
    after = request.query_params.get("after") or None
    page = TablePage(address=address)
    try:
        wanted = await _build_search(request, address)
        found = await find_conversations(
            get_services(request).pool,
            wanted,
            before=after,
            limit=MOST + 1,
            counts=not is_asking_for_rows(request),
        )
        page = await build_page(request, address, found, MOST)
    except (Invalid, ValueError) as error:
        wrong = str(error)
    await record_list_read(request, "search", (each.id for each in page.rows))
    return await render_table(
        request,
        "conversation",
        "Conversations",
        page,
        wrong=wrong,
        newest=make_id(),
        every=_EVERY_SECONDS,
    )


@get("/conversations/new", role=Role.VIEWER, filtered=True)
async def get_new_conversations(request: AnyRequest, after: Text) -> Template:
    """Show how many conversations are newer than the page."""
    address = TABLE.read_address(request)
    wanted = await _build_search(request, address)
    newer = (
        await find_conversations(get_services(request).pool, wanted, after=after or None, limit=MOST_NEW + 1)
    ).rows
    return render_page(
        request,
        "parts/conversations_new.html",
        page=TablePage(address=address),
        count=min(len(newer), MOST_NEW),
        more=len(newer) > MOST_NEW,
        newest=after,
        every=_EVERY_SECONDS,
    )


@get("/conversations.csv", role=Role.VIEWER, filtered=True)
async def get_conversations_csv(request: AnyRequest) -> Stream:
    """Stream the conversations of an address as CSV. Raises Invalid, DatabaseUnavailable."""
    address = TABLE.read_address(request)
    wanted, pool = await _build_search(request, address), get_services(request).pool
    await record_export(request, "search", address.build_query())

    return stream_csv(
        "conversations",
        pool,
        (TableColumn("id", "Id"), TABLE.first, *address.columns),
        lambda after, limit: find_conversations(pool, wanted, before=after, limit=limit),
    )


HANDLERS = (get_conversations, get_new_conversations, get_conversations_csv)
