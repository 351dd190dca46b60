// SPDX-License-Identifier: BSD-3-Clause
// See gid.hpp.
#include "providers/ibverbs/gid.hpp"

#include <fstream>

#include "providers/ibverbs/translate.hpp"

namespace weft::ibverbs {

namespace {

bool is_v2(const ibv_context& context, uint8_t port, int index) {
  std::ifstream file(std::string(context.device->ibdev_path) + "/ports/" + std::to_string(port) +
                     "/gid_attrs/types/" + std::to_string(index));
  std::string type;
  return std::getline(file, type) && type.find("v2") != std::string::npos;
}

int rank(const GidEntry& entry) noexcept {
  const bool link_local = entry.gid.bytes[0] == 0xFE && (entry.gid.bytes[1] & 0xC0) == 0x80;
  return (entry.v2 ? 4 : 0) + (entry.gid.is_ipv4() ? 2 : link_local ? 0 : 1);
}

}  // namespace

std::vector<GidEntry> read_gids(const Library& library, ibv_context& context, uint8_t port,
                                int table_length) {
  std::vector<GidEntry> entries;
  for (int index = 0; index < table_length && index <= UINT8_MAX; ++index) {
    ibv_gid raw;
    if (library.query_gid(&context, port, index, &raw) != 0) continue;
    const Gid gid = from_verbs(raw);
    if (gid == Gid{}) continue;
    entries.push_back({static_cast<uint8_t>(index), gid, is_v2(context, port, index)});
  }
  return entries;
}

const GidEntry* choose_gid(std::span<const GidEntry> entries) noexcept {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : entries)
    if (best == nullptr || rank(entry) > rank(*best)) best = &entry;
  return best;
}

}  // namespace weft::ibverbs
