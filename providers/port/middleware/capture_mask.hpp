// SPDX-License-Identifier: BSD-3-Clause
// What a capture leaves out of a packet. Keys (rkeys and Q_Keys in headers) become other numbers,
// the same for the same key in one capture, which say nothing of the key; payload can be cut off.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::middleware {

struct CaptureOptions {
  bool payload = true;  // false: the file has headers only
  bool keys = false;    // true: the file has keys as they are on the wire
};

class KeyMask {
 public:
  KeyMask();  // draws a secret

  // Replaces each key in the headers of a packet for this UDP port: RoCEv2, with telemetry or
  // without, or SRD. Packets of other ports and invalid ones stay as they are. `icrc_length`: bytes
  // of the ICRC that `length` includes.
  void apply(std::byte* bytes, uint32_t length, uint32_t icrc_length,
             uint16_t destination_port) const noexcept;

 private:
  uint32_t masked(uint32_t key) const noexcept;
  void mask_at(std::byte* at) const noexcept;
  void mask_roce(std::byte* bytes, uint32_t length, uint32_t icrc_length) const noexcept;
  void mask_srd(std::byte* bytes, uint32_t length, uint32_t icrc_length) const noexcept;

  uint32_t secret_[8];
};

// Bytes before the BTH of a packet for this UDP port: those of a telemetry block, if it has one.
uint32_t telemetry_length(const std::byte* bytes, uint32_t length,
                          uint16_t destination_port) noexcept;
// Bytes before the payload of a packet for this UDP port; of an invalid packet, or one of another
// port, what every packet there begins with.
uint32_t header_bytes(const std::byte* bytes, uint32_t length, uint32_t icrc_length,
                      uint16_t destination_port) noexcept;

}  // namespace weft::middleware
