"""The agents that fuzzed messages go to: a few words at once, so that a run costs little."""

from agentchat.administration.agent_versions import create_agent
from agentchat.directory.agent_validation import AgentDraft
from agentchat.directory.secret_encryption import Sealer
from agentchat.ops import demo, folder_secrets
from agentchat.runtime.postgres import acquire_connection, open_pool
from tests.fuzz.schemathesis_run import Target
from tests.harness import RunningStack


async def target_of(stack: RunningStack) -> Target:
    """The stack with an agent for each of two accounts."""
    found = stack.environment
    return Target(
        base_url=found.base_url,
        api_key=found.load_api_key,
        agent_id=await _quick_agent(stack, demo.LOAD_ACCOUNT_ID),
        peer_key=found.api_key,
        peer_agent_id=await _quick_agent(stack, demo.ACCOUNT_ID),
        admin_token=found.admin_token,
    )


async def _quick_agent(stack: RunningStack, account_id: str) -> str:
    sealer = Sealer.from_setting(folder_secrets.load_or_create_secrets(stack.folder.secrets).secret_key)
    draft = AgentDraft(name="fuzz", model="demo-load?deltas=2&delay_ms=0", provider_key="offline")
    async with (
        open_pool(stack.environment.database_url, role=None) as pool,
        acquire_connection(pool, seconds=10) as conn,
    ):
        return await create_agent(conn, sealer, account_id, draft, actor="fuzz")
