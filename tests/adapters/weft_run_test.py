#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft-run: what it tells before PROGRAM starts, what it refuses, and that PROGRAM is run as if
there were no weft-run."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

import drop_in
import elf

LOADER = "/lib64/ld-linux-x86-64.so.2"


def weft_run(*words, **variables):
    """Exit code, standard output and standard error of weft-run."""
    done = subprocess.run([drop_in.RUN, *map(str, words)], env=drop_in.environment(**variables),
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


class WithFolder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-run-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def refused(self, program, code, reason, **variables):
        got, output, error = weft_run("-d", drop_in.UDP, program, **variables)
        self.assertEqual((got, output), (code, ""), error)
        self.assertRegex(error, "^weft-run: .*" + reason)
        self.assertEqual(error.count("\n"), 1)


class Refusals(WithFolder):
    def test_a_wrong_device_string_is_told_before_the_program_starts(self):
        for device, reason in (("roce+udp:nonesuch", "nonesuch is neither an interface"),
                               ("roce+udp:lo;roce+shm,bogus=1", "bogus"),
                               ("roce+udp:lo;;roce+shm", "empty device string"),
                               ("roce+udp:lo;", "empty device string"), ("nonesuch", "nonesuch")):
            with self.subTest(device=device):
                code, output, error = weft_run("-d", device, "echo", "started")
                self.assertEqual((code, output), (2, ""))
                self.assertRegex(error, "^weft-run: .*" + reason)

    def test_wrong_options(self):
        for words, reason in ((["--bogus", "true"], "--bogus"), ([], "PROGRAM"), ([""], "PROGRAM"),
                              (["--env", "true"], "--env runs no PROGRAM"),
                              (["--env=tcl"], "tcl"), (["-d"], "--device"),
                              (["--faults", "bogus=1", "true"], "fault.bogus"),
                              (["--faults", "/nonesuch", "true"], "/nonesuch"),
                              (["--faults", "/", "true"], "cannot be read"),
                              (["--pcap", "/nonesuch/x", "true"], "/nonesuch/x"),
                              (["--pcap", "a,b", "true"], "comma")):
            with self.subTest(words=words):
                code, output, error = weft_run(*words)
                self.assertEqual((code, output), (2, ""))
                self.assertRegex(error, "^weft-run: .*" + reason)

    def test_programs_that_are_not_there(self):
        self.refused("nonesuch-program", 127, "no such program")
        self.refused("./nonesuch", 127, "no such program")
        (self.folder / "text").write_text("x")
        self.refused(self.folder / "text", 126, "not an executable file")
        self.refused(self.folder, 126, "not an executable file")
        self.refused("text", 126, "not an executable file", PATH=str(self.folder))

    def test_programs_that_load_no_library(self):
        program = self.folder / "program"
        interpreter, needs = elf.interpreter(LOADER), (elf.PT_DYNAMIC, elf.dynamic())
        for segments, machine, bits, reason in (
                ([], None, 2, "statically linked"),
                ([(elf.PT_DYNAMIC, elf.dynamic())], None, 2, "statically linked"),
                ([interpreter, (elf.PT_DYNAMIC, elf.dynamic(0))], None, 2, "statically linked"),
                ([elf.go_note()], None, 2, "a Go program without the C library.*CGO_ENABLED"),
                ([elf.interpreter("/lib/ld-musl-x86_64.so.1"), needs], None, 2, "linked with musl"),
                ([elf.interpreter("/system/bin/linker64"), needs], None, 2, "linker64"),
                ([interpreter, needs], elf.AARCH64 if elf.own_machine() == elf.X86_64
                 else elf.X86_64, 2, "is for (aarch64|x86-64), this weft for"),
                ([interpreter, needs], 3, 1, "is for i386, this weft for")):
            with self.subTest(reason=reason):
                elf.write(program, *segments, machine=machine, bits=bits)
                self.refused(program, 126, reason)

    def test_headers_that_point_nowhere(self):
        program = self.folder / "program"
        elf.write(program, elf.interpreter(LOADER), (elf.PT_DYNAMIC, elf.dynamic()))
        whole = program.read_bytes()
        for length in range(4, len(whole) - 16, 7):  # without any DT_NEEDED
            program.write_bytes(whole[:length])
            self.refused(program, 126, "incomplete|statically linked")  # never given to /bin/sh

    def test_interpreters_of_scripts(self):
        static, script = elf.write(self.folder / "static"), self.folder / "script"
        for first, code, reason in ((f"#!{static} -x", 126, "statically linked"),
                                    ("#! /nonesuch", 127, "the interpreter of .*no such program"),
                                    ("#!/usr/bin/env -S A=1 static", 126, "statically linked")):
            with self.subTest(first=first):
                script.write_text(first + "\n")
                script.chmod(0o755)
                path = f"{self.folder}:{os.environ['PATH']}"
                self.refused(script, code, reason, PATH=path)

    def test_setuid_and_setgid(self):
        if os.geteuid() != 0:
            self.skipTest("only root gives files to other users")
        if os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("the folder for temporary files is mounted nosuid")
        program = self.folder / "program"
        shutil.copy(shutil.which("true"), program)
        for owner, mode, reason in (((65534, 0), 0o4755, "setuid to user 65534"),
                                    ((0, 65534), 0o2755, "setgid to group 65534")):
            os.chown(program, *owner)
            program.chmod(mode)
            self.refused(program, 126, reason)
        os.chown(program, 0, 0)
        program.chmod(0o4755)  # setuid to the user who runs it: no rights are raised
        self.assertEqual(weft_run("-d", drop_in.UDP, program), (0, "", ""))

    def test_file_capabilities(self):
        if os.geteuid() != 0:
            self.skipTest("only root sets file capabilities")
        program = self.folder / "program"
        shutil.copy(shutil.which("true"), program)
        # VFS_CAP_REVISION_2 with cap_net_raw permitted and effective.
        os.setxattr(program, "security.capability",
                    bytes.fromhex("0100000200200000000000000000000000000000"))
        self.assertEqual(weft_run("-d", drop_in.UDP, program), (0, "", ""))  # root has them anyway
        self.folder.chmod(0o755)
        words = [drop_in.RUN, "-d", drop_in.SHM + "-user", program]
        try:
            done = subprocess.run(words, env=drop_in.environment(), user=65534, group=65534,
                                  capture_output=True, text=True, timeout=60, check=False)
        except PermissionError:
            self.skipTest("other users cannot read the build")
        self.assertEqual(done.returncode, 126)
        self.assertRegex(done.stderr, "file capabilities, so ld.so ignores LD_PRELOAD")


class Runs(WithFolder):
    def output_of(self, *words, **variables):
        code, output, error = weft_run(*words, **variables)
        self.assertEqual((code, error), (0, ""))
        return output

    def test_exit_codes_and_signals_are_those_of_the_program(self):
        for code in (0, 1, 2, 77, 255):
            self.assertEqual(weft_run("sh", "-c", f"exit {code}")[0], code)
        self.assertEqual(weft_run("sh", "-c", "kill -TERM $$")[0], -signal.SIGTERM)
        process = drop_in.Process(["sleep", "60"])
        try:
            os.kill(process.process.pid, signal.SIGINT)
            self.assertEqual(process.wait(), -signal.SIGINT)
        finally:
            process.close()

    def test_arguments_are_passed_as_they_are(self):
        script = "import sys; print(sys.argv[1:])"
        words = ["-d", "x y", "--", "--env", "", "*", "-h"]
        for mark in ([], ["--"]):
            got = self.output_of("-d", drop_in.SHM, *mark, "python3", "-c", script, *words)
            self.assertEqual(got, f"{words}\n")
        self.assertEqual(self.output_of("--", "sh", "-c", "echo $0", "--help"), "--help\n")

    def test_nccl(self):
        script = "echo $NCCL_NET_PLUGIN $LD_LIBRARY_PATH $WEFT_DEVICE"
        folder = drop_in.BUILD / "lib"
        self.assertTrue((folder / "libnccl-net-weft.so").exists())
        got = self.output_of("-d", drop_in.SHM, "--nccl", "sh", "-c", script)
        self.assertEqual(got, f"weft {folder} {drop_in.SHM}\n")
        got = self.output_of("--nccl", "sh", "-c", script, LD_LIBRARY_PATH="/a:/b")
        self.assertEqual(got, f"weft {folder}:/a:/b\n")
        self.assertIn("NCCL_NET_PLUGIN=weft\n", self.output_of("--nccl", "--env=file"))

    def test_libfabric(self):
        script = "echo $FI_PROVIDER_PATH $WEFT_DEVICE"
        folder = drop_in.BUILD / "lib/libfabric"
        if not (folder / "libweft-fi.so").exists():
            self.skipTest("built without libfabric-dev")
        got = self.output_of("-d", drop_in.SHM, "--libfabric", "sh", "-c", script)
        self.assertEqual(got, f"{folder} {drop_in.SHM}\n")
        got = self.output_of("--libfabric", "sh", "-c", script, FI_PROVIDER_PATH="/a:/b")
        self.assertEqual(got, f"{folder}:/a:/b\n")
        both = self.output_of("-d", drop_in.SHM, "--nccl", "--libfabric", "--env=file")
        self.assertEqual(both.count("WEFT_DEVICE="), 1)
        self.assertIn("NCCL_NET_PLUGIN=weft\n", both)

    def test_scripts(self):
        script = self.folder / "script"
        for first in ("#!/bin/sh\n", "#!/usr/bin/env sh\n", ""):
            script.write_text(first + "echo $1 $WEFT_VERBS_DEVICES\n")
            script.chmod(0o755)
            got = self.output_of("-d", drop_in.UDP, "script", "a", PATH=f"{self.folder}:/usr/bin")
            self.assertEqual(got, f"a {drop_in.UDP}\n")

    def test_preloads_that_are_there_are_kept(self):
        folder = drop_in.LIBRARIES
        ours = [str(folder / name) for name in
                ("libweft-paths.so", "libibverbs.so.1", "librdmacm.so.1", "libefa.so.1")
                if (folder / name).exists()]
        command = ["sh", "-c", "echo $LD_PRELOAD"]
        self.assertEqual(self.output_of(*command), ":".join(ours) + "\n")
        kept = self.output_of(*command, LD_PRELOAD="libm.so.6")
        self.assertEqual(kept, ":".join(["libm.so.6", *ours]) + "\n")
        self.assertEqual(self.output_of(drop_in.RUN, *command), ":".join(ours) + "\n")

    def test_which_devices_without_d(self):
        command = ["sh", "-c", "echo $WEFT_VERBS_DEVICES"]
        both = dict(WEFT_VERBS_DEVICES="roce+udp:lo;roce+shm", WEFT_DEVICE="roce+shm")
        self.assertEqual(self.output_of(*command, **both), "roce+udp:lo;roce+shm\n")
        self.assertEqual(self.output_of(*command, WEFT_DEVICE="roce+shm"), "roce+shm\n")
        self.assertRegex(self.output_of(*command), r"^roce\+auto:\w+\n$")
        alone = "ip link set lo up && " + f"{drop_in.RUN} sh -c 'echo $WEFT_VERBS_DEVICES'"
        done = subprocess.run(["unshare", "-rn", "sh", "-c", alone], env=drop_in.environment(),
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            self.skipTest(f"no network namespace: {done.stderr.strip()}")
        self.assertEqual(done.stdout, "roce+auto:lo\n")

    def test_pcap_and_faults_are_keys_of_every_device(self):
        faults = self.folder / "faults"
        faults.write_text("# a lossy link\nloss = 0.01\n\nfault.seed=7 # the same each time\n")
        command = ["sh", "-c", "cd /; echo $WEFT_VERBS_DEVICES"]
        keys = ",fault.loss=0.01,fault.seed=7"
        devices = f"{drop_in.UDP};{drop_in.SHM}"
        for given in (faults, "loss=0.01,seed=7"):
            got = self.output_of("-d", devices, "--faults", given, *command)
            self.assertEqual(got, f"{drop_in.UDP}{keys};{drop_in.SHM}{keys}\n")
        file = self.folder / "capture"
        relative = os.path.relpath(file)
        got = self.output_of("-d", drop_in.UDP, "--pcap", relative, *command)
        self.assertEqual(got, f"{drop_in.UDP},pcap={os.path.join(os.getcwd(), relative)}\n")
        got = self.output_of("-d", devices, "--pcap", file, *command)
        self.assertEqual(got, f"{drop_in.UDP},pcap={file}.weft0;{drop_in.SHM},pcap={file}.weft1\n")
        faults.write_text("loss=0.01\nloss\n")
        code, _, error = weft_run("--faults", faults, "true")
        self.assertEqual(code, 2)
        self.assertIn(f"{faults}:2: 'loss' is not KEY=VALUE", error)

    def test_no_descriptor_of_ours_is_left_open(self):
        words = ["ls", "/proc/self/fd"]
        bare = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              check=True)
        self.assertEqual(self.output_of("-d", f"{drop_in.UDP};{drop_in.SHM}", *words), bare.stdout)


class Environment(unittest.TestCase):
    devices = f"{drop_in.UDP};{drop_in.SHM}"

    def printed(self, kind):
        code, output, error = weft_run("-d", self.devices, kind)
        self.assertEqual((code, error), (0, ""))
        return output

    def setUp(self):
        command = "echo $LD_PRELOAD; echo $WEFT_VERBS_DEVICES"
        self.preload, devices = weft_run("-d", self.devices, "sh", "-c", command)[1].splitlines()
        self.assertEqual(devices, self.devices)

    def test_for_a_shell(self):
        self.assertEqual(self.printed("--env"), self.printed("--env=sh"))
        script = f"eval \"$({drop_in.RUN} -d '{self.devices}' --env)\"; env"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60,
                              env=drop_in.environment(), check=True)
        self.assertIn(f"\nLD_PRELOAD={self.preload}\n", "\n" + done.stdout)
        self.assertIn(f"\nWEFT_VERBS_DEVICES={self.devices}\n", "\n" + done.stdout)

    def test_for_files_dockerfiles_and_mpirun(self):
        values = (("LD_PRELOAD", self.preload), ("WEFT_VERBS_DEVICES", self.devices))
        for kind, form in (("file", "{}={}\n"), ("docker", 'ENV {}="{}"\n'),
                           ("mpirun", "-x {}={}\n")):
            wanted = "".join(form.format(name, value) for name, value in values)
            self.assertEqual(self.printed(f"--env={kind}"), wanted)


if __name__ == "__main__":
    drop_in.main()
