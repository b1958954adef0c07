"""Provide what every process needs: settings, logs, telemetry, health, draining, Postgres connections.

Each module stands alone and is imported by name, so that a process loads only what it uses. `uvicorn_server`
needs uvicorn; `runtime.postgres` and `runtime.migrations` need psycopg.
"""
