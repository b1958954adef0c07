"""Idempotency keys: which run a repeated request belongs to.

- `idempotency`: claim a key; `claim_writer`: insert many new claims by one statement
"""
