// SPDX-License-Identifier: BSD-3-Clause
// The mesh: one device, and a link to every other rank. Each rank publishes where it listens, then
// connects to the ranks below it and accepts those above, so nobody waits in a circle.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/collective/lifelines.hpp"
#include "lib/collective/link.hpp"
#include "weft/store.hpp"

namespace weft::collective {

struct MeshOptions {
  std::string device;  // as for Device::open
  std::string name;    // tells apart communicators that share a store
  LinkShape shape;
  Duration connect_limit = Duration::from_s(30);
  Duration patience = Duration::from_ms(1000);  // with a silent transport
  uint32_t traffic_class = 2;
};

struct Mesh {
  Device device;
  CompletionQueue cq;
  ProtectionDomain pd;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::vector<std::unique_ptr<Link>> links;  // in the order of their index
  std::vector<Link*> by_rank;                // null for ourselves
  Lifelines lifelines;

  static Result<Mesh> connect(Store& store, uint32_t rank, uint32_t ranks,
                              const MeshOptions& options);
};

}  // namespace weft::collective
