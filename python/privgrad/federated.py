"""Federated runs with clients as separate programs, over any transport that carries bytes.

A ``Client`` has its examples, its noise and its ledger, and answers orders; ``serve`` makes the run
and sends the orders. Both sides exchange bytes, over any transport: ``privgrad.flower`` uses
Flower. docs/flower.md says who sees what, and who is charged.
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

# : The parts that may differ between the two sides: the compared key, and its description in
# messages.
_GROUND = {
    "protocol": "another protocol",
    "program": "another version of PrivGrad",
    "plugins": "other plugins",
    "manifest": "another manifest",
}


class Client:
    """One client of a federated run, as a separate program.

    Its ledger is charged before an example is read; noise is drawn from a key that never leaves its
    machine (except with a seed in the manifest, which is for research). An interrupted round stays
    charged and is not repeated. With ``aggregation: dp_fed_avg`` the server sees exact updates, and
    adds the noise: such a run requires `trust_server`.

    Parameters
    ----------
    manifest : dict, path or str
        The manifest of the run. The server's may only differ in the section ``data``.
    client : int
        The client's number, from 0.
    directory : path
        The client's directory for this run, either new or used by it before: its ledger, and the
        commitments. Each directory belongs to a single run.
    data : dict or path, optional
        A section ``data`` with only this client's own examples; ``federated.sizes`` of the manifest
        declares how many each client has. Default: the manifest's own section, which then has the
        examples of all clients, as in a run on one machine.
    overrides : dict or iterable of str
        As for ``privgrad.run``.
    state : path, optional
        The folder for private files; default as for the command.
    threads : int, optional
        Default all; the result does not depend on it.
    trust_server : bool
        Let the server of ``dp_fed_avg`` see this client's exact updates.
    server : str, optional
        HOST:PORT of the server that this client joins, for a site's policy that names the servers.
    key : path, optional
        The site's key (``privgrad verify --sign KEY --new-key`` makes one). With it, the answer to
        the server's last word is a signed receipt, which the server keeps.
    plugin_dirs : iterable of path
        Folders to search for plugins first.

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
        server: str | None = None,
        key: Path | None = None,
        plugin_dirs: Iterable[Path] = (),
    ) -> None:
        if client < 0:
            raise ConfigError(f"client is {client}, allowed is 0 and above")
        text = manifest_text(manifest, overrides)
        own = None if data is None else manifest_text(manifest, [*_lines(overrides), _own_data(data)])
        self._client = _core.FederatedClient(
            framework(plugin_dirs), text, own, client, os.fspath(directory), _path(state), threads or 0,
            trust_server, server, _path(key),
        )

    def introduction(self) -> dict[str, Any]:
        """Return what the server must know before the run; all of it is public.

        Returns
        -------
        dict
            ``client``, ``facts`` (shapes and declared sizes), and hashes of everything in which
            both sides must agree.
        """
        return json.loads(self._client.introduction())

    def answer(self, order: bytes) -> bytes:
        """Carry out an order of the server.

        Parameters
        ----------
        order : bytes
            It is not trusted: anyone may have written it.

        Returns
        -------
        bytes
            The answer for the server: a release, except with ``dp_fed_avg``. The same order always
            gets the same answer. The server's last word closes the ledger and deletes the key of the
            run; its answer is the signed receipt or, without a key of the site, the order itself.

        Raises
        ------
        ConfigError
            If it is not an order of this run.
        PrivacyError
            If it is refused: another run, or a round that was already made or interrupted.
        """
        return self._client.answer(order)

    @property
    def failed(self) -> bool:
        """Whether `answer` failed after it had accepted an order.

        Such an error may name files, accounts and rows of the site: do not send its text to the
        server. Other errors of `answer` are about the order.
        """
        return self._client.failed()


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
    """Return hashes of everything in which a server and its clients must agree.

    Parameters
    ----------
    manifest, overrides, plugin_dirs
        As for ``privgrad.validate``.

    Returns
    -------
    dict
        ``protocol``, ``program``, ``plugins`` and ``manifest`` (without the section ``data``).

    Raises
    ------
    ManifestError, PrivacyError
    """
    return json.loads(framework(plugin_dirs).common_ground(manifest_text(manifest, overrides)))


def difference(introduction: Mapping[str, Any], ground: Mapping[str, Any]) -> str | None:
    """Return how a client differs from a server; None if it does not differ."""
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
    """Make a federated run with clients that are separate programs.

    The server has no examples, and with ``fed_avg`` no noise and no ledger: it averages releases.

    Parameters
    ----------
    manifest : dict, path or str
        Its section ``data`` is not opened.
    introductions : sequence of dict
        The result of ``Client.introduction`` for each client.
    ask : callable
        Receives ``(client, order)`` for all clients that take part in a round, and returns their
        answers in the same order, or None for a missing answer: that client is then lost in the
        round. Called on a thread of the run, and once more at the end of the run, with the last
        word to every client, which closes its ledger.
    refused : callable, optional
        Called with the client and the reason if an answer is invalid.
    overrides, out, threads, state
        As for ``privgrad.run``.
    callback : callable, or tracker, or several of them
        As for ``privgrad.run``.
    plugin_dirs : iterable of path
        As for ``privgrad.run``.

    Returns
    -------
    Run
        Its epsilon is the plan's, which is valid whatever a server requests; the actual charges
        are in the clients' ledgers.

    Raises
    ------
    ConfigError
        If a client is missing or duplicated, or differs from the server or from the others.
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
    """The shapes and sizes of all clients."""
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


