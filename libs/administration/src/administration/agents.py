"""Agents: versioned, so that an answer tells its configuration, and an old one can be had again."""

from administration import conversations, holdings
from administration.admin import Admin
from administration.errors import Conflict, Invalid, NotFound
from administration.reading import bounded, checked, identifier, page_of
from administration.shown import agent_of
from administration.times import utc
from administration.values import Agent, AgentChanges, AgentVersion, Deletion, NewAgent, Page, Use
from contracts.ids import is_uuid
from contracts.messages import AgentCheck
from directory import administration as directory
from directory import agent_draft
from directory.administration import agent_rows
from directory.administration.agent_rows import Row, config_of
from directory.agents import Retrieval
from knowledge import administration as knowledge
from net_guard import AddressRefused
from runtime.postgres import Connection

_OURS = ("account_id", "id")


async def create(admin: Admin, new: NewAgent) -> Agent:
    """At version 1. Raises Invalid (for the account and the knowledge base too), Conflict."""
    new = checked(new)
    _check_base_url(admin, new.base_url)
    fields = {name: getattr(new, name) for name in new.__struct_fields__ if name not in _OURS}
    account_id = new.account_id.lower()
    async with admin.transaction() as conn:
        if await directory.find_account(conn, account_id) is None:
            raise Invalid.of("account_id", "there is no such account")
        await _check_retrieval(conn, account_id, new.retrieval)
        agent_id = await directory.create_agent(
            conn,
            admin.sealer,
            account_id,
            agent_draft.AgentDraft(**fields),
            actor=admin.actor,
            agent_id=new.id and new.id.lower(),
        )
        return agent_of(admin, await found(conn, agent_id))


async def page(
    admin: Admin, account_id: str | None = None, *, after: str | None = None, limit: int = 20
) -> Page[Agent]:
    """Current versions, by id; those of one account where it is given. Raises NotFound for the account."""
    account_id = account_id and identifier("account", account_id)
    limit = bounded(limit)
    async with admin.connection() as conn:
        if account_id and await directory.find_account(conn, account_id) is None:
            raise NotFound("account", account_id)
        rows = await agent_rows.list_agents(conn, account_id, after=after or "", limit=limit + 1)
    shown = [agent_of(admin, row) for row in rows]
    return page_of(shown, limit, shown[:limit][-1].id if shown else None)


async def get(admin: Admin, agent_id: str, version: int | None = None) -> Agent:
    """The current version, or another. Raises NotFound."""
    async with admin.connection() as conn:
        return agent_of(admin, await found(conn, agent_id, version))


async def change(admin: Admin, agent_id: str, changes: AgentChanges) -> Agent:
    """A new version, unless only `disabled` changes. Raises NotFound, Invalid."""
    changes = checked(changes)
    given = changes.given()
    _check_base_url(admin, given.get("base_url"))
    disabled = given.pop("disabled", None)
    async with admin.transaction() as conn:
        account_id, agent_id = await owner(conn, agent_id)
        if given:
            await _check_retrieval(conn, account_id, given.get("retrieval"))
            await directory.change_agent(
                conn,
                admin.sealer,
                account_id,
                agent_id,
                agent_draft.AgentChanges(**given),
                actor=admin.actor,
            )
        if disabled is not None:
            await directory.set_agent_disabled(conn, account_id, agent_id, disabled, actor=admin.actor)
        return agent_of(admin, await found(conn, agent_id))


async def versions(
    admin: Admin, agent_id: str, *, after: str | None = None, limit: int = 20
) -> Page[AgentVersion]:
    """The newest first. Raises NotFound, Invalid for an `after` that is no version."""
    limit = bounded(limit)
    if after is not None and not (after.isdecimal() and len(after) < 10):
        raise Invalid.of("after", "must be the number of a version")
    async with admin.connection() as conn:
        current = (await found(conn, agent_id)).current_version
        rows = await agent_rows.list_versions(
            conn, agent_id.lower(), before=None if after is None else int(after), limit=limit + 1
        )
    shown = [
        AgentVersion(
            version=row.version,
            current=row.version == current,
            created_at=utc(row.created_at),
            name=row.name,
            model=row.model,
        )
        for row in rows
    ]
    return page_of(shown, limit, str(shown[:limit][-1].version))


async def restore(admin: Admin, agent_id: str, version: int) -> Agent:
    """A new version with the configuration and the secrets of an old one. Raises NotFound, Invalid."""
    async with admin.transaction() as conn:
        account_id, agent_id = await owner(conn, agent_id)
        old = await found(conn, agent_id, version)
        settings = config_of(old.config)
        _check_base_url(admin, settings.base_url)
        await _check_retrieval(conn, account_id, settings.retrieval)
        await directory.restore_agent(conn, account_id, agent_id, version, actor=admin.actor)
        return agent_of(admin, await found(conn, agent_id))


async def delete(admin: Admin, agent_id: str, *, force: bool = False, dry_run: bool = False) -> Deletion:
    """With all its versions. Refused while it is at a run or answered a conversation last.

    With `force` the conversations stay, for other agents to go on with, and runs may fail. What begins in the
    same moment is not seen. Raises NotFound, Conflict, Unavailable.
    """
    if not (dry_run or force):
        async with admin.connection() as conn:
            await owner(conn, agent_id)
        await conversations.caught_up(admin)
    async with admin.transaction() as conn:
        account_id, agent_id = await owner(conn, agent_id)
        row = await found(conn, agent_id)
        used = await holdings.of_agent(conn, account_id, agent_id)
        if not dry_run:
            if used and not force:
                raise _in_use(used)
            await directory.delete_agent(conn, account_id, agent_id, actor=admin.actor)
    return Deletion(
        kind="agent",
        id=agent_id,
        dry_run=dry_run,
        needs_force=dry_run and not force and bool(used),
        goes=(Use("versions", row.current_version),),
        used_by=used,
    )


async def check(admin: Admin, agent_id: str) -> AgentCheck:
    """Whether its provider and its tool servers work, by asking them: takes up to 20 s.

    Raises NotFound, Unavailable without a bus.
    """
    bus = admin.need_bus()
    async with admin.connection() as conn:
        row = await found(conn, agent_id)
    return await bus.check_agent(row.account_id, row.agent_id, row.version)


async def owner(conn: Connection, agent_id: str) -> tuple[str, str]:
    """The agent's account and its own id as it is stored. Raises NotFound."""
    agent_id = identifier("agent", agent_id)
    account_id = await agent_rows.account_of(conn, agent_id)
    if account_id is None:
        raise NotFound("agent", agent_id)
    return account_id, agent_id


async def found(conn: Connection, agent_id: str, version: int | None = None) -> Row:
    """A version, or the current one. Raises NotFound for the agent and for the version."""
    account_id, agent_id = await owner(conn, agent_id)
    if version is not None and not 1 <= version < 2**31:
        raise NotFound("version", str(version)[:20])
    row = await agent_rows.version_row(conn, account_id, agent_id, version)
    if row is None:
        raise NotFound("version", str(version))
    return row


def _in_use(uses: tuple[Use, ...]) -> Conflict:
    listed = " and ".join(f"{use.count} {use.kind if use.count > 1 else use.kind[:-1]}" for use in uses)
    return Conflict(f"the agent has {listed}; force deletes it all the same", uses)


def _check_base_url(admin: Admin, url: str | None) -> None:
    """Whether a call may go there, as far as that is known without asking a name server. Raises Invalid."""
    if url is None:
        return
    try:
        admin.model_hosts.check_url(url)
    except AddressRefused as error:
        raise Invalid.of("base_url", f"may not be called: {error}") from None
    except ValueError:
        return  # not well-formed: the configuration's own check says how


async def _check_retrieval(conn: Connection, account_id: str, retrieval: Retrieval | None) -> None:
    """The knowledge base is there, and stays until the transaction ends. Raises Invalid."""
    if retrieval is None:
        return
    base_id = retrieval.knowledge_base_id
    if not is_uuid(base_id) or not await knowledge.keep_knowledge_base(conn, account_id, base_id):
        raise Invalid.of("retrieval.knowledge_base_id", "the account has no such knowledge base")
