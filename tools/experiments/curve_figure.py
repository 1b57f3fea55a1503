#!/usr/bin/env python3
"""A figure of a table with `vary`: each column against the varied value, a line a series.

    tools/experiments/curve_figure.py runs/heads-tokens/table.json --columns "single 512,single 2048,loss" --x "training tokens" --out FILE.svg

Lines go through the means over seeds, dots are the seeds. The x axis is logarithmic; percentages (every column but a loss) run from
0 to 100. Only the standard library is used.
"""
import argparse
import json
import math
import pathlib
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP = 300, 220, 48, 34, 46, 26  # a panel's plot area and what surrounds it
COLORS = ("#1b5e9b", "#d1495b", "#e0a100", "#6b6b6b", "#2a9d6f", "#7b4ab5")
UNITS = {"K": 1e3, "M": 1e6, "G": 1e9}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path, help="table.json of head_choice.py")
    parser.add_argument("--columns", required=True, help="comma-separated names of figures, a panel each")
    parser.add_argument("--x", required=True, help="what was varied, as the axis names it")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args()


def number(text):
    """A count with or without a unit: 0.3M."""
    return float(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else float(text)


def points_of(runs, column):
    """{series: {value as text: [the column's figure, one a seed]}}"""
    points = {}
    for run in runs:
        if "series" in run and column in run["figures"]:
            points.setdefault(run["series"], {}).setdefault(run["value"], []).append(run["figures"][column])
    return points


def panel(points, column, label, left, names):
    """SVG elements of one plot whose area begins `left` from the figure's edge."""
    texts = sorted({text for values in points.values() for text in values}, key=number)
    figures = [figure for values in points.values() for seeds in values.values() for figure in seeds]
    share = "loss" not in column
    low, high = (0.0, 100.0) if share else (math.floor(min(figures) * 10) / 10, math.ceil(max(figures) * 10) / 10)
    first, last = math.log(number(texts[0])), math.log(number(texts[-1]))

    def x(text):
        return left + (WIDTH * (math.log(number(text)) - first) / (last - first) if last > first else WIDTH / 2)

    def y(figure):
        return TOP + HEIGHT * (1 - (figure - low) / ((high - low) or 1))

    parts = [f'<text x="{left + WIDTH / 2}" y="{TOP - 14}" text-anchor="middle" font-weight="bold">{escape(column)}</text>']
    for step in range(6):
        figure = low + (high - low) * step / 5
        text = f"{figure:.0f}" if share else f"{figure:.2f}"
        parts.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y(figure):.1f}" y2="{y(figure):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y(figure) + 4:.1f}" text-anchor="end">{text}</text>')
    for text in texts:
        parts.append(f'<text x="{x(text):.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{escape(text)}</text>')
    parts.append(f'<text x="{left + WIDTH / 2}" y="{TOP + HEIGHT + 34}" text-anchor="middle">{escape(label)}</text>')
    for name, values in points.items():
        color = COLORS[names.index(name) % len(COLORS)]
        means = [(x(text), y(sum(values[text]) / len(values[text]))) for text in texts if text in values]
        line = " ".join(f"{at:.1f},{height:.1f}" for at, height in means)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(text):.1f}" cy="{y(figure):.1f}" r="3" fill="{color}" fill-opacity="0.6"/>'
                  for text, seeds in values.items() for figure in seeds]
    return parts


def main():
    options = arguments()
    runs = json.loads(options.table.read_text())["runs"]
    columns = [column.strip() for column in options.columns.split(",")]
    plots = [points_of(runs, column) for column in columns]
    for column, points in zip(columns, plots):
        if not points:
            sys.exit(f"curve_figure: {options.table}: no run with a varied value has the figure '{column}'")
    names = list(dict.fromkeys(name for points in plots for name in points))
    width = len(columns) * (LEFT + WIDTH + GAP)
    height = TOP + HEIGHT + BOTTOM + 22
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for index, (column, points) in enumerate(zip(columns, plots)):
        parts += panel(points, column, options.x, LEFT + index * (LEFT + WIDTH + GAP), names)
    for index, name in enumerate(names):
        at = LEFT + index * 170
        color = COLORS[index % len(COLORS)]
        parts.append(f'<line x1="{at}" x2="{at + 22}" y1="{height - 14}" y2="{height - 14}" stroke="{color}" stroke-width="3"/>')
        parts.append(f'<text x="{at + 28}" y="{height - 10}">{escape(name)}</text>')
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("\n".join([*parts, "</svg>"]) + "\n")


if __name__ == "__main__":
    main()
