"""The process: its port and its stop."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

pytestmark = pytest.mark.slow

HEADERS = {"x-api-key": "any-key", "anthropic-version": "2023-06-01"}


def start(**environ: str) -> "subprocess.Popen[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")}
    return subprocess.Popen(
        [sys.executable, "-m", "agentchat.model_demo", "--name", "model-demo-test", "--run-dir", "nowhere"],
        env={**kept, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_taken_port_is_one_line_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with start(AGENTCHAT_MODEL_PORT=str(port)) as process:
            _, err = process.communicate(timeout=40)
    assert process.returncode == 2
    assert err.count("\n") == 1
    assert str(port) in err


@contextlib.contextmanager
def open_stream(model: str) -> Iterator[tuple["subprocess.Popen[str]", Iterator[str]]]:
    """Start a process and open a stream of an answer by the model."""
    with start(AGENTCHAT_MODEL_PORT="0") as process:
        assert process.stderr is not None
        listening = json.loads(process.stderr.readline())
        messages = [{"role": "user", "content": "Hello"}]
        request = {"model": model, "max_tokens": 9999, "stream": True, "messages": messages}
        address = f"http://{listening['host']}:{listening['port']}/v1/messages"
        with httpx.stream("POST", address, json=request, headers=HEADERS, timeout=40) as answer:
            yield process, answer.iter_text()
        process.communicate(timeout=40)


def test_sigterm_lets_streams_end_and_the_process_leaves_with_0() -> None:
    with open_stream("demo-load?deltas=30&delay_ms=10") as (process, chunks):
        text = next(chunks)
        process.terminate()
        text += "".join(chunks)
    assert process.returncode == 0
    assert text.count("text_delta") == 30
    assert text.endswith('{"type":"message_stop"}\n\n')


@pytest.mark.slow
def test_a_stream_that_hangs_does_not_hold_the_process() -> None:
    with open_stream("demo-load?hang_after=1") as (process, chunks):
        next(chunks)
        process.terminate()
        process.communicate(timeout=40)
    assert process.returncode == 0
