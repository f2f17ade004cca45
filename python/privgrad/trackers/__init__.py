"""Callbacks that report a run to an experiment tracker.

Each of them receives only what any callback receives: values that release mode does not show never
reach a tracker. They need their packages: ``pip install 'privgrad[mlflow]'`` and so on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..callbacks import Progress

if TYPE_CHECKING:
    from ..runs import Run

__all__ = ["MLflow", "TensorBoard", "WeightsAndBiases"]


def _numbers(progress: Progress) -> dict[str, float]:
    """The finite metrics: databases store an infinite epsilon as 1.8e308, which looks like a guarantee."""
    named = {**progress.metrics, "epsilon": progress.epsilon}
    return {name: value for name, value in named.items() if math.isfinite(value)}


def _facts(run: Run) -> dict[str, Any]:
    return {
        "status": run.status,
        "epsilon": run.epsilon,
        "delta": run.delta,
        "accountant": run.accountant,
        "mode": run.mode,
        "steps": run.steps,
        "unaccounted": ", ".join(run.unaccounted) or "nothing",
    }


class MLflow:
    """Track a run in MLflow.

    Parameters
    ----------
    client : mlflow.MlflowClient, optional
        Default: a client for the current tracking address.
    experiment : str
        The experiment's name; created if it does not exist.
    artifacts : bool
        Also log the statement, the summary and the manifest, but never the ledger's opening or
        keys, which are stored elsewhere.
    """

    def __init__(self, client: Any = None, experiment: str = "privgrad", *,
                 artifacts: bool = True) -> None:
        self._client = client
        self._experiment = experiment
        self._artifacts = artifacts
        #: The identifier of the last run in MLflow.
        self.run_id: str | None = None

    def begin(self) -> None:
        """Open a run."""
        if self._client is None:
            from mlflow import MlflowClient

            self._client = MlflowClient()
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = (
            found.experiment_id if found else self._client.create_experiment(self._experiment)
        )
        self.run_id = self._client.create_run(experiment).info.run_id

    def __call__(self, progress: Progress) -> None:
        """Log the metrics of a step."""
        for name, value in _numbers(progress).items():
            self._client.log_metric(self.run_id, name, value, step=progress.step)

    def end(self, run: Run | None) -> None:
        """Log the guarantee and the files of the run, and close the run.

        Parameters
        ----------
        run : Run or None
            None if it was stopped or failed.
        """
        if run is not None:
            for name, value in _facts(run).items():
                self._client.log_param(self.run_id, name, value)
            if self._artifacts:
                for name in ("statement.json", "summary.json", "manifest.yaml"):
                    if (run.run_dir / name).exists():
                        self._client.log_artifact(self.run_id, str(run.run_dir / name))
        self._client.set_terminated(self.run_id, "FINISHED" if run is not None else "KILLED")


class TensorBoard:
    """Write a run for TensorBoard.

    Parameters
    ----------
    log_dir : str
        The directory of the event files.
    """

    def __init__(self, log_dir: str) -> None:
        self._log_dir = log_dir
        self._writer: Any = None

    def begin(self) -> None:
        """Open the event file."""
        from tensorboard.summary import Writer

        self._writer = Writer(self._log_dir)

    def __call__(self, progress: Progress) -> None:
        """Write the metrics of a step."""
        for name, value in _numbers(progress).items():
            self._writer.add_scalar(name, value, progress.step)

    def end(self, run: Run | None) -> None:
        """Close the event file.

        Parameters
        ----------
        run : Run or None
            None if it was stopped or failed.
        """
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases:
    """Track a run in Weights & Biases.

    Parameters
    ----------
    **options
        As for ``wandb.init``.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._run: Any = None

    def begin(self) -> None:
        """Open a run."""
        import wandb

        self._run = wandb.init(**self._options)

    def __call__(self, progress: Progress) -> None:
        """Log the metrics of a step."""
        self._run.log(_numbers(progress), step=progress.step)

    def end(self, run: Run | None) -> None:
        """Log the guarantee, and close the run.

        Parameters
        ----------
        run : Run or None
            None if it was stopped or failed.
        """
        if run is not None:
            self._run.summary.update(_facts(run))
        self._run.finish(exit_code=0 if run is not None else 1)
