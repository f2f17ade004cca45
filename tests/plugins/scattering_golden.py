#!/usr/bin/env python3
"""Writes scattering_golden.txt: coefficients of images by kymatio 0.3, in double.

    pip install kymatio 'scipy<1.15'
    tests/plugins/scattering_golden.py > tests/plugins/scattering_golden.txt

For each case a line with its image, scales, angles, order, height, width and channels, and then a
line for each place (row-major) and channel with all coefficients there.
"""
import numpy as np
from kymatio.numpy import Scattering2D

CASES = [  # image, scales, angles, order, height, width, channels
    ("ring", 1, 4, 1, 28, 28, 1),
    ("ring", 2, 8, 2, 28, 28, 1),
    ("noise", 2, 4, 2, 28, 28, 1),
    ("noise", 2, 4, 2, 32, 32, 3),
    ("ring", 3, 4, 2, 32, 32, 3),
    ("noise", 3, 8, 1, 32, 32, 3),
    ("ring", 3, 8, 2, 32, 32, 1),
    ("noise", 1, 4, 1, 5, 4, 1),
    ("noise", 2, 8, 2, 12, 10, 1),
    ("noise", 3, 3, 2, 17, 9, 1),
    ("noise", 2, 2, 2, 8, 11, 3),
    ("ring", 3, 8, 2, 27, 31, 1),
    ("noise", 2, 1, 2, 9, 9, 1),
]


def image(kind, height, width, channels):
    """The same image as in transforms_scattering_test.cpp: in whole numbers, so that both are equal."""
    y, x, c = np.mgrid[:height, :width, :channels]
    if kind == "noise":
        return (37 * y + 101 * x + 17 * y * x + 59 * c) % 256 / 255.0
    # As wide as a pen stroke, on a background of 0.
    square = (2 * y - height) ** 2 + (2 * x - width + 4 * c) ** 2
    return np.maximum(0, 255 - 2 * abs(square - height * width // 4)) / 255.0


for kind, J, L, order, height, width, channels in CASES:
    pixels = image(kind, height, width, channels)
    S = Scattering2D(J=J, shape=(height, width), L=L, max_order=order)
    result = np.stack([S(pixels[..., c]).transpose(1, 2, 0) for c in range(channels)], axis=2)
    print(kind, J, L, order, height, width, channels)
    for place in result.reshape(-1, result.shape[-1]):
        print(" ".join(f"{v:.7g}" for v in place))
