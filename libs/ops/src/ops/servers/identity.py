"""As which user Postgres runs: it refuses root.

As root it runs in a user namespace of its own, where it sees itself as an ordinary user while files stay
root's; no account is made and no permission changed. Where there are no user namespaces, it runs as a user
that exists, with its data in a folder of that user within the run folder, and its program copied beside.
"""

import functools
import os
import pwd
import shutil
import subprocess
from typing import TypeAlias

import msgspec

from ops.errors import SetupError

_NAMESPACE = ("unshare", "--user", "--map-user=1000")
_USERS = ("postgres", "nobody")


class Own(msgspec.Struct, frozen=True):
    """The user who started the stack."""


class Namespace(msgspec.Struct, frozen=True):
    """Root, seen from inside as an ordinary user."""


class Other(msgspec.Struct, frozen=True):
    """An existing user, by id."""

    uid: int
    gid: int


Identity: TypeAlias = Own | Namespace | Other


@functools.cache
def identity() -> Identity:
    """What this machine allows. Raises SetupError where root can run no Postgres at all."""
    if os.geteuid() != 0:
        return Own()
    if _namespaces_work():
        return Namespace()
    for name in _USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return Other(user.pw_uid, user.pw_gid)
    raise SetupError(
        "Postgres does not run as root, and this machine has neither user namespaces nor a user named "
        + " or ".join(_USERS)
        + "; start the stack as an ordinary user, or set AGENTCHAT_DATABASE_URL"
    )


def prefixed(who: Identity, argv: tuple[str, ...]) -> tuple[str, ...]:
    """`argv`, entering the namespace first where that is the way."""
    return (*_NAMESPACE, *argv) if isinstance(who, Namespace) else argv


def _namespaces_work() -> bool:
    if shutil.which(_NAMESPACE[0]) is None:
        return False
    tried = subprocess.run((*_NAMESPACE, "true"), capture_output=True, check=False, timeout=10)
    return tried.returncode == 0
