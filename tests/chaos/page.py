"""The report as HTML: the figures, and a timeline of faults and messages drawn as SVG."""

from html import escape

from tests.chaos.records import Exchange, History

_WIDTH, _ROW = 1200, 14
_COLORS = {200: "#4c8c4a", 429: "#c9a227", 503: "#d9822b", None: "#8a8a8a"}
_STYLE = "body{font:14px system-ui;margin:2em}pre{background:#f4f4f4;padding:1em}text{font:10px system-ui}"


def page(text: str, history: History) -> str:
    """Self-contained: no script, no other file."""
    return (
        f"<!doctype html><meta charset=utf-8><title>Chaos, seed {history.seed}</title><style>{_STYLE}</style>"
        f"<h1>Chaos run, seed {history.seed}</h1><pre>{escape(text)}</pre>"
        "<h2>Timeline</h2><p>Faults by target in red, lighter until the target was ready; requests below, "
        "green where answered 200, yellow 429, orange 503, blue another status, grey without an answer.</p>"
        f"{_timeline(history)}"
    )


def _timeline(history: History) -> str:
    targets = sorted({fault.target for fault in history.faults})
    lanes = _lanes(history.exchanges)
    height = (len(targets) + 1) * _ROW + max(lanes, default=0) * 4 + 20
    scale = _WIDTH / max(history.seconds, 1.0)
    parts = [
        f'<text x="0" y="{(row + 1) * _ROW - 3}">{escape(name)}</text>' for row, name in enumerate(targets)
    ]
    for fault in history.faults:
        y = targets.index(fault.target) * _ROW
        color = "#c0392b" if fault.hit else "#cccccc"
        title = f"{fault.kind} {fault.target} {fault.at:.2f} to {fault.until:.2f} s"
        if fault.ready is not None:
            parts.append(_bar(fault.at, fault.ready, y + 2, 10, "#e8b4ad", scale, title))
        parts.append(_bar(fault.at, fault.until, y + 2, 10, color, scale, title))
    for lane, exchange in zip(lanes, history.exchanges, strict=True):
        y = (len(targets) + 1) * _ROW + lane * 4
        title = f"{exchange.ask} {exchange.form} {exchange.gateway} {exchange.status} {exchange.end}"
        color = _COLORS.get(exchange.status, "#3b6ea5")
        parts.append(_bar(exchange.began, exchange.ended, y, 3, color, scale, title))
    return f'<svg width="{_WIDTH + 160}" height="{height}" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'


def _bar(began: float, ended: float, y: int, height: int, color: str, scale: float, title: str) -> str:
    x, width = 150 + began * scale, max(1.5, (ended - began) * scale)
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{color}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _lanes(exchanges: list[Exchange]) -> list[int]:
    """A row for each, so that none covers another."""
    free: list[float] = []
    lanes = []
    for exchange in exchanges:
        lane = next((number for number, end in enumerate(free) if end <= exchange.began), len(free))
        free[lane : lane + 1] = [exchange.ended]
        lanes.append(lane)
    return lanes
