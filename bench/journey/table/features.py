# Code that the scripts of both peers need, written once but counted for each: columns follow their
# declarations, not the data.
import pandas


def features(table):
    age = table["age"].fillna(60).clip(18, 100)
    bmi = table["bmi"].fillna(25).clip(12, 60)
    month = pandas.to_datetime(table["admitted"], format="%Y-%m-%d", errors="coerce").dt.month
    made = {"age": (age - 18) / 82, "bmi": (bmi - 12) / 48, "no bmi": table["bmi"].isna(),
            "smoker": table["smoker"].map({"no": 0.0, "yes": 1.0}).fillna(0.5), "no month": month.isna()}
    for column, values in (("sex", ["f", "m"]), ("city", ["Basel", "Bern", "Geneva", "Zurich"])):
        for value in values:
            made[value] = table[column] == value
        made["other " + column] = ~table[column].isin(values)
    for number in range(1, 13):
        made[f"month {number}"] = month == number
    return pandas.DataFrame(made).astype("float32").to_numpy()
