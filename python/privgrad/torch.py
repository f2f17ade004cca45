"""PrivGrad's networks in PyTorch: the same numbers under the same names, as a ``state_dict``.

``network`` makes a ``torch.nn.Module`` in which a tensor has the name that it has in a model file:
``layers.0.weight``. The layouts differ:

==================  ====================================  ================================
tensor              in a model file                       in PyTorch
==================  ====================================  ================================
rows of images      [n, height, width, channels], or      [n, channels, height, width]
                    [n, height, width]
convolution         [channels, kernel, kernel, input]     [channels, input, kernel, kernel]
dense               [units, inputs]                       the same
norms, biases       [channels]                            the same
==================  ====================================  ================================

If an image is flattened, the order of its values is height, width, channels in PrivGrad and
channels, height, width in PyTorch; the weights of the next layer are permuted accordingly. The
``state_dict`` of your own network with the same layers therefore fits once its tensors have these
names.

The transforms of the manifest, which turn a raw row into the network's input, stay with PrivGrad.
Needs ``pip install 'privgrad[torch]'``.
"""

from __future__ import annotations

import json
import math
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch

from . import _core
from . import _torch_modules as modules
from .errors import ConfigError, DataError
from .results import Plan
from .runs import Run

__all__ = ["as_input", "loss", "network", "save_weights", "state_dict"]

Source = Run | Plan | str | os.PathLike[str]

#: The entries of a weights file about the model from which the weights come. They tell a reader
#: how private the model is.
_ORIGIN = ("name", "mode", "epsilon", "delta", "unit", "adjacency", "unaccounted", "account")

_ACTIVATIONS: dict[str, Callable[[], torch.nn.Module]] = {
    "relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid,
    "gelu": torch.nn.GELU,  # the exact function: approximate="none"
    "silu": torch.nn.SiLU, "gelu_tanh": lambda: torch.nn.GELU(approximate="tanh"),
}
_POOLS: dict[str, Callable[[int, int], torch.nn.Module]] = {
    "max": torch.nn.MaxPool2d, "average": torch.nn.AvgPool2d,
}


@dataclass(frozen=True)
class _Block:
    """A tensor: its shape in a model file, and how PyTorch orders its axes.

    The elements are first seen in the shape `split`, and then transposed by `axes`.
    """

    shape: tuple[int, ...]
    split: tuple[int, ...]
    axes: tuple[int, ...]
    torch_shape: tuple[int, ...]

    def to_torch(self, values: np.ndarray) -> np.ndarray:
        turned = values.reshape(self.split).transpose(self.axes)
        return np.ascontiguousarray(turned).reshape(self.torch_shape)

    def from_torch(self, values: np.ndarray) -> np.ndarray:
        split = tuple(self.split[axis] for axis in self.axes)
        turned = values.reshape(split).transpose(np.argsort(self.axes))
        return np.ascontiguousarray(turned).reshape(self.shape)


def _same(*shape: int) -> _Block:
    return _Block(shape, shape, tuple(range(len(shape))), shape)


class _Layers:
    """Walks through a network as a model file describes it, node by node."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        #: For each node: its name, its module, and the values that it works on.
        self.nodes: list[tuple[str, torch.nn.Module, list[int]]] = []
        self.blocks: dict[str, _Block] = {}
        #: The earlier node whose parameters a node uses, for each node that uses another's.
        self.owners: dict[int, int] = {}
        # For each value: its shape and, if it is a flattened image, the image's shape, because
        # PyTorch has another order of its values. `_shape` and `_flattened` belong to the value
        # that the current node works on, and then to the one that it makes.
        self._shape: tuple[int, ...] = tuple(described["input"])
        self._flattened: tuple[int, int, int] | None = None
        self._values: list[tuple[tuple[int, ...], tuple[int, int, int] | None]] = [
            (self._shape, self._flattened)]
        for number, layer in enumerate(described["layers"]):
            add = getattr(self, f"_add_{layer['layer']}", None)
            if add is None:
                raise ConfigError(
                    f"layers.{number}: {layer['layer']} has no counterpart in PyTorch here; there are "
                    + ", ".join(sorted(n[5:] for n in dir(self) if n.startswith("_add_")))
                )
            self._name = layer.get("name", f"layers.{number}")
            self._inputs = layer.get("from", [number])
            self._shape, self._flattened = self._values[self._inputs[0]]
            self.nodes.append((self._name, add(layer), self._inputs))
            self._values.append((self._shape, self._flattened))
            if "shares" in layer:
                self._share(number, layer["shares"])

    def _share(self, number: int, owner: int) -> None:
        name, module, _ = self.nodes[owner]
        for tensor, parameter in module.named_parameters():
            if self.blocks.pop(f"{self._name}.{tensor}") != self.blocks[f"{name}.{tensor}"]:
                raise ConfigError(f"{self._name}: shares parameters with {name}, whose values are in another order in "
                                  "PyTorch; it has no counterpart")
            setattr(self.nodes[number][1], tensor, parameter)
        self.owners[number] = owner

    def _image(self) -> tuple[int, int, int]:
        height, width, *channels = self._shape
        return height, width, channels[0] if channels else 1

    def _order(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """For flat values, or those about to be flattened: their shape, and PyTorch's order of its axes."""
        image = self._flattened or (self._shape if len(self._shape) == 3 else None)
        return ((math.prod(self._shape),), (0,)) if image is None else (tuple(image), (2, 0, 1))

    def _add_dense(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        if layer.get("per_place", False) and len(self._shape) > 1:
            return self._add_dense_per_place(layer)
        split, axes = self._order()
        units, inputs = layer["units"], math.prod(self._shape)
        shape = (units, inputs)
        self.blocks[f"{self._name}.weight"] = _Block(
            shape, (units, *split), (0, *(axis + 1 for axis in axes)), shape)
        self._bias_block(units, layer)
        is_flat = len(self._shape) == 1
        self._shape, self._flattened = (units,), None
        kind = torch.nn.Linear if is_flat else modules.FlatLinear
        return kind(inputs, units, bias=_has_bias(layer))

    def _add_dense_per_place(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        *places, width = self._shape
        units = layer["units"]
        self.blocks[f"{self._name}.weight"] = _same(units, width)
        self._bias_block(units, layer)
        self._shape = (*places, units)
        kind = modules.ChannelLinear if len(self._shape) == 3 else torch.nn.Linear
        return kind(width, units, bias=_has_bias(layer))

    def _bias_block(self, size: int, layer: Mapping[str, Any]) -> None:
        if _has_bias(layer):
            self.blocks[f"{self._name}.bias"] = _same(size)

    def _add_activation(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        return _ACTIVATIONS[layer["kind"]]()

    def _add_conv2d(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        height, width, inputs = self._image()
        channels, kernel = layer["channels"], layer["kernel"]
        stride, padding = layer["stride"], layer["padding"]
        shape = (channels, kernel, kernel, inputs)
        self.blocks[f"{self._name}.weight"] = _Block(
            shape, shape, (0, 3, 1, 2), (channels, inputs, kernel, kernel))
        self._bias_block(channels, layer)
        self._shape = (*((extent + 2 * padding - kernel) // stride + 1 for extent in (height, width)),
                       channels)
        return torch.nn.Conv2d(inputs, channels, kernel, stride=stride, padding=padding,
                               bias=_has_bias(layer))

    def _add_pool(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        height, width, channels = self._image()
        window, stride = layer["window"], layer["stride"]
        self._shape = (*((extent - window) // stride + 1 for extent in (height, width)), channels)
        return _POOLS[layer["kind"]](window, stride)

    def _add_flatten(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        if len(self._shape) == 3:
            self._flattened = self._image()
        self._shape = (math.prod(self._shape),)
        return torch.nn.Flatten()

    def _add_group_norm(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        channels, groups = self._shape[-1], layer["groups"]
        if len(self._shape) == 2 or (self._flattened is not None and groups > 1):
            raise ConfigError(
                f"{self._name}: group_norm of {list(self._shape)} has no counterpart in PyTorch: its "
                "groups would hold other values; put it behind a convolution or a dense layer"
            )
        self._norm_blocks()
        return torch.nn.GroupNorm(groups, channels, eps=layer["epsilon"])

    def _add_layer_norm(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._norm_blocks()
        kind = modules.ChannelNorm if len(self._shape) == 3 else torch.nn.LayerNorm
        return kind(self._shape[-1], eps=layer["epsilon"])

    def _add_add(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        if any(self._values[value][1] != self._flattened for value in self._inputs):
            raise ConfigError(
                f"{self._name}: {layer['layer']} has values that are in another order in PyTorch, where only one of them "
                "is a flattened image; it has no counterpart"
            )
        return modules.Add()

    def _add_multiply(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._add_add(layer)
        return modules.Multiply()

    def _add_rms_norm(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        channels = self._shape[-1]
        split, axes = ((channels,), (0,)) if self._flattened is None else self._order()
        self.blocks[f"{self._name}.weight"] = _Block((channels,), split, axes, (channels,))
        return modules.RmsNorm(channels, layer["epsilon"], 1 if len(self._shape) == 3 else -1)

    def _add_scale(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        return modules.Scale(layer["factor"])

    def _add_part(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        if self._flattened is not None:
            raise ConfigError(f"{self._name}: part of a flattened image has no counterpart in PyTorch, where "
                              "its values are in another order")
        self._shape = (*self._shape[:-1], layer["size"])
        return modules.Part(1 if len(self._shape) == 3 else -1, layer["first"], layer["size"])

    def _add_reshape(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        image = self._flattened or (self._shape if len(self._shape) == 3 else None)
        self._shape, self._flattened = tuple(layer["shape"]), None
        return modules.Reshape(image, self._shape)

    def _add_embedding(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        vocabulary, width = layer["vocabulary"], layer["width"]
        self.blocks[f"{self._name}.weight"] = _same(vocabulary, width)
        self._shape = (self._shape[0], width)
        return modules.Tokens(vocabulary, width)

    def _add_mask(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        return modules.Mask()

    def _add_positions(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._check_sequence(layer)
        self.blocks[f"{self._name}.weight"] = _same(*self._shape)
        return modules.Positions(*self._shape)

    def _add_prepend(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._check_sequence(layer)
        length, width = self._shape
        self.blocks[f"{self._name}.weight"] = _same(width)
        self._shape = (length + 1, width)
        return modules.Prepend(width)

    def _add_attention(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._check_sequence(layer)
        return modules.Attention(layer["heads"], layer["key_heads"], layer.get("causal", False), layer["rotary"],
                          *self._shape)

    def _add_mean(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._check_sequence(layer)
        self._shape = self._shape[-1:]
        return modules.Mean()

    def _add_pick(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._check_sequence(layer)
        place = self._shape[0] - 1 if layer.get("last", False) else layer["place"]
        self._shape = self._shape[-1:]
        return modules.Pick(place)

    def _check_sequence(self, layer: Mapping[str, Any]) -> None:
        if len(self._shape) != 2:
            raise ConfigError(f"{self._name}: {layer['layer']} of {list(self._shape)} has no counterpart in PyTorch "
                              "here; it has for sequences, [length, width]")

    def _norm_blocks(self) -> None:
        channels = self._shape[-1]
        split, axes = ((channels,), (0,)) if self._flattened is None else self._order()
        for name in ("weight", "bias"):
            self.blocks[f"{self._name}.{name}"] = _Block((channels,), split, axes, (channels,))


def _has_bias(layer: Mapping[str, Any]) -> bool:
    return not layer.get("no_bias", False)


class _Graph(torch.nn.Module):
    """The nodes of a network in order; those with parameters are submodules under their names."""

    def __init__(self, layers: _Layers) -> None:
        super().__init__()
        self._nodes = [(module, inputs) for _, module, inputs in layers.nodes]
        for number, (name, module, _) in enumerate(layers.nodes):
            if number in layers.owners or next(module.parameters(), None) is None:
                continue
            *path, last = name.split(".")
            parent: torch.nn.Module = self
            for part in path:
                if part not in dict(parent.named_children()):
                    self._check_free(parent, part, name)
                    parent.add_module(part, torch.nn.Module())
                parent = parent.get_submodule(part)
            self._check_free(parent, last, name)
            parent.add_module(last, module)

    @staticmethod
    def _check_free(parent: torch.nn.Module, part: str, name: str) -> None:
        if not part or hasattr(parent, part):
            raise ConfigError(f"{name}: this name has no counterpart in PyTorch, where '{part}' means something "
                              "else; give the layer another name")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        values = [input]
        for module, inputs in self._nodes:
            values.append(module(*(values[value] for value in inputs)))
        return values[-1]


def _file_of(source: Run | str | os.PathLike[str]) -> str:
    path = os.fspath(source.run_dir if isinstance(source, Run) else source)
    return os.path.join(path, "model.safetensors") if os.path.isdir(path) else path


def _read(source: Run | str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The metadata and the tensors of a model file."""
    file = _file_of(source)
    try:
        with safetensors.safe_open(file, framework="numpy") as opened:
            about = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as problem:
        raise DataError(f"{file}: is not a safetensors file that can be read: {problem}") from problem
    if "network" not in about:
        raise DataError(f"{file}: is not a model of PrivGrad: it does not describe a network")
    return about, tensors


def _network_of(about: Mapping[str, str]) -> dict[str, Any]:
    """The network in the form that this version writes, whatever version wrote the file."""
    return json.loads(_core.network(about["network"]))


def _described(source: Source) -> dict[str, Any]:
    if isinstance(source, Plan):
        return source.json["network"]
    return _network_of(_read(source)[0])


def network(source: Source) -> torch.nn.Module:
    """Build the network of a run, or of a plan, in PyTorch.

    Parameters
    ----------
    source : Run, Plan or path
        A run, its directory, or the file of a model: the network gets its weights. For a plan, the
        network has PyTorch's initial weights.

    Returns
    -------
    torch.nn.Module
        A chain of layers is a ``torch.nn.Sequential`` with the single child ``layers``. On the CPU,
        float32. Its input is the result of ``as_input``, and its outputs are those before any
        softmax, [n, outputs].

    Raises
    ------
    ConfigError
        For a layer that has no counterpart, by name.
    DataError
        If the file cannot be read, or is not a model.
    """
    layers = _Layers(_described(source))
    is_chain = not layers.owners and all(
        name == f"layers.{i}" and inputs == [i] for i, (name, _, inputs) in enumerate(layers.nodes))
    made: torch.nn.Module = _Graph(layers)
    if is_chain:
        chain = torch.nn.Sequential(*(module for _, module, _ in layers.nodes))
        made = torch.nn.Sequential(OrderedDict(layers=chain))
    if not isinstance(source, Plan):
        made.load_state_dict(state_dict(source))
    return made


def state_dict(model: Run | str | os.PathLike[str]) -> OrderedDict[str, torch.Tensor]:
    """Return the weights of a trained model in PyTorch's layout.

    They are released: using them costs nothing beyond the run's statement, which stays with the
    file and is not part of the tensors.

    Parameters
    ----------
    model : Run or path
        A run, its directory, or the file of a model.

    Returns
    -------
    OrderedDict of str to torch.Tensor
        For ``load_state_dict`` of ``network``, or of your own network with the same layers.

    Raises
    ------
    ConfigError
        For a layer that has no counterpart, by name.
    DataError
        If the file cannot be read, or is not a model.
    """
    about, tensors = _read(model)
    blocks = _Layers(_network_of(about)).blocks
    return OrderedDict(
        (name, torch.utils.dlpack.from_dlpack(block.to_torch(np.array(tensors[name]))))
        for name, block in blocks.items()
    )


def save_weights(
    weights: torch.nn.Module | Mapping[str, torch.Tensor],
    file: str | os.PathLike[str],
    like: Source,
) -> None:
    """Write weights for ``model: {weights: {file: ..., public: ...}}`` of a manifest.

    Parameters
    ----------
    weights : torch.nn.Module or state_dict
        With the names of ``network``. Float32, float16 or bfloat16; the last two are converted
        exactly.
    file : path
        The file to write, completely or not at all.
    like : Run, Plan or path
        Something with the same network. From a model, the new file takes over the facts about its
        privacy, so that weights from private rows are not mistaken for public ones.

    Raises
    ------
    ConfigError
        If a tensor is missing or superfluous, or has another shape or a type that would be rounded.
    DataError
        If the file cannot be written.
    """
    given = weights.state_dict() if isinstance(weights, torch.nn.Module) else weights
    blocks = _Layers(_described(like)).blocks
    if wrong := sorted(given.keys() ^ blocks.keys()):
        missing = [name for name in wrong if name in blocks]
        raise ConfigError(
            f"{wrong[0]}: " + ("is missing" if missing[:1] == wrong[:1] else "is not a tensor of the network")
            + f"; it has {', '.join(blocks)}"
        )
    tensors = {name: block.from_torch(_values(name, given[name], block.torch_shape))
               for name, block in blocks.items()}
    about = {"format": "pt"}
    if not isinstance(like, Plan):
        said = _read(like)[0]
        about = {"format": said.get("format", ""), "model_format": "weights only",
                 **{key: said[key] for key in _ORIGIN if key in said}}
    path, part = os.fspath(file), f"{os.fspath(file)}.part"
    try:
        safetensors.numpy.save_file(tensors, part, metadata=about)
        os.replace(part, path)
    except (OSError, safetensors.SafetensorError) as problem:
        raise DataError(f"{path}: cannot be written: {problem}") from problem


def _values(name: str, tensor: torch.Tensor, shape: tuple[int, ...]) -> np.ndarray:
    if tuple(tensor.shape) != shape:
        raise ConfigError(f"{name}: is {list(tensor.shape)}, the network has {list(shape)} there")
    if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise ConfigError(f"{name}: is {tensor.dtype}, allowed are float32, float16 and bfloat16; "
                          "others would have to be rounded")
    plain = tensor.detach().to("cpu", torch.float32).contiguous()
    return np.array(np.from_dlpack(plain))


def as_input(features: Any) -> torch.Tensor:
    """Turn rows into the input of ``network``.

    Parameters
    ----------
    features : array
        [n, ...] in the layout of a model file, which is that of the data source if the manifest has
        no transforms.

    Returns
    -------
    torch.Tensor
        float32. [n, height, width] and [n, height, width, channels] become [n, channels, height,
        width]; other shapes are unchanged.
    """
    rows = np.ascontiguousarray(features, dtype=np.float32)
    if rows.ndim == 3:
        rows = rows[:, None]
    elif rows.ndim == 4:
        rows = rows.transpose(0, 3, 1, 2)
    return torch.utils.dlpack.from_dlpack(np.array(rows, order="C"))


def loss(source: Source) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return the loss that training minimises, for each example separately.

    Parameters
    ----------
    source : Run, Plan or path
        As for ``network``.

    Returns
    -------
    callable
        Maps outputs [n, outputs] and targets [n] (classes, or real numbers) to losses [n]; for the
        loss ``next_token``, outputs [n, 1, length, vocabulary] and the tokens, which are the
        network's input.
    """
    described = _described(source)
    classes = described["classes"]

    def cross_entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(outputs, targets.long(), reduction="none")

    def squared(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        wanted = (torch.nn.functional.one_hot(targets.long(), classes).to(outputs.dtype) if classes
                  else targets.reshape(outputs.shape).to(outputs.dtype))
        return 0.5 * (outputs - wanted).square().sum(dim=1)

    def logistic(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        sign = 2 * targets.to(outputs.dtype) - 1
        return torch.nn.functional.softplus(-sign * outputs.squeeze(1))

    def next_token(outputs: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        wanted = tokens[:, 1:].long()
        losses = torch.nn.functional.cross_entropy(
            outputs[:, 0, :-1].transpose(1, 2), wanted, ignore_index=-1, reduction="none")
        return losses.sum(dim=1) / torch.ne(wanted, -1).sum(dim=1).clamp(min=1)

    plain = {"cross_entropy": cross_entropy, "squared": squared, "logistic": logistic,
             "next_token": next_token}[described["loss"]]
    if "class_weights" not in described:
        return plain

    def weighted(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        weights = torch.tensor(described["class_weights"], dtype=outputs.dtype, device=outputs.device)
        return weights[targets.long()] * plain(outputs, targets)

    return weighted
