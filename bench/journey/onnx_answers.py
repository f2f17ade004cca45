"""Runs an ONNX file on the raw rows of a CSV file, by the names of its columns, and compares with predictions.

    onnx_answers.py MODEL.onnx [ROWS.csv PREDICTIONS.csv]     prints "raw rows: A of N as predicted", or what the graph takes
"""

import csv
import sys

import numpy
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
rows, predicted = [{}], []
if len(sys.argv) > 2:
    with open(sys.argv[2], newline="") as file:
        rows = list(csv.DictReader(file))
    with open(sys.argv[3], newline="") as file:
        predicted = [row["class"] for row in csv.DictReader(file)]
inputs = session.get_inputs()
if not {entry.name for entry in inputs} <= set(rows[0]):
    print("takes " + ", ".join(f"{entry.name} {entry.shape}" for entry in inputs))
    sys.exit()
feed = {}
for entry in inputs:
    texts = [row[entry.name] for row in rows]
    if entry.type == "tensor(string)":
        feed[entry.name] = numpy.array(texts, dtype=object)[:, None]
    else:
        feed[entry.name] = numpy.array([float(text or "nan") for text in texts])[:, None]
answers = session.run(["class"], feed)[0]
same = sum(a == b for a, b in zip(answers, predicted, strict=True))
print(f"raw rows: {same} of {len(rows)} as predicted")
