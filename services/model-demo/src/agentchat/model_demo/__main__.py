"""Run the offline model server: `python -m agentchat.model_demo --run-dir .run`."""

import asyncio
from typing import Annotated, Literal

import msgspec

from agentchat.runtime import worker
from agentchat.runtime.settings import Setting, load_or_exit

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class ModelDemoSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the process."""

    port: Annotated[Port, Setting("AGENTCHAT_MODEL_PORT")]
    host: Annotated[str, Setting("AGENTCHAT_HOST")] = "127.0.0.1"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Setting("AGENTCHAT_LOG_LEVEL")] = (
        "info"
    )


def main() -> None:
    """Read the settings and serve until a signal to stop."""
    worker.parse_process_args()
    settings = load_or_exit(ModelDemoSettings)

    from agentchat.runtime import logs, uvicorn_server

    logs.configure("model-demo", settings.log_level)

    async def serve(stop: asyncio.Event) -> None:
        from agentchat.model_demo import app

        await uvicorn_server.serve(app.build(), settings.host, settings.port, stop, grace_s=3.0)

    worker.run(serve)


if __name__ == "__main__":
    main()
