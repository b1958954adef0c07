"""Every message that users and agents write, as it is saved: a durable consumer, with nothing but `nats`."""

import asyncio
import contextlib
import json
import os

import nats


async def main() -> None:
    inbox = os.environ.get("NATS_INBOX", "_INBOX")  # a user with an inbox of its own names it
    connection = await nats.connect(os.environ["NATS_URL"].split(","), inbox_prefix=inbox)
    durable = os.environ.get("CONSUMER", "example-messages")  # the server keeps its place by this name
    messages = await connection.jetstream().pull_subscribe(
        "chat.events.*.MessageSaved", durable=durable, stream="EVENTS"
    )
    while True:
        batch = []
        with contextlib.suppress(TimeoutError):  # nothing new; not always the kind that nats.errors has
            batch = await messages.fetch(100, timeout=5)
        for message in batch:
            saved = json.loads(message.data)
            position = (message.headers or {})["Chat-Log-Position"]
            content = saved.get("content", saved["type"])  # one too large for NATS comes as a reference
            print(f"{position} {saved['at']} {saved.get('role')}: {content!r}", flush=True)
            await message.ack()


asyncio.run(main())
