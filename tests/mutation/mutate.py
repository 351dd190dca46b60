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

Usage: mutate.py ROOM [COUNT [SEED]] [--only NUMBER...] [--since COMMIT] [--within SECONDS], after
the room's test programs were built in build/release; `./dev mutate` does both.
"""
import argparse
import collections
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import time

import mutants

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
HEADER = pathlib.Path(__file__).with_name("mutant.hpp")
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
ENVIRONMENT = {"WEFT_TEST_SCALE": "0.1", "WEFT_SEED": "1", "RC_PARAMS": "seed=1"}


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


def ninja(*words):
    return subprocess.run(["ninja", "-C", str(BUILD), *words], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.splitlines()


class Programs:
    """Copies of the test programs of a room, which hold mutants."""

    def __init__(self, room):
        self.targets = ROOMS[room][2]
        self.folder = ROOT / "build/mutation" / room
        self.commands = ninja("-t", "commands", *self.targets)

    def write(self, chosen):
        """Writes the mutated files, and returns the numbers that they hold."""
        held, by_file = set(), collections.defaultdict(dict)
        for number, mutant in chosen.items():
            by_file[mutant.file][number] = mutant
        for name, those in by_file.items():
            text, kept = mutants.render((ROOT / name).read_bytes(), those)
            held |= kept
            target = self.folder / "tree" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            guarded = f'#include "{HEADER}"\n#line 1 "{ROOT / name}"\n'.encode() + text
            target.write_bytes(guarded)
        return held, set(by_file)

    def build(self, files):
        """Compiles what includes the files, and links: what the compiler says, "" if all is well.
        Everything that includes a mutated header reads the copy: it comes first in -I."""
        tree = self.folder / "tree"
        for name in self.including(files):
            if not (tree / name).exists() or name not in files:
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_bytes((ROOT / name).read_bytes())
        fresh, errors = {}, []
        for command in self.commands:
            words = shlex.split(command.split(" && cd ")[0].removeprefix(": && "))
            if "-c" in words:
                self.compile(words, files, fresh, errors)
            elif not errors and any(word in fresh for word in words):
                self.link(words, fresh)
        return errors

    def including(self, files):
        """The files of all that is compiled with one of `files`."""
        folders = ("lib/", "providers/", "include/", "tests/")
        return {each for deps in self.dependencies().values() if deps & files
                for each in deps if each.startswith(folders)}

    def dependencies(self):
        """The files of the tree that each object depends on."""
        if not hasattr(self, "known"):
            self.known, out = {}, None
            for line in ninja("-t", "deps"):
                if line and not line.startswith(" "):
                    out = line.split(": #deps")[0]
                    self.known[out] = set()
                elif out and line.strip().startswith(str(ROOT) + "/"):
                    self.known[out].add(line.strip()[len(str(ROOT)) + 1:])
            wanted = {w for c in self.commands for w in c.split()}
            self.known = {o: d for o, d in self.known.items() if o in wanted}
        return self.known

    def compile(self, words, files, fresh, errors):
        out, source = words[words.index("-o") + 1], words[words.index("-c") + 1]
        if not self.dependencies().get(out, set()) & files or "precompiled" in out:
            return
        target = self.folder / "objects" / out
        target.parent.mkdir(parents=True, exist_ok=True)
        tree = self.folder / "tree"
        if "/Unity/" in source:
            text = pathlib.Path(source).read_text().replace(f'"{ROOT}/', f'"{tree}/')
            source = str(target.with_suffix(".cpp"))
            pathlib.Path(source).write_text(text)
        else:
            source = source.replace(str(ROOT), str(tree))
        rest = [w for w in words if w not in ("-Werror", "-MD")
                and pathlib.Path(w).name != "ccache"]
        for flag in ("-MT", "-MF", "-o", "-c"):
            if flag in rest:
                del rest[rest.index(flag):rest.index(flag) + 2]
        rest = [rest[0], f"-I{tree}/include", f"-I{tree}", "-w", "-g0", *rest[1:], "-w"]
        told = subprocess.run([*rest, "-o", str(target), "-c", source], cwd=BUILD,
                              stderr=subprocess.PIPE, text=True, check=False)
        if told.returncode:
            errors.append(told.stderr)
        fresh[out] = str(target)

    def link(self, words, fresh):
        for part in " ".join(words).split(" && "):
            words = part.split()
            is_archive = words[0].endswith("/ar")
            if not is_archive and "-o" not in words:
                continue  # an index, or the old archive is removed
            out = words[2] if is_archive else words[words.index("-o") + 1]
            target = str(self.folder / ("lib" if is_archive else "bin") / pathlib.Path(out).name)
            pathlib.Path(target).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(target).unlink(missing_ok=True)
            words = [target if w == out else fresh.get(w, w) for w in words]
            subprocess.run(words, cwd=BUILD, check=True)
            fresh[out] = target

    def run(self, number, files, limit_s, reached=None):
        """(passed, seconds) of test files, as (program, name), with the mutant."""
        begin, by_program = time.monotonic(), collections.defaultdict(list)
        for program, name in files:
            by_program[program].append(name)
        passed = all(self.run_program(number, program, names, limit_s, reached)
                     for program, names in by_program.items())
        return passed, time.monotonic() - begin

    def run_program(self, number, program, names, limit_s, reached):
        environment = {**os.environ, **ENVIRONMENT, "WEFT_MUTANT": str(number)}
        if reached:
            environment["WEFT_MUTANTS_REACHED"] = str(reached)
        command = [str(self.folder / "bin" / program), "-a", "-#",
                   ",".join(f"[#{name}]~[.]" for name in names)]
        try:
            return subprocess.run(command, env=environment, cwd=self.folder, timeout=limit_s,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def test_files(self):
        for program in self.targets:
            text = subprocess.run([str(self.folder / "bin" / program), "-#", "-t"],
                                  stdout=subprocess.PIPE, text=True, check=False).stdout
            for name in sorted(set(re.findall(r"\[#(\w+)\]", text))):
                yield program, name


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


def count_verdicts(room, chosen, end):
    """What became of the mutants {number: mutant} of a room. At `end` it stops."""
    program = Programs(room)
    chosen = build_without_broken(program, chosen)
    reaching, times = collections.defaultdict(list), {}
    for name in program.test_files():
        reached = program.folder / "reached"
        reached.unlink(missing_ok=True)
        passed, times[name] = program.run(0, [name], 600, reached)
        if not passed:
            sys.exit(f"mutate: {name[1]} fails without a mutant")
        for number in map(int, reached.read_text().split() if reached.exists() else ()):
            reaching[number].append(name)
    excused, result = excuses(), collections.Counter()
    for number, mutant in chosen.items():
        if time.monotonic() > end:
            result["left"] += 1
            continue
        text = described(number, mutant)
        key = re.sub(r"^\d+ ([\w./]+):\d+ ", r"\1 ", text)
        files = sorted(reaching[number], key=times.get)
        limit_s = 10 + 10 * sum(times[f] for f in files)
        survived = not files or program.run(number, files, limit_s)[0]
        verdict = "killed" if not survived else "equivalent" if key in excused else \
            "survived" if files else "constant" if mutant.constexpr else "unreached"
        result[verdict] += 1
        if verdict != "killed":
            print(f"{verdict} {text}", flush=True)
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
        result += score(room, every, given.count, seed, end)
    print(f"changed: {rooms} of {len(lines)} rooms were tried")
    return result


def score(room, every, count, seed, end, only=None):
    drawn = only or random.Random(seed).sample(sorted(every), min(count, len(every)))
    print(f"{room}: {len(every)} mutants, {len(drawn)} drawn with seed {seed}", flush=True)
    chosen = {number: every[number] for number in sorted(drawn)}
    result = count_verdicts(room, chosen, end) if chosen else collections.Counter()
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
    else:
        every = {number: mutant for number, mutant in enumerate(find(given.room), 1)
                 if mutant.file.startswith(tuple(given.files))}
        seed = 1 if given.seed is None else given.seed
        result = score(given.room, every, given.count, seed, end, given.only)
    return 1 if result["survived"] or result["unreached"] else 0


if __name__ == "__main__":
    sys.exit(main())
