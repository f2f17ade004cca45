"""Loads exported models with torch and transformers, and compares what they compute with `privgrad predict`.

    by_transformers.py FOLDERS PRIVGRAD

For each small model with random weights in FOLDERS: trains all of it privately for some steps, exports it as a folder
and as a state_dict, loads both, and compares the outputs for all rows.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

DECODERS = ("gpt2", "llama", "mistral", "qwen2")
FAMILIES = ("bert", "distilbert", "vit", *DECODERS)
ALLOWED = 1e-4
ROWS, TOKENS, PLACES = 24, 12, 5

MANIFEST = {
    "privgrad": 1,
    "name": "export",
    "seed": 1,
    "sampler": "full_batch",
    "optimizer": "sgd",
    "schedules": {"noise_multiplier": 1, "clip_norm": 1, "learning_rate": 1},
    "privacy": {"target_delta": 1e-5, "adjacency": "zero_out", "accountant": "zcdp"},
    "steps": 3,
}


def rows_of(family, random):
    """Images, or sequences of 1 to PLACES tokens with -1 behind the last."""
    if family == "vit":
        return random.normal(size=(ROWS, 6, 6, 3)).astype(np.float32)
    rows = random.integers(0, TOKENS, (ROWS, PLACES)).astype(np.float32)
    rows[np.arange(PLACES) > random.integers(0, PLACES, (ROWS, 1))] = -1
    return rows


class Trained:
    """A run of a family's folder in the current folder, with its exports and its predictions for rows."""

    def __init__(self, privgrad, source, train, rows, is_language_model):
        def call(*words):
            subprocess.run([privgrad, *words], check=True, stdout=subprocess.DEVNULL)

        def files_of(split, features):
            np.save(f"{split}-x.npy", features)
            np.save(f"{split}-y.npy", np.linspace(-1, 1, ROWS, dtype=np.float32))
            targets = {} if is_language_model else {"targets": f"{split}-y.npy"}
            return {"features": f"{split}-x.npy", **targets}

        data = {"kind": "npy", "train": files_of("train", train), "test": files_of("test", rows),
                "test_is_public": True}
        if not is_language_model:
            data |= {"task": "regression", "target_fill": 0}
        model = {"kind": "pretrained", "path": str(source), "weights": {"public": True},
                 "loss": "next_token" if is_language_model else "squared"}
        Path("m.json").write_text(json.dumps({**MANIFEST, "data": data, "model": model}))
        call("run", "m.json", "--out", "run", "-q")
        call("predict", "run", "--out", "predicted.npy")
        call("export", "run", "--format", "huggingface", "--out", "folder")
        call("export", "run", "--format", "state_dict", "--out", "state.safetensors")
        self.predicted = torch.from_numpy(np.load("predicted.npy").reshape(ROWS, -1))
        self.before = load_file(source / "model.safetensors")
        self.after = load_file("folder/model.safetensors")
        self.state = load_file("state.safetensors")

    def check_tensors(self):
        said = json.loads(Path("folder/privacy.json").read_text())
        assert "zero_out" in said["statement"] or "zero_out" in said["adjacency"], said
        assert set(self.after) == set(self.before)
        changed = [name for name in self.before if not torch.equal(self.before[name], self.after[name])]
        # Some biases of keys have no gradient, only noise; token types and poolers may take no
        # part.
        assert 2 * len(changed) > len(self.before), changed
        for name, tensor in self.after.items():
            assert tensor.dtype == self.before[name].dtype
            assert torch.equal(tensor, self.state[name]), name


def without_problems(loaded):
    """The model of from_pretrained(output_loading_info=True), of which all tensors were found."""
    model, information = loaded
    # The file lacks a tied output layer; it contains BERT's pooler, which BertModel has too.
    problems = {kind: found for kind, found in information.items() if found}
    assert not problems, problems
    return model.eval()


def inputs_of(family, rows):
    given = torch.from_numpy(rows)
    if family == "vit":
        return {"pixel_values": given.permute(0, 3, 1, 2)}
    return {"input_ids": given.clamp(min=0).long(), "attention_mask": (given >= 0).long()}


def pooled(family, values, rows):
    """What the new output layer sees: the defaults of `pool`."""
    if family == "vit":
        return values[:, 0]
    is_there = torch.from_numpy(rows >= 0)
    if family in DECODERS:
        return values[torch.arange(ROWS), is_there.sum(1) - 1]
    return (values * is_there[..., None]).sum(1) / is_there.sum(1, keepdim=True)


def class_with_body(family):
    return transformers.AutoModelForImageClassification if family == "vit" else transformers.AutoModel


def compare(what, found, expected):
    difference = (found - expected).abs().max().item()
    print(f"{what}: {difference:.1e} apart")
    assert found.shape == expected.shape
    assert difference <= ALLOWED, f"{what}: allowed are {ALLOWED}"


def check_values(family, privgrad, source, train, rows):
    """A model of real targets: the folder's body, and the new output layer beside it."""
    trained = Trained(privgrad, source, train, rows, is_language_model=False)
    trained.check_tensors()
    output = load_file("folder/output.safetensors")
    for name, tensor in output.items():
        assert torch.equal(tensor, trained.state[name]), name

    def values(model):
        body = model.vit if family == "vit" else model
        last = body(**inputs_of(family, rows)).last_hidden_state
        return pooled(family, last, rows) @ output["output.weight"].T + output["output.bias"]

    load = class_with_body(family).from_pretrained
    if family in DECODERS:  # AutoModel has no place for their output layer
        compare(f"{family}, folder", values(load("folder").eval()), trained.predicted)
    else:
        compare(f"{family}, folder", values(without_problems(load("folder", output_loading_info=True))),
                trained.predicted)
    if family in ("bert", "distilbert"):  # transformers reads the others' tensors under other names, or has no output
        anew = class_with_body(family).from_config(transformers.AutoConfig.from_pretrained("folder")).eval()
        problems = anew.load_state_dict(trained.state, strict=False)
        assert not problems.missing_keys
        assert set(problems.unexpected_keys) == set(output)
        compare(f"{family}, state_dict", values(anew), trained.predicted)
    # The old weights give other values; otherwise the comparison would prove nothing.
    assert (values(load(source).eval()) - trained.predicted).abs().max() > 100 * ALLOWED


def check_language_model(family, privgrad, source, train, rows):
    trained = Trained(privgrad, source, train, rows, is_language_model=True)
    trained.check_tensors()
    assert not Path("folder/output.safetensors").exists()
    is_there = torch.from_numpy(rows >= 0)
    expected = trained.predicted.reshape(ROWS, PLACES, TOKENS)[is_there]
    load = transformers.AutoModelForCausalLM.from_pretrained

    def logits(model):
        return model(**inputs_of(family, rows)).logits[is_there]

    compare(f"{family}, folder of a language model", logits(without_problems(load("folder", output_loading_info=True))),
            expected)
    anew = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained("folder")).eval()
    lacking = anew.load_state_dict(trained.state, strict=False)
    assert not lacking.unexpected_keys
    assert set(lacking.missing_keys) <= ({"lm_head.weight"} if anew.config.tie_word_embeddings else set())
    compare(f"{family}, state_dict of a language model", logits(anew), expected)
    assert (logits(load(source).eval()) - expected).abs().max() > 100 * ALLOWED


def main():
    folders, privgrad = (Path(word).resolve() for word in sys.argv[1:])
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    random = np.random.default_rng(1)
    for family in FAMILIES:
        kinds = [check_values, check_language_model] if family in DECODERS else [check_values]
        for check in kinds:
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), torch.no_grad():
                check(family, privgrad, folders / family, rows_of(family, random), rows_of(family, random))


if __name__ == "__main__":
    main()
