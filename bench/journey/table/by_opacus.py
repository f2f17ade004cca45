import pandas
import torch
from features import features
from opacus import PrivacyEngine

table = pandas.read_csv("train.csv")
rows = torch.tensor(features(table))
labels = torch.tensor((table["readmitted"] == "yes").to_numpy().astype("int64"))
model = torch.nn.Linear(rows.shape[1], 2)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows, labels), batch_size=600)
private, optimizer, loader = PrivacyEngine(secure_mode=False).make_private_with_epsilon(
    module=model, optimizer=optimizer, data_loader=loader, epochs=10, target_epsilon=1, target_delta=1e-5,
    max_grad_norm=1)
for _ in range(10):
    for batch, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(private(batch), targets).backward()
        optimizer.step()
test = pandas.read_csv("test.csv")
with torch.no_grad():
    chosen = model(torch.tensor(features(test))).argmax(dim=1).numpy()
pandas.DataFrame({"id": test["id"], "class": [["no", "yes"][i] for i in chosen]}).to_csv("predictions.csv", index=False)
torch.onnx.export(model, torch.zeros(1, rows.shape[1]), "model.onnx", input_names=["features"], dynamo=False)
