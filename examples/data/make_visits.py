"""Makes visits.csv: invented patients with up to fifteen visits each, drawn with a fixed seed. Nobody real is in it."""

import csv
from pathlib import Path

import numpy as np

PATIENTS, MOST_VISITS = 800, 15


def main() -> None:
    draw = np.random.default_rng(20261116)
    visits = np.minimum(1 + draw.poisson(3.0, PATIENTS), MOST_VISITS)
    whose = draw.permutation(np.repeat(np.arange(PATIENTS), visits))
    age, own = draw.integers(30, 85, PATIENTS)[whose], draw.normal(0.0, 9.0, PATIENTS)[whose]
    dose = draw.integers(0, 5, len(whose)) * 10
    pressure = 120 + 0.45 * (age - 55) - 0.25 * dose + own + draw.normal(0.0, 6.0, len(whose))
    numbers = draw.permutation(90_000)[:PATIENTS] + 10_000
    with Path(__file__).with_name("visits.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["patient", "age", "dose", "pressure"])
        writer.writerows(zip(numbers[whose], age, dose, np.round(pressure).astype(int), strict=True))


if __name__ == "__main__":
    main()
