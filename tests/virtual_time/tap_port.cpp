// SPDX-License-Identifier: BSD-3-Clause
// See tap_port.hpp.
#include "tests/virtual_time/tap_port.hpp"

namespace weft::test {

bool TapPort::passes(const transport::TxFrame& f) {
  if (cut && cut(*f.path)) return false;
  if (f.length() > longest) return ++too_long, false;
  if (!filter || ++since_judged_ < every) return true;
  since_judged_ = 0;
  SentFrame sent{*f.path, f.ip_id, f.ecn, {f.head, f.head + f.head_length}};
  for (uint32_t s = 0; s < f.span_count; ++s)
    sent.bytes.insert(sent.bytes.end(), f.spans[s].data, f.spans[s].data + f.spans[s].length);
  sent.bytes.insert(sent.bytes.end(), f.tail, f.tail + f.tail_length);
  return filter(sent);
}

size_t TapPort::transmit(std::span<const transport::TxFrame> frames) noexcept {
  if (refuses) return ++refused, 0;
  if (!filter && !cut && longest == UINT32_MAX) return inner_->transmit(frames);
  for (size_t i = 0; i < frames.size(); ++i)
    if (passes(frames[i]) && inner_->transmit({&frames[i], 1}) == 0) return i;
  return frames.size();
}

}  // namespace weft::test
