"""SealBroken is apart from `contracts.admin_errors`: wrong key material or tampering, not wrong input."""


class SealBroken(Exception):  # noqa: N818 - an outcome
    """Sealed bytes were changed, belong to another owner, or were sealed under a key that is not at hand."""
