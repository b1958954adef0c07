"""`agentchat replay trace` into a file and on a terminal."""

import asyncio
import os
import pty
import sys
from collections.abc import Mapping

import pytest

from contracts import ids
from conversations.event_store.store import ConversationStore
from tests.gateway import stored

TEXT = "\x1b[2J \x9b31m \x85 \u202e \x7f ü"


class Account:
    account_id = ids.new_id()
    agent = ids.new_id()


async def shown(trace_id: str, environ: Mapping[str, str], *, on_terminal: bool) -> bytes:
    """What the command writes."""
    ours, its = pty.openpty() if on_terminal else os.pipe()
    command = (sys.executable, "-m", "ops.main", "replay", "trace", trace_id, "--as", "json")
    process = await asyncio.create_subprocess_exec(*command, stdout=its, env=environ)
    os.close(its)
    async with asyncio.timeout(30):
        assert await process.wait() == 0
    written = b""
    try:
        while piece := os.read(ours, 4096):
            written += piece
    except OSError:  # so a terminal ends
        pass
    finally:
        os.close(ours)
    return written.replace(b"\r\n", b"\n")


@pytest.mark.requirement("SAFE-TO-SHOW", "RERENDER")
async def test_a_trace_is_shown_as_it_was_and_drives_no_terminal(
    store: ConversationStore, migrated_database_url: str
) -> None:
    asked = stored.request(Account())
    await stored.write(store, asked, *stored.ended(asked, TEXT, ids.new_id()))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")}
    environ = {**kept, "AGENTCHAT_DATABASE_URL": migrated_database_url}
    filed, seen = await asyncio.gather(
        *(shown(asked.trace_id, environ, on_terminal=on_terminal) for on_terminal in (False, True))
    )
    assert "\x9b31m \x85 \u202e \x7f ü" in filed.decode()
    assert "\\u009b31m \\u0085 \\u202e \\u007f ü" in seen.decode()
