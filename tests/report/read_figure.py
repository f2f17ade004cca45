#!/usr/bin/env python3
"""Reads a chart back from an SVG file, by its ticks: what a reader would measure with a ruler.

    read_figure.py FILE

Prints JSON: title, x and y (the names of the axes; null: none), grain (how far a reading of either axis may be off),
series (of curves: each name's last point, [x, y]), rows (of intervals: each name's [middle, low, high]).
"""

import json
import re
import sys
import xml.etree.ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


class Figure:
    def __init__(self, root):
        self.groups = [g for g in root.iter(SVG + "g") if g.get("class") in ("series", "row")]
        inside = {id(part) for group in root.iter(SVG + "g") for part in group.iter()}
        self.x_ticks, self.y_ticks = [], []
        self.words = {"title": None, "x": None, "y": None}
        middle = []
        for text in root.iter(SVG + "text"):
            x, y, words = float(text.get("x")), float(text.get("y")), text.text
            if id(text) in inside:
                continue
            if text.get("font-weight"):
                self.words["title"] = words
            elif text.get("transform"):
                self.words["y"] = words
            elif text.get("text-anchor") == "end":
                self.y_ticks.append((y - 4.5, number(words)))
            else:
                middle.append((y, x, words))
        paths = (re.fullmatch(r"M([-\d.]+) [-\d.]+L([-\d.]+) [-\d.]+", p.get("d")) for p in root.iter(SVG + "path"))
        lines = [float(path[1]) for path in paths if path and path[1] == path[2]]
        # The labels of ticks stand on one line, the name of the axis below them.
        last = max(y for y, _, _ in middle)
        for y, x, words in middle:
            if y == last:
                self.words["x"] = words
            else:
                # A label at the edge is moved to be in sight; its line is where its value is.
                self.x_ticks.append((min(lines, key=lambda line: abs(line - x)), number(words)))

    @staticmethod
    def scale(ticks):
        """From places to values, by the outermost ticks, and how far a value may be off.

        Places are written in tenths of a unit, so each of them is off by at most a twentieth. A reading uses three places:
        its own and those of the two ticks. Beyond the ticks, by at most the distance between them, the reading is off by
        at most 1 + 2 + 1 twentieths.
        """
        (p, low), (q, high) = min(ticks), max(ticks)
        worth = (high - low) / (q - p)
        return (lambda at: low + (at - p) * worth), abs(worth) * 4 / 20

    @staticmethod
    def end(group):
        """The place of a curve's last point: its last marker, or the end of its line."""
        found = [(float(c.get("cx")), float(c.get("cy"))) for c in group.iter(SVG + "circle") if c.get("fill") == "transparent"]
        if found:
            return found[-1]
        path = next(p for p in group.iter(SVG + "path") if p.get("fill") == "none" and p.get("stroke-width") == "2")
        return tuple(float(n) for n in re.findall(r"-?[\d.]+", path.get("d"))[-2:])

    def read(self):
        x_of, x_grain = self.scale(self.x_ticks)
        out = dict(self.words, series={}, rows={}, grain=[x_grain, 0.0])
        for group in self.groups:
            name = group.get("data-name")
            if group.get("class") == "row":
                dot = group.find(SVG + "circle")
                line = group.find(SVG + "path")
                ends = re.match(r"M([-\d.]+) [-\d.]+H([-\d.]+)", line.get("d")) if line is not None else None
                places = [float(dot.get("cx"))] + ([float(ends[1]), float(ends[2])] if ends else 2 * [float(dot.get("cx"))])
                out["rows"][name] = [x_of(place) for place in places]
            else:
                y_of, out["grain"][1] = self.scale(self.y_ticks)
                x, y = self.end(group)
                out["series"][name] = [x_of(x), y_of(y)]
        return out


print(json.dumps(Figure(ET.parse(sys.argv[1]).getroot()).read()))
