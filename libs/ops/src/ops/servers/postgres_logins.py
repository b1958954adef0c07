"""Who may log into the embedded Postgres, as SQL that is safe to repeat.

The superuser has no password, so nobody can log in as it. The owner of the database migrates it and may make
roles; each service has its own role as login.
"""

import hashlib

from ops.folder_secrets import login_password
from runtime.roles import MEMBERS, OPERATOR, ROLES, SERVICES, role_of

SUPERUSER = "postgres"
OWNER = "agentchat_owner"

LOGINS = (OWNER, OPERATOR, *map(role_of, SERVICES))


class Logins:
    """The statements for one server, each a line, to be run by its superuser within `database`."""

    def __init__(self, key: str, database: str, *, superuser: bool = False) -> None:
        passwords = {role: login_password(key, "postgres", role) for role in LOGINS}
        own = login_password(key, "postgres", SUPERUSER) if superuser else None
        self.statements = (
            *(_made(role) for role in (OWNER, *ROLES)),
            *(f"ALTER ROLE {role} LOGIN PASSWORD '{password}'" for role, password in passwords.items()),
            f"ALTER ROLE {OWNER} CREATEROLE",
            f"ALTER ROLE CURRENT_USER PASSWORD {_quoted(own)}",
            *(f"GRANT {role} TO {OWNER} WITH ADMIN TRUE, INHERIT TRUE, SET TRUE" for role in ROLES),
            *(f"GRANT {role} TO {', '.join(members)}" for role, members in MEMBERS.items()),
            f"ALTER DATABASE {database} OWNER TO {OWNER}",
            "CREATE EXTENSION IF NOT EXISTS vector",
        )
        self.digest = hashlib.sha256("\n".join(self.statements).encode()).hexdigest()


def _made(role: str) -> str:
    there = f"EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}')"
    return f"DO $$ BEGIN IF NOT {there} THEN CREATE ROLE {role}; END IF; END $$"


def _quoted(password: str | None) -> str:
    return f"'{password}'" if password else "NULL"
