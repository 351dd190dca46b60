# SPDX-License-Identifier: BSD-3-Clause
"""Copies of a room's test programs that hold mutants: how they are written, built and run."""
import collections
import os
import pathlib
import re
import shlex
import subprocess
import time

import mutants

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
HEADER = pathlib.Path(__file__).with_name("mutant.hpp")
ENVIRONMENT = {"WEFT_TEST_SCALE": "0.1", "WEFT_SEED": "1", "RC_PARAMS": "seed=1"}


def ninja(*words):
    return subprocess.run(["ninja", "-C", str(BUILD), *words], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.splitlines()


class Programs:
    """Copies of the test programs of a room, which hold mutants."""

    def __init__(self, room, targets):
        self.targets = targets
        self.folder = ROOT / "build/mutation" / room

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
        for command in self.commands():
            words = shlex.split(command.split(" && cd ")[0].removeprefix(": && "))
            if "-c" in words:
                self.compile(words, files, fresh, errors)
            elif not errors and any(word in fresh for word in words):
                self.link(words, fresh)
        return errors

    def commands(self):
        """How build/release makes the programs."""
        return ninja("-t", "commands", *self.targets)

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
            wanted = {w for c in self.commands() for w in c.split()}
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
