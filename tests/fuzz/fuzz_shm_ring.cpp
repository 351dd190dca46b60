// SPDX-License-Identifier: BSD-3-Clause
// A ring of the port shm whose other side is hostile. Each input is a program: well-formed frames
// are pushed and taken between writes of the hostile side, which aims at bounds: labels, lengths
// and places one beside what is allowed, generations behind and ahead, claims, the published
// position. The memory has exactly the ring's size, so that a step outside is seen.
#include <cstdlib>
#include <memory>
#include <vector>

#include "providers/port/shm/ring.hpp"
#include "tests/fuzz/input.hpp"

using namespace weft;
using namespace weft::port::shm;
using fuzz::Input;
using fuzz::require;

namespace {

constexpr RingGeometry kGeometry{64, 65536};

// A number at a bound that the ring checks, or one beside it, or any.
uint32_t near_bound(Input& in) {
  constexpr uint32_t kBounds[] = {0,
                                  kDataHead,
                                  kReferenceHead,
                                  sizeof(Slot::body),
                                  kLongReferenceHead,
                                  kGeometry.data_bytes,
                                  kLargestFrame,
                                  UINT32_MAX};
  const auto which = in.take<uint8_t>();
  if (which >= 200) return in.take<uint32_t>();
  return kBounds[which % std::size(kBounds)] + (which / 64) - 1;
}

class Ring {
 public:
  Ring() : memory_(static_cast<std::byte*>(std::aligned_alloc(64, kGeometry.bytes())), &std::free) {
    std::memset(memory_.get(), 0, kGeometry.bytes());
    view_ = RingView(memory_.get(), kGeometry);
    producer_.emplace(memory_.get(), kGeometry);
    consumer_.emplace(memory_.get(), kGeometry);
  }

  void run(Input& in) {
    for (int step = 0; step < 300 && in.left != 0; ++step) {
      switch (in.take<uint8_t>() % 6) {
        case 0:
          push(in);
          break;
        case 1:
          take();
          break;
        case 2:
          consumer_->publish();
          (void)producer_->refresh();
          break;
        case 3:
          write_slot(in);
          break;
        case 4:
          view_.control->consumed = consumer_->next() + near_bound(in) - near_bound(in);
          break;
        default:
          view_.claims[in.take<uint8_t>() % kGeometry.slots] = in.take<uint8_t>() % 5;
      }
    }
  }

 private:
  void push(Input& in) {
    static const std::vector<std::byte> bytes(kGeometry.data_bytes + 64);
    transport::TxFrame frame;
    frame.head = bytes.data();
    frame.head_length = in.take<uint8_t>() % 65;
    frame.header_length = static_cast<uint8_t>(frame.head_length);
    const transport::Span span{bytes.data(), near_bound(in) % static_cast<uint32_t>(bytes.size())};
    frame.payload_length = span.length;
    frame.spans = &span;
    frame.span_count = span.length != 0 ? 1 : 0;
    frame.stable = true;
    const uint64_t before = producer_->outstanding();
    const RingProducer::Push pushed = producer_->push(frame, in.take<uint8_t>() % 2 != 0);
    const bool taken = pushed == RingProducer::Push::taken;
    // What a corrupt position makes free is not more than the ring has.
    require(producer_->outstanding() <= kGeometry.slots, "no more frames than slots");
    require(!taken || producer_->outstanding() != 0, "a frame is outstanding");
    require(taken || producer_->outstanding() <= before, "nothing was published");
  }

  void take() {
    static std::vector<std::byte> memory(2 * kLargestFrame);  // made once: it is large
    Arena arena{memory.data(), memory.size(), 0};
    transport::Frame frame;
    SlotCopy copy;
    bool by_reference = false;
    const uint64_t next = consumer_->next();
    const RingConsumer::Take taken = consumer_->take(frame, copy, arena, by_reference);
    const bool went_on = taken == RingConsumer::Take::frame || taken == RingConsumer::Take::revoked;
    require(consumer_->next() == next + (went_on ? 1 : 0), "one slot at a time");
    if (taken != RingConsumer::Take::frame) return;
    require(frame.length <= kLargestFrame && frame.more_length <= kLargestFrame &&
                frame.remote_length <= kLargestFrame,
            "no frame is longer than the largest");
    require(by_reference == (frame.remote_length != 0), "a reference names memory");
    uint64_t sum = 0;  // every byte may be read
    for (uint32_t i = 0; i < frame.length; ++i) sum += static_cast<uint8_t>(frame.bytes[i]);
    for (uint32_t i = 0; i < frame.more_length; ++i) sum += static_cast<uint8_t>(frame.more[i]);
    require(sum <= uint64_t{3} * kLargestFrame * UINT8_MAX, "a sum of bytes");
  }

  // The slot that is taken next, or one beside it.
  void write_slot(Input& in) {
    const uint64_t index = consumer_->next() + in.take<uint8_t>() % 3;
    Slot& slot = view_.slots[index % kGeometry.slots];
    const uint32_t place[] = {near_bound(in), near_bound(in), near_bound(in),
                              near_bound(in), near_bound(in), near_bound(in)};
    std::memcpy(slot.body, place, sizeof place);
    const uint32_t generation = in.take<uint8_t>() % 8;  // mostly the right one
    const uint32_t wrong = generation == 1 ? kGeometry.slots : generation == 2 ? 1 : 0;
    const auto kind = static_cast<SlotKind>(in.take<uint8_t>() % 6);
    const uint32_t head = kind == SlotKind::whole || kind == SlotKind::long_reference
                              ? in.take<uint8_t>() % 2
                              : near_bound(in);
    slot.label = SlotLabel{static_cast<uint32_t>(index + 1) - wrong, static_cast<uint16_t>(head),
                           kind, in.take<uint8_t>()}
                     .word();
  }

  std::unique_ptr<std::byte, decltype(&std::free)> memory_;
  RingView view_;
  std::optional<RingProducer> producer_;
  std::optional<RingConsumer> consumer_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in{data, size};
  Ring().run(in);
  return 0;
}
