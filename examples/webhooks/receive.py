"""Receives webhooks: makes an endpoint at its own address, prints what comes, and deletes it at the end.

Needs BASE_URL and API_KEY, and a service that allows the address, as `agentchat up` does on its machine.
"""

import os
import signal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import httpx
from standardwebhooks import Webhook, WebhookVerificationError

ENDPOINTS = f"{os.environ['BASE_URL']}/v1/webhook_endpoints"
KEY = {"X-Api-Key": os.environ["API_KEY"]}
EVENTS = ["run.completed", "run.failed", "approval.requested"]


class Receiver(BaseHTTPRequestHandler):
    """Answers at once; what takes longer belongs in a queue of one's own."""

    webhook: Webhook
    known: ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            message = self.webhook.verify(body, dict(self.headers))
        except WebhookVerificationError:
            self.send_error(400)
            return
        if message["id"] not in self.known:  # it may come more than once
            self.known.add(message["id"])
            print(message["type"], message["data"]["conversation_id"], flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing but the messages is printed."""


def main() -> None:
    """Until Ctrl-C or `kill`. A shell starts what runs in the background with SIGINT ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        made = httpx.post(ENDPOINTS, headers=KEY, json={"url": url, "events": EVENTS})
        endpoint = made.raise_for_status().json()
        Receiver.webhook = Webhook(endpoint["secret"])
        print("listening at", url, flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            httpx.delete(f"{ENDPOINTS}/{endpoint['id']}", headers=KEY).raise_for_status()


if __name__ == "__main__":
    main()
