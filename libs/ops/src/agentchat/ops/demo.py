"""Define the demo's accounts and agents. Their ids never change, so a second start finds them again."""

import msgspec

ACCOUNT_ID = "019a0000-0000-7000-8000-000000000001"
AGENT_ID = "019a0000-0000-7000-8000-000000000011"
RETRIEVAL_AGENT_ID = "019a0000-0000-7000-8000-000000000014"
OPENAI_AGENT_ID = "019a0000-0000-7000-8000-000000000015"
STARTER_ACCOUNT_ID = "019a0000-0000-7000-8000-000000000002"
STARTER_AGENT_ID = "019a0000-0000-7000-8000-000000000012"
LOAD_ACCOUNT_ID = "019a0000-0000-7000-8000-000000000003"
LOAD_AGENT_ID = "019a0000-0000-7000-8000-000000000013"

SHOP_SERVER = "demo-shop"
OFFLINE_MODEL = "demo-shop-1?delay_ms=10"  # so that a stream is seen to be one
OFFLINE_LOAD_MODEL = "demo-load"
OFFLINE_KEY = "offline"
"""The offline model asks for a key, as providers do, and takes any."""
ANTHROPIC_MODEL = "claude-sonnet-5-5"
OPENAI_MODEL = "gpt-5-mini"

SHOP_PROMPT = """\
You are the assistant of a small online shop. You help customers with their orders, with finding products \
and with support, and the shop's staff with its figures.

Look things up with your tools instead of guessing, and name the ids you found. Ask before you change \
anything, such as cancelling an order. Answer briefly and in a friendly tone."""

POLICY_PROMPT = """\
You are the assistant of a small online shop and answer questions about its policies: returns, delivery, \
warranty, payment, privacy and care of gear. Answer briefly and in a friendly tone."""

LOAD_PROMPT = "You answer briefly."


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """The demo data that `ops.seed` creates. A provider's key is None if the offline model answers."""

    api_key: str
    starter_api_key: str
    load_api_key: str
    mcp_url: str
    anthropic_key: str | None = None
    openai_key: str | None = None

    def __repr__(self) -> str:
        """Leave out the keys."""
        return f"Demo(mcp_url={self.mcp_url!r})"
