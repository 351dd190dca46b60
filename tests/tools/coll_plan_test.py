#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_coll explain and sim as a user starts them: schedules that are proven, times beside their
bounds, a plot, networks of one chip, and experts."""
import os
import pathlib
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")).resolve() / "bin/weft_coll"
NETWORKS = pathlib.Path(__file__).resolve().parents[2] / "scenarios/collectives"
LIMIT = 120


def run(*words, cwd=None):
    done = subprocess.run([str(PROGRAM), *words], capture_output=True, text=True, timeout=LIMIT,
                          cwd=cwd, check=False)
    return done.returncode, done.stdout, done.stderr


class Plan(unittest.TestCase):
    def algorithms(self, operation):
        """All that there are, as the program says when it is asked for another."""
        code, _, err = run("explain", operation, "--algorithm", "none")
        self.assertEqual(code, 2)
        names = err.split("there are: ")[1].strip().split(", ")
        self.assertEqual(len(names), len(set(names)))
        return names

    def proven(self, *words):
        code, out, err = run("explain", *words)
        self.assertEqual(code, 0, err)
        rows = [line.split() for line in out.splitlines()[2:] if line.endswith("proven")]
        self.assertEqual(len(rows), len(out.splitlines()) - 2, out)
        return {row[0]: row for row in rows}

    def test_explain_proves_several_waves(self):
        for name, network in (("bucket", "trn2-ultraserver-4x4x4"),
                              ("hierarchical", "trn2-x4-torus-4x4-200g")):
            words = ("all_reduce", "--algorithm", name, "--topology", network, "--count", "256")
            one, several = (int(self.proven(*words, *wave)[name][2])
                            for wave in ((), ("--wave", "1")))
            self.assertGreater(several, one)

    def test_explain_proves_what_it_prints(self):
        for operation in ("all_reduce", "reduce_scatter", "broadcast", "reduce_scatter_v",
                          "all_to_all", "dispatch", "combine"):
            names = self.algorithms(operation)
            self.assertEqual(list(self.proven(operation, "-r", "8")), names)
            of_six = self.proven(operation, "-r", "6", "--type", "bf16")
            for name in names:
                code, _, err = run("explain", operation, "-r", "6", "--algorithm", name)
                self.assertEqual(code == 0, name in of_six)
                if code:
                    self.assertIn("needs a power of two of ranks", err)
        ring = self.proven("all_reduce", "-r", "6", "--algorithm", "ring")["ring"]
        self.assertEqual(ring[1], "10")  # a ring of six takes ten steps
        code, out, _ = run("explain", "broadcast", "-r", "4", "--algorithm", "binomial", "--rank",
                           "2")
        self.assertEqual(code, 0)
        self.assertIn("receive output[0..16) from 0", out)
        self.assertIn("put output[0..16) to 3  after 0", out)

    def test_explain_of_many_elements_says_that_it_proves_fewer(self):
        for operation in ("all_reduce", "all_to_all"):
            code, out, err = run("explain", operation, "-r", "3", "--count", "1000000000000")
            self.assertEqual(code, 0, err)
            for line in out.splitlines()[2:]:
                self.assertIn("not proven: that is for at most", line)

    def test_explain_arranges_ranks_as_a_network_does(self):
        folder = NETWORKS
        torus = ("--topology", f"{folder}/trn2-torus-4x4.toml")
        flat = self.proven("all_reduce", "-r", "16")
        rows = self.proven("all_reduce", *torus)
        self.assertEqual(list(rows), list(flat))
        # Two dimensions of rings of four, there and back; one ring of 16 in both directions.
        self.assertEqual((rows["bucket"][1], flat["bucket"][1]), ("12", "30"))
        self.assertEqual(rows["ring"], flat["ring"])
        racks = ("--topology", f"{folder}/trn3-nl32x2-gen3.toml", "--count", "64")
        self.assertIn("racks", self.proven("dispatch", *racks))
        code, out, _ = run("explain", "combine", *racks)
        self.assertEqual((code, out.count("proven")), (0, 2))
        self.assertIn("the part inside racks; a second call sends the sums across racks", out)
        code, _, err = run("explain", "all_reduce", "--topology", "trn9")
        self.assertEqual((code, "scenarios/collectives" in err), (2, True))

    def test_sim_prints_time_bound_and_bottleneck(self):
        folder = NETWORKS
        code, out, err = run("sim", "all_to_all", "--topology", f"{folder}/trn3-nl32x2-gen3.toml",
                             "--size", "1GiB", "--best")
        self.assertEqual(code, 0, err)
        row = out.splitlines()[-1].split()
        self.assertEqual(row[:2], ["1GiB", "direct"])
        self.assertGreaterEqual(float(row[2]), float(row[3]))  # time, bound
        self.assertIn("cross-rack", out.splitlines()[-1])
        with tempfile.TemporaryDirectory() as place:
            plot = pathlib.Path(place) / "plot.svg"
            code, _, err = run("sim", "all_to_all", "--topology", f"{folder}/trn3-nl32x2-gen3.toml",
                               "--plot", str(plot))
            self.assertEqual(code, 0, err)
            text = plot.read_text(encoding="utf-8")
            drawing = xml.etree.ElementTree.fromstring(text)
            space = "{http://www.w3.org/2000/svg}"
            self.assertEqual(drawing.tag, f"{space}svg")
            self.assertIn(".l{fill:none", drawing.findtext(f"{space}style"))
            width = float(drawing.get("viewBox").split()[2])
            for word in drawing.iter(f"{space}text"):  # 6 units a letter
                if word.text.startswith("trn3"):
                    self.assertLess(float(word.get("x")) + 6 * len(word.text), width, word.text)
            for line in ("direct", "pairwise", "bound"):
                self.assertIn(f"trn3-nl32x2-gen3 {line}", text)
            code, _, err = run("sim", "all_to_all", "--topology", f"{folder}/trn3-nl32x2-gen3.toml",
                               "--plot", place)
            self.assertEqual((code, "cannot write" in err), (2, True))
        code, out, err = run("sim", "--topology", "trn3-nl72x2", "--op", "all_to_all", "--size",
                             "1GiB", "--best", cwd=folder.parents[1])
        self.assertEqual(code, 0, err)
        profiles = sorted(file.stem for file in folder.glob("trn3-nl72x2-*.toml"))
        self.assertGreater(len(profiles), 1)
        self.assertTrue(out.startswith("all_to_all"), out)
        heads = [line.split(":")[0] for line in out.splitlines() if line.startswith("trn3")]
        self.assertEqual(heads, profiles)
        code, _, err = run("sim", "all_to_all", "--topology", "trn9")
        self.assertEqual(code, 2)
        self.assertIn("scenarios/collectives", err)

    def test_sim_of_nothing_and_of_one_chip(self):
        with tempfile.TemporaryDirectory() as place:
            alone = pathlib.Path(place) / "alone.toml"
            alone.write_text("link_latency_us = 1\n[torus]\nnames = ['x']\nsizes = [1]\n"
                             "gigabytes_per_s = [1]\n", encoding="utf-8")
            folder = NETWORKS
            for words in (("--topology", str(alone), "--plot", f"{place}/plot.svg"),
                          ("--topology", str(alone), "--packets"),
                          ("--topology", f"{folder}/trn2-torus-4x4.toml", "--plot",
                           f"{place}/plot.svg")):
                for operation in ("all_reduce", "reduce", "all_to_all", "dispatch", "combine"):
                    code, out, err = run("sim", operation, "--size", "0,1,1MiB", *words)
                    self.assertEqual(code, 0, (words, out, err))
                    self.assertNotRegex(out, r"\b(nan|inf)\b")
            code, _, err = run("sim", "reduce", "--root", "1", "--topology", str(alone))
            self.assertEqual(code, 2)
            self.assertIn("alone has 1 chips", err)

    def test_sim_of_experts(self):
        racks = NETWORKS / "trn3-nl32x2-gen1.toml"
        # 8 tokens of each chip, to 8 of 128 experts: 255 of 256 tokens have one in the other rack.
        layer = ("--topology", str(racks), "--type", "bf16", "--experts", "2", "--choices", "8",
                 "--width", "7168", "--size", "896KiB")
        bound_us = 8 * 32 * 7168 * 2 / 4096e9 * 1e6
        for words in ((), ("--packets",)):
            times = {}
            for operation in ("dispatch", "combine"):
                code, out, err = run("sim", operation, *layer, *words)
                self.assertEqual(code, 0, (out, err))
                for row in out.splitlines()[-3:]:
                    _, algorithm, time_us, printed_us = row.split()[:4]
                    times[operation, algorithm] = float(time_us)
                    self.assertAlmostEqual(float(printed_us), bound_us, delta=0.1)
            self.assertEqual(len(times), 6)
            self.assertGreater(times["dispatch", "direct"], 1.2 * times["dispatch", "racks"])
            # What comes back crosses in a call of its own, as sums of fp32.
            self.assertGreater(times["combine", "racks"], 1.2 * times["dispatch", "racks"])
        code, _, err = run("sim", "dispatch", "--topology", "trn3-nl72x2-gen1", "--experts", "4096",
                           "--size", "1MiB", cwd=NETWORKS.parents[1])
        self.assertEqual((code, "limit: use fewer --experts" in err), (2, True), err)
        code, _, err = run("sim", "dispatch", "--topology", str(racks), "--choices", "257")
        self.assertEqual((code, "257 of 256 experts: fewer --choices" in err), (2, True), err)


if __name__ == "__main__":
    unittest.main()
