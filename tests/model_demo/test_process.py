"""The process: its settings, its start, its stop."""

import json
import os
import signal
import socket
import subprocess
import sys

import httpx
import pytest

HEADERS = {"x-api-key": "any-key", "anthropic-version": "2023-06-01"}


def start(**environ: str) -> "subprocess.Popen[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")}
    return subprocess.Popen(
        [sys.executable, "-m", "model_demo", "--name", "model-demo-test", "--run-dir", "nowhere"],
        env={**kept, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.requirement("SETTINGS")
@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, "AGENTCHAT_MODEL_PORT"),
        ({"AGENTCHAT_MODEL_PORT": "high"}, "AGENTCHAT_MODEL_PORT"),
        ({"AGENTCHAT_MODEL_PORT": "70000"}, "AGENTCHAT_MODEL_PORT"),
        ({"AGENTCHAT_MODEL_PORT": "0", "AGENTCHAT_LOG_LEVEL": "loud"}, "AGENTCHAT_LOG_LEVEL"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(environ: dict[str, str], name: str) -> None:
    with start(**environ) as process:
        out, err = process.communicate(timeout=40)
    assert process.returncode == 2
    assert out == ""
    assert err.count("\n") == 1
    assert name in err


@pytest.mark.requirement("STACK-BAD")
def test_a_taken_port_is_one_line_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with start(AGENTCHAT_MODEL_PORT=str(port)) as process:
            _, err = process.communicate(timeout=40)
    assert process.returncode == 2
    assert err.count("\n") == 1
    assert str(port) in err


@pytest.mark.requirement("STACK-STOP")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_streams_end_and_the_process_leaves_with_0(number: signal.Signals) -> None:
    with start(AGENTCHAT_MODEL_PORT="0") as process:
        assert process.stderr is not None
        listening = json.loads(process.stderr.readline())
        request = {
            "model": "demo-load?deltas=30&delay_ms=10",
            "max_tokens": 9999,
            "stream": True,
            "messages": [{"role": "user", "content": "Hello"}],
        }
        address = f"http://{listening['host']}:{listening['port']}/v1/messages"
        with httpx.stream("POST", address, json=request, headers=HEADERS, timeout=40) as answer:
            chunks = answer.iter_text()
            text = next(chunks)
            process.send_signal(number)
            text += "".join(chunks)
        process.communicate(timeout=40)
    assert process.returncode == 0
    assert text.count("text_delta") == 30
    assert text.endswith('{"type":"message_stop"}\n\n')


@pytest.mark.requirement("STACK-STOP")
def test_a_stream_that_hangs_does_not_hold_the_process() -> None:
    with start(AGENTCHAT_MODEL_PORT="0") as process:
        assert process.stderr is not None
        listening = json.loads(process.stderr.readline())
        request = {
            "model": "demo-load?hang_after=1",
            "max_tokens": 9999,
            "stream": True,
            "messages": [{"role": "user", "content": "Hello"}],
        }
        address = f"http://{listening['host']}:{listening['port']}/v1/messages"
        with httpx.stream("POST", address, json=request, headers=HEADERS, timeout=40) as answer:
            chunks = answer.iter_text()
            next(chunks)
            process.terminate()
            process.communicate(timeout=40)
    assert process.returncode == 0


@pytest.mark.requirement("LOGS")
def test_each_answer_is_a_json_line_with_the_callers_trace() -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    with start(AGENTCHAT_MODEL_PORT="0") as process:
        assert process.stderr is not None
        listening = json.loads(process.stderr.readline())
        answer = httpx.post(
            f"http://{listening['host']}:{listening['port']}/v1/messages",
            json={"model": "demo-echo", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]},
            headers={**HEADERS, "traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"},
        )
        process.terminate()
        _, err = process.communicate(timeout=40)
    lines = [json.loads(line) for line in err.splitlines()]
    told = next(line for line in lines if line["event"] == "answered")
    assert told["service"] == "model-demo"
    assert told["trace_id"] == trace_id
    assert told["request_id"] == answer.headers["request-id"]
