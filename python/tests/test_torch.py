"""PrivGrad's networks compute the same in PyTorch as in PrivGrad.

Logits come from a run's model applied to rows; an example's gradient comes from one step of plain
gradient descent on that example alone, as any user could do it. PyTorch is the independent source
of both. Gradients are compared in floating point (``arithmetic: float``); the whole numbers of a
private step consist of factors of 13 bits (docs/exactness.md), and are compared to that precision.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SOURCES

import privgrad

torch = pytest.importorskip("torch", reason="PyTorch is not installed; Debian has python3-torch")
privgrad_torch = pytest.importorskip("privgrad.torch", reason="safetensors is not installed")
torch_layers = pytest.importorskip("privgrad._torch_layers")

pytestmark = pytest.mark.filterwarnings("ignore::privgrad.PrivgradWarning")  # epsilon is above 20

FLAT = (6,)
GREY, COLOUR = (12, 11), (12, 11, 3)
TOKENS = (7,)  # sequences of the tokens 0 to 9, which end after 1 to 7 places

NETWORKS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "linear": (FLAT, {"kind": "linear"}),
    "linear of colours": (COLOUR, {"kind": "linear", "initialisation": "lecun_normal"}),
    "mlp": (FLAT, {"kind": "mlp", "hidden": [7, 5]}),
    "mlp, tanh": (FLAT, {"kind": "mlp", "hidden": [7], "activation": "tanh"}),
    "mlp, sigmoid, of images": (GREY, {"kind": "mlp", "hidden": [7], "activation": "sigmoid"}),
    "lenet": ((28, 28), {"kind": "cnn", "preset": "lenet"}),
    "tempered_sigmoid": ((28, 28), {"kind": "cnn", "preset": "tempered_sigmoid"}),
    "strides, paddings, pools": (COLOUR, {"kind": "cnn", "layers": [
        {"kind": "conv2d", "channels": 4, "kernel": 3, "stride": 2, "padding": 1},
        {"kind": "activation", "function": "relu"},
        {"kind": "max_pool", "window": 3, "stride": 1},
        {"kind": "conv2d", "channels": 6, "kernel": 2},
        {"kind": "avg_pool", "window": 2, "stride": 1},
        {"kind": "activation", "function": "sigmoid"},
        {"kind": "dense", "units": 5},
        {"kind": "activation", "function": "tanh"},
    ]}),
    "norms of channels": (COLOUR, {"kind": "cnn", "layers": [
        {"kind": "conv2d", "channels": 6, "kernel": 3},
        {"kind": "group_norm", "groups": 3},
        {"kind": "activation", "function": "relu"},
        {"kind": "conv2d", "channels": 4, "kernel": 3},
        {"kind": "layer_norm"},
        {"kind": "activation", "function": "tanh"},
        {"kind": "avg_pool", "window": 2},
    ]}),
    "shortcuts": (COLOUR, {"kind": "cnn", "layers": [
        {"kind": "conv2d", "channels": 4, "kernel": 3, "padding": 1},
        {"kind": "group_norm", "groups": 2},
        {"kind": "activation", "function": "tanh"},
        {"kind": "conv2d", "channels": 4, "kernel": 3, "padding": 1},
        {"kind": "shortcut", "over": 3},
        {"kind": "activation", "function": "tanh"},
        {"kind": "conv2d", "channels": 6, "kernel": 3, "stride": 2, "padding": 1},
        {"kind": "shortcut", "over": 1, "stride": 2},
        {"kind": "activation", "function": "tanh"},
        {"kind": "flatten"},
        {"kind": "dense", "units": 7},
        {"kind": "activation", "function": "relu"},
        {"kind": "dense", "units": 7},
        {"kind": "shortcut", "over": 2},
        {"kind": "activation", "function": "tanh"},
    ]}),
    "graph": (COLOUR, {"kind": "graph", "nodes": [
        {"name": "stem", "kind": "conv2d", "channels": 4, "kernel": 3, "padding": 1, "bias": False},
        {"name": "bent", "kind": "activation", "function": "tanh"},
        {"name": "left.conv", "kind": "conv2d", "channels": 4, "kernel": 1},
        {"name": "right", "kind": "dense", "units": 4, "per_place": True, "bias": False,
         "from": ["stem"]},
        {"name": "half", "kind": "scale", "factor": -0.5},
        {"name": "sum", "kind": "add", "from": ["left.conv", "bent", "half", "stem"]},
        {"kind": "reshape", "shape": [66, 8]},
        {"kind": "part", "first": 2, "size": 4},
        {"kind": "reshape", "shape": [12, 11, 2]},
        {"kind": "part", "first": 1, "size": 1},
        {"name": "end", "kind": "dense", "units": 6, "bias": False},
        {"name": "flat", "kind": "flatten", "from": ["sum"]},
        {"name": "other", "kind": "dense", "units": 6},
        {"kind": "add", "from": ["other", "end"]},
        {"kind": "activation", "function": "tanh"},
    ]}),
    "products": (COLOUR, {"kind": "graph", "nodes": [
        {"name": "stem", "kind": "conv2d", "channels": 4, "kernel": 3},
        {"name": "even", "kind": "rms_norm"},
        {"name": "side", "kind": "conv2d", "channels": 4, "kernel": 1, "from": ["stem"]},
        {"kind": "multiply", "from": ["even", "side"]},
        {"kind": "activation", "function": "tanh"},
    ]}),
    "shared parameters": (COLOUR, {"kind": "graph", "nodes": [
        {"name": "stem", "kind": "conv2d", "channels": 3, "kernel": 3},
        {"name": "again", "kind": "conv2d", "channels": 3, "kernel": 3, "shares": "stem"},
        {"kind": "activation", "function": "tanh"},
        {"name": "third", "kind": "dense", "units": 6},
        {"name": "last", "kind": "dense", "units": 6},
        {"kind": "activation", "function": "tanh"},
        {"kind": "dense", "units": 6, "shares": "last"},
    ]}),
    "dense at each place": (COLOUR, {"kind": "cnn", "layers": [
        {"kind": "dense", "units": 4, "per_place": True},
        {"kind": "activation", "function": "relu"},
        {"kind": "conv2d", "channels": 6, "kernel": 3, "stride": 3},
        {"kind": "dense", "units": 5, "per_place": True},
        {"kind": "shortcut", "over": 1},
        {"kind": "activation", "function": "tanh"},
    ]}),
    "dense in each row": (GREY, {"kind": "cnn", "layers": [
        {"kind": "dense", "units": 5, "per_place": True},
        {"kind": "layer_norm"},
        {"kind": "dense", "units": 4, "per_place": True},
        {"kind": "activation", "function": "tanh"},
    ]}),
    **{f"every activation: {name}": (GREY, {"kind": "cnn", "layers": [
        {"kind": "conv2d", "channels": 3, "kernel": 4, "stride": 3},
        {"kind": "activation", "function": name},
        {"kind": "dense", "units": 6},
        {"kind": "activation", "function": name},
    ]}) for name in torch_layers.ACTIVATIONS},
    "encoder": (TOKENS, {"kind": "transformer", "preset": "encoder", "vocabulary": 10, "layers": 1,
                         "width": 8, "heads": 2, "feed_forward": 12}),
    "encoder that normalises sums, first place": (TOKENS, {
        "kind": "transformer", "preset": "encoder", "vocabulary": 10, "layers": 2, "width": 8, "heads": 1,
        "norm_first": False, "pool": "first", "activation": "gelu_tanh"}),
    "decoder": (TOKENS, {"kind": "transformer", "preset": "decoder", "vocabulary": 10, "layers": 1,
                         "width": 8, "heads": 4, "key_heads": 2, "feed_forward": 6}),
    "vision": ((12, 12, 3), {"kind": "transformer", "preset": "vision", "patch": 4, "layers": 1,
                             "width": 8, "heads": 2}),
    "patches without a class token": (GREY, {"kind": "transformer", "preset": "vision", "patch": 5,
                                             "layers": 1, "width": 8, "heads": 2, "pool": "mean"}),
    "last of the places": (GREY, {"kind": "graph", "nodes": [
        {"name": "row", "kind": "positions"},
        {"name": "one", "kind": "pick"},
        {"name": "two", "kind": "pick", "place": 3, "from": ["row"]},
        {"name": "all", "kind": "mean", "from": ["row"]},
        {"kind": "add", "from": ["one", "two", "all"]}]}),
    "norms of vectors": (GREY, {"kind": "cnn", "layers": [
        {"kind": "conv2d", "channels": 3, "kernel": 4, "stride": 3},
        {"kind": "flatten"},
        {"kind": "layer_norm"},
        {"kind": "dense", "units": 8},
        {"kind": "group_norm", "groups": 2},
        {"kind": "activation", "function": "relu"},
        {"kind": "dense", "units": 8},
        {"kind": "layer_norm"},
    ]}),
}


#: The losses of targets are tried on every network, and the loss of tokens on the decoder.
LOSSES = [(name, loss) for name in NETWORKS for loss in ("squared", "cross_entropy", "logistic")]
LOSSES.append(("decoder", "next_token"))

WEIGHTS = {"file": "begun.safetensors", "public": True}
UNSEEN = {"target_delta": 1e-5, "adjacency": "zero_out", "accountant": "zcdp"}


def rows_of(shape: tuple[int, ...], classes: int, rows: int = 24) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(11)
    features = random.normal(size=(rows, *shape)).astype(np.float32)
    if shape == TOKENS:
        features = random.integers(10, size=(rows, *shape)).astype(np.float32)
        for row in range(rows):
            features[row, 1 + row % 7:] = -1
    return features, (np.arange(rows) % classes).astype(np.float32)


def manifest_of(
    model: dict[str, Any], rows: tuple[np.ndarray, np.ndarray], classes: int, **changed: Any
) -> dict[str, Any]:
    """Plain gradient descent on all rows, without noise and with almost no clipping."""
    data = ({"train": rows, "classes": classes} if classes
            else {"train": rows[0], "task": "regression", "unlabelled": True})
    return {
        "privgrad": 1,
        "data": {"kind": "memory", **data},
        "model": model,
        "sampler": "full_batch",
        "optimizer": "sgd",
        "schedules": {"clip_norm": 1e4, "learning_rate": 0.1},
        "privacy": {"noise": "off", "target_delta": 1e-5, "adjacency": "zero_out",
                    "accountant": "zcdp"},
        "steps": 5,
        "seed": 3,
        "checkpoint": "off",
        **changed,
    }


def parameters(run: privgrad.Run) -> dict[str, Any]:
    return {name: tensor.double() for name, tensor in privgrad_torch.state_dict(run).items()}


def distance(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The distance between two parameter vectors, relative to the norm of the second."""
    assert ours.keys() == theirs.keys()
    square = sum((ours[n] - theirs[n]).square().sum() for n in theirs)
    return float((square / sum(t.square().sum() for t in theirs.values())).sqrt())


def gradient_of(model: Any, loss: Any, features: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    """PyTorch's gradient of the summed loss over the rows, in double precision."""
    model = model.double()
    model.zero_grad()
    loss(model(privgrad_torch.as_input(features).double()), torch.tensor(targets.tolist())).sum().backward()
    return {name: tensor.grad.clone() for name, tensor in model.named_parameters()}


@pytest.mark.parametrize(("name", "loss"), [one for one in LOSSES if one[1] != "logistic"])
def test_the_same_outputs(name: str, loss: str) -> None:
    shape, model = NETWORKS[name]
    rows = rows_of(shape, 3)
    run = privgrad.run(manifest_of({**model, "loss": loss}, rows, 0 if loss == "next_token" else 3))
    there = privgrad_torch.network(run)(privgrad_torch.as_input(rows[0])).detach().double()
    there = there.flatten(1)
    if loss == "cross_entropy":  # the model returns probabilities
        ours = privgrad.predict(run, rows[0]).probabilities
        there = torch.softmax(there, dim=1)
    else:
        ours = privgrad.predict(run, rows[0]).values
    assert ours is not None
    difference = torch.from_dlpack(np.array(ours, dtype=np.float64)) - there
    assert float(difference.norm() / there.norm()) < 1e-5


@pytest.mark.parametrize(("name", "loss"), LOSSES)
def test_the_same_gradient_of_each_example(name: str, loss: str) -> None:
    shape, model = NETWORKS[name]
    classes = {"logistic": 2, "next_token": 0}.get(loss, 3)
    features, targets = rows_of(shape, max(classes, 1))
    begun = privgrad.run(manifest_of({**model, "loss": loss}, (features, targets), classes))
    privgrad_torch.save_weights(privgrad_torch.state_dict(begun), "begun.safetensors", begun)
    weighted = {**model, "loss": loss, "weights": WEIGHTS}
    before = parameters(begun)
    # A large step, so that the difference of two float32 models shows the gradient to float32
    # precision; and noise below float32 precision.
    step = {
        "steps": 1,
        "aggregator": {"kind": "gaussian", "arithmetic": "float"},
        "schedules": {"clip_norm": 1e4, "learning_rate": 1024, "noise_multiplier": 1e-14},
        "privacy": UNSEEN,
    }
    # The sequences among the networks' inputs have 1 to 7 tokens; a single token predicts nothing,
    # and its gradient is zero (tested separately).
    for row in range(1, 4):
        one = (features[row : row + 1], targets[row : row + 1])
        after = parameters(privgrad.run(manifest_of(weighted, one, classes, **step)))
        ours = {n: (before[n] - after[n]) / 1024 for n in before}
        given = one if classes else one[:1] * 2  # the loss of tokens compares features
        theirs = gradient_of(privgrad_torch.network(begun), privgrad_torch.loss(begun), *given)
        assert distance(ours, theirs) < 1e-5


def test_what_is_no_token_has_no_outputs() -> None:
    shape, model = NETWORKS["encoder"]
    rows = rows_of(shape, 3)
    network = privgrad_torch.network(privgrad.run(manifest_of(model, rows, 3)))
    features = rows[0].copy()
    for row, token in enumerate([-2, 0.5, 10, np.nan, np.inf, -0.5]):
        features[row, 0] = token
    outputs = network(privgrad_torch.as_input(features)).detach()
    assert torch.isnan(outputs[:6]).all()
    assert not torch.isnan(outputs[6:]).any()


@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
def test_class_weights_multiply_the_loss_of_their_examples(loss: str) -> None:
    model = {"kind": "mlp", "hidden": [7], "loss": loss, "class_weights": [0.25, 3, 1.7]}
    features, targets = rows_of(FLAT, 3)
    begun = privgrad.run(manifest_of(model, (features, targets), 3))
    weights = torch.tensor([0.25, 3, 1.7])[torch.tensor(targets.tolist()).long()]
    network, given = privgrad_torch.network(begun), torch.tensor(targets.tolist())
    outputs = network(privgrad_torch.as_input(features))
    plain = (torch.nn.functional.cross_entropy(outputs, given.long(), reduction="none")
             if loss == "cross_entropy" else
             0.5 * (outputs - torch.nn.functional.one_hot(given.long(), 3)).square().sum(dim=1))
    torch.testing.assert_close(privgrad_torch.loss(begun)(outputs, given), weights * plain)
    # The loss reported for a trained model has no weights, as in scikit-learn.
    mean = privgrad.evaluate(begun, (features, targets))["loss"]
    assert mean == pytest.approx(float(plain.mean()), rel=1e-5)


@pytest.mark.parametrize("name", ["mlp", "norms of channels", "lenet"])
def test_a_private_step_is_the_mean_of_clipped_gradients(name: str) -> None:
    # In whole numbers, with noise too small to be visible: sigma = 1e-9.
    shape, model = NETWORKS[name]
    features, targets = rows_of(shape, 3, rows=8)
    begun = privgrad.run(manifest_of(model, (features, targets), 3))
    privgrad_torch.save_weights(privgrad_torch.network(begun), "begun.safetensors", begun)
    weighted = {**model, "weights": WEIGHTS}
    made = [gradient_of(privgrad_torch.network(begun), privgrad_torch.loss(begun), features[i : i + 1],
                        targets[i : i + 1]) for i in range(8)]
    norms = [float(sum(t.square().sum() for t in g.values()).sqrt()) for g in made]
    bound = float(np.median(norms))
    assert min(norms) < bound < max(norms)
    run = privgrad.run(manifest_of(
        weighted, (features, targets), 3, steps=1,
        schedules={"clip_norm": bound, "learning_rate": 1024, "noise_multiplier": 1e-9},
        privacy=UNSEEN))
    assert run.json["floating_point"] == "exact"
    before, after = parameters(begun), parameters(run)
    theirs = {n: sum(g[n] * min(1.0, bound / norm) for g, norm in zip(made, norms)) / 8 for n in before}
    assert distance({n: (before[n] - after[n]) / 1024 for n in before}, theirs) < 2**-10


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_go_out_and_come_back_to_the_last_bit(name: str) -> None:
    import safetensors.numpy

    shape, model = NETWORKS[name]
    run = privgrad.run(manifest_of(model, rows_of(shape, 3), 3))
    network = privgrad_torch.network(run)
    assert list(network.state_dict()) == list(privgrad_torch.state_dict(run))
    privgrad_torch.save_weights(network, "again.safetensors", run)
    again = safetensors.numpy.load_file("again.safetensors")
    of_run = safetensors.numpy.load_file(run.run_dir / "model.safetensors")
    assert again.keys() == of_run.keys()
    for key in again:
        np.testing.assert_array_equal(again[key], of_run[key])


def test_a_network_of_a_plan_trained_in_pytorch_is_begun_from() -> None:
    shape, model = NETWORKS["strides, paddings, pools"]
    rows = rows_of(shape, 3)
    plan = privgrad.plan(manifest_of(model, rows, 3))
    network = privgrad_torch.network(plan)
    assert sum(p.numel() for p in network.parameters()) == plan.parameters
    privgrad_torch.save_weights(network, "public.safetensors", plan)
    begins = {**model, "weights": {"file": "public.safetensors", "public": True}}
    run = privgrad.run(manifest_of(begins, rows, 3, steps=1,
                                   schedules={"clip_norm": 1e4, "learning_rate": 1e-12}))
    for name, tensor in privgrad_torch.state_dict(run).items():
        torch.testing.assert_close(tensor, network.state_dict()[name].detach(), rtol=1e-6, atol=1e-9)


def test_weights_of_a_private_run_are_not_public_because_a_manifest_says_so(
    small: dict[str, Any],
) -> None:
    run = privgrad.run(small)
    privgrad_torch.save_weights(privgrad_torch.state_dict(run), "w.safetensors", run)
    begins = {**small, "model": {**small["model"],
                                 "weights": {"file": "w.safetensors", "public": True}}}
    assert "initial_weights" in privgrad.plan(begins).unaccounted
    privgrad_torch.save_weights(privgrad_torch.state_dict(run), "w.safetensors", privgrad.plan(small))
    assert "initial_weights" not in privgrad.plan(begins).unaccounted


def test_a_file_of_weights_is_not_taken_for_a_model(small: dict[str, Any]) -> None:
    run = privgrad.run(small)
    privgrad_torch.save_weights(privgrad_torch.state_dict(run), "w.safetensors", run)
    with pytest.raises(privgrad.DataError, match="weights only"):
        privgrad.predict("w.safetensors", np.zeros((1, 4), dtype=np.float32))


def test_what_does_not_fit_is_said(small: dict[str, Any]) -> None:
    run = privgrad.run(small)
    state = privgrad_torch.state_dict(run)
    name = "layers.0.weight"
    for changed, says in [
        ({"layers.0.bias": state["layers.0.bias"]}, "layers.0.weight: is missing"),
        ({**state, "more": state[name]}, "more: is not a tensor of the network; it has layers.0.weight"),
        ({**state, name: state[name].T}, "layers.0.weight: is [4, 2], the network has [2, 4]"),
        ({**state, name: state[name].double()}, "layers.0.weight: is torch.float64, allowed are"),
    ]:
        with pytest.raises(privgrad.ConfigError) as caught:
            privgrad_torch.save_weights(changed, "w.safetensors", run)
        assert says in str(caught.value)
        assert not Path("w.safetensors").exists()
    with pytest.raises(privgrad.DataError, match="nowhere"):
        privgrad_torch.state_dict("nowhere")
    Path("other.safetensors").write_bytes(b"\0" * 8)
    with pytest.raises(privgrad.DataError, match="not a safetensors file"):
        privgrad_torch.network("other.safetensors")


def test_a_norm_over_other_groups_is_refused_by_name() -> None:
    model = {"kind": "cnn", "layers": [
        {"kind": "conv2d", "channels": 4, "kernel": 3}, {"kind": "flatten"},
        {"kind": "group_norm", "groups": 2}]}
    plan = privgrad.plan(manifest_of(model, rows_of(COLOUR, 3), 3))
    with pytest.raises(privgrad.ConfigError, match="layers.2: group_norm of .* no counterpart"):
        privgrad_torch.network(plan)
    assert json.loads(json.dumps(plan.json["network"]))["layers"][2]["layer"] == "group_norm"


def test_the_page_brings_a_module_of_ones_own_and_takes_its_weights_back() -> None:
    text = (SOURCES / "docs" / "coming-from-opacus.md").read_text()
    fragments = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (section,) = re.findall(r"^```yaml\nname: own\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(fragments) == 2
    names: dict[str, Any] = {}
    exec(compile(fragments[0], "coming-from-opacus.md", "exec"), names)
    module = names["module"]
    rows = rows_of((28, 28), 10)
    images = privgrad_torch.as_input(rows[0]).reshape(-1, 1, 28, 28)
    before = module(images).detach()
    # The step is too short to be visible, so the run's model equals the module.
    np.save("x.npy", rows[0])
    np.save("y.npy", rows[1])
    Path("own.yaml").write_text(f"""privgrad: 1
name: own
{section}data: {{kind: npy, train: {{features: x.npy, targets: y.npy}}, classes: 10, target_fill: 0}}
sampler: full_batch
optimizer: sgd
schedules: {{clip_norm: 1, learning_rate: 1e-12, noise_multiplier: 1}}
privacy: {{target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}}
steps: 1
""")
    run = privgrad.run("own.yaml")
    ours = privgrad_torch.network(run)(privgrad_torch.as_input(rows[0])).detach()
    torch.testing.assert_close(ours, before, atol=1e-5, rtol=1e-5)
    privgrad.export(run, "private.safetensors", format="state_dict")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    exec(compile(fragments[1], "coming-from-opacus.md", "exec"), names)
    torch.testing.assert_close(module(images).detach(), before, atol=1e-5, rtol=1e-5)


class OwnText(torch.nn.Module):
    """The module of docs/coming-from-opacus.md, in which each place with a token has random weights."""

    def __init__(self, places: int) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(60, 16)
        self.positions = torch.nn.Embedding(places, 16)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 64, dropout=0.0, activation="gelu", batch_first=True,
                                                 norm_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 1, norm=torch.nn.LayerNorm(16), enable_nested_tensor=False)
        self.head = torch.nn.Linear(16, 2)
        for parameter in self.parameters():  # also norms and biases, which begin at 1 and 0
            torch.nn.init.normal_(parameter, std=0.3)

    def forward(self, tokens: Any) -> Any:
        is_empty = tokens < 0
        values = self.tokens(tokens.clamp(min=0)) + self.positions.weight
        values = self.encoder(values, src_key_padding_mask=is_empty).masked_fill(is_empty[..., None], 0.0)
        return self.head(values.sum(1) / (~is_empty).sum(1, keepdim=True))


def test_the_page_brings_a_transformer_of_ones_own_and_takes_its_weights_back() -> None:
    from safetensors.torch import load_file, save_file

    text = (SOURCES / "docs" / "coming-from-opacus.md").read_text()
    (section,) = re.findall(r"^```yaml\nname: text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    torch.manual_seed(2)
    rows = rows_of(TOKENS, 2, rows=20)
    module = OwnText(*TOKENS)
    save_file(module.state_dict(), "text.safetensors")
    np.save("x.npy", rows[0])
    np.save("y.npy", rows[1])
    Path("text.yaml").write_text(f"""privgrad: 1
seed: 1
{section}data: {{kind: npy, train: {{features: x.npy, targets: y.npy}}, classes: 2, target_fill: 0}}
sampler: full_batch
optimizer: sgd
schedules: {{clip_norm: 1, learning_rate: 0.5, noise_multiplier: 1}}
privacy: {{target_delta: 1e-5, adjacency: zero_out, accountant: zcdp}}
steps: 2
""")
    given = torch.tensor(rows[0].tolist()).long()
    network = privgrad_torch.network(privgrad.run("text.yaml", out="still", overrides={
        "schedules.learning_rate": 1e-12}))
    before = module(given).detach()
    torch.testing.assert_close(network(privgrad_torch.as_input(rows[0])).detach(), before, atol=1e-5, rtol=1e-5)

    run = privgrad.run("text.yaml")
    privgrad.export(run, "private.safetensors", format="state_dict")
    assert load_file("private.safetensors").keys() == module.state_dict().keys()
    module.load_state_dict(load_file("private.safetensors"))
    after = module(given).detach()
    assert (after - before).abs().max() > 0.01
    np.testing.assert_allclose(after.softmax(1).tolist(), privgrad.predict(run, split="train").probabilities, atol=1e-5)
