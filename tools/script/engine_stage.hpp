// SPDX-License-Identifier: BSD-3-Clause
// A stage without a network: the production RoCE engine, a port made of two lists, and a virtual
// clock that jumps to the next deadline.
#pragma once

#include <deque>
#include <functional>
#include <span>

#include "lib/base/random.hpp"
#include "lib/roce/engine.hpp"
#include "tools/script/stage.hpp"

namespace weft::script {

// A port without a wire: the stage passes frames to the engine and takes frames from it.
class ListPort final : public transport::Port {
 public:
  explicit ListPort(const Gid& address);
  const transport::Capabilities& capabilities() const noexcept override { return capabilities_; }
  Gid address() const noexcept override { return address_; }
  size_t receive(std::span<transport::Frame>) noexcept override { return 0; }
  void release(std::span<const transport::Frame>) noexcept override {}
  size_t transmit(std::span<const transport::TxFrame> frames) noexcept override {
    return frames.size();
  }
  bool prepare_wait(std::vector<pollfd>&, bool) noexcept override { return true; }

 private:
  Gid address_;
  transport::Capabilities capabilities_;
};

class EngineStage final : public Stage {
 public:
  Meeting meet(const QpText& qp, Psn peer_first, Psn end_first) override;
  void say(const Bytes& frame, const Meeting& meeting, const Draft& draft) override;
  std::optional<ReceivedPacket> expect(Duration limit) override;
  void post(const Post& post, const Meeting& meeting) override;
  void receive(const Receive& receive) override;
  std::optional<Outcome> done(Duration limit) override;
  void fill(uint64_t offset, const Bytes& data) override;
  Bytes memory(uint64_t offset, size_t size) override;
  void modify(QpState state) override;
  QpState state() override { return qp_->state; }
  uint64_t count(const std::string& name) override;
  std::string event() override;
  void wait(Duration time) override;
  Instant now() override { return now_; }
  bool exact() const override { return true; }

 private:
  void walk(const QpText& qp, const Meeting& meeting);
  static constexpr size_t kMemory = 1u << 20;
  std::byte* at(uint64_t offset, size_t size);
  uint64_t own_place(uint32_t length);
  // Runs the engine until it is idle at this time.
  void turn();
  // Advances time until a packet or completion is available, or by `limit`.
  bool until(const std::function<bool()>& something, Duration limit);
  void take(const transport::TxFrame& frame);

  std::unique_ptr<ListPort> port_;
  std::unique_ptr<base::SecureRandom> random_;
  std::unique_ptr<transport::CompletionQueue> send_cq_, recv_cq_;
  std::unique_ptr<transport::SharedReceives> pool_, foreign_pool_;  // of an XRC target
  std::vector<std::byte> memory_;
  std::unique_ptr<roce::Engine> engine_;
  roce::QueuePair* qp_ = nullptr;
  AddressVector to_peer_;
  QueuePairAttributes to_rtr_, to_rts_;
  uint32_t key_ = 0;
  Instant now_;
  uint64_t own_next_ = kMemory / 2;
  std::deque<ReceivedPacket> received_;
  std::deque<Outcome> outcomes_;
};

}  // namespace weft::script
