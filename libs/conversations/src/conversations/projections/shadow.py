"""Tables of read models next to the live ones, in a schema of their own, and the swap with these.

A shadow's position is kept next to the live ones', under the name that `stored_as` gives. Services make, fill
and drop shadows themselves; only `swap_read_model`, in its owner's right, changes which table is live. A
shadow belongs to a role of its own, the live table to another, which no service may take: what a maker might
have hung on it (an index on an expression) runs with that role's rights, and what would run with those of
its readers (a view, a policy) keeps it from becoming live.
"""

from typing import Literal

from psycopg import sql

from conversations.projections import log_cursors
from conversations.projections.projection import Projection
from conversations.projections.shards import ALL_SHARDS
from runtime.postgres import Connection
from runtime.roles import READ_MODELS_ROLE

Schema = Literal["rebuilding", "verifying"]

TABLES = """
CREATE TABLE read_models (name text PRIMARY KEY);
INSERT INTO read_models (name)
VALUES ('conversations'), ('messages'), ('open_runs'), ('usage'), ('runs'), ('tools'), ('approvals'),
       ('storage');
GRANT SELECT ON read_models TO agentchat_service;
CREATE SCHEMA rebuilding;
CREATE SCHEMA verifying;
GRANT USAGE, CREATE ON SCHEMA rebuilding, verifying TO agentchat_service, agentchat_read_models;
GRANT CREATE ON SCHEMA rebuilding TO agentchat_live_read_models;

GRANT CREATE ON SCHEMA public TO agentchat_live_read_models;
DO $$
DECLARE model text;
BEGIN
    FOR model IN SELECT name FROM public.read_models LOOP
        EXECUTE format('ALTER TABLE public.%I OWNER TO agentchat_live_read_models', model);
    END LOOP;
END $$;

CREATE FUNCTION swap_read_model(model text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    change text;
    changes text[];
    shadow oid;
BEGIN
    IF NOT EXISTS (SELECT FROM public.read_models WHERE name = model) THEN
        RAISE insufficient_privilege USING MESSAGE = format('%s is no read model', model);
    END IF;
    EXECUTE format('LOCK TABLE rebuilding.%I IN ACCESS EXCLUSIVE MODE', model);
    shadow := to_regclass(format('rebuilding.%I', model));
    IF EXISTS (SELECT FROM pg_class WHERE oid = shadow AND (
        relkind <> 'r' OR relrowsecurity OR relhasrules OR relhastriggers OR relhassubclass
        OR EXISTS (SELECT FROM pg_inherits WHERE inhrelid = shadow)
    )) THEN
        RAISE insufficient_privilege USING MESSAGE = format('rebuilding.%s is no plain table', model);
    END IF;
    SELECT array_agg(format('GRANT %s ON public.%I TO %s', privilege_type, model, grantee::regrole))
      INTO changes
      FROM pg_class, aclexplode(relacl)
     WHERE oid = to_regclass(format('public.%I', model)) AND grantee NOT IN (0, relowner);
    EXECUTE format('DROP TABLE IF EXISTS public.%I', model);
    EXECUTE format('ALTER TABLE rebuilding.%I OWNER TO agentchat_live_read_models', model);
    FOR change IN SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
      FROM pg_class, aclexplode(relacl) WHERE oid = shadow AND grantee <> relowner
    LOOP
        EXECUTE format('REVOKE ALL ON rebuilding.%I FROM %s CASCADE', model, change);
    END LOOP;
    EXECUTE format('ALTER TABLE rebuilding.%I SET SCHEMA public', model);
    FOREACH change IN ARRAY coalesce(changes, '{}') LOOP
        EXECUTE change;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION swap_read_model(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION swap_read_model(text) TO agentchat_service;
REVOKE CREATE ON SCHEMA public FROM agentchat_live_read_models;
"""
"""A new read model adds its name to `read_models` and gives its table to `agentchat_live_read_models`. Only
plain tables become live, with the grants of the one before alone, and out of their makers' hands.
"""


def new_read_model(name: str, tables: str) -> str:
    """The SQL of a step that adds a read model to the baseline's; the next projector fills it."""
    return f"""{tables}
INSERT INTO read_models (name) VALUES ('{name}');
GRANT CREATE ON SCHEMA public TO agentchat_live_read_models;
ALTER TABLE {name} OWNER TO agentchat_live_read_models;
REVOKE CREATE ON SCHEMA public FROM agentchat_live_read_models;
"""  # noqa: S608 - a name of ours


def stored_as(projection: Projection, schema: Schema) -> str:
    """The name of its position, and of what it parks."""
    return f"{projection.name}@{schema}"


async def prepare(conn: Connection, projection: Projection, schema: Schema) -> int:
    """The position that a shadow of this version has come to; 0 for one that is made now, and empty.

    Within an open transaction.
    """
    name = stored_as(projection, schema)
    row = await (await conn.execute(_PLACE, [f"{schema}.{projection.name}", name])).fetchone()
    if row is not None and row[0] == projection.version and row[2]:
        return int(row[1])
    await drop(conn, projection, schema)
    await conn.execute(sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(schema)))
    await conn.execute(projection.tables.encode())
    await conn.execute("SET LOCAL search_path TO DEFAULT")
    made, owner = sql.Identifier(schema, projection.name), sql.Identifier(READ_MODELS_ROLE)
    await conn.execute(sql.SQL("ALTER TABLE {} OWNER TO {}").format(made, owner))
    await conn.execute(_BEGIN, [name, projection.version])
    return 0


async def drop(conn: Connection, projection: Projection, schema: Schema) -> None:
    """A shadow and what was stored of it, if there is one."""
    await conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(schema, projection.name)))
    await _forget(conn, stored_as(projection, schema))


async def enter(conn: Connection, schema: Schema) -> None:
    """For the open transaction, the bare name of a read model is that of its shadow."""
    await conn.execute(sql.SQL("SET LOCAL search_path TO {}, public").format(sql.Identifier(schema)))


async def forget(conn: Connection, conversation_id: str, position: int, *, most: int) -> bool:
    """Remove an erased conversation from shadows that have not come to its erasure, at `position`.

    Up to `most` rows of each, within an open transaction; returns whether there may be more. Nobody may take
    up again a rebuild that was killed.
    """
    more = False
    for (name,) in await (await conn.execute(_NOT_YET_ERASED, [position])).fetchall():
        table, _, schema = name.partition("@")
        row = await (
            await conn.execute("SELECT to_regclass(%s) IS NOT NULL", [f"{schema}.{table}"])
        ).fetchone()
        if row == (True,):
            where = sql.Identifier(schema, table)
            deleted = await conn.execute(_FORGET.format(where), [conversation_id, most])
            more = more or deleted.rowcount == most
    return more


async def swap(conn: Connection, projection: Projection) -> None:
    """Within an open transaction: the table rebuilt becomes the live one, with its position in all shards."""
    name = stored_as(projection, "rebuilding")
    await conn.execute("SELECT swap_read_model(%s)", [projection.name])
    await conn.execute("DELETE FROM parked_events WHERE projection = %s", [projection.name])
    await conn.execute(
        "UPDATE parked_events SET projection = %s WHERE projection = %s", [projection.name, name]
    )
    row = await (await conn.execute(_BECOME_LIVE, [projection.name, name])).fetchone()
    assert row is not None, "`prepare` stores it"
    await log_cursors.place(conn, projection.name, projection.version, ALL_SHARDS, row[0])
    await _forget(conn, name)


async def _forget(conn: Connection, name: str) -> None:
    await conn.execute("DELETE FROM parked_events WHERE projection = %s", [name])
    await conn.execute("DELETE FROM projection_positions WHERE name = %s", [name])


_PLACE = """
SELECT version, position, to_regclass(%s) IS NOT NULL FROM projection_positions WHERE name = %s FOR UPDATE
"""

_NOT_YET_ERASED = """
SELECT name FROM projection_positions
 WHERE position < %s AND (name LIKE '%%@rebuilding' OR name LIKE '%%@verifying') ORDER BY name FOR UPDATE
"""

_FORGET = sql.SQL(
    "DELETE FROM {0} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {0} WHERE conversation_id = %s LIMIT %s))"
)

_BEGIN = "INSERT INTO projection_positions (name, version, position) VALUES (%s, %s, 0)"

_BECOME_LIVE = """
INSERT INTO projection_positions (name, version, position)
SELECT %s, 0, position FROM projection_positions WHERE name = %s
ON CONFLICT (name) DO UPDATE SET version = 0, position = excluded.position
RETURNING position
"""
