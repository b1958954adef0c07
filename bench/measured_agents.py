"""Agents of the demo's account without limits, whose model provider is `bench.upstream`."""

from administration.admin_versions import create_agent
from contracts.ids import new_id
from directory.agent_draft import AgentDraft
from directory.agents import McpServer
from directory.secrets import Sealer
from ops import demo, folder_secrets
from runtime.postgres import connection, open_pool
from tests.harness import RunningStack


def name_of(model: str) -> str:
    """The name of a model's agent."""
    return f"Bench {model}"


async def make_agents(stack: RunningStack, *models: str) -> dict[str, str]:
    """An agent for each model, which has the demo's tools where the model calls one; their ids by model."""
    sealer = Sealer.from_setting(folder_secrets.keep(stack.folder.secrets).secret_key)
    found = stack.environment
    shop = McpServer(name=demo.SHOP_SERVER, url=f"{found.mcp_base_url}/api/mcp")
    made = {}
    async with open_pool(found.database_url, role=None) as pool, connection(pool, seconds=10) as conn:
        for model in models:
            draft = AgentDraft(
                name=name_of(model),
                model=model,
                system_prompt=demo.LOAD_PROMPT,
                parameters={"max_tokens": 4096},
                mcp_servers=(shop,) if "tool=" in model else (),
            )
            made[model] = new_id()
            await create_agent(conn, sealer, demo.LOAD_ACCOUNT_ID, draft, actor="bench", agent_id=made[model])
    return made
