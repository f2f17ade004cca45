"""Makes numbers of texts, by a hash of each word: nothing is learned, so nothing is charged.

    hashed.py TEXTS.csv OUT LABEL...     columns `text` and `label`; the labels, in order

Writes OUT-features.npy, a byte for each of 4096 places (1 where a word or a pair of words falls),
and OUT-labels.npy. A label that is not named becomes 255. Needs nothing beside Python.
"""

import csv
import re
import sys
import zlib

PLACES = 4096


def features(text):
    words = re.findall(r"\w+", text.lower())
    row = bytearray(PLACES)
    for term in words + [" ".join(pair) for pair in zip(words, words[1:])]:
        row[zlib.crc32(term.encode()) % PLACES] = 1
    return bytes(row)


def write(name, shape, content):
    """A file of bytes as NumPy keeps them."""
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with open(name, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + content)


def main():
    source, out, *labels = sys.argv[1:]
    with open(source, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    write(f"{out}-features.npy", f"({len(rows)}, {PLACES})", b"".join(features(row["text"]) for row in rows))
    places = {label: place for place, label in enumerate(labels)}
    write(f"{out}-labels.npy", f"({len(rows)},)", bytes(places.get(row["label"], 255) for row in rows))


if __name__ == "__main__":
    main()
