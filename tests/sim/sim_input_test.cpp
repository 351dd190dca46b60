// SPDX-License-Identifier: BSD-3-Clause
// What people type: keys, times, CSV files; and what they are told when it is wrong.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "lib/sim/scenario/csv.hpp"
#include "tests/sim/sim_support.hpp"

namespace weft::sim::scenario {
namespace {

using flow::Net;
using flow::Parameters;

// A file that lives as long as the test.
struct File {
  explicit File(const std::string& text)
      : path(std::filesystem::temp_directory_path() /
             ("weft_netsim_" + std::to_string(reinterpret_cast<uintptr_t>(this)) + ".csv")) {
    std::ofstream(path) << text;
  }
  ~File() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

template <class T>
std::string message_of(const Result<T>& result) {
  REQUIRE(!result);
  return result.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE("keys are set by name, within their range") {
  Parameters parameters;
  CHECK(parameters[Net::int_bytes] == 42);
  CHECK(parameters.is_auto(Net::payload));
  CHECK(parameters.is_auto(Net::base_rtt));
  REQUIRE(parameters.set("switch.buffer_mb", "0.5"));
  REQUIRE(parameters.set("net.base_rtt_ns", "13us"));
  REQUIRE(parameters.set("hpcc.max_stage", "5"));
  CHECK(parameters[Net::buffer_mb] == 0.5);
  CHECK(parameters[Net::base_rtt] == 13'000);
  REQUIRE(parameters.controllers().size() == 1);
  CHECK(parameters.controllers()[0].value == 5);
  REQUIRE(parameters.set("net.base_rtt_ns", "auto"));
  CHECK(parameters.is_auto(Net::base_rtt));

  CHECK(contains(message_of(parameters.set("switch.bufer_mb", "1")), "switch.buffer_mb"));
  CHECK(contains(message_of(parameters.set("payload", "1")), "weft_sim keys"));
  CHECK(contains(message_of(parameters.set("net.payload", "many")), "'many' is not a number"));
  CHECK(contains(message_of(parameters.set("net.payload", "0")), "within 1 and 9000"));
  CHECK(contains(message_of(parameters.set("net.int_bytes", "auto")), "cannot be auto"));
  CHECK(contains(message_of(parameters.set("hpcc.etta", "1")), "max_stage"));
  CHECK(contains(message_of(parameters.set("hpc.eta", "1")), "dcqcn-paper"));
  CHECK(contains(message_of(parameters.set("hpcc+win.eta", "1")), "with and without +win"));
}

TEST_CASE("times have units") {
  CHECK(*flow::parse_time_ns("2ms") == 2'000'000);
  CHECK(*flow::parse_time_ns("1.5us") == 1500);
  CHECK(*flow::parse_time_ns("3s") == 3'000'000'000);
  CHECK(*flow::parse_time_ns("100") == 100);
  CHECK(!flow::parse_time_ns("2 parsecs"));
  CHECK(!flow::parse_time_ns("-1us"));
  CHECK(!flow::parse_time_ns(""));
}

TEST_CASE("columns are found by name, comments and other columns ignored") {
  const File links("# a net\nnode_b,delay_ns,colour,node_a,gbps\n2,1000,red,0,100\n2,500,,1,2.5\n");
  const Result<fabric::Topology> topology = read_topology(links.path);
  REQUIRE(topology);
  CHECK(topology->hosts().size() == 2);
  CHECK(topology->mbps(2) == 2500);
  CHECK(topology->cable(2).delay_ns == 500);
  const File flows(
      "bytes,dst,src,start_ns,path,sport,dport\r\n1000,1,0,5,0-2-1,7,200\r\n9,0,1,6,,,\r\n");
  const Result<FlowRows> rows = read_flows(flows.path);
  REQUIRE(rows);
  CHECK(rows->tasks.tasks.empty());
  const std::vector<flow::FlowSpec>* const list = &rows->flows;
  REQUIRE(list->size() == 2);
  CHECK((*list)[0].path == std::vector<uint32_t>{0, 2, 1});
  CHECK((*list)[0].src_port == 7);
  CHECK((*list)[0].dst_port == 200);
  CHECK((*list)[1].src_port == -1);
  CHECK((*list)[1].dst_port == 100);
  CHECK((*list)[1].start_ns == 6);
}

TEST_CASE("flows that wait for others become messages with think time") {
  const File file(
      "start_ns,src,dst,bytes,after,think_ns\n0,0,1,1000,,\n5,1,0,9,0,700\n0,0,1,7,0-1,\n");
  const Result<FlowRows> rows = read_flows(file.path);
  REQUIRE(rows);
  const flow::TaskGraph& tasks = rows->tasks;
  REQUIRE(tasks.tasks.size() == 3);
  REQUIRE(tasks.waits.size() == 3);
  CHECK(tasks.tasks[1].delay_ns == 700);
  CHECK(tasks.tasks[1].start_ns == 5);
  CHECK(tasks.tasks[2].flow == 2);
  CHECK(tasks.waits[2].task == 2);
  CHECK(tasks.waits[2].before == 1);
  const File later("start_ns,src,dst,bytes,after\n0,0,1,1000,1\n");
  CHECK(contains(message_of(read_flows(later.path)),
                 "flow 0 waits for flow 1, there are 1, counted from 0"));
  const File wrong("start_ns,src,dst,bytes,after\n0,0,1,1000,x\n");
  CHECK(contains(message_of(read_flows(wrong.path)), ":2: after: 'x' is no row"));
}

TEST_CASE("an invalid file is refused with line, column and reason") {
  const std::string head = "start_ns,src,dst,bytes\n";
  const auto flows = [&](const std::string& text) {
    const File file(text);
    return message_of(read_flows(file.path));
  };
  CHECK(contains(flows(head + "0,1,2,1000\n0,1,2,lots\n"), ".csv:3: bytes: 'lots'"));
  CHECK(contains(flows(head + "0,1,2\n"), ":2: bytes: is missing"));
  CHECK(contains(flows(head + "0,1,1,9\n"), ":2: dst: is src"));
  CHECK(contains(flows(head + "0,1.5,1,9\n"), ":2: src: must be a whole number"));
  CHECK(contains(flows(head + "-3,0,1,9\n"), ":2: start_ns: must be within"));
  CHECK(contains(flows("start,src,dst,bytes\n0,1,2,3\n"), "no column 'start_ns'"));
  CHECK(contains(flows(head), "has no flows"));
  CHECK(contains(flows(""), "is empty"));
  CHECK(
      contains(flows("start_ns,src,dst,bytes,path\n0,0,1,9,0-x-1\n"), ":2: path: 'x' is no node"));
  CHECK(contains(message_of(read_flows("/nonexistent/flows.csv")), "cannot be read"));

  CHECK(
      contains(flows("start_ns,src,dst,bytes,class\n0,0,1,9,8\n"), ":2: class: must be within 1"));

  const auto events = [&](const std::string& text) {
    const File file("at_ns,from,to,state,gbps,loss,both\n" + text);
    return message_of(read_link_changes(file.path));
  };
  CHECK(contains(events("0,1,2,off,,,\n"), ":2: state: must be up or down"));
  CHECK(contains(events("0,1,2,,,,\n"), ":2: nothing happens"));
  CHECK(contains(events("0,1,2,,,1.5,\n"), ":2: loss: must be within 0 and 1"));
  const File good("from,at_ns,to,loss,both\n4,100,0,0.5,0\n");
  const Result<std::vector<fabric::LinkChange>> changes = read_link_changes(good.path);
  REQUIRE(changes);
  CHECK(changes->at(0).at_ns == 100);
  CHECK(changes->at(0).loss == 0.5);
  CHECK(!changes->at(0).both);
  CHECK(!changes->at(0).up);

  const File links("node_a,node_b,gbps,delay_ns\n0,2,100,1000\n1,2,fast,1000\n");
  CHECK(contains(message_of(read_topology(links.path)), ":3: gbps: 'fast'"));
  const File islands("node_a,node_b,gbps,delay_ns\n0,2,1,1\n1,2,1,1\n3,5,1,1\n4,5,1,1\n");
  CHECK(contains(message_of(read_topology(islands.path)), "not connected"));
  const File sizes("size_bytes,cdf_percent\n0,0\n10,50\n5,100\n");
  CHECK(contains(message_of(read_sizes(sizes.path)), "never decrease"));
}

}  // namespace
}  // namespace weft::sim::scenario
