// SPDX-License-Identifier: BSD-3-Clause
// Reads and writes the fields of handles and messages: little endian, without padding. Reading
// beyond the end gives zeros and is remembered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::nccl {

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class Number>
  Number number() {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(Number); ++i) value |= uint64_t{octet()} << (8 * i);
    return static_cast<Number>(value);
  }
  template <size_t N>
  std::array<uint8_t, N> array() {
    std::array<uint8_t, N> value;
    for (uint8_t& each : value) each = octet();
    return value;
  }
  // A length of two bytes, then printable characters: others become '?'.
  std::string text() {
    std::string value(number<uint16_t>(), '\0');
    if (value.size() > bytes_.size() - at_) value.clear(), whole_ = false;
    for (char& each : value) {
      const uint8_t c = octet();
      each = c >= 0x20 && c < 0x7F ? static_cast<char>(c) : '?';
    }
    return value;
  }
  // Whether everything that was read was there.
  bool whole() const { return whole_; }

 private:
  uint8_t octet() {
    if (at_ == bytes_.size()) {
      whole_ = false;
      return 0;
    }
    return static_cast<uint8_t>(bytes_[at_++]);
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool whole_ = true;
};

class Writer {
 public:
  template <class Number>
  void number(Number value) {
    for (size_t i = 0; i < sizeof value; ++i)
      bytes_.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i)));
  }
  template <size_t N>
  void array(const std::array<uint8_t, N>& value) {
    for (const uint8_t each : value) bytes_.push_back(std::byte{each});
  }
  // At most 65,535 bytes: the rest is left out.
  void text(std::string_view value) {
    value = value.substr(0, UINT16_MAX);
    number(static_cast<uint16_t>(value.size()));
    for (const char each : value) bytes_.push_back(static_cast<std::byte>(each));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace weft::nccl
