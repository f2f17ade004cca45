"""The results of calls: the command's JSON as objects."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

from .errors import ConfigError

__all__ = [
    "Account",
    "AccountantAnswer",
    "Arm",
    "Audit",
    "Calibration",
    "Plan",
    "Plugin",
    "Predictions",
    "Study",
    "Verification",
]


def number(value: float | None) -> float:
    """A number from JSON, which has null instead of infinity."""
    return math.inf if value is None else float(value)


def pandas() -> Any:
    """Import the package pandas, which makes the frames."""
    try:
        import pandas
    except ImportError as problem:
        raise ConfigError("frames need pandas: pip install pandas") from problem
    return pandas


@dataclass(frozen=True)
class Account:
    """The cost of an event.

    Attributes
    ----------
    epsilon, delta : float
        One was given, the other was computed; infinite if no finite value can be proved.
    bound : str
        ``"exact"``, ``"upper"`` or ``"estimate"``.
    lower : float or None
        A lower bound on the true value, if the accountant has one.
    accountant, adjacency, note : str
        The accountant, the adjacency, and a remark about the answer.
    """

    accountant: str
    adjacency: str
    epsilon: float
    delta: float
    bound: str
    lower: float | None
    note: str

    @classmethod
    def _of(cls, json: dict[str, Any]) -> Account:
        return cls(**{**json, "epsilon": number(json["epsilon"]), "delta": number(json["delta"])})


@dataclass(frozen=True)
class Calibration:
    """Noise for a number of steps, or the number of steps for a noise, that meets a guarantee.

    Attributes
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the bound of one example's contribution.
    steps : int
        0 if not even one step fits; ``note`` then gives the cost of one step.
    epsilon, delta : float
        Their total cost: at most the target.
    """

    noise_multiplier: float
    steps: int
    sample_rate: float | None
    allocation: int | None
    epsilon: float
    delta: float
    target_epsilon: float
    bound: str
    lower: float | None
    accountant: str
    adjacency: str
    note: str

    @classmethod
    def _of(cls, json: dict[str, Any]) -> Calibration:
        return cls(**{**json, "epsilon": number(json["epsilon"])})


@dataclass(frozen=True)
class AccountantAnswer:
    """One accountant's answer about a plan."""

    epsilon: float
    lower: float | None
    bound: str


@dataclass(frozen=True)
class Plan:
    """The steps and the cost of a planned run.

    Attributes
    ----------
    steps : int
        Number of steps that the budget can pay for.
    noise_multiplier, clip_norm, learning_rate : tuple of float
        A value for each step.
    epsilon, delta : float
        The cost of all steps; infinite without noise.
    accountants : dict of str to AccountantAnswer
        The answers of all accountants, including the one that guards the budget.
    parameters : int
        Number of trained parameters.
    unaccounted : tuple of str
        Uses of private rows that were not charged.
    event : dict
        The event, as ``privgrad.account`` takes it.
    manifest : str
        The manifest with every default filled in, as YAML.
    json : dict
        The output of ``privgrad plan --json``.
    """

    name: str
    steps: int
    noise_multiplier: tuple[float, ...]
    clip_norm: tuple[float, ...]
    learning_rate: tuple[float, ...]
    epsilon: float
    delta: float
    accountants: dict[str, AccountantAnswer]
    parameters: int
    unaccounted: tuple[str, ...]
    event: dict[str, Any]
    manifest: str = field(repr=False)
    json: dict[str, Any] = field(repr=False)

    @classmethod
    def _of(cls, name: str, manifest: str, json: dict[str, Any]) -> Plan:
        return cls(
            name=name,
            steps=json["steps"],
            noise_multiplier=tuple(json["noise_multiplier"]),
            clip_norm=tuple(json["clip_norm"]),
            learning_rate=tuple(json["learning_rate"]),
            epsilon=number(json["epsilon"]),
            delta=json["delta"],
            accountants={
                who: AccountantAnswer(number(a["epsilon"]), a["lower"], a["bound"])
                for who, a in json["accountants"].items()
            },
            parameters=json["parameters"],
            unaccounted=tuple(str(item) for item in json["unaccounted"]),
            event=json["event"],
            manifest=manifest,
            json=json,
        )

    def _repr_html_(self) -> str:
        from ._html import plan_html

        return plan_html(self)


@dataclass(frozen=True)
class Plugin:
    """An available component, and the file that contains it.

    Attributes
    ----------
    kind, name : str
        The names in manifests: ``"optimizer"``, ``"momentum"``.
    plugin, version, path, abi, sha256 : str
        Its plugin.
    tested : bool
        Whether there is a record that this exact file passed the conformance suite.
    missing_hardware : str
        Why this machine cannot run it; empty if it can.
    """

    kind: str
    name: str
    full_name: str
    summary: str
    missing_hardware: str
    plugin: str
    version: str
    path: str
    abi: str
    sha256: str
    tested: bool


@dataclass(frozen=True)
class Verification:
    """The result of verifying a run or a study from its files.

    Attributes
    ----------
    verified : bool
        Whether there are no problems. The object itself is then true.
    epsilon, delta : float or None
        Derived again; None if this was not possible.
    problems, notes : tuple of str
        What is wrong, and what was not checked.
    """

    verified: bool
    epsilon: float | None
    delta: float | None
    accountants: dict[str, Any]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    last_lines: dict[str, str]
    signature: dict[str, Any] | None

    @classmethod
    def _of(cls, json: dict[str, Any]) -> Verification:
        return cls(**{**json, "problems": tuple(json["problems"]), "notes": tuple(json["notes"])})

    def __bool__(self) -> bool:
        return self.verified


@dataclass(frozen=True)
class Predictions:
    """A model's predictions for rows; as private as the rows.

    Attributes
    ----------
    probabilities : numpy.ndarray or None
        float64, [rows, classes]; None if the loss has no probabilities. NaN for a row that
        overflowed.
    values : numpy.ndarray or None
        float64, [rows, outputs], if there are no probabilities.
    predicted : numpy.ndarray or None
        int64, [rows]: the class, -1 for none; None for a regression.
    classes : tuple of str
        The names of the classes.
    split : str
        The split of the rows: ``"train"`` or ``"test"``.
    private : bool
        True unless the rows are declared public.
    kept : dict of str to numpy.ndarray
        The columns to keep, each [rows]: texts from a file, values from a table in memory.
    """

    probabilities: np.ndarray | None
    values: np.ndarray | None
    predicted: np.ndarray | None
    classes: tuple[str, ...]
    split: str
    private: bool
    kept: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        numbers = self.values if self.probabilities is None else self.probabilities
        return 0 if numbers is None else len(numbers)

    def columns(self) -> dict[str, np.ndarray]:
        """Return the predictions by name, like the columns of ``privgrad predict --out FILE.csv``.

        ``pandas.DataFrame(made.columns())`` turns them into a table.

        Returns
        -------
        dict of str to numpy.ndarray
            The kept columns; ``prediction``, ``class`` (the class's name; None for none) and
            ``probability_NAME`` for each class; ``value``, or ``value_0`` and so on, if there are
            no probabilities.

        Raises
        ------
        ConfigError
            If a kept column has the name of another column.
        """
        made = self._predicted_columns()
        for name in self.kept:
            if name in made:
                raise ConfigError(f"keep: predictions have a column '{name}', too; take it from kept")
        return {**self.kept, **made}

    def _predicted_columns(self) -> dict[str, np.ndarray]:
        import numpy as np

        named: dict[str, np.ndarray] = {}
        if self.predicted is not None:
            named["prediction"] = self.predicted
            names = np.array([*self.classes, None], dtype=object)
            named["class"] = names[self.predicted]  # -1, for no class, selects the last element
        numbers, begin = (self.values, "value") if self.probabilities is None else (self.probabilities, "probability")
        assert numbers is not None
        width = numbers.shape[1]
        if self.predicted is None and width == 1:
            return {"value": numbers[:, 0]}
        for place in range(width):
            name = self.classes[place] if place < len(self.classes) else str(place)
            named[f"{begin}_{name}"] = numbers[:, place]
        return named


@dataclass(frozen=True)
class Audit:
    """A lower bound on epsilon, from an attack.

    Attributes
    ----------
    epsilon_lower : float
        The lower bound, which holds with the given confidence.
    epsilon_upper : float
        The proved bound; infinite without noise.
    contradicts : bool
        Whether the two bounds contradict each other, so that the run is less private than proved.
    json : dict
        The output of ``privgrad audit --json``.
    """

    epsilon_lower: float
    epsilon_upper: float
    confidence: float
    method: str
    canaries: int
    contradicts: bool
    json: dict[str, Any] = field(repr=False)

    @classmethod
    def _of(cls, json: dict[str, Any]) -> Audit:
        lower, upper = number(json["epsilon_lower"]), number(json["epsilon_upper"])
        return cls(lower, upper, json["confidence"], json["method"], json["canaries"],
                   lower > upper, json)


@dataclass(frozen=True)
class Arm:
    """One variant of a study.

    Attributes
    ----------
    name : str
        The name of the arm.
    set : dict
        The changes that define it.
    runs : int
        Number of finished runs, each with its own seed.
    epsilon, delta : float
        The guarantee of each of its runs.
    metrics : dict
        For each metric ``mean``, ``std`` and ``ci95``.
    versus_baseline : dict
        For each metric ``difference``, ``ci95`` and ``p``, paired by seed.
    """

    name: str
    set: dict[str, Any]
    runs: int
    epsilon: float
    delta: float
    metrics: dict[str, Any]
    versus_baseline: dict[str, Any]


@dataclass(frozen=True)
class Study:
    """Variants compared at the same privacy.

    Attributes
    ----------
    name : str
        The name of the study.
    arms : tuple of Arm
        In the study's order.
    study_dir : pathlib.Path
        The directory of the study.
    json : dict
        The output of ``privgrad ablate --json``.
    """

    name: str
    arms: tuple[Arm, ...]
    study_dir: Path
    json: dict[str, Any] = field(repr=False)

    @classmethod
    def _of(cls, json: dict[str, Any]) -> Study:
        arms = tuple(
            Arm(arm["name"], arm.get("set", {}), arm["runs"], number(arm["epsilon"]), arm["delta"],
                arm["metrics"], arm.get("versus_baseline") or {})
            for arm in json["arms"]
        )
        return cls(str(json.get("name", "")), arms, Path(json["study_dir"]), json)

    def frame(self) -> Any:
        """Return every run of the study as a row of a frame.

        Returns
        -------
        pandas.DataFrame
            With the columns of results.csv: ``arm``, ``seed``, the keys that vary, ``status``,
            ``steps``, ``epsilon``, ``delta`` and the metrics.

        Raises
        ------
        ConfigError
            If pandas is not installed.
        """
        return pandas().read_csv(self.study_dir / "results.csv", dtype={"arm": str})

    def _repr_html_(self) -> str:
        from ._html import study_html

        return study_html(self)
