"""Predicts the noise in momentum and prefix sums for mechanisms of correlated noise."""

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
        As for ``validate``; the mechanisms are compared for its guarantee.
    other : dict, path or str, optional
        A second manifest with the same guarantee: the two are compared, each with its own
        aggregator and steps; ``overrides`` apply to both.
    momentum : float, optional
        In (0, 1]; 1 means prefix sums. Default: that of the manifest's aggregator.
    restart_every : int, optional
        Also compare trees that are restarted after this many steps. Only with one manifest.
    smoothness : float, optional
        Smoothness of the loss, for ``tree_reduced``. Only with one manifest.
    windows : iterable of int, optional
        Lengths in steps: the noise in the mean of this many successive releases, which is what
        affects a model. Default: the memory of the momentum, and ten times as many.
    samplers : bool
        Also compare samplers with the same expected batch size. Only with one manifest.
    overrides : dict or iterable of str
        As for ``validate``.
    plugin_dirs : iterable of path
        As for ``validate``.

    Returns
    -------
    dict
        The output of ``privgrad noise-error --json``.

    Raises
    ------
    ConfigError
        If a manifest has no target, the guarantees differ, or no momentum is given.
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
