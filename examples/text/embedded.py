"""Makes numbers of texts by word vectors that public texts have taught: private rows teach nothing.

    embedded.py PUBLIC.txt TEXTS.csv OUT     a public text a line; TEXTS.csv as for hashed.py

Writes OUT-features.npy, the mean of a text's word vectors, beside the OUT-labels.npy of hashed.py.
The vectors are the 200 main directions of which words stand together more often than by chance
(Levy and Goldberg 2014). Any encoder takes their place that has not seen the private rows. Needs
NumPy.
"""

import collections
import csv
import re
import sys

import numpy as np

WORDS, DIRECTIONS = 4000, 200


def words_of(text):
    return re.findall(r"\w+", text.lower())


def vectors_of(texts):
    counts = collections.Counter(word for text in texts for word in set(words_of(text)))
    place = {word: at for at, (word, _) in enumerate(counts.most_common(WORDS))}
    together = np.zeros((len(place), len(place)))
    for text in texts:
        present = [place[word] for word in set(words_of(text)) if word in place]
        together[np.ix_(present, present)] += 1
    share = together.diagonal() / len(texts)
    likely = np.log(np.maximum(together / len(texts) / np.outer(share, share), 1e-12))
    values, directions = np.linalg.eigh(np.maximum(likely, 0))
    strongest = slice(-1, -DIRECTIONS - 1, -1)
    return place, directions[:, strongest] * np.sqrt(np.maximum(values[strongest], 0))


def main():
    public, source, out = sys.argv[1:]
    with open(public, encoding="utf-8") as file:
        place, vectors = vectors_of(file.read().splitlines())
    with open(source, encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    rows = np.zeros((len(texts), DIRECTIONS), np.float32)
    for row, text in zip(rows, texts):
        known = [place[word] for word in words_of(text) if word in place]
        if known:
            row[:] = vectors[known].mean(axis=0)
    np.save(f"{out}-features.npy", rows)


if __name__ == "__main__":
    main()
