// SPDX-License-Identifier: BSD-3-Clause
// Several ports as one, with members that count: in whose turn frames are received, that each frame
// is released to the port that lent it, which frames leave together, and what a full member does.
#include "providers/port/middleware/port_bundle.hpp"
#include "tests/support/catch.hpp"

namespace weft::middleware {
namespace {

using transport::Frame;
using transport::TxFrame;

class CountedPort final : public transport::Port {
 public:
  CountedPort(int number, std::vector<int>& closed) : number_(number), closed_(closed) {}
  ~CountedPort() override { closed_.push_back(number_); }
  const transport::Capabilities& capabilities() const noexcept override { return has_; }
  Gid address() const noexcept override { return {}; }
  Result<void> join(const Gid&) override { return {}; }
  size_t receive(std::span<Frame> frames) noexcept override {
    asked.push_back(frames.size());
    const size_t count = std::min(frames.size(), waiting);
    waiting -= count;
    for (Frame& frame : frames.first(count)) frame.cookie = static_cast<uint64_t>(number_);
    return count;
  }
  void release(std::span<const Frame> frames) noexcept override {
    for (const Frame& frame : frames) right &= frame.cookie == static_cast<uint64_t>(number_);
    released.push_back(frames.size());
  }
  size_t transmit(std::span<const TxFrame> frames) noexcept override {
    sent.push_back(frames.size());
    const size_t taken = std::min(frames.size(), room);
    room -= taken;
    return taken;
  }
  void attach(void*, size_t size) noexcept override { attached += size; }
  void detach(void*, size_t size) noexcept override { attached -= size; }
  bool prepare_wait(std::vector<pollfd>&, bool want_transmit) override {
    wants_transmit = want_transmit;
    if (waits) ++prepared;
    return waits;
  }
  void finish_wait() noexcept override { --prepared; }
  void append_counters(std::vector<Counter>& counters) const override {
    counters.push_back({"frames", static_cast<uint64_t>(number_)});
    if (number_ == 2) counters.push_back({"of_two", 7});
  }

  size_t waiting = 0, room = 1000;
  std::vector<size_t> asked, released, sent;
  bool right = true, waits = true, wants_transmit = false;
  int prepared = 0;
  size_t attached = 0;

 private:
  const int number_;
  std::vector<int>& closed_;
  transport::Capabilities has_;
};

// Three members; a frame goes through the one that its path's DSCP names.
class Three final : public PortBundle {
 public:
  explicit Three(std::vector<int>& closed) : PortBundle(make(closed)) {}
  const transport::Capabilities& capabilities() const noexcept override {
    return port(0).capabilities();
  }
  Gid address() const noexcept override { return {}; }
  Result<void> join(const Gid&) override { return {}; }
  size_t port_of(const TxFrame& frame) const noexcept override { return frame.path->traffic_class; }
  CountedPort& member(size_t i) { return static_cast<CountedPort&>(port(i)); }

 private:
  static std::vector<std::unique_ptr<transport::Port>> make(std::vector<int>& closed) {
    std::vector<std::unique_ptr<transport::Port>> ports;
    for (int i = 0; i < 3; ++i) ports.push_back(std::make_unique<CountedPort>(i, closed));
    return ports;
  }
};

struct Bundle {
  std::vector<int> closed;
  Three port{closed};
  std::vector<Frame> frames = std::vector<Frame>(8);

  size_t receive(size_t room) {
    const size_t count = port.receive(std::span(frames).first(room));
    port.release(std::span(frames).first(count));
    return count;
  }
  // Frames to these members, each on a path of its own or all to one member on one path.
  size_t transmit(std::initializer_list<uint8_t> to, bool equal_paths = false) {
    std::vector<transport::Path> paths(to.size());
    std::vector<TxFrame> all(to.size());
    size_t i = 0;
    for (const uint8_t member : to) {
      paths[i].traffic_class = member;
      paths[i].source_port = static_cast<uint16_t>(equal_paths ? 0 : i);
      all[i].path = &paths[i];
      ++i;
    }
    return port.transmit(all);
  }
};

using Sizes = std::vector<size_t>;

TEST_CASE("bundle: each in turn is received from first, until there is no room") {
  Bundle b;
  for (size_t i = 0; i < 3; ++i) b.port.member(i).waiting = 2;
  CHECK(b.receive(3) == 3);  // two of the first, one of the second
  CHECK(b.port.member(0).asked == Sizes{3});
  CHECK(b.port.member(1).asked == Sizes{1});
  CHECK(b.port.member(2).asked.empty());
  CHECK(b.receive(3) == 3);  // the second's, and two of the third
  CHECK(b.port.member(1).asked == Sizes{1, 3});
  CHECK(b.port.member(2).asked == Sizes{2});
  CHECK(b.port.member(0).asked == Sizes{3});  // no room was left
  b.port.member(1).waiting = 1;
  CHECK(b.receive(3) == 1);
  CHECK(b.port.member(2).asked == Sizes{2, 3});
  CHECK(b.port.member(0).asked == Sizes{3, 3});
  CHECK(b.port.member(1).asked == Sizes{1, 3, 3});
  b.port.member(0).waiting = 3;
  CHECK(b.receive(3) == 3);  // the first's turn again
  CHECK(b.port.member(1).asked == Sizes{1, 3, 3});
}

TEST_CASE("bundle: frames are released to the port that lent them, each once") {
  Bundle b;
  for (int round = 0; round < 7; ++round) {
    for (size_t i = 0; i < 3; ++i) b.port.member(i).waiting = 1 + (i + round) % 2;
    CHECK(b.receive(8) >= 3);
    for (size_t i = 0; i < 3; ++i) {
      INFO(round << " " << i);
      CHECK(b.port.member(i).right);
      CHECK(b.port.member(i).released == Sizes{1 + (i + round) % 2});
      b.port.member(i).released.clear();
    }
  }
  CHECK(b.receive(8) == 0);
  for (size_t i = 0; i < 3; ++i) CHECK(b.port.member(i).released.empty());  // nothing was lent
}

TEST_CASE("bundle: neighbours of one port leave together, whatever their paths") {
  for (const bool equal_paths : {false, true}) {
    Bundle b;
    CHECK(b.transmit({0, 0, 2, 1, 1, 1, 0}, equal_paths) == 7);
    CHECK(b.port.member(0).sent == Sizes{2, 1});
    CHECK(b.port.member(1).sent == Sizes{3});
    CHECK(b.port.member(2).sent == Sizes{1});
  }
}

TEST_CASE("bundle: a full port holds up the frames behind, and its room is waited for") {
  Bundle b;
  std::vector<pollfd> descriptors;
  b.port.member(1).room = 1;
  CHECK(b.transmit({0, 1, 1, 2}) == 2);
  CHECK(b.port.member(2).sent.empty());
  REQUIRE(b.port.prepare_wait(descriptors, true));
  for (size_t i = 0; i < 3; ++i) CHECK(b.port.member(i).wants_transmit == (i == 1));
  b.port.finish_wait();
  REQUIRE(b.port.prepare_wait(descriptors, false));
  for (size_t i = 0; i < 3; ++i) CHECK_FALSE(b.port.member(i).wants_transmit);
  for (size_t i = 0; i < 3; ++i) CHECK(b.port.member(i).prepared == 1);
  b.port.finish_wait();
  for (size_t i = 0; i < 3; ++i) CHECK(b.port.member(i).prepared == 0);
}

TEST_CASE("bundle: a wait that one port refuses is ended at those that had begun it") {
  for (size_t refuses = 0; refuses < 3; ++refuses) {
    INFO(refuses);
    Bundle b;
    b.port.member(refuses).waits = false;
    std::vector<pollfd> descriptors;
    CHECK_FALSE(b.port.prepare_wait(descriptors, false));
    for (size_t i = 0; i < 3; ++i) CHECK(b.port.member(i).prepared == 0);
  }
}

TEST_CASE("bundle: memory is attached to all, counters are sums, and they close in order") {
  std::vector<int> closed;
  {
    Three port(closed);
    int place = 0;
    port.attach(&place, 5);
    for (size_t i = 0; i < 3; ++i) CHECK(port.member(i).attached == 5);
    port.detach(&place, 5);
    for (size_t i = 0; i < 3; ++i) CHECK(port.member(i).attached == 0);
    std::vector<Counter> counters = {{"before", 1}};
    port.append_counters(counters);
    REQUIRE(counters.size() == 3);
    CHECK((counters[0].name == "before" && counters[0].value == 1));
    CHECK((counters[1].name == "frames" && counters[1].value == 0 + 1 + 2));
    CHECK((counters[2].name == "of_two" && counters[2].value == 7));
    CHECK(closed.empty());
  }
  CHECK(closed == std::vector<int>{0, 1, 2});
}

}  // namespace
}  // namespace weft::middleware
