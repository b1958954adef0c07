"""A gateway as a process of its own, on real servers."""

from collections.abc import Mapping
from pathlib import Path

from tests.support.http_service import HttpService


class GatewayProcess(HttpService):
    """`python -m gateway` on a free port."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        super().__init__("gateway", "AGENTCHAT_PORT", folder, environ)
