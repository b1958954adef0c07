"""`python -m model_demo --name model-demo --run-dir .run`: serve on AGENTCHAT_HOST:AGENTCHAT_MODEL_PORT."""

import asyncio

from model_demo.settings import ModelDemoSettings
from runtime import worker
from runtime.settings import load_or_exit


def main() -> None:
    worker.parse_process_args()
    settings = load_or_exit(ModelDemoSettings)

    from runtime import logs, web

    logs.configure("model-demo", settings.log_level)

    async def serve(stop: asyncio.Event) -> None:
        from model_demo import app

        await web.serve(app.build(), settings.host, settings.port, stop, grace_s=3.0)

    worker.run(serve)


if __name__ == "__main__":
    main()
