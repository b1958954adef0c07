"""The roles of the database: who owns it, who acts in it, and as what a process acts.

Each service has a role of its own, which is its login where the operator lets it be one. Such a login owns
nothing, and there is no other role that it could go back to. What each may do stands in `ops.table_rights`.
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
"""What the operator's commands act as: it reads everything and changes no event."""

OPERATOR = "agentchat_operator"
"""A login for people and commands; a member of SERVICE_ROLE."""


def role_of(service: Service) -> str:
    return f"agentchat_{service}"


ROLES = (SERVICE_ROLE, OPERATOR, *map(role_of, SERVICES))
"""All that migrations make. None of them can log in by itself."""

MEMBERS = {
    SERVICE_ROLE: (OPERATOR,),
}
"""Whose members are who."""


def names_role(options: str) -> bool:
    return "-c role=" in options or "-crole=" in options
