#!/usr/bin/python3
"""Compares private steps of the backend `cuda` with PyTorch's plain steps and private steps of Opacus
and JAX Privacy.

    pip install torch opacus jax-privacy        # those that are there are measured
    bench/compare_gpu.py [--program build/bin/privgrad] [--rounds 3]
    bench/compare_gpu.py --device cpu --batch 8 --steps 4 --networks cnn    # only to see that it works

The networks of docs/performance.md: 784-4096-4096-10, the CNN of FedAvg, and WRN-16-4 with group
norms, of batches of 4096; and an encoder of 6 x 384 with adapters of rank 8, of 256. The time of a PrivGrad step is the extra time per step of a run with more
than 16 steps over one with 16: reading, planning, evaluating and the 16 checks of contributions in
every run (docs/trust.md) cancel out. PyTorch's steps are compiled, in float32, in TF32 and in BF16 (autocast); all others
compute in float32. Opacus clips by ghost norms. All private steps clip to 1 and add noise with multiplier 1. All
alternate in rounds, and the fastest step of each counts.

Prints lines of JSON as they become available: the peak rates of the device, measured by PyTorch;
then for each network one line per round, of which the last counts. Each network has `--budget`
seconds. A value that could not be measured is null, and `missing` says why.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other libraries need memory too

try:
    import torch
except ImportError:
    torch = None
try:
    import opacus
except ImportError:
    opacus = None
try:
    import jax
    import jax_privacy
    from jax_privacy import noise_addition
except ImportError:
    jax = jax_privacy = None

CLASSES = 10
LOOKS = 16
TOKENS, RANK = 30522, 8
NETWORKS = {  # with the steps per measurement
    "mlp": ("784-4096-4096-10", (784,), "{kind: mlp, hidden: [4096, 4096], loss: cross_entropy}", 24),
    "cnn": ("fedavg_cnn", (28, 28), "{kind: cnn, preset: fedavg_cnn}", 64),
    "wrn": ("wrn_16_4", (32, 32, 3), "{kind: cnn, preset: wrn_16_4}", 8),
    "encoder": ("encoder_6_384_lora_8", (64,),
                f"{{kind: transformer, preset: encoder, vocabulary: {TOKENS}, layers: 6, width: 384, heads: 12}}", 8),
}
MOST_ROWS = {"encoder": 256}


def tell(**line):
    print(json.dumps(line), flush=True)


def tell_plainly(row, missing):
    """A network's last line for people: our step, and how many times as long it takes as each other one."""
    ours = row["privgrad_private_ms"]
    if ours is None:
        print(f"step         not measured: {missing.get('privgrad_private')}")
        return
    print(f"step         {ours:.3g} ms: {row['network']}, {row['batch']} examples, private")
    for key, what in (("torch", "a plain step of PyTorch, compiled"), ("opacus_ghost", "a private one of Opacus, ghost norms"),
                      ("jax_privacy", "a private one of JAX Privacy")):
        theirs = row[key + "_ms"]
        print(f"ratio        {ours / theirs:.3g} times {what} ({theirs:.3g} ms)" if theirs else
              f"ratio        to {what}: not measured: {missing.get(key)}")


def in_short(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def idx(path, extents, numbers):
    """Writes bytes in the format of MNIST's files."""
    path.write_bytes(bytes((0, 0, 8, len(extents))) + struct.pack(f">{len(extents)}I", *extents) + bytes(numbers))


class PrivGrad:
    """Runs of the command on a batch of random images, or of random texts."""

    def __init__(self, program, name, model, shape, options, folder):
        self.program, self.options, self.folder = program, options, folder
        backend = "{kind: cuda}" if options.device == "cuda" else "{kind: cpu}"
        if name == "encoder":
            self.write_texts(shape[0])
            data = "{kind: csv, train: texts.csv, target: y, classes: 2}"
            self.write(data, model, "{kind: cpu}")  # adapters need the weights of a whole network
            self.seconds(1, folder / "weights")
            model = (model[:-1] + ", weights: {file: weights/model.safetensors, public: true}, "
                     f"lora: {{rank: {RANK}, alpha: {RANK}, targets: ['*.query', '*.value']}}}}")
        else:
            self.write_images(shape)
            data = "{kind: idx, train: {images: images, labels: labels}}"
        self.write(data, model, backend)

    def write_texts(self, places):
        draw = random.Random(1)
        with open(self.folder / "texts.csv", "w", encoding="utf-8") as table:
            print(*(f"x{i}" for i in range(places)), "y", sep=",", file=table)
            for row in range(self.options.batch):
                print(*(draw.randrange(TOKENS) for _ in range(places)), row % 2, sep=",", file=table)

    def write_images(self, shape):
        draw, batch, size = random.Random(1), self.options.batch, 1
        for extent in shape:
            size *= extent
        idx(self.folder / "images", (batch, *shape), draw.randbytes(batch * size))
        idx(self.folder / "labels", (batch,), (i % CLASSES for i in range(batch)))

    def write(self, data, model, backend):
        (self.folder / "manifest.yaml").write_text(f"""privgrad: 1
seed: 1
data: {data}
model: {model}
backend: {backend}
sampler: full_batch
optimizer: sgd
schedules: {{clip_norm: 1, learning_rate: 1e-6, noise_multiplier: 1}}
privacy: {{target_epsilon: 1e9, target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}}
evaluate_every: 1000000
steps: 1
""")

    def seconds(self, steps, out=None):
        out = out or pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "run"
        answer = subprocess.run(
            [self.program, "run", str(self.folder / "manifest.yaml"), "--set", f"steps={steps}", "--out", str(out), "--json"], capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise RuntimeError((answer.stderr.strip() or answer.stdout.strip() or "?").splitlines()[-1])
        return json.loads(answer.stdout)["seconds"]

    def step(self):
        more = self.options.steps
        return 1e3 * (self.seconds(LOOKS + more) - self.seconds(LOOKS)) / more


def torch_network(name):
    nn = torch.nn
    if name == "encoder":
        from compare_encoders import SplitEncoder, adapt  # sets the number of threads
        return adapt(SplitEncoder(6, 384, 12, 64, TOKENS), RANK)
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, CLASSES))
    if name == "cnn":
        return nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, CLASSES))

    class Block(nn.Module):
        """Norms and activations before the convolutions; if the shape changes, the shortcut follows the
        first pair."""

        def __init__(self, before, after, stride):
            super().__init__()
            self.first = nn.Sequential(nn.GroupNorm(16, before), nn.ReLU())
            self.rest = nn.Sequential(nn.Conv2d(before, after, 3, stride, 1), nn.GroupNorm(16, after), nn.ReLU(),
                                      nn.Conv2d(after, after, 3, 1, 1))
            self.projection = nn.Conv2d(before, after, 1, stride) if before != after else None

        def forward(self, x):
            y = self.first(x)
            return self.rest(y) + (x if self.projection is None else self.projection(y))

    layers, before = [nn.Conv2d(3, 16, 3, 1, 1)], 16
    for after in (64, 128, 256):
        layers += [Block(before, after, 1 if after == 64 else 2), Block(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.GroupNorm(16, before), nn.ReLU(), nn.AvgPool2d(8), nn.Flatten(), nn.Linear(before, CLASSES))


class Torch:
    precision = "float32"

    def __init__(self, name, shape, options, compiled=True):
        torch.manual_seed(1)
        self.options = options
        channels_first = {1: shape, 2: (1, *shape), 3: (shape[-1], *shape[:-1])}[len(shape)]
        self.features = torch.rand(options.batch, *channels_first, device=options.device)
        if name == "encoder":
            self.features = torch.randint(0, TOKENS, (options.batch, *shape), device=options.device)
        self.labels = torch.randint(0, 2 if name == "encoder" else CLASSES, (options.batch,), device=options.device)
        self.network = torch_network(name).to(options.device)
        self.loss = torch.nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD([p for p in self.network.parameters() if p.requires_grad], lr=1e-6)
        self.forward = torch.compile(self.network) if compiled else self.network

    def one(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.options.device, torch.bfloat16, enabled=self.precision == "bf16"):
            loss = self.loss(self.forward(self.features), self.labels)
        loss.backward()
        self.optimizer.step()

    def wait(self):
        if self.options.device == "cuda":
            torch.cuda.synchronize()

    def step(self):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self.precision == "tf32"
        self.one()
        self.wait()
        begin = time.perf_counter()
        for _ in range(self.options.steps):
            self.one()
        self.wait()
        return 1e3 * (time.perf_counter() - begin) / self.options.steps


class TorchTf32(Torch):
    precision = "tf32"


class TorchBf16(Torch):
    precision = "bf16"


class OpacusGhost(Torch):
    def __init__(self, name, shape, options):
        super().__init__(name, shape, options, compiled=False)
        rows = torch.utils.data.TensorDataset(self.features, self.labels)
        self.network, self.optimizer, self.loss, _ = opacus.PrivacyEngine().make_private(
            module=self.network, optimizer=self.optimizer, criterion=self.loss, noise_multiplier=1.0, max_grad_norm=1.0,
            data_loader=torch.utils.data.DataLoader(rows, batch_size=options.batch), poisson_sampling=False,
            grad_sample_mode="ghost")
        self.forward = self.network


def jax_layers(name):
    """For each network: its initial parameters, and its outputs for one image, channels last."""
    if name == "encoder":
        raise NotImplementedError("no encoder is written here for JAX Privacy")
    numpy, lax, nn = jax.numpy, jax.lax, jax.nn
    shapes = []

    def parameter(*shape):
        shapes.append(shape)
        return len(shapes) - 1

    def dense(inputs, units):
        weight, bias = parameter(inputs, units), parameter(units)
        return lambda p, x: x.reshape(-1) @ p[weight] + p[bias]

    def conv(before, after, kernel, stride=1, padding=0):
        weight, bias = parameter(kernel, kernel, before, after), parameter(after)
        return lambda p, x: p[bias] + lax.conv_general_dilated(
            x[None], p[weight], (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"))[0]

    def norm(channels):
        weight, bias = parameter(channels), parameter(channels)

        def apply(p, x):
            groups = x.reshape(-1, 16, channels // 16)
            mean, variance = groups.mean((0, 2), keepdims=True), groups.var((0, 2), keepdims=True)
            return ((groups - mean) / numpy.sqrt(variance + 1e-5)).reshape(x.shape) * p[weight] + p[bias]

        return apply

    def relu(_, x):
        return nn.relu(x)

    def pool(_, x):
        return lax.reduce_window(x, -numpy.inf, lax.max, (2, 2, 1), (2, 2, 1), "VALID")

    def chain(*layers):
        def apply(p, x):
            for layer in layers:
                x = layer(p, x)
            return x

        return apply

    def block(before, after, stride):
        first = chain(norm(before), relu)
        rest = chain(conv(before, after, 3, stride, 1), norm(after), relu, conv(after, after, 3, 1, 1))
        projection = conv(before, after, 1, stride) if before != after else None

        def apply(p, x):
            y = first(p, x)
            return rest(p, y) + (x if projection is None else projection(p, y))

        return apply

    if name == "mlp":
        network = chain(dense(784, 4096), relu, dense(4096, 4096), relu, dense(4096, CLASSES))
    elif name == "cnn":
        network = chain(conv(1, 32, 5), relu, pool, conv(32, 64, 5), relu, pool, dense(1024, 512), relu, dense(512, CLASSES))
    else:
        layers, before = [conv(3, 16, 3, 1, 1)], 16
        for after in (64, 128, 256):
            layers += [block(before, after, 1 if after == 64 else 2), block(after, after, 1)]
            before = after
        network = chain(*layers, norm(before), relu, lambda _, x: x.mean((0, 1)), dense(before, CLASSES))
    keys = jax.random.split(jax.random.key(1), len(shapes))
    return [0.05 * jax.random.normal(key, shape) for key, shape in zip(keys, shapes)], network


class JaxPrivacy:
    """Clipped gradients, for the given number of examples at a time, and Gaussian noise, in one
    compiled function."""

    def __init__(self, name, shape, options):
        jax.config.update("jax_default_matmul_precision", "float32")
        jax.config.update("jax_default_device", jax.devices(options.device)[0])  # or reports that
                                                                                 # it is missing
        self.options = options
        image = (*shape, 1) if len(shape) == 2 else shape
        self.parameters, network = jax_layers(name)
        self.features = jax.random.uniform(jax.random.key(2), (options.batch, *image))
        self.labels = jax.random.randint(jax.random.key(3), (options.batch,), 0, CLASSES)

        def loss(parameters, features, label):
            return -jax.nn.log_softmax(network(parameters, features))[label]

        clipped = jax_privacy.clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1, 2), keep_batch_dim=False,
                                           microbatch_size=min(options.microbatch, options.batch))
        privatizer = noise_addition.gaussian_privatizer(stddev=1.0, prng_key=jax.random.key(4))
        self.state = privatizer.init(self.parameters)

        def step(parameters, state, features, labels):
            noisy, state = privatizer.update(clipped(parameters, features, labels), state)
            return jax.tree.map(lambda p, g: p - 1e-6 * g / options.batch, parameters, noisy), state

        self.one = jax.jit(step)

    def steps(self, count):
        for _ in range(count):
            self.parameters, self.state = self.one(self.parameters, self.state, self.features, self.labels)
        jax.block_until_ready(self.parameters)

    def step(self):
        self.steps(1)
        begin = time.perf_counter()
        self.steps(self.options.steps)
        return 1e3 * (time.perf_counter() - begin) / self.options.steps


def rivals():
    """For each library: the function that makes a step, or why there is none."""
    torch_or = "PyTorch is not installed"
    return {
        "torch": Torch if torch is not None else torch_or,
        "torch_tf32": TorchTf32 if torch is not None else torch_or,
        "torch_bf16": TorchBf16 if torch is not None else torch_or,
        "opacus_ghost": OpacusGhost if None not in (torch, opacus) else (torch_or if torch is None else "Opacus is not installed"),
        "jax_privacy": JaxPrivacy if jax_privacy is not None else "JAX Privacy is not installed",
    }


@contextlib.contextmanager
def at_most(seconds):
    """Ends the enclosed code with TimeoutError after the given seconds."""

    def end(*_):
        raise TimeoutError(f"its budget was over after {seconds:.0f} s")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def ceilings(options):
    """The peak rates of the device, measured by PyTorch: TB/s of a copy, TFLOP/s of a product 8192 x
    8192 x 8192."""
    if torch is None or options.device != "cuda":
        return {}

    def seconds(work, times):
        work()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(times):
            work()
        end.record()
        end.synchronize()
        return 1e-3 * begin.elapsed_time(end) / times

    size = 8192
    source = torch.rand(2**30, device="cuda")
    target = torch.empty_like(source)
    made = {"copy_tb_per_s": 2 * 4 * 2**30 / seconds(lambda: target.copy_(source), 10) / 1e12}
    del source, target
    torch.backends.cuda.matmul.allow_tf32 = False
    factor = torch.rand(size, size, device="cuda")
    made["product_tflop_per_s"] = 2 * size**3 / seconds(lambda: factor @ factor, 5) / 1e12
    torch.cuda.empty_cache()
    return made


def measure(name, options):
    """Prints one line per round, within the network's budget."""
    title, shape, model, steps = NETWORKS[name]
    options.batch = min(options.batch_wanted, MOST_ROWS.get(name, options.batch_wanted))
    options.steps = options.steps_wanted or steps
    until = time.monotonic() + options.budget

    def attempt(key, work):
        try:
            if time.monotonic() > until:
                raise TimeoutError("its network's budget was over")
            with at_most(until - time.monotonic()):
                return work()
        except Exception as error:  # a problem of one library must not affect the others
            missing[key] = in_short(error)
            return None

    with tempfile.TemporaryDirectory() as folder:
        makers = {"privgrad_private": lambda *_: PrivGrad(options.program, name, model, shape, options, pathlib.Path(folder)),
                  **rivals()}
        missing = {key: why for key, why in makers.items() if isinstance(why, str)}
        made, best = {}, {key: None for key in makers}
        for turn in range(options.rounds):
            for key in [key for key in makers if key not in missing]:
                if key not in made:
                    made[key] = attempt(key, lambda make=makers[key]: make(name, shape, options))
                now = attempt(key, made[key].step) if made[key] else None
                best[key] = min((ms for ms in (now, best[key]) if ms is not None), default=None)
            row = {"network": title, "batch": options.batch, "rounds": turn + 1,
                   **{key + "_ms": value for key, value in best.items()}}
            ours = best["privgrad_private"]
            for key in rivals():
                row[key + "_over_privgrad_private"] = best[key] / ours if ours and best[key] else None
            if not options.plain:
                tell(**row, missing=missing)
            if time.monotonic() > until:
                break
        if options.plain:
            tell_plainly(row, missing)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bin/privgrad")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--batch", dest="batch_wanted", type=int, default=4096)
    parser.add_argument("--steps", dest="steps_wanted", type=int, help="of one measurement; if not given, the network's")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=120, help="seconds of one network")
    parser.add_argument("--microbatch", type=int, default=128, help="examples that JAX Privacy takes at a time")
    parser.add_argument("--networks", default="mlp,cnn,wrn,encoder")
    parser.add_argument("--plain", action="store_true", help="print lines for people, at the end of each network")
    options = parser.parse_args()
    if not os.access(options.program, os.X_OK):
        sys.exit(f"compare_gpu: {options.program} is no program; build the project, or name it with --program")
    names = options.networks.split(",")
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        sys.exit(f"compare_gpu: --networks: {unknown[0]!r} is none of {', '.join(NETWORKS)}")
    if not options.plain:
        try:
            with at_most(options.budget):
                reached = ceilings(options)
        except Exception as error:
            reached = {"missing": in_short(error)}
        tell(device=options.device, torch=getattr(torch, "__version__", None),
             opacus=getattr(opacus, "__version__", None),
             jax_privacy=importlib.metadata.version("jax-privacy") if jax_privacy else None, **reached)
    for name in names:
        measure(name, options)


if __name__ == "__main__":
    main()
