// SPDX-License-Identifier: BSD-3-Clause
// A child process of tests with several processes. It opens `contexts` devices of one device
// string, listens with each, and executes commands from its standard input:
//   go I HOST:PORT N T  context I connects N queue pairs of timeout T to a listener and transfers,
//                       verifying each byte
//   stop                all transfers end and are reported. The devices stay open until the
//   standard
//                       input closes: peers that stop later still transfer with them
// Standard output: `port I PORT` at the start, `linked I N` when a `go` is connected, and when a
// transfer ends `link I STATUS ROUNDS MS`: why, how many rounds were verified, and how long the
// last one took.
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/meeting.hpp"
#include "tests/support/free_end.hpp"
#include "weft/weft.hpp"

namespace weft::test {
namespace {

constexpr size_t kSlot = 24'000;  // bytes of the server's region that a connection may use
constexpr size_t kSlots = 64;
std::atomic<bool> stopping{false};
std::mutex printing;

void say(const std::string& line) {
  const std::scoped_lock hold(printing);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void die(const std::string& why) {
  say("fatal " + why);
  _exit(1);
}

template <class T>
T must(Result<T> result, const char* what) {
  if (!result) die(std::string(what) + ": " + result.error().message);
  return std::move(*result);
}

// The private data of a server: the slot of this client.
struct SlotAdvertisement {
  uint64_t address;
  uint32_t rkey;
};

struct Context {
  explicit Context(const std::string& spec)
      : device(must(open_free_end(spec), "open")),
        pd(must(device.protection_domain(), "domain")),
        cq(must(device.completion_queue({.capacity = 16384}), "cq")),
        memory(kSlots * kSlot),
        region(must(pd.register_memory(memory.data(), memory.size(), Access::all), "register")),
        door(must(Door::open(device), "listen")) {}

  QueuePair queue_pair(const CompletionQueue& on) const {
    return must(pd.queue_pair({.type = device.attributes().qp_type,
                               .send_cq = on,
                               .recv_cq = on,
                               .max_send_wr = 8,
                               .max_recv_wr = 8}),
                "queue pair");
  }

  // Accepts until the process stops. The queue pairs are kept; the progress thread serves them.
  void serve() {
    while (!stopping) {
      const SlotAdvertisement advertised{
          reinterpret_cast<uint64_t>(&memory[accepted.size() % kSlots * kSlot]),
          region.rkey().value};
      const auto* bytes = reinterpret_cast<const std::byte*>(&advertised);
      std::optional<Met> peer =
          door.accept([this] { return queue_pair(cq); }, {bytes, bytes + sizeof advertised});
      if (peer) accepted.push_back(std::move(*peer));
    }
  }

  Device device;
  ProtectionDomain pd;
  CompletionQueue cq;
  std::vector<std::byte> memory;
  MemoryRegion region;
  Door door;
  std::vector<Met> accepted;
};

// The client's end of some connections to one server.
class Link {
 public:
  Link(Context& context, size_t index, const std::string& address, size_t count, uint8_t timeout)
      : index_(index),
        connector_(context.device),
        cq_(must(context.device.completion_queue({.capacity = 1024}), "cq")),
        memory_(2 * kSlot),
        region_(must(context.pd.register_memory(memory_.data(), memory_.size(), Access::all),
                     "register")) {
    for (size_t i = 0; i < count; ++i) {
      Met peer = must(connector_.meet(address, context.queue_pair(cq_), timeout), "connect");
      SlotAdvertisement advertised{};
      if (peer.peer_data.size() >= sizeof advertised)
        std::memcpy(&advertised, peer.peer_data.data(), sizeof advertised);
      peers_.push_back(std::move(peer));
      advertised_.push_back(advertised);
    }
    say("linked " + std::to_string(index) + " " + std::to_string(count));
  }

  // Writes a pattern, reads it back, compares; one queue pair after the other.
  void transfer() {
    uint64_t rounds = 0;
    Status status = Status::success;
    std::chrono::steady_clock::time_point begin;
    while (!stopping && status == Status::success) {
      begin = std::chrono::steady_clock::now();
      status = one_round(rounds++);
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
    std::ostringstream line;
    line << "link " << index_ << " " << name(status) << " " << rounds << " " << ms;
    say(line.str());
  }

 private:
  Status one_round(uint64_t round) {
    const size_t i = round % peers_.size();
    const size_t length = 1 + round * 977 % (kSlot - 1);
    for (size_t k = 0; k < length; ++k) memory_[k] = static_cast<std::byte>(round * 31 + k);
    std::memset(&memory_[kSlot], 0, length);
    const Sge out = region_.sge(0, static_cast<uint32_t>(length));
    const Sge in = region_.sge(kSlot, static_cast<uint32_t>(length));
    SendRequest list[2];
    list[0] = {.id = 1,
               .opcode = Opcode::write,
               .sges = {&out, 1},
               .remote_address = advertised_[i].address,
               .rkey = RKey{advertised_[i].rkey}};
    list[1] = list[0];
    list[1].opcode = Opcode::read;
    list[1].sges = {&in, 1};
    // SRD keeps no order: there the READ waits for the end of the WRITE.
    const bool ordered = peers_[i].qp.device().attributes().qp_type != QpType::srd;
    for (size_t done = 0; done < 2; ++done) {
      const std::span<const SendRequest> now = ordered
                                                   ? std::span<const SendRequest>(list)
                                                   : std::span<const SendRequest>(&list[done], 1);
      if (!ordered || done == 0) {
        const PostStatus posted = peers_[i].qp.post_send(now);
        if (!posted) die(std::string("post: ") + posted.reason);
      }
      const Completion c = next();
      if (c.status != Status::success) return c.status;
    }
    if (std::memcmp(&memory_[0], &memory_[kSlot], length) != 0) die("wrong bytes");
    return Status::success;
  }

  Completion next() const {
    Completion c;
    for (int tenth = 0; tenth < 600; ++tenth) {
      if (cq_.wait({&c, 1}, Duration::from_ms(100)) == 1) return c;
      connector_.drain_cm_events();
    }
    die("no completion in a minute");
  }

  size_t index_;
  Connector connector_;
  CompletionQueue cq_;
  std::vector<std::byte> memory_;
  MemoryRegion region_;
  std::vector<Met> peers_;
  std::vector<SlotAdvertisement> advertised_;
};

int run(const std::string& spec, size_t count) {
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < count; ++i) {
    contexts.push_back(std::make_unique<Context>(spec));
    threads.emplace_back([context = contexts[i].get()] { context->serve(); });
    say("port " + std::to_string(i) + " " + std::to_string(contexts[i]->door.port()));
  }
  std::string line;
  while (std::getline(std::cin, line) && line != "stop") {
    std::istringstream words(line);
    std::string verb, address;
    size_t index = 0, pairs = 1;
    unsigned timeout = 13;
    words >> verb >> index >> address >> pairs >> timeout;
    if (verb != "go" || index >= count) die("what is \"" + line + "\"?");
    threads.emplace_back([context = contexts[index].get(), index, address, pairs, timeout] {
      Link(*context, index, address, pairs, static_cast<uint8_t>(timeout)).transfer();
    });
  }
  stopping = true;
  threads.clear();  // joins
  say("bye");
  while (std::getline(std::cin, line)) {
  }
  return 0;
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: conformance_peer DEVICE CONTEXTS\n"), 2;
  return weft::test::run(argv[1], static_cast<size_t>(std::atoi(argv[2])));
}
