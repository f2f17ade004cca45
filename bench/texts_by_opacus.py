"""The experiment of docs/experiments/texts.md on Reuters R8 by Opacus: a new output layer on the frozen
model, at epsilon 3.

    python3 examples/text/fetch.py texts
    python3 bench/texts_by_opacus.py texts        # needs opacus and transformers

The learning rate is chosen as there: of six, with two seeds, on a fifth of the training texts. Prints the
accuracies on the test texts of five seeds, the time, and the most memory that the program held.
"""

import json
import pathlib
import resource
import statistics
import sys
import time

import torch
from opacus import PrivacyEngine
from transformers import AutoModel, PreTrainedTokenizerFast

CLASSES = ("acq", "crude", "earn", "grain", "interest", "money-fx", "ship", "trade")
RATES = (2, 4, 8, 16, 32, 64)
EPOCHS, BATCHES = 30, 5


def read(file, tokenizer, frozen):
    rows = [json.loads(line) for line in open(file)]
    features = []
    for at in range(0, len(rows), 64):
        texts = [row["text"] for row in rows[at : at + 64]]
        tokens = tokenizer(texts, truncation=True, max_length=64, padding="max_length", return_tensors="pt")
        with torch.no_grad():
            hidden = frozen(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask).last_hidden_state
        mask = tokens.attention_mask.unsqueeze(2)
        features.append((hidden * mask).sum(1) / mask.sum(1))
    return torch.cat(features), torch.tensor([CLASSES.index(row["label"]) for row in rows])


def accuracy(train, test, rate, seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(train[0].shape[1], len(CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, dampening=0.9)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*train), batch_size=-(-len(train[0]) // BATCHES))
    model, optimizer, loader = PrivacyEngine(accountant="prv").make_private_with_epsilon(
        module=model, optimizer=optimizer, data_loader=loader, target_epsilon=3, target_delta=1e-5, epochs=EPOCHS, max_grad_norm=1)
    for _ in range(EPOCHS):
        for features, targets in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(features), targets).backward()
            optimizer.step()
    with torch.no_grad():
        return (model(test[0]).argmax(1) == test[1]).double().mean().item()


def main():
    folder = pathlib.Path(sys.argv[1])
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "minilm/tokenizer.json"), pad_token="[PAD]")
    frozen = AutoModel.from_pretrained(folder / "minilm").eval()
    fit, score = (read(folder / f"reuters-r8-{part}.jsonl", tokenizer, frozen) for part in ("fit", "score"))
    by_rate = {rate: statistics.mean(accuracy(fit, score, rate, seed) for seed in (101, 102)) for rate in RATES}
    print("accuracy on the score texts, by rate:", by_rate)
    begin = time.monotonic()
    train, test = (read(folder / f"reuters-r8-{part}.jsonl", tokenizer, frozen) for part in ("train", "test"))
    seconds = [time.monotonic() - begin]
    found = []
    for seed in range(5):
        begin = time.monotonic()
        found.append(accuracy(train, test, max(by_rate, key=by_rate.get), seed))
        seconds.append(time.monotonic() - begin)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"mean accuracy {statistics.mean(found):.4f} of {found}")
    print(f"{seconds[0]:.0f} s for the frozen model's outputs, {statistics.mean(seconds[1:]):.1f} s a run, {memory:.0f} MB")


main()
