// SPDX-License-Identifier: BSD-3-Clause
// The `roce` provider: the RoCE engine behind the provider interface, and the connection manager at
// its queue pair 1, which is created with the first channel.
#pragma once

#include "lib/roce/check_send.hpp"
#include "lib/roce/cm/agent.hpp"
#include "lib/roce/engine.hpp"
#include "providers/software/machine_context.hpp"

namespace weft::roce_provider {

// Forwards the first requests that arrive at other engines to the connection manager, which belongs
// to engine 0. Called under the lock of its engine; that of engine 0 is acquired last.
class FirstRequests final : public roce::GeneralServices {
 public:
  FirstRequests(cm::Agent& agent, driver::Driver& home) noexcept : agent_(agent), home_(home) {}
  void on_first_request(QpNum number, const Gid& peer, QpNum peer_number,
                        Instant now) noexcept override {
    driver::Holder hold(home_.lock());
    agent_.on_first_request(number, peer, peer_number, now);
  }
  void on_datagram(std::span<const std::byte>, const Gid&, Instant) noexcept override {}
  const roce::ManagementDatagram* next_datagram() noexcept override { return nullptr; }
  bool wants_transmit() const noexcept override { return false; }
  void expire(Instant) noexcept override {}
  Instant next_deadline() const noexcept override { return Instant::never(); }

 private:
  cm::Agent& agent_;
  driver::Driver& home_;
};

class RoceContext final
    : public software::MachineContext<roce::Engine, roce::QueuePair, roce::EngineConfig> {
 public:
  using MachineContext::MachineContext;
  ~RoceContext() override;

  Result<std::shared_ptr<verbs::CmChannel>> create_cm_channel(const Device& device) override;
  Result<std::shared_ptr<verbs::Xrc>> create_xrc(const Device& device, uint32_t engine) override;
  std::vector<Counter> counters() const override;

  // For channels. Calls `call` with the agent and the time, under the driver's lock; the MADs that
  // it queues are sent before this returns.
  template <class Call>
  auto with_agent(Call call) {
    driver::Holder hold(driver_.lock());
    auto result = call(*agent_, driver_.now());
    machine_.services_changed();
    driver_.after_control();
    return result;
  }
  // Under the driver's lock, as in with_agent().
  transport::Port& port() noexcept { return driver_.port(); }
  bool forked() const noexcept { return driver_.forked(); }
  // False: there is no progress thread; the application must call.
  bool start_background_progress() noexcept { return driver_.start_background_progress(); }
  uint32_t random_number();

 private:
  void attach(size_t engine, roce::GeneralServices* services) noexcept;

  base::SecureRandom random_;  // of the agent; under the lock of engine 0
  std::unique_ptr<cm::Agent> agent_;
  std::unique_ptr<FirstRequests> first_requests_;  // of the other engines, if there are any
};

Result<std::shared_ptr<verbs::Context>> open(const verbs::DeviceSpec& spec);
void list(std::vector<DeviceListing>& out, LoadModules modules);

}  // namespace weft::roce_provider
