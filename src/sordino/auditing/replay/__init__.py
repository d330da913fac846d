"""Replay: runs of this code on neighbouring tables, answered alike, against the plan that a certificate rests on."""

from sordino.auditing.replay.plan import Planned, Replayed, Shift, compare, planned_calls
from sordino.auditing.replay.port import Recorder, Recording, Run, Seen, Sources

__all__ = [
    "Planned",
    "Recorder",
    "Recording",
    "Replayed",
    "Run",
    "Seen",
    "Shift",
    "Sources",
    "compare",
    "planned_calls",
]
