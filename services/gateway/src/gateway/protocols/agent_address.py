"""Protocols whose address names the agent: `/…/agents/{agent}/…`, by its id or a name that it alone has."""

from typing import Annotated

from litestar.params import PathParameter

AgentName = Annotated[str, PathParameter(description="The agent's id, or a name that it alone has.")]
