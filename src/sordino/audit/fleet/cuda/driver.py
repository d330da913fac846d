"""Compile a CUDA source at run time and launch it on JAX arrays, with the libraries that JAX for CUDA brings along."""

import ctypes
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from jax import Array

from sordino.audit.fleet.device import Device
from sordino.core.errors import SordinoError

_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_VERSIONS = (13, 12)


class CudaError(SordinoError):
    """A call of the CUDA driver or compiler failed."""


def available() -> bool:
    """Whether there are a driver and a run-time compiler."""
    try:
        _driver()
        _compiler()
    except CudaError:
        return False
    return True


def compiled(source: Path, architecture: str, defined: Mapping[str, str] | None = None) -> bytes:
    """Machine code, for an architecture such as sm_90, of a source and the headers (.cuh) beside it.

    `defined` holds macros that the source is compiled with.
    """
    library, program = _compiler(), ctypes.c_void_p()
    headers = sorted(source.parent.glob("*.cuh"))
    texts = (ctypes.c_char_p * len(headers))(*(header.read_bytes() for header in headers))
    names = (ctypes.c_char_p * len(headers))(*(header.name.encode() for header in headers))
    given = (source.read_bytes(), source.name.encode(), len(headers), texts, names)
    _call(library.nvrtcCreateProgram(ctypes.byref(program), *given), "the program")
    macros = [f"-D{name}={value}".encode() for name, value in (defined or {}).items()]
    flags = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17", *macros]
    status = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    if status:
        length = ctypes.c_size_t()
        library.nvrtcGetProgramLogSize(program, ctypes.byref(length))
        log = ctypes.create_string_buffer(length.value)
        library.nvrtcGetProgramLog(program, log)
        raise CudaError(f"the CUDA kernel did not compile: {log.value.decode(errors='replace')}")
    size = ctypes.c_size_t()
    _call(library.nvrtcGetCUBINSize(program, ctypes.byref(size)), "the size of the machine code")
    code = ctypes.create_string_buffer(size.value)
    _call(library.nvrtcGetCUBIN(program, code), "the machine code")
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw


class Kernel:
    """A function of compiled machine code, loaded on one device."""

    def __init__(self, code: bytes, name: str, device: Device, shared_bytes: int) -> None:
        self._shared_bytes = shared_bytes
        driver, ordinal = _driver(), ctypes.c_int()
        _call(driver.cuDeviceGet(ctypes.byref(ordinal), device.local_hardware_id), "the device")
        self._context = ctypes.c_void_p()
        # JAX uses the device's primary context, so its addresses are valid here.
        _call(driver.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), ordinal), "the context")
        self._enter()
        module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
        _call(driver.cuModuleLoadData(ctypes.byref(module), code), "the module")
        _call(driver.cuModuleGetFunction(ctypes.byref(self._function), module, name.encode()), "the function")
        _call(driver.cuFuncSetAttribute(self._function, _SHARED_MEMORY, shared_bytes), "shared memory")

    def launch(self, blocks: int, threads: int, arguments: Sequence[Array | ctypes._SimpleCData]) -> None:
        """Start the function; arrays have to be ready, to live on this device, and to stay alive until `wait`."""
        self._enter()
        values = [
            ctypes.c_void_p(given.unsafe_buffer_pointer()) if isinstance(given, Array) else given for given in arguments
        ]
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        grid = (blocks, 1, 1, threads, 1, 1, self._shared_bytes)
        _call(_driver().cuLaunchKernel(self._function, *grid, None, places, None), "the launch")

    def wait(self) -> None:
        """Return when all that was launched is done."""
        self._enter()
        _call(_driver().cuCtxSynchronize(), "the kernel")

    def _enter(self) -> None:
        _call(_driver().cuCtxSetCurrent(self._context), "the context")


@cache
def _driver() -> ctypes.CDLL:
    library = _first_library(["libcuda.so.1"], "the CUDA driver")
    _call(library.cuInit(0), "the driver")
    return library


@cache
def _compiler() -> ctypes.CDLL:
    return _first_library(list(_compiler_names()), "the CUDA run-time compiler (NVRTC)")


def _compiler_names() -> Iterator[str]:
    yield from (f"libnvrtc.so.{version}" for version in _VERSIONS)
    found = importlib.util.find_spec("nvidia")
    folders = [Path(place) for place in (found.submodule_search_locations or [])] if found else []
    for folder in (*folders, *sorted(Path("/usr/local").glob("cuda*/lib64"))):
        yield from (str(path) for version in _VERSIONS for path in sorted(folder.rglob(f"libnvrtc.so.{version}")))


def _first_library(names: Sequence[str], what: str) -> ctypes.CDLL:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise CudaError(f"{what} was not found")


def _call(status: int, what: str) -> None:
    if status:
        raise CudaError(f"CUDA failed at {what}, with status {status}")
