"""A console as a process of its own, on real servers."""

from collections.abc import Mapping
from pathlib import Path

from tests.support.http_service import HttpService

URL = "https://console.example"
TOKEN = "the-administrators-token"
GUARDED = {"AGENTCHAT_ADMIN_TOKEN": TOKEN, "AGENTCHAT_CONSOLE_URL": URL}


class ConsoleProcess(HttpService):
    """`python -m console` on a free port."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        super().__init__("console", "AGENTCHAT_CONSOLE_PORT", folder, environ)
