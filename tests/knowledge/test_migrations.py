"""The tables, with pgvector and where it cannot be had."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import agentchat.directory.migrations
from agentchat.knowledge.embedding import vectors
from agentchat.knowledge.migrations import migrate
from agentchat.ops.service_processes import Servers
from agentchat.runtime.database_roles import ROLES
from agentchat.runtime.postgres import open_pool
from tests.knowledge.shelf import Shelf
from tests.knowledge.test_hybrid_search import FEET, MONEY, Topics

TABLES = ["chunk_embeddings", "chunks", "documents", "knowledge_bases"]


def list_tables(url: str) -> list[str]:
    with psycopg.connect(url) as owner:
        rows = owner.execute("SELECT tablename FROM pg_tables WHERE tablename = ANY(%s) ORDER BY 1", [TABLES])
        return [name for (name,) in rows]


@pytest.fixture
def plain_database_url(servers: Servers) -> Iterator[str]:
    """A database whose owner may not install extensions, as some managed servers have it."""
    with psycopg.connect(servers.database_url, autocommit=True) as admin:
        admin.execute("CREATE ROLE plain_owner LOGIN CREATEROLE PASSWORD 'plain'")
        admin.execute("CREATE DATABASE plain TEMPLATE template0 OWNER plain_owner")
        for role in ROLES:  # another owner on this server may have made them
            if admin.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).fetchone() is None:
                admin.execute(f"CREATE ROLE {role} NOLOGIN")
            admin.execute(f"GRANT {role} TO plain_owner WITH ADMIN TRUE, INHERIT TRUE, SET TRUE")
    yield make_conninfo(servers.database_url, dbname="plain", user="plain_owner", password="plain")
    with psycopg.connect(servers.database_url, autocommit=True) as admin:
        admin.execute("DROP DATABASE plain WITH (FORCE)")
        admin.execute("DROP ROLE plain_owner")


async def test_migrations_can_be_repeated(database_url: str) -> None:
    await agentchat.directory.migrations.migrate(database_url)
    await migrate(database_url)
    await migrate(database_url)
    assert list_tables(database_url) == TABLES


async def test_without_pgvector_search_is_by_full_text(plain_database_url: str) -> None:
    await agentchat.directory.migrations.migrate(plain_database_url)
    await migrate(plain_database_url)
    assert list_tables(plain_database_url) == TABLES[1:]
    async with open_pool(plain_database_url) as pool:
        shelf = await Shelf.create(pool)
        assert await vectors.check_usable(pool, Topics(FEET, MONEY)) is None
        assert await vectors.check_usable(pool, None) is None
        await shelf.put("a.txt", "Parcels leave the warehouse in Utrecht.")
        assert await shelf.find_texts("Where is the warehouse?") == [
            "Parcels leave the warehouse in Utrecht."
        ]


async def test_pgvector_that_comes_later_is_used_from_the_next_migration_on(
    plain_database_url: str, servers: Servers
) -> None:
    await agentchat.directory.migrations.migrate(plain_database_url)
    await migrate(plain_database_url)
    with psycopg.connect(make_conninfo(servers.database_url, dbname="plain"), autocommit=True) as admin:
        admin.execute("CREATE EXTENSION vector")
    await migrate(plain_database_url)
    assert list_tables(plain_database_url) == TABLES
    embedder = Topics(FEET, MONEY)
    async with open_pool(plain_database_url) as pool:
        shelf = await Shelf.create(pool)
        assert await vectors.check_usable(pool, embedder) is embedder
        await shelf.put("a.txt", "Boots are waxed.", embedder)
        assert await shelf.find_texts("trainers", embedder=embedder) == ["Boots are waxed."]


async def test_vectors_are_indexed_by_the_next_migration(migrated_database_url: str) -> None:
    embedder = Topics(FEET, MONEY)
    async with open_pool(migrated_database_url) as pool:
        shelf, other = await Shelf.create(pool), await Shelf.create(pool)
        await shelf.put("a.txt", "Boots are waxed.", embedder)
        for number in range(100):
            await other.put(f"{number}.txt", f"Shoes of size {number} are out.", embedder)
        await migrate(migrated_database_url)
        assert await shelf.find_texts("trainers", embedder=embedder) == ["Boots are waxed."]
    with psycopg.connect(migrated_database_url) as owner:
        plan = owner.execute(
            "SET enable_seqscan = off; SET enable_sort = off; EXPLAIN SELECT chunk_id FROM chunk_embeddings"
            " WHERE embedder = 'topics/2' ORDER BY embedding::vector(2) <=> '[1,0]'::vector(2) LIMIT 5"
        )
        while plan.nextset():
            pass
        assert "chunk_embeddings_hnsw_" in str(plan.fetchall())
