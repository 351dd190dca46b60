// SPDX-License-Identifier: BSD-3-Clause
// One engine with one connected queue pair and no network, for fuzz targets: frames are made from
// the input, with the ICRC of the connected peer, and passed to the engine; frames that it sends
// are discarded. Canaries surround the registered memory, and each posted request is accounted for.
// The queue pair may use a shared receive queue, and a memory window is bound to a part of the
// region.
#pragma once

#include <deque>
#include <vector>

#include "tests/fuzz/input.hpp"
#include "tests/fuzz/no_port.hpp"
#include "tests/virtual_time/forge.hpp"

namespace weft::fuzz {

inline transport::Capabilities small_bursts() {
  transport::Capabilities c;
  c.burst = 16;
  c.telemetry = true;
  return c;
}
// An engine is made for each input: one with much memory would take most of the time.
inline roce::EngineConfig small(roce::EngineConfig config) {
  config.early_packets = 64;
  return config;
}

// What a target varies besides the packets.
struct Shape {
  QpType type = QpType::rc;
  bool pool = false;  // receives are shared; those of an XRC target always are
  roce::EngineConfig config;
  bool telemetry = false;  // agreed with the peer
  bool selective = false;  // RC: the same
};

class Fixture {
 public:
  static constexpr uint32_t kRegion = 4096, kCanary = 4096, kDomain = 1, kMtu = 256;
  static constexpr std::byte kMark{0xC5};

  NoPort port{sim::host_address(0), small_bursts()};
  base::SecureRandom random{uint64_t{1}};
  roce::Engine engine;
  transport::CompletionQueue send_cq{128}, recv_cq{128};
  std::unique_ptr<transport::SharedReceives> pool;
  roce::QueuePair* qp = nullptr;
  const QpType type;
  const bool telemetry, selective;
  static constexpr uint32_t kQKey = 0x1234, kXrcDomain = 7;
  std::vector<std::byte> memory = std::vector<std::byte>(3 * kCanary + 2 * kRegion, kMark);
  std::byte* const open = memory.data() + kCanary;     // all rights
  std::byte* const closed = open + kRegion + kCanary;  // local rights only
  uint32_t open_key = 0, closed_key = 0;
  static constexpr uint32_t kShownFrom = 512, kShown = 1024;  // of the open region
  uint32_t window = 0, window_key = 0;                        // type 2
  Instant now{1};
  struct Send {
    uint64_t id;
    bool signaled;
  };
  std::deque<Send> sends;  // posted, not completed
  std::deque<uint64_t> receives;
  uint64_t next_id = 1;

  explicit Fixture(const Shape& shape = {})
      : engine(port, small(shape.config), random),
        type(shape.type),
        telemetry(shape.telemetry),
        selective(shape.selective && shape.type == QpType::rc) {
    open_key = engine.keys().insert(open, kRegion, Access::all | Access::window_bind, kDomain);
    closed_key = engine.keys().insert(closed, kRegion, Access::local_write, kDomain);
    window = engine.keys().insert_window(memory::KeyKind::window_of_queue, kDomain);
    const bool xrc = type == QpType::xrc_target;
    if (shape.pool || xrc)
      pool = std::move(*engine.create_shared_receives(
          kDomain, {.max_recv_wr = 16, .max_recv_sge = 2},
          xrc ? roce::XrcBinding{kXrcDomain, &recv_cq} : roce::XrcBinding{}));
    connect();
  }
  ~Fixture() {
    engine.destroy_qp(qp);
    if (pool) engine.withdraw(*pool);
  }

  void connect() {
    if (qp != nullptr) engine.destroy_qp(qp);
    drain();
    sends.clear();
    if (!pool) receives.clear();
    transport::QpConfig config;
    config.type = type;
    config.domain = kDomain;
    config.send_cq = &send_cq;
    config.recv_cq = &recv_cq;
    config.max_send_wr = config.max_recv_wr = 16;
    if (type == QpType::xrc_target) config.xrc_domain = kXrcDomain;
    if (type != QpType::xrc_target) config.shared = pool.get();
    qp = *engine.create_qp(config);
    QueuePairAttributes init{.state = QpState::init, .pkey_index = uint16_t{0}, .port = uint8_t{1}};
    QueuePairAttributes rtr{.state = QpState::rtr};
    QueuePairAttributes rts{.state = QpState::rts, .sq_psn = Psn{0xFFFFFA}};
    if (type == QpType::ud) {
      init.qkey = kQKey;
    } else {
      init.access = Access::all;
      rtr.path = AddressVector{.destination = sim::host_address(1)};
      rtr.path_mtu = kMtu;
      rtr.dest_qpn = QpNum{77};
      rtr.rq_psn = Psn{0xFFFFF8};
    }
    if (telemetry) rtr.telemetry = true;
    if (selective) rtr.selective_repeat = true;
    if (type == QpType::rc || type == QpType::xrc_target) {
      rtr.max_dest_rd_atomic = uint8_t{3};
      rtr.min_rnr_timer = uint8_t{1};
    }
    if (type == QpType::rc || type == QpType::xrc_initiator) {
      rts.max_rd_atomic = uint8_t{3};
      rts.timeout = uint8_t{4};
      rts.retry_count = rts.rnr_retry = uint8_t{3};
    }
    for (const QueuePairAttributes& step : {init, rtr, rts}) modify(step);
  }
  void modify(const QueuePairAttributes& change) {
    require(engine.modify_qp(*qp, change).ok(), "modify_qp failed");
  }

  // The way from the peer to us.
  transport::Path path() const {
    transport::Path p;
    p.source = sim::host_address(1);
    p.destination = sim::host_address(0);
    return p;
  }
  void give(const transport::Path& path, std::span<const std::byte> frame) {
    // A copy of exactly this length: a read past the end is one past an allocation.
    const std::vector<std::byte> exact(frame.begin(), frame.end());
    test::give(engine, path, exact, now);
  }
  void transmit() {
    transport::TxFrame frames[16];
    for (int i = 0; i < 4 && engine.wants_transmit(); ++i) engine.transmit(frames, now);
  }
  // The open region's key dies, perhaps in the middle of a message, and another one comes.
  void change_key() {
    engine.keys().remove(open_key);
    open_key = engine.keys().insert(open, kRegion, Access::all | Access::window_bind, kDomain);
  }
  // The queue pair shows a part of the open region under a key that it has not had, if it shows
  // none now.
  void bind_window() {
    const uint32_t key = engine.keys().choose_key(window, window_key + 1);
    const bool bound = engine.keys().bind(
        {window, open_key, key, reinterpret_cast<uint64_t>(open) + kShownFrom, kShown, Access::all},
        qp->access_context());
    if (bound) window_key = key;
  }
  // After an error: everything has completed, and a new queue pair comes.
  void recover() {
    transmit();
    drain();
    if (qp->state == QpState::sqe) modify({.state = QpState::rts});
    if (qp->state != QpState::err) return;
    require(all_completed(), "a request survived ERR");
    connect();
  }
  // The other region has no remote rights.
  void check_closed() const {
    require(marked(closed, kRegion), "memory without remote rights was written");
  }
  void pass_time(Duration d) {
    now = now + d;
    engine.expire(now);
  }

  // Takes all completions: each is of the oldest request of its queue, or of the oldest signaled
  // one.
  void drain() {
    Completion c;
    while (send_cq.pop({&c, 1}) != 0) {
      while (!sends.empty() && !sends.front().signaled && sends.front().id != c.id)
        sends.pop_front();
      require(!sends.empty() && sends.front().id == c.id,
              "a request completed twice, out of order, or was never posted");
      sends.pop_front();
    }
    while (recv_cq.pop({&c, 1}) != 0) {
      // A pool's receive is lost with a queue pair that held it, or goes back behind the others.
      const auto found =
          pool ? std::find(receives.begin(), receives.end(), c.id) : receives.begin();
      require(found != receives.end() && *found == c.id, "a receive completed out of order");
      receives.erase(found);
      if (c.status == Status::success)
        require(c.byte_count <= (1u << 31), "a completion has a wrong length");
    }
  }
  // Nothing is posted any more; unsignaled requests may have succeeded silently.
  bool all_completed() const {
    const auto silent = [](const Send& s) { return !s.signaled; };
    const bool taken = pool ? receives.size() >= pool->ring.size() : receives.empty();
    return std::all_of(sends.begin(), sends.end(), silent) && taken && qp->sq.empty() &&
           qp->rq.empty();
  }

  void check_memory() const {
    require(marked(memory.data(), kCanary) && marked(open + kRegion, kCanary) &&
                marked(closed + kRegion, kCanary),
            "memory outside of the regions was written");
  }
  static bool marked(const std::byte* at, size_t size) {
    static const std::vector<std::byte> marks(kRegion, kMark);
    return std::memcmp(at, marks.data(), size) == 0;
  }

  // Takes steps, each chosen by a number from the input, and looks at everything after each. In the
  // end all that is posted completes.
  template <class Step, class Check>
  void play(Input& in, int most, Step step, Check check) {
    for (int i = 0; i < most && in.left != 0; ++i) {
      step(in.take<uint8_t>());
      drain();
      check();
    }
    transmit();
    finish();
  }
  // A receive of two entries, perhaps with a key that does not exist.
  void post_receive(uint32_t first, uint32_t second, bool bad = false) {
    const Sge sges[] = {{open, first, LKey{bad ? 1 : open_key}},
                        {open + 1024, second, LKey{open_key}}};
    const RecvRequest r{next_id, sges};
    if (pool ? engine.post_recv(*pool, {&r, 1}) : engine.post_recv(*qp, {&r, 1}))
      receives.push_back(next_id++);
  }

  // In the end: ERR completes everything that is still posted.
  void finish() {
    drain();
    modify({.state = QpState::err});
    drain();
    require(all_completed(), "a request never completed");
    check_memory();
  }
};

}  // namespace weft::fuzz
