// SPDX-License-Identifier: BSD-3-Clause
// See roce_context.hpp.
#include "providers/roce/roce_context.hpp"

#include "lib/transport/shared_address.hpp"
#include "providers/roce/cm_channel.hpp"

namespace weft::roce_provider {

RoceContext::~RoceContext() {
  if (forked()) return;
  for (size_t i = 0; i < drivers_.size(); ++i) attach(i, nullptr);
}

void RoceContext::attach(size_t engine, roce::GeneralServices* services) noexcept {
  driver::Holder hold(drivers_[engine]->lock());
  static_cast<roce::Engine&>(drivers_[engine]->machine()).attach_services(services);
}

Result<std::shared_ptr<verbs::Xrc>> RoceContext::create_xrc(const Device& device, uint32_t engine) {
  if (forked()) return Error{Code::permission_denied, software::kForked};
  return std::shared_ptr<verbs::Xrc>(new software::Xrc(device, *drivers_[engine], next_domain_++));
}

Result<std::shared_ptr<verbs::CmChannel>> RoceContext::create_cm_channel(const Device& device) {
  if (forked()) return Error{Code::permission_denied, software::kForked};
  {
    driver::Holder hold(driver_.lock());
    if (agent_ == nullptr) {
      auto agent =
          std::make_unique<cm::Agent>(cm::AgentConfig{.address = attributes_.gid,
                                                      .start = driver_.now(),
                                                      .slot = transport::slot_of(driver_.port())},
                                      random_);
      first_requests_ = std::make_unique<FirstRequests>(*agent, driver_);
      driver_.port().open_general_services();
      agent_ = std::move(agent);
      machine_.attach_services(agent_.get());
    }
  }
  for (size_t i = 1; i < drivers_.size(); ++i) attach(i, first_requests_.get());
  return ConnectionChannel::create(device, *this);
}

uint32_t RoceContext::random_number() {
  driver::Holder hold(driver_.lock());
  return random_.next32();
}

std::vector<Counter> RoceContext::counters() const {
  std::vector<Counter> counters = MachineContext::counters();
  if (forked()) return counters;
  driver::Holder hold(driver_.lock());
  for (size_t i = 0; agent_ != nullptr && i < static_cast<size_t>(cm::AgentCount::end_); ++i) {
    const auto count = static_cast<cm::AgentCount>(i);
    counters.push_back({cm::name(count), agent_->count(count)});
  }
  return counters;
}

}  // namespace weft::roce_provider
