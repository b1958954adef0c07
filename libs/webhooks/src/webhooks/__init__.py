"""Webhook endpoints of accounts, how far each has come in the log, and what was delivered.

- `notices`: which events of the log are notices; `bodies`: what an endpoint is sent of them. Both are pure.
- `endpoints`, `deliveries`: what the API does
- `outbox`: what the notifier reads and writes
- `migrations`: the tables
"""
