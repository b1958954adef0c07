"""Every read model of this program."""

from conversations.projections import (
    approvals_table,
    conversations_table,
    feedback_table,
    messages_table,
    open_runs_table,
    runs_table,
    search_table,
    storage_table,
    tools_table,
    usage_table,
)

PROJECTIONS = (
    conversations_table.PROJECTION,
    messages_table.PROJECTION,
    open_runs_table.PROJECTION,
    usage_table.PROJECTION,
    runs_table.PROJECTION,
    tools_table.PROJECTION,
    approvals_table.PROJECTION,
    storage_table.PROJECTION,
    search_table.PROJECTION,
    feedback_table.PROJECTION,
)
