// SPDX-License-Identifier: BSD-3-Clause
// What a rule has in each of its processes: the plug-in, the other ranks, memory with a known
// content, and loops over calls that return before they are done. All throw Failure: when a call
// fails, or nothing is done within the limit.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tools/nccl_check/board.hpp"
#include "tools/nccl_check/net.hpp"

namespace weft::nccl_check {

// The others have failed: nothing to say.
struct Stopped {};

// The rule does not apply to this plug-in or version: the text says why.
struct NotApplicable {
  std::string text;
};

struct Settings {
  std::string library;
  int ranks = 2;
  int device = 0;
  size_t max_size = 64 << 20;
  uint64_t seed = 1;
  double limit_s = 30;
  bool quick = false;
};

class Rank;

// Memory that is registered for one communicator, between guard bytes.
class Buffer {
 public:
  // `offset`: bytes from a page boundary to the first byte.
  Buffer(Rank& rank, void* comm, size_t size, size_t offset = 0);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() { return bytes_.data() + start_; }
  size_t size() const { return size_; }
  void* memory() const { return memory_; }
  // A content that follows from `seed`, or none of it.
  void fill(uint64_t seed);
  void clear();
  // The first `length` bytes are those of fill(seed), the others and the guards as clear() left
  // them.
  void expect(uint64_t seed, size_t length, const std::string& what);

 private:
  Rank& rank_;
  void* comm_;
  size_t size_, start_;
  std::vector<std::byte> bytes_;
  void* memory_;
};

// One isend or irecv.
struct Transfer {
  bool sends = false;
  void* comm = nullptr;
  std::vector<void*> data;
  std::vector<size_t> sizes;
  std::vector<int> tags;
  std::vector<void*> memories;
  bool optional = false;

  void* request = nullptr;
  bool done = false;
  std::vector<int> got;  // what test() says
};
Transfer send_of(void* comm, Buffer& buffer, size_t size, int tag = 1);
Transfer receive_of(void* comm, Buffer& buffer, int tag = 1);
// The same of a part of the buffer.
Transfer part_of(Transfer whole, size_t offset, size_t size);

// A connection from this rank, and one to it.
struct Connections {
  void* send = nullptr;
  void* receive = nullptr;
};

class Rank {
 public:
  Rank(const Settings& settings, Board& board, Net& net, int number);

  int number() const { return number_; }
  int ranks() const { return settings_.ranks; }
  int next() const { return (number_ + 1) % ranks(); }
  int previous() const { return (number_ + ranks() - 1) % ranks(); }
  Net& net() { return net_; }
  Board& board() { return board_; }
  RankRecord& record() { return board_.ranks[static_cast<size_t>(number_)]; }
  const Settings& settings() const { return settings_; }
  std::mt19937_64& random() { return random_; }
  // A number from `low` to `high`, all powers of two alike.
  size_t random_size(size_t low, size_t high);

  // Says what the rank does now.
  void at(const std::string& place) { board_.write_place(number_, place); }
  // All ranks wait for each other.
  void barrier();
  // Calls `done` until it is true, and gives the processor away every so many calls. `what` is in
  // the Failure after the limit.
  void wait_until(const std::string& what, const std::function<bool()>& done,
                  uint32_t calls_per_yield = 64);

  // The device of connections from now on; that of the settings before.
  void use_device(int device) { device_ = device; }
  int device() const { return device_; }

  // Handles: written by one rank, read by another.
  void publish(int slot, const void* handle);
  std::array<std::byte, nccl::kHandleSize> handle_of(int rank, int slot);

  // Connections with `to` and from `from`, which calls the same with this rank.
  Connections connect(int to, int from);
  Connections connect_ring() { return connect(next(), previous()); }
  void close(const Connections& connections);

  // Posts the transfers of each communicator in their order, at most `depth` at once, and waits
  // for all. Those that have a request already are posted.
  void run(std::vector<Transfer>& transfers, size_t depth = 16);
  // One call, and what it says. False: call again.
  bool post(Transfer& transfer);
  bool test(Transfer& transfer);

 private:
  const Settings& settings_;
  Board& board_;
  Net& net_;
  int number_;
  int device_;
  uint32_t generation_ = 0;
  std::mt19937_64 random_;
};

}  // namespace weft::nccl_check
