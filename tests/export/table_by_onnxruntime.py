"""Executes the model of a table with onnxruntime on the raw content of a CSV file.

    table_by_onnxruntime.py MODEL.onnx ROWS.csv RESULT.npy

Prints the file's metadata, and the class of each row, as JSON; RESULT.npy gets the first output,
float32. Also prints the result for a matrix of numbers, which the graph must refuse.
"""
import csv
import json
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
with open(sys.argv[2], newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))


def number(text):
    try:
        return float(text)
    except ValueError:
        return np.nan


def column(entry):
    texts = [row[entry.name] for row in rows]
    if entry.type == "tensor(string)":
        return np.array(texts, dtype=object)[:, None]
    assert entry.type == "tensor(double)", entry.type
    return np.array([number(text) for text in texts])[:, None]


def refusal(feed):
    try:
        session.run(None, feed)
    except Exception as problem:  # of whatever kind the runtime has
        return str(problem)
    return ""


inputs, outputs = session.get_inputs(), session.get_outputs()
results = session.run(None, {entry.name: column(entry) for entry in inputs})
np.save(sys.argv[3], results[0])
matrix = np.zeros((len(rows), len(inputs)), dtype=np.float32)
print(json.dumps({
    "inputs": [[entry.name, entry.type, entry.shape] for entry in inputs],
    "outputs": [[entry.name, entry.type, entry.shape] for entry in outputs],
    "classes": results[1].tolist() if len(results) > 1 else [],
    "metadata": session.get_modelmeta().custom_metadata_map,
    "refusals": [refusal({"features": matrix}), refusal({inputs[0].name: matrix}),
                 refusal({entry.name: matrix[:, place:place + 1] for place, entry in enumerate(inputs)})],
}))
