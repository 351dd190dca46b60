# SPDX-License-Identifier: BSD-3-Clause
"""weft in Python: RDMA in user space, over the C API of libweft.so.

    device = weft.Device("roce+udp:lo")
    cq = device.completion_queue()
    pd = device.protection_domain()
    region = pd.register(bytearray(4096))
    qp = pd.queue_pair(cq)
    peer = weft.connect("127.0.0.1:18515", qp)
    qp.post_send(region[:5])
    cq.wait()[0].check()

docs/python.md is the tutorial. What can fail raises weft.Error, or the subclass of its code
(weft.NotFound, weft.TimedOut ...), with a text that says what to do. Objects are freed by close(),
a `with` or their last reference, in any order. Any thread may use any object.
"""
from weft._library import (EXCEPTIONS, Access, Code, CompletionError, Element, Error, EventType,
                           QpState, QpType, Status, WorkType)
from weft.address import Destination
from weft.completion import Completion, CompletionQueue
from weft.connection import Connection, Listener, connect, connect_async
from weft.device import Device, Event, Listing, list_devices, version
from weft.memory import MemoryRegion, Piece, ProtectionDomain
from weft.queue_pair import QueuePair

globals().update({kind.__name__: kind for kind in EXCEPTIONS.values()})
__version__ = version()
__all__ = ["Access", "Code", "Completion", "CompletionError", "CompletionQueue", "Connection",
           "Destination", "Device", "Element", "Error", "Event", "EventType", "Listener", "Listing",
           "MemoryRegion", "Piece", "ProtectionDomain", "QpState", "QpType", "QueuePair", "Status",
           "WorkType", "connect", "connect_async", "list_devices", "version",
           *(kind.__name__ for kind in EXCEPTIONS.values())]
