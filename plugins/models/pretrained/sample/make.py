#!/usr/bin/python3
"""Makes the folders beside it: small models with random weights, and what they compute.

    pip install torch transformers safetensors
    plugins/models/pretrained/sample/make.py

Each folder has config.json and model.safetensors as `save_pretrained` of Hugging Face's transformers
writes them, and expected.json with inputs and the values at each place behind the last block, by
transformers; for language models with the logits, too. The weights are drawn anew with each call.
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
            if ("norm" in name.lower() or "ln_" in name) and name.endswith("weight"):
                tensor.add_(1.0)
    return model.eval()


def save(name, model, inputs, values, logits=None):
    model.save_pretrained(HERE / name)
    (HERE / name / "generation_config.json").unlink(missing_ok=True)
    expected = {"inputs": inputs.tolist(), "values": values.detach().flatten(1).tolist()}
    if logits is not None:
        expected["logits"] = logits.detach().flatten(1).tolist()
    (HERE / name / "expected.json").write_text(json.dumps(expected) + "\n")


def tokens(model):
    """Sequences of 5, 3 and 1 tokens; -1 where there is none."""
    inputs = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, -1, -1], [8, -1, -1, -1, -1]])
    seen = {"input_ids": inputs.clamp(min=0), "attention_mask": (inputs >= 0).long()}
    values = model.base_model(**seen).last_hidden_state
    return (inputs, values) if model.base_model is model else (inputs, values, model(**seen).logits)


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
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 12,
             "num_key_value_heads": 2, "rms_norm_eps": 1e-5, **shared}
    for name, model in {
        "gpt2": transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_embd=8, n_layer=2, n_head=2, n_positions=7, vocab_size=12, bos_token_id=0, eos_token_id=0)),
        "llama": transformers.LlamaForCausalLM(transformers.LlamaConfig(
            head_dim=4, rope_parameters={"rope_type": "default", "rope_theta": 500.0}, **sizes)),
        "mistral": transformers.MistralForCausalLM(transformers.MistralConfig(sliding_window=None, **sizes)),
        "qwen2": transformers.Qwen2ForCausalLM(transformers.Qwen2Config(tie_word_embeddings=True, **sizes)),
    }.items():
        save(name, spread(model), *tokens(model))


if __name__ == "__main__":
    main()
