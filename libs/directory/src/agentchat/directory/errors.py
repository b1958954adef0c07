"""Outcomes apart from `contracts.admin_errors`: neither is wrong input.

SealBroken: wrong key material, or tampering.
RunEnded: an agent was asked for on behalf of a run that is over.
"""


class SealBroken(Exception):  # noqa: N818 - an outcome
    """Sealed bytes were changed, belong to another owner, or were sealed under a key that is not at hand."""


class RunEnded(Exception):  # noqa: N818 - an outcome
    """The log has no run of that trace, or has its end."""
