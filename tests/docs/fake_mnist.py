#!/usr/bin/env python3
"""usage: fake_mnist.py FOLDER

Writes files with the format and the names of MNIST, with 400 + 100 random images, so that pages
about MNIST can run without downloading it.
"""
import gzip
import random
import struct
import sys
from pathlib import Path

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
random.seed(1)
for split, rows in (("train", 400), ("t10k", 100)):
    labels = bytes(row % 10 for row in range(rows))
    images = random.randbytes(rows * 28 * 28)
    for name, extents, content in (("labels-idx1", [rows], labels), ("images-idx3", [rows, 28, 28], images)):
        header = bytes([0, 0, 8, len(extents)]) + struct.pack(f">{len(extents)}I", *extents)
        (folder / f"{split}-{name}-ubyte.gz").write_bytes(gzip.compress(header + content, 1, mtime=0))
