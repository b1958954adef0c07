"""Serve a chat by hand-written code, as well as we can: FastAPI, asyncpg, and the SDK or aiohttp.

It saves both messages in Postgres, the user's before it answers and the reply before `done`, and streams the
events that the service does. It has no bus, log, takeover, limits, tenants or tools. Each form is a process
in an environment of its own (bench/requirements.lock) and imports nothing of ours.
"""
