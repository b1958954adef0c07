"""The router's settings, all from the environment."""

from typing import Annotated
from urllib.parse import urlsplit

from gateway.settings import Connections, Level, Port
from runtime.settings import ServiceSettings, Setting, SettingsError

MOST_CELLS = 64


class CellSettings(ServiceSettings, frozen=True, kw_only=True):
    """`cells` are NAME=ADDRESS, each address of a cell's gateways. At `health_port` is `/metrics` too."""

    cells: Annotated[tuple[str, ...], Setting("AGENTCHAT_CELLS")]
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    port: Annotated[Port, Setting("AGENTCHAT_PORT")] = 8080
    health_port: Annotated[Port | None, Setting("AGENTCHAT_HEALTH_PORT")] = None
    max_connections: Annotated[Connections, Setting("AGENTCHAT_MAX_CONNECTIONS")] = 10_000
    log_level: Annotated[Level, Setting("AGENTCHAT_LOG_LEVEL")] = "info"
    otlp_endpoint: Annotated[str | None, Setting("OTEL_EXPORTER_OTLP_ENDPOINT")] = None

    def addresses(self) -> dict[str, str]:
        """The address of each cell by its name. Raises SettingsError."""
        found: dict[str, str] = {}
        for text in self.cells:
            name, _, address = text.partition("=")
            parts = urlsplit(address)
            if not name or parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
                raise SettingsError(f"AGENTCHAT_CELLS: {text[:100]!r} is not NAME=http://HOST:PORT")
            if found.setdefault(name, address.rstrip("/")) != address.rstrip("/"):
                raise SettingsError(f"AGENTCHAT_CELLS: {name!r} is named twice")
        if not 1 <= len(found) <= MOST_CELLS:
            raise SettingsError(f"AGENTCHAT_CELLS: 1 to {MOST_CELLS} cells are named")
        return found
