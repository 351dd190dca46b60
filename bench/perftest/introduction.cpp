// SPDX-License-Identifier: BSD-3-Clause
// See introduction.hpp.
#include "bench/perftest/introduction.hpp"

#include <cctype>
#include <cstring>
#include <nlohmann/json.hpp>

namespace weft::bench {
namespace {

using Json = nlohmann::json;

// As -c spells it.
std::string service_name(const Options& o) {
  if (o.xrc()) return "XRC";
  std::string text(name(o.service.value_or(QpType::rc)));
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// Processes on shared memory find each other by the name of their job; empty: another port.
std::string shared_memory_job(const std::string& device) {
  if (device.find("+shm") == std::string::npos) return {};
  return device.substr(0, device.find(','));
}

// The options that must be equal on both sides, by their names.
Json agreement(const Options& o) {
  Json j;
  j["program"] = program_name(o.operation, o.measure);
  j["sizes"] = o.sizes;
  j["-n"] = o.duration_s > 0 ? 0 : o.iterations;
  j["-D"] = o.duration_s > 0;
  j["-q"] = o.qps;
  j["-t"] = o.tx_depth;
  j["-c"] = service_name(o);
  j["-d"] = shared_memory_job(o.device);
  j["-b"] = o.bidirectional;
  j["-A"] = o.atomic == AtomicType::fetch_add ? "FETCH_AND_ADD" : "CMP_AND_SWAP";
  j["--buffers"] = o.buffers;
  j["--data_validation"] = o.validate;
  j["--perform_warm_up"] = o.warm_up;
  return j;
}

Error not_perftest() {
  return {Code::invalid_argument,
          "the peer sent no valid options: it is no perftest program of this weft version"};
}
Error differs(const std::string& option, const std::string& how) {
  return {Code::invalid_argument, "the two sides have different options: " + option + how +
                                      "; start both with the same value"};
}

// The form for at most 56 bytes: host byte order, since both sides run the same program.
constexpr size_t kOptions = 13;
struct DigestForm {
  char magic[4] = {'w', 'e', 'f', '3'};
  uint32_t rkey = 0;
  uint64_t address = 0;
  uint32_t srq = 0;
  uint16_t digests[kOptions] = {};
};
static_assert(sizeof(DigestForm) <= 56);

uint16_t digest(const std::string& text) {
  uint64_t sum = 0xCBF29CE484222325;  // FNV-1a
  for (const char c : text) sum = (sum ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return static_cast<uint16_t>(sum ^ sum >> 16 ^ sum >> 32 ^ sum >> 48);
}

DigestForm digest_form(const Options& options, PeerMemory ours) {
  DigestForm s;
  s.rkey = ours.rkey.value;
  s.address = ours.address;
  s.srq = ours.srq;
  size_t i = 0;
  const Json all = agreement(options);
  for (const auto& item : all.items())
    if (i < kOptions) s.digests[i++] = digest(item.value().dump());
  return s;
}

Result<PeerMemory> check_digests(const Options& options, std::span<const std::byte> peer_data) {
  DigestForm peer_value;
  std::memcpy(&peer_value, peer_data.data(), sizeof peer_value);
  const DigestForm ours = digest_form(options, {});
  size_t i = 0;
  const Json all = agreement(options);
  for (const auto& item : all.items()) {
    if (i < kOptions && ours.digests[i] != peer_value.digests[i])
      return differs(item.key(),
                     " is " + item.value().dump() + " on this side, another value on the peer");
    ++i;
  }
  return PeerMemory{peer_value.address, {peer_value.rkey}, peer_value.srq};
}

}  // namespace

std::vector<std::byte> encode_introduction(const Options& options, PeerMemory ours,
                                           size_t max_bytes) {
  Json j = agreement(options);
  j["address"] = ours.address;
  j["rkey"] = ours.rkey.value;
  j["srq"] = ours.srq;
  const std::string text = j.dump();
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  if (text.size() <= max_bytes) return {data, data + text.size()};
  const DigestForm s = digest_form(options, ours);
  data = reinterpret_cast<const std::byte*>(&s);
  return {data, data + sizeof s};
}

Result<PeerMemory> check_introduction(const Options& options,
                                      std::span<const std::byte> peer_data) {
  if (peer_data.size() >= sizeof(DigestForm) &&
      std::memcmp(peer_data.data(), DigestForm{}.magic, 4) == 0)
    return check_digests(options, peer_data);
  const auto* text = reinterpret_cast<const char*>(peer_data.data());
  const Json peer = Json::parse(text, text + peer_data.size(), nullptr, false);
  if (!peer.is_object()) return not_perftest();
  for (const char* const number : {"address", "rkey", "srq"})
    if (!peer.contains(number) || !peer[number].is_number_unsigned()) return not_perftest();
  const Json ours = agreement(options);
  for (const auto& item : ours.items()) {
    const Json peer_value = peer.value(item.key(), Json());
    if (peer_value != item.value())
      return differs(item.key(), " is " + item.value().dump() + " on this side, " +
                                     peer_value.dump() + " on the peer");
  }
  return PeerMemory{
      peer["address"].get<uint64_t>(), {peer["rkey"].get<uint32_t>()}, peer["srq"].get<uint32_t>()};
}

}  // namespace weft::bench
