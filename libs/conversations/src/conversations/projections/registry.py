"""Every read model of this program."""

from conversations.projections import (
    approvals,
    conversations,
    messages,
    open_runs,
    runs,
    storage,
    tools,
    usage,
)

PROJECTIONS = (
    conversations.PROJECTION,
    messages.PROJECTION,
    open_runs.PROJECTION,
    usage.PROJECTION,
    runs.PROJECTION,
    tools.PROJECTION,
    approvals.PROJECTION,
    storage.PROJECTION,
)
