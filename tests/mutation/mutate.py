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

Usage: mutate.py ROOM [COUNT [SEED]] [--only NUMBER...], after the room's test programs were built
in build/release; `./dev mutate` does both.
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
         "shm": ("providers/port/shm", "weft::port", ["ports_shm_tests"])}
ENVIRONMENT = {"WEFT_TEST_SCALE": "0.1", "WEFT_SEED": "1", "RC_PARAMS": "seed=1"}


def find(room):
    folder, namespace, _ = ROOMS[room]
    sources = sorted((ROOT / folder).rglob("*.cpp"))
    headers = sorted((ROOT / folder).rglob("*.hpp"))
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
        rest = [w for w in words if w not in ("-Werror", "-MD", "ccache")]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("count", nargs="?", type=int, default=100)
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("--only", nargs="+", type=int, default=None, help="numbers of mutants")
    parser.add_argument("--programs", action="store_true", help="name its test programs")
    given = parser.parse_args()
    if given.programs:
        return print(*ROOMS[given.room][2])
    every = dict(enumerate(find(given.room), 1))
    drawn = given.only or random.Random(given.seed).sample(sorted(every),
                                                           min(given.count, len(every)))
    chosen = {number: every[number] for number in sorted(drawn)}
    print(f"{given.room}: {len(every)} mutants, {len(chosen)} drawn with seed {given.seed}",
          flush=True)
    program = Programs(given.room)
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
    counted = result["killed"] + result["survived"] + result["unreached"]
    print(f"{given.room}: {result['killed']} killed, {result['survived']} survived, "
          f"{result['unreached']} not reached, {result['equivalent']} equivalent, "
          f"{result['constant']} run by the compiler only: "
          f"{100 * result['killed'] / max(1, counted):.1f} % of {counted}")
    return 1 if result["survived"] or result["unreached"] else 0


if __name__ == "__main__":
    sys.exit(main())
