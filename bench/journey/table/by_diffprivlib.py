import numpy
import pandas
from diffprivlib.models import LogisticRegression
from features import features

table = pandas.read_csv("train.csv")
rows = features(table)
longest = numpy.sqrt(7.0)  # the largest norm of a row: it has seven parts, none longer than 1
model = LogisticRegression(epsilon=1, data_norm=longest, max_iter=1000)
model.fit(rows, (table["readmitted"] == "yes").astype(int))
test = pandas.read_csv("test.csv")
chosen = model.predict(features(test))
pandas.DataFrame({"id": test["id"], "class": [["no", "yes"][i] for i in chosen]}).to_csv("predictions.csv", index=False)
