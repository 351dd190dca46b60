#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""weft_stat looks into running programs: what it shows of roce and srd, that it harms none, and
what it says where it cannot look.

// ctest: serial
"""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request

BIN = os.path.join(os.environ["WEFT_BUILD"], "bin")
ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 60


def stat(*arguments, **more):
    """The status, what it said, and what it complained about."""
    done = subprocess.run([os.path.join(BIN, "weft_stat"), *map(str, arguments)], timeout=LIMIT,
                          capture_output=True, text=True, check=False, **more)
    return done.returncode, done.stdout, done.stderr


def look(process, *arguments):
    status, out, error = stat(process, "--json", *arguments)
    assert status == 0, error
    return json.loads(out)


def connect_to(process):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(f"\0weft-stat/{process}")
    return connection


class Programs(unittest.TestCase):
    """Starts both sides of a measuring program, which run until they are stopped."""

    def start(self, program, device, *arguments, seconds=20):
        def side(*more):
            # pylint: disable=consider-using-with
            started = subprocess.Popen(
                [os.path.join(BIN, program), "-d", device, "-p", str(port), "-D", str(seconds),
                 *arguments, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.addCleanup(started.communicate)
            self.addCleanup(started.kill)
            return started
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = side()
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            client = side("127.0.0.1")
            while time.monotonic() < end and client.poll() is None:
                if self.sends(client.pid):
                    return server, client
                time.sleep(0.05)
            time.sleep(0.1)  # the server did not listen yet
        self.fail(server.communicate()[0])

    @staticmethod
    def sends(process):
        status, out, _ = stat(process, "--json", "-i", 0)
        return status == 0 and any(device["counters"]["tx_packets"] > 1000
                                   for device in json.loads(out)["devices"])


class Shows(Programs):
    def test_roce(self):
        server, client = self.start("weft_write_bw", "roce+udp:lo,cc=swift")
        found = look(client.pid)
        self.assertEqual(found["program"], "weft_write_bw")
        self.assertEqual(found["pid"], client.pid)
        device, = found["devices"]
        self.assertEqual((device["provider"], device["port"]), ("roce", "udp"))
        self.assertGreater(device["per_second"]["tx_bytes"], 0)
        busy = max(device["queue_pairs"], key=lambda qp: qp["sent_packets"])
        self.assertEqual((busy["type"], busy["state"]), ("rc", "rts"))
        for key in ("rate_bps", "window_bytes", "rtt_us", "posted_sends", "acked_per_second"):
            self.assertGreater(busy[key], 0, key)
        other, = look(server.pid)["devices"]
        self.assertEqual(busy["address"], other["gid"])
        self.assertIn(busy["peer"], [qp["number"] for qp in other["queue_pairs"]])
        _, text, _ = stat(client.pid, "-i", "0.2")
        self.assertIn(f"queue pair 0x{busy['number']:06x} rc rts to 0x{busy['peer']:06x}", text)

    def test_srd_with_paths(self):
        _, client = self.start("weft_send_bw", "srd+udp:lo,paths=8,path_counters=1", "-c", "SRD")
        device, = look(client.pid)["devices"]
        self.assertEqual({qp["type"] for qp in device["queue_pairs"]}, {"srd"})
        peer, = device["peers"]
        self.assertTrue(peer["active"])
        self.assertEqual(len(peer["paths"]), 8)
        self.assertGreater(sum(path["sent"] for path in peer["paths"]), 1000)
        for key in ("window_bytes", "rtt_us", "acked_per_second"):
            self.assertGreater(peer[key], 0, key)
        _, text, _ = stat(client.pid, "-i", "0.2")
        health = re.findall(r"^ +path +\d+ +(good|slow|dead|probing) ", text, re.M)
        self.assertEqual(len(health), 8, text)

    def test_shared_memory_and_a_list_of_all(self):
        server, client = self.start("weft_write_bw", "roce+shm:stat-test")
        _, text, _ = stat()
        for process in (server, client):
            self.assertRegex(text, rf"(?m)^ *{process.pid}  weft_write_bw  roce\+shm:stat-test$")
        device, = look(client.pid, "-i", "0.2")["devices"]
        self.assertGreater(device["counters"]["tx_packets"], 0)

    def test_without_locks(self):
        _, client = self.start("weft_write_bw", "roce+shm:stat-single,single_thread=1")
        device, = look(client.pid, "-i", "0.2")["devices"]
        self.assertEqual(device["note"], "")
        self.assertGreater(max(qp["acked_per_second"] for qp in device["queue_pairs"]), 0)

    def test_prometheus(self):
        _, client = self.start("weft_send_bw", "srd+udp:lo,paths=4", "-c", "SRD")
        status, text, _ = stat(client.pid, "--prometheus")
        self.assertEqual(status, 0)
        self.check_metrics(text)

    def test_serve(self):
        server, client = self.start("weft_send_bw", "srd+udp:lo,paths=4", "-c", "SRD")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        # pylint: disable=consider-using-with
        serving = subprocess.Popen([os.path.join(BIN, "weft_stat"), "--serve", address],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(serving.kill)
        first = serving.stdout.readline()
        if not first:
            complaint = serving.communicate()[1]
            self.assertIn("apt-get install libcpp-httplib-dev", complaint)
            return
        self.assertEqual(first, f"metrics at http://{address}/metrics\n")
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=LIMIT) as answer:
            self.assertEqual(answer.headers["Content-Type"],
                             "text/plain; version=0.0.4; charset=utf-8")
            text = answer.read().decode()
        self.check_metrics(text)
        for process in (server, client):
            self.assertIn(f'weft_counter_total{{program="weft_send_bw",pid="{process.pid}"', text)
        status, _, complaint = stat("--serve", address)
        self.assertEqual(status, 1)
        self.assertIn(f"cannot listen at {address}: choose another port", complaint)
        with self.assertRaises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://{address}/secrets", timeout=LIMIT)
        serving.send_signal(signal.SIGTERM)
        self.assertEqual(serving.wait(LIMIT), 0)
        serving.communicate()

    def check_metrics(self, text):
        """The text exposition format, version 0.0.4."""
        self.assertTrue(text.endswith("\n"))
        families, typed = [], set()
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                typed.add(line.split()[2])
            if line.startswith("#"):
                continue
            match = re.fullmatch(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)+)\} '
                                 r'[0-9.]+(?:e[+-]?\d+)?', line)
            self.assertTrue(match, line)
            if families[-1:] != [match[1]]:
                families.append(match[1])
        self.assertEqual(len(families), len(set(families)), "a family comes in one piece")
        self.assertLessEqual(set(families), typed)
        for wanted in ("weft_counter_total", "weft_qp_state", "weft_peer_acked_packets_total",
                       "weft_path_good", "weft_path_rtt_microseconds"):
            self.assertIn(wanted, families)


class Dashboard(Programs):
    """tools/stat/grafana.json asks for metrics that there are."""

    def test_expressions(self):
        board = json.loads((ROOT / "tools/stat/grafana.json").read_text(encoding="utf-8"))
        source = (ROOT / "tools/stat/prometheus.cpp").read_text(encoding="utf-8") + \
            (ROOT / "tools/stat/serve.cpp").read_text(encoding="utf-8")
        counters = (ROOT / "lib/transport/counters.hpp").read_text(encoding="utf-8")
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
        self.assertEqual(len(places), len(set(places)))
        for panel in board["panels"]:
            for target in panel["targets"]:
                names = re.findall(r"weft_[a-z_]+", target["expr"])
                self.assertTrue(names, target)
                for name in names:
                    short = re.sub("^weft_(qp|peer)_", "", name)
                    self.assertTrue(f'"{name}"' in source or f'"{short}"' in source
                                    or f"{name}{{" in source, name)
                for name in re.findall(r'name="([a-z_]+)"', target["expr"]):
                    self.assertIn(name, counters)
                for label in re.findall(r"{{([a-z_]+)}}", target["legendFormat"]):
                    self.assertIn(label, source)


class Harms(Programs):
    def test_no_program_that_is_asked_often(self):
        server, client = self.start("weft_write_bw", "roce+udp:lo", seconds=3)
        killed = 0
        while client.poll() is None:
            # pylint: disable=consider-using-with
            asker = subprocess.Popen([os.path.join(BIN, "weft_stat"), str(client.pid), "-c", "0",
                                      "-i", "0.001"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            time.sleep(0.03)
            asker.send_signal(signal.SIGKILL)
            asker.wait()
            killed += 1
        self.assertGreater(killed, 10)
        for side in (server, client):
            self.assertEqual(side.wait(LIMIT), 0, side.stdout.read())

    def test_no_program_by_not_reading(self):
        _, client = self.start("weft_write_bw", "roce+udp:lo", seconds=4)
        idle = [connect_to(client.pid) for _ in range(4)]
        self.assertEqual(stat(client.pid, "-i", 0)[0], 0)
        self.assertEqual(client.wait(LIMIT), 0)
        for connection in idle:
            connection.close()

    def test_itself_not_when_the_process_is_killed(self):
        _, client = self.start("weft_write_bw", "roce+udp:lo")
        # pylint: disable=consider-using-with
        asker = subprocess.Popen([os.path.join(BIN, "weft_stat"), str(client.pid), "-c", "0", "-i",
                                  "0.01"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 text=True)
        self.addCleanup(asker.kill)
        time.sleep(0.3)
        client.kill()
        client.wait()
        _, error = asker.communicate(timeout=LIMIT)
        self.assertEqual(asker.returncode, 1)
        self.assertRegex(error, "there is no process|no weft device|ended|closed")
        with open("/proc/net/unix", encoding="utf-8") as sockets:
            self.assertNotIn(f"@weft-stat/{client.pid}\n", sockets.read())

    def test_no_program_that_is_stopped(self):
        _, client = self.start("weft_write_bw", "roce+udp:lo")
        client.send_signal(signal.SIGSTOP)
        status, _, error = stat(client.pid)
        client.send_signal(signal.SIGCONT)
        self.assertEqual(status, 1)
        self.assertIn("does not answer: is it stopped?", error)


class Refuses(Programs):
    def test_who_is_not_there(self):
        gone = subprocess.Popen(["true"])  # pylint: disable=consider-using-with
        gone.wait()
        self.assertEqual(stat(gone.pid), (1, "", f"weft_stat: there is no process {gone.pid}\n"))

    def test_who_has_no_device(self):
        status, _, error = stat(os.getpid())
        self.assertEqual(status, 1)
        self.assertRegex(error, rf"process {os.getpid()} \(.*\) has no weft device open")

    def test_an_impostor(self):
        sleeper = subprocess.Popen(["sleep", "60"])  # pylint: disable=consider-using-with
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as impostor:
            impostor.bind(f"\0weft-stat/{sleeper.pid}")
            impostor.listen()
            status, _, error = stat(sleeper.pid)
        self.assertEqual(status, 1)
        self.assertIn(f"process {os.getpid()} answers in its place, which is not believed", error)

    @unittest.skipUnless(os.geteuid() == 0, "another user can be had by root only")
    def test_another_user(self):
        _, client = self.start("weft_write_bw", "roce+udp:lo")
        unprivileged = {"user": 65534, "group": 65534, "extra_groups": []}
        status, _, error = stat(client.pid, **unprivileged)
        self.assertEqual(status, 1)
        self.assertIn("is root's: ask as root", error)
        # Who asks the socket itself gets no more.
        code = ("import socket,sys; s=socket.socket(socket.AF_UNIX); "
                f"s.connect('\\0weft-stat/{client.pid}'); print(s.recv(4096).decode())")
        done = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True,
                              check=True, timeout=LIMIT, **unprivileged)
        self.assertEqual(json.loads(done.stdout), {"error": "permission denied"})

    @unittest.skipUnless(os.geteuid() == 0, "a network namespace needs root")
    def test_not_who_is_in_another_network_namespace(self):
        # pylint: disable=consider-using-with
        program = subprocess.Popen(
            ["unshare", "--net", "sh", "-c",
             f"ip link set lo up; exec {BIN}/weft_write_bw -d roce+udp:lo"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        end = time.monotonic() + LIMIT
        while (answer := stat(program.pid, "-i", 0))[0] != 0 and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(answer[0], 0, answer[2])
        self.assertIn("weft_write_bw, process", answer[1])


if __name__ == "__main__":
    unittest.main()
