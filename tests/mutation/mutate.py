#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The mutation score of a room: small bugs are put into its sources, and its tests must find them.

A seeded sample of all mutants (mutants.py) is built at once into copies of the room's test programs
in build/mutation; the objects that no mutant touches are those of build/release. Each mutant is
then chosen by number in a process of its own, which runs the test files that reach it. A mutant is
killed if a test fails, the program ends by a signal, or it takes ten times as long as without one.

Survivors count against the tests, and so do mutants that no test reaches, unless equivalent.txt
says why no test could see them. Not counted are those in constexpr functions that only the compiler
runs: none can be chosen there.

ROOM may be `changed`: COUNT mutants of each room, in lines that differ from a commit, by default
the last one that is a day older than HEAD; the seed is HEAD, and rooms of many such lines tend to
come first. With --within SECONDS mutants that are left when the time is over are not tried, and
counted; further rooms are not begun.

Usage: mutate.py ROOM [COUNT [SEED]] [--only NUMBER...] [--since COMMIT] [--within SECONDS]
[--jobs N], after the room's test programs were built in build/release; `./dev mutate` does both.
--prepare here and --prepared on a machine with more processors share the work.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import re
import subprocess
import sys
import time

import mutants
from programs import Programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
EQUIVALENT = pathlib.Path(__file__).with_name("equivalent.txt")
# Folder, namespace and test programs of each room that can be mutated.
ROOMS = {"wire": ("lib/wire", "weft::wire", ["wire_tests", "wire_neighbour_test"]),
         "memory": ("lib/memory", "weft::memory", ["memory_tests"]),
         "transport": ("lib/transport", "weft::transport", ["transport_tests"]),
         "congestion": ("lib/congestion", "weft::congestion", ["congestion_tests"]),
         "srd": ("lib/srd", "weft::srd", ["srd_tests"]),
         "roce": ("lib/roce", "weft::roce", ["roce_tests", "roce_rc_tests"]),
         "cm": ("lib/roce/cm", "weft::cm", ["roce_cm_tests"]),
         "shm": ("providers/port/shm", "weft::port", ["ports_shm_tests"]),
         "auto": ("providers/port/auto", "weft::port", ["ports_auto_tests", "auto_port_test"]),
         "udp": ("providers/port/udp", "weft::port", ["ports_udp_tests"]),
         "middleware": ("providers/port/middleware", "weft::middleware",
                        ["ports_middleware_tests"]),
         "driver": ("lib/driver", "weft::driver", ["driver_tests"]),
         "message": ("lib/message", "weft::message", ["message_tests"]),
         "crypto": ("lib/crypto", "weft::crypto", ["crypto_tests"]),
         "run": ("lib/collective/run", "weft::collective",
                 ["collective_run_tests", "collective_faults_tests"]),
         "plan": ("lib/collective/plan", "weft::collective", ["collective_plan_tests"]),
         "msccl": ("lib/collective/msccl", "weft::collective", ["collective_msccl_tests"]),
         "sim": ("lib/sim", "weft::sim", ["sim_tests"]),
         "job": ("lib/job", "weft::job", ["job_tests"])}


def find(room, names=None):
    """The mutants of a room, or those in its files `names`."""
    folder, namespace, _ = ROOMS[room]
    sources, headers = (sorted(p for p in (ROOT / folder).rglob(f"*.{kind}") if names is None
                               or str(p.relative_to(ROOT)) in names) for kind in ("cpp", "hpp"))
    wanted = {str(p.relative_to(ROOT)) for p in (*sources, *headers)}
    every_header = ROOT / f"build/mutation/{room}/headers.cpp"
    every_header.parent.mkdir(parents=True, exist_ok=True)
    every_header.write_text("".join(f'#include "{p.relative_to(ROOT)}"\n' for p in headers))
    found = set()
    for source in (every_header, *sources):
        found |= mutants.Finder(ROOT, wanted).run(source, [namespace])
    return sorted(found, key=lambda m: (m.file, m.begin, m.end, m.operator))


def line_of(mutant):
    return (ROOT / mutant.file).read_bytes()[:mutant.begin].count(b"\n") + 1


def described(number, mutant):
    text = (ROOT / mutant.file).read_bytes()
    original = " ".join(text[mutant.begin:mutant.end].decode().split())
    changed = "" if mutant.statement else " ".join("".join(
        p if isinstance(p, str) else text[p[0]:p[1]].decode() for p in mutant.pieces).split())
    return f"{number} {mutant.file}:{line_of(mutant)} {mutant.operator}: {original} -> {changed}"


def build_without_broken(program, chosen):
    """Builds; mutants that do not compile are left out. Returns those that are in."""
    while True:
        held, files = program.write(chosen)
        errors = program.build(files)
        if not errors:
            return {n: m for n, m in chosen.items() if n in held}
        # Files keep their lines, so an error names that of the mutant.
        lines = set(re.findall(rf"{re.escape(str(ROOT))}/([\w./]+):(\d+)", "".join(errors)))
        broken = {n for n, m in chosen.items() if (m.file, str(line_of(m))) in lines}
        if not broken:
            sys.exit("mutate: the program does not build:\n" + errors[0][-3000:])
        print(f"mutate: {len(broken)} mutants that do not compile are left out", flush=True)
        chosen = {n: m for n, m in chosen.items() if n not in broken}


def excuses():
    """{(file, original text -> mutant): reason} of equivalent.txt."""
    found = {}
    for line in EQUIVALENT.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            what, reason = line.rsplit(" # ", 1)
            found[what] = reason
    return found


def git(*words):
    return subprocess.run(["git", "-C", str(ROOT), *words], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()


def day_before():
    """The last commit that is a day older than HEAD; that of nothing if the clone has none."""
    at = int(git("log", "-1", "--format=%ct")) - 86400
    return git("rev-list", "-1", f"--before={at}", "HEAD") or git("hash-object", "-t", "tree",
                                                                   "/dev/null")


def room_of(name):
    """The room that holds a file, the innermost one; None: none does."""
    rooms = [r for r in ROOMS if name.startswith(ROOMS[r][0] + "/")]
    return max(rooms, key=lambda r: len(ROOMS[r][0]), default=None)


def changed_lines(since):
    """{room: {file: its lines that differ from the commit}}."""
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    name = ""
    for line in git("diff", "-U0", "--no-renames", "--diff-filter=AM", since, "--", "*.cpp",
                    "*.hpp").splitlines():
        if line.startswith("+++ b/"):
            name = line.removeprefix("+++ b/")
        elif (at := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)) and room_of(name):
            first, count = int(at[1]), int(at[2] or 1)
            found[room_of(name)][name].update(range(first, first + count))
    return found


def draw_rooms(lines, seed):
    """[(room, its files)] of changed_lines(), in an order that prefers rooms of many lines; at most
    four files of each, which prefer likewise: clang takes seconds for a file."""
    order = random.Random(seed)

    def shuffled(weights):
        known = {key: weight for key, weight in sorted(weights.items()) if weight}
        return sorted(known, key=lambda key: order.random() ** (1 / known[key]), reverse=True)
    counts = {room: {name: len(those) for name, those in files.items()}
              for room, files in lines.items()}
    return [(room, shuffled(counts[room])[:4])
            for room in shuffled({room: sum(files.values()) for room, files in counts.items()})]


class Trial:
    """Mutants that were built into the programs of a room, which their tests are to find."""

    def __init__(self, program, told):
        self.program = program
        self.told = told  # number: what it is, as a line, and whether only the compiler may run it
        self.reaching, self.times = collections.defaultdict(list), {}

    @staticmethod
    def build(room, chosen):
        program = Programs(room, ROOMS[room][2])
        chosen = build_without_broken(program, chosen)
        return Trial(program, {number: {"what": described(number, mutant),
                                        "constexpr": mutant.constexpr}
                               for number, mutant in chosen.items()})

    def save(self):
        """For load(), in another process or on a machine that has build/mutation of this one."""
        (self.program.folder / "mutants.json").write_text(json.dumps(self.told))

    @staticmethod
    def load(room):
        program = Programs(room, ROOMS[room][2])
        told = json.loads((program.folder / "mutants.json").read_text())
        return Trial(program, {int(number): each for number, each in told.items()})

    def find_reaching(self, name):
        """Which mutants a test file reaches, and how long it takes without one."""
        reached = self.program.folder / f"reached-{name[1]}"
        reached.unlink(missing_ok=True)
        passed, taken = self.program.run(0, [name], 600, reached)
        if not passed:
            print(f"mutate: {name[1]} fails without a mutant and is left out", flush=True)
            return name, None, ()
        return name, taken, reached.read_text().split() if reached.exists() else ()

    def verdict(self, number):
        """What became of a mutant: a word that summary() counts."""
        files = sorted(self.reaching[number], key=self.times.get)
        limit_s = 10 + 10 * sum(self.times[f] for f in files)
        survived = not files or self.program.run(number, files, limit_s)[0]
        key = re.sub(r"^\d+ ([\w./]+):\d+ ", r"\1 ", self.told[number]["what"])
        return "killed" if not survived else "equivalent" if key in excuses() else \
            "survived" if files else "constant" if self.told[number]["constexpr"] else "unreached"

    def count(self, end, jobs):
        """What became of all, `jobs` at a time. At `end` no other is begun."""
        result = collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for name, taken, numbers in pool.map(self.find_reaching, self.program.test_files()):
                self.times[name] = taken
                for number in map(int, numbers):
                    self.reaching[number].append(name)

            def verdict_or_left(number):
                return "left" if time.monotonic() > end else self.verdict(number)
            for number, verdict in zip(self.told, pool.map(verdict_or_left, self.told)):
                result[verdict] += 1
                if verdict not in ("killed", "left"):
                    print(f"{verdict} {self.told[number]['what']}", flush=True)
        return result


def summary(what, result):
    counted = result["killed"] + result["survived"] + result["unreached"]
    left = f"; {result['left']} were not tried, the time was over" if result["left"] else ""
    return (f"{what}: {result['killed']} killed, {result['survived']} survived, "
            f"{result['unreached']} not reached, {result['equivalent']} equivalent, "
            f"{result['constant']} run by the compiler only: "
            f"{100 * result['killed'] / max(1, counted):.1f} % of {counted}{left}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("room", choices=[*ROOMS, "changed"])
    parser.add_argument("count", nargs="?", type=int, default=100)
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("--only", nargs="+", type=int, default=None, help="numbers of mutants")
    parser.add_argument("--files", nargs="+", default=[""], metavar="PATH",
                        help="beginnings of the names of files to draw from")
    parser.add_argument("--since", help="changed: the commit before; default: a day before HEAD")
    parser.add_argument("--within", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tried at a time")
    parser.add_argument("--prepare", action="store_true", help="build the mutants, try none")
    parser.add_argument("--prepared", action="store_true",
                        help="try those that --prepare built into build/mutation/ROOM")
    parser.add_argument("--programs", action="store_true", help="name its test programs")
    return parser.parse_args()


def score_changed(given, since, end):
    """The verdicts of COUNT mutants of each room with lines that differ, one room after another
    until the time is over."""
    seed = given.seed if given.seed is not None else int(git("rev-parse", "HEAD")[:8], 16)
    lines, result, rooms = changed_lines(since), collections.Counter(), 0
    print(f"changed: {len(lines)} rooms since {since[:10]}, seed {seed}", flush=True)
    for room, files in draw_rooms(lines, seed):
        if time.monotonic() > end:
            break
        rooms += 1
        every = {number: mutant for number, mutant in enumerate(find(room, set(files)), 1)
                 if line_of(mutant) in lines[room][mutant.file]}
        result += score(room, every, seed, end, given)
    print(f"changed: {rooms} of {len(lines)} rooms were tried")
    return result


def score(room, every, seed, end, given):
    count = min(given.count, len(every))
    drawn = given.only or random.Random(seed).sample(sorted(every), count)
    print(f"{room}: {len(every)} mutants, {len(drawn)} drawn with seed {seed}", flush=True)
    chosen = {number: every[number] for number in sorted(drawn)}
    return try_all(room, Trial.build(room, chosen), end, given) if chosen else \
        collections.Counter()


def try_all(room, trial, end, given):
    if given.prepare:
        trial.save()
        return collections.Counter()
    result = trial.count(end, given.jobs)
    print(summary(room, result), flush=True)
    return result


def main():
    given = parse()
    end = time.monotonic() + given.within
    changed = given.room == "changed"
    since = (given.since or day_before()) if changed else None
    if given.programs:
        rooms = sorted(changed_lines(since)) if changed else [given.room]
        return print(*sorted({p for room in rooms for p in ROOMS[room][2]}))
    if changed:
        result = score_changed(given, since, end)
    elif given.prepared:
        result = try_all(given.room, Trial.load(given.room), end, given)
    else:
        every = {number: mutant for number, mutant in enumerate(find(given.room), 1)
                 if mutant.file.startswith(tuple(given.files))}
        seed = 1 if given.seed is None else given.seed
        result = score(given.room, every, seed, end, given)
    return 1 if result["survived"] or result["unreached"] else 0


if __name__ == "__main__":
    sys.exit(main())
