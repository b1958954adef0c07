"""Requests out of the queue: `inbox` handles deliveries, `exhausted` what was delivered too often."""
