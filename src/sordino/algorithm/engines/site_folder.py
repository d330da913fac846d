"""Sites and their coordinator talk through files of a folder that all of them can reach.

A request is a file, and so is its answer; each is written whole under another name and then renamed. Nothing in them is
code: JSON with whole numbers in hexadecimal digits. A site is never told what to compute. It computes the next question
of the agreed plan itself, from the answers that were published so far, and compares a digest of it; so a coordinator
cannot ask for anything else, and a site whose machine computes otherwise is refused before its rows are read.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sordino.algorithm.engines.sites import PublicKeys, Revealed, Site
from sordino.algorithm.influence.asked import Asked
from sordino.algorithm.influence.plan import Plan
from sordino.algorithm.influence.release import Followed
from sordino.core.arrays import Array
from sordino.core.validate import InputError
from sordino.core.whole_files import write_file

_LOOK_EVERY = 0.02
_END = "end"


def digest_of(asked: Asked) -> str:
    """The same on machines that ask the same question, to the last bit."""
    known = (asked.centre, asked.spread, asked.whitening, asked.point, asked.axes)
    numbers = [b"" if one is None else np.ascontiguousarray(one, "<f8").tobytes() for one in known]
    public = repr((asked.name, asked.numbers, asked.family, asked.declaration, asked.tau, asked.rho, asked.at)).encode()
    return hashlib.sha256(b"\0".join([public, *(hashlib.sha256(one).digest() for one in numbers)])).hexdigest()


class Published:
    """The noised answers so far, which everybody may see."""

    def __init__(self) -> None:
        self.answered: dict[str, Array] = {}

    def add(self, name: str, sums: Array) -> None:
        """One more answer."""
        self.answered[name] = sums

    def told(self) -> dict[str, list[str]]:
        """The answers as JSON values, to the last bit."""
        return {name: [float(one).hex() for one in sums] for name, sums in self.answered.items()}


class FolderSite:
    """A site that another process serves, as the coordinator calls it; one that is silent for too long is lost."""

    def __init__(self, folder: Path, name: str, published: Published, patience: float) -> None:
        self.name, self._folder, self._published, self._patience = name, folder, published, patience
        self._requests = 0

    def begin(self, number: bytes) -> PublicKeys:
        """Fresh keys for one question."""
        messages, masks, proof = self._asked("begin", number=number.hex())
        return PublicKeys(int(messages, 16), int(masks, 16), bytes.fromhex(proof))

    def shared(self, keys: Mapping[str, PublicKeys]) -> dict[str, bytes]:
        """Encrypted shares for the other sites."""
        told = {name: [f"{key.messages:x}", f"{key.masks:x}", key.proof.hex()] for name, key in keys.items()}
        return {name: bytes.fromhex(text) for name, text in self._asked("shared", keys=told).items()}

    def received(self, sealed: Mapping[str, bytes]) -> None:
        """Pass on what the other sites sent."""
        self._asked("received", sealed={name: text.hex() for name, text in sealed.items()})

    def masked(self, asked: Asked, scales: Array | None = None) -> bytes:
        """The site's sums behind masks."""
        del scales  # a site computes its noise itself
        told = {"question": asked.name, "digest": digest_of(asked), "answered": self._published.told()}
        return bytes.fromhex(self._asked("masked", **told))

    def revealed(self, answered: Sequence[str]) -> Revealed:
        """Shares that unmask the sum."""
        place, keys, masks = self._asked("revealed", answered=list(answered))
        return Revealed(place, *({name: int(one, 16) for name, one in each.items()} for each in (keys, masks)))

    def end(self, *, well: bool) -> None:
        """Tell the site that it is not asked any more."""
        write_file(_path(self._folder, self.name, self._requests, "ask"), json.dumps([_END, {"well": well}]).encode())

    def _asked(self, call: str, **given: Any) -> Any:
        place, self._requests = self._requests, self._requests + 1
        write_file(_path(self._folder, self.name, place, "ask"), json.dumps([call, given]).encode())
        answer = waited(_path(self._folder, self.name, place, "answer"), self._patience)
        try:
            found = json.loads(answer)
            return found["answer"]
        except (ValueError, KeyError, TypeError):
            raise InputError(f"Expected an answer of site {self.name!r}, got a refusal; ask whoever runs it.") from None


def _path(folder: Path, name: str, place: int, kind: str) -> Path:
    return folder / f"{name}-{place:05}.{kind}.json"


def waited(path: Path, patience: float) -> str:
    """The text of a file that somebody is going to write."""
    until = time.monotonic() + patience
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(_LOOK_EVERY)
    return path.read_text(encoding="utf-8")


class Served:
    """A site that answers what a coordinator asks through the folder, in the order of the plan."""

    def __init__(self, site: Site, plan: Plan, told: Callable[[str], None]) -> None:
        self._site, self._plan, self._told = site, plan, told
        self._followed, self._known = Followed(plan), dict[str, Array]()

    def until_the_end(self, folder: Path, patience: float) -> bool:
        """Answer until the coordinator is done; whether it made a release."""
        place = 0
        while True:
            try:
                call, given = json.loads(waited(_path(folder, self._site.name, place, "ask"), patience))
            except TimeoutError:
                raise InputError(f"Expected requests of the coordinator, got none for {patience:g} seconds.") from None
            if call == _END:
                return bool(given["well"])
            to = _path(folder, self._site.name, place, "answer")
            try:
                answer = {"answer": self._answered(str(call), given)}
            except BaseException:
                # Why is nobody's business but this site's.
                write_file(to, json.dumps({"refused": True}).encode())
                raise
            write_file(to, json.dumps(answer).encode())
            place += 1

    def _answered(self, call: str, given: Mapping[str, Any]) -> Any:
        site = self._site
        if call == "begin":
            keys = site.begin(bytes.fromhex(given["number"]))
            return [f"{keys.messages:x}", f"{keys.masks:x}", keys.proof.hex()]
        if call == "shared":
            listed = {
                name: PublicKeys(int(messages, 16), int(masks, 16), bytes.fromhex(proof))
                for name, (messages, masks, proof) in given["keys"].items()
            }
            return {name: text.hex() for name, text in site.shared(listed).items()}
        if call == "received":
            return site.received({name: bytes.fromhex(text) for name, text in given["sealed"].items()})
        if call == "masked":
            return self._masked(given).hex()
        if call == "revealed":
            place, keys, masks = site.revealed([str(name) for name in given["answered"]])
            return [place, *({name: f"{one:x}" for name, one in each.items()} for each in (keys, masks))]
        raise InputError("Expected a request that sites know, got another; the fit is refused.")

    def _masked(self, given: Mapping[str, Any]) -> bytes:
        names = [one.name for one in self._plan.mechanisms]
        last = f"gradients {len(self._plan.shares.gradients)}"
        answered = {str(name): [float.fromhex(one) for one in sums] for name, sums in given["answered"].items()}
        if list(answered) != names[: len(answered)] or any(
            self._known[name].tolist() != answered.get(name) for name in self._known
        ):
            raise InputError("Expected the answers of the plan in its order, got others; the fit is refused.")
        for name in list(answered)[len(self._known) :]:
            self._known[name] = np.array(answered[name])
            self._followed.read(name, self._known[name], last=name == last)
        name = names[len(answered)]
        asked, bound = self._followed.asked(name)
        if (given["question"], given["digest"]) != (name, digest_of(asked)):
            raise InputError(
                f"Expected the question {name!r} as this site computes it, got another; the coordinator departs from "
                "the plan, or machines compute differently."
            )
        self._told(name)
        return self._site.masked(asked, self._followed.scales(name, bound))
