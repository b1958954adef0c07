"""Runs the model loop and writes the conversation: requests in, events in the log, live frames out.

In the order of a request: `inbox`, `opening`, `run` (with `models`, `tools`, `output`); `heartbeat` renews
what the worker holds, and `rpc` answers other questions. `worker` puts it together, of the parts in
`orchestrator_services`.
"""
