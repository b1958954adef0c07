"""As which user Postgres runs: it refuses root, and its superuser must not be root of the machine.

As root it runs as an unprivileged user that exists (initdb asks for its name). Where that user cannot reach
its files, such as in /root, or where root is the only user because it is an ordinary user seen from outside,
it runs in a user namespace, as another name for root: then it may read what root may read.
"""

import functools
import os
import pwd
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec

from ops.errors import SetupError

_NAMESPACE = ("unshare", "--user", "--map-user=1000")
USERS = ("postgres", "nobody")


class Own(msgspec.Struct, frozen=True):
    """The user who started the stack."""


class Namespace(msgspec.Struct, frozen=True):
    """Root; it appears as an ordinary user in the namespace."""


class Other(msgspec.Struct, frozen=True):
    """Another user than root, by id."""

    uid: int
    gid: int


Identity: TypeAlias = Own | Namespace | Other


@functools.cache
def identity() -> Identity:
    """What this machine allows. Raises SetupError where root can run no Postgres at all."""
    if os.geteuid() != 0:
        return Own()
    for name in USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return Other(user.pw_uid, user.pw_gid) if _there_is(user.pw_uid) else Namespace()
    raise SetupError(
        f"Postgres does not run as root, and this machine has no user named {' or '.join(USERS)}; "
        "start the stack as an ordinary user, or set AGENTCHAT_DATABASE_URL"
    )


def prefixed(who: Identity, argv: tuple[str, ...]) -> tuple[str, ...]:
    """`argv`, entering the namespace first where that is the way."""
    return (*_NAMESPACE, *argv) if isinstance(who, Namespace) else argv


def identity_for(who: Identity, paths: Iterable[Path], *, namespaces: bool | None = None) -> Identity:
    """`who`, or the namespace where that user cannot pass through a folder above `paths`.

    `namespaces`: whether root may make one here, tried where it is None. Raises SetupError, which names the
    folder, where there is no way.
    """
    closed = _closed_folder(who, paths) if isinstance(who, Other) else None
    if closed is None:
        return who
    if _may_make_namespaces() if namespaces is None else namespaces:
        return Namespace()
    raise SetupError(
        f"started by root, Postgres runs as another user, which has no access to {closed}; start the stack "
        "as an ordinary user, or allow others to pass through that folder (chmod o+x)"
    )


def _closed_folder(user: Other, paths: Iterable[Path]) -> Path | None:
    for path in paths:
        for folder in reversed(Path(os.path.realpath(path)).parents):
            if not folder.exists():
                break
            found = folder.stat()
            bit = 0o100 if found.st_uid == user.uid else 0o010 if found.st_gid == user.gid else 0o001
            if not found.st_mode & bit:
                return folder
    return None


def _may_make_namespaces() -> bool:
    return subprocess.run((*_NAMESPACE, "true"), check=False, capture_output=True).returncode == 0


def _there_is(uid: int) -> bool:
    """Whether this process's user namespace has the id (user_namespaces(7)): the first one has all."""
    try:
        ranges = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return True
    return any(int(first) <= uid < int(first) + int(count) for first, _, count in map(str.split, ranges))
