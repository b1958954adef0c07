"""The groups and commands of `agentchat admin`."""

from ops.admin import accounts, agents, conversations, keys, knowledge, plans, records, secrets
from ops.admin.options import group

app = group(
    "Accounts, plans, keys, agents and knowledge bases of a system. Works on the running stack, or on "
    "AGENTCHAT_DATABASE_URL, AGENTCHAT_NATS_URL, AGENTCHAT_REDIS_URL with AGENTCHAT_SECRET_KEY. Every change "
    "leaves an audit row."
)
app.add_typer(accounts.app, name="accounts")
app.add_typer(plans.app, name="plans")
app.add_typer(keys.app, name="keys")
app.add_typer(agents.app, name="agents")
app.add_typer(knowledge.app, name="knowledge")
app.add_typer(conversations.app, name="conversations")
app.add_typer(secrets.app, name="secrets")
app.command()(records.audit)
app.command()(records.usage)
