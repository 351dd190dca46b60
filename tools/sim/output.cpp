// SPDX-License-Identifier: BSD-3-Clause
// The files of a run: flows.csv (one row per flow of the input, in its order, then the connections
// of jobs; an empty FCT is a flow that did not finish), of jobs messages.csv, queues.csv,
// links.csv, on request series.csv, and summary.json, which names every parameter in force.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/congestion/path_names.hpp"
#include "tools/sim/command_run.hpp"

namespace weft::bench {
namespace {

using Json = nlohmann::ordered_json;

Error cannot_write(const std::filesystem::path& path) {
  return Error{Code::io_error, path.string() + ": cannot be written"};
}

Result<void> write_flows(const Comparison& comparison, const std::filesystem::path& path) {
  std::ofstream out(path);
  out << "src,dst,bytes,start_ns,ideal_ns";
  for (const Outcome& outcome : comparison.outcomes) out << ",fct_" << outcome.label << "_ns";
  out << '\n';
  for (size_t i = 0; i < comparison.scenario.flows.size(); ++i) {
    const sim::flow::FlowSpec& flow = comparison.scenario.flows[i];
    out << flow.src << ',' << flow.dst << ',' << flow.bytes << ','
        << comparison.outcomes[0].result.flows[i].started_ns << ','
        << comparison.outcomes[0].result.flows[i].ideal_ns;
    for (const Outcome& outcome : comparison.outcomes) {
      out << ',';
      const int64_t fct = outcome.result.flows[i].fct_ns;
      if (fct >= 0) out << fct;
    }
    out << '\n';
  }
  out.flush();
  if (!out) return cannot_write(path);
  return {};
}

// Every message of every job, in the order of its connection; an empty time did not come.
Result<void> write_messages(const Comparison& comparison, const std::filesystem::path& path) {
  std::ofstream out(path);
  out << "job,task,flow,src,dst,bytes";
  for (const Outcome& outcome : comparison.outcomes)
    for (const char* const time : {"started", "arrived", "acknowledged"})
      out << ',' << time << '_' << outcome.label << "_ns";
  out << '\n';
  for (const job::Job& job : comparison.jobs)
    for (uint32_t number = job.first_task; number < job.first_task + job.tasks; ++number) {
      const sim::flow::Task& task = comparison.tasks->tasks[number];
      if (task.flow == sim::flow::kNoFlow) continue;
      const sim::flow::FlowSpec& flow = comparison.scenario.flows[task.flow];
      out << job.spec.name << ',' << number << ',' << task.flow << ',' << flow.src << ','
          << flow.dst << ',' << task.bytes;
      for (const Outcome& outcome : comparison.outcomes) {
        const sim::flow::TaskTimes& times = outcome.result.tasks[number];
        for (const int64_t at : {times.started_ns, times.arrived_ns, times.acknowledged_ns}) {
          out << ',';
          if (at >= 0) out << at;
        }
      }
      out << '\n';
    }
  out.flush();
  if (!out) return cannot_write(path);
  return {};
}

// All switch ports together first, then the ports that ever held 1 KB, per window.
Result<void> write_queues(const Comparison& comparison, const std::filesystem::path& path) {
  std::ofstream out(path);
  out << "controller,port,from,to,begin_ns,p50_bytes,p95_bytes,p99_bytes,p999_bytes,max_bytes\n";
  for (const Outcome& outcome : comparison.outcomes) {
    const sim::flow::QueueSamples& queues = outcome.result.queues;
    out << outcome.label << ",all,,,0";
    for (const double share : {0.5, 0.95, 0.99, 0.999})
      out << ',' << queues.percentile_kb(share) * 1000;
    out << ',' << queues.most_kb() * 1000 << '\n';
    for (const sim::flow::QueueSamples::Window& w : queues.windows())
      out << outcome.label << ',' << w.port << ',' << w.from << ',' << w.to << ',' << w.begin_ns
          << ',' << w.median_kb * 1000 << ",,,," << w.most_kb * 1000 << '\n';
  }
  out.flush();
  if (!out) return cannot_write(path);
  return {};
}

// Every direction of every link, by what it did under each controller.
Result<void> write_links(const Comparison& comparison, const std::filesystem::path& path) {
  std::ofstream out(path);
  out << "controller,from,to,utilisation,sent_bytes,most_queue_bytes,paused_ns\n";
  for (const Outcome& outcome : comparison.outcomes)
    for (const sim::flow::PortUse& use : outcome.result.ports)
      out << outcome.label << ',' << use.from << ',' << use.to << ',' << use.utilisation << ','
          << use.sent_bytes << ',' << use.most_queue_bytes << ',' << use.paused_ns << '\n';
  out.flush();
  if (!out) return cannot_write(path);
  return {};
}

// Rates of the chosen flows and the longest queue, over time.
Result<void> write_series(const Comparison& comparison, const std::filesystem::path& path) {
  const std::vector<uint32_t> flows =
      sim::flow::series_flows(comparison.options, comparison.scenario.flows.size());
  std::ofstream out(path);
  out << "controller,at_ns,longest_queue_bytes";
  for (const uint32_t flow : flows) out << ",gbps_of_flow_" << flow;
  out << '\n';
  for (const Outcome& outcome : comparison.outcomes)
    for (const sim::flow::Series::Point& point : outcome.result.series.points()) {
      out << outcome.label << ',' << point.at_ns << ',' << point.longest_queue;
      for (size_t i = 0; i < flows.size(); ++i) out << ',' << point.gbps[i];
      out << '\n';
    }
  out.flush();
  if (!out) return cannot_write(path);
  return {};
}

Json describe_controller(const Outcome& outcome) {
  Json parameters = Json::object();
  const sim::flow::Scheme& scheme = outcome.scheme;
  const congestion::Preset& preset = scheme.presets.front();
  for (size_t i = 0; i < scheme.kind->parameters.size(); ++i)
    parameters[std::string(scheme.kind->parameters[i].name)] = preset[i];
  const sim::fabric::Settings& fabric = scheme.fabric;
  Json spraying = nullptr;
  if (scheme.sprayed())
    spraying = {{"policy", congestion::path_choice_name(scheme.paths.choice)},
                {"evs", scheme.paths.count},
                {"ack_every_bytes", scheme.ack_every_bytes},
                {"timeout_us", double(scheme.timeout_ps) / 1e6},
                {"trims", fabric.trims},
                {"queue_bytes_per_gbps", fabric.queue_bytes_per_gbps},
                {"marks_last_hop", fabric.marks_last_hop}};
  return {{"parameters", parameters},
          {"spraying", spraying},
          {"window_bytes", preset.windowed ? Json(preset.window_bytes) : Json(nullptr)},
          {"base_rtt_ns", scheme.base_rtt_ns},
          {"data_packet_bytes", scheme.payload + scheme.data_overhead},
          {"ack_bytes", scheme.ack_bytes},
          {"ack_class", scheme.ack_control ? 0 : 3},
          {"acks_ignore_pause", scheme.acks_ignore_pause},
          {"kmin_bytes_per_gbps", fabric.kmin_bytes_per_gbps},
          {"kmax_bytes_per_gbps", fabric.kmax_bytes_per_gbps},
          {"pmax", fabric.pmax},
          {"int_sent_step", fabric.telemetry.sent_step},
          {"int_queue_step", fabric.telemetry.queue_step}};
}

Json describe_buckets(const Comparison& comparison, const Outcome& outcome) {
  Json list = Json::array();
  for (const Bucket& bucket : slowdowns(comparison, outcome))
    list.push_back({{"above_bytes", bucket.low},
                    {"to_bytes", std::isinf(bucket.high) ? Json(nullptr) : Json(bucket.high)},
                    {"flows", bucket.slowdowns.size()},
                    {"p50", bucket.percentile(0.5)},
                    {"p95", bucket.percentile(0.95)},
                    {"p99", bucket.percentile(0.99)},
                    {"p999", bucket.percentile(0.999)}});
  return list;
}

Json describe_times(const Comparison& comparison, const Outcome& outcome) {
  const Times times = completion_times(comparison, outcome);
  return {{"first", times.first}, {"p50", times.p50}, {"p99", times.p99}, {"last", times.last}};
}

Json describe_jobs(const Comparison& comparison, const Outcome& outcome) {
  Json list = Json::array();
  const sim::fabric::Topology& topology = comparison.scenario.topology;
  for (size_t i = 0; i < outcome.jobs.size(); ++i) {
    const job::Job& job = comparison.jobs[i];
    const JobOutcome& of = outcome.jobs[i];
    const uint32_t port = of.difference.slowest_port;
    list.push_back({{"name", job.spec.name},
                    {"operation", name(job.shape.collective)},
                    {"algorithm", job.algorithm->name},
                    {"ranks", job.ranks()},
                    {"nics", job.spec.nics},
                    {"bytes", job.bytes},
                    {"schedule", job.proof},
                    {"steps", job.spec.steps},
                    {"step_ns", of.figures.step_ns},
                    {"median_step_ns", of.figures.median_step_ns},
                    {"compute_ns", job.spec.compute_ns},
                    {"communication_ns", of.figures.communication_ns},
                    {"exposed_ns", of.figures.exposed_ns},
                    {"algorithm_gbytes_per_s", of.figures.algorithm_gbytes_per_s},
                    {"bus_gbytes_per_s", of.figures.bus_gbytes_per_s},
                    {"flow_level_step_ns", of.level.step_s * 1e9},
                    {"ratio_to_flow_level", of.difference.ratio},
                    {"slowest_link",
                     {{"from", topology.from(port)},
                      {"to", topology.to(port)},
                      {"utilisation", of.difference.slowest_utilisation}}},
                    {"reasons", of.difference.reasons},
                    {"unfinished_tasks", of.figures.unfinished}});
  }
  return list;
}

Json describe_outcome(const Comparison& comparison, const Outcome& outcome) {
  const sim::flow::RunResult& r = outcome.result;
  const Fairness jain = fairness(comparison, outcome);
  char digest[20];
  std::snprintf(digest, sizeof digest, "%016llx", static_cast<unsigned long long>(r.digest));
  return {{"controller", outcome.label},
          {"in_force", describe_controller(outcome)},
          {"jobs", describe_jobs(comparison, outcome)},
          {"jain_of_jobs", fairness_of_jobs(outcome)},
          {"flows", r.flows.size()},
          {"unfinished", r.flows.size() - finished(outcome)},
          {"end_ns", r.end_ns},
          {"slowdown", describe_buckets(comparison, outcome)},
          {"fct_us", describe_times(comparison, outcome)},
          {"goodput_gbps", goodput_gbps(comparison, outcome)},
          {"jain", {{"mean", jain.mean}, {"least", jain.least}, {"links", jain.links}}},
          {"queue_samples", r.queues.count()},
          {"queue_p50_bytes", r.queues.percentile_kb(0.5) * 1000},
          {"queue_p95_bytes", r.queues.percentile_kb(0.95) * 1000},
          {"queue_p99_bytes", r.queues.percentile_kb(0.99) * 1000},
          {"queue_max_bytes", r.queues.most_kb() * 1000},
          {"pfc_pauses", r.counters.pauses},
          {"pfc_paused_ns", r.paused_ns},
          {"packets_sent", r.counters.sent},
          {"packets_delivered", r.counters.delivered},
          {"packets_dropped", r.counters.dropped},
          {"packets_lost_by_links", r.counters.lost},
          {"packets_trimmed", r.counters.trimmed},
          {"hops_without_telemetry", r.counters.unrecorded},
          {"packets_in_flight_at_the_end", r.in_flight},
          {"data_packets_delivered", r.data_delivered},
          {"data_packets_retransmitted", r.retransmitted},
          {"data_packets_marked", r.counters.marked},
          {"busiest_link", r.busiest_link},
          {"deadlock", r.deadlocked ? Json(r.deadlock) : Json(nullptr)},
          {"stalled", r.stalled},
          {"events", r.events},
          {"digest", digest},
          {"seconds", outcome.seconds}};
}

Result<void> write_summary(const Comparison& comparison, const std::filesystem::path& path) {
  const RunCommand& command = comparison.command;
  Json parameters = Json::object();
  for (size_t i = 0; i < sim::flow::Parameters::keys().size(); ++i) {
    const sim::flow::Key& key = sim::flow::Parameters::keys()[i];
    const double value = comparison.parameters[static_cast<sim::flow::Net>(i)];
    const bool is_text = !key.words.empty() || (key.may_be_auto && value == sim::flow::kAuto);
    parameters[std::string(key.name)] =
        is_text ? Json(sim::flow::Parameters::text(key, value)) : Json(value);
  }
  Json summary = {{"title", comparison.scenario.title},
                  {"scenario", command.scenario.empty() ? Json(nullptr) : Json(command.scenario)},
                  {"topology", command.topology},
                  {"degraded", command.degraded.empty() ? Json(nullptr) : Json(command.degraded)},
                  {"flows", command.flows},
                  {"seed", comparison.seed},
                  {"until", command.until.empty() ? Json(nullptr) : Json(command.until)},
                  {"fidelity", sim::flow::Parameters::text(
                                   sim::flow::Parameters::keys()[size_t(sim::flow::Net::fidelity)],
                                   comparison.parameters[sim::flow::Net::fidelity])},
                  {"settings", command.settings},
                  {"parameters", parameters},
                  {"runs", Json::array()}};
  for (const Outcome& outcome : comparison.outcomes)
    summary["runs"].push_back(describe_outcome(comparison, outcome));
  std::ofstream out(path);
  out << summary.dump(2) << '\n';
  out.flush();
  if (!out) return cannot_write(path);
  return {};
}

}  // namespace

Result<void> write_results(const Comparison& comparison, const std::string& name) {
  const std::filesystem::path folder = name;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error{Code::io_error, folder.string() + ": " + error.message()};
  Result<void> done = write_flows(comparison, folder / "flows.csv");
  if (done && !comparison.jobs.empty()) done = write_messages(comparison, folder / "messages.csv");
  if (done) done = write_queues(comparison, folder / "queues.csv");
  if (done) done = write_links(comparison, folder / "links.csv");
  if (done && comparison.command.series) done = write_series(comparison, folder / "series.csv");
  if (done) done = write_summary(comparison, folder / "summary.json");
  return done;
}

}  // namespace weft::bench
