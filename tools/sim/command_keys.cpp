// SPDX-License-Identifier: BSD-3-Clause
// See command_keys.hpp.
#include "tools/sim/command_keys.hpp"

#include <cstdio>

#include "lib/congestion/registry.hpp"
#include "lib/sim/scheme/parameters.hpp"

namespace weft::bench {
namespace {

int width(std::string_view text) { return static_cast<int>(text.size()); }

void print_key(const std::string& name, const std::string& value, std::string_view unit,
               std::string_view what) {
  std::printf("%-34s %-12s %-22.*s %.*s\n", name.c_str(), value.c_str(), width(unit), unit.data(),
              width(what), what.data());
}

std::string default_of(const congestion::Parameter& parameter) {
  char number[32];
  std::snprintf(number, sizeof number, "%g", parameter.value);
  return number;
}

void print_title(const congestion::Kind& kind) {
  std::printf("%.*s: %.*s\n", width(kind.name), kind.name.data(), width(kind.what),
              kind.what.data());
}

// What replaces the default where a network says it.
std::string_view text_of(congestion::Follows follows) {
  using congestion::Follows;
  switch (follows) {
    case Follows::packet_bytes:
      return "the network's packet size replaces it";
    case Follows::payload_bytes:
      return "the network's payload replaces it";
    case Follows::drops:
      return "1 where full queues drop";
    case Follows::software_hosts:
      return "1 where the hosts are software";
    case Follows::nothing:
      break;
  }
  return {};
}

// A key in two lines; the second has the source, what differs, and what replaces the default.
void print_parameter(const congestion::Kind& kind, const congestion::Parameter& parameter) {
  std::printf("%-34s %-12s %.*s\n",
              (std::string(kind.name) + "." + std::string(parameter.name)).c_str(),
              default_of(parameter).c_str(), width(parameter.unit), parameter.unit.data());
  const bool marked = parameter.source == congestion::kNoSource;
  std::printf("    %s%.*s", marked ? "* " : "from ", width(parameter.source),
              parameter.source.data());
  const std::string_view replaced = text_of(parameter.follows);
  for (const std::string_view more : {parameter.differs, replaced})
    if (!more.empty()) std::printf("; %.*s", width(more), more.data());
  std::printf("\n");
}

int print_controllers(const std::vector<std::string>& names) {
  bool marked = false;
  for (const std::string& name : names) {
    bool with_window = false;
    const Result<const congestion::Kind*> found = congestion::find_kind(name, &with_window);
    if (!found) {
      std::fprintf(stderr, "weft_sim: %s\n", found.error().message.c_str());
      return 2;
    }
    const congestion::Kind& kind = **found;
    print_title(kind);
    if (!kind.paper.empty()) std::printf("paper: %.*s\n", width(kind.paper), kind.paper.data());
    std::printf("\n");
    for (const congestion::Parameter& parameter : kind.parameters) {
      print_parameter(kind, parameter);
      marked |= parameter.source == congestion::kNoSource;
    }
    std::printf("\n");
  }
  if (marked) std::printf("* a constant that no paper, specification or program gives\n");
  return 0;
}

}  // namespace

int command_keys(const std::vector<std::string>& controllers) {
  if (!controllers.empty()) return print_controllers(controllers);
  std::printf("%-34s %-12s %-22s %s\n", "key", "default", "unit", "what, or where it comes from");
  for (const sim::flow::Key& key : sim::flow::Parameters::keys())
    print_key(std::string(key.name), sim::flow::Parameters::text(key, key.value), key.unit,
              key.what);
  for (const congestion::Kind* kind : congestion::kinds()) {
    std::printf("\n");
    print_title(*kind);
    for (const congestion::Parameter& p : kind->parameters)
      print_key(std::string(kind->name) + "." + std::string(p.name), default_of(p), p.unit,
                p.source);
  }
  return 0;
}

}  // namespace weft::bench
