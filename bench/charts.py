"""Line charts as SVG that are readable on light and dark pages."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 340, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 40, 48
_STYLE = """
    text { font: 12px system-ui, sans-serif; fill: #24292f; }
    .title { font-weight: 600; }
    .grid { stroke: #d0d7de; stroke-width: 1; }
    .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
    .c0 { stroke: #0969da; } .f0 { fill: #0969da; }
    .c1 { stroke: #bc4c00; } .f1 { fill: #bc4c00; }
    @media (prefers-color-scheme: dark) {
        text { fill: #e6edf3; }
        .grid { stroke: #3d444d; }
        .c0 { stroke: #58a6ff; } .f0 { fill: #58a6ff; }
        .c1 { stroke: #f0883e; } .f1 { fill: #f0883e; }
    }
"""


@dataclass(frozen=True)
class Panel:
    """One chart: lines over a logarithmic x axis, with a y axis from zero."""

    x_label: str
    y_label: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    colour: int = 0  # of the first line


def svg(panels: Sequence[Panel]) -> str:
    """Panels side by side, a legend above them."""
    width = _WIDTH * len(panels)
    size = f'viewBox="0 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(panels[0].x_label)}</title>",
        f"<style>{_STYLE}</style>",
    ]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate({_WIDTH * number} 0)">', *_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel) -> Iterator[str]:
    points = [point for line in panel.lines.values() for point in line]
    low, high = (math.log10(f(x for x, _ in points)) for f in (min, max))
    top, step = _ceiling(max(y for _, y in points))

    def across(x: float) -> float:
        share = (math.log10(x) - low) / (high - low or 1)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def up(y: float) -> float:
        return _HEIGHT - _BOTTOM - y / top * (_HEIGHT - _TOP - _BOTTOM)

    yield f'<text class="title" x="{_LEFT}" y="18">{escape(panel.y_label)}</text>'
    for tick in _steps(top, step):
        y = up(tick)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:,.10g}</text>'
    for x in sorted({x for x, _ in points}):
        label = f'x="{across(x):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle"'
        yield f"<text {label}>{_number(x)}</text>"
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    label = f'x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle"'
    yield f"<text {label}>{escape(panel.x_label)}</text>"
    for number, (name, line) in enumerate(panel.lines.items(), panel.colour):
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)
        yield f'<polyline class="line c{number}" points="{path}"/>'
        yield from (
            f'<circle class="f{number}" cx="{across(x):.1f}" cy="{up(y):.1f}" r="3"/>'
            for x, y in line
        )
        yield from _legend(number, _LEFT + 120 * (number - panel.colour), name)


def _legend(number: int, x: float, name: str) -> Iterator[str]:
    yield f'<circle class="f{number}" cx="{x + 4}" cy="30" r="4"/>'
    yield f'<text x="{x + 14}" y="34">{escape(name)}</text>'


def _ceiling(value: float) -> tuple[float, float]:
    """A round number above all values, and the distance of the grid lines."""
    step = 10 ** math.floor(math.log10(value or 1))
    for part in (0.2, 0.5, 1, 2):
        if value <= step * part * 5:
            return step * part * 5, step * part
    return step * 10, step * 2


def _steps(top: float, step: float) -> Iterator[float]:
    for number in range(round(top / step) + 1):
        yield number * step


def _number(value: float) -> str:
    power = math.log10(value)
    if value >= 1000 and power == int(power):
        return f'10<tspan dy="-4" font-size="9">{int(power)}</tspan>'
    return f"{value:,.0f}"
