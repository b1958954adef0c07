"""Split an agent's conversations between versions, compare them, and promote one."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec

from agentchat.administration import admin_agents
from agentchat.administration.admin import Admin, translate_errors
from agentchat.administration.admin_values import Agent, Version
from agentchat.administration.agent_rows import AgentRow, find_agent
from agentchat.administration.audit_rows import record
from agentchat.administration.canary_comparison import VersionVerdict, compare
from agentchat.administration.checked_input import parse_time, validate
from agentchat.administration.query_parameters import Against, Compared, RunsSince
from agentchat.administration.row_pages import fetch_all
from agentchat.contracts.admin_errors import Conflict, Invalid
from agentchat.conversations.postgres_sessions import lift_time_limits, read_server_time
from agentchat.conversations.queries.time_travel import log_time
from agentchat.directory.canary_split import Shares
from agentchat.runtime.postgres import Connection

MOST_SHARE = 10_000
_DAYS = 30
_COMPARE_SECONDS = 60.0

_Versions = Annotated[
    dict[str, Any],
    msgspec.Meta(
        min_length=1,
        max_length=16,
        description="The share of each version, by its number.",
        extra_json_schema={
            "propertyNames": {"pattern": "^[1-9][0-9]{0,8}$"},
            "additionalProperties": {"type": "integer", "minimum": 1, "maximum": MOST_SHARE},
        },
    ),
]


class CanaryShares(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The share of conversations of each version: {"12": 95, "13": 5}."""

    versions: _Versions


class VersionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a version's ended runs; None if there are none.

    `share` is the current one. `seconds` and `tokens` are means of a run, `rating` that of `rated` runs.
    """

    version: int
    share: int | None
    runs: int
    completed: int
    failed: int
    completed_share: float | None
    seconds: float | None
    tokens: float | None
    rated: int
    rating: float | None


class CanaryComparison(VersionVerdict, frozen=True, kw_only=True):
    """A comparison of an agent's `version` with another (`against`), with the figures of all its versions.

    `version` and `against` are None, and the decision is `undecided`, if it is unclear which to compare.
    `promote` is the version to use by the decision; None while it is undecided. `more` is the number of
    further conversations of `version` that would decide it if the differences stay as they are; None if it
    is decided or unknown.
    """

    agent_id: str
    versions: tuple[VersionFigures, ...]
    version: int | None = None
    against: int | None = None
    promote: int | None = None


async def get(
    admin: Admin,
    agent_id: str,
    *,
    since: RunsSince | None = None,
    version: Compared | None = None,
    against: Against | None = None,
) -> CanaryComparison:
    """Compare two versions of an agent by the conversations that each answered: better, worse or undecided.

    Counts the runs that were requested since then, or within 30 days. Raises NotFound, Invalid.
    """
    begin = await _get_start(admin, since)
    async with admin.transaction(_COMPARE_SECONDS) as conn:
        await lift_time_limits(conn)
        row = await find_agent(conn, agent_id)
        await _check_known(conn, row, {"version": version, "against": against})
        figures = await _load_figures(conn, row, begin)
        before, after = _choose_versions(figures, version, against)
        if before is None or after is None:
            unclear = ("fewer than two versions have a share: set version and against",)
            return CanaryComparison(
                agent_id=row.agent_id, versions=figures, decision="undecided", reasons=unclear
            )
        if before == after:
            raise Invalid("version", "must differ from against")
        compared = await compare(conn, row, before=before, after=after, since=begin)
    preferred = {"better": after, "same": after, "worse": before}
    return CanaryComparison(
        agent_id=row.agent_id,
        versions=figures,
        version=after,
        against=before,
        promote=preferred.get(compared.decision),
        **{name: getattr(compared, name) for name in VersionVerdict.__struct_fields__},
    )


async def put(admin: Admin, agent_id: str, shares: CanaryShares) -> tuple[VersionFigures, ...]:
    """Set which versions answer an agent's conversations, and how much of them.

    A conversation keeps its version. Changes of the agent make versions that answer nobody until they have a
    share. Raises NotFound, Invalid.
    """
    shares = validate(shares)
    begin = await _get_start(admin, None)
    async with admin.transaction() as conn:
        row = await find_agent(conn, agent_id, lock=True)
        await _check_shares(conn, row.agent_id, shares.versions)
        await _store(admin, conn, row, shares.versions)
    async with admin.connection() as conn:
        return await _load_figures(conn, row, begin)


async def promote(admin: Admin, agent_id: str, version: Version) -> Agent:
    """Let one version answer all conversations: finish a canary, or return from it.

    An older version is restored, as a new version. Raises NotFound, Invalid, Conflict.
    """
    async with admin.connection() as conn:
        newest = (await find_agent(conn, agent_id, version)).current_version
    if version != newest:
        newest = (await admin_agents.restore(admin, agent_id, version)).version
    async with admin.transaction() as conn:
        row = await find_agent(conn, agent_id, lock=True)
        if row.version != newest:
            raise Conflict(f"version {row.version} was made meanwhile; look at it, and promote again")
        await _store(admin, conn, row, None)
    return await admin_agents.get(admin, agent_id)


async def _get_start(admin: Admin, text: str | None) -> str:
    if text is None:
        with translate_errors():
            now = datetime.fromisoformat(await read_server_time(admin.pool))
        return log_time((now - timedelta(days=_DAYS)).isoformat())
    return parse_time("since", text)


def _choose_versions(
    figures: Sequence[VersionFigures], after: int | None, before: int | None
) -> tuple[int | None, int | None]:
    """Choose the version before (default: largest share) and after (default: newest with a share)."""
    shares = {each.version: each.share for each in figures if each.share is not None}
    if before is None:
        before = max((each for each in shares if each != after), key=shares.__getitem__, default=None)
    if after is None:
        after = max((each for each in shares if each != before), default=None)
    return before, after


async def _check_known(conn: Connection, row: AgentRow, named: Mapping[str, int | None]) -> None:
    """Check that the agent has these versions. Raises Invalid."""
    cursor = await conn.execute(_KNOWN, [row.agent_id, [each for each in named.values() if each is not None]])
    known = {version for (version,) in await cursor.fetchall()}
    for name, version in named.items():
        if version is not None and version not in known:
            raise Invalid(name, "is no version of the agent")


async def _check_shares(conn: Connection, agent_id: str, versions: dict[str, Any]) -> None:
    for version, share in versions.items():
        if not version.isascii() or not version.isdecimal() or version[0] == "0" or len(version) > 9:
            raise Invalid(f"versions.{version[:20]}", "is no number of a version")
        if not isinstance(share, int) or isinstance(share, bool) or not 1 <= share <= MOST_SHARE:
            raise Invalid(f"versions.{version}", f"must be a whole number from 1 to {MOST_SHARE}")
    cursor = await conn.execute(_KNOWN, [agent_id, [int(version) for version in versions]])
    known = {str(version) for (version,) in await cursor.fetchall()}
    if unknown := versions.keys() - known:
        raise Invalid(f"versions.{min(unknown, key=int)}", "is no version of the agent")


async def _store(admin: Admin, conn: Connection, row: AgentRow, shares: Shares | None) -> None:
    """Store the shares, with an audit row if they change."""
    cursor = await conn.execute(_STORE, [None if shares is None else _encode(shares), row.agent_id])
    before = (await cursor.fetchone() or (None,))[0]
    if before != (None if shares is None else dict(shares)):
        shown = {"canary": before}, {"canary": shares}
        await record(conn, admin.actor, "canary", "agent", row.agent_id, before=shown[0], after=shown[1])


def _encode(shares: Shares) -> str:
    return msgspec.json.encode(shares).decode()


async def _load_figures(conn: Connection, row: AgentRow, since: str) -> tuple[VersionFigures, ...]:
    named = {"agent": row.agent_id, "account": row.account_id, "since": since}
    return tuple(await fetch_all(conn, VersionFigures, _FIGURES, named))


_KNOWN = "SELECT version FROM agent_versions WHERE agent_id = %s AND version = ANY (%s)"

_STORE = """
UPDATE agents AS g SET canary = %s FROM (SELECT agent_id, canary FROM agents) AS old
 WHERE g.agent_id = %s AND old.agent_id = g.agent_id RETURNING old.canary
"""

_FIGURES = """
SELECT version, share, coalesce(runs, 0), coalesce(runs - failed - cancelled, 0), coalesce(failed, 0),
       (runs - failed - cancelled)::float8 / runs, milliseconds / 1000 / runs, tokens::float8 / runs,
       coalesce(rated, 0), rating
  FROM (SELECT agent_version AS version, sum(runs)::bigint AS runs, sum(failed)::bigint AS failed,
               sum(cancelled)::bigint AS cancelled, sum(milliseconds)::float8 AS milliseconds,
               sum(input_tokens + output_tokens + cache_read_tokens + cache_creation_tokens) AS tokens
          FROM usage_by_day
         WHERE account_id = %(account)s AND agent_id = %(agent)s AND day >= left(%(since)s, 10)
           AND agent_version > 0
         GROUP BY agent_version) AS ran
  FULL JOIN (SELECT key::integer AS version, value::text::integer AS share
               FROM agents, json_each(canary) WHERE agent_id = %(agent)s) AS shared USING (version)
  LEFT JOIN (SELECT agent_version AS version, count(*) AS rated, avg(score) AS rating
               FROM (SELECT trace_id, avg(score) AS score FROM feedback
                      WHERE account_id = %(account)s GROUP BY trace_id) AS given
               JOIN runs USING (trace_id)
              WHERE agent_id = %(agent)s AND ended_at >= left(%(since)s, 10)
              GROUP BY agent_version) AS rated USING (version)
 ORDER BY version
"""
