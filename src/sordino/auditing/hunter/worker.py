"""The process that runs a user's callable: stands alone, so that any interpreter can run it (Python 3.8 and later).

It is started as a script, with the interpreter of the environment the callable lives in; nothing of Sordino is imported
there. Requests are lines of JSON on standard input, answers lines of JSON on what was standard output when it started:
whatever the callable prints goes to standard error instead. A table reaches the callable as a copy of its own, so that
a callable that changes its argument does not change the next call's.
"""

import importlib
import importlib.util
import json
import math
import os
import sys

MOST_LEAVES, MOST_DEPTH = 4096, 20


# The counterexample script quotes from here to the end of `outcome`.
def encode(value):
    """A value as its shape (types, lengths, keys), its numbers and its texts, in the order of the value."""
    numbers, texts = [], []
    shape = _walk(value, numbers, texts, 0)
    return [shape, numbers, texts]


def _walk(value, numbers, texts, depth):
    if len(numbers) + len(texts) > MOST_LEAVES or depth > MOST_DEPTH:
        raise TypeError(f"more than {MOST_LEAVES} numbers and texts, or more than {MOST_DEPTH} levels")
    kind = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, bool):
        numbers.append(float(value))
        return "bool"
    if isinstance(value, int):
        if abs(value) < 2**53:
            numbers.append(float(value))
        else:
            texts.append(str(value))
        return "int"
    if isinstance(value, float):
        numbers.append(float(value))
        return kind
    if isinstance(value, complex):
        numbers.extend([value.real, value.imag])
        return kind
    if isinstance(value, (str, bytes)):
        texts.append(value if isinstance(value, str) else value.hex())
        return kind
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: repr(item[0]))
        inside = [f"{key!r}: {_walk(part, numbers, texts, depth + 1)}" for key, part in items]
        return "{}{{{}}}".format(kind, ", ".join(inside))
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        inside = [_walk(part, numbers, texts, depth + 1) for part in parts]
        alike = inside[:1] if len(set(inside)) == 1 else inside
        return f"{kind}[{len(inside)}]({', '.join(alike)})"
    return _foreign(value, kind, numbers, texts, depth)


def _foreign(value, kind, numbers, texts, depth):
    """Arrays, tensors, data frames and data classes of any library, by what they can do."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return kind + _walk({str(name): list(value[name]) for name in value.columns}, numbers, texts, depth + 1)
    if hasattr(value, "__array__") or hasattr(value, "dtype"):
        import numpy  # noqa: ICN001, PLC0415 - only where outputs are arrays

        array = numpy.asarray(value)
        if array.dtype.kind in "biufc" and array.size <= MOST_LEAVES:
            flat = array.ravel()
            if array.dtype.kind == "c":
                flat = numpy.column_stack([numpy.real(flat), numpy.imag(flat)]).ravel()
            numbers.extend(float(number) for number in flat)
            return f"array<{array.dtype}>{list(array.shape)}"
        if array.dtype.kind in "USO":
            return "array" + _walk(array.tolist(), numbers, texts, depth + 1)
    if hasattr(value, "__dataclass_fields__"):
        fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
        return kind + _walk(fields, numbers, texts, depth + 1)
    if hasattr(value, "as_integer_ratio"):
        numbers.append(float(value))
        texts.append(str(value))
        return kind
    raise TypeError(f"an object of type {kind}")


def outcome(callable_, table):
    """What a call gives: its value, or the exception it ends with, encoded."""
    mine = [list(row) if isinstance(row, list) else row for row in table]
    try:
        value = callable_(mine)
    except BaseException as error:  # an exception is an output like any other, whatever its kind
        message = str(error).split("\n")[0][:200]
        return [f"raised {type(error).__name__}: {message}", [], []]
    return encode(value)


# End of what the script quotes.


def resolve(target):
    """The callable that a target names: ["module", name, attribute] or ["file", path, attribute]."""
    place, where, attribute = target
    if place == "file":
        name = os.path.splitext(os.path.basename(where))[0]
        sys.path.insert(0, os.path.dirname(os.path.abspath(where)))
        spec = importlib.util.spec_from_file_location(name, where)
        if spec is None or spec.loader is None:
            raise ImportError(f"{where} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    value = module
    for part in attribute.split("."):
        value = getattr(value, part)
    if not callable(value):
        raise TypeError(f"{attribute} is no callable")
    return value


def declared(target):
    """What the module itself says that the callable claims, CLAIMS[name]; None where it says nothing."""
    place, where, attribute = target
    module = sys.modules.get(os.path.splitext(os.path.basename(where))[0] if place == "file" else where)
    claims = getattr(module, "CLAIMS", None)
    claim = claims.get(attribute) if isinstance(claims, dict) else None
    try:
        json.dumps(claim)
    except (TypeError, ValueError):
        return None
    return claim


def finite(encoded):
    """NaN and infinities as texts that JSON has; the parent turns them back."""
    shape, numbers, texts = encoded
    return [shape, [number if math.isfinite(number) else str(number) for number in numbers], texts]


def special(value):
    """A table from JSON, with NaN and infinities that travel as {"float": "nan"}."""
    if isinstance(value, list):
        return [special(part) for part in value]
    return float(value["float"]) if isinstance(value, dict) else value


def serve(requests, answer):
    """Answer requests until the input ends: first the target, then tables and calls."""
    first = json.loads(next(requests))
    sys.path[:0] = [place for place in first["path"] if place not in sys.path]
    try:
        callable_ = resolve(first["target"])
    except BaseException as error:
        message = " ".join(str(error).split())[:300]
        return answer({"refused": f"{type(error).__name__}: {message}"})
    answer({"ready": True, "claim": declared(first["target"])})
    tables = {}
    for line in requests:
        request = json.loads(line)
        tables.update({int(name): special(table) for name, table in request.get("tables", {}).items()})
        for name in request.get("calls", ()):
            try:
                answer(finite(outcome(callable_, tables[name])))
            except TypeError as error:
                return answer({"refused": f"its output holds {error}"})
    return None


def main():
    """Give the channel a descriptor of its own before the callable's module can print."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)

    def answer(message):
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    serve(iter(sys.stdin), answer)
    channel.flush()
    os._exit(0)  # threads of the callable's libraries do not keep the process


if __name__ == "__main__":
    main()
