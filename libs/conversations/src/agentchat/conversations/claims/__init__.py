"""Which request has a run, when it is sent more than once.

- `idempotency`: by a key of the caller
"""
