// SPDX-License-Identifier: BSD-3-Clause
// Creating and freeing communicators, and what can be asked of them.
#include <algorithm>
#include <cstddef>
#include <numeric>

#include "lib/adapters/ccl/group.hpp"
#include "lib/adapters/ccl/result.hpp"
#include "weft/device.hpp"

namespace weft::ccl {
namespace {

// What `given` says over `config`.
Result<Config> over(Config config, const ncclConfig_t* given) {
  if (given == nullptr) return config;
  if (given->magic != WEFT_CCL_CONFIG_MAGIC || given->size < offsetof(ncclConfig_t, cgaClusterSize))
    return wrong("config is not set to NCCL_CONFIG_INITIALIZER");
  const auto has = [&](size_t end) { return given->size >= end; };
  if (given->blocking != NCCL_CONFIG_UNDEF_INT) config.blocking = given->blocking != 0;
  if (has(offsetof(ncclConfig_t, splitShare)) && given->netName != nullptr)
    config.device = given->netName;
  const bool classed =
      has(offsetof(ncclConfig_t, commName)) && given->trafficClass != NCCL_CONFIG_UNDEF_INT;
  if (!classed) return config;
  if (given->trafficClass < 0 || given->trafficClass >= static_cast<int>(kTrafficClasses))
    return wrong("config.trafficClass is " + std::to_string(given->trafficClass) +
                 ": it is 0 to 3");
  config.traffic_class = static_cast<uint32_t>(given->trafficClass);
  return config;
}

// Hands a communicator over that is being created. If it cannot be, and is waited for here, the
// caller gets none.
Result<void> hand_over(CommPtr comm, ncclComm_t* handle) {
  *handle = new ncclComm{comm};
  const Result<void> created = await_creation(comm);
  if (created || created.error().code == Code::would_block) return created;
  delete std::exchange(*handle, nullptr);
  return created;
}

Result<void> init(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank, int device,
                  const ncclConfig_t* given) {
  if (handle == nullptr) return wrong("comm is NULL");
  *handle = nullptr;
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return wrong("rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                 " ranks: ranks are 0 to nranks - 1");
  const Result<Config> config = over({}, given);
  if (!config) return config.error();
  const Result<Meeting> meeting = read_id(id);
  if (!meeting) return meeting.error();
  return hand_over(
      Comm::open(*config, {*meeting, static_cast<uint32_t>(rank), static_cast<uint32_t>(ranks)},
                 device, nullptr),
      handle);
}

Result<CommPtr> known(ncclComm_t handle) {
  if (handle == nullptr) return wrong("comm is NULL");
  return handle->it;
}

// The seats of a split: who has my colour, in the order of keys.
Result<Comm::Seat> seat_by_colour(Comm& parent, const std::vector<int64_t>& all, int64_t colour,
                                  const std::string& name) {
  std::vector<uint32_t> members;
  for (uint32_t r = 0; r < all.size() / 2; ++r)
    if (all[2 * r] == colour) members.push_back(r);
  std::stable_sort(members.begin(), members.end(),
                   [&](uint32_t a, uint32_t b) { return all[2 * a + 1] < all[2 * b + 1]; });
  const auto own = std::find(members.begin(), members.end(), parent.rank());
  return Comm::Seat{{parent.store_of(members.front()), name + "." + std::to_string(colour)},
                    static_cast<uint32_t>(own - members.begin()),
                    static_cast<uint32_t>(members.size())};
}

Result<void> split(ncclComm_t handle, int colour, int key, ncclComm_t* made,
                   const ncclConfig_t* given) {
  const Result<CommPtr> parent = known(handle);
  if (!parent) return parent.error();
  if (made == nullptr) return wrong("newcomm is NULL");
  *made = nullptr;
  if (colour < 0 && colour != NCCL_SPLIT_NOCOLOR)
    return wrong("color is " + std::to_string(colour) + ": it is 0 or more");
  const Result<Config> config = over((*parent)->config(), given);
  if (!config) return config.error();
  struct Colours {
    int64_t own[2];
    std::vector<int64_t> all;
  };
  const std::shared_ptr<Colours> colours = std::make_shared<Colours>();
  colours->own[0] = colour, colours->own[1] = key;
  Job job;
  job.calls.push_back([colours](Communicator& group) {
    colours->all.resize(2 * size_t{group.size()});
    return group.all_gather(colours->own, colours->all.data(), 2, DataType::int64);
  });
  CompletionPtr gathered;
  const std::string name = (*parent)->next_name('s');
  if (const Result<void> done = (*parent)->submit(std::move(job), &gathered); !done) return done;
  if (colour == NCCL_SPLIT_NOCOLOR) return {};
  // The parent is kept until the child is created.
  return hand_over(
      Comm::open(*config, {}, (*parent)->device_number(),
                 [=, parent = *parent](const std::atomic<bool>&) {
                   gathered->wait();
                   if (parent->failure_text() == nullptr)
                     return seat_by_colour(*parent, colours->all, colour, name);
                   return Result<Comm::Seat>(Error{Code::peer_failed, parent->failure_text()});
                 }),
      made);
}

Result<void> shrink(ncclComm_t handle, std::vector<int> excluded, ncclComm_t* made,
                    const ncclConfig_t* given, int flags) {
  const Result<CommPtr> parent = known(handle);
  if (!parent) return parent.error();
  if (made == nullptr) return wrong("newcomm is NULL");
  *made = nullptr;
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
    return wrong("shrinkFlags is " + std::to_string(flags));
  const Result<Config> config = over((*parent)->config(), given);
  if (!config) return config.error();
  std::string name = (*parent)->next_name('k');
  std::sort(excluded.begin(), excluded.end());
  std::vector<uint32_t> members;
  for (uint32_t r = 0; r < (*parent)->size(); ++r)
    if (!std::binary_search(excluded.begin(), excluded.end(), static_cast<int>(r)))
      members.push_back(r);
  for (const int r : excluded) name += "." + std::to_string(r);  // ranks that disagree do not meet
  const auto own = std::find(members.begin(), members.end(), (*parent)->rank());
  if (own == members.end()) return wrong("this rank is excluded: it does not call it");
  const std::string store = (*parent)->store_of(members.front());
  if (store.empty()) return misused("the communicator was never created");
  if (flags == NCCL_SHRINK_ABORT) (*parent)->revoke(false);
  return hand_over(Comm::open(*config,
                              {{store, name},
                               static_cast<uint32_t>(own - members.begin()),
                               static_cast<uint32_t>(members.size())},
                              (*parent)->device_number(), nullptr),
                   made);
}

Result<void> finalize(const CommPtr& comm) {
  comm->finalize();
  if (!comm->config().blocking)
    return Error{Code::would_block, "the communicator is being finalized"};
  return comm->wait_until_idle();
}

}  // namespace
}  // namespace weft::ccl

using weft::Result;
using weft::ccl::call;
using weft::ccl::CommPtr;
using weft::ccl::known;
using weft::ccl::wrong;

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  return call([&]() -> Result<void> {
    if (uniqueId == nullptr) return wrong("uniqueId is NULL");
    const Result<ncclUniqueId> id = weft::ccl::new_id("");
    if (!id) return id.error();
    *uniqueId = *id;
    return {};
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return call([&] { return weft::ccl::init(comm, nranks, commId, rank, 0, nullptr); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config) {
  return call([&] { return weft::ccl::init(comm, nranks, commId, rank, 0, config); });
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int nranks, int rank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config) {
  return call([&]() -> Result<void> {
    if (commIds == nullptr || nId < 1) return wrong("there is no id");
    return weft::ccl::init(comm, nranks, commIds[0], rank, 0, config);
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ndev, const int* devlist) {
  return call([&]() -> Result<void> {
    if (comms == nullptr || ndev < 1) return wrong("there is no rank: comms is NULL or ndev < 1");
    const Result<ncclUniqueId> id = weft::ccl::new_id("");
    if (!id) return id.error();
    if (const ncclResult_t begun = ncclGroupStart(); begun != ncclSuccess)
      return weft::ccl::misused("no group");
    Result<void> first;
    for (int rank = 0; rank < ndev; ++rank) {
      const Result<void> done = weft::ccl::init(&comms[rank], ndev, *id, rank,
                                                devlist != nullptr ? devlist[rank] : rank, nullptr);
      if (!done && first) first = done;
    }
    const ncclResult_t ended = ncclGroupEnd();
    if (first && ended != ncclSuccess)
      first = weft::Error{weft::Code::io_error, weft::ccl::last_error()};
    return first;
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  return call([&] { return weft::ccl::split(comm, color, key, newcomm, config); });
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  return call([&]() -> Result<void> {
    if (excludeRanksCount < 1 || excludeRanksList == nullptr)
      return wrong("the list of excluded ranks is empty");
    return weft::ccl::shrink(comm, {excludeRanksList, excludeRanksList + excludeRanksCount},
                             newcomm, config, shrinkFlags);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return call([&]() -> Result<void> {
    const Result<CommPtr> it = known(comm);
    return it ? weft::ccl::finalize(*it) : it.error();
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return call([&]() -> Result<void> {
    const Result<CommPtr> it = known(comm);
    if (!it) return it.error();
    (*it)->close();
    const Result<void> idle = (*it)->wait_until_idle();
    delete comm;
    return {};
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return call([&]() -> Result<void> {
    const Result<CommPtr> it = known(comm);
    if (!it) return it.error();
    (*it)->revoke(true);
    delete comm;
    return {};
  });
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  return call([&]() -> Result<void> {
    const Result<CommPtr> it = known(comm);
    if (!it) return it.error();
    if (revokeFlags != NCCL_REVOKE_DEFAULT) return wrong("revokeFlags is not 0");
    (*it)->revoke(false);
    return {};
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return call([&]() -> Result<void> {
    const Result<CommPtr> it = known(comm);
    if (!it) return it.error();
    if (asyncError == nullptr) return wrong("asyncError is NULL");
    *asyncError = (*it)->state();
    return {};
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return call([&]() -> Result<void> {
    const Result<CommPtr> it = known(comm);
    if (!it) return it.error();
    if (count == nullptr) return wrong("count is NULL");
    *count = static_cast<int>((*it)->size());
    return {};
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return call([&]() -> Result<void> {
    const Result<CommPtr> it = known(comm);
    if (!it) return it.error();
    if (rank == nullptr) return wrong("rank is NULL");
    *rank = static_cast<int>((*it)->rank());
    return {};
  });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return call([&]() -> Result<void> {
    const Result<CommPtr> it = known(comm);
    if (!it) return it.error();
    if (device == nullptr) return wrong("device is NULL");
    *device = (*it)->device_number();
    return {};
  });
}
