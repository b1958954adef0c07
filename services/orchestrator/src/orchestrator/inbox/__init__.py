"""Requests out of the queue.

- `inbox`: a delivery, from its receipt to its acknowledgement
- `retry`: what cannot be answered here is put back; `exhausted`: what was delivered too often
"""
