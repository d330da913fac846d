"""A Dask cluster: every part is a task, computed by whichever worker is free, next to the data where that is shared.

Dask runs a task again whose worker was lost. Its answer is the same whole numbers, and it is counted once, by the key
of its part. Needs ``sordino[cluster]``.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import uuid4

from sordino.algorithm.engines.helpers import keep_memory
from sordino.algorithm.engines.spread import Columns, Spread, UnitBucket
from sordino.algorithm.engines.totals import Engine, register_engine
from sordino.algorithm.engines.work import PartAnswer, Work
from sordino.core.validate import InputError
from sordino.data.sources.duckdb_tables import needed
from sordino.data.sources.lazy_frames import DaskPart
from sordino.data.sources.part import Part
from sordino.data.table import Table

# A cluster without a worker, or without a scheduler, is waited for so long.
PATIENCE = 60.0
_LOOK_EVERY = 0.02
_CONNECT = 15.0


class DaskCluster(Engine):
    """Workers of a Dask cluster.

    Args:
        client: a `distributed.Client`.
        own: whether this engine made the client, and closes it.
    """

    elsewhere: ClassVar[bool] = True
    own_frames: ClassVar[tuple[type[Part], ...]] = (DaskPart,)

    def __init__(self, client: Any, *, own: Sequence[Any] = (), patience: float = PATIENCE) -> None:
        self._client, self._own, self._patience = client, tuple(own), patience
        self._kept: list[Any] = []

    def answers(self, work: Work, parts: dict[str, Part]) -> Iterator[PartAnswer]:
        run = f"sordino-{work.asked.name.replace(' ', '-')}-{uuid4().hex[:12]}"
        waiting = {self._submitted(work, part, key, f"{run}-{key}"): part.name for key, part in parts.items()}
        seen = time.monotonic()
        try:
            while waiting:
                done = self._done(list(waiting))
                if done:
                    seen = time.monotonic()
                elif time.monotonic() - seen > self._patience and not self._alive():
                    raise InputError(
                        f"Expected a Dask cluster with a scheduler and workers, got none for {self._patience:g} "
                        "seconds; start it again and repeat the fit."
                    )
                for future in done:
                    name = waiting.pop(future)
                    yield self._result(future, name)
        finally:
            for future in waiting:
                _quietly(future.cancel)

    def _submitted(self, work: Work, part: Part, key: str, task: str) -> Any:
        if isinstance(part, DaskPart):
            return self._submit(task, _of_frame, work, part.delayed, part.empty, part.place, key)
        if isinstance(part, ClusterBucket):
            return self._submit(task, _of_bucket, work, part.future, part.place, key)
        return self._submit(task, _of_part, work, part, key)

    def _submit(self, task: str, function: Any, *arguments: Any) -> Any:
        """One task under a name of its own; a client whose scheduler is gone refuses to send it."""
        try:
            given = [self._client.compute(one) if _is_delayed(one) else one for one in arguments]
            return self._client.submit(function, *given, key=task, pure=False)
        except Exception as error:
            raise _gone(error) from None

    @staticmethod
    def _done(futures: list[Any]) -> list[Any]:
        """Those that have come to an end, after a moment's wait where none has: a future hears of itself."""
        # An answer is lost where its worker dies before it was fetched; the scheduler has it computed again.
        done = [future for future in futures if future.status not in ("pending", "lost")]
        if not done:
            time.sleep(_LOOK_EVERY)
        return done

    def _alive(self) -> bool:
        try:
            return self._client.status == "running" and bool(self._client.scheduler_info(n_workers=-1)["workers"])
        except Exception:
            return False

    def _result(self, future: Any, name: str) -> PartAnswer:
        if future.status == "finished":
            try:
                return PartAnswer(*future.result(timeout=self._patience))
            except Exception as error:
                raise _gone(error) from None
        error = future.exception(timeout=self._patience) if future.status == "error" else None
        if isinstance(error, InputError):
            raise InputError(str(error)) from None
        kind = "cancelled task" if error is None else type(error).__name__
        raise InputError(
            f"Expected an answer from {name}, got a {kind} on the Dask cluster; look at its workers and repeat the fit."
        )

    def arranged(self, parts: Sequence[Part], spread: Spread | None) -> list[Part]:
        """Units are brought together in the memory of the workers."""
        if spread is None:
            return list(parts)
        run = f"sordino-units-{uuid4().hex[:12]}"
        divided = [self._submit(f"{run}-part-{place}", _divided, spread, part) for place, part in enumerate(parts)]
        buckets = []
        for bucket in range(spread.buckets):
            pieces = [self._submit(f"{run}-{place}-{bucket}", _piece, one, bucket) for place, one in enumerate(divided)]
            buckets.append(self._submit(f"{run}-bucket-{bucket}", _bucket, pieces))
        self._kept = buckets
        return [ClusterBucket(place, spread.columns, future) for place, future in enumerate(buckets)]

    def close(self) -> None:
        for future in self._kept:
            _quietly(future.release)
        for owned in self._own:
            _quietly(owned.close)


def _divided(spread: Spread, part: Part) -> list[list[Columns]]:
    """For each bucket the pieces of a part's tables."""
    found: list[list[Columns]] = [[] for _ in range(spread.buckets)]
    for table in part.tables(spread.columns):
        for bucket, piece in zip(found, spread.divided(table), strict=True):
            bucket.append(piece)
    return found


def _piece(divided: list[list[Columns]], bucket: int) -> list[Columns]:
    return divided[bucket]


def _bucket(pieces: list[list[Columns]]) -> list[Columns]:
    return [one for piece in pieces for one in piece]


@dataclass(frozen=True, eq=False)
class ClusterBucket(UnitBucket):
    """A bucket in the memory of the workers, or, on a worker, in its own."""

    future: Any

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        for piece in self.future:
            yield Table({name: piece[name] for name in columns})


def _of_part(work: Work, part: Part, key: str) -> PartAnswer:
    keep_memory()
    return work.answer(part, key)


def _of_bucket(work: Work, rows: list[Columns], place: int, key: str) -> PartAnswer:
    return _of_part(work, ClusterBucket(place, work.columns, rows), key)


def _of_frame(work: Work, frame: Any, empty: Any, place: int, key: str) -> PartAnswer:
    return _of_part(work, DaskPart(frame, empty, place), key)


def _is_delayed(given: Any) -> bool:
    return type(given).__module__.startswith("dask.delayed")


def _gone(error: Exception) -> InputError:
    return InputError(
        f"Expected a Dask scheduler that answers, got a {type(error).__name__}; start the cluster again and repeat the "
        "fit."
    )


def _quietly(act: Any) -> None:
    try:
        act()
    except Exception:  # the cluster may be gone
        return


def _connected(address: str) -> Engine:
    """``tls://HOST:PORT``, with the certificates of Dask's own configuration, or ``dask://HOST:PORT`` without TLS."""
    scheme, _, place = address.partition("://")
    if ":" not in place:
        raise InputError(
            f"Expected the address of a Dask scheduler as tls://HOST:PORT or dask://HOST:PORT, got {address!r}; on one "
            "machine use the engine 'streamed'."
        )
    distributed = needed("distributed", "cluster")
    try:
        transport = "tls" if scheme == "tls" else "tcp"
        client = distributed.Client(f"{transport}://{place}", timeout=_CONNECT, set_as_default=False)
    except Exception as error:
        raise InputError(
            f"Expected a Dask scheduler at {address!r}, got none that answers ({type(error).__name__}); check the "
            "address, and for tls:// the certificates in Dask's configuration."
        ) from None
    return DaskCluster(client, own=(client,))


register_engine("dask", _connected)
register_engine("tls", _connected)
