// SPDX-License-Identifier: BSD-3-Clause
// A communicator of NCCL: one of weft, and the thread that creates it and carries out its jobs, one
// at a time, in the order in which they were submitted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/adapters/ccl/rendezvous.hpp"
#include "lib/adapters/ccl/stream.hpp"
#include "weft/collective.hpp"

namespace weft::ccl {

using Call = std::function<Operation(Communicator&)>;

// Calls that are made together, after those before them on their streams.
struct Job {
  std::vector<Call> calls;
  std::vector<StreamPtr> streams;
};

// As ncclConfig_t says it.
struct Config {
  bool blocking = true;
  std::string device;  // empty: WEFT_DEVICE
  std::optional<uint32_t> traffic_class;
};

// A reduction of ncclRedOpCreatePreMulSum().
struct Factor {
  DataType type = DataType::fp32;
  uint64_t value = 0;            // its bytes, if it was read already
  const void* memory = nullptr;  // where it is, otherwise
};

class Comm;
using CommPtr = std::shared_ptr<Comm>;

class Comm {
 public:
  // Where and as which rank of how many; called in the communicator's thread, may block.
  struct Seat {
    Meeting meeting;
    uint32_t rank = 0, ranks = 1;
  };
  using FindSeat = std::function<Result<Seat>(const std::atomic<bool>& giving_up)>;

  // Begins to create it. `seat`: as far as it is known before.
  static CommPtr open(const Config& config, Seat seat, int device_number, FindSeat find);
  ~Comm();

  // Waits until it is created, or cannot be.
  Result<void> wait_until_open();
  // Errors: bad_state (it has failed, or is finalized).
  Result<void> submit(Job job, CompletionPtr* done = nullptr);
  // Runs `action` between jobs, or while one waits for other ranks, and waits for it.
  Result<void> run_now(std::function<Result<void>(Communicator&)> action);
  // Takes no more jobs.
  void finalize();
  Result<void> wait_until_idle();
  // Ends the jobs in progress, on all ranks.
  void revoke(bool leave);
  // Ends the thread after its jobs.
  void close();

  // ncclInProgress while it is being created or finalized.
  ncclResult_t state();
  // Null if it has not failed.
  const char* failure_text();
  // Known once it is open.
  uint32_t rank();
  uint32_t size();
  int device_number() const { return device_number_; }
  uint64_t number() const { return number_; }
  const Config& config() const { return config_; }
  // The store that a rank serves. Known once it is open.
  std::string store_of(uint32_t rank);
  // A name for a communicator made from this one: the same on all ranks, as calls are in order.
  std::string next_name(char kind);

  int add_factor(const Factor& factor);
  bool remove_factor(int op);
  std::optional<Factor> factor(int op);

  Result<void*> register_memory(void* memory, size_t bytes);
  Result<void> deregister(void* handle);

 private:
  struct Queued {
    Job job;
    std::vector<CompletionPtr> after;
    CompletionPtr done;
  };
  struct Request {
    std::function<Result<void>(Communicator&)> action;
    Result<void> result;
    Completion done;
  };

  Comm(const Config& config, Seat seat, int device_number);
  void run(FindSeat find);
  Result<Communicator> create(const FindSeat& find);
  Result<void> exchange_stores(Communicator& group);
  bool take_turn(Communicator& group);
  Result<void> carry_out(Communicator& group, Queued& queued);
  Result<void> wait_for(Communicator& group, Operation& operation);
  void serve(Communicator& group);
  void watch(Communicator& group);
  void end(Queued& queued, const Result<void>& result);
  void fail(const Error& error, ncclResult_t result);
  Result<void> check_open();

  const Config config_;
  const int device_number_;
  const uint64_t number_;
  std::atomic<bool> revoked_{false}, leaving_{false}, asked_{false};

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  Seat seat_;
  bool open_ = false, idle_ = true, closing_ = false, finalized_ = false, over_ = false;
  std::deque<Queued> queue_;
  std::deque<std::shared_ptr<Request>> requests_;
  std::optional<Error> error_;
  ncclResult_t result_ = ncclSuccess;
  std::vector<std::string> stores_;
  std::map<int, Factor> factors_;
  int next_factor_ = ncclNumOps;
  uint32_t names_ = 0;

  std::map<void*, Registration> registrations_;  // of the communicator's thread
  uintptr_t next_registration_ = 1;
  std::thread thread_;
};

}  // namespace weft::ccl

struct ncclComm {
  weft::ccl::CommPtr it;
};
