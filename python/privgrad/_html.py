"""Plans, runs and studies as HTML for notebooks, without scripts and with every text escaped."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from . import _core

if TYPE_CHECKING:
    from .results import Plan, Study
    from .runs import Run

def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return "∞" if math.isinf(value) else escape(f"{value:.4g}")
    return escape(str(value))


def _table(rows: Sequence[Sequence[Any]], head: Sequence[str] = ()) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(
            f"<td>{_text(cell)}</td>" for cell in row
        ) + "</tr>"
        for row in rows
    )
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if top else ''}<tbody>{body}</tbody></table>"


def _line(values: Sequence[float], title: str) -> str:
    """A line chart over the steps; a line of text if all steps have the same value."""
    points = [(step, value) for step, value in enumerate(values, 1) if math.isfinite(value)]
    if len({value for _, value in points}) < 2:
        return f"<div>{escape(title)}: {_text(points[0][1] if points else None)}</div>"
    return _figure({"title": title, "x": "step", "series": [{"name": title, "points": points}]})


def _figure(chart: dict[str, Any]) -> str:
    picture = _core.chart(json.dumps(chart))
    return f'<div style="display:inline-block;width:440px;max-width:100%">{picture}</div>' if picture else ""


def plan_html(plan: Plan) -> str:
    """A plan: its cost, by accountant, and its schedules."""
    facts = _table([
        ("epsilon", plan.epsilon), ("delta", plan.delta), ("steps", plan.steps),
        ("parameters", plan.parameters), ("unaccounted", ", ".join(plan.unaccounted) or "nothing"),
    ])
    who = _table(
        [(name, a.epsilon, a.lower, a.bound) for name, a in plan.accountants.items()],
        ("accountant", "epsilon", "lower", "bound"),
    )
    charts = "".join(
        _line(values, title) for title, values in (
            ("noise multiplier", plan.noise_multiplier), ("clip norm", plan.clip_norm),
            ("learning rate", plan.learning_rate),
        )
    )
    return f"<div><b>plan {_text(plan.name)}</b>{facts}{who}{charts}</div>"


def run_html(run: Run) -> str:
    """A run: its guarantee, its metrics, and their course."""
    facts = _table([
        ("status", run.status), ("epsilon", run.epsilon), ("delta", run.delta),
        ("steps", run.steps), ("mode", run.mode),
        ("unaccounted", ", ".join(run.unaccounted) or "nothing"), ("directory", run.run_dir),
    ])
    metrics = _table([(name, value) for name, value in run.metrics.items() if value is not None])
    charts = ""
    try:
        history = run.history()
    except OSError:  # the directory is gone
        history = []
    for name in sorted({key for line in history for key in line}):
        values = [line.get(name) for line in history]
        if name.split("_")[0] in ("train", "test") or name == "epsilon":
            charts += _line([v for v in values if isinstance(v, (int, float))], name)
    return f"<div><b>run</b>{facts}{metrics}{charts}</div>"


def study_html(study: Study) -> str:
    """A study: each arm's means, and for each metric a chart of the means and their intervals."""
    names = list(study.arms[0].metrics) if study.arms else []
    table = _table(
        [(arm.name, arm.runs, arm.epsilon, *((arm.metrics.get(name) or {}).get("mean") for name in names))
         for arm in study.arms],
        ("arm", "runs", "epsilon", *names),
    )
    charts = "".join(
        _figure({"title": f"Mean {name}", "x": name,
                 "rows": [row for arm in study.arms for row in _row(arm.name, arm.metrics.get(name) or {})]})
        for name in names
    )
    return f"<div><b>study {_text(study.name)}</b>{table}{charts}</div>"


def _row(name: str, metric: dict[str, Any]) -> list[tuple[str, float, float, float]]:
    """An arm's row of a chart of intervals, if it has a mean."""
    mean = metric.get("mean")
    if mean is None:
        return []
    low, high = metric.get("ci95") or (mean, mean)
    return [(name, mean, low, high)]
