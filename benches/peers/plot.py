"""Plots as SVG by hand: horizontal bars, one panel for each case, the scale logarithmic where the field is wide."""

import math
from html import escape

WIDTH, LEFT, RIGHT, BAR, GAP = 800, 262, 96, 18, 6
COLOURS = {"containerpilot": "#c2410c", "nothing": "#9ca3af"}
OTHER = "#3b6ea5"
WIDE = 20


def figure(value):
    """A number that can be read at a glance."""
    if value >= 1000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value else "0"


def scale(values):
    """A function from a value to its share of the width, and whether it is logarithmic."""
    positive = [value for value in values if value > 0]
    largest = max(positive, default=1)
    smallest = min(positive, default=1)
    if largest / smallest <= WIDE:
        return (lambda value: value / largest), False
    low = math.floor(math.log10(smallest) - 0.3)
    high = math.log10(largest)
    return (lambda value: (math.log10(value) - low) / (high - low) if value > 0 else 0), True


def bars(title, unit, panels):
    """`panels`: a name and its bars, each a label and a value. The whole picture as text."""
    share, logarithmic = scale([value for _, rows in panels for _, value in rows])
    subtitle = f"{unit}{', logarithmic' if logarithmic else ''}; medians"
    parts, y = [], 58
    for name, rows in panels:
        if name:
            parts.append(f'<text x="14" y="{y + 13}" font-weight="bold">{escape(name)}</text>')
            y += 24
        for label, value in rows:
            length = max(2, share(value) * (WIDTH - LEFT - RIGHT))
            colour = COLOURS.get(label.split(",")[0], OTHER)
            parts.append(
                f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(label)}</text>'
                f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>'
                f'<text x="{LEFT + length + 6:.1f}" y="{y + 13}">{figure(value)}</text>')
            y += BAR + GAP
        y += 10
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" '
            'font-family="system-ui, sans-serif" font-size="13" fill="#1f2937">\n'
            f'<rect width="{WIDTH}" height="{y}" fill="#ffffff"/>\n'
            f'<text x="14" y="24" font-size="16" font-weight="bold">{escape(title)}</text>\n'
            f'<text x="14" y="43" fill="#6b7280">{escape(subtitle)}</text>\n' + "\n".join(parts) + "\n</svg>\n")
