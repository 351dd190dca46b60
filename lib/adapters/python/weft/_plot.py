# SPDX-License-Identifier: BSD-3-Clause
"""Lines over an axis of time, as SVG: no library is needed to look at a result."""
import html
import math

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 20, 50
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")


def ticks(most, count=5):
    """Round numbers from 0 to `most`, some `count` of them."""
    if most <= 0:
        return [0]
    rough = most / count
    scale = 10 ** math.floor(math.log10(rough))
    step = next(factor * scale for factor in (1, 2, 5, 10) if factor * scale >= rough)
    return [i * step for i in range(int(most / step) + 1)]


def lines(series, x_name, y_name):
    """`series`: {name: (x values, y values)}, all 0 or more. The text of an SVG file."""
    most_x = max((max(x, default=0) for x, _ in series.values()), default=0) or 1
    most_y = max((max(y, default=0) for _, y in series.values()), default=0) or 1
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at_x(x):
        return LEFT + x / most_x * wide

    def at_y(y):
        return TOP + high - y / most_y * high

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             f'width="{WIDTH}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for x in ticks(most_x):
        parts.append(f'<path d="M{at_x(x):.1f} {TOP}v{high}" stroke="#ddd"/><text '
                     f'x="{at_x(x):.1f}" y="{HEIGHT - 32}" text-anchor="middle">{x:g}</text>')
    for y in ticks(most_y):
        parts.append(f'<path d="M{LEFT} {at_y(y):.1f}h{wide}" stroke="#ddd"/><text '
                     f'x="{LEFT - 6}" y="{at_y(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    parts.append(f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
                 f'{html.escape(x_name)}</text>')
    parts.append(f'<text transform="translate(16 {TOP + high / 2}) rotate(-90)" '
                 f'text-anchor="middle">{html.escape(y_name)}</text>')
    for i, (name, (xs, ys)) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        points = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in zip(xs, ys))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                     f'stroke-width="1.5"/><text x="{WIDTH - RIGHT + 10}" y="{TOP + 12 + 18 * i}" '
                     f'fill="{colour}">{html.escape(name)}</text>')
    return "\n".join(parts) + "\n</svg>\n"
