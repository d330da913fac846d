"""The process that runs a user's callable: stands alone, so that any interpreter can run it (Python 3.8 and later).

It is started as a script, with the interpreter of the environment the callable lives in; nothing of Sordino is imported
there. A request is a line of JSON with tables, and every table is answered by a line of JSON, on what was standard
output when the process started: whatever the callable prints goes to standard error instead.
"""

import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys

MOST_LEAVES, MOST_DEPTH = 4096, 20


# The counterexample script quotes from here to the end of `nature`.
class NoData(Exception):
    """An output that holds something else than numbers, texts and collections of them."""


def encode(value):
    """A value as its shape (types, lengths, keys), its numbers and its texts, in the order of the value."""
    numbers, texts = [], []
    shape = _walk(value, numbers, texts, 0)
    return [shape, numbers, texts]


def _walk(value, numbers, texts, depth):
    if len(numbers) + len(texts) > MOST_LEAVES or depth > MOST_DEPTH:
        raise NoData(f"more than {MOST_LEAVES} numbers and texts, or more than {MOST_DEPTH} levels")
    kind = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 2**53):
        numbers.append(float(value))
        return kind
    if isinstance(value, int):
        texts.append(str(value))
        return "int"
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
    if hasattr(value, "__float__"):
        numbers.append(float(value))
        texts.append(str(value))
        return kind
    raise NoData(f"an object of type {kind}")


def outcome(callable_, table):
    """What a call gives: its value, or the exception it ends with, encoded; the callable gets a copy of the table."""
    try:
        value = callable_([list(row) if isinstance(row, (list, tuple)) else row for row in table])
    except NoData:
        raise
    except BaseException as error:  # an exception is an output like any other, whatever its kind
        message = str(error).split("\n")[0][:200]
        return [f"raised {type(error).__name__}: {message}", [], []]
    return encode(value)


def resolve(target):
    """The callable of ["module", name, attribute], ["file", path, attribute] or ["program", path, ""]."""
    place, where, attribute = target
    if place == "program":
        return lambda table: _run_program(where, table)
    if place == "file":
        name = os.path.splitext(os.path.basename(where))[0]
        sys.path.append(os.path.dirname(os.path.abspath(where)))
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


def _run_program(path, table):
    """Start a program that reads a line of JSON, the table, and answers with one."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    line = json.dumps(table) + "\n"
    done = subprocess.run([path], input=line, env=own, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}")
    try:
        return json.loads(done.stdout.splitlines()[0])
    except (IndexError, ValueError):
        raise NoData("something else than one line of JSON") from None


def lowest_bit(x):
    """The exponent of the lowest bit that is set: -1 for 0.5 and 1.5, -52 for 1 + 2^-52; 2000 for zero."""
    return 2000.0 if x == 0 else math.frexp(x)[1] - 53 + trailing_zeros(x)


def trailing_zeros(x):
    """How many of the 53 digits of a float are zero at its end."""
    if not math.isfinite(x):
        return math.nan
    whole = int(abs(math.frexp(x)[0]) * 2**53)
    return 53.0 if x == 0 else math.log2(whole & -whole)


def atoms(numbers, known):
    """Which numbers are one of the known ones."""
    return "".join(str(known.index(x)) if x in known else "." for x in numbers)


def nature(numbers):
    """Which numbers are NaN, infinite or zero."""
    return "".join("n" if math.isnan(x) else "i" if math.isinf(x) else "0" if x == 0 else "." for x in numbers)


# End of what the script quotes.


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


def serve(requests, answer):
    """Answer requests until the input ends: first the target, then tables."""
    first = json.loads(next(requests))
    # Behind the standard library: a random.py in the working folder, or beside the callable, is not Python's.
    sys.path += [place for place in first["path"] if place not in sys.path]
    try:
        callable_ = resolve(first["target"])
    except BaseException as error:
        message = " ".join(str(error).split())[:300]
        return answer({"refused": f"{type(error).__name__}: {message}"})
    answer({"claim": declared(first["target"])})
    for line in requests:
        for table in json.loads(line):
            try:
                answer(outcome(callable_, table))
            except NoData as error:
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
