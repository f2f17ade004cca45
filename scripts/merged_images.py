#!/usr/bin/env python3
"""Merges the training and test images of an IDX data set, and divides them again.

    scripts/merged_images.py FOLDER OUT

FOLDER contains four files with MNIST's names, plain or gzip. All images are shuffled with a fixed
seed; the first three quarters become OUT/train-images and OUT/train-labels, a fifth of the rest
OUT/test-images and OUT/test-labels, as in the code that the authors of ALI-DPFL published. Nothing
else is changed.
"""

import gzip
import pathlib
import random
import struct
import sys


def contents(folder, name):
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
    sys.exit(f"merged_images.py: there is no {folder / name}, nor one that ends in .gz")


def extents(data):
    """The extents of an IDX file of unsigned bytes, and the offset of its values."""
    count = data[3]
    return struct.unpack_from(f">{count}I", data, 4), 4 + 4 * count


def examples(folder, what):
    """The header of an example, and all examples of both splits as bytes."""
    rows, shape = [], None
    for split in ("train", "t10k"):
        data = contents(folder, f"{split}-{what}")
        (count, *shape), begin = extents(data)
        size = (len(data) - begin) // count
        rows += [data[begin + i * size : begin + (i + 1) * size] for i in range(count)]
    return shape, rows


def main(folder, out):
    folder, out = pathlib.Path(folder), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    order = None
    for what, kind in (("images-idx3-ubyte", "images"), ("labels-idx1-ubyte", "labels")):
        shape, rows = examples(folder, what)
        if order is None:
            order = list(range(len(rows)))
            random.Random(1).shuffle(order)
        train = len(rows) * 3 // 4
        test = (len(rows) - train) // 5
        for split, begin, count in (("train", 0, train), ("test", train, test)):
            header = bytes([0, 0, 8, 1 + len(shape)]) + struct.pack(f">{1 + len(shape)}I", count, *shape)
            (out / f"{split}-{kind}").write_bytes(header + b"".join(rows[i] for i in order[begin : begin + count]))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
