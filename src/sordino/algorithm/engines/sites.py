"""Several organisations, one fit: a coordinator learns the sum of their sums and nothing of any one of them.

Every site adds up its own rows with the kernel of every engine, adds masks that cancel in the sum of all sites, and
sends numbers that are uniform modulo 2^128 to whoever lacks a mask. This is secure aggregation with double masks and
recovery from dropouts (Bonawitz et al. 2017), for a few sites and whole numbers of 128 bits, with fresh keys for every
question. The sum is exact, so sites give what one pooled table gives, to the last bit.

*Whom it protects against.* A coordinator and up to t - 1 of n sites that follow the protocol and put together all they
saw learn nothing of another site's sums but what the sum of all remaining sites tells; t is `threshold(n)`, more than
half. They need not be trusted with masks: a site reveals shares of its neighbours' keys only once a question, and never
both kinds of share of one site. *Not covered*: a site that lies about its rows or sends a wrong sum, which nothing
notices; a coordinator that shows different lists of sites to different sites or passes on forged keys, for which keys
have to be signed by somebody the sites know; how long answers take; and that the coordinator sees the exact sum of all
sites where it adds the noise, so it is trusted with that sum, as a curator is with rows.

*Central noise* is added by the coordinator, once, as for a pooled table. It does not depend on which sites answered, so
a dropout leaves all of it. A site that is lost in a question is left out of it and of all later ones: under replace-one
the number of units is then wrong and the fit is refused, under add-remove it goes on with the others.

*Joint noise* is added by the sites, a share each (`noise.joint`), so that the coordinator sees noised sums alone. Every
share is needed: a site unmasks nothing unless all sites of the list that it was given at the beginning answered.

*Whose ledger pays.* Every site's own, the whole price: its people are in the release. *People at two sites* are two
units here. Their loss is up to that of two releases, unless the sites bring their records together beforehand.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sordino.algorithm.influence.asked import Asked, NoisedTotal, Summed, Total
from sordino.algorithm.noise.joint import joint_distance, share, share_scales
from sordino.algorithm.noise.randomness import Randomness
from sordino.algorithm.noise.wide_sums import WideSums
from sordino.core.arrays import Array
from sordino.core.gaussian import up
from sordino.core.validate import InputError

# The 2048-bit group of RFC 3526, section 3; its generator is 2. Exponents of 256 bits match its strength.
_PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B"
    "302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE6"
    "49286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D"
    "670C354E4ABC9804F1746C08CA18217C32905E462E36CE3BE39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718"
    "3995497CEA956AE515D2261898FA051015728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
_SECRET_BITS = 256
# Shares are points of a line of degree t - 1 over this field, which holds every secret.
_FIELD = 2**521 - 1
_SHARE_BYTES = 66


class PublicKeys(NamedTuple):
    """What a site tells all others: a key for messages between two sites, one for masks, and a proof of both."""

    messages: int
    masks: int
    proof: bytes = b""


class Shares(NamedTuple):
    """What a site holds of another's secrets: a share of its key for masks, and one of its own mask."""

    key: int
    mask: int


class Revealed(NamedTuple):
    """Shares that a site gives away: keys of sites that dropped out, own masks of those that answered."""

    place: int
    keys: dict[str, int]
    masks: dict[str, int]


def threshold(sites: int) -> int:
    """How many sites have to answer: more than half, so that no two disjoint groups can unmask anything."""
    return sites // 2 + 1


@dataclass
class _Round:
    """The secrets of one site for one question."""

    number: bytes
    messages: int
    masks: int
    own: bytes
    keys: dict[str, PublicKeys] | None = None
    held: dict[str, Shares] | None = None
    answered: bool = False
    revealed: bool = False


class Site:
    """One organisation: rows stay here, and masked whole numbers leave.

    Args:
        name: of the site; the same in everybody's list.
        total: adds up this site's own rows, as `InMemory` or `Totals` do.
        joint: this site's part of the noise, where sites add it themselves.
        secret: what all sites know and the coordinator does not; keys that are not proved by it are refused.
    """

    def __init__(self, name: str, total: Total, joint: "JointShare | None" = None, secret: bytes | None = None) -> None:
        self.name, self._total, self._joint, self._secret = name, total, joint, secret
        self._round: _Round | None = None
        self._questions: set[str] = set()

    def begin(self, number: bytes) -> PublicKeys:
        """Fresh keys for one question."""
        secret = secrets.randbits
        made = _Round(number, secret(_SECRET_BITS), secret(_SECRET_BITS), secrets.token_bytes(_SECRET_BITS // 8))
        self._round = made
        keys = PublicKeys(pow(2, made.messages, _PRIME), pow(2, made.masks, _PRIME))
        return keys if self._secret is None else keys._replace(proof=_proof(self._secret, number, self.name, keys))

    def shared(self, keys: Mapping[str, PublicKeys]) -> dict[str, bytes]:
        """For every other site an encrypted share of this site's secrets."""
        made, others = self._now(), sorted(keys)
        if self.name not in keys or len(others) < 2 or made.keys is not None:
            raise InputError("Expected one list of at least two sites with this one among them, got another.")
        if self._joint is not None and set(others) != set(self._joint.sites):
            raise InputError("Expected keys of all sites, each of which adds noise, got those of others; refused.")
        if len({key.messages for key in keys.values()}) < len(others) or any(
            not 1 < value < _PRIME - 1 for key in keys.values() for value in key[:2]
        ):
            raise InputError("Expected a key of its own from every site, got others; nothing was sent.")
        if self._secret is not None and not all(
            hmac.compare_digest(key.proof, _proof(self._secret, made.number, name, key)) for name, key in keys.items()
        ):
            raise InputError("Expected keys that sites proved by their secret, got forged ones; nothing was sent.")
        made.keys = dict(keys)
        most = threshold(len(others))
        of_key, of_mask = (_divided(one, len(others), most) for one in (made.masks, int.from_bytes(made.own, "big")))
        made.held = {self.name: Shares(of_key[others.index(self.name)], of_mask[others.index(self.name)])}
        return {
            name: _sealed(self._message_key(name), self.name, Shares(of_key[place], of_mask[place]))
            for place, name in enumerate(others)
            if name != self.name
        }

    def received(self, sealed: Mapping[str, bytes]) -> None:
        """Keep what the other sites sent."""
        made = self._now()
        assert made.held is not None
        for name, text in sealed.items():
            made.held[name] = _opened(self._message_key(name), name, text)

    def masked(self, asked: Asked, scales: Array | None = None) -> bytes:
        """This site's sums and number of units, behind masks; with its share of noise of these deviations."""
        made = self._now()
        if made.keys is None or made.held is None or made.answered or asked.name in self._questions:
            raise InputError(f"Expected a question that was not answered yet, got {asked.name!r} again or too early.")
        # Without the shares of another site there would be no mask between the two: whoever passes messages on could
        # leave a site with its own mask alone, which the others reveal.
        if set(made.held) != set(made.keys):
            raise InputError("Expected shares of every site of the list, got fewer; nothing was sent.")
        made.answered = True
        self._questions.add(asked.name)
        summed = self._total(asked)
        found = WideSums.of([*(int(one) for one in summed.sums.integers()), summed.units])
        if self._joint is not None:
            found.add_wide(self._joint.of(scales, summed))
        found.add_wide(_mask(made.own, len(found)))
        for name in made.held:
            if name != self.name:
                shared = _pair(made.masks, made.keys[name].masks, made.number, self.name, name)
                mask = _mask(shared, len(found))
                found.add_wide(mask if self.name < name else mask.negative())
        return found.to_bytes()

    def revealed(self, answered: Sequence[str]) -> Revealed:
        """Shares that unmask the sum of those who answered; given once, and one kind for each site."""
        made = self._now()
        assert made.keys is not None
        assert made.held is not None
        there = set(answered)
        if self._joint is not None and there != set(self._joint.sites):
            raise InputError("Expected answers of all sites, each with its share of the noise, got fewer; refused.")
        known = there <= set(made.keys)  # names that nobody has would count as answers
        if made.revealed or not known or self.name not in there or len(there) < threshold(len(made.keys)):
            raise InputError(
                f"Expected at least {threshold(len(made.keys))} of {len(made.keys)} sites, this one among them, asked "
                "once, got another request; nothing was revealed."
            )
        made.revealed = True
        keys = {name: shares.key for name, shares in made.held.items() if name not in there}
        masks = {name: shares.mask for name, shares in made.held.items() if name in there}
        return Revealed(sorted(made.keys).index(self.name) + 1, keys, masks)

    def _now(self) -> _Round:
        if self._round is None:
            raise InputError("Expected a question that has begun, got none.")
        return self._round

    def _message_key(self, name: str) -> bytes:
        made = self._now()
        assert made.keys is not None
        return _pair(made.messages, made.keys[name].messages, made.number, self.name, name)


@dataclass(frozen=True, eq=False)
class JointShare:
    """A site's part of the noise.

    Attributes:
        sites: all of them, by name, as agreed before the fit.
        randomness: of this site alone; a fresh one for each question.
        public_units: whether the number of units is public, so that it is told; otherwise it is not.
        afford: told the distance from Gaussian noise that every question costs; raises where that is too much.
    """

    sites: tuple[str, ...]
    randomness: Callable[[], Randomness]
    public_units: bool
    afford: Callable[[float], None]

    def of(self, scales: Array | None, summed: Summed) -> WideSums:
        """What is added to a site's sums and to its number of units."""
        if scales is None:
            raise InputError("Expected the deviations of the noise that sites add, got none; nothing was sent.")
        shares = share_scales(scales, summed.exponent, len(self.sites))
        self.afford(joint_distance(shares, len(self.sites)))
        drawn = share(self.randomness(), shares)
        return WideSums.of([*map(int, drawn), 0 if self.public_units else -summed.units])


class Coordinator:
    """Asks sites and adds up their answers; a `Total` for `release_sums`.

    `lost` names the sites that did not answer; they are not asked again. A site is lost when a call of it raises
    ConnectionError or TimeoutError.
    """

    def __init__(self, sites: Sequence[Any]) -> None:
        if len(sites) < 2 or len({site.name for site in sites}) < len(sites):
            raise InputError("Expected at least two sites with different names, got others.")
        self._sites = {site.name: site for site in sites}
        self.sites = tuple(site.name for site in sites)
        self._all = len(sites)
        self.lost: list[str] = []

    def __call__(self, asked: Asked, scales: Array | None = None) -> Summed:
        number = secrets.token_bytes(16)
        keys = self._heard(lambda site: site.begin(number))
        sealed = self._heard(lambda site: site.shared(keys), keys)
        for name in sealed:
            self._heard(lambda site: site.received(_for(site.name, sealed)), [name])
        took = [name for name in sealed if name not in self.lost]
        if len(took) < len(keys):
            # Who did not send shares cannot be recovered: begin again without them.
            return self(asked, scales)
        answers = self._heard(lambda site: site.masked(asked, scales), took)
        revealed = self._heard(lambda site: site.revealed(tuple(answers)), answers)
        total = WideSums.zeros(asked.numbers + 1)
        for text in answers.values():
            total.add_wide(WideSums.from_bytes(text))
        self._unmask(total, number, keys, tuple(answers), list(revealed.values()))
        found = total.integers()
        sums = WideSums.of(found[:-1])
        return Summed(sums, asked.exponent, int(found[-1]))

    def _heard(self, ask: Callable[[Site], Any], names: Iterable[str] | None = None) -> dict[str, Any]:
        found = {}
        for name in sorted(self._sites if names is None else set(names) & set(self._sites)):
            try:
                found[name] = ask(self._sites[name])
            except (ConnectionError, TimeoutError):
                del self._sites[name]
                self.lost.append(name)
        if len(self._sites) < threshold(self._all):
            raise InputError(
                f"Expected at least {threshold(self._all)} of {self._all} sites, got {len(self._sites)}; the others "
                "did not answer, and nothing of this question was unmasked."
            )
        return found

    @staticmethod
    def _unmask(
        total: WideSums, number: bytes, keys: Mapping[str, PublicKeys], there: Sequence[str], shares: list[Revealed]
    ) -> None:
        for name in there:
            own = _joined({one.place: one.masks[name] for one in shares}, threshold(len(keys)))
            total.add_wide(_mask(own.to_bytes(_SECRET_BITS // 8, "big"), len(total)).negative())
        for gone in sorted(set(keys) - set(there)):
            secret = _joined({one.place: one.keys[gone] for one in shares}, threshold(len(keys)))
            for name in there:
                mask = _mask(_pair(secret, keys[name].masks, number, gone, name), len(total))
                total.add_wide(mask.negative() if name < gone else mask)


class JointCoordinator(NoisedTotal):
    """Asks sites that add the noise themselves, all of them, and sees noised sums alone."""

    def __init__(self, coordinator: Coordinator, *, public_units: bool) -> None:
        self._coordinator, self._public_units = coordinator, public_units
        self.distance = 0.0  # from Gaussian noise, of all questions so far

    def noised(self, asked: Asked, scales: Array) -> tuple[Array, int | None]:
        """The sums with the noise of all sites, and the number of units where it is public."""
        found = self._coordinator(asked, scales)
        if self._coordinator.lost:
            raise InputError(f"Expected the noise of all sites, got none from {self._coordinator.lost[0]!r}; refused.")
        numbers, sites = found.sums.integers(), len(self._coordinator.sites)
        self.distance = up(self.distance + joint_distance(share_scales(scales, found.exponent, sites), sites))
        return np.ldexp(numbers.astype(np.float64), found.exponent), found.units if self._public_units else None


def _proof(secret: bytes, number: bytes, name: str, keys: PublicKeys) -> bytes:
    text = b"\0".join([b"sordino-keys", number, name.encode(), *(key.to_bytes(256, "big") for key in keys[:2])])
    return hmac.digest(secret, text, "sha256")


def _for(name: str, sealed: Mapping[str, Mapping[str, bytes]]) -> dict[str, bytes]:
    return {sender: texts[name] for sender, texts in sealed.items() if sender != name}


def _pair(own: int, other: int, number: bytes, *names: str) -> bytes:
    """The key of two sites for one question, from a Diffie-Hellman agreement."""
    shared = pow(other, own, _PRIME).to_bytes(256, "big")
    return hashlib.sha256(b"\0".join([b"sordino-sites", number, *sorted(n.encode() for n in names), shared])).digest()


def _mask(seed: bytes, size: int) -> WideSums:
    """Numbers that nobody without the seed can tell from uniform ones modulo 2^128."""
    return WideSums.from_bytes(hashlib.shake_256(b"sordino-mask" + seed).digest(16 * size))


def _sealed(key: bytes, sender: str, shares: Shares) -> bytes:
    """Two shares, encrypted for one reader and guarded against change, and against being sent back."""
    plain, nonce = b"".join(share.to_bytes(_SHARE_BYTES, "big") for share in shares), secrets.token_bytes(32)
    hidden = _hidden(key, nonce, plain)
    return nonce + hidden + _guard(key, sender, nonce + hidden)


def _opened(key: bytes, sender: str, text: bytes) -> Shares:
    nonce, hidden, guard = text[:32], text[32:-32], text[-32:]
    if not hmac.compare_digest(guard, _guard(key, sender, nonce + hidden)):
        raise InputError("Expected shares as another site sent them, got changed ones; the fit is refused.")
    plain = _hidden(key, nonce, hidden)
    return Shares(int.from_bytes(plain[:_SHARE_BYTES], "big"), int.from_bytes(plain[_SHARE_BYTES:], "big"))


def _hidden(key: bytes, nonce: bytes, text: bytes) -> bytes:
    """The text with a stream of this key and nonce added bit by bit; twice gives it back."""
    stream = hashlib.shake_256(b"seal" + key + nonce).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))


def _guard(key: bytes, sender: str, text: bytes) -> bytes:
    return hmac.digest(key, b"guard" + sender.encode() + b"\0" + text, "sha256")


def _divided(secret: int, parts: int, needed: int) -> list[int]:
    """Shamir's shares: any `needed` of them give the secret, fewer say nothing of it."""
    line = [secret, *(secrets.randbelow(_FIELD) for _ in range(needed - 1))]
    return [sum(value * pow(x, k, _FIELD) for k, value in enumerate(line)) % _FIELD for x in range(1, parts + 1)]


def _joined(points: Mapping[int, int], needed: int) -> int:
    """The secret from shares, by Lagrange's formula at 0."""
    chosen = dict(list(points.items())[:needed])
    if len(chosen) < needed:
        raise InputError(f"Expected shares of at least {needed} sites, got {len(chosen)}; nothing was unmasked.")
    total = 0
    for x, y in chosen.items():
        top = bottom = 1
        for other in chosen:
            if other != x:
                top, bottom = top * -other % _FIELD, bottom * (x - other) % _FIELD
        total += y * top * pow(bottom, -1, _FIELD)
    return total % _FIELD
