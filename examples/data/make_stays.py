"""Makes stays.csv: invented hospital stays, drawn from a logistic model with a fixed seed. Nobody real is in it."""

import csv
from pathlib import Path

import numpy as np

ROWS = 5000
WARDS = ("medicine", "surgery", "geriatrics")


def main() -> None:
    draw = np.random.default_rng(20261119)
    age = draw.normal(62, 14, ROWS).clip(18, 100).round().astype(int)
    days = draw.gamma(2.0, 3.0, ROWS).clip(0, 40).round().astype(int)
    smoker, treated = draw.random(ROWS) < 0.22, draw.random(ROWS) < 0.5
    ward = draw.choice(3, ROWS, p=[0.5, 0.35, 0.15])
    score = -3.2 + 0.025 * age + 0.06 * days + 0.45 * smoker - 0.4 * treated + 0.3 * (ward == 2)
    readmitted = draw.random(ROWS) < 1 / (1 + np.exp(-score))
    with Path(__file__).with_name("stays.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["age", "days", "smoker", "treated", "ward", "readmitted"])
        for i in range(ROWS):
            flags = ["yes" if flag else "no" for flag in (smoker[i], treated[i], readmitted[i])]
            writer.writerow([age[i], days[i], flags[0], flags[1], WARDS[ward[i]], flags[2]])


if __name__ == "__main__":
    main()
