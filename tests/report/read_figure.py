#!/usr/bin/env python3
"""Reads a chart from an SVG file of gnuplot by its ticks, as a reader would measure it with a ruler.

    read_figure.py FILE

Prints JSON: title, x and y (the names of the axes; null: none), grain (the value of a tenth of a
pixel on each axis), series (for curves: each name's last point, [x, y]), rows (for intervals: each
name's [middle, low, high]).
"""

import json
import re
import sys
import xml.etree.ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


def place(element):
    found = re.match(r"translate\(([-\d.]+),([-\d.]+)\)", element.get("transform", ""))
    return (float(found[1]), float(found[2])) if found else None


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


class Figure:
    def __init__(self, root):
        plots = [g for g in root.iter(SVG + "g") if re.fullmatch(r"gnuplot_plot_\d+", g.get("id", ""))]
        inside = {id(part) for plot in plots for part in plot.iter()}
        self.x_ticks, self.y_ticks, self.names = [], [], {}
        self.words = {"title": None, "x": None, "y": None}
        middle = []
        for group in root.iter(SVG + "g"):
            text = group.find(SVG + "text")
            if text is None or id(group) in inside:
                continue
            (x, y), words = place(group), text.text
            if "rotate" in group.get("transform"):
                self.words["y"] = words
            elif group.get("text-anchor") == "end":
                self.y_ticks.append((y, number(words)))
                self.names[words] = y
            else:
                middle.append((y, x, words))
        # Ticks are on one line; the title is above them, and the name of the axis below.
        lines = sorted({y for y, _, _ in middle})
        for y, x, words in middle:
            if y == lines[0]:
                self.words["title"] = words
            elif y == lines[-1]:
                self.words["x"] = words
            else:
                self.x_ticks.append((x, number(words)))
        self.bottom = lines[1]
        self.plots = plots

    @staticmethod
    def scale(ticks):
        """The map from pixels to values, from the outermost ticks, and the value of a pixel."""
        (p, low), (q, high) = min(ticks), max(ticks)
        worth = (high - low) / (q - p)
        return (lambda at: low + (at - p) * worth), abs(worth)

    def points(self, plot):
        """The markers of a plot, or else the corners of its line, without the sample in the legend
        below the axis."""
        found = [place(use) for use in plot.iter(SVG + "use")]
        if not found:
            found = [(float(x), float(y)) for path in plot.iter(SVG + "path")
                     for x, y in re.findall(r"([-\d.]+),([-\d.]+)", path.get("d"))]
        return [(x, y) for x, y in found if y < self.bottom]

    def read(self):
        x_of, x_worth = self.scale(self.x_ticks)
        out = dict(self.words, series={}, rows={}, grain=[x_worth / 10, 0.0])
        curves = [(plot, name.find(SVG + "text").text) for plot in self.plots for name in plot.iter(SVG + "g")
                  if name.find(SVG + "text") is not None]
        if curves:
            # Text is a third of a line, 3.9 pixels, below the middle of its tick.
            y_of, y_worth = self.scale([(y - 3.9, value) for y, value in self.y_ticks])
            out["grain"][1] = y_worth / 10
            for plot, name in curves:
                points = self.points(plot)
                x, y = [p for p in points if p[0] == max(points)[0]][-1]  # a step rises at its end
                out["series"][name] = [x_of(x), y_of(y)]
            return out
        (plot,) = self.plots
        whiskers = re.findall(r"M([-\d.]+),([-\d.]+) L([-\d.]+),([-\d.]+)", " ".join(p.get("d") for p in plot.iter(SVG + "path")))
        for name, at in self.names.items():
            near = lambda y: abs(float(y) - (at - 3.9)) < 0.5
            (value,) = [x for x, y in self.points(plot) if near(y)]
            ends = [(x_of(float(a)), x_of(float(b))) for a, y, b, z in whiskers if near(y) and near(z)]
            out["rows"][name] = [x_of(value), *(ends[0] if ends else (x_of(value),) * 2)]
        return out


if __name__ == "__main__":
    print(json.dumps(Figure(ET.parse(sys.argv[1]).getroot()).read()))
