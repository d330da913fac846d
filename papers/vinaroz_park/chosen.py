"""The settings that `tuning` chose on public synthetic data, read from the file it wrote."""

import json
from pathlib import Path
from typing import Any

from papers.vinaroz_park.networks import LinearSetting, NaturalSetting, NetworkSetting
from papers.vinaroz_park.propagation import RoundsSetting

FILE = Path(__file__).with_name("chosen.json")


def choice() -> dict[str, Any]:
    """The file as written: the name of the best method, and for every method its setting and its scores."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def natural() -> NaturalSetting:
    """Natural gradients."""
    return NaturalSetting(**choice()["methods"]["natural"]["setting"])


def network(name: str) -> NetworkSetting:
    """Networks by clipped gradients: `point`, `whitened` or `gaussian`."""
    return NetworkSetting(**choice()["methods"][name]["setting"])


def rounds() -> RoundsSetting:
    """Message passing in rounds."""
    return RoundsSetting(**choice()["methods"]["rounds"]["setting"])


def linear() -> LinearSetting:
    """Linear regression in rounds."""
    return LinearSetting(**choice()["methods"]["linear"]["setting"])
