"""What is measured, outside the product; prints tables and asserts nothing. The service beside hand-written
baselines: `make bench`. `counting`: one chat. `replay`: the readers of the log, `make bench-replay`."""
