"""Turns texts into rows of tokens with any tokenizer of Hugging Face's libraries.

The data source ``text`` reads the two common kinds of tokenizers itself. For all others, make the
tokens here, save them with ``numpy.save``, and read them with the data source ``npy``.
Needs ``pip install 'privgrad[text]'``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from .errors import ConfigError, DataError

__all__ = ["tokenize"]

#: The number at each place after the last token of a text.
_EMPTY = -1
#: Networks store tokens as float32, which represents all whole numbers up to this one.
_MOST_TOKENS = 2**24
#: Texts that are encoded at once, which bounds the memory.
_AT_ONCE = 4096
#: Surrogates (halves of characters), which UTF-8 cannot encode.
_SURROGATE = re.compile("[\ud800-\udfff]")


def _read(path: str | os.PathLike[str]) -> Any:
    """The tokenizer in a file, or in the ``tokenizer.json`` of a folder."""
    file = Path(path)
    if file.is_dir():
        file /= "tokenizer.json"
    if not file.is_file():
        raise DataError(f"{file}: there is no such file, expected a tokenizer.json")
    try:
        return tokenizers.Tokenizer.from_file(os.fspath(file))
    except Exception as problem:  # the library has no type of its own
        raise DataError(f"{file}: is not a tokenizer.json that can be read: {problem}") from problem


def _texts_of(texts: Iterable[Any]) -> Iterator[str]:
    """The texts, with U+FFFD for surrogates; an error names the row but not its content."""
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"texts: row {row} is not a text; give '' for a missing one")
        yield _SURROGATE.sub("\ufffd", text)


def _encoded_by_library(tokenizer: Any, texts: list[str], length: int) -> list[list[int]]:
    """Encode texts as ``tokenizers`` does, with the settings of the tokenizer unchanged afterwards."""
    truncation, padding = tokenizer.truncation, tokenizer.padding
    tokenizer.no_padding()  # padding depends on the other texts
    tokenizer.enable_truncation(length)
    try:
        return [made.ids for made in tokenizer.encode_batch(texts)]
    finally:
        if truncation is None:
            tokenizer.no_truncation()
        else:
            tokenizer.enable_truncation(**truncation)
        if padding is not None:
            tokenizer.enable_padding(**padding)


def tokenize(texts: Iterable[Any], tokenizer: Any, *, length: int) -> np.ndarray:
    """Return the tokens of texts, as the data source ``npy`` reads them.

    A row depends only on its own text. For tokenizers that the data source ``text`` reads, the
    tokens are the same. Privacy: the tokenizer and `length` must be public; a vocabulary that was
    learned from private rows reveals them, and nothing charges for it.

    Parameters
    ----------
    texts : iterable of str
        One text per row, such as a list or a column of a table.
    tokenizer : path, tokenizers.Tokenizer, or tokenizer of transformers
        A path leads to a ``tokenizer.json``, or to a folder that contains one.
    length : int
        The number of tokens in a row, special tokens included. Longer texts are cut off at their
        end, and -1 fills the row after the last token. A text without characters has no tokens.

    Returns
    -------
    numpy.ndarray
        int32, [texts, length].

    Raises
    ------
    ConfigError
        If `length` leaves no place for a token of the text, or the tokenizer cannot be used.
    DataError
        If the tokenizer's file cannot be read, or a row is not a text.
    """
    if isinstance(texts, (str, bytes)):
        raise ConfigError("texts is a single text, expected an iterable of texts")
    if isinstance(tokenizer, (str, os.PathLike)):
        tokenizer = _read(tokenizer)
    tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
    is_of_library = isinstance(tokenizer, tokenizers.Tokenizer)
    if not is_of_library and not (callable(tokenizer) and hasattr(tokenizer, "get_vocab")):
        raise ConfigError(f"tokenizer is {type(tokenizer).__name__}, expected a path, a tokenizers.Tokenizer or a "
                          "tokenizer of transformers")
    if not is_of_library and getattr(tokenizer, "truncation_side", "right") != "right":
        raise ConfigError("tokenizer has truncation_side left, expected right")
    around = tokenizer.num_special_tokens_to_add(False)
    if length <= around:
        raise ConfigError(f"length is {length}, and the tokenizer adds {around} special tokens to each text")
    if max(tokenizer.get_vocab().values(), default=0) >= _MOST_TOKENS:
        raise ConfigError(f"tokenizer has a token above {_MOST_TOKENS - 1}, the largest that networks hold")

    parts = [np.empty((0, length), np.int32)]
    rest = _texts_of(texts)
    while batch := list(islice(rest, _AT_ONCE)):
        made = (_encoded_by_library(tokenizer, batch, length) if is_of_library
                else tokenizer(batch, truncation=True, max_length=length, padding=False)["input_ids"])
        part = np.full((len(batch), length), _EMPTY, np.int32)
        for row, text, tokens in zip(part, batch, made, strict=True):
            if text:
                row[:len(tokens)] = tokens
        parts.append(part)
    return np.concatenate(parts)
