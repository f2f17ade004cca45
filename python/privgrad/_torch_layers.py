"""Networks of PrivGrad as PyTorch's modules: a kind of layer has its method in Layers and, where PyTorch
has no module for it, a class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .errors import ConfigError

ACTIVATIONS: dict[str, Callable[[], torch.nn.Module]] = {
    "relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid,
    "gelu": torch.nn.GELU,  # the exact function: approximate="none"
    "silu": torch.nn.SiLU, "gelu_tanh": lambda: torch.nn.GELU(approximate="tanh"),
}
POOLS: dict[str, Callable[[int, int], torch.nn.Module]] = {
    "max": torch.nn.MaxPool2d, "average": torch.nn.AvgPool2d,
}


class ChannelNorm(torch.nn.LayerNorm):
    """Layer normalisation of [n, channels, height, width] over the channels at each place."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalise."""
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ChannelLinear(torch.nn.Linear):
    """A dense layer on the channels at each place of [n, channels, height, width]."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Add(torch.nn.Module):
    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total


class Multiply(torch.nn.Module):
    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return first * second


class RmsNorm(torch.nn.Module):
    """Divides by the root of the mean square along an axis; PyTorch has it only from 2.4 on."""

    def __init__(self, channels: int, epsilon: float, axis: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.epsilon, self.axis = epsilon, axis

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        scaled = input * torch.rsqrt(input.square().mean(self.axis, keepdim=True) + self.epsilon)
        places = input.dim() - 2 if self.axis == 1 else 0
        return scaled * self.weight.reshape(-1, *(1,) * places)


class Scale(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.mul(input, self.factor)


class Part(torch.nn.Module):
    def __init__(self, axis: int, first: int, size: int) -> None:
        super().__init__()
        self.axis, self.first, self.size = axis, first, size

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input.narrow(self.axis, self.first, self.size)


# Sequences, [length, width], are [n, 1, length, width], like images with one channel.


class Tokens(torch.nn.Embedding):
    """A row for each token; zeros for the token -1, an empty place; NaN for any other value."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        is_token = torch.ge(input, 0) & torch.lt(input, self.num_embeddings) & torch.eq(input, input.floor())
        rows = super().forward(torch.where(is_token, input, torch.zeros_like(input)).long())
        others = torch.where(torch.eq(input, -1), 0.0, math.nan).to(rows.dtype)
        return torch.where(is_token.unsqueeze(-1), rows, others.unsqueeze(-1)).unsqueeze(1)


class Mask(torch.nn.Module):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return torch.ne(input, -1).to(torch.float32)


class Positions(torch.nn.Module):
    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(length, width).normal_(std=0.02))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input + self.weight


class Prepend(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(width).normal_(std=0.02))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        row = self.weight.expand(input.shape[0], 1, 1, -1)
        return torch.cat([row, input], dim=-2)


class Attention(torch.nn.Module):
    """Softmax attention of queries, keys and values, over the places of a mask."""

    def __init__(self, heads: int, key_heads: int, causal: bool, rotary: float, length: int, width: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.width = heads, key_heads, width // heads
        self.earlier = torch.ones(length, length, dtype=torch.bool).tril() if causal else None
        self.angles: torch.Tensor | None = None
        if rotary:
            pairs = self.width // 2
            powers = torch.arange(pairs, dtype=torch.float64) / pairs
            self.angles = torch.outer(torch.arange(length, dtype=torch.float64), rotary ** -powers)

    def _of_heads(self, values: torch.Tensor, heads: int) -> torch.Tensor:
        rows, _, length, _ = values.shape
        split = values.reshape(rows, length, heads, self.width).transpose(1, 2)
        return split.repeat_interleave(self.heads // heads, dim=1)

    def _turned(self, values: torch.Tensor) -> torch.Tensor:
        if self.angles is None:
            return values
        cosine = self.angles.cos().to(values)
        sine = self.angles.sin().to(values)
        first, second = values.chunk(2, dim=-1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor,
                mask: torch.Tensor | None = None) -> torch.Tensor:
        q = self._turned(self._of_heads(queries, self.heads))
        k = self._turned(self._of_heads(keys, self.key_heads))
        v = self._of_heads(values, self.key_heads)
        products = q @ k.transpose(-1, -2) / math.sqrt(self.width)
        is_open = torch.ones_like(products, dtype=torch.bool)
        if self.earlier is not None:
            is_open = is_open & self.earlier.to(products.device)
        if mask is not None:
            is_open = is_open & torch.ne(mask, 0)[:, None, None, :]
        shares = products.masked_fill(~is_open, torch.finfo(products.dtype).min).softmax(-1) * is_open
        return (shares @ v).transpose(1, 2).reshape(queries.shape)


class Mean(torch.nn.Module):
    def forward(self, input: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        places = input.squeeze(1)
        if mask is None:
            return places.mean(dim=1)
        return (places * mask.unsqueeze(-1)).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)


class Pick(torch.nn.Module):
    """One place, or the last of a mask; zeros if there is none."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place

    def forward(self, input: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        places = input.squeeze(1)
        if mask is None:
            return places[:, self.place]
        numbers = torch.ne(mask, 0) * torch.arange(1, mask.shape[1] + 1, device=mask.device)
        last, place = numbers.max(dim=1)
        return places[torch.arange(len(place)), place] * (last > 0).unsqueeze(-1)


class Reshape(torch.nn.Module):
    """Gives values another shape, in the order that they have in PrivGrad."""

    def __init__(self, image: tuple[int, ...] | None, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.image, self.shape = image, shape

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        rows = input.shape[0]
        if self.image is not None:
            height, width, channels = self.image
            input = input.reshape(rows, channels, height, width).permute(0, 2, 3, 1)
        made = input.reshape(rows, *self.shape)
        if len(self.shape) == 3:
            return made.permute(0, 3, 1, 2)
        return made.unsqueeze(1) if len(self.shape) == 2 else made


class FlatLinear(torch.nn.Linear):
    """A dense layer that flattens its input."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input.flatten(1))


@dataclass(frozen=True)
class Block:
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


def _same(*shape: int) -> Block:
    return Block(shape, shape, tuple(range(len(shape))), shape)


class Layers:
    """Walks through a network as a model file describes it, node by node."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        #: For each node: its name, its module, and the values that it works on.
        self.nodes: list[tuple[str, torch.nn.Module, list[int]]] = []
        self.blocks: dict[str, Block] = {}
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
        """The shape of values that are flat or about to be, and PyTorch's order of its axes."""
        image = self._flattened or (self._shape if len(self._shape) == 3 else None)
        return ((math.prod(self._shape),), (0,)) if image is None else (tuple(image), (2, 0, 1))

    def _add_dense(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        if layer.get("per_place", False) and len(self._shape) > 1:
            return self._add_dense_per_place(layer)
        split, axes = self._order()
        units, inputs = layer["units"], math.prod(self._shape)
        shape = (units, inputs)
        self.blocks[f"{self._name}.weight"] = Block(
            shape, (units, *split), (0, *(axis + 1 for axis in axes)), shape)
        self._bias_block(units, layer)
        is_flat = len(self._shape) == 1
        self._shape, self._flattened = (units,), None
        kind = torch.nn.Linear if is_flat else FlatLinear
        return kind(inputs, units, bias=_has_bias(layer))

    def _add_dense_per_place(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        *places, width = self._shape
        units = layer["units"]
        self.blocks[f"{self._name}.weight"] = _same(units, width)
        self._bias_block(units, layer)
        self._shape = (*places, units)
        kind = ChannelLinear if len(self._shape) == 3 else torch.nn.Linear
        return kind(width, units, bias=_has_bias(layer))

    def _bias_block(self, size: int, layer: Mapping[str, Any]) -> None:
        if _has_bias(layer):
            self.blocks[f"{self._name}.bias"] = _same(size)

    def _add_activation(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        return ACTIVATIONS[layer["kind"]]()

    def _add_conv2d(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        height, width, inputs = self._image()
        channels, kernel = layer["channels"], layer["kernel"]
        stride, padding = layer["stride"], layer["padding"]
        shape = (channels, kernel, kernel, inputs)
        self.blocks[f"{self._name}.weight"] = Block(
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
        return POOLS[layer["kind"]](window, stride)

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
        kind = ChannelNorm if len(self._shape) == 3 else torch.nn.LayerNorm
        return kind(self._shape[-1], eps=layer["epsilon"])

    def _add_add(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        if any(self._values[value][1] != self._flattened for value in self._inputs):
            raise ConfigError(
                f"{self._name}: {layer['layer']} has values that are in another order in PyTorch, where only one of them "
                "is a flattened image; it has no counterpart"
            )
        return Add()

    def _add_multiply(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._add_add(layer)
        return Multiply()

    def _add_rms_norm(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        channels = self._shape[-1]
        split, axes = ((channels,), (0,)) if self._flattened is None else self._order()
        self.blocks[f"{self._name}.weight"] = Block((channels,), split, axes, (channels,))
        return RmsNorm(channels, layer["epsilon"], 1 if len(self._shape) == 3 else -1)

    def _add_scale(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        return Scale(layer["factor"])

    def _add_part(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        if self._flattened is not None:
            raise ConfigError(f"{self._name}: part of a flattened image has no counterpart in PyTorch, where "
                              "its values are in another order")
        self._shape = (*self._shape[:-1], layer["size"])
        return Part(1 if len(self._shape) == 3 else -1, layer["first"], layer["size"])

    def _add_reshape(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        image = self._flattened or (self._shape if len(self._shape) == 3 else None)
        self._shape, self._flattened = tuple(layer["shape"]), None
        return Reshape(image, self._shape)

    def _add_embedding(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        vocabulary, width = layer["vocabulary"], layer["width"]
        self.blocks[f"{self._name}.weight"] = _same(vocabulary, width)
        self._shape = (self._shape[0], width)
        return Tokens(vocabulary, width)

    def _add_mask(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        return Mask()

    def _add_positions(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._check_sequence(layer)
        self.blocks[f"{self._name}.weight"] = _same(*self._shape)
        return Positions(*self._shape)

    def _add_prepend(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._check_sequence(layer)
        length, width = self._shape
        self.blocks[f"{self._name}.weight"] = _same(width)
        self._shape = (length + 1, width)
        return Prepend(width)

    def _add_attention(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._check_sequence(layer)
        return Attention(layer["heads"], layer["key_heads"], layer.get("causal", False), layer["rotary"],
                          *self._shape)

    def _add_mean(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._check_sequence(layer)
        self._shape = self._shape[-1:]
        return Mean()

    def _add_pick(self, layer: Mapping[str, Any]) -> torch.nn.Module:
        self._check_sequence(layer)
        place = self._shape[0] - 1 if layer.get("last", False) else layer["place"]
        self._shape = self._shape[-1:]
        return Pick(place)

    def _check_sequence(self, layer: Mapping[str, Any]) -> None:
        if len(self._shape) != 2:
            raise ConfigError(f"{self._name}: {layer['layer']} of {list(self._shape)} has no counterpart in PyTorch "
                              "here; it has for sequences, [length, width]")

    def _norm_blocks(self) -> None:
        channels = self._shape[-1]
        split, axes = ((channels,), (0,)) if self._flattened is None else self._order()
        for name in ("weight", "bias"):
            self.blocks[f"{self._name}.{name}"] = Block((channels,), split, axes, (channels,))


def _has_bias(layer: Mapping[str, Any]) -> bool:
    return not layer.get("no_bias", False)


class Graph(torch.nn.Module):
    """The nodes of a network in order; those with parameters are submodules under their names."""

    def __init__(self, layers: Layers) -> None:
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
