"""The `agentchat` command, and the stack that it runs: servers and services as data, started and supervised.

`ops.stack` describes the processes, `ops.supervisor` keeps them running, `ops.up` is the command over both.
`ops.demo_env` finds a running one.
"""
