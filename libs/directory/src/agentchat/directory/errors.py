"""Define the directory's errors; errors of input are in `contracts.admin_errors`."""


class SealBroken(Exception):  # noqa: N818 - an outcome
    """Sealed bytes were changed, belong to another owner, or were sealed under an unknown key."""


class RunEnded(Exception):  # noqa: N818 - an outcome
    """The run that needs the agent has not started, or has ended."""
