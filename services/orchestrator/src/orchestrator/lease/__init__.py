"""Holding what this worker has, and saying nothing for what it may not have any more.

- `heartbeat`: renewal of leases, places and slots, signs of life; `load`: how full the worker is
- `fence`: no frame for a run whose lease may be lost
"""
