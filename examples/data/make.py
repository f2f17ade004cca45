#!/usr/bin/env python3
"""Makes the small, invented data sets of this folder: the same numbers each time.

    pip install numpy h5py
    examples/data/make.py [FOLDER]

    hospitals.npz   patients of four hospitals of different sizes: the hospital's number, and ten measurements; ill or not
    messages.npz    messages of 3 to 16 words of 60, as numbers, and -1 behind the last; a complaint or not
    visits.npz      visits of 2 to 12 of a shop's 20 pages, as numbers, and -1 behind the last
    reviews.csv     reviews of rooms, good and bad; and reviews-tokenizer.json, which makes tokens of their words
    rooms.h5        rooms of a building: seven readings of sensors; how much heat the room takes, in kW
    shapes/         grey images of 16 x 16 pixels, circles and crosses, in PNG files: a folder for training, one for testing

patients.csv is not made here.
"""

import json
import pathlib
import struct
import sys
import zlib

import h5py
import numpy as np

HOSPITALS = (200, 150, 100, 50)


def hospitals(folder):
    random = np.random.default_rng(1)
    weights = random.normal(0, 1, 10)

    def rows(sizes):
        number = np.repeat(np.arange(len(sizes)), sizes)
        # Each hospital measures slightly differently, and has different patients.
        measured = random.normal(0, 1, (len(number), 10)) + random.normal(0, 0.3, (len(sizes), 10))[number]
        ill = (measured @ weights + random.normal(0, 0.5, len(number)) > 0).astype(np.uint8)
        order = random.permutation(len(number))
        return np.column_stack([number, measured])[order].astype(np.float32), ill[order]

    x, y = rows(HOSPITALS)
    x_test, y_test = rows((50,) * len(HOSPITALS))
    np.savez_compressed(folder / "hospitals.npz", x=x, y=y, x_test=x_test, y_test=y_test)


def messages(folder):
    random = np.random.default_rng(4)
    words, length = 60, 16
    # Words 1 to 12 are of complaints, 13 to 24 of thanks, and the word 0 turns the next into the opposite.
    tone = np.zeros(words)
    tone[1:13], tone[13:25] = 1, -1

    def rows(count):
        text = np.full((count, length), -1, np.int8)
        complaint = np.zeros(count, np.uint8)
        for row in range(count):
            while True:
                says = random.integers(0, words, random.integers(3, length + 1))
                turned = np.concatenate([[False], says[:-1] == 0])
                total = np.where(turned, -tone[says], tone[says]).sum()
                if total != 0:
                    break
            text[row, :len(says)] = says
            complaint[row] = total > 0
        return text, complaint

    x, y = rows(3000)
    x_test, y_test = rows(500)
    np.savez_compressed(folder / "messages.npz", x=x, y=y, x_test=x_test, y_test=y_test)


def visits(folder):
    random = np.random.default_rng(5)
    pages, length = 20, 12
    # From most pages, most visitors go on to one of two others.
    likely = random.integers(0, pages, (pages, 2))

    def rows(count):
        seen = np.full((count, length), -1, np.int8)
        for row in range(count):
            page = random.integers(0, 3)
            for place in range(random.integers(2, length + 1)):
                seen[row, place] = page
                page = random.choice(likely[page]) if random.uniform() < 0.9 else random.integers(0, pages)
        return seen

    np.savez_compressed(folder / "visits.npz", x=rows(3000), x_test=rows(500))


def reviews(folder):
    random = np.random.default_rng(5)
    words = {"good": "clean friendly lovely quiet great warm".split(), "bad": "dirty rude noisy cold awful late".split()}
    others = "the room was and staff were very breakfast a bit it view".split()
    lines = ["id,text,stars"]
    for number in range(1500):
        label = ("bad", "good")[random.integers(2)]
        text = list(random.choice(others, random.integers(3, 10)))
        for word in random.choice(words[label], random.integers(1, 3)):
            text.insert(random.integers(len(text) + 1), word)
        lines.append(f'{number},"{" ".join(text).capitalize()}.",{label}')
    (folder / "reviews.csv").write_text("\n".join(lines) + "\n")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    pieces = special + [".", *words["good"], *words["bad"], *others]
    made = {
        "added_tokens": [{"id": i, "content": text, "special": True} for i, text in enumerate(special)],
        "normalizer": {"type": "BertNormalizer"},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {piece: i for i, piece in enumerate(pieces)}},
    }
    (folder / "reviews-tokenizer.json").write_text(json.dumps(made, indent=1) + "\n")


def rooms(folder):
    random = np.random.default_rng(2)
    rows = 2500
    outside, wanted = random.normal(8, 6, rows), random.normal(21, 1, rows)
    window, people = random.exponential(2, rows), random.poisson(1.5, rows)
    sun, wind, hour = random.uniform(0, 1, rows), random.exponential(3, rows), random.integers(0, 24, rows)
    heat = 0.05 * (wanted - outside) * (1 + 0.3 * window) - 0.1 * people - 0.4 * sun + 0.02 * wind
    heat = (np.clip(heat, 0, 5) + random.normal(0, 0.1, rows)).astype(np.float32)
    readings = np.column_stack([outside, wanted, window, people, sun, wind, hour]).astype(np.float32)
    with h5py.File(folder / "rooms.h5", "w", libver="earliest") as file:
        for name, part in (("train", slice(0, 2000)), ("test", slice(2000, None))):
            for what, array in (("readings", readings), ("heat", heat)):
                file.create_dataset(f"{name}/{what}", data=array[part], compression="gzip", shuffle=True, track_times=False)


def png(pixels):
    """A grey image [height, width] of bytes as a PNG file."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels.astype(np.uint8))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def shapes(folder):
    random = np.random.default_rng(3)
    down, across = np.mgrid[0:16, 0:16]

    def drawn(name):
        y, x = down - 7.5 - random.integers(-2, 3), across - 7.5 - random.integers(-2, 3)
        size, light = random.uniform(3.5, 5.5), random.integers(120, 200)
        line = abs(np.hypot(x, y) - size) < 1 if name == "circle" else (abs(x) < 1) & (abs(y) < size) | (abs(y) < 1) & (abs(x) < size)
        return np.where(line, light, 0) // 8 * 8 + 16 * random.integers(0, 3, (16, 16))

    for part, count in (("train", 60), ("test", 20)):
        for name in ("circle", "cross"):
            place = folder / "shapes" / part / name
            place.mkdir(parents=True, exist_ok=True)
            for i in range(count):
                (place / f"{i:02}.png").write_bytes(png(drawn(name)))


if __name__ == "__main__":
    to = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    hospitals(to)
    messages(to)
    visits(to)
    reviews(to)
    rooms(to)
    shapes(to)
