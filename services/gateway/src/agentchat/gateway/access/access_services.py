"""Hold what the checks of all requests of a gateway share."""

import asyncio
from typing import Literal

import msgspec

from agentchat.directory.agent_names import AgentNames
from agentchat.directory.api_keys import Callers
from agentchat.directory.secrets import Sealer
from agentchat.gateway.access.account_bounds import AccountBounds
from agentchat.gateway.access.plan_limits import FigureCache
from agentchat.gateway.access.wrong_keys import WrongKeys
from agentchat.gateway.http.request_context import Connection
from agentchat.limits import Limiter
from agentchat.runtime.peers import Network
from agentchat.runtime.postgres import Pool


class AccessServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services that checks use.

    `sealer` opens the tokens of tool-runners, None where no key is set. `stream_form` is the default form;
    `stop` is set when the process ends.
    """

    pool: Pool
    callers: Callers
    agent_names: AgentNames
    wrong_keys: WrongKeys
    trusted_proxies: tuple[Network, ...]
    limiter: Limiter
    figures: FigureCache
    account_bounds: AccountBounds
    sealer: Sealer | None
    stream_form: Literal[1, 2]
    stop: asyncio.Event


def get_access(connection: Connection) -> AccessServices:
    """Return the access services of the application."""
    access = connection.app.state.access
    assert isinstance(access, AccessServices)
    return access
