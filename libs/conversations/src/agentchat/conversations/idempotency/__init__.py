"""Idempotency keys: which run a repeated request belongs to.

- `idempotency_keys`: claim a key; `claim_writer`: insert many new claims by one statement
"""
