"""Who may log into the embedded Postgres, as SQL that is safe to repeat.

The superuser has no password, so nobody can log in as it. The owner of the database migrates it and may make
roles; each service has its own role as login.
"""

from ops.folder_secrets import login_password
from runtime.roles import MEMBERS, OPERATOR, ROLES, SERVICES, role_of

SUPERUSER = "postgres"
OWNER = "agentchat_owner"

LOGINS = (OWNER, OPERATOR, *map(role_of, SERVICES))


def login_statements(key: str, database: str, *, superuser: bool = False) -> tuple[str, ...]:
    """For one server, each a line, to be run by its superuser within `database`."""
    passwords = {role: login_password(key, "postgres", role) for role in LOGINS}
    own = f"'{login_password(key, 'postgres', SUPERUSER)}'" if superuser else "NULL"
    return (
        *(_made(role) for role in (OWNER, *ROLES)),
        *(f"ALTER ROLE {role} LOGIN PASSWORD '{password}'" for role, password in passwords.items()),
        f"ALTER ROLE {OWNER} CREATEROLE",
        f"ALTER ROLE CURRENT_USER PASSWORD {own}",
        *(f"GRANT {role} TO {OWNER} WITH ADMIN TRUE, INHERIT TRUE, SET TRUE" for role in ROLES),
        *(f"GRANT {role} TO {', '.join(members)}" for role, members in MEMBERS.items()),
        f"ALTER DATABASE {database} OWNER TO {OWNER}",
        "CREATE EXTENSION IF NOT EXISTS vector",
    )


def _made(role: str) -> str:
    there = f"EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}')"
    return f"DO $$ BEGIN IF NOT {there} THEN CREATE ROLE {role}; END IF; END $$"
