"""Plans, runs and studies as HTML for notebooks, without scripts and with every text escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Plan, Study
    from .runs import Run

_WIDTH, _HEIGHT = 260, 70


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
            cell if isinstance(cell, _Html) else f"<td>{_text(cell)}</td>" for cell in row
        ) + "</tr>"
        for row in rows
    )
    return f"<table>{f'<thead><tr>{top}</tr></thead>' if top else ''}<tbody>{body}</tbody></table>"


class _Html(str):
    """A cell that already is HTML."""


def _line(values: Sequence[float], title: str) -> str:
    """A line chart; a line of text if all steps have the same value."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite or min(finite) == max(finite):
        return f"<div>{escape(title)}: {_text(finite[0] if finite else None)}</div>"
    low, high = min(finite), max(finite)
    last = max(len(values) - 1, 1)
    # At most one point per pixel; the smallest and the largest value are kept.
    stride = max(1, len(values) // _WIDTH)
    shown = [i for i in range(len(values)) if i % stride == 0 or values[i] in (low, high)]
    points = " ".join(
        f"{i * _WIDTH / last:.1f},{_HEIGHT - (values[i] - low) / (high - low) * (_HEIGHT - 8) - 4:.1f}"
        for i in shown if math.isfinite(values[i])
    )
    return (
        f'<figure style="display:inline-block;margin:4px 12px 4px 0"><figcaption>{escape(title)} '
        f"({_text(low)} to {_text(high)})</figcaption>"
        f'<svg role="img" aria-label="{escape(title, quote=True)}" width="{_WIDTH}"'
        f' height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"><polyline fill="none"'
        f' stroke="currentColor" stroke-width="1.5" points="{points}"/></svg></figure>'
    )


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
    """A study: each arm's means with their intervals, on one axis per metric."""
    names = list(study.arms[0].metrics) if study.arms else []
    rows = []
    for arm in study.arms:
        cells: list[Any] = [arm.name, arm.runs, arm.epsilon]
        for name in names:
            cells.append(_interval(arm.metrics.get(name) or {}, _range(study, name)))
        rows.append(cells)
    table = _table(rows, ("arm", "runs", "epsilon", *names))
    return f"<div><b>study {_text(study.name)}</b>{table}</div>"


def _range(study: Study, name: str) -> tuple[float, float]:
    ends = [end for arm in study.arms for end in (arm.metrics.get(name) or {}).get("ci95") or []
            if end is not None]
    return (min(ends), max(ends)) if ends else (0.0, 0.0)


def _interval(metric: dict[str, Any], span: tuple[float, float]) -> _Html:
    """A mean with its interval, as a bar and as text."""
    mean, ci = metric.get("mean"), metric.get("ci95")
    if mean is None:
        return _Html("<td>–</td>")
    low, high = span
    svg = ""
    if ci and None not in ci and high > low:
        left, right, middle = (120 * (x - low) / (high - low) for x in (*ci, mean))
        svg = (
            f'<svg width="124" height="14" role="img" aria-label="interval"><line x1="{left + 2:.1f}"'
            f' x2="{right + 2:.1f}" y1="7" y2="7" stroke="currentColor"/><circle cx="{middle + 2:.1f}"'
            ' cy="7" r="3" fill="currentColor"/></svg> '
        )
    return _Html(f"<td>{svg}{_text(float(mean))}</td>")
