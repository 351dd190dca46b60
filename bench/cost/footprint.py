#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What libweft.so costs a program that uses little of it: bytes of the library, libraries that are
mapped, instructions until main(), and memory of an open device. Each row has a limit; the first
that is exceeded ends this with 1.

    python3 bench/cost/footprint.py              WEFT_BUILD names a build; the default is release

The limits are a tenth above what was measured with the compiler below; with another one sizes and
instructions are printed, not compared. Milliseconds of the start are printed and have no limit:
they are the machine's."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from instructions import BIN, ROOT, compiler

LIBRARY = BIN.parent / "lib/libweft.so"
COMPILER = "GNU 12 x86_64"
MAPPED = "libraries mapped by weft_info"
# Row: limit. Those that begin so depend on the compiler.
OF_CODE = ("libweft.so", "start beyond")
LIMITS = {
    MAPPED: 10,
    "libweft.so without symbols, KiB": 5050,
    "start beyond an empty program, thousand instructions": 760,
    "open roce+udp:lo, KiB": 330,
    "open srd+udp:lo, KiB": 310,
    "open roce+shm:job, KiB": 300,
    "a queue pair of RC with its completion queue, KiB": 64,
}
STARTS = 20

EMPTY = "#include <string>\nint main(int, char** words) { return std::string(*words).empty(); }\n"
# Its own memory after each step, in KiB: nothing done, a device open, a queue pair.
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>
static long own_kib(void) {
  char line[256];
  long sum = 0, one = 0;
  FILE* file = fopen("/proc/self/smaps_rollup", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "Private_Dirty: %ld", &one) == 1) sum += one;
  if (file != NULL) fclose(file);
  return sum;
}
int main(int count, char** words) {
  weft_device* device = NULL;
  weft_pd* pd = NULL;
  weft_cq* cq = NULL;
  weft_qp* qp = NULL;
  if (count < 2) return weft_version() == NULL;
  (void)own_kib();
  const long before = own_kib();
  if (weft_device_open(words[1], &device) != WEFT_OK) return puts(weft_error_text()), 1;
  const long open = own_kib();
  weft_qp_options options = {.size = sizeof options, .max_send_wr = 128, .max_recv_wr = 128,
                             .max_send_sge = 1, .max_recv_sge = 1};
  if (weft_pd_create(device, &pd) != WEFT_OK || weft_cq_create(device, NULL, &cq) != WEFT_OK)
    return puts(weft_error_text()), 1;
  options.send_cq = options.recv_cq = cq;
  if (strncmp(words[1], "roce", 4) == 0 && weft_qp_create(pd, &options, &qp) != WEFT_OK)
    return puts(weft_error_text()), 1;
  printf("%ld %ld\n", open - before, own_kib() - open);
  return 0;
}
"""


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=120, check=False, **more)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n"
                         f"{done.stdout}{done.stderr}")
    return done


def instructions(program):
    with tempfile.TemporaryDirectory() as folder:
        said = run("valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", program)
    return int(re.search(r"Collected : (\d+)", said.stderr)[1])


def milliseconds(program):
    """The shortest of some starts."""
    taken = []
    for _ in range(STARTS):
        begin = time.monotonic()
        run(program)
        taken.append(time.monotonic() - begin)
    return 1000 * min(taken)


def figures(folder):
    """Yields (row, figure)."""
    said = run(BIN / "weft_info", env=dict(os.environ, LD_TRACE_LOADED_OBJECTS="1")).stdout
    yield MAPPED, len(said.splitlines())
    shutil.copy(LIBRARY, folder / "libweft.so")
    run("strip", "--strip-unneeded", folder / "libweft.so")
    yield "libweft.so without symbols, KiB", (folder / "libweft.so").stat().st_size // 1024
    (folder / "empty.cpp").write_text(EMPTY)
    (folder / "program.c").write_text(PROGRAM)
    empty, program = folder / "empty", folder / "program"
    run("c++", "-O2", folder / "empty.cpp", "-o", empty)
    run("cc", "-O2", "-std=gnu11", f"-I{ROOT}/include", folder / "program.c", "-o", program,
        LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}")
    if shutil.which("valgrind"):
        yield ("start beyond an empty program, thousand instructions",
               (instructions(program) - instructions(empty)) // 1000)
    yield "start, ms", round(milliseconds(program), 2)
    yield "start of an empty program, ms", round(milliseconds(empty), 2)
    queue_pairs = []
    for device in ("roce+udp:lo", "srd+udp:lo", "roce+shm:job"):
        name = f"{device}-{os.getpid()}" if device.endswith("job") else device
        opened, queue_pair = map(int, run(program, name).stdout.split())
        yield f"open {device}, KiB", opened
        queue_pairs.append(queue_pair)
    yield "a queue pair of RC with its completion queue, KiB", queue_pairs[0]


def main():
    known = compiler() == COMPILER
    exceeded = []
    with tempfile.TemporaryDirectory() as folder:
        for row, figure in figures(pathlib.Path(folder)):
            limit = LIMITS.get(row)
            if limit is None or not known and row.startswith(OF_CODE):
                print(f"{row:52} {figure:>8}")
                continue
            print(f"{row:52} {figure:>8}  at most {limit}", flush=True)
            if figure > limit:
                exceeded.append(row)
    if exceeded:
        print(f"over their limits: {', '.join(exceeded)}. What is worth it, is recorded: LIMITS in "
              "bench/cost/footprint.py, and the table of docs/programs.md")
    return bool(exceeded)


if __name__ == "__main__":
    sys.exit(main())
