// SPDX-License-Identifier: BSD-3-Clause
// See introduction.hpp.
#include "bench/perftest/introduction.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

namespace weft::bench {
namespace {

using Json = nlohmann::json;

// What both sides must have said alike, under the name of the option.
Json agreement(const Options& o) {
  Json j;
  j["program"] = program_name(o.operation, o.measure);
  j["sizes"] = o.sizes;
  j["-n"] = o.duration_s > 0 ? 0 : o.iterations;
  j["-D"] = o.duration_s > 0;
  j["-q"] = o.qps;
  j["-t"] = o.tx_depth;
  j["-c"] = o.service ? std::string(name(*o.service)) : "device";
  j["-b"] = o.bidirectional;
  j["-A"] = o.atomic == AtomicType::fetch_add ? "FETCH_AND_ADD" : "CMP_AND_SWAP";
  j["--buffers"] = o.buffers;
  j["--data_validation"] = o.validate;
  j["--perform_warm_up"] = o.warm_up;
  return j;
}

Error stranger() { return {Code::invalid_argument, "the other side is not one of these programs"}; }
Error differs(const std::string& option, const std::string& how) {
  return {Code::invalid_argument, "both sides need the same options: " + option + how};
}

// The short form: the same machine order on both sides, as the programs are the same.
constexpr size_t kOptions = 12;
struct Short {
  char magic[4] = {'w', 'e', 'f', '2'};
  uint32_t rkey = 0;
  uint64_t address = 0;
  uint32_t srq = 0;
  uint16_t digests[kOptions] = {};
};
static_assert(sizeof(Short) <= 56);

uint16_t digest(const std::string& text) {
  uint64_t sum = 0xCBF29CE484222325;  // FNV-1a
  for (const char c : text) sum = (sum ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return static_cast<uint16_t>(sum ^ sum >> 16 ^ sum >> 32 ^ sum >> 48);
}

Short shorten(const Options& options, PeerMemory ours) {
  Short s;
  s.rkey = ours.rkey.value;
  s.address = ours.address;
  s.srq = ours.srq;
  size_t i = 0;
  const Json all = agreement(options);
  for (const auto& item : all.items())
    if (i < kOptions) s.digests[i++] = digest(item.value().dump());
  return s;
}

Result<PeerMemory> meet_short(const Options& options, std::span<const std::byte> said) {
  Short theirs;
  std::memcpy(&theirs, said.data(), sizeof theirs);
  const Short ours = shorten(options, {});
  size_t i = 0;
  const Json all = agreement(options);
  for (const auto& item : all.items()) {
    if (i < kOptions && ours.digests[i] != theirs.digests[i])
      return differs(item.key(), " is " + item.value().dump() + " here, and not there");
    ++i;
  }
  return PeerMemory{theirs.address, {theirs.rkey}, theirs.srq};
}

}  // namespace

std::vector<std::byte> introduce(const Options& options, PeerMemory ours, size_t most) {
  Json j = agreement(options);
  j["address"] = ours.address;
  j["rkey"] = ours.rkey.value;
  j["srq"] = ours.srq;
  const std::string text = j.dump();
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  if (text.size() <= most) return {data, data + text.size()};
  const Short s = shorten(options, ours);
  data = reinterpret_cast<const std::byte*>(&s);
  return {data, data + sizeof s};
}

Result<PeerMemory> meet(const Options& options, std::span<const std::byte> said) {
  if (said.size() >= sizeof(Short) && std::memcmp(said.data(), Short{}.magic, 4) == 0)
    return meet_short(options, said);
  const auto* text = reinterpret_cast<const char*>(said.data());
  const Json peer = Json::parse(text, text + said.size(), nullptr, false);
  if (!peer.is_object()) return stranger();
  for (const char* const number : {"address", "rkey", "srq"})
    if (!peer.contains(number) || !peer[number].is_number_unsigned()) return stranger();
  const Json ours = agreement(options);
  for (const auto& item : ours.items()) {
    const Json theirs = peer.value(item.key(), Json());
    if (theirs != item.value())
      return differs(item.key(),
                     " is " + item.value().dump() + " here, " + theirs.dump() + " there");
  }
  return PeerMemory{
      peer["address"].get<uint64_t>(), {peer["rkey"].get<uint32_t>()}, peer["srq"].get<uint32_t>()};
}

}  // namespace weft::bench
