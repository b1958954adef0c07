"""Tokens per account and hour, in a SQLite file: each run counts exactly once, whatever is delivered twice.

    NATS_URL=nats://... python tokens_per_hour.py FILE           go on until stopped
    NATS_URL=nats://... python tokens_per_hour.py FILE --once    catch up, print the table, end

A batch is acknowledged when it is committed. What was committed and not acknowledged comes again, as does
everything where EVENTS was made again or this consumer was deleted: the file knows the runs that it has.
"""

import asyncio
import json
import os
import sqlite3
import sys
from contextlib import closing
from typing import Any

import nats
import nats.errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig

STREAM = "EVENTS"
ENDINGS = ("RunCompleted", "RunFailed", "RunCancelled")
KINDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
BATCH = 200

TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    trace_id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    hour TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    position INTEGER NOT NULL
);
CREATE VIEW IF NOT EXISTS tokens_per_hour AS
    SELECT hour, account_id, count(*) AS runs, sum(tokens) AS tokens
      FROM runs GROUP BY hour, account_id ORDER BY hour, account_id;
"""

Row = tuple[str, str, str, int, int]


def to_row(message: Msg) -> Row:
    """Return the run whose end an event reports.

    It stays in the file when its conversation is deleted: it has cost what it has.
    """
    event: dict[str, Any] = json.loads(message.data)
    usage = event.get("usage", {})
    tokens = sum(usage.get(kind, 0) for kind in KINDS)  # output_tokens include reasoning_tokens
    position = int((message.headers or {})["Chat-Log-Position"])
    return event["trace_id"], message.subject.split(".")[2], event["at"][:13] + ":00Z", tokens, position


def store(database: sqlite3.Connection, messages: list[Msg]) -> None:
    """All of a batch or nothing; a run that is there stays as it is."""
    with database:
        database.executemany("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?)", map(to_row, messages))


async def consume(jetstream: JetStreamContext, database: sqlite3.Connection, *, once: bool) -> None:
    """Until there is nothing more, or without end."""
    durable = os.environ.get("CONSUMER", "example-tokens")
    config = ConsumerConfig(
        durable_name=durable,
        ack_policy=AckPolicy.EXPLICIT,
        filter_subjects=[f"chat.events.*.{name}" for name in ENDINGS],
    )
    await jetstream.add_consumer(STREAM, config)
    subscription = await jetstream.pull_subscribe_bind(durable, STREAM)
    while True:
        state = await subscription.consumer_info()
        if once and not state.num_pending and not state.num_ack_pending:
            return
        try:
            messages = await subscription.fetch(BATCH, timeout=5)
        except TimeoutError:  # not always the kind that nats.errors has
            continue  # nothing new
        store(database, messages)
        await asyncio.gather(*(message.ack_sync() for message in messages))


async def main(path: str, *, once: bool) -> None:
    inbox = os.environ.get("NATS_INBOX", "_INBOX")  # a user with an inbox of its own names it
    servers = os.environ["NATS_URL"].split(",")
    connection = await nats.connect(servers, inbox_prefix=inbox, max_reconnect_attempts=-1)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES)
        while True:
            try:
                await consume(connection.jetstream(), database, once=once)
                break
            except nats.errors.Error as error:  # the stream or the consumer is gone, or NATS is away
                print(f"again in a second: {error!r}", file=sys.stderr)
                await asyncio.sleep(1)
        for row in database.execute("SELECT * FROM tokens_per_hour"):
            print(*row)
    await connection.close()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--once"]):
        sys.exit("usage: tokens_per_hour.py FILE [--once]")
    asyncio.run(main(sys.argv[1], once="--once" in sys.argv))
