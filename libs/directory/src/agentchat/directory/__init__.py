"""Read accounts, plans, API keys and agents from Postgres, and seal their secrets.

`caller.Callers` resolves an API key for each request of the gateway, `agent_config` loads the agent of a run,
`agent_draft` validates an agent before it is saved, `migrations` creates the tables. All writes are in the
library `administration`.
"""
