"""Federated runs over Flower: PrivGrad's clients as a ``ClientApp``, its server as a ``ServerApp``.

An app of Flower is three lines::

    from privgrad.flower import client_app, server_app
    client = client_app()
    server = server_app()

Each side has its own configuration. A SuperNode's belongs to the owner of the examples, and names
the manifest to which this owner has agreed, so that no server can request a different guarantee.
docs/flower.md is a tutorial up to a run on two machines. Needs ``pip install 'privgrad[flower]'``.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from .callbacks import Progress
from .errors import ConfigError, PrivgradError, PrivgradWarning
from .federated import Client, common_ground, difference, serve
from .runs import Run

__all__ = ["client_app", "run_on", "server_app"]

# What a server reads if a site refuses for reasons of its own.
_REFUSED = "the site refuses; the log of its SuperNode says why"
_RECORD = "privgrad"
#: Seconds between two polls: a tenth of the time waited so far, within these bounds.
_LEAST_PAUSE, _MOST_PAUSE = 0.1, 3.0


def _content(**values: Any) -> RecordDict:
    return RecordDict({_RECORD: ConfigRecord(values)})


def _said(message: Message, key: str) -> Any:
    """The value of a key in a message; None if it is missing."""
    if message.has_error() or _RECORD not in message.content.config_records:
        return None
    return message.content.config_records[_RECORD].get(key)


def _setting(config: Mapping[str, Any], key: str, kind: type, default: Any = ...) -> Any:
    """A value of a Flower configuration."""
    if key not in config:
        if default is ...:
            raise ConfigError(f"{key} is missing; there are {', '.join(sorted(config)) or 'no settings'}")
        return default
    value = config[key]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ConfigError(f"{key} is {value!r}, expected {kind.__name__}")
    return value


def _superlink() -> str | None:
    """HOST:PORT of the SuperLink that the SuperNode joined, which started this process.

    Flower does not tell it to an app, so it is read from the command line of that SuperNode. None if
    no process above this one has such a command line, as with ``--isolation process``.
    """
    process = os.getpid()
    while process > 1:
        try:
            words = Path(f"/proc/{process}/cmdline").read_text(errors="replace").split("\0")
            parent = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[1]
        except OSError:
            return None
        named = _option(words, "--superlink")
        if named is not None:
            return named or None
        process = int(parent)
    return None


def _option(words: list[str], option: str) -> str | None:
    """The value of an option as Flower reads it: the last one counts.

    None if no word is the option; "" if one abbreviates it, which Flower may read as the option.
    """
    found = None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == option:
            found = value if equals else following
        elif len(name) > 3 and option.startswith(name):
            return ""
    return found


def _client_of(config: Mapping[str, Any]) -> Client:
    known = {"manifest", "client", "directory", "data", "state", "threads", "trust-server", "key"}
    if unknown := sorted(set(config) - known - {"partition-id", "num-partitions"}):
        raise ConfigError(f"{unknown[0]} is unknown; there are {', '.join(sorted(known))}")
    return Client(
        _setting(config, "manifest", str),
        _setting(config, "client", int),
        _setting(config, "directory", str),
        data=_setting(config, "data", str, None),
        state=_setting(config, "state", str, None),
        threads=_setting(config, "threads", int, None),
        trust_server=_setting(config, "trust-server", bool, False),
        server=_superlink(),
        key=_setting(config, "key", str, None),
    )


def client_app() -> ClientApp:
    """Make the ``ClientApp``.

    The owner of the examples configures the SuperNode (``flower-supernode --node-config``):
    ``manifest``, ``client`` and ``directory``, and optionally ``data`` (the path of a section with
    this client's own examples), ``state``, ``threads``, ``trust-server`` and ``key``; see
    ``privgrad.federated.Client``.

    If the client refuses an order because of the order, the server reads the reason. Other reasons
    may name the site's files, accounts and rules, and are only in the log of the SuperNode.

    Returns
    -------
    flwr.clientapp.ClientApp
        It answers ``query`` with the public facts about the client, and ``train`` with a round. If
        it refuses a message, it answers with the reason, and continues.
    """
    app = ClientApp()

    def answered(message: Message, context: Context, act: Any) -> Message:
        client = None
        try:
            client = _client_of(context.node_config)
            content = act(client)
        except PrivgradError as problem:
            logging.getLogger("flwr").warning("PrivGrad: refused: %s", problem)
            is_about_order = client is not None and not client.failed
            content = _content(refused=str(problem) if is_about_order else _REFUSED)
        return Message(content, reply_to=message)

    @app.query()
    def introduce(message: Message, context: Context) -> Message:
        return answered(message, context, lambda client: _content(
            introduction=json.dumps(client.introduction())))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        order = _said(message, "order")
        return answered(message, context, lambda client: _content(
            answer=client.answer(order if isinstance(order, bytes) else b"")))

    return app


def _message(node: int, kind: str, content: RecordDict, seconds: float) -> Message:
    """Make a message that expires when nobody waits for its answer any more.

    Otherwise a client that comes back would first receive the orders that it has missed, and pay
    for rounds whose answers are ignored.
    """
    return Message(content, dst_node_id=node, message_type=kind, ttl=seconds)


def _replies(grid: Grid, messages: list[Message], timeout: float) -> list[Message]:
    """Send messages, and wait for the answers, like ``Grid.send_and_receive``, which polls every 3 s.

    Rounds of one second need not take three; for long rounds, polling is rare, and adds at most a
    tenth to their duration.
    """
    begin = time.monotonic()
    open_ids = {sent for sent in grid.push_messages(messages) if sent}  # messages that could not be
                                                                        # sent have no id
    replies: list[Message] = []
    while open_ids:
        came = list(grid.pull_messages(open_ids))
        replies.extend(came)
        open_ids -= {reply.metadata.reply_to_message_id for reply in came}
        waited = time.monotonic() - begin
        if not open_ids or waited >= timeout:
            break
        time.sleep(min(max(_LEAST_PAUSE, waited / 10), _MOST_PAUSE, timeout - waited))
    return replies


class _Nodes:
    """The available SuperNodes, and which client each of them is."""

    def __init__(self, grid: Grid, ground: Mapping[str, Any], patience: float) -> None:
        self._grid = grid
        self._ground = ground
        self._patience = patience
        self._differ: set[int] = set()  # nodes that are not asked again
        self.introductions: dict[int, dict[str, Any]] = {}  # by node
        self.left_out: dict[int, str] = {}  # the reason, by node

    def meet(self) -> None:
        """Ask new nodes, and nodes whose answer may have changed.

        A client that comes back may find its directory in use by its old process or, without node
        authentication, its old node still registered: it is asked again until it takes part.
        """
        there = set(self._grid.get_node_ids())
        for gone in self.introductions.keys() - there:
            del self.introductions[gone]
        self._differ &= there
        new = sorted(there - self.introductions.keys() - self._differ)
        messages = [_message(node, "query", _content(), self._patience) for node in new]
        for reply in _replies(self._grid, messages, self._patience) if messages else ():
            if reply.has_error():
                continue  # it may answer later
            node = reply.metadata.src_node_id
            why = self._admit(node, reply)
            if why is None:
                self.left_out.pop(node, None)
            elif self.left_out.get(node) != why:
                self.left_out[node] = why
                warnings.warn(f"node {node} is left out: {why}", PrivgradWarning, stacklevel=2)

    def _admit(self, node: int, reply: Message) -> str | None:
        """Why a node does not take part; None if it does."""
        if (refused := _said(reply, "refused")) is not None:
            return str(refused)
        try:
            said = json.loads(_said(reply, "introduction"))
            number, facts = said["client"], said["facts"]
        except (KeyError, TypeError, ValueError):
            self._differ.add(node)
            return "it does not introduce itself as a client of PrivGrad"
        if (what := difference(said, self._ground)) is not None:
            self._differ.add(node)
            return f"it has {what} than the server"
        for other, introduced in self.introductions.items():
            if introduced["client"] == number:
                return f"it says that it is client {number}, which is node {other}"
            if introduced["facts"] != facts:
                self._differ.add(node)
                return f"its facts are not those of node {other}"
        self.introductions[node] = said
        return None

    def of_clients(self) -> dict[int, int]:
        """The node of each client."""
        return {said["client"]: node for node, said in self.introductions.items()}


def run_on(
    grid: Grid,
    manifest: Any,
    *,
    wait: float = 60.0,
    timeout: float = 600.0,
    **serving: Any,
) -> Run:
    """Make a federated run with the SuperNodes of a grid, as ``server_app`` does.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        The grid; its nodes run ``client_app``.
    manifest : dict, path or str
        Of the run.
    wait : float
        How long to wait for missing clients before the first round, in seconds.
    timeout : float
        How long a round waits for answers, in seconds. A client without an answer is lost in that
        round, and may take part again later.
    **serving
        As for ``privgrad.federated.serve``.

    Returns
    -------
    Run

    Raises
    ------
    ConfigError
        If clients are missing; the message says why nodes were left out.
    ManifestError, PrivacyError
    """
    shared = {key: serving[key] for key in ("overrides", "plugin_dirs") if key in serving}
    nodes = _Nodes(grid, common_ground(manifest, **shared), min(wait, timeout))
    deadline = time.monotonic() + wait
    while True:
        nodes.meet()
        there = nodes.of_clients()
        said = next(iter(nodes.introductions.values()), None)
        missing = [] if said is None else sorted(set(range(len(said["facts"]["shard_sizes"]))) - set(there))
        if said is not None and not missing:
            break
        if time.monotonic() > deadline:
            who = f"clients {missing} are" if said is not None else "no client is"
            reasons = "; ".join(f"node {node} is left out: {why}" for node, why in nodes.left_out.items())
            raise ConfigError(f"{who} there after {wait:g} s" + (f" ({reasons})" if reasons else ""))
        time.sleep(0.2)

    def ask(orders: list[tuple[int, bytes]]) -> list[bytes | None]:
        nodes.meet()
        where = nodes.of_clients()
        messages = [_message(where[client], "train", _content(order=order), timeout)
                    for client, order in orders if client in where]
        replies = {reply.metadata.src_node_id: reply
                   for reply in (_replies(grid, messages, timeout) if messages else ())}
        return [_answer(client, replies.get(where.get(client, -1))) for client, _ in orders]

    introduced = sorted(nodes.introductions.values(), key=lambda one: one["client"])
    return serve(manifest, introduced, ask,
                 refused=lambda client, why: _warn_of(client, why), **serving)


def _answer(client: int, reply: Message | None) -> bytes | None:
    if reply is None:
        _warn_of(client, "it is not there")
    elif reply.has_error():
        _warn_of(client, f"it failed: {reply.error.reason}")
    elif (refused := _said(reply, "refused")) is not None:
        _warn_of(client, str(refused))
    elif isinstance(answer := _said(reply, "answer"), bytes):
        return answer
    else:
        _warn_of(client, "its reply has no answer")
    return None


def _warn_of(client: int, why: str) -> None:
    warnings.warn(f"client {client} is not heard: {why}", PrivgradWarning, stacklevel=2)


def server_app(callback: Any = None) -> ServerApp:
    """Make the ``ServerApp``.

    The run configures it (``tool.flwr.app.config``, or ``flwr run --run-config``): ``manifest``,
    and optionally ``out``, ``state``, ``threads``, ``wait`` and ``timeout``; see ``run_on``.

    Parameters
    ----------
    callback : callable, or tracker, or several of them
        As for ``privgrad.run``; default one line for each measurement.

    Returns
    -------
    flwr.serverapp.ServerApp
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        with contextlib.ExitStack() as shown:
            shown.enter_context(warnings.catch_warnings())
            warnings.simplefilter("always", PrivgradWarning)
            run = run_on(
                grid,
                _setting(config, "manifest", str),
                wait=_setting(config, "wait", float, 60.0),
                timeout=_setting(config, "timeout", float, 600.0),
                out=_setting(config, "out", str, None),
                state=_setting(config, "state", str, None),
                threads=_setting(config, "threads", int, None),
                callback=_lines if callback is None else callback,
            )
        print(f"privgrad: {run.status}, epsilon {run.epsilon:g}, model in {run.run_dir}", flush=True)

    return app


def _lines(progress: Progress) -> None:
    print(f"privgrad: round {progress.step} of {progress.steps}, epsilon {progress.epsilon:g}", flush=True)


