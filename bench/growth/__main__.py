"""`python -m bench.growth [--only NAME]`: tables of how cost grows, kept in `.bench/growth.md`."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable

from rich.console import Console

from bench.growth import curves, processes
from bench.processes import ROOT, Started, lean_upstream
from bench.report import Table, markdown
from bench.show import show
from bench.subjects import service
from runtime.web import raise_open_files

OUTPUT = ROOT / ".bench" / "growth.md"
Asked = Callable[[Started, argparse.Namespace], AsyncGenerator[Table, None]]


async def _stored(upstream: Started, given: argparse.Namespace) -> AsyncGenerator[Table, None]:
    for axis in curves.AXES:
        async with service(upstream, processes.MODELS) as subject:
            async for table in curves.curve(subject, upstream.pid, axis, given.largest):
                yield table


async def _streams(upstream: Started, given: argparse.Namespace) -> AsyncGenerator[Table, None]:
    counts = tuple(count for count in (10, 1_000, 5_000) if count <= given.streams)
    models = (*processes.MODELS, processes.streams(1).model)
    async with service(upstream, models) as subject:
        async for table in processes.by_streams(subject, counts):
            yield table


async def _shapes(upstream: Started, _given: argparse.Namespace) -> AsyncGenerator[Table, None]:
    async for table in processes.by_shape(upstream):
        yield table
    async with service(upstream, processes.MODELS) as subject:
        yield await processes.projector_end(subject)


PARTS: dict[str, Asked] = {"stored": _stored, "streams": _streams, "processes": _shapes}


def main() -> None:
    """A quarter of an hour; a million conversations take half an hour more."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description="How cost grows.")
    parser.add_argument("--only", choices=PARTS, help="one of the parts")
    parser.add_argument("--largest", type=int, default=100_000, help="of what is stored, 1000 to 1000000")
    parser.add_argument("--streams", type=int, default=5_000, help="at most so many are opened")
    given = parser.parse_args()
    raise_open_files()
    asyncio.run(_measure(Console(), given))


async def _measure(console: Console, given: argparse.Namespace) -> None:
    """What is printed is kept too, after each row: one that is ended early has come so far."""
    kept: dict[str, Table] = {}
    for part in [given.only] if given.only else PARTS:
        async with lean_upstream() as upstream, contextlib.aclosing(PARTS[part](upstream, given)) as tables:
            async for table in tables:
                kept[table.title] = table
                OUTPUT.parent.mkdir(exist_ok=True)
                OUTPUT.write_text(markdown(list(kept.values())) + "\n")
                sys.stderr.write(f"growth: {table.title}: {' | '.join(table.rows[-1])}\n")
    show(console, kept.values())


if __name__ == "__main__":
    main()
