// SPDX-License-Identifier: BSD-3-Clause
// The table of wires, made from the ports of this build; see wires.hpp.
#include "tests/conformance/wires.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <vector>

#include "providers/software/ports.hpp"

namespace weft::test {

namespace {

using software::PortKind;

enum class Form : uint8_t { plain, lossy, variant, captured, engines, rails };

struct Row {
  std::string name, device, keys;
  const PortKind* port = nullptr;
  bool srd = false;
  Form form = Form::plain;
  bool in_sets = true;
};

constexpr std::string_view kFaults = ",fault.loss=0.01,fault.dup=0.005,fault.reorder=0.01";

void add_rows(const PortKind& port, bool srd, std::vector<Row>& rows) {
  const transport::PortTests& tests = port.tests;
  const std::string name = (srd ? "srd_" : "") + std::string(port.name);
  const std::string device =
      (srd ? "srd+" : "roce+") + std::string(port.name) + ":" + std::string(tests.device);
  const auto add = [&](Form form, std::string_view suffix, std::string_view keys) {
    rows.push_back({name + std::string(suffix), device, std::string(keys), &port, srd, form,
                    srd || !tests.brief});
  };
  add(Form::plain, "", "");
  if (!tests.brief) add(Form::lossy, "_lossy", kFaults);
  if (!tests.variant.empty())
    add(Form::variant, "_" + std::string(tests.variant), tests.variant_keys);
  if (tests.shared) add(Form::captured, "_captured", ",pcap=");
  if (port.engines && (!srd || tests.shared)) add(Form::engines, "_engines", ",engines=2");
  if (srd && !tests.rail.empty()) add(Form::rails, "_rails", ",rails=" + std::string(tests.rail));
}

const std::vector<Row>& table() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (const bool srd : {false, true})
      for (const PortKind* port : software::ports())
        if (!port->tests.device.empty()) add_rows(*port, srd, all);
    all.push_back({.name = "ibverbs", .device = "ibverbs", .in_sets = false});
    return all;
  }();
  return rows;
}

const Row& row(Wire wire) {
  for (const Row& row : table())
    if (row.name == wire.name()) return row;
  FAIL("no wire " << wire.name());
  std::abort();
}

bool is_in(const Row& row, WireSet set) {
  const bool port = row.form == Form::plain || row.form == Form::engines || row.form == Form::rails;
  if (!row.in_sets || row.srd != (set >= WireSet::shared_srd)) return false;
  switch (set) {
    case WireSet::shared_ports:
      return row.port->tests.shared && port;
    case WireSet::shared_srd:
      return row.port->tests.shared && row.form == Form::plain;
    case WireSet::our_ports:
    case WireSet::srd_ports:
      return port;
    case WireSet::lossy_ports:
    case WireSet::lossy_srd:
      return row.form == Form::lossy;
    case WireSet::our_wires:
    case WireSet::srd_wires:
      return true;
  }
  return false;
}

std::string new_job() {
  static std::atomic<int> jobs{0};
  return "conf-" + std::to_string(getpid()) + "-" + std::to_string(jobs.fetch_add(1));
}

class CaseOnWire final : public Catch::ITestInvoker {
 public:
  CaseOnWire(void (*body)(Wire), std::string name, Wire wire)
      : body_(body), name_(std::move(name)), wire_(wire) {}
  void invoke() const override {
    const Ground ground(wire_);
    if (!ground.missing().empty()) WEFT_SKIP(name_, ground.missing());
    body_(wire_);
  }

 private:
  void (*body_)(Wire);
  std::string name_;
  Wire wire_;
};

}  // namespace

std::string device_string(Wire wire) {
  const char* const named = std::getenv("WEFT_TEST_DEVICE");
  if (wire == Wire::ibverbs && named != nullptr) return named;
  std::string text = row(wire).device;
  if (const size_t star = text.find('*'); star != text.npos) text.replace(star, 1, new_job());
  return text.append(row(wire).keys);
}

Ground::Ground(Wire wire) {
  const PortKind* const port = row(wire).port;
  if (port == nullptr) return;
  if (!port->missing.empty()) missing_ = "built without " + std::string(port->missing);
  if (!missing_.empty() || port->tests.device.find("wire?") == std::string_view::npos) return;
  own_ = std::make_unique<Namespace>();
  const std::string mtu = " mtu " + std::to_string(port->tests.veth_mtu);
  const bool there =
      *own_ && std::system(("ip link add wire0" + mtu + " type veth peer name wire1" + mtu +
                            " && ip link set wire0 up && ip addr add 10.80.0.1/24 dev wire0 && "
                            "ip link set wire1 up && ip addr add 10.80.0.2/24 dev wire1")
                               .c_str()) == 0;
  if (!there) missing_ = "a network namespace with a veth needs root";
}

CasesOnWires::CasesOnWires(void (*body)(Wire), const char* text, WireSet set,
                           const Catch::SourceLineInfo& place) {
  for (const Row& row : table()) {
    if (!is_in(row, set)) continue;
    const std::string name = std::string(text) + " @" + row.name;
    Catch::ITestInvoker* const invoker = new CaseOnWire(body, name, Wire(row.name));
#if __has_include(<catch2/catch_all.hpp>)
    Catch::AutoReg(Catch::Detail::unique_ptr<Catch::ITestInvoker>(invoker), place, "", {name, ""});
#else
    Catch::AutoReg(invoker, place, "", {name, ""});
#endif
  }
}

}  // namespace weft::test
