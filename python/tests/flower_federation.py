"""A Flower federation on this machine: a SuperLink, and SuperNodes in separate processes.

It uses TLS with its own certificate authority, and SuperNodes that are identified by their keys.
All traffic stays on the loopback interface.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

BIN = Path(sys.executable).parent

# The time limit of one call of flwr, in seconds; the call may contain a whole federated run.
LIMIT = 1000 if "PRIVGRAD_TEST_LONG" in os.environ else 240

APP = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "federation"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "privgrad"

[tool.flwr.app.components]
serverapp = "federation:server"
clientapp = "federation:client"

[tool.flwr.app.config]
manifest = ""
out = ""
wait = 300.0
timeout = 300.0
"""

CODE = """
from privgrad.flower import client_app, server_app

client = client_app()
server = server_app()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _certify(folder: Path) -> None:
    """A certificate authority, and its certificate for 127.0.0.1."""
    now = datetime.datetime.now(datetime.UTC)

    def certificate(name: str, key: Any, by: str, by_key: Any, is_ca: bool) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, by)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by_key.public_key()),
                           critical=False)
        )
        if is_ca:
            made = made.add_extension(
                x509.KeyUsage(True, False, False, False, False, True, True, False, False), critical=True)
        else:
            made = made.add_extension(
                x509.SubjectAlternativeName([
                    x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
                critical=False)
        return made.sign(by_key, hashes.SHA256())

    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = certificate("test authority", ca_key, "test authority", ca_key, True)
    server = certificate("localhost", key, "test authority", ca_key, False)
    (folder / "ca.crt").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(server.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))


def _key_pair(file: Path) -> None:
    """The key pair of a SuperNode: `file`, and `file`.pub."""
    key = ec.generate_private_key(ec.SECP384R1())
    file.write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()))
    file.with_suffix(".pub").write_bytes(key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH))


class Federation:
    """A SuperLink with TLS and node authentication; `node()` starts SuperNodes.

    Ends all processes that it has started.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",  # else 1 s before each process is started
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        _certify(folder)
        (folder / "flwr").mkdir()
        (folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "test"\n\n[superlink.test]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{folder / "ca.crt"}"\n')
        app = folder / "app"
        app.mkdir()
        (app / "pyproject.toml").write_text(APP)
        (app / "federation.py").write_text(CODE)
        (app / "README.md").write_text("A federated run of PrivGrad.\n")

    def __enter__(self) -> Federation:
        self._start(
            "superlink", "flower-superlink", "--port", str(self.port),
            "--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key",
            "--enable-supernode-auth", "--disable-runtime-dependency-installation",
        )
        self._wait_for_port(self.port)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            self._end(process, signal.SIGTERM)

    def register(self, name: str) -> None:
        """Make a key for a SuperNode, and register it with the SuperLink."""
        _key_pair(self.folder / name)
        self.flwr("supernode", "register", str(self.folder / f"{name}.pub"), "test")

    def node(self, name: str, **config: Any) -> None:
        """Start a SuperNode with the key of that name."""
        self._start(
            name, "flower-supernode", "--superlink", f"127.0.0.1:{self.port}",
            "--root-certificates", "ca.crt", "--auth-supernode-private-key", name,
            "--port", str(free_port()),
            "--node-config", " ".join(f"{key}={json.dumps(value)}" for key, value in config.items()),
        )

    def kill(self, name: str) -> None:
        """Kill a SuperNode with all processes that it has started."""
        self._end(self.processes.pop(name), signal.SIGKILL)

    def node_again(self, name: str, **config: Any) -> None:
        """Restart a killed SuperNode repeatedly, like a service manager, until the SuperLink accepts it.

        For a minute the SuperLink believes that the old node is alive, and refuses its key.
        """
        deadline = time.monotonic() + 180
        greetings = self.log(name).count("SuperNode ID:")
        while True:
            self.node(name, **config)
            process = self.processes[name]
            while process.poll() is None:
                if self.log(name).count("SuperNode ID:") > greetings:
                    return
                assert time.monotonic() < deadline, self.logs()
                time.sleep(0.2)
            assert time.monotonic() < deadline, self.logs()
            time.sleep(2)

    def run(self, manifest: Path, out: Path, **config: Any) -> str:
        """Submit the app, and wait until it ends. Returns the log."""
        settings = {"manifest": str(manifest), "out": str(out), **config}
        done = self.flwr(
            "run", str(self.folder / "app"), "test", "--stream", "--run-config",
            " ".join(f"{key}={json.dumps(value)}" for key, value in settings.items()))
        return done + self.log("superlink")

    def start_run(self, manifest: Path, out: Path, **config: Any) -> None:
        """Submit the app without waiting."""
        settings = {"manifest": str(manifest), "out": str(out), **config}
        self.flwr("run", str(self.folder / "app"), "test", "--run-config",
                  " ".join(f"{key}={json.dumps(value)}" for key, value in settings.items()))

    def wait_for(self, condition: Callable[[], bool], seconds: float = 300) -> None:
        """Wait until the condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.02)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def logs(self) -> str:
        return "\n".join(f"==== {p.stem}\n{p.read_text(errors='replace')[-6000:]}"
                         for p in sorted(self.folder.glob("*.log")))

    def flwr(self, *words: str) -> str:
        done = subprocess.run([BIN / "flwr", *words], env=self.environment, cwd=self.folder, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
        assert done.returncode == 0, f"{done.stdout}\n{self.logs()}"
        return done.stdout

    def _start(self, name: str, program: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [BIN / program, *words], env=self.environment, cwd=self.folder, stdout=log, stderr=log,
                start_new_session=True)

    def _end(self, process: subprocess.Popen[bytes], how: signal.Signals) -> None:
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            pass
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)

    def _wait_for_port(self, port: int) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(self.logs())
