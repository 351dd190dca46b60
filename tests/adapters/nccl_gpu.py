# SPDX-License-Identifier: BSD-3-Clause
"""A rank of NCCL itself, on a GPU: where NCCL is, its functions, and collectives whose results are
known to the bit.

    nccl_gpu.py ROLE RANK RANKS DIRECTORY [SIZES]

The ranks find each other by a file in DIRECTORY. What a rank has seen is a line of JSON.
"""
import ctypes
import ctypes.util
import importlib.util
import json
import os
import pathlib
import sys
import time

try:
    import numpy
except ImportError:  # why_not() says so
    numpy = None

SUCCESS, REMOTE_ERROR, IN_PROGRESS = 0, 6, 7
SUM = 0
POISON = 0xEE
GUARD = 64  # bytes behind each result that the collective must not write
# Type to its number in NCCL, its width, and the bits of each value: small integers where a sum has
# to be exact in the type.
TYPES = {"int32": (2, 4, 32), "float32": (7, 4, 12), "bfloat16": (9, 2, 3)}


def library():
    """Path of libnccl: WEFT_NCCL_LIBRARY, that of the Python package of NVIDIA, or the system's."""
    if given := os.environ.get("WEFT_NCCL_LIBRARY"):
        return given
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations if package else ():
        for found in pathlib.Path(folder).glob("nccl/lib/libnccl.so.2"):
            return str(found)
    return ctypes.util.find_library("nccl")


def why_not():
    """Why NCCL cannot run here, or None."""
    if numpy is None:
        return "no numpy"
    if library() is None:
        return "no libnccl.so.2 (WEFT_NCCL_LIBRARY names one)"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver"
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or count.value == 0:
        return "no GPU"
    return None


def pattern(rank, count, kind):
    """What `rank` contributes, as the bytes of `count` values."""
    _, _, bits = TYPES[kind]
    value = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(2654435761)
    value += numpy.uint32((rank + 1) * 0x9E3779 % 2**32)
    value >>= numpy.uint32(32 - bits)
    return value


def encode(value, kind):
    """The bytes of these integers in the type."""
    if kind == "int32":
        return value
    value = value.astype(numpy.float32)
    return value if kind == "float32" else (value.view(numpy.uint32) >> 16).astype(numpy.uint16)


class Gpu:
    """Memory and a stream of the first GPU, by the driver's interface."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        device, context, self.stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 0)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        self.name = name.value.decode()

    def call(self, function, *arguments):
        code = getattr(self.driver, function)(*arguments)
        if code:
            raise RuntimeError(f"{function}() returns {code}")

    def allocate(self, size):
        at = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(max(size, 1)))
        return at

    def free(self, at):
        self.call("cuMemFree_v2", at)

    def write(self, at, data):
        if data.nbytes:
            self.call("cuMemcpyHtoD_v2", at, ctypes.c_void_p(data.ctypes.data),
                      ctypes.c_size_t(data.nbytes))

    def read(self, at, size):
        data = numpy.empty(size, numpy.uint8)
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(data.ctypes.data), at, ctypes.c_size_t(size))
        return data

    def poison(self, at, size):
        self.call("cuMemsetD8_v2", at, ctypes.c_ubyte(POISON), ctypes.c_size_t(size))

    def is_idle(self):
        """Whether all of the stream is done."""
        return self.driver.cuStreamQuery(self.stream) == 0


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


class Nccl:
    """A communicator over all ranks."""

    def __init__(self, rank, ranks, directory):
        self.rank, self.ranks = rank, ranks
        self.gpu = Gpu()
        self.api = ctypes.CDLL(library())
        self.api.ncclGetLastError.restype = ctypes.c_char_p
        number = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(number))
        self.version = f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"
        self.comm = ctypes.c_void_p()
        self.call("ncclCommInitRank", ctypes.byref(self.comm), ctypes.c_int(ranks),
                  self.unique_id(directory / "unique-id"), ctypes.c_int(rank))

    def unique_id(self, path):
        """Made by rank 0."""
        made = UniqueId()
        if self.rank == 0:
            self.call("ncclGetUniqueId", ctypes.byref(made))
            path.with_suffix(".new").write_bytes(bytes(made))
            path.with_suffix(".new").rename(path)
        while not path.exists():
            time.sleep(0.01)
        return UniqueId.from_buffer_copy(path.read_bytes())

    def call(self, function, *arguments):
        code = getattr(self.api, function)(*arguments)
        if code not in (SUCCESS, IN_PROGRESS):
            raise RuntimeError(f"{function}() returns {code}: {self.last_error()}")

    def last_error(self):
        return (self.api.ncclGetLastError(None) or b"").decode(errors="replace")

    def enqueue(self, function, *arguments):
        """A collective on the stream; sizes are counts."""
        wide = [ctypes.c_size_t(each) if isinstance(each, int) else each for each in arguments]
        self.call(function, *wide, self.comm, self.gpu.stream)

    def sticky_error(self):
        """The error that a thread of NCCL has found, 0 if none."""
        code = ctypes.c_int()
        self.call("ncclCommGetAsyncError", self.comm, ctypes.byref(code))
        return 0 if code.value == IN_PROGRESS else code.value

    def wait(self, limit_s=120):
        end = time.monotonic() + limit_s
        while not self.gpu.is_idle():
            if code := self.sticky_error():
                raise RuntimeError(f"asynchronous error {code}: {self.last_error()}")
            if time.monotonic() > end:
                raise RuntimeError(f"a collective is not done after {limit_s} s")


class Checked:
    """Each collective with one count of one type, beside its result."""

    def __init__(self, nccl, kind, size):
        self.nccl, self.kind = nccl, kind
        self.number, self.width, _ = TYPES[kind]
        self.count = max(1, size // self.width)
        self.number = ctypes.c_int(self.number)

    def inputs(self, count):
        """What each rank contributes."""
        return [pattern(each, count, self.kind) for each in range(self.nccl.ranks)]

    def total(self, count):
        inputs = self.inputs(count)
        made = inputs[0].copy()
        for each in inputs[1:]:
            made += each  # modulo 2^32, as of int32; the sums of the others are small
        return made

    def run(self, name, mine, expected, enqueue):
        """Whether the collective turns `mine` into `expected` and writes nothing behind."""
        gpu = self.nccl.gpu
        mine, expected = encode(mine, self.kind), encode(expected, self.kind)
        expected = expected.view(numpy.uint8)
        source, target = gpu.allocate(mine.nbytes), gpu.allocate(expected.nbytes + GUARD)
        gpu.write(source, mine)
        gpu.poison(target, expected.nbytes + GUARD)
        enqueue(source, target)
        self.nccl.wait()
        got = gpu.read(target, expected.nbytes + GUARD)
        gpu.free(source)
        gpu.free(target)
        wrong = int(numpy.count_nonzero(got[:expected.nbytes] != expected))
        wrong += int(numpy.count_nonzero(got[expected.nbytes:] != POISON))
        return wrong and f"{name} of {self.count} {self.kind}: {wrong} bytes are wrong"

    def all_reduce(self):
        return self.run("all-reduce", self.inputs(self.count)[self.nccl.rank],
                        self.total(self.count), lambda source, target: self.nccl.enqueue(
                            "ncclAllReduce", source, target, self.count, self.number,
                            ctypes.c_int(SUM)))

    def reduce(self):
        root = self.nccl.ranks - 1
        mine = self.inputs(self.count)[self.nccl.rank]
        untouched = numpy.empty(0, numpy.uint32)
        return self.run("reduce", mine,
                        self.total(self.count) if self.nccl.rank == root else untouched,
                        lambda source, target: self.nccl.enqueue(
                            "ncclReduce", source, target, self.count, self.number,
                            ctypes.c_int(SUM), ctypes.c_int(root)))

    def broadcast(self):
        root = self.nccl.ranks // 2
        inputs = self.inputs(self.count)
        return self.run("broadcast", inputs[self.nccl.rank], inputs[root],
                        lambda source, target: self.nccl.enqueue(
                            "ncclBroadcast", source, target, self.count, self.number,
                            ctypes.c_int(root)))

    def all_gather(self):
        inputs = self.inputs(self.count)
        return self.run("all-gather", inputs[self.nccl.rank], numpy.concatenate(inputs),
                        lambda source, target: self.nccl.enqueue(
                            "ncclAllGather", source, target, self.count, self.number))

    def reduce_scatter(self):
        all_of_it = self.count * self.nccl.ranks
        mine = slice(self.nccl.rank * self.count, (self.nccl.rank + 1) * self.count)
        return self.run("reduce-scatter", self.inputs(all_of_it)[self.nccl.rank],
                        self.total(all_of_it)[mine],
                        lambda source, target: self.nccl.enqueue(
                            "ncclReduceScatter", source, target, self.count, self.number,
                            ctypes.c_int(SUM)))

    def all_to_all(self):
        """Grouped sends and receives; those of a rank with itself, too."""
        ranks, rank, step = self.nccl.ranks, self.nccl.rank, self.count * self.width
        inputs = self.inputs(self.count * ranks)
        mine = slice(rank * self.count, (rank + 1) * self.count)

        def enqueue(source, target):
            self.nccl.call("ncclGroupStart")
            for peer in range(ranks):
                for function, base in (("ncclSend", source), ("ncclRecv", target)):
                    self.nccl.enqueue(function, ctypes.c_uint64(base.value + peer * step),
                                      self.count, self.number, ctypes.c_int(peer))
            self.nccl.call("ncclGroupEnd")

        return self.run("all-to-all", inputs[rank],
                        numpy.concatenate([each[mine] for each in inputs]), enqueue)

    def all(self):
        return [each() for each in (self.all_reduce, self.reduce, self.broadcast, self.all_gather,
                                    self.reduce_scatter, self.all_to_all)]


def collectives(nccl, sizes):
    """Every collective of every type and size."""
    verdicts = [verdict for size in sizes for kind in TYPES
                for verdict in Checked(nccl, kind, size).all()]
    nccl.call("ncclCommDestroy", nccl.comm)
    return {"checked": len(verdicts), "wrong": [each for each in verdicts if each]}


def survivor(nccl, sizes):
    """All-reduces until the peer is dead; when and how NCCL says so."""
    size = sizes[0]
    at = nccl.gpu.allocate(size)
    done = 0
    end = time.monotonic() + 60
    print("ready", flush=True)
    while not (code := nccl.sticky_error()) and time.monotonic() < end:
        if nccl.gpu.is_idle():
            done += 1
            nccl.enqueue("ncclAllReduce", at, at, size // 4, ctypes.c_int(7), ctypes.c_int(SUM))
    seen = time.monotonic()
    print(json.dumps({"code": code, "seen_at": seen, "error": nccl.last_error(), "done": done}),
          flush=True)
    nccl.call("ncclCommAbort", nccl.comm)
    return {"abort_s": time.monotonic() - seen}


def main():
    role, rank, ranks, directory = sys.argv[1:5]
    nccl = Nccl(int(rank), int(ranks), pathlib.Path(directory))
    said = {"collectives": collectives, "survivor": survivor}[role](
        nccl, [int(each) for each in sys.argv[5:]])
    print(json.dumps({**said, "nccl": nccl.version, "gpu": nccl.gpu.name}), flush=True)


if __name__ == "__main__":
    main()
