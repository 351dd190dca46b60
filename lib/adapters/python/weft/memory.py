# SPDX-License-Identifier: BSD-3-Clause
"""Protection domains, and regions over the memory of Python objects, which is not copied."""
from typing import NamedTuple

from weft._library import Access, Handle, QpType, created, ffi, lib
from weft.queue_pair import QueuePair


class Piece(NamedTuple):
    """A part of a region, as requests name it: region[a:b]."""
    region: "MemoryRegion"
    address: int
    length: int


class MemoryRegion(Handle):
    """A registered buffer. region[a:b] is a piece of it for requests; len() is in bytes; `view` is
    a memoryview of its bytes. The buffer is held, so a bytearray cannot change its size, until the
    region is closed."""

    def __init__(self, domain, buffer, access):
        needs_writing = access & (Access.LOCAL_WRITE | Access.ON_DEMAND)
        memory = ffi.from_buffer(buffer, require_writable=bool(needs_writing))

        def deregister(handle):  # and only then forgets the memory, in which packets may arrive
            lib.weft_mr_deregister(handle)
            ffi.release(memory)

        self._handle = created(lib.weft_mr_register, deregister, domain._handle,
                               ffi.cast("void *", memory), ffi.sizeof(memory), int(access))
        self.view = memoryview(buffer).cast("B")
        self.address = lib.weft_mr_iova(self._handle)
        self.lkey = lib.weft_mr_lkey(self._handle)
        self.rkey = lib.weft_mr_rkey(self._handle)
        self._size = lib.weft_mr_size(self._handle)

    def close(self):
        """Deregisters; returns when no packet can touch the memory any more."""
        self.view = None
        super().close()

    def __len__(self):
        return self._size

    def __getitem__(self, which):
        if not isinstance(which, slice):
            raise TypeError("a piece of a region is region[begin:end]; its bytes are region.view")
        begin, end, step = which.indices(self._size)
        if step != 1:
            raise ValueError("a piece of a region has no step")
        return Piece(self, self.address + begin, max(end - begin, 0))


class ProtectionDomain(Handle):
    """Queue pairs use regions of their own domain only."""

    def __init__(self, device):
        self.device = device
        self._handle = created(lib.weft_pd_create, lib.weft_pd_destroy, device._handle)

    def register(self, buffer, access=Access.ALL):
        """A region over a contiguous buffer: bytearray, memoryview, array, mmap, numpy array. With
        Access.NONE also over bytes, which requests can only send."""
        return MemoryRegion(self, buffer, access)

    def queue_pair(self, send_cq, recv_cq=None, type=QpType.RC, **sizes):
        """A queue pair in RESET. `sizes`: members of weft_qp_options (weft_types.h)."""
        return QueuePair(self, send_cq, recv_cq or send_cq, type, sizes)
