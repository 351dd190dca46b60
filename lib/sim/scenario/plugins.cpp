// SPDX-License-Identifier: BSD-3-Clause
// See plugins.hpp. What an object says is checked as what a file says: it may be wrong.
#if __has_include(<toml++/toml.h>)

#include "lib/sim/scenario/plugins.hpp"

#include <algorithm>
#include <vector>

#include "lib/base/installed/scenario_file.hpp"
#include "lib/base/module/plugin.hpp"
#include "weft/simulation.hpp"

namespace weft::sim::scenario {
namespace {

constexpr base::PluginKind kTopology = {.symbol = "weft_topology",
                                        .macro = "WEFT_TOPOLOGY(kYours)",
                                        .header = "weft/simulation.hpp",
                                        .interface_number = simulation::kInterface};
constexpr base::PluginKind kWorkload = {.symbol = "weft_workload",
                                        .macro = "WEFT_WORKLOAD(kYours)",
                                        .header = "weft/simulation.hpp",
                                        .interface_number = simulation::kInterface};

class SectionKeys final : public simulation::Keys {
 public:
  explicit SectionKeys(Section& section) : section_(section) {}
  double number(const char* key, double otherwise) override {
    return section_.number(key, otherwise, -1e15, 1e15);
  }
  void fail(const char* key, const char* why) override { section_.fail(key, why); }

 private:
  Section& section_;
};

class CableList final : public simulation::Links {
 public:
  void add(const simulation::Link& link) override {
    cables.push_back({link.node_a, link.node_b, link.mbps, link.delay_ns});
  }
  std::vector<fabric::Cable> cables;
};

class FlowTaker final : public simulation::Flows {
 public:
  void add(const simulation::Flow& flow) override {
    flows.push_back({.start_ns = flow.start_ns,
                     .src = flow.source,
                     .dst = flow.destination,
                     .bytes = flow.bytes});
  }
  FlowList flows;
};

class SeededRandom final : public simulation::Random {
 public:
  explicit SeededRandom(base::Random& random) : random_(random) {}
  uint64_t below(uint64_t n) override { return n <= 1 ? 0 : random_.below(n); }
  double share() override { return static_cast<double>(random_.next() >> 11) * 0x1p-53; }

 private:
  base::Random& random_;
};

Result<const void*> load(const std::string& path, const Reader& reader,
                         const base::PluginKind& kind) {
  return base::load_plugin(base::file_beside(reader.file, path), kind);
}

}  // namespace

Result<fabric::Topology> build_by_plugin(const std::string& path, Reader& reader,
                                         Section& section) {
  const Result<const void*> loaded = load(path, reader, kTopology);
  if (!loaded) return loaded.error();
  SectionKeys keys(section);
  CableList links;
  static_cast<const simulation::Topology*>(*loaded)->build(keys, links);
  if (reader.failed()) return reader.error;
  for (size_t i = 0; i < links.cables.size(); ++i) {
    const fabric::Cable& cable = links.cables[i];
    if (cable.mbps == 0 || cable.mbps > 4'000'000 || cable.delay_ns < 0 ||
        std::max(cable.a, cable.b) == fabric::Topology::kNone)
      return Error{Code::invalid_argument,
                   path + ": link " + std::to_string(i + 1) + " joins the nodes " +
                       std::to_string(cable.a) + " and " + std::to_string(cable.b) + " with " +
                       std::to_string(cable.mbps) + " Mb/s and " + std::to_string(cable.delay_ns) +
                       " ns: node numbers from 0 without holes, 1 to 4000000 Mb/s, 0 or more ns"};
  }
  if (links.cables.empty()) return Error{Code::invalid_argument, path + " built no link"};
  return fabric::Topology::make(std::move(links.cables));
}

FlowList generate_by_plugin(const std::string& path, Reader& reader, Section& section,
                            const fabric::Topology& topology, base::Random& random) {
  const Result<const void*> loaded = load(path, reader, kWorkload);
  if (!loaded) {
    section.fail("kind", loaded.error().message);
    return {};
  }
  SectionKeys keys(section);
  SeededRandom numbers(random);
  FlowTaker taker;
  const std::span<const uint32_t> hosts = topology.hosts();
  static_cast<const simulation::Workload*>(*loaded)->generate(
      keys, {hosts.data(), hosts.size(), topology.nic_mbps()}, numbers, taker);
  section.finish();
  return reader.failed() ? FlowList() : std::move(taker.flows);
}

}  // namespace weft::sim::scenario

#endif
