"""Tokens of texts: the answers of Hugging Face's library, and the bits of the data source `text`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privgrad
from conftest import SOURCES

tokenizers = pytest.importorskip("tokenizers")

from privgrad.text import tokenize  # noqa: E402

FIXTURES = SOURCES / "tests" / "fixtures" / "text"
NAMES = ("bert", "cased", "gpt2", "odd", "prefix")


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    return json.loads((FIXTURES / "answers.json").read_text())


@pytest.fixture(scope="module")
def texts(answers: dict[str, Any]) -> list[str]:
    return [bytes.fromhex(text).decode("utf-8", "replace") for text in answers["texts"]]


@pytest.mark.parametrize("name", NAMES)
def test_tokens_are_those_of_the_library(name: str, answers: dict[str, Any], texts: list[str]) -> None:
    length = answers["length"]
    made = tokenize(texts, FIXTURES / f"{name}.json", length=length)
    assert made.dtype == np.int32 and made.shape == (len(texts), length)
    for row, expected in zip(made, answers[name], strict=True):
        assert row.tolist() == expected + [-1] * (length - len(expected))


def test_a_row_depends_only_on_its_own_text(texts: list[str]) -> None:
    together = tokenize(texts, FIXTURES / "bert.json", length=40)
    for row in range(0, len(texts), 17):
        np.testing.assert_array_equal(tokenize([texts[row]], FIXTURES / "bert.json", length=40)[0], together[row])


def test_the_tokenizer_keeps_its_settings(texts: list[str]) -> None:
    own = tokenizers.Tokenizer.from_file(str(FIXTURES / "bert.json"))  # it pads, and cuts to 4 tokens
    before = own.truncation, own.padding
    assert before[0] is not None and before[1] is not None
    made = tokenize(texts[:50], own, length=12)
    assert (own.truncation, own.padding) == before
    np.testing.assert_array_equal(made, tokenize(texts[:50], FIXTURES / "bert.json", length=12))
    own.no_truncation()
    own.no_padding()
    np.testing.assert_array_equal(made, tokenize(texts[:50], own, length=12))
    assert own.truncation is None and own.padding is None


def test_more_texts_than_are_encoded_at_once() -> None:
    many = [f"room {i % 7}" for i in range(9000)]
    made = tokenize(iter(many), FIXTURES / "bert.json", length=6)
    assert made.shape == (9000, 6)
    np.testing.assert_array_equal(made, made[np.arange(9000) % 7])


def test_texts_without_characters_and_halves_of_characters() -> None:
    made = tokenize(["", "a\udc80b"], FIXTURES / "gpt2.json", length=8)
    assert made[0].tolist() == [-1] * 8
    np.testing.assert_array_equal(made[1], tokenize(["a\ufffdb"], FIXTURES / "gpt2.json", length=8)[0])
    assert tokenize([], FIXTURES / "gpt2.json", length=8).shape == (0, 8)


class Letters:
    """A tokenizer of transformers in Python: a token for each letter, and one at each end."""

    truncation_side = "right"

    def __call__(self, texts: list[str], *, truncation: bool, max_length: int, padding: bool) -> dict[str, Any]:
        assert truncation and not padding
        return {"input_ids": [[26, *(ord(c) - 97 for c in text)][:max_length - 1] + [27] for text in texts]}

    def get_vocab(self) -> dict[str, int]:
        return {chr(97 + i): i for i in range(28)}

    def num_special_tokens_to_add(self, pair: bool) -> int:
        return 2


def test_tokenizers_of_transformers() -> None:
    assert tokenize(["abc", "abcdefg"], Letters(), length=5).tolist() == [[26, 0, 1, 2, 27], [26, 0, 1, 2, 27]]

    class Fast:
        backend_tokenizer = tokenizers.Tokenizer.from_file(str(FIXTURES / "cased.json"))

    np.testing.assert_array_equal(tokenize(["never again"], Fast(), length=9),
                                  tokenize(["never again"], FIXTURES / "cased.json", length=9))


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    file = FIXTURES / "bert.json"
    for texts, tokenizer, length, error, message in (
        ("abc", file, 8, privgrad.ConfigError, "texts is a single text"),
        (["abc"], file, 2, privgrad.ConfigError, "length is 2, and the tokenizer adds 2 special tokens"),
        (["abc"], 3, 8, privgrad.ConfigError, "tokenizer is int, expected a path"),
        (["abc", None], file, 8, privgrad.DataError, "row 1 is not a text"),
        (["abc"], tmp_path, 8, privgrad.DataError, "there is no such file, expected a tokenizer.json"),
    ):
        with pytest.raises(error, match=message):
            tokenize(texts, tokenizer, length=length)
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")
    with pytest.raises(privgrad.DataError, match="is not a tokenizer.json that can be read"):
        tokenize(["abc"], tmp_path, length=8)
    left = Letters()
    left.truncation_side = "left"
    with pytest.raises(privgrad.ConfigError, match="truncation_side"):
        tokenize(["abc"], left, length=5)
    large = Letters()
    large.get_vocab = lambda: {"a": 2**24}  # type: ignore[method-assign]
    with pytest.raises(privgrad.ConfigError, match="a token above 16777215"):
        tokenize(["abc"], large, length=5)


def test_a_model_of_tokens_has_the_bits_of_a_model_of_texts(small: dict[str, Any], texts: list[str]) -> None:
    with open("texts.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "stars"])
        kept = [text for text in texts if "\0" not in text and "\r" not in text][:120]
        for row, text in enumerate(kept):
            writer.writerow([text, ("bad", "good")[row % 2]])
    np.save("tokens.npy", tokenize(kept, FIXTURES / "bert.json", length=16))
    np.save("targets.npy", np.arange(len(kept)) % 2)
    network = {"kind": "transformer", "preset": "encoder", "vocabulary": 900, "layers": 1, "width": 8, "heads": 2}
    of_texts = {"kind": "text", "train": "texts.csv", "target": "stars", "labels": ["bad", "good"], "length": 16,
                "tokenizer": str(FIXTURES / "bert.json")}
    of_tokens = {"kind": "npy", "train": {"features": "tokens.npy", "targets": "targets.npy"}, "classes": 2}
    runs = [privgrad.run({**small, "data": data, "model": network, "steps": 3, "name": "tokens"}, out=out)
            for data, out in ((of_texts, "a"), (of_tokens, "b"))]
    assert runs[0].metrics == runs[1].metrics
