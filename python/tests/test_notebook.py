"""What notebooks show, and what trackers receive."""

from __future__ import annotations

import io
import xml.dom.minidom
from typing import Any

import pytest

import privgrad
from privgrad.trackers import MLflow, TensorBoard


def shown(thing: Any) -> str:
    """The HTML, after a check that every tag is closed."""
    html = thing._repr_html_()
    xml.dom.minidom.parseString(html)
    assert "<script" not in html
    return html


def test_plans_and_runs_and_studies_are_shown(small: dict[str, Any]) -> None:
    small["schedules"]["learning_rate"] = {"kind": "exponential", "initial": 0.5, "rate": 0.1}
    plan = privgrad.plan(small)
    html = shown(plan)
    assert html.count("<svg") == 1  # an entry that is the same in all steps is a line of text
    assert "noise multiplier: " in html
    run = privgrad.run(small)
    html = shown(run)
    assert "train_loss" in html
    assert "<svg" in html
    base = {k: v for k, v in small.items() if k != "seed"}
    study = privgrad.ablate(
        {"study": 1, "name": "s", "base": base, "seeds": [1, 2],
         "axes": {"schedules.clip_norm": [0.5, 1]}, "metrics": ["train_loss"]}
    )
    assert shown(study).count('class="row"') == 2


def test_texts_are_escaped(small: dict[str, Any]) -> None:
    from dataclasses import replace

    plan = replace(privgrad.plan(small), name="<script>alert(1)</script>")
    assert "&lt;script&gt;" in shown(plan)


def test_the_progress_bar_has_epsilon(small: dict[str, Any]) -> None:
    pytest.importorskip("tqdm")
    said = io.StringIO()
    privgrad.run(small, callback=privgrad.ProgressBar(file=said, mininterval=0))
    assert "epsilon=" in said.getvalue()
    assert "20/20" in said.getvalue()


class Recorded:
    """An MLflow client that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            self.calls.append((name, given, named))

        return call


def test_mlflow_against_a_local_store(small: dict[str, Any], tmp_path: Any) -> None:
    mlflow = pytest.importorskip("mlflow")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/store.db")
    client.create_experiment("privgrad", artifact_location=(tmp_path / "artifacts").as_uri())
    tracker = MLflow(client)
    run = privgrad.run(small, callback=tracker)
    stored = client.get_run(tracker.run_id)
    assert stored.info.status == "FINISHED"
    assert float(stored.data.params["epsilon"]) == run.epsilon
    history = client.get_metric_history(tracker.run_id, "train_loss")
    assert [m.value for m in history][-1] == run.metrics["train_loss"]
    assert history[-1].step == 20
    assert {a.path for a in client.list_artifacts(tracker.run_id)} == {
        "manifest.yaml", "statement.json", "summary.json",
    }


def test_an_infinite_epsilon_is_no_metric(small: dict[str, Any], tmp_path: Any) -> None:
    # SQL databases store it as 1.8e308, which would look like a guarantee.
    mlflow = pytest.importorskip("mlflow")
    small["privacy"]["noise"] = "off"
    tracker = MLflow(mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/store.db"), artifacts=False)
    privgrad.run(small, callback=tracker)
    stored = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/store.db").get_run(tracker.run_id).data
    assert stored.params["epsilon"] == "inf"
    assert set(stored.metrics) == {"train_loss", "train_accuracy", "test_loss", "test_accuracy"}


def test_a_run_that_fails_is_closed_too(small: dict[str, Any]) -> None:
    client = Recorded()

    class Given:
        class info:  # noqa: N801
            run_id = "r"

        experiment_id = "e"

    client.__dict__["get_experiment_by_name"] = lambda name: Given
    client.__dict__["create_run"] = lambda experiment: Given

    def enough(progress: privgrad.Progress) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        privgrad.run(small, callback=[MLflow(client), enough])
    assert client.calls[-1] == ("set_terminated", ("r", "KILLED"), {})


def test_tensorboard_reads_what_a_run_has_written(small: dict[str, Any], tmp_path: Any) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    run = privgrad.run(small, callback=TensorBoard(str(tmp_path / "events")))
    read = EventAccumulator(str(tmp_path / "events"))
    read.Reload()
    losses = read.Tensors("train_loss")
    assert losses[-1].step == 20
    assert float(make_ndarray(losses[-1].tensor_proto)) == pytest.approx(run.metrics["train_loss"], rel=1e-6)
    assert float(make_ndarray(read.Tensors("epsilon")[-1].tensor_proto)) == pytest.approx(run.epsilon, rel=1e-6)
