// SPDX-License-Identifier: BSD-3-Clause
// A switch in a process: `weft_switch serve` stands between devices of other processes,
// `weft_switch demo` compares controllers before one bottleneck.
#include <CLI/CLI.hpp>

#include "bench/perftest/command_line.hpp"
#include "tools/switch/demo.hpp"
#include "tools/switch/serve.hpp"

int main(int argc, char** argv) {
  weft::bench::Shape shape;
  weft::bench::DemoOptions options;
  CLI::App app("weft_switch: a switch with a shared buffer, ECN and telemetry, in real time.");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  CLI::App* const server =
      app.add_subcommand("serve", "Switch between roce+udp and srd+udp devices");
  server->add_option("--hosts", shape.hosts, "Their loopback addresses")->delimiter(',');
  server->add_option("--mbps", shape.mbps, "Rate of every port")->check(CLI::Range(1, 1'000'000));
  server->add_option("--port", shape.port_mbps, "HOST=MBPS: of a single port");
  server->add_option("--delay-us", shape.delay_us, "Of each cable, one way")
      ->check(CLI::Range(0.0, 1e6));
  server->add_option("--buffer-kb", shape.buffer_kb, "Shared by all ports")
      ->check(CLI::Range(1.0, 1e6));
  server->add_option("--kmin-us", shape.kmin_us, "No ECN mark below this much queue")
      ->check(CLI::Range(0.0, 1e6));
  server->add_option("--kmax-us", shape.kmax_us, "All marked above")->check(CLI::Range(0.0, 1e6));
  server->add_option("--pmax", shape.pmax, "Share marked at kmax; 0: no marks")
      ->check(CLI::Range(0.0, 1.0));
  server
      ->add_option("--digest-rtt-us", shape.digest_rtt_us,
                   "T of the digests for hpcc-pint; 0: none")
      ->check(CLI::Range(0.0, 1e6));
  std::string control;
  server->add_option("--control", control, "Read commands from this FIFO too; it is made");
  server->add_flag("!--no-telemetry", shape.telemetry, "Do not stamp");
  CLI::App* const show = app.add_subcommand("demo", "Two senders, one bottleneck");
  show->add_option("--hosts", options.hosts, "Loopback addresses: two senders, the receiver")
      ->delimiter(',')
      ->expected(3);
  show->add_option("--cc", options.controllers, "Controllers to compare")->delimiter(',');
  show->add_option("--mbps", options.mbps, "Rate of every cable")->check(CLI::Range(1, 100'000));
  show->add_option("--delay-us", options.delay_us, "Of each cable, one way")
      ->check(CLI::Range(1.0, 1e5));
  show->add_option("--mtu", options.mtu, "Path MTU")
      ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}));
  show->add_option("--kmin-rtts", options.kmin_rtts, "No ECN mark below this much queue")
      ->check(CLI::Range(0.0, 1e3));
  show->add_option("--kmax-rtts", options.kmax_rtts, "All marked above")
      ->check(CLI::Range(0.0, 1e3));
  show->add_option("--pmax", options.pmax, "Share marked at kmax")->check(CLI::Range(0.0, 1.0));
  show->add_option("--warm-up", options.warm_up_s, "Seconds before measuring")
      ->check(CLI::Range(0.0, 1e4));
  show->add_option("--seconds", options.seconds, "Seconds measured")->check(CLI::Range(0.01, 1e4));
  show->add_option("--runs", options.runs, "Of each controller")->check(CLI::Range(1, 1000));
  show->add_option("--set", options.keys, "More keys of the senders' devices, like cc.eta=0.9");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  return server->parsed() ? weft::bench::serve(shape, control) : weft::bench::demo(options);
}
