"""Deliveries from the queue of requests: `inbox` handles them, `exhausted_deliveries` ends hopeless ones."""
