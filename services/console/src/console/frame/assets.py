"""The files of `static/`: served under an address that changes with any of them, so that browsers keep them.

ES modules import each other by relative addresses, so all files have the same hash in theirs.
"""

import gzip
import hashlib
from pathlib import Path

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

FOLDER = Path(__file__).parents[1] / "static"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMMUTABLE = "public, max-age=31536000, immutable"


class Asset(msgspec.Struct, frozen=True):
    """A file, as it is and compressed."""

    plain: bytes
    gzipped: bytes
    media_type: str


class Assets(msgspec.Struct, frozen=True):
    """By name, relative to the folder; `digest` is of all of them."""

    digest: str
    files: dict[str, Asset]

    @classmethod
    def read(cls, folder: Path = FOLDER) -> "Assets":
        paths = sorted(path for path in folder.rglob("*") if path.suffix in _TYPES)
        digest, files = hashlib.sha256(), {}
        for path in paths:
            name, data = path.relative_to(folder).as_posix(), path.read_bytes()
            digest.update(name.encode() + b"\0" + data)
            files[name] = Asset(data, gzip.compress(data, mtime=0), _TYPES[path.suffix])
        return cls(digest.hexdigest()[:16], files)

    def url(self, name: str) -> str:
        """The address of a file. Raises KeyError: a template names one that is not there."""
        self.files[name]
        return f"/static/{self.digest}/{name}"


@get("/static/{digest:str}/{name:path}", role=None)
async def get_asset(
    request: Request[None, None, State], digest: FromPath[str], name: FromPath[str]
) -> Response[bytes]:
    assets: Assets = request.app.state.services.assets
    found = assets.files.get(name.lstrip("/"))
    if found is None or digest != assets.digest:
        raise NotFoundException
    headers = {"cache-control": _IMMUTABLE, "vary": "accept-encoding"}
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        return Response(found.plain, media_type=found.media_type, headers=headers)
    headers["content-encoding"] = "gzip"
    return Response(found.gzipped, media_type=found.media_type, headers=headers)


def accepts_gzip(accept_encoding: str) -> bool:
    """Return True if the header allows gzip (RFC 9110, 12.5.3)."""
    weights = {}
    for part in accept_encoding.lower().split(","):
        coding, *parameters = [each.strip() for each in part.split(";")]
        weights[coding] = next((each[2:].strip() for each in parameters if each.startswith("q=")), "1")
    weight = weights.get("gzip", weights.get("*", "0"))
    return weight.strip("0.") != ""


HANDLERS = (get_asset,)
