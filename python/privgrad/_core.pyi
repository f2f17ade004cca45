from collections.abc import Callable, Sequence

import numpy as np

ABI: str
VERSION: str

def lend(name: str, features: object, targets: object | None, shares_rows_with: str = "") -> None: ...
def lend_columns(
    name: str, columns: Sequence[tuple[str, np.ndarray, np.ndarray, str, str]], shares_rows_with: str = ""
) -> None: ...
def take_back(name: str) -> bool: ...
def chart(json: str) -> str: ...
def network(json: str) -> str: ...

class ManifestText:
    def __init__(
        self, is_file: bool, text: str, name: str, overrides: Sequence[str]
    ) -> None: ...

class PredictedRows:
    @property
    def json(self) -> str: ...
    @property
    def are_probabilities(self) -> bool: ...
    def numbers(self) -> np.ndarray: ...
    def predicted(self) -> np.ndarray: ...

class Framework:
    def __init__(self, plugin_dirs: Sequence[str], program: str) -> None: ...
    def account(
        self,
        accountant: str | None,
        adjacency: str,
        event: str,
        delta: float | None,
        epsilon: float | None,
    ) -> str: ...
    def calibrate(
        self,
        accountant: str | None,
        adjacency: str,
        target_epsilon: float,
        target_delta: float,
        sample_rate: float | None,
        allocation: int | None,
        steps: int | None,
        noise_multiplier: float | None,
    ) -> str: ...
    def noise_error(
        self,
        manifests: list[ManifestText],
        momentum: float | None,
        restart_every: int | None,
        smoothness: float | None,
        windows: list[int] | None,
        samplers: bool,
    ) -> str: ...
    def plugins(self) -> str: ...
    def refused(self) -> str: ...
    def describe(self, component: str) -> str: ...
    def schema(self, of_studies: bool) -> str: ...
    def validate(self, manifest: ManifestText) -> None: ...
    def plan(self, manifest: ManifestText, cache: str | None) -> str: ...
    def data_section(self, manifest: ManifestText) -> str: ...
    def suggest(self, section: str) -> str: ...
    def reading(self, model: str) -> str: ...
    def evaluate(self, model: str, data: str | None, split: str | None, threads: int) -> str: ...
    def predict(
        self, model: str, data: str | None, split: str | None, keep: Sequence[str], threads: int
    ) -> PredictedRows: ...
    def audit(
        self,
        manifest: ManifestText | None,
        directory: str,
        canaries: int | None,
        runs: int | None,
        confidence: float | None,
        neighbours: str | None,
        exposure: bool,
        threads: int,
        callback: Callable[[str], None] | None,
    ) -> tuple[str | None, BaseException | None]: ...
    def ablate(
        self,
        is_file: bool,
        text: str,
        name: str,
        overrides: Sequence[str],
        directory: str | None,
        cache: str | None,
        jobs: int,
        threads: int,
        dry_run: bool,
        callback: Callable[[str], None] | None,
    ) -> tuple[str | None, BaseException | None]: ...
    def run(
        self,
        manifest: ManifestText | None,
        directory: str | None,
        state: str | None,
        locked: str | None,
        cache: str | None,
        threads: int,
        finish: bool,
        alone: bool,
        callback: Callable[[str], None] | None,
    ) -> tuple[str | None, BaseException | None]: ...
    def verify(
        self,
        directory: str,
        client: int | None,
        client_dirs: list[str],
        data: bool,
        audit: bool,
        new_key: bool,
        opening: str | None,
        trusted: str | None,
        sign: str | None,
    ) -> tuple[str | None, BaseException | None]: ...
    def common_ground(self, manifest: ManifestText) -> str: ...
    def serve(
        self,
        manifest: ManifestText,
        facts: str,
        directory: str | None,
        state: str | None,
        threads: int,
        ask: Callable[[list[tuple[int, bytes]]], Sequence[bytes | None]],
        refused: Callable[[int, str], None],
        callback: Callable[[str], None] | None,
    ) -> tuple[str | None, BaseException | None]: ...

class FederatedClient:
    def __init__(
        self,
        framework: Framework,
        manifest: ManifestText,
        own: ManifestText | None,
        number: int,
        directory: str,
        state: str | None,
        threads: int,
        trusts_server: bool,
        server: str | None,
        key: str | None,
    ) -> None: ...
    def failed(self) -> bool: ...
    def introduction(self) -> str: ...
    def answer(self, order: bytes) -> bytes: ...
