"""Federated runs whose clients are programs of their own, by whatever carries bytes between them.

A ``Client`` has its examples, its noise and its ledger, and answers orders; ``serve`` makes the
run and hands orders out. What both sides say is bytes, which anybody may carry: ``privgrad.flower``
does so by Flower. docs/flower.md says who sees what, and who is charged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _core
from ._framework import ManifestLike, framework, manifest_text, plain, yaml_text
from .api import Overrides, Path, _path, _warn
from .callbacks import as_callback
from .errors import ConfigError
from .runs import Run, _ended

__all__ = ["Client", "common_ground", "serve"]

#: What sets two sides apart: what is compared, and what a side has where it differs.
_GROUND = {
    "protocol": "another protocol",
    "program": "another PrivGrad",
    "plugins": "other plugins",
    "manifest": "another manifest",
}


class Client:
    """One client of a federated run, as a program of its own.

    Its ledger is charged before an example is looked at; noise is drawn from a key that never leaves its
    machine (but for manifests with a seed, which are for research). A round that was cut off is paid for
    and not made again. With ``aggregation: dp_fed_avg`` the server sees exact changes, and adds the
    noise: such a run needs `trust_server`.

    Parameters
    ----------
    manifest : dict, path or str
        Of the run. The server has the same, but for its section ``data``.
    client : int
        The client's number, from 0.
    directory : path
        The client's part in this run, new or its own: its ledger, and what it is bound to. A directory
        takes part in one run.
    data : dict or path, optional
        A section ``data`` with this client's own examples and no others; ``federated.sizes`` of the
        manifest declares how many each client has. Default the manifest's, which then holds the
        examples of all clients, as in a run on one machine.
    overrides : dict or iterable of str
        As for ``privgrad.run``, of the manifest.
    state : path, optional
        Keep what is private here; default as the command's.
    threads : int, optional
        Default all; the result does not depend on it.
    trust_server : bool
        Let the server of ``dp_fed_avg`` see what this client's examples do to the model.
    plugin_dirs : iterable of path
        Looked through for plugins first.

    Raises
    ------
    ManifestError, PrivacyError, DataError
    """

    def __init__(
        self,
        manifest: ManifestLike,
        client: int,
        directory: Path,
        *,
        data: Mapping[str, Any] | Path | None = None,
        overrides: Overrides = (),
        state: Path | None = None,
        threads: int | None = None,
        trust_server: bool = False,
        plugin_dirs: Iterable[Path] = (),
    ) -> None:
        if client < 0:
            raise ConfigError(f"client is {client}, allowed is 0 and above")
        text = manifest_text(manifest, overrides)
        own = None if data is None else manifest_text(manifest, [*_lines(overrides), _own_data(data)])
        self._client = _core.FederatedClient(
            framework(plugin_dirs), text, own, client, os.fspath(directory), _path(state), threads or 0,
            trust_server,
        )

    def introduction(self) -> dict[str, Any]:
        """Say what the server must know before the run; all of it is public.

        Returns
        -------
        dict
            ``client``, ``facts`` (shapes and declared sizes), and the hashes of what both sides must
            have in common.
        """
        return json.loads(self._client.introduction())

    def answer(self, order: bytes) -> bytes:
        """Carry out an order of the server.

        Parameters
        ----------
        order : bytes
            Anybody may have written it.

        Returns
        -------
        bytes
            For the server: a release, but with ``dp_fed_avg``. The same order is answered with the same
            bytes. The server's last word closes the ledger and takes the key away; it is its own answer.

        Raises
        ------
        ConfigError
            If it is no order of this run.
        PrivacyError
            If it is refused: another run, or a round that was made or cut off.
        """
        return self._client.answer(order)


def _lines(overrides: Overrides) -> list[str]:
    from ._framework import override_lines

    return override_lines(overrides)


def _own_data(data: Mapping[str, Any] | Path) -> str:
    if isinstance(data, Mapping):
        return f"data={yaml_text(plain(data, 'data'))}"
    with open(data, encoding="utf-8") as file:
        return f"data={file.read()}"


def common_ground(
    manifest: ManifestLike, *, overrides: Overrides = (), plugin_dirs: Iterable[Path] = ()
) -> dict[str, Any]:
    """Give the hashes of what a server and its clients must have in common.

    Parameters
    ----------
    manifest, overrides, plugin_dirs
        As for ``privgrad.validate``.

    Returns
    -------
    dict
        ``protocol``, ``program``, ``plugins`` and ``manifest``, which leaves out the section ``data``.

    Raises
    ------
    ManifestError, PrivacyError
    """
    return json.loads(framework(plugin_dirs).common_ground(manifest_text(manifest, overrides)))


def difference(introduction: Mapping[str, Any], ground: Mapping[str, Any]) -> str | None:
    """Say in what a client differs from a server; None if it does not."""
    return next((what for key, what in _GROUND.items() if introduction.get(key) != ground[key]), None)


def serve(
    manifest: ManifestLike,
    introductions: Sequence[Mapping[str, Any]],
    ask: Callable[[list[tuple[int, bytes]]], list[bytes | None]],
    *,
    refused: Callable[[int, str], None] | None = None,
    overrides: Overrides = (),
    out: Path | None = None,
    threads: int | None = None,
    state: Path | None = None,
    callback: Any = None,
    plugin_dirs: Iterable[Path] = (),
) -> Run:
    """Make a federated run with clients that are programs of their own.

    The server has no examples, and with ``fed_avg`` no noise and no ledger: it averages releases.

    Parameters
    ----------
    manifest : dict, path or str
        Its section ``data`` is not opened.
    introductions : sequence of dict
        What the clients say, ``Client.introduction``: one of each.
    ask : callable
        Gets ``(client, order)`` of all that take part in a round; returns their answers in the same
        order, None where none came: the client is then lost in that round. Called on a thread of the
        run, and once more when the run is over, with the last word to every client, which closes its
        ledger.
    refused : callable, optional
        Told of an answer that is none, with the client and the reason.
    overrides, out, threads, state
        As for ``privgrad.run``.
    callback : callable, or tracker, or several of them
        As for ``privgrad.run``.
    plugin_dirs : iterable of path
        As for ``privgrad.run``.

    Returns
    -------
    Run
        Its epsilon is that of the plan, which holds whatever a server asks for; what was charged stands
        in the clients' ledgers.

    Raises
    ------
    ConfigError
        If a client is missing, is there twice, or differs from the server or from the others.
    ManifestError, PrivacyError
    """
    loaded = framework(plugin_dirs)
    text = manifest_text(manifest, overrides)
    facts = _facts(introductions, json.loads(loaded.common_ground(text)))
    listener = as_callback(callback)
    from .callbacks import Progress

    if listener is not None:
        listener.begin()
    result = None
    try:
        made, stopped_by = loaded.serve(
            text, json.dumps(facts), _path(out), _path(state), threads or 0, ask,
            refused or (lambda client, why: None),
            None if listener is None else lambda report: listener(Progress._of(json.loads(report))),
        )
        result, notes = _ended(made, stopped_by, 0 if listener is None else listener.step)
    finally:
        if listener is not None:
            listener.end(result)
    _warn(notes)
    return result


def _facts(introductions: Sequence[Mapping[str, Any]], ground: Mapping[str, Any]) -> dict[str, Any]:
    """What all clients say of shapes and sizes."""
    if not introductions:
        raise ConfigError("no client has introduced itself")
    for said in introductions:
        if (what := difference(said, ground)) is not None:
            raise ConfigError(f"client {said.get('client')} has {what} than the server")
    facts = introductions[0]["facts"]
    numbers = sorted(said["client"] for said in introductions)
    if numbers != list(range(len(facts["shard_sizes"]))):
        raise ConfigError(f"the clients that are there are {numbers}, expected each of 0 to "
                          f"{len(facts['shard_sizes']) - 1} once")
    for said in introductions:
        if said["facts"] != facts:
            key = next(key for key in facts if said["facts"].get(key) != facts[key])
            raise ConfigError(
                f"client {said['client']} says {key} of its data is {said['facts'].get(key)!r}, client "
                f"{introductions[0]['client']} says {facts[key]!r}"
            )
    return facts


