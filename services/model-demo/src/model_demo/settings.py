"""What the environment sets."""

from typing import Annotated, Literal

import msgspec

from runtime.settings import Setting

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class ModelDemoSettings(msgspec.Struct, frozen=True, kw_only=True):
    port: Annotated[Port, Setting("AGENTCHAT_MODEL_PORT")]
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Setting("AGENTCHAT_LOG_LEVEL")] = (
        "info"
    )
