"""Answers that handlers return complete, sent on the request's own connection."""

from contracts import wire
from gateway.http import problem_responses
from gateway.http.exchange import DirectResponse, Exchange, T
from gateway.http.problem_responses import Refusal


class JsonAnswer(DirectResponse[T]):
    """A complete answer: JSON of our own encoder, or bytes as they are. Sent as `Exchange.answer` does."""

    async def send_to(self, exchange: Exchange) -> None:
        status = self.status_code or self._settled.get("status_code") or 200
        media_type = str(self.media_type or self._settled.get("media_type") or "application/json")
        headers = [(name.lower().encode(), str(value).encode()) for name, value in self.headers.items()]
        if status == 204:
            await exchange.start(204, headers)
            await exchange.body(b"")
        else:
            data = self.content if isinstance(self.content, bytes) else wire.encode(self.content)
            await exchange.answer(status, media_type.encode(), data, headers)


class ProblemAnswer(DirectResponse[None]):
    """A refusal in the words of its address. What the request holds is let go before."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(None)
        self._refusal = refusal

    async def send_to(self, exchange: Exchange) -> None:
        await exchange.held.aclose()
        await problem_responses.answer(exchange, self._refusal)
