"""Makes clinic.csv: invented patients, drawn from a logistic model with a fixed seed. Nobody real is in it."""

import csv
from pathlib import Path

import numpy as np

ROWS = 600
WARDS = ("medicine", "surgery", "maternity")


def main() -> None:
    draw = np.random.default_rng(20261115)
    age = draw.integers(18, 95, ROWS)
    stay = np.minimum(draw.geometric(0.25, ROWS), 60)
    smoker = draw.random(ROWS) < 0.3
    ward = draw.integers(0, len(WARDS), ROWS)
    score = -2.5 + 0.03 * (age - 50) + 0.08 * stay + 0.7 * smoker - 0.6 * (ward == 2)
    readmitted = draw.random(ROWS) < 1 / (1 + np.exp(-score))
    with Path(__file__).with_name("clinic.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["age", "days_in_hospital", "smoker", "ward", "readmitted"])
        for i in range(ROWS):
            flags = ["yes" if flag else "no" for flag in (smoker[i], readmitted[i])]
            writer.writerow([age[i], stay[i], flags[0], WARDS[ward[i]], flags[1]])


if __name__ == "__main__":
    main()
