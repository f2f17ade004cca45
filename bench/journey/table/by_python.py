import pandas
import privgrad

data = {
    "kind": "memory", "train": pandas.read_csv("train.csv"), "target": "readmitted",
    "labels": ["no", "yes"], "other_label": "no", "size": 6000,
    "columns": [
        {"name": "id", "type": "drop"},
        {"name": "age", "type": "number", "min": 18, "max": 100, "unit": True, "fill": 60},
        {"name": "sex", "type": "category", "values": ["f", "m"], "other": True},
        {"name": "city", "type": "category", "values": ["Basel", "Bern", "Geneva", "Zurich"], "other": True},
        {"name": "smoker", "type": "boolean", "fill": 0.5},
        {"name": "admitted", "type": "date", "parts": ["month"], "other": True},
        {"name": "bmi", "type": "number", "min": 12, "max": 60, "unit": True, "fill": 25, "indicator": True},
    ],
}
run = privgrad.run({
    "privgrad": 1, "data": data, "model": "linear", "sampler": "full_batch",
    "optimizer": {"kind": "momentum", "variant": "heavy_ball"},
    "schedules": {"clip_norm": 1, "learning_rate": 1, "noise_multiplier": "uniform"},
    "privacy": {"target_epsilon": 1, "target_delta": 1e-5, "adjacency": "add_or_remove_one", "accountant": "gdp"},
    "steps": 100,
}, out="run")
assert privgrad.verify(run)
predictions = privgrad.predict(run, pandas.read_csv("test.csv"), keep="id")
pandas.DataFrame(predictions.columns()).to_csv("predictions.csv", index=False)
privgrad.export(run, "model.onnx")
