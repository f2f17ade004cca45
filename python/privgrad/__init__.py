"""Training under differential privacy, from plugins that a manifest puts together.

The functions are the command's: :func:`account`, :func:`calibrate`, :func:`plan`, :func:`run`,
:func:`evaluate`, :func:`verify`, :func:`plugins`. docs/python.md has the whole.
"""

from __future__ import annotations

from . import _core
from .api import (
    account,
    calibrate,
    describe,
    evaluate,
    plan,
    plugins,
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
from .results import Account, AccountantAnswer, Calibration, Plan, Plugin, Verification
from .runs import Run

__version__: str = _core.VERSION

__all__ = [
    "Account",
    "AccountantAnswer",
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
    "PrivacyError",
    "PrivgradError",
    "PrivgradWarning",
    "Problem",
    "Progress",
    "ProgressBar",
    "Run",
    "StudyError",
    "Verification",
    "account",
    "calibrate",
    "describe",
    "evaluate",
    "plan",
    "plugins",
    "run",
    "schema",
    "validate",
    "verify",
]
