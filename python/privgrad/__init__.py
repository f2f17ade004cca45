"""Training under differential privacy, with plugins that a manifest combines.

The functions are those of the command: ``account``, ``calibrate``, ``plan``, ``run``, ``ablate``,
``suggest``, ``predict``, ``evaluate``, ``verify``, ``audit``, ``plugins``. docs/python.md describes
them.
"""

from __future__ import annotations

from . import _core
from ._export import export
from ._suggest import suggest
from .api import (
    account,
    calibrate,
    describe,
    evaluate,
    plan,
    plugins,
    predict,
    run,
    schema,
    validate,
    verify,
)
from .callbacks import Callback, Progress, ProgressBar
from .errors import (
    ConfigError,
    DataError,
    Interrupted,
    ManifestError,
    NumericError,
    PluginError,
    PrivacyError,
    PrivgradError,
    PrivgradWarning,
    Problem,
    StudyError,
)
from .noise import noise_error
from .results import (
    Account,
    AccountantAnswer,
    Arm,
    Audit,
    Calibration,
    Plan,
    Plugin,
    Predictions,
    Study,
    Verification,
)
from .runs import Run
from .studies import ablate, audit, plan_study

__version__: str = _core.VERSION

__all__ = [
    "Account",
    "AccountantAnswer",
    "Arm",
    "Audit",
    "Calibration",
    "Callback",
    "ConfigError",
    "DataError",
    "Interrupted",
    "ManifestError",
    "NumericError",
    "Plan",
    "Plugin",
    "PluginError",
    "Predictions",
    "PrivacyError",
    "PrivgradError",
    "PrivgradWarning",
    "Problem",
    "Progress",
    "ProgressBar",
    "Run",
    "Study",
    "StudyError",
    "Verification",
    "ablate",
    "account",
    "audit",
    "calibrate",
    "describe",
    "evaluate",
    "export",
    "noise_error",
    "plan",
    "plan_study",
    "plugins",
    "predict",
    "run",
    "schema",
    "suggest",
    "validate",
    "verify",
]
