# SPDX-License-Identifier: BSD-3-Clause
"""Completion queues: polled, waited for, or in an event loop of asyncio."""
import asyncio
from typing import NamedTuple

from weft._library import (EXCEPTIONS, Code, CompletionError, Handle, Status, WorkType, check,
                           created, ffi, lib, structure)

MOST = 32  # completions of a call


class Completion(NamedTuple):
    """How a request ended; the members are those of weft_completion (weft_types.h)."""
    id: int
    status: Status
    type: WorkType
    byte_count: int
    imm_or_key: int
    imm_high: int
    qp_number: int
    source_qpn: int
    source_peer: int
    flags: int
    vendor_error: int

    def check(self):
        """Itself if it is a success, otherwise raises CompletionError."""
        if self.status != Status.SUCCESS:
            raise CompletionError(self)
        return self


def completion_of(it):
    return Completion(it.id, Status(it.status), WorkType(it.type), it.byte_count, it.imm_or_key,
                      it.imm_high, it.qp_number, it.source_qpn, it.source_peer, it.flags,
                      it.vendor_error)


async def ready(descriptor, write=False):
    """Waits in the running event loop until a descriptor is readable, or writable."""
    loop = asyncio.get_running_loop()
    add, remove = ((loop.add_writer, loop.remove_writer) if write else
                   (loop.add_reader, loop.remove_reader))
    reached = loop.create_future()
    add(descriptor, lambda: reached.done() or reached.set_result(None))
    try:
        await reached
    finally:
        remove(descriptor)


class CompletionQueue(Handle):
    """A completion queue. `async for completion in cq` waits in an event loop; one task may do so
    at a time."""

    def __init__(self, device, capacity, engine):
        self._handle = created(lib.weft_cq_create, lib.weft_cq_destroy, device._handle,
                               structure("weft_cq_options", capacity=capacity, engine=engine))

    def poll(self, most=MOST):
        """A list of up to `most` completions, oldest first. Never blocks."""
        found = ffi.new("weft_completion[]", most)
        return [completion_of(found[i]) for i in range(lib.weft_cq_poll(self._handle, found, most))]

    def wait(self, timeout=None, most=MOST):
        """As poll(), but waits until there is one. Raises TimedOut after `timeout` seconds. Ctrl-C
        is seen between waits of a fifth of a second."""
        found = ffi.new("weft_completion[]", most)
        left_ms = None if timeout is None else max(int(timeout * 1000), 0)
        while True:
            step = 200 if left_ms is None else min(left_ms, 200)
            count = lib.weft_cq_wait(self._handle, found, most, step)
            if count:
                return [completion_of(found[i]) for i in range(count)]
            if left_ms is not None:
                left_ms -= step
                if left_ms <= 0:
                    raise EXCEPTIONS[Code.TIMED_OUT](f"no completion came within {timeout} s")

    async def next(self, most=MOST):
        """As wait(), in an event loop."""
        while True:
            found = self.poll(most)
            if found:
                return found
            lib.weft_cq_arm(self._handle, False)
            found = self.poll(most)
            if found:
                return found
            await ready(self.fileno())
            lib.weft_cq_acknowledge(self._handle)

    async def __aiter__(self):
        while True:
            for completion in await self.next():
                yield completion

    def arm(self, solicited_only=False):
        """The next completion makes fileno() readable, once."""
        lib.weft_cq_arm(self._handle, solicited_only)

    def acknowledge(self):
        """Clears fileno()."""
        lib.weft_cq_acknowledge(self._handle)

    def fileno(self):
        """The completion channel's descriptor, for select and event loops."""
        return lib.weft_cq_fd(self._handle)

    @property
    def capacity(self):
        """Entries that it can hold."""
        return lib.weft_cq_capacity(self._handle)

    def resize(self, capacity):
        """Changes the capacity."""
        check(lib.weft_cq_resize(self._handle, capacity))
