"""Show the runs of all accounts as a table, and as CSV."""

from litestar import get
from litestar.response import Stream, Template

from agentchat.administration.admin_run_list import build_run_filter
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.audit_reads import record_export, record_list_read
from agentchat.console.shared.console_roles import Role
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
from agentchat.conversations.queries.find_runs import RUNS, RunFilter, find_runs

_ROWS = 50

TABLE = TableLayout(
    path="/runs",
    first=TableColumn("trace_id", "Run"),
    columns=(
        TableColumn("state", "State", "state"),
        TableColumn("code", "Error"),
        TableColumn("agent_id", "Agent", "agent"),
        TableColumn("agent_version", "Version", "version"),
        TableColumn("account_id", "Account", "account"),
        TableColumn("user_id", "User", "user"),
        TableColumn("model", "Model"),
        TableColumn("form", "Form"),
        TableColumn("tokens", "Tokens", "tokens"),
        TableColumn("input_tokens", "Input", "tokens"),
        TableColumn("output_tokens", "Output", "tokens"),
        TableColumn("cache_read_tokens", "Cache reads", "tokens"),
        TableColumn("cache_creation_tokens", "Cache writes", "tokens"),
        TableColumn("cost", "Cost", "money"),
        TableColumn("duration_ms", "Duration", "duration"),
        TableColumn("first_token_ms", "First token", "duration"),
        TableColumn("rating", "Rating", "rating"),
        TableColumn("tool_calls", "Tool calls", "number"),
        TableColumn("requested_at", "Requested", "clock"),
        TableColumn("started_at", "Started", "clock"),
        TableColumn("ended_at", "Ended", "clock"),
        TableColumn("last_activity", "Last activity", "time"),
    ),
    shown=(
        *("state", "code", "agent_id", "account_id", "user_id", "tokens", "cost", "duration_ms"),
        *("first_token_ms", "rating", "last_activity"),
    ),
    filters=(
        *("state", "code", "agent", "version", "account", "user", "model", "rating", "when"),
        *("since", "until", "min_cost", "min_tokens", "min_duration_ms"),
    ),
    sorts=RUNS.keys,
)


async def _build_filter(request: AnyRequest, address: TableAddress) -> RunFilter:
    """Build the filter of an address. Raises Invalid, DatabaseUnavailable."""
    return build_run_filter(get_admin(request), **await address.read_filters(request))


@get("/runs", role=Role.VIEWER, filtered=True)
async def get_runs(request: AnyRequest) -> Template:
    """Show the page; for htmx, what was found, or the rows after a place."""
    address, wrong = TABLE.read_address(request), ""
    after = request.query_params.get("after") or None
    pool = get_services(request).pool
    page = TablePage(address=address)
    try:
        wanted = await _build_filter(request, address)
        found = await find_runs(
            pool,
            wanted,
            order=address.order,
            after=after,
            limit=_ROWS + 1,
            counts=not is_asking_for_rows(request),
        )
        page = await build_page(request, address, found, _ROWS)
    except (Invalid, ValueError) as error:
        wrong = str(error)
    await record_list_read(
        request, "runs", (each.conversation_id for each in page.rows if each.conversation_id)
    )
    return await render_table(request, "run", "Runs", page, wrong=wrong)


@get("/runs.csv", role=Role.VIEWER, filtered=True)
async def get_runs_csv(request: AnyRequest) -> Stream:
    """Stream the runs of an address as CSV. Raises Invalid, DatabaseUnavailable."""
    address = TABLE.read_address(request)
    wanted, pool = await _build_filter(request, address), get_services(request).pool
    await record_export(request, "runs", address.build_query())
    columns = (TABLE.first, TableColumn("conversation_id", "Conversation"), *address.columns)
    return stream_csv(
        "runs",
        pool,
        columns,
        lambda after, limit: find_runs(pool, wanted, order=address.order, after=after, limit=limit),
    )


HANDLERS = (get_runs, get_runs_csv)
