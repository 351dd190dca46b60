// SPDX-License-Identifier: BSD-3-Clause
// The channels of a process group: how the ranks agree on one, and the error of the others
// if a rank does not join.
#include <algorithm>

#include "lib/adapters/torch/device.hpp"
#include "lib/adapters/torch/process_group.hpp"
#include "lib/adapters/torch/store.hpp"
#include "weft/device.hpp"

namespace weft::torch_adapter {
namespace {

constexpr Duration kLongest = Duration::from_s(30 * 24 * 3600);
constexpr char kAll[] = "all";  // the meeting of the whole group
constexpr char kGroupDestroyed[] = "weft: the process group is destroyed";

// "yes" from a rank that is here; after "!", why it will not come.
std::string here_key(const std::string& meeting, uint32_t rank) {
  return meeting + "/here/" + std::to_string(rank);
}

Duration duration_of(std::chrono::milliseconds time) {
  return std::min(Duration::from_ms(std::min<int64_t>(time.count(), kLongest.ms())), kLongest);
}

}  // namespace

ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                           Milliseconds timeout)
    : c10d::ProcessGroup(rank, size), store_(std::move(store)), timeout_(duration_of(timeout)) {
  all_ = std::make_shared<Channel>([this](const std::atomic<bool>& closing) {
    TorchStore meeting(store_, closing);
    const uint32_t us = static_cast<uint32_t>(rank_);
    if (Result<void> agreed = agree(meeting); !agreed) {
      (void)meeting.set(here_key(kAll, us), "!" + agreed.error().message);
      return Result<Communicator>(agreed.error());
    }
    return meet({kAll, "joining the group", us, static_cast<uint32_t>(size_), {}}, closing);
  });
  barrier({})->wait(kNoTimeout);  // throws if the ranks have not met
}

ProcessGroup::~ProcessGroup() { close(); }

void ProcessGroup::close() {
  decltype(pairs_) pairs;
  ChannelPtr all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    pairs.swap(pairs_);
    all.swap(all_);
  }
  if (all) all->close();
  for (const auto& [ends, channel] : pairs) channel->close();
}

// A device that this rank cannot open is found here, where the others still receive the error.
Result<void> ProcessGroup::agree(Store& store) {
  const uint32_t us = static_cast<uint32_t>(rank_);
  const Result<std::string> id = agree_on_id(store, us, timeout_);
  if (!id) return id.error();
  const Result<std::string> device =
      agree_on_device(store, us, static_cast<uint32_t>(size_), timeout_);
  if (!device) return device.error();
  if (const Result<Device> opened = Device::open(*device); !opened) return opened.error();
  id_ = *id;
  device_ = *device;
  return {};
}

Result<Communicator> ProcessGroup::meet(const Meeting& meeting, const std::atomic<bool>& closing) {
  TorchStore store(store_, closing);
  CommunicatorOptions options;
  options.device = device_;
  options.name = id_ + "-" + meeting.name;
  options.limit = timeout_;
  options.connect_limit = timeout_;
  options.patience = Duration::from_s(1);  // training processes load all processors
  const std::string who = "rank " + std::to_string(rank_) + ": " + meeting.operation + ": ";
  // A wait in the store can be given up, one for a connection not: so all are here before they
  // connect.
  if (Result<void> said = store.set(here_key(meeting.name, meeting.rank), "yes"); !said)
    return said.error();
  for (uint32_t other = 0; other < meeting.ranks; ++other) {
    const Result<std::string> here = store.get(here_key(meeting.name, other), timeout_);
    const int rank = meeting.peers.empty() ? static_cast<int>(other) : meeting.peers[other];
    const std::string they = who + "rank " + std::to_string(rank);
    if (!here) return Error{here.error().code, they + " has not come: " + here.error().message};
    if (here->rfind('!', 0) == 0)
      return Error{Code::peer_failed, they + " says: " + here->substr(1)};
  }
  return Communicator::create(store, meeting.rank, meeting.ranks, options);
}

ProcessGroup::ChannelPtr ProcessGroup::pair_channel(const char* operation, int from, int to,
                                                    int tag) {
  const int peer = rank_ == from ? to : from;
  TORCH_CHECK(peer >= 0 && peer < size_ && peer != rank_, "weft: ", operation, ": rank ", rank_,
              " of ", size_, " has no peer ", peer);
  const std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(all_, kGroupDestroyed);
  ChannelPtr& channel = pairs_[{from, to, tag}];
  if (!channel) {
    const std::string name =
        std::to_string(from) + "to" + std::to_string(to) + "tag" + std::to_string(tag);
    const Meeting meeting{name, operation, rank_ == from ? 0u : 1u, 2, {from, to}};
    channel = std::make_shared<Channel>(
        [this, meeting](const std::atomic<bool>& closing) { return meet(meeting, closing); });
  }
  return channel;
}

CallOptions ProcessGroup::limited(Milliseconds timeout) const {
  return {.limit = timeout.count() > 0 ? duration_of(timeout) : timeout_};
}

ProcessGroup::ChannelPtr ProcessGroup::everybody() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(all_, kGroupDestroyed);
  return all_;
}

}  // namespace weft::torch_adapter
