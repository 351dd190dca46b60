// SPDX-License-Identifier: BSD-3-Clause
// The thread of a communicator.
#include "lib/adapters/ccl/communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "lib/adapters/ccl/result.hpp"

namespace weft::ccl {
namespace {

// How often a wait looks for requests, and an idle thread for dead ranks.
constexpr Duration kLook = Duration::from_ms(5);
constexpr auto kWatch = std::chrono::milliseconds(50);
// NCCL's calls have no limit, and none is as long as a month.
constexpr Duration kCallLimit = Duration::from_s(86'400 * 30), kOpenLimit = Duration::from_s(120);
// A process that is stopped for a second is not dead.
constexpr Duration kPatience = Duration::from_s(3);

std::atomic<uint64_t> last_number{0};

}  // namespace

CommPtr Comm::open(const Config& config, Seat seat, int device_number, FindSeat find) {
  const CommPtr comm(new Comm(config, std::move(seat), device_number));
  Comm* const it = comm.get();
  it->thread_ = std::thread(
      [it, find = std::move(find)]() mutable { it->run(std::exchange(find, nullptr)); });
  return comm;
}

Comm::Comm(const Config& config, Seat seat, int device_number)
    : config_(config),
      device_number_(device_number),
      number_(++last_number),
      seat_(std::move(seat)) {}

Comm::~Comm() {
  close();
  if (thread_.joinable()) thread_.join();
}

// ---- what callers do

Result<void> Comm::check_open() {
  if (error_) return Error{error_->code, error_->message};
  if (finalized_ || closing_) return misused("the communicator is finalized");
  return {};
}

Result<void> Comm::wait_until_open() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return open_ || error_ || over_; });
  return error_ ? Result<void>(*error_) : Result<void>();
}

Result<void> Comm::submit(Job job, CompletionPtr* done) {
  const std::lock_guard lock(mutex_);
  if (const Result<void> checked = check_open(); !checked) return checked;
  Queued queued{std::move(job), {}, std::make_shared<Completion>()};
  for (const StreamPtr& stream : queued.job.streams)
    if (CompletionPtr before = stream->append(queued.done)) queued.after.push_back(before);
  if (done != nullptr) *done = queued.done;
  queue_.push_back(std::move(queued));
  changed_.notify_all();
  return {};
}

Result<void> Comm::run_now(std::function<Result<void>(Communicator&)> action) {
  const std::shared_ptr<Request> request = std::make_shared<Request>();
  request->action = std::move(action);
  {
    const std::lock_guard lock(mutex_);
    if (over_) return error_ ? *error_ : misused("the communicator is finalized");
    requests_.push_back(request);
    asked_ = true;
    changed_.notify_all();
  }
  request->done.wait();
  return request->result;
}

void Comm::finalize() {
  const std::lock_guard lock(mutex_);
  finalized_ = true;
}

Result<void> Comm::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return over_ || ((open_ || error_) && queue_.empty() && idle_); });
  return error_ ? Result<void>(*error_) : Result<void>();
}

void Comm::revoke(bool leave) {
  if (leave) leaving_ = true;
  revoked_ = true;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void Comm::close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

ncclResult_t Comm::state() {
  const std::lock_guard lock(mutex_);
  if (error_) return result_;
  if (!open_ || (finalized_ && !(queue_.empty() && idle_))) return ncclInProgress;
  return ncclSuccess;
}

const char* Comm::failure_text() {
  const std::lock_guard lock(mutex_);
  return error_ ? error_->message.c_str() : nullptr;
}

uint32_t Comm::rank() {
  const std::lock_guard lock(mutex_);
  return seat_.rank;
}

uint32_t Comm::size() {
  const std::lock_guard lock(mutex_);
  return seat_.ranks;
}

std::string Comm::store_of(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  return rank < stores_.size() ? stores_[rank] : "";
}

std::string Comm::next_name(char kind) {
  const std::lock_guard lock(mutex_);
  return seat_.meeting.name + kind + std::to_string(++names_);
}

int Comm::add_factor(const Factor& factor) {
  const std::lock_guard lock(mutex_);
  factors_[next_factor_] = factor;
  return next_factor_++;
}

bool Comm::remove_factor(int op) {
  const std::lock_guard lock(mutex_);
  return factors_.erase(op) != 0;
}

std::optional<Factor> Comm::factor(int op) {
  const std::lock_guard lock(mutex_);
  const auto found = factors_.find(op);
  return found == factors_.end() ? std::nullopt : std::optional(found->second);
}

Result<void*> Comm::register_memory(void* memory, size_t bytes) {
  void* handle = nullptr;
  const Result<void> done = run_now([&](Communicator& group) -> Result<void> {
    Result<Registration> registration = group.register_memory(memory, bytes);
    if (!registration) return registration.error();
    handle = reinterpret_cast<void*>(next_registration_++);
    registrations_.emplace(handle, std::move(*registration));
    return {};
  });
  return done ? Result<void*>(handle) : done.error();
}

Result<void> Comm::deregister(void* handle) {
  return run_now([&](Communicator&) -> Result<void> {
    return registrations_.erase(handle) != 0
               ? Result<void>()
               : wrong("the handle is not one of ncclCommRegister() of this communicator");
  });
}

// ---- the thread

void Comm::run(FindSeat find) {
  Result<Communicator> group = create(find);
  find = nullptr;  // which may be the last to keep the parent
  if (group) {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
      changed_.notify_all();
    }
    while (take_turn(*group)) continue;
    registrations_.clear();
  } else {
    fail(group.error(), result_of(group.error().code));
  }
  std::unique_lock lock(mutex_);
  over_ = true;
  const Error why = error_ ? *error_ : misused("the communicator is freed");
  for (const std::shared_ptr<Request>& request : requests_) {
    request->result = why;
    request->done.finish();
  }
  std::deque<Queued> rest;
  rest.swap(queue_);
  changed_.notify_all();
  lock.unlock();
  for (Queued& queued : rest) end(queued, why);
}

Result<Communicator> Comm::create(const FindSeat& find) {
  if (find) {
    const Result<Seat> found = find(leaving_);
    if (!found) return found.error();
    const std::lock_guard lock(mutex_);
    seat_ = *found;
  }
  const Result<std::unique_ptr<Store>> store = reach_store(seat_.meeting.store, leaving_);
  if (!store) return store.error();
  CommunicatorOptions options{.device = config_.device,
                              .name = seat_.meeting.name,
                              .limit = kCallLimit,
                              .connect_limit = kOpenLimit,
                              .patience = kPatience};
  if (config_.traffic_class) options.traffic_class = *config_.traffic_class;
  Result<Communicator> group = Communicator::create(**store, seat_.rank, seat_.ranks, options);
  if (!group) return group;
  const Result<void> known = exchange_stores(*group);
  return known ? std::move(group) : Result<Communicator>(known.error());
}

Result<void> Comm::exchange_stores(Communicator& group) {
  const Result<std::string> own = served_store(config_.device);
  if (!own) return own.error();
  Address address{};
  if (own->size() >= address.size()) return wrong("the address of a store is too long: " + *own);
  std::copy(own->begin(), own->end(), address.begin());
  std::vector<Address> all(group.size());
  Operation gathered =
      group.all_gather(address.data(), all.data(), address.size(), DataType::uint8);
  if (const Result<void> done = wait_for(group, gathered); !done) return done;
  const std::lock_guard lock(mutex_);
  for (const Address& each : all)
    stores_.emplace_back(each.data(), strnlen(each.data(), each.size()));
  return {};
}

bool Comm::take_turn(Communicator& group) {
  serve(group);
  std::unique_lock lock(mutex_);
  const auto something = [this] {
    return !queue_.empty() || closing_ || asked_ || (revoked_ && !error_);
  };
  if (!changed_.wait_for(lock, kWatch, something)) {
    lock.unlock();
    watch(group);
    return true;
  }
  if (leaving_ || (queue_.empty() && closing_)) return false;
  if (queue_.empty()) return true;
  Queued queued = std::move(queue_.front());
  queue_.pop_front();
  idle_ = false;
  lock.unlock();
  end(queued, carry_out(group, queued));
  lock.lock();
  idle_ = true;
  changed_.notify_all();
  return true;
}

Result<void> Comm::carry_out(Communicator& group, Queued& queued) {
  for (const CompletionPtr& before : queued.after)
    while (!before->wait_for(kLook)) {
      serve(group);
      if (revoked_) return *error_;
    }
  if (error_) return *error_;  // which this thread alone writes
  std::vector<Operation> running;
  for (const Call& call : queued.job.calls) running.push_back(call(group));
  Result<void> first;
  for (Operation& operation : running)
    if (const Result<void> done = wait_for(group, operation); !done && first) first = done;
  if (!first) watch(group);
  if (!first && !error_) fail(first.error(), result_of(first.error().code));
  return first;
}

Result<void> Comm::wait_for(Communicator& group, Operation& operation) {
  while (true) {
    const Result<bool> done = operation.wait_for(kLook);
    if (!done) return done.error();
    if (*done) return {};
    serve(group);
  }
}

// Requests, and the end of what is in progress.
void Comm::serve(Communicator& group) {
  if (revoked_ && !error_) {
    group.revoke(leaving_ ? "it has aborted" : "");
    fail({Code::bad_state, "rank " + std::to_string(group.rank()) + " has " +
                               (leaving_ ? "aborted" : "revoked") + " the communicator"},
         ncclInvalidUsage);
  }
  if (!asked_) return;
  std::deque<std::shared_ptr<Request>> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(requests_);
    asked_ = false;
  }
  for (const std::shared_ptr<Request>& request : taken) {
    request->result = request->action(group);
    request->done.finish();
  }
}

// Whether another rank has ended the communicator.
void Comm::watch(Communicator& group) {
  group.progress();
  const std::optional<Failure> failure = group.failure();
  if (!failure || error_) return;
  const bool remote = failure->rank != group.rank() &&
                      (failure->code == Code::bad_state || failure->code == Code::io_error);
  fail({failure->code, failure->text}, remote ? ncclRemoteError : result_of(failure->code));
}

void Comm::end(Queued& queued, const Result<void>& result) {
  queued.job.calls.clear();  // what they keep is freed before the program goes on
  if (!result)
    for (const StreamPtr& stream : queued.job.streams) stream->note(state());
  queued.done->finish();
}

void Comm::fail(const Error& error, ncclResult_t result) {
  const std::lock_guard lock(mutex_);
  error_ = error;
  result_ = result;
  changed_.notify_all();
}

}  // namespace weft::ccl
