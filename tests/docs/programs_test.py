#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every program of tools/ and bench/ describes itself: a manual page can be written from its
--help, each option has a text, and each option that takes a value says its default.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD", ROOT / "build/release"))
sys.path.insert(0, str(ROOT / "tools/docs"))
import completion  # noqa: E402
import man  # noqa: E402
import programs  # noqa: E402

# Programs of the build that tests start, named weft_ but not installed.
OF_TESTS = {"weft_puppet", "weft_rping", "weft_cmatose", "weft_udaddy"}
# A program and what follows it in code: up to the end of the span, line or command
# (that of `$(...)`, too).
COMMAND_LINE = re.compile(r"\b(weft[_-]\w+)((?: [^`|;&#)\n]*)?)")
# A program's own options end at the name of the program that it starts: behind the first word that
# is neither an option nor an option's value.
STARTS_OTHERS = {"weft-run"}
# Command lines with a value that cannot be meant.
WRONG_VALUES = (
    "weft_coll -r 0", "weft_coll --ranks 5000", "weft_coll -r 2 --kill 2", "weft_coll foo",
    "weft_coll explain -r 0", "weft_coll -b 8x", "weft_sim run --until 2 incast-16",
    "weft_sim run --seeds 5..1 incast-16", "weft_cost roce+shm:cost 0", "weft_stat --count -1",
    "weft_stat --interval nan", "weft_report --sizes 0", "weft_cmtime --device srd+shm --port 0",
    "weft_cores roce+shm:c 2 nan", "weft_srd_demo --size 9", "weft_write_bw -c RD",
    "weft_write_bw -c device", "weft_write_bw --duration nan", "weft_write_bw --connect_wait -1",
    "weft_write_bw -q 0", "weft_read_bw -c UD", "weft_send_lat -q 2")
OWN_WORDS = re.compile(r"(?: +--?[a-zA-Z][\w-]*(?:[ =](?!-)\S+)?)*")


def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=20,
                          stdin=subprocess.DEVNULL)


def documents():
    return [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").rglob("*.md"))
                                  if path.parent.name != "history")]


def options_named(text):
    """Yields (program, its options) of each command line in code."""
    code = re.findall(r"`[^`\n]+`|^    .*$|(?<=```sh\n).*?(?=```)", text, re.M | re.S)
    for program, words in COMMAND_LINE.findall("\n".join(code)):
        if program in STARTS_OTHERS:
            words = OWN_WORDS.match(words)[0]
        options = re.findall(r"(?<= )(--?[a-zA-Z][\w-]*)", words)
        if options:
            yield program, options


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = programs.listed(BUILD)
        cls.commands = [command for program in cls.programs for command in programs.read(program)]

    def test_the_list_is_whole(self):
        listed = {program.name for program in self.programs}
        built = {path.name for kind in ("weft[_-]*", "raw_*", "*_cost") for path in
                 (BUILD / "bin").glob(kind) if not path.name.endswith("_test")}
        self.assertEqual(built - OF_TESTS - listed, set(), "not in programs.txt")
        self.assertGreaterEqual(len(listed), 20)

    def test_the_page_of_programs_names_each_installed_one(self):
        page = (ROOT / "docs/programs.md").read_text()
        for program in programs.listed(BUILD, installed=True):
            self.assertRegex(page, rf"`{program.name}`")

    def test_each_option_has_a_text_and_a_default(self):
        for command in self.commands:
            self.assertTrue(command.summary, command.name)
            self.assertTrue(command.options, command.name)
            for option in command.options + command.positionals:
                with self.subTest(command=command.name, option=option.names):
                    self.assertRegex(option.text, r"[a-zA-Z]{2}", "no help text")
                    self.assertTrue(option.says_default, f"no default: {option.text}")

    def test_what_may_lack_a_default_is_an_option(self):
        names = {name for command in self.commands
                 for option in command.options + command.positionals for name in option.names}
        self.assertEqual(programs.NOTHING_UNLESS_GIVEN - names, set())

    def test_each_program_has_a_manual_page(self):
        with tempfile.TemporaryDirectory() as folder:
            written = man.write(BUILD, folder)
            self.assertEqual(sorted(written), [program.name for program in self.programs])
            for name in written:
                page = (pathlib.Path(folder) / "man1" / f"{name}.1").read_text()
                self.assertIn(".SH NAME", page)
                self.assertIsNone(re.search(r"^[.'](?!TH|SH|TP|PP|B |br)", page, re.M), name)

    def test_options_in_documents_exist(self):
        known = {}
        for command in self.commands:
            for option in command.options:
                known.setdefault(command.name.split()[0], set()).update(option.names)
        found = []
        for path in documents():
            for program, options in options_named(path.read_text()):
                found += [f"{path.relative_to(ROOT)}: {program} {option}" for option in options
                          if program in known and option not in known[program]]
        self.assertEqual(found, [])

    def test_programs_in_documents_are_built(self):
        # ./dev package makes build/release/packages.
        found = [f"{path.relative_to(ROOT)}: {name}" for path in documents()
                 for name in re.findall(r"build/release/(?!packages)([\w./-]+)", path.read_text())
                 if not (BUILD / name.rstrip(".")).exists()]
        self.assertEqual(found, [])

    def test_options_of_a_command_line_are_found(self):
        text = ("`weft_sim run --cc x` and\n"
                "    taskset -c 1 bin/weft_coll sum -b 8 --sum=1 | cat -v\n"
                "    weft-run -d udp:lo --env=sh prog -x && weft-run prog --all\n")
        self.assertEqual(list(options_named(text)),
                         [("weft_sim", ["--cc"]), ("weft_coll", ["-b", "--sum"]),
                          ("weft-run", ["-d", "--env"])])

    def test_each_says_its_version_and_refuses_an_unknown_option(self):
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"],
                                capture_output=True, text=True).stdout.strip() or "unknown"
        for program in self.programs:
            with self.subTest(program=program.name):
                said = run(program, "--version")
                self.assertEqual(said.returncode, 0, said.stderr)
                lines = dict(line.split(" ", 1) for line in said.stdout.splitlines())
                self.assertEqual(list(lines), ["weft", "commit", "compiler", "modules"])
                self.assertEqual(lines["commit"], commit)
                wrong = run(program, "--no-such-option")
                self.assertEqual(wrong.returncode, 2, wrong.stderr)
                self.assertTrue(wrong.stderr)

    def test_wrong_values_are_refused(self):
        for line in WRONG_VALUES:
            with self.subTest(line=line):
                name, *words = line.split()
                said = run(BUILD / "bin" / name, *words)
                self.assertEqual(said.returncode, 2, said.stdout + said.stderr)
                # The message names the option, with the dashes that it has, or the wrong value.
                self.assertTrue(any(word in said.stderr for word in words), said.stderr)

    def test_bash_completes_options_values_and_subcommands(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("weft_sim", completion.write(BUILD, folder))
            for words, offered in ((["weft_sim", "k"], "keys"),
                                   (["weft_sim", "run", "--fid"], "--fidelity"),
                                   (["weft_sim", "run", "--fidelity", ""], "flow engine srd"),
                                   (["weft_write_bw", "--connect"], "--connection --connect_wait"),
                                   (["weft-run", "--env", "d"], "docker")):
                function = "_" + words[0].replace("-", "_")
                code = (f'source "$0/bash/{words[0]}"; COMP_WORDS=("$@"); '
                        f'COMP_CWORD={len(words) - 1}; {function}; echo "${{COMPREPLY[@]}}"')
                done = subprocess.run(["bash", "-c", code, folder, *words], capture_output=True,
                                      text=True, timeout=20)
                self.assertEqual((done.stdout.strip(), done.stderr), (offered, ""), words)

    def test_zsh_and_fish_take_what_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            names = completion.write(BUILD, folder)
            for name in names:  # options of weft are in each, by the same table
                for file in (f"zsh/_{name}", f"fish/{name}.fish"):
                    self.assertIn("version", pathlib.Path(folder, file).read_text("utf-8"))
                done = subprocess.run(["zsh", "-n", f"{folder}/zsh/_{name}"], timeout=20,
                                      capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            for line, offered in (("weft_sim k", ["keys"]), ("weft_sim run --fid", ["--fidelity"]),
                                  ("weft_sim run --fidelity ", ["engine", "flow", "srd"]),
                                  ("weft_write_bw --connect", ["--connect_wait", "--connection"])):
                code = f"source {folder}/fish/{line.split()[0]}.fish; complete -C '{line}'"
                done = subprocess.run(["fish", "--no-config", "-c", code], timeout=20,
                                      capture_output=True, text=True)
                said = sorted(each.split("\t")[0] for each in done.stdout.splitlines())
                self.assertEqual((said, done.stderr), (offered, ""), line)

    def test_a_missing_text_and_default_are_found(self):
        command = programs.parse("tool", "tool: does.\nUsage: tool [OPTIONS]\n\nOptions:\n"
                                 "  -a,--all                    \n"
                                 "  -n,--count UINT             How\n"
                                 "  -m,--most UINT:INT in [1 - 9]=4\n" + " " * 30 + "Most\n")
        bare, count, most = command.options
        self.assertEqual(bare.text, "")
        self.assertFalse(count.says_default)
        self.assertEqual((most.default, most.constraint, most.text), ("4", "1 to 9", "Most"))


if __name__ == "__main__":
    unittest.main()
