"""A report as one HTML file that needs nothing else: charts as SVG, then every table."""

from collections.abc import Iterable, Mapping
from html import escape

from bench.report import CPU_CHATS, CPU_DELTAS, Report, Table, by_process, rounds, scenarios, tables
from bench.scenarios import ALL
from bench.statistics import spread

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 2rem } td, th { padding: .2rem .6rem; text-align: right }
td, th { border-bottom: 1px solid #ddd } td:first-child, th:first-child { text-align: left }
svg text { font: 12px system-ui, sans-serif } h2 { font-size: 1.1rem; margin-top: 2rem }
"""
_COLOURS = ("#4363d8", "#f58231", "#3cb44b", "#911eb4", "#42d4f4", "#808000", "#e6194b", "#9a6324", "#a9a9a9")
_WIDTH, _LEFT, _BAR = 900, 230, 18


def page(report: Report) -> str:
    """The whole file."""
    about = report.machine
    head = f"{about.cores} cores, Python {about.python}, {about.commit}, {about.at}"
    charts = (
        _chart("CPU ms of a short chat, by process", _used(report, CPU_CHATS, "chats", 1e3)),
        _chart("CPU µs of a delta, by process", _used(report, CPU_DELTAS, "deltas", 1e6)),
        _chart("Chats a second", _figure(report, "chats / s")),
        _chart("First delta, ms at 50 %", _figure(report, "first p50 ms")),
        _chart("First delta, ms at 99 %", _figure(report, "first p99 ms")),
    )
    body = "\n".join((*charts, *map(_table, tables(report))))
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Benchmark</title><style>{_STYLE}</style>"
        f"<h1>Benchmark</h1><p>{escape(head)}</p>{body}</html>"
    )


def _used(report: Report, figure: str, units: str, scale: float) -> dict[str, dict[str, float]]:
    """A bar a scenario and subject, made of its processes."""
    return {
        f"{name} · {subject}": {process: seconds * scale for process, seconds in used.items()}
        for name in scenarios(report, figure)
        for subject in ALL
        if (used := by_process(report, name, subject, units))
    }


def _figure(report: Report, figure: str) -> dict[str, dict[str, float]]:
    return {
        f"{name} · {subject}": {"": spread([each.figures[figure] for each in found]).median}
        for name in scenarios(report, figure)
        for subject in ALL
        if (found := rounds(report, name, subject))
    }


def _chart(title: str, bars: Mapping[str, Mapping[str, float]]) -> str:
    """Horizontal bars, each of one or more parts, on one scale."""
    if not bars:
        return ""
    most = max(sum(parts.values()) for parts in bars.values()) or 1.0
    names = list(dict.fromkeys(name for parts in bars.values() for name in parts))
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(names)}
    drawn = [
        _bar(20 + _BAR * place, label, parts, most, colours)
        for place, (label, parts) in enumerate(bars.items())
    ]
    legend = " ".join(
        f'<span style="color:{colours[name]}">■ {escape(name)}</span>' for name in names if name
    )
    height = 24 + _BAR * len(bars)
    svg = f"<svg width={_WIDTH} height={height}>{''.join(drawn)}</svg>"
    return f"<h2>{escape(title)}</h2><div>{legend}</div>{svg}"


def _bar(top: int, label: str, parts: Mapping[str, float], most: float, colours: Mapping[str, str]) -> str:
    scale = (_WIDTH - _LEFT - 70) / most
    left, drawn = float(_LEFT), [f"<text x={_LEFT - 8} y={top + 12} text-anchor=end>{escape(label)}</text>"]
    for name, value in parts.items():
        size = f"x={left:.1f} y={top} width={value * scale:.1f} height={_BAR - 4}"
        drawn.append(f'<rect {size} fill="{colours[name]}"><title>{escape(name)} {value:.2f}</title></rect>')
        left += value * scale
    drawn.append(f"<text x={left + 5:.1f} y={top + 12}>{sum(parts.values()):.3g}</text>")
    return "".join(drawn)


def _table(table: Table) -> str:
    head = _row("th", table.columns)
    rows = "".join(_row("td", row) for row in table.rows)
    return f"<h2>{escape(table.title)}</h2><table>{head}{rows}</table>"


def _row(kind: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"
