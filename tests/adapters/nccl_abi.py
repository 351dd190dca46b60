# SPDX-License-Identifier: BSD-3-Clause
"""The plug-in's table of version 8 for Python: one process with its log and the functions as
methods. Pointers are integers, 0 for none."""
import ctypes
import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_ulong, c_void_p

SUCCESS, SYSTEM, INTERNAL, USAGE, REMOTE = 0, 2, 3, 5, 6
HOST, CUDA = 1, 2
P, PP, I = c_void_p, ctypes.POINTER(c_void_p), c_int
# Of a variadic function: the plug-in passes one string behind the format.
LOGGER = ctypes.CFUNCTYPE(None, c_int, c_ulong, c_char_p, c_int, c_char_p, c_char_p)
FORMS = (
    ("init", (LOGGER,)), ("devices", (PP,)), ("properties", (I, P)), ("listen", (I, P, PP)),
    ("connect", (I, P, PP, PP)), ("accept", (P, PP, PP)),
    ("register", (P, P, c_size_t, I, PP)),
    ("register_dmabuf", (P, P, c_size_t, I, ctypes.c_uint64, I, PP)), ("deregister", (P, P)),
    ("isend", (P, P, I, I, P, PP)), ("irecv", (P, I, PP, P, P, PP, PP)),
    ("iflush", (P, I, PP, P, PP, PP)), ("test", (P, P, P)), ("close_send", (P,)),
    ("close_receive", (P,)), ("close_listen", (P,)))


class Table(ctypes.Structure):
    _fields_ = [("name", c_char_p),
                *((name, ctypes.CFUNCTYPE(c_int, *types)) for name, types in FORMS)]


class StartOfV10(ctypes.Structure):
    """Up to connect(), which has a traffic class there."""
    _fields_ = [("name", c_char_p), *((name, c_void_p) for name in (
        "init", "devices", "properties", "listen")),
        ("connect", ctypes.CFUNCTYPE(c_int, I, P, P, PP, PP))]


class Net:
    def __init__(self, library):
        loaded = ctypes.CDLL(str(library))
        self.handle = loaded._handle
        self.table = Table.in_dll(loaded, "ncclNetPlugin_v8")
        self.v10 = StartOfV10.in_dll(loaded, "ncclNetPlugin_v10")
        self.log = []
        self.logger = LOGGER(lambda level, _, file, line, format, text:
                             self.log.append((level, text.decode())))

    def init(self):
        return self.table.init(self.logger)

    def warnings(self):
        return [text for level, text in self.log if level == 2]

    def listen(self, device=0):
        """(result, listener, handle)."""
        handle, comm = ctypes.create_string_buffer(128), c_void_p()
        return self.table.listen(device, handle, byref(comm)), comm.value, handle

    def connect(self, handle, device=0, traffic_class=None):
        comm = c_void_p()
        if traffic_class is not None:
            return self.v10.connect(device, byref(c_int(traffic_class)), handle, byref(comm),
                                    None), comm.value
        return self.table.connect(device, handle, byref(comm), None), comm.value

    def accept(self, listener):
        comm = c_void_p()
        return self.table.accept(listener, byref(comm), None), comm.value

    def pair(self, traffic_class=None):
        """Both ends of a connection of this process with itself."""
        result, listener, handle = self.listen()
        assert result == SUCCESS, self.log
        send = receive = None
        deadline = time.monotonic() + 20
        while (send is None or receive is None) and time.monotonic() < deadline:
            if send is None:
                result, send = self.connect(handle, traffic_class=traffic_class)
                assert result == SUCCESS, self.log
            if receive is None:
                result, receive = self.accept(listener)
                assert result == SUCCESS, self.log
        self.table.close_listen(listener)
        return send, receive

    def register(self, comm, buffer, kind=HOST):
        memory = c_void_p()
        return self.table.register(comm, ctypes.addressof(buffer), len(buffer), kind,
                                   byref(memory)), memory.value

    def isend(self, comm, buffer, size, memory, tag=1):
        request = c_void_p()
        return self.table.isend(comm, ctypes.addressof(buffer), size, tag, memory,
                                byref(request)), request.value

    def irecv(self, comm, buffer, size, memory, tag=1):
        data, memories = c_void_p(ctypes.addressof(buffer)), c_void_p(memory)
        sizes, tags, request = c_int(size), c_int(tag), c_void_p()
        return self.table.irecv(comm, 1, byref(data), byref(sizes), byref(tags), byref(memories),
                                byref(request)), request.value

    def test(self, request):
        done, sizes = c_int(), (c_int * 8)()
        return self.table.test(request, byref(done), sizes), done.value, sizes[0]

    def repeat(self, call, until, limit_s=20):
        """The result of call() for which until() holds."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            said = call()
            if until(said):
                return said
        raise TimeoutError(f"{said}, log: {self.log}")
