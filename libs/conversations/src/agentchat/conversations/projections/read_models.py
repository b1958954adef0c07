"""List the read models of this program."""

from agentchat.conversations.projections import (
    approvals_table,
    conversation_files_table,
    conversations_table,
    feedback_table,
    messages_table,
    runs_table,
    search_table,
    tools_table,
)

PROJECTIONS = (
    conversations_table.PROJECTION,
    messages_table.PROJECTION,
    runs_table.PROJECTION,
    tools_table.PROJECTION,
    approvals_table.PROJECTION,
    search_table.PROJECTION,
    feedback_table.PROJECTION,
    conversation_files_table.PROJECTION,
)
