"""Describe the columns of a list once: its header, cells, choice of columns and CSV follow from them."""

import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec
from litestar.response import Response, Stream, Template

from agentchat.administration.checked_input import RUN_STATES, WAITING
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest
from agentchat.console.shared.directory_lists import list_filter_choices
from agentchat.console.shared.periods import PERIODS, compute_bounds
from agentchat.console.shared.rendering import render_page
from agentchat.contracts.admin_errors import Invalid
from agentchat.conversations.postgres_sessions import read_server_time
from agentchat.conversations.projections.feedback_table import RATINGS
from agentchat.conversations.queries.sorted_list import (
    BY_ACTIVITY,
    MOST,
    RowCount,
    RowPage,
    SortKey,
    SortOrder,
)
from agentchat.directory.display_names import DisplayNames, load_display_names
from agentchat.ops.export.row_writers import format_csv_cell
from agentchat.runtime.postgres import Pool

Kind = Literal[
    "text",
    "state",
    "account",
    "agent",
    "user",
    "version",
    "number",
    "tokens",
    "money",
    "duration",
    "rating",
    "time",
    "clock",
]
_CSV = "text/csv; charset=utf-8"
_BY_RANK = SortOrder("rank")
_CSV_ROWS = 1_000
_MAX_TEXT = 500


class TableColumn(msgspec.Struct, frozen=True):
    """A column: a field of the rows, its label, and how a cell shows the value.

    `sorts_by` is the sort key, if it is not named like the field.
    """

    key: str
    label: str
    kind: Kind = "text"
    sorts_by: str = ""

    @property
    def order(self) -> SortOrder:
        """Return the order by this column, the greatest first."""
        return SortOrder(self.sorts_by or self.key)

    @property
    def is_number(self) -> bool:
        """Return True if the column is aligned to the right."""
        return self.kind in ("number", "tokens", "money", "duration", "rating")


class TableLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A list as a page shows it: its columns, those shown by default, and the names of its filters.

    `first` is the column that is always shown, in the page's own way.
    """

    path: str
    first: TableColumn
    columns: tuple[TableColumn, ...]
    shown: tuple[str, ...]
    filters: tuple[str, ...]
    sorts: Mapping[str, SortKey]

    def read_address(self, request: AnyRequest) -> "TableAddress":
        """Read the filters, the order and the columns of a request's address."""
        given = request.query_params
        filters = {name: given.get(name, "").replace("\0", "").strip()[:_MAX_TEXT] for name in self.filters}
        asked = {key for text in given.getall("columns", []) for key in text.split(",")}
        columns = tuple(each for each in self.columns if each.key in (asked or self.shown))
        default = _BY_RANK if filters.get("q") else BY_ACTIVITY
        order = SortOrder.parse(given.get("sort", ""))
        return TableAddress(
            table=self,
            filters=filters,
            columns=columns or self.columns,
            order=order if order.column in self.sorts else default,
            default=default,
        )


_API_NAMES = {"account": "account_id", "agent": "agent_id", "version": "agent_version"}
_NUMBERS: dict[str, Callable[[str], float]] = {
    "version": int,
    "min_cost": float,
    "min_tokens": int,
    "min_duration_ms": int,
}


def _parse_number(name: str, text: str) -> float:
    try:
        value = _NUMBERS[name](text)
    except ValueError:
        value = -1
    if not 0 <= value < 2**53:
        raise Invalid(name, "must be a number of 0 or more")
    return value


class TableAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters in the address of a page: filters, "" for any, the order and the columns."""

    table: TableLayout
    filters: dict[str, str]
    columns: tuple[TableColumn, ...]
    order: SortOrder
    default: SortOrder = BY_ACTIVITY

    @property
    def named(self) -> dict[str, str]:
        """The filters that are set."""
        return {name: value for name, value in self.filters.items() if value}

    def build_query(self, **more: str) -> str:
        """Build the query string of this page, with `more` parameters in place of its own."""
        keys = tuple(each.key for each in self.columns)
        given = {
            **self.filters,
            "sort": self._format_order(self.order),
            "columns": "" if keys == self.table.shown else ",".join(keys),
        }
        return urlencode({name: value for name, value in (given | more).items() if value})

    def build_sort_query(self, column: TableColumn) -> str:
        """Build the query string of this page sorted by a column, the other way round if it is already."""
        is_other_way = self.order == column.order
        order = SortOrder(column.order.column, ascending=is_other_way)
        return self.build_query(sort=self._format_order(order))

    def _format_order(self, order: SortOrder) -> str:
        return "" if order == self.default else str(order)

    async def read_filters(self, request: AnyRequest) -> dict[str, Any]:
        """Return the filters but for words by their names in the admin API, `when` as `since` and `until`.

        Raises Invalid, DatabaseUnavailable.
        """
        given: dict[str, Any] = {
            _API_NAMES.get(name, name): _parse_number(name, text) if name in _NUMBERS else text
            for name, text in self.named.items()
            if name not in ("q", "when")
        }
        if self.filters["when"] in PERIODS:
            now = await read_server_time(get_services(request).pool)
            given["since"], given["until"] = compute_bounds(self.filters["when"], now)
        return given


class TablePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list for its template.

    `total` is None if nothing is counted. `next_after` is the place of its last row, "" on the last page.
    """

    address: TableAddress
    rows: Sequence[Any] = ()
    names: DisplayNames = DisplayNames({}, {})
    total: RowCount | None = None
    next_after: str = ""

    @property
    def is_partly_sorted(self) -> bool:
        """Return True if only the newest rows are sorted by the column."""
        address = self.address
        return self.has_more_than_most and not address.table.sorts[address.order.column].has_index

    @property
    def has_more_than_most(self) -> bool:
        """Return True if the CSV has not all rows."""
        return self.total is not None and not self.total.is_exact and self.total.count >= MOST


async def build_page(
    request: AnyRequest, address: TableAddress, found: RowPage[Any], limit: int
) -> TablePage:
    """Build a page of `limit` rows, of one more where more follow. Raises DatabaseUnavailable."""
    shown, given = found.rows[:limit], address.filters
    names = await _load_names(get_services(request).pool, shown, {given["account"]}, {given["agent"]})
    return TablePage(
        address=address,
        rows=shown,
        names=names,
        total=found.total,
        next_after=found.places[limit - 1] if len(found.rows) > limit else "",
    )


async def _load_names(
    pool: Pool, rows: Sequence[Any], accounts: Set[str] = frozenset(), agents: Set[str] = frozenset()
) -> DisplayNames:
    """Load the names of the accounts and agents of rows, and of some more."""
    return await load_display_names(
        pool,
        {each.account_id for each in rows} | accounts,
        {each.agent_id for each in rows if each.agent_id} | agents,
    )


def is_asking_for_rows(request: AnyRequest) -> bool:
    """Return True if htmx asks for the rows after a place, which need no total."""
    return bool(request.headers.get("hx-request") and request.query_params.get("after"))


async def render_table(
    request: AnyRequest, kind: str, title: str, page: TablePage, *, wrong: str, **more: Any
) -> Template:
    """Render the page of a list; for htmx, what was found, or the rows after a place.

    The templates are named by the `kind` of its rows, such as "run". `wrong` says what is wrong with the
    filters. Raises DatabaseUnavailable.
    """
    shown: dict[str, Any] = {"page": page, "wrong": wrong, **more}
    if request.headers.get("hx-request"):
        part = "rows" if is_asking_for_rows(request) else "results"
        return render_page(request, f"parts/{kind}_{part}.html", **shown)
    return render_page(
        request,
        f"{kind}s.html",
        title=title,
        choices=await list_filter_choices(request),
        ends=RUN_STATES,
        states=(*RUN_STATES, WAITING),
        ratings=RATINGS,
        status_code=400 if wrong else 200,
        **shown,
    )


def stream_csv(
    name: str,
    pool: Pool,
    columns: Sequence[TableColumn],
    find: Callable[[str | None, int], Awaitable[RowPage[Any]]],
) -> Stream:
    """Stream the first `MOST` rows of a list as CSV; `find` loads those after a place.

    After the id of an agent or account follows its name.
    """
    return Stream(_iterate_csv(pool, columns, find), media_type=_CSV, headers=_build_csv_headers(name))


def respond_with_csv(name: str, rows: Iterable[Sequence[object]]) -> Response[str]:
    """Return rows as a CSV file; the first has the columns' names."""
    return Response(_write_csv(rows), media_type=_CSV, headers=_build_csv_headers(name))


def _build_csv_headers(name: str) -> dict[str, str]:
    return {"cache-control": "no-store", "content-disposition": f'attachment; filename="{name}.csv"'}


async def _iterate_csv(
    pool: Pool, columns: Sequence[TableColumn], find: Callable[[str | None, int], Awaitable[RowPage[Any]]]
) -> AsyncIterator[str]:
    yield _write_csv([[name for each in columns for name in _list_csv_names(each)]])
    after = None
    for _ in range(MOST // _CSV_ROWS):
        page = await find(after, _CSV_ROWS)
        names = await _load_names(pool, page.rows)
        yield _write_csv(
            [cell for each in columns for cell in _list_csv_cells(each, row, names)] for row in page.rows
        )
        if len(page.rows) < _CSV_ROWS:
            return
        after = page.places[-1]


def _list_csv_names(column: TableColumn) -> tuple[str, ...]:
    return (column.key, column.kind) if column.kind in ("account", "agent") else (column.key,)


def _list_csv_cells(column: TableColumn, row: Any, names: DisplayNames) -> tuple[object, ...]:
    value = getattr(row, column.key)
    if column.kind == "account":
        return value, names.accounts.get(value)
    if column.kind == "agent":
        return value, names.agents.get(value)
    return (value,)


def _write_csv(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([format_csv_cell(value) for value in row] for row in rows)
    return text.getvalue()
