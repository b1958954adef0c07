"""`agentchat export` of many large messages, in each format: memory that does not grow, and the same rows."""

import sys
from pathlib import Path

import psycopg
import pytest

from agentchat.contracts.ids import make_id
from tests import installed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROWS = 100_000
MEGABYTES = {"jsonl": 150, "csv": 150, "parquet": 350}
COUNT = "import duckdb, sys; print(duckdb.sql(f\"SELECT count(DISTINCT content) FROM '{sys.argv[1]}'\"))"
MEASURE = """
import resource
from agentchat.ops.main import app
app(standalone_mode=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
_INSERT = """
INSERT INTO messages
SELECT n::text, 'c', %s, 'user', repeat(md5(n::text), 128), NULL, '2026-11-21T09:00:00Z', n::text, n
  FROM generate_series(1, %s) AS n
"""


async def test_large_exports_take_little_memory(migrated_database_url: str, tmp_path: Path) -> None:
    account = make_id()
    with psycopg.connect(migrated_database_url) as conn:
        conn.execute(_INSERT, [account, ROWS])
    python = await installed.python_packages("duckdb", "duckdb", "duckdb>=2")
    (packages,) = Path(python).parents[1].glob("lib/python*/site-packages")
    environ = {"AGENTCHAT_DATABASE_URL": migrated_database_url, "PYTHONPATH": str(packages)}
    used = {}
    for form in MEGABYTES:
        file = tmp_path / f"messages.{form}"
        arguments = ("export", "messages", "--account", account, "--format", form, "-o", str(file))
        used[form] = int(
            await installed.run_json(tmp_path, sys.executable, "-c", MEASURE, *arguments, **environ)
        )
        counted = await installed.run(tmp_path, python, "-c", COUNT, str(file))
        assert f" {ROWS} " in counted, form
    assert {form: megabytes for form, megabytes in used.items() if megabytes > MEGABYTES[form]} == {}
