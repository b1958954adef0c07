"""A conversation without a message for longer than its agent keeps it is deleted, with its files."""

import asyncio
import json
from urllib.parse import urlsplit

import psycopg

from agentchat.ops import folder_secrets
from agentchat.ops.servers.postgres_server import Cluster
from tests.harness import RunningStack
from tests.system.calling import MakeAgent
from tests.system.test_files import upload
from tests.system.test_users import run_admin


async def age(stack: RunningStack, conversation_id: str) -> None:
    """Make a conversation 31 days old, in the log and in the read model."""
    key = folder_secrets.load_or_create_secrets(stack.folder.secrets).servers_key
    url = Cluster(stack.folder, key).url(urlsplit(stack.environment.database_url).port or 0)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as owner:
        (at,) = await (await owner.execute(_THEN)).fetchone() or ("",)
        named = {"id": conversation_id, "at": at}
        assert (await owner.execute(_AGE, named)).rowcount > 0
        async with asyncio.timeout(20):
            while (await owner.execute(_AGE_ROW, named)).rowcount == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def test_old_conversation_goes_and_new_one_stays(stack: RunningStack, make_agent: MakeAgent) -> None:
    caller = await make_agent("demo-echo")
    file_id = await upload(caller, b"The code is 4711.", "code.txt")
    old, new = [
        (await caller.chat("hello", attachments=files)).json()["conversation_id"]
        for files in ([{"file_id": file_id}], [])
    ]
    await age(stack, old)
    asked = "agents", "retention", caller.agent_id, "--days", "30", "--json"
    assert json.loads(await asyncio.to_thread(run_admin, stack, *asked))["conversations"] == 1
    await asyncio.to_thread(run_admin, stack, "PATCH", f"/agents/{caller.agent_id}", "retention_days=30")
    async with asyncio.timeout(60):
        for path in (f"/v1/conversations/{old}", f"/v1/files/{file_id}"):
            while (await caller.get(path)).status_code != 404:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
    assert (await caller.get(f"/v1/conversations/{new}")).status_code == 200


_THEN = """
SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC' - interval '31 days', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
"""
_AGE = """
UPDATE conversation_events
   SET at = %(at)s::timestamptz, state = convert_to(
       (convert_from(state, 'UTF8')::jsonb || jsonb_build_object('at', %(at)s::text))::text, 'UTF8')
 WHERE originator_id = %(id)s
"""
_AGE_ROW = "UPDATE conversations SET created_at = %(at)s, updated_at = %(at)s WHERE conversation_id = %(id)s"
