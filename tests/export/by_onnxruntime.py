"""Executes a model on rows with onnxruntime.

    by_onnxruntime.py MODEL.onnx ROWS.npy RESULT.npy

Prints the file's metadata as JSON; RESULT.npy gets the only output, float32.
"""
import json
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
rows = np.load(sys.argv[2]).astype(np.float32)
(entry,), (result,) = session.get_inputs(), session.get_outputs()
np.save(sys.argv[3], session.run([result.name], {entry.name: rows})[0])
about = session.get_modelmeta()
print(json.dumps({"input": [entry.name, entry.type, entry.shape],
                  "output": [result.name, result.type, result.shape],
                  "description": about.description, "producer": about.producer_name,
                  "metadata": about.custom_metadata_map}))
