"""List the read models of this program."""

from agentchat.conversations.projections import (
    approvals_table,
    conversations_table,
    feedback_table,
    messages_table,
    runs_table,
    search_table,
    tools_table,
)
from agentchat.conversations.projections.projection import Projection
from agentchat.runtime.prices import Prices

PROJECTIONS = (
    conversations_table.PROJECTION,
    messages_table.PROJECTION,
    runs_table.PROJECTION,
    tools_table.PROJECTION,
    approvals_table.PROJECTION,
    search_table.PROJECTION,
    feedback_table.PROJECTION,
)


def build_projections(prices: Prices) -> tuple[Projection, ...]:
    """Return the read models, with the costs of runs at these prices."""
    priced = {
        each.name: each
        for each in (conversations_table.build_projection(prices), runs_table.build_projection(prices))
    }
    return tuple(priced.get(each.name, each) for each in PROJECTIONS)
