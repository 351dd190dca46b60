// SPDX-License-Identifier: BSD-3-Clause
// See names.hpp.
#include "providers/port/shm/names.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::port::shm {

Result<std::unique_ptr<Listener>> Names::listen(const Gid& name) {
  Result<Descriptor> socket = listen_at(job_, name);
  if (!socket) return socket.error();
  auto listener = std::make_unique<Listener>(name);
  listener->socket = *std::move(socket);
  if (events_.add(listener->socket.fd(), *listener)) return listener;
  return Error{Code::io_error, std::string("shm: epoll_ctl: ") + std::strerror(errno)};
}

// Slots are tried from a random one on: the next process does not take frames for one that was
// killed.
Result<void> Names::claim(base::SecureRandom& random) {
  constexpr uint32_t kSlots = transport::kLastSlot - transport::kFirstSlot + 1;
  WEFT_DCHECK(listener_ == nullptr);
  shared_ = shared_gid(job_);
  const uint32_t first = random.next32() % kSlots;
  for (uint32_t i = 0; i < (shares_ ? kSlots : 8); ++i) {
    slot_ = shares_ ? static_cast<transport::Slot>(transport::kFirstSlot + (first + i) % kSlots)
                    : transport::Slot{0};
    own_ = shares_ ? make_gid(slot_, NameOf::slot) : make_gid(random.next64());
    Result<std::unique_ptr<Listener>> listener = listen(own_);
    if (!listener && listener.error().code == Code::address_in_use) continue;
    if (!listener) return listener.error();
    listener_ = *std::move(listener);
    gid_ = shares_ ? shared_ : own_;
    return {};
  }
  return Error{Code::no_memory, "shm: " + std::to_string(kSlots) +
                                    " devices share the address of job " + job_ +
                                    ", and no more can: close one, or name another job"};
}

Result<void> Names::claim_beside(const Gid& address, transport::Slot slot) {
  WEFT_DCHECK(listener_ == nullptr);
  own_ = name_beside(address, slot);
  gid_ = address;
  slot_ = slot;
  Result<std::unique_ptr<Listener>> listener = listen(own_);
  if (!listener) return listener.error();
  listener_ = *std::move(listener);
  return {};
}

Result<void> Names::claim_service(uint64_t service) {
  if (!shares_) return {};
  Result<std::unique_ptr<Listener>> listener = listen(of_service(service));
  if (!listener && listener.error().code == Code::address_in_use) {
    Descriptor probe;
    Credentials holder;
    if (connect_to(job_, of_service(service), probe) == Connect::ok)
      (void)peer_credentials(probe.fd(), holder);
    return Error{Code::address_in_use, "process " + std::to_string(holder.pid) + " listens there"};
  }
  if (!listener) return listener.error();
  services_.insert_or_assign(service, *std::move(listener));
  return {};
}

void Names::release_service(uint64_t service) {
  const auto found = services_.find(service);
  if (found == services_.end()) return;
  events_.remove(found->second->socket);
  services_.erase(found);
  (void)forget_closed(kMoment);
  const Gid name = of_closed(service);
  const auto ours = std::find_if(closed_.begin(), closed_.end(), [&](const Closed& closed) {
    return closed.listener->name == name;
  });
  if (ours != closed_.end()) {
    ours->at_ns = monotonic_ns();
    std::rotate(ours, ours + 1, closed_.end());
    return;
  }
  if (closed_.size() == kMostClosed) {
    events_.remove(closed_.front().listener->socket);
    closed_.erase(closed_.begin());
  }
  // Where another port has the name, that one drops or refuses the requests.
  Result<std::unique_ptr<Listener>> listener = listen(name);
  if (listener) closed_.push_back({*std::move(listener), monotonic_ns()});
}

bool Names::listens_at(const Gid& name) const noexcept {
  const auto has_name = [&](const Listener& listener) { return listener.name == name; };
  return name == own_ ||
         std::any_of(services_.begin(), services_.end(),
                     [&](const auto& service) { return has_name(*service.second); }) ||
         std::any_of(closed_.begin(), closed_.end(),
                     [&](const Closed& closed) { return has_name(*closed.listener); });
}

std::optional<Sender> Names::sender_of(const Hello& hello) const noexcept {
  if (beside()) {
    const auto slot = static_cast<transport::Slot>(hello.beside_slot);
    if (hello.source != name_beside(hello.beside, slot)) return {};
    return Sender{hello.beside, slot};
  }
  if (is_name_of_slot(hello.source)) return Sender{shared_, hello.source.bytes[15]};
  if (is_name_of(NameOf::port, hello.source)) return Sender{hello.source, 0};
  return {};
}

bool Names::forget_closed(int64_t older_than_ns) noexcept {
  const int64_t now = monotonic_ns();
  return std::erase_if(closed_, [&](Closed& closed) {
           const bool old = now - closed.at_ns >= older_than_ns;
           if (old) events_.remove(closed.listener->socket);
           return old;
         }) != 0;
}

}  // namespace weft::port::shm
