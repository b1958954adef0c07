"""Serve the files of `static/` under a URL with their hash.

Browsers may cache them for ever. ES modules import each other by relative URLs, so all files have the same
hash in theirs.
"""

import hashlib
from pathlib import Path

import msgspec
from litestar import Router
from litestar.datastructures import CacheControlHeader
from litestar.static_files import create_static_files_router

from agentchat.console.shared.console_roles import KEY

FOLDER = Path(__file__).parents[1] / "static"
_KEPT = CacheControlHeader(public=True, max_age=365 * 24 * 3600, immutable=True)


class Assets(msgspec.Struct, frozen=True):
    """The names of the files relative to the folder, and one digest of all of them."""

    digest: str
    names: frozenset[str]

    @classmethod
    def read(cls) -> "Assets":
        """Read and hash the files."""
        digest, paths = hashlib.sha256(), sorted(path for path in FOLDER.rglob("*") if path.is_file())
        for path in paths:
            digest.update(path.as_posix().encode() + b"\0" + path.read_bytes())
        return cls(digest.hexdigest()[:16], frozenset(path.relative_to(FOLDER).as_posix() for path in paths))

    def build_url(self, name: str) -> str:
        """Return the URL of a file. Raises KeyError if a template names a missing file."""
        if name not in self.names:
            raise KeyError(name)
        return f"/static/{self.digest}/{name}"

    def build_router(self) -> Router:
        """Build the routes of the files."""
        return create_static_files_router(
            path=f"/static/{self.digest}", directories=[FOLDER], cache_control=_KEPT, opt={KEY: None}
        )
