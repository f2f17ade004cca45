"""Weights & Biases: the content of its own local files after an offline run."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import privgrad
from privgrad.trackers import WeightsAndBiases

pytest.importorskip("wandb", reason="wandb is not installed")


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing leaves this machine: there is no key and no server, and no crash reports are sent.
    for name, value in [("WANDB_SILENT", "true"),
                        ("WANDB_CONFIG_DIR", str(tmp_path / "config")), ("WANDB_ERROR_REPORTING", "false"),
                        ("WANDB_CACHE_DIR", str(tmp_path / "cache")), ("WANDB_CONSOLE", "off"),
                        ("WANDB_DATA_DIR", str(tmp_path / "data"))]:
        monkeypatch.setenv(name, value)


def tracker() -> WeightsAndBiases:
    # Environment variables are read once per process; these options belong to this run.
    return WeightsAndBiases(project="privgrad", mode="offline", dir=os.getcwd())


def pieces(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """The log has LevelDB's format: blocks of 32 KiB after a header of seven bytes."""
    assert raw[:4] == b":W&B"
    at = 7
    while at + 7 <= len(raw):
        if 32768 - at % 32768 < 7:  # this block has no room for another header
            at += 32768 - at % 32768
            continue
        _, size, kind = struct.unpack_from("<IHB", raw, at)
        yield kind, raw[at + 7 : at + 7 + size]
        at += 7 + size


def records() -> list[Any]:
    """The records of the run's log, in order, once the last one is there: a separate process writes them."""
    deadline = time.monotonic() + 30
    while True:
        found = read()
        if any(record.WhichOneof("record_type") == "exit" for record in found):
            return found
        assert time.monotonic() < deadline, "the log has no end"
        time.sleep(0.1)


def read() -> list[Any]:
    from wandb.proto import wandb_internal_pb2

    (file,) = Path("wandb").glob("offline-run-*/run-*.wandb")
    found, whole = [], b""
    for kind, piece in pieces(file.read_bytes()):
        whole += piece
        if kind not in (1, 4):  # the record continues
            continue
        record = wandb_internal_pb2.Record()
        record.ParseFromString(whole)
        found.append(record)
        whole = b""
    return found


def logged(found: list[Any]) -> list[dict[str, Any]]:
    return [
        {(item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in record.history.item}
        for record in found if record.WhichOneof("record_type") == "history"
    ]


def test_a_run_is_handed_on(small: dict[str, Any]) -> None:
    seen: list[privgrad.Progress] = []
    run = privgrad.run({**small, "evaluate_every": 5}, callback=[seen.append, tracker()])
    found = records()
    steps = logged(found)
    assert [one["_step"] for one in steps] == [progress.step for progress in seen] == [5, 10, 15, 20]
    for one, progress in zip(steps, seen):
        own = {key: value for key, value in one.items() if not key.startswith("_")}
        assert own == {**progress.metrics, "epsilon": progress.epsilon}
    summary: dict[str, Any] = {}
    for record in found:
        if record.WhichOneof("record_type") == "summary":
            for item in record.summary.update:
                summary[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
    assert summary["status"] == "completed"
    assert (summary["epsilon"], summary["delta"]) == (run.epsilon, run.delta)
    assert summary["unaccounted"] == ", ".join(run.unaccounted)
    assert [record.exit.exit_code for record in found if record.WhichOneof("record_type") == "exit"] == [0]


def test_release_mode_hands_on_what_it_shows(small: dict[str, Any]) -> None:
    manifest = {key: value for key, value in small.items() if key != "seed"} | {
        "mode": "release", "evaluate_every": 5}
    run = privgrad.run(manifest, callback=tracker())
    assert run.metrics["train_loss"] is None
    for one in logged(records()):
        assert {key for key in one if not key.startswith("_")} == {"epsilon"}


def test_a_run_that_was_stopped_is_closed(small: dict[str, Any]) -> None:
    def stop(progress: privgrad.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        privgrad.run({**small, "steps": 3000, "evaluate_every": 5},
                     callback=[tracker(), stop])
    assert [record.exit.exit_code for record in records()
            if record.WhichOneof("record_type") == "exit"] == [1]
