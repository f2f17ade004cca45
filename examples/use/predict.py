"""Applies a model of dense layers behind `standardize`, and prints a class for each row of a table.

    python3 predict.py model.safetensors rows.npy        (needs numpy and safetensors)
"""
import json, sys
import numpy as np
from safetensors import safe_open

model = safe_open(sys.argv[1], framework="numpy")
about, tensor = model.metadata(), model.get_tensor
x = np.load(sys.argv[2]).astype(np.float32)
for n, transform in enumerate(json.loads(about["preprocessing"])):
    assert transform["kind"].endswith(":standardize"), transform["kind"]
    mean, std = (tensor(f"preprocessing.{n}.{name}") for name in ("mean", "std"))
    x = np.divide(x - mean, std, out=np.zeros(x.shape), where=std > 0).astype(np.float32)
functions = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}
for n, layer in enumerate(json.loads(about["network"])["layers"]):
    dense = layer["layer"] == "dense"
    x = x @ tensor(f"layers.{n}.weight").T + tensor(f"layers.{n}.bias") if dense else functions[layer["kind"]](x)
print(*(json.loads(about["classes"])[k] for k in x.argmax(axis=1)), sep="\n")
