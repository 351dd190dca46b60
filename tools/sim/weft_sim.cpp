// SPDX-License-Identifier: BSD-3-Clause
// The simulator as a program: `weft_sim run` compares controllers over a network, flows and jobs,
// `weft_sim diff` two results, `weft_sim explain` tells the life of a flow, `weft_sim keys` lists
// every parameter.
// link: chart
#include <CLI/CLI.hpp>

#include "bench/perftest/command_line.hpp"
#include "tools/sim/command_keys.hpp"
#include "tools/sim/command_run.hpp"
#include "tools/sim/diff.hpp"

namespace {

using namespace weft;

// What to run: of run and explain.
void add_run_options(CLI::App& runner, bench::RunCommand& run, std::string& fidelity) {
  runner.add_option("scenario", run.scenario,
                    "A TOML file, or the name of one that comes with weft: websearch-50");
  runner.add_option("settings", run.words, "cc=NAME,NAME as --cc, key=value as --set");
  runner.add_option("--topology", run.topology, "CSV of links: node_a,node_b,gbps,delay_ns");
  runner.add_option("--degraded", run.degraded, "CSV of slower directions: from,to,gbps");
  runner.add_option(
      "--flows", run.flows,
      "CSV of flows: start_ns,src,dst,bytes[,sport][,dport][,class][,path][,after][,think_ns]");
  runner.add_option("--events", run.events,
                    "CSV of what happens to links: at_ns,from,to[,state][,gbps][,loss][,both]");
  runner
      .add_option("--cc", run.controllers,
                  "Controllers, separated by commas; ./mine.so is a shared object with one")
      ->delimiter(',');
  runner.add_option("--set", run.settings, "key=value; `weft_sim keys` lists the keys");
  runner.add_option("--until", run.until, "End of the run, say 2ms; default: all flows are done");
  runner.add_option("--seed", run.seed, "Of random flows, ECMP and marking");
  runner.add_option("--seeds", run.seeds, "A range: 1..5; tables and plots then have bands");
  runner.add_option("--sweep", run.sweeps, "key=value,value...: a run for each value");
  runner.add_option("--jobs", run.jobs, "Runs at a time; default: one per core");
  runner
      .add_option(
          "--fidelity", fidelity,
          "flow: light hosts; engine: hosts with the RoCE engine or, if the controller sprays, the "
          "SRD engine; srd: the SRD engine (default: host.fidelity of the scenario, flow)")
      ->check(CLI::IsMember({"flow", "engine", "srd"}));
}

// What to write of it.
void add_output_options(CLI::App& runner, bench::RunCommand& run) {
  runner.add_option("--out", run.out,
                    "Directory for flows.csv, queues.csv, summary.json, report.html");
  runner.add_option("--buckets", run.buckets, "Upper ends of the size buckets, in bytes")
      ->delimiter(',');
  runner.add_flag("--series", run.series, "Write series.csv too: rates and queue over time");
  runner
      .add_option("--series-flows", run.series_flows,
                  "Rates of these flows: 0,3 (numbers in the list), at most 8; default: the first")
      ->delimiter(',');
  runner.add_option("--pcap", run.pcap,
                    "Capture of what arrives at hosts, as RoCEv2; of several runs one file each");
  runner.add_option("--pcap-flows", run.pcap_flows, "Of these flows only: 0,3")->delimiter(',');
}

}  // namespace

int main(int argc, char** argv) {
  weft::bench::RunCommand run;
  std::string fidelity;  // empty: the scenario's
  CLI::App app("weft_sim: congestion control in a simulated network.");
  app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  CLI::App* const runner = app.add_subcommand("run", "Run flows under one or more controllers");
  add_run_options(*runner, run, fidelity);
  add_output_options(*runner, run);
  bench::DiffCommand diff;
  CLI::App* const differ = app.add_subcommand(
      "diff", "What changed between two results: figures, flows, links (exit code 1 if any)");
  differ->add_option("before", diff.before, "A folder of --out")->required();
  differ->add_option("after", diff.after, "Another")->required();
  differ->add_option("--most", diff.most, "Flows and links to list");
  differ->add_flag("--json", diff.json, "As JSON");
  uint32_t flow = 0;
  bool json = false;
  CLI::App* const explainer = app.add_subcommand(
      "explain", "The life of one flow: waits by hop, pauses, rate, losses, messages");
  explainer->add_option("flow", flow, "Its row in flows.csv, from 0 on")->required();
  add_run_options(*explainer, run, fidelity);
  explainer->add_flag("--json", json, "As JSON");
  CLI::App* const keys = app.add_subcommand(
      "keys", "List every key with its default, unit and what it is or where that is from");
  std::vector<std::string> names;
  keys->add_option("controller", names,
                   "Of these controllers only, with what differs from the source");
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  if (keys->parsed()) return weft::bench::command_keys(names);
  if (differ->parsed()) return bench::command_diff(diff);
  if (!fidelity.empty()) run.settings.push_back("host.fidelity=" + fidelity);
  if (explainer->parsed()) return bench::command_explain(run, flow, json);
  return bench::command_run(run);
}
