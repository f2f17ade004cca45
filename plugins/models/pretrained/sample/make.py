#!/usr/bin/python3
"""Makes the folders beside it: small models with random weights, and what they compute.

    pip install torch transformers safetensors
    plugins/models/pretrained/sample/make.py

Each folder has config.json and model.safetensors as `save_pretrained` of Hugging Face's transformers
writes them, and expected.json with inputs and the values at each place behind the last block, by
transformers. The weights are drawn anew with each call.
"""

import json
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).parent


def spread(model):
    """Weights of a size at which a wrong order or a forgotten term shows."""
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            tensor.normal_(std=0.3)
            if "norm" in name.lower() and name.endswith("weight"):
                tensor.add_(1.0)
    return model.eval()


def save(name, model, inputs, values):
    model.save_pretrained(HERE / name)
    expected = {"inputs": inputs.tolist(), "values": values.detach().flatten(1).tolist()}
    (HERE / name / "expected.json").write_text(json.dumps(expected) + "\n")


def tokens(model):
    """Sequences of 5, 3 and 1 tokens; -1 where there is none."""
    inputs = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, -1, -1], [8, -1, -1, -1, -1]])
    return inputs, model(input_ids=inputs.clamp(min=0), attention_mask=(inputs >= 0).long()).last_hidden_state


def main():
    torch.manual_seed(1)
    shared = {"vocab_size": 12, "max_position_embeddings": 7}
    bert = spread(transformers.BertModel(transformers.BertConfig(
        hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, type_vocab_size=2, **shared)))
    save("bert", bert, *tokens(bert))
    distilbert = spread(transformers.DistilBertModel(transformers.DistilBertConfig(
        dim=8, n_layers=2, n_heads=2, hidden_dim=12, activation="relu", **shared)))
    save("distilbert", distilbert, *tokens(distilbert))
    vit = spread(transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, image_size=6, patch_size=3,
        num_channels=3)))
    pixels = torch.randn(2, 3, 6, 6)
    save("vit", vit, pixels.permute(0, 2, 3, 1).flatten(1), vit.vit(pixels).last_hidden_state)


if __name__ == "__main__":
    main()
