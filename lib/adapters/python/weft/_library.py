# SPDX-License-Identifier: BSD-3-Clause
"""libweft.so, the declarations of its C API, and errors as exceptions.

Declarations are those of weft.h, weft_types.h and sim.h, which lie beside this file: nothing is
declared twice. Calls release the interpreter's lock.
"""
import enum
import os
import pathlib
import re

import cffi

HERE = pathlib.Path(__file__).resolve().parent
SONAME = "libweft.so.0"


def declarations():
    """The headers without what a preprocessor does."""
    text = "".join((HERE / name).read_text() for name in ("weft_types.h", "weft.h", "sim.h"))
    text = re.sub(r"^#ifdef __cplusplus.*?^#endif", "", text, flags=re.S | re.M)
    return re.sub(r"^#.*$", "", text, flags=re.M)


def library():
    """WEFT_LIBRARY; the library of a wheel, of a build, or of an installation, seen from here; or
    that which the linker finds."""
    named = os.environ.get("WEFT_LIBRARY")
    if named:
        return named
    for folder in (HERE, HERE.parents[1], HERE.parents[2]):
        if (folder / SONAME).exists():
            return str(folder / SONAME)
    return SONAME


ffi = cffi.FFI()
ffi.cdef(declarations())
try:
    lib = ffi.dlopen(library())
except OSError as why:
    raise ImportError(f"{why}: install libweft0, or name the library in WEFT_LIBRARY") from None


def enumeration(name, c_name, prefix, base=enum.IntEnum):
    """An enumeration of the C API without the prefix of its names."""
    members = {member.removeprefix(prefix): value
               for value, member in sorted(ffi.typeof(c_name).elements.items())}
    return base(name, members, module="weft")


Code = enumeration("Code", "weft_code", "WEFT_")
Status = enumeration("Status", "weft_status", "WEFT_")
WorkType = enumeration("WorkType", "weft_work_type", "WEFT_WORK_")
QpType = enumeration("QpType", "weft_qp_type", "WEFT_QP_")
QpState = enumeration("QpState", "weft_qp_state", "WEFT_QP_")
EventType = enumeration("EventType", "weft_event_type", "WEFT_EVENT_")
Element = enumeration("Element", "weft_element", "WEFT_")


class Access(enum.IntFlag):
    """Access rights of a region or a queue pair."""
    NONE = 0
    LOCAL_WRITE = lib.WEFT_ACCESS_LOCAL_WRITE
    REMOTE_WRITE = lib.WEFT_ACCESS_REMOTE_WRITE
    REMOTE_READ = lib.WEFT_ACCESS_REMOTE_READ
    REMOTE_ATOMIC = lib.WEFT_ACCESS_REMOTE_ATOMIC
    ALL = lib.WEFT_ACCESS_ALL
    ZERO_BASED = lib.WEFT_ACCESS_ZERO_BASED
    FLUSH_GLOBAL = lib.WEFT_ACCESS_FLUSH_GLOBAL
    FLUSH_PERSISTENT = lib.WEFT_ACCESS_FLUSH_PERSISTENT
    ON_DEMAND = lib.WEFT_ACCESS_ON_DEMAND


class Error(Exception):
    """A call of weft failed. The text names the object, the values and the remedy."""
    code = None

    def __init__(self, message, code=None):
        super().__init__(message)
        if code is not None:
            self.code = code


class CompletionError(Error):
    """A request completed with a status other than SUCCESS: Completion.check()."""

    def __init__(self, completion):
        reason = ffi.string(lib.weft_status_reason(completion.status)).decode()
        super().__init__(f"{completion.type.name} with id {completion.id} of queue pair "
                         f"{completion.qp_number:#x}: {completion.status.name.lower()}: {reason}")
        self.completion = completion


def kind(code, *bases):
    """The exception of a code; it is also what Python calls such an error, if it has a name."""
    name = "".join(word.capitalize() for word in code.name.split("_"))
    return type(name, (Error, *bases), {"code": code, "__module__": "weft",
                                        "__doc__": f"Error with the code {code.name}."})


EXCEPTIONS = {code: kind(code, *bases) for code, bases in {
    Code.INVALID_ARGUMENT: (ValueError,), Code.NOT_FOUND: (LookupError,),
    Code.NO_MEMORY: (MemoryError,), Code.NOT_SUPPORTED: (NotImplementedError,),
    Code.PERMISSION_DENIED: (PermissionError,), Code.BUSY: (), Code.WOULD_BLOCK: (),
    Code.TIMED_OUT: (TimeoutError,), Code.DISCONNECTED: (ConnectionError,),
    Code.ADDRESS_IN_USE: (), Code.QUEUE_FULL: (), Code.BAD_STATE: (),
    Code.IO_ERROR: (OSError,)}.items()}


def check(code):
    """Raises the exception of a code, with the text of this thread's last error."""
    if code != lib.WEFT_OK:
        raise EXCEPTIONS[Code(code)](ffi.string(lib.weft_error_text()).decode(errors="replace"))


def created(function, destroy, *arguments):
    """The handle that a function stores through its last argument, freed when it is no longer
    used."""
    handle = ffi.new(ffi.typeof(function).args[-1])
    check(function(*arguments, handle))
    return ffi.gc(handle[0], destroy)


def structure(name, **members):
    """A structure with the library's defaults, and what is given."""
    it = ffi.new(name + " *")
    init = getattr(lib, name + "_init", None)
    if init is not None:
        init(it, ffi.sizeof(name))
    else:
        it.size = ffi.sizeof(name)
    for member, value in members.items():
        if value is not None:
            setattr(it, member, value)
    return it


class Handle:
    """What all objects are: a handle that close(), the end of a `with` or the last reference
    frees."""
    _handle = ffi.NULL

    def close(self):
        """Frees the object now. Any order of closing is right; calls of a closed object fail."""
        handle, self._handle = self._handle, ffi.NULL
        if handle != ffi.NULL:
            ffi.release(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
