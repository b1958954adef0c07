"""Answer chat requests: take them from the queue, run the model loop, store events, publish frames.

In the order of a request: `inbox`, `starting`, `run` (with `models`, `tools`, `output`). `heartbeat` renews
leases and slots, `rpc` answers other processes. `worker` puts the process together from `services`.
"""
