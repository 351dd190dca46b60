// SPDX-License-Identifier: BSD-3-Clause
// See job_tables.hpp.
#if __has_include(<toml++/toml.h>)

#include "lib/sim/scenario/job_tables.hpp"

#include <algorithm>

namespace weft::sim::scenario {
namespace {

constexpr uint32_t kMostSteps = 10'000;

// `hosts` = [4, 5, 6] as they are; else `ranks` (all that there are) from host `first` on, every
// `stride`th.
std::vector<uint32_t> hosts_of(Section& section, const fabric::Topology& topology, uint32_t nics) {
  std::vector<uint32_t> hosts;
  const auto count = static_cast<uint32_t>(topology.hosts().size());
  const uint32_t first = section.count("first", 0);
  const uint32_t stride = std::max(1u, section.count("stride", 1));
  const uint32_t fitting = first < count ? (count - first + stride - 1) / stride : 0;
  const uint32_t ranks = section.count("ranks", fitting / nics);
  const toml::node* const list = section.node("hosts");
  if (list != nullptr && !list->is_array()) section.fail("hosts", "must be a list of hosts");
  if (list != nullptr && list->is_array()) {
    for (const toml::node& node : *list->as_array())
      hosts.push_back(static_cast<uint32_t>(node.value<int64_t>().value_or(-1)));
  } else if (uint64_t{ranks} * nics > fitting) {
    section.fail("ranks", "from host " + std::to_string(first) + " on there are " +
                              std::to_string(fitting) + " NICs, for " + std::to_string(ranks) +
                              " ranks of " + std::to_string(nics));
  } else {
    for (uint32_t i = 0; i < ranks * nics; ++i)
      hosts.push_back(topology.hosts()[first + i * stride]);
  }
  if (hosts.size() < 2 * uint64_t{nics} || hosts.size() % nics != 0)
    section.fail(list != nullptr ? "hosts" : "ranks",
                 "a job has two ranks or more, of " + std::to_string(nics) + " NICs each");
  std::vector<uint32_t> sorted = hosts;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    section.fail("hosts", "names a host twice");
  for (const uint32_t host : hosts)
    if (host >= topology.node_count() || !topology.is_host(host))
      section.fail("hosts", "has a number that is no host of this network");
  return hosts;
}

JobSpec read_job(Section& section, const fabric::Topology& topology, size_t number) {
  JobSpec job;
  job.name = section.text("name", "job" + std::to_string(number));
  job.operation = section.text("operation", "all_reduce");
  job.algorithm = section.text("algorithm");
  job.type = section.text("type", job.type);
  job.reduction = section.text("reduction", job.reduction);
  job.bytes = static_cast<uint64_t>(section.number("bytes", 0, 1, 1e13));
  if (job.bytes == 0) section.fail("bytes", "must be the size of a rank's larger buffer");
  job.root = section.count("root", 0);
  job.nics = std::max(1u, section.count("nics", 1));
  job.hosts = hosts_of(section, topology, job.nics);
  job.start_ns = section.time_ns("start", 0);
  job.compute_ns = section.time_ns("compute", 0);
  if (job.start_ns < 0) section.fail("start", "must not be before 0");
  if (job.compute_ns < 0) section.fail("compute", "must not be before 0");
  job.steps = static_cast<uint32_t>(section.number("steps", 1, 1, kMostSteps));
  job.buckets = static_cast<uint32_t>(section.number("buckets", 1, 1, kMostSteps));
  job.data_class = static_cast<uint8_t>(section.number("class", 3, 1, 7));
  section.finish();
  return job;
}

}  // namespace

void read_job_tables(Reader& reader, const toml::table& root, Scenario& scenario) {
  const toml::node* const jobs = root.get("jobs");
  if (jobs == nullptr || reader.failed()) return;
  if (!jobs->is_array_of_tables()) return reader.fail(jobs, "jobs", "must be tables: [[jobs]]");
  for (const toml::node& node : *jobs->as_array()) {
    Section section(reader, *node.as_table(), "jobs");
    scenario.jobs.push_back(read_job(section, scenario.topology, scenario.jobs.size() + 1));
    scenario.jobs.back().place =
        reader.file + ":" + std::to_string(node.source().begin.line) + ": jobs";
  }
}

}  // namespace weft::sim::scenario

#endif
