"""Benchmarks, outside the product; print tables and assert nothing. The service next to hand-written
baselines: `make bench`. `counting`: one chat. `replay`: the readers of the log, `make bench-replay`."""
