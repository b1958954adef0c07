"""Name the database roles: the owner's, the operator's, the analyst's, and one for each service.

An operator may make a service's role its login. Such a login owns nothing and cannot change to another role.
The rights of each role are in `ops.table_grants`.
"""

from typing import Literal, TypeAlias

Service: TypeAlias = Literal["gateway", "orchestrator", "tool_runner", "projector", "console"]

SERVICES: tuple[Service, ...] = (
    "gateway",
    "orchestrator",
    "tool_runner",
    "projector",
    "console",
)

SERVICE_ROLE = "agentchat_service"
"""The role of the operator's commands: it reads everything and changes no event."""

OPERATOR = "agentchat_operator"
"""A login for people and commands; a member of SERVICE_ROLE."""


ANALYST = "agentchat_analyst"
"""A login for analysts, which reads the views of the schema `analytics` and nothing else."""


def get_role(service: Service) -> str:
    """Return the name of a service's role."""
    return f"agentchat_{service}"


ROLES = (SERVICE_ROLE, OPERATOR, ANALYST, *map(get_role, SERVICES))
"""The roles that migrations create. None of them can log in by itself."""

MEMBERS = {
    SERVICE_ROLE: (OPERATOR,),
}
"""The members of roles."""

DEFAULTS = {
    ANALYST: ("default_transaction_read_only = on", "statement_timeout = '5min'", "timezone = 'UTC'"),
}
"""The settings with which a role's sessions begin."""


def has_role_option(options: str) -> bool:
    """Return True if connection options set a role."""
    return "-c role=" in options or "-crole=" in options
