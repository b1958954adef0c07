"""What clients saw of restarts: pure functions over a history whose faults are SIGTERMs."""

from collections import Counter

import msgspec

from contracts.timings import STREAMS_DRAIN_SECONDS
from tests.chaos.checker.view import events_in, reply_of
from tests.chaos.records import Exchange, Fault, History
from tests.chaos.recovery import percentile

EXIT_SECONDS = 10.0
_SLACK = 0.25
"""Between the signal as the rig sent it and what a process and a client see of it."""


class Restart(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process, by SIGTERM. `open_streams`: all there were then; `code`: its exit code."""

    target: str
    open_streams: int
    exit_seconds: float
    ready_seconds: float
    code: int


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """`outcomes` counts the answers by what became of them; `errors` are those that no client may see."""

    outcomes: dict[str, int]
    errors: list[str]


def seen_by_clients(history: History) -> Seen:
    """Every answer, judged."""
    leaving = {ask.ask for ask in history.asks if ask.cancels}
    limited = {ask.ask for ask in history.asks if ask.limited}
    asking = {ask.ask for ask in history.asks if ask.agent == "asking"}
    outcomes: Counter[str] = Counter()
    errors: list[str] = []
    for exchange in history.exchanges:
        outcome = _outcome(exchange, [fault for fault in history.faults if fault.target == exchange.gateway])
        if outcome == "cancelled" and exchange.ask in leaving:
            outcome = "cancelled by its client"
        elif outcome == "rate_limited" and exchange.ask in limited:
            outcome = "over its limit"
        elif outcome in ("approval_required", "approval_pending") and exchange.ask in asking:
            outcome = "waits for a person"
        elif outcome not in _HARMLESS:
            errors.append(
                f"{outcome}: {exchange.form} at {exchange.gateway}, {exchange.began:.2f} to "
                f"{exchange.ended:.2f} s, status {exchange.status}, ...{exchange.body[-160:]!r}"
            )
        outcomes[outcome] += 1
    return Seen(outcomes=dict(outcomes.most_common()), errors=errors)


_REFUSED, _TURNED_AWAY, _CUT = (
    "refused by a stopped gateway",
    "turned away by a stopping gateway",
    f"cut off {STREAMS_DRAIN_SECONDS:.0f} s after the signal",
)
_HARMLESS = {"done", "left by its client", _REFUSED, _TURNED_AWAY, _CUT}


def _outcome(exchange: Exchange, faults: list[Fault]) -> str:
    if exchange.end == "left":
        return "left by its client"
    stops = [fault for fault in faults if fault.at - _SLACK <= exchange.ended <= (fault.ready or fault.until)]
    if exchange.status is None:
        # A connection that was made before the signal was the gateway's own: it owes an answer.
        came_late = any(exchange.began >= fault.at - _SLACK for fault in stops)
        refused = exchange.end in ("refused", "reset") and came_late
        return _REFUSED if refused else f"no answer ({exchange.end})"
    code = _code(exchange)
    if code != "server_shutdown":
        return code
    if any(exchange.ended >= fault.at + STREAMS_DRAIN_SECONDS - _SLACK for fault in stops):
        return _CUT
    turned_away = exchange.status == 503 and any(exchange.began >= fault.at - _SLACK for fault in stops)
    return _TURNED_AWAY if turned_away else code


def _code(exchange: Exchange) -> str:
    """`done`, or the code of the error, or how the answer broke off."""
    if exchange.end != "eof":
        return f"broken off ({exchange.end})"
    if exchange.status != 200 or exchange.form == "json":
        body = reply_of(exchange)
        if body is None:
            return f"status {exchange.status} without JSON"
        return "done" if exchange.status == 200 else str(body.get("code"))
    last = (events_in(exchange) or [{"type": "no event"}])[-1]
    return str(last["code"] if last["type"] == "error" else last["type"])


def late_exits(restarts: list[Restart]) -> list[str]:
    """Those that took too long, or did not end in order."""
    return [
        f"{each.target} ended with code {each.code} after {each.exit_seconds:.1f} s"
        for each in restarts
        if each.exit_seconds > EXIT_SECONDS or each.code != 0
    ]


def too_few_streams(restarts: list[Restart], wanted: int) -> list[str]:
    """Why the run does not count, where mostly less than half of the streams were open."""
    found = percentile(sorted(float(each.open_streams) for each in restarts), 0.5)
    return [f"{found:.0f} streams were open, {wanted} were to be"] if found < wanted / 2 else []


def text_of(restarts: list[Restart], seen: Seen) -> str:
    """For a terminal."""
    lines = [
        f"{len(restarts)} restarts, {_spread([float(each.open_streams) for each in restarts])} open streams"
    ]
    for target in dict.fromkeys(each.target for each in restarts):
        own = [each for each in restarts if each.target == target]
        exits, readies = [each.exit_seconds for each in own], [each.ready_seconds for each in own]
        lines.append(f"  {target}: exit {_spread(exits)} s, start to ready {_spread(readies)} s")
    lines += ["clients:", *(f"  {outcome}: {count}" for outcome, count in seen.outcomes.items())]
    return "\n".join([*lines, *late_exits(restarts), *seen.errors[:20]])


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    return f"p50 {percentile(ordered, 0.5):.1f}, most {ordered[-1]:.1f}" if ordered else "none"
