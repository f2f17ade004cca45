"""What mechanisms of correlated noise leave in momentum and prefix sums, before any run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from ._arguments import checked
from ._framework import ManifestLike, framework, manifest_text, override_lines
from .api import Overrides, Path
from .data import lent_manifest
from .errors import ConfigError

__all__ = ["noise_error"]


@checked
def noise_error(
    manifest: ManifestLike,
    other: ManifestLike | None = None,
    *,
    momentum: float | None = None,
    restart_every: int | None = None,
    smoothness: float | None = None,
    windows: Iterable[int] | None = None,
    samplers: bool = False,
    overrides: Overrides = (),
    plugin_dirs: Iterable[Path] = (),
) -> dict[str, Any]:
    """Predict the noise in released momentum or prefix sums, by mechanism. Trains nothing.

    Parameters
    ----------
    manifest : dict, path or str
        As for ``validate``; the mechanisms are compared at its guarantee.
    other : dict, path or str, optional
        A second manifest of the same guarantee: the two are compared, each with its own aggregator and
        steps; ``overrides`` are for both.
    momentum : float, optional
        In (0, 1]; 1 is prefix sums. Default: that of the manifest's aggregator.
    restart_every : int, optional
        Trees are compared that are restarted after so many steps, too. For one manifest.
    smoothness : float, optional
        Of the loss, for ``tree_reduced``. For one manifest.
    windows : iterable of int, optional
        Lengths in steps: the noise in the mean of so many releases in a row, which is what moves a model.
        Default: as many as the momentum remembers, and ten times as many.
    samplers : bool
        Samplers of the same expected batch size are compared as well. For one manifest.
    overrides : dict or iterable of str
        As for ``validate``.
    plugin_dirs : iterable of path
        As for ``validate``.

    Returns
    -------
    dict
        What ``privgrad noise-error --json`` prints.

    Raises
    ------
    ConfigError
        If a manifest has no target, the guarantees differ, or the momentum is said nowhere.
    PrivacyError
        If nothing is proved for any mechanism under the manifest's sampler.
    """
    if other is not None and (restart_every is not None or smoothness is not None or samplers):
        raise ConfigError(
            "restart_every, smoothness and samplers are for one manifest, and there are two, each with its "
            "own aggregator"
        )
    lines = override_lines(overrides)
    with ExitStack() as stack:
        given = [one for one in (manifest, other) if one is not None]
        texts = [manifest_text(stack.enter_context(lent_manifest(one, lines)), lines) for one in given]
        answer = framework(plugin_dirs).noise_error(
            texts, momentum, restart_every, smoothness,
            None if windows is None else list(windows), samplers,
        )
    return json.loads(answer)
