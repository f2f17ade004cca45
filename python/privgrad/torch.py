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
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import torch

from . import _core
from ._torch_layers import Graph, Layers
from .errors import ConfigError, DataError
from .results import Plan
from .runs import Run

__all__ = ["as_input", "loss", "network", "save_weights", "state_dict"]

Source = Run | Plan | str | os.PathLike[str]

#: The entries of a weights file about the model from which the weights come. They tell a reader
#: how private the model is.
_ORIGIN = ("name", "mode", "epsilon", "delta", "unit", "adjacency", "unaccounted", "account")


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
        float32. Its input is the result of ``as_input``, and it returns the outputs before any
        softmax, [n, outputs].

    Raises
    ------
    ConfigError
        For a layer that has no counterpart, by name.
    DataError
        If the file cannot be read, or is not a model.
    """
    layers = Layers(_described(source))
    is_chain = not layers.owners and all(
        name == f"layers.{i}" and inputs == [i] for i, (name, _, inputs) in enumerate(layers.nodes))
    made: torch.nn.Module = Graph(layers)
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
    blocks = Layers(_network_of(about)).blocks
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
    blocks = Layers(_described(like)).blocks
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
