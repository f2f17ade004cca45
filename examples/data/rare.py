"""Makes a table with a rare class, about 3 rows of 100 (made up): rare.py SEED ROWS > rare.csv"""

import csv
import random
import sys


def main():
    draw = random.Random(int(sys.argv[1]))
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["id", "age", "visits", "score", "outcome"])
    for number in range(int(sys.argv[2])):
        is_ill = draw.random() < 0.03
        age = min(100, max(18, round(draw.gauss(60 if is_ill else 50, 15))))
        visits = min(20, int(draw.expovariate(1 / (5 if is_ill else 2))))
        score = round(draw.gauss(1.2 if is_ill else 0, 1), 3)
        out.writerow([number, age, visits, score, "ill" if is_ill else "well"])


if __name__ == "__main__":
    main()
