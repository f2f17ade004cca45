"""The layers of PrivGrad's networks that PyTorch does not have, as its modules."""

from __future__ import annotations

import math

import torch


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
