// SPDX-License-Identifier: BSD-3-Clause
// The log: which lines are wanted, their form, and that refusals, failed requests and refused peers
// have one.
// program: own
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "lib/base/log/log.hpp"
#include "tests/support/catch.hpp"
#include "weft/weft.hpp"

namespace weft {
namespace {

// Takes the lines of this process while it lives.
class Lines {
 public:
  explicit Lines(std::string_view levels) {
    REQUIRE(set_log_levels(levels));
    REQUIRE(set_log_sink([this](const LogLine& line) {
      const std::lock_guard hold(mutex_);
      all_.push_back(std::string(name(line.level)) + " " + std::string(line.subsystem) + " " +
                     std::string(line.text));
    }));
  }
  ~Lines() {
    (void)set_log_sink({});
    (void)set_log_levels("");
  }
  std::vector<std::string> all() const {
    const std::lock_guard hold(mutex_);
    return all_;
  }
  // The lines with this text.
  size_t with(std::string_view text) const {
    size_t n = 0;
    for (const std::string& line : all()) n += line.find(text) != line.npos;
    return n;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

// What `work` writes to stderr.
template <class Work>
std::string stderr_of(Work work) {
  FILE* const file = std::tmpfile();
  const int saved = dup(STDERR_FILENO);
  REQUIRE(dup2(fileno(file), STDERR_FILENO) >= 0);
  work();
  dup2(saved, STDERR_FILENO);
  close(saved);
  std::string text(4096, 0);
  text.resize(static_cast<size_t>(pread(fileno(file), text.data(), text.size(), 0)));
  std::fclose(file);
  return text;
}

using base::Subsystem;

TEST_CASE("levels select lines by subsystem") {
  REQUIRE(set_log_levels(""));
  CHECK(base::logs(Subsystem::roce, LogLevel::warning));
  CHECK_FALSE(base::logs(Subsystem::roce, LogLevel::info));
  REQUIRE(set_log_levels("info,roce=debug,srd=off"));
  CHECK(base::logs(Subsystem::api, LogLevel::info));
  CHECK_FALSE(base::logs(Subsystem::api, LogLevel::debug));
  CHECK(base::logs(Subsystem::roce, LogLevel::debug));
  CHECK_FALSE(base::logs(Subsystem::srd, LogLevel::error));
  base::log_from(Subsystem::srd, LogLevel::info);
  CHECK(base::logs(Subsystem::srd, LogLevel::info));
  base::log_from(Subsystem::roce, LogLevel::info);  // it was more already
  CHECK(base::logs(Subsystem::roce, LogLevel::debug));

  for (const char* const wrong : {"loud", "roce=loud", "rocket=info", "=info", "info,"}) {
    INFO(wrong);
    const Result<void> set = set_log_levels(wrong);
    if (std::string_view(wrong) == "info,") {
      CHECK(set);
      continue;
    }
    REQUIRE_FALSE(set);
    CHECK(set.error().code == Code::invalid_argument);
    CHECK(set.error().message.find(wrong) != std::string::npos);
    CHECK(base::logs(Subsystem::roce, LogLevel::debug));  // as before
  }
  REQUIRE(set_log_levels(""));
}

TEST_CASE("a line on stderr is text or a JSON object") {
  REQUIRE(set_log_levels("info"));
  const auto write = [] {
    base::log(Subsystem::roce, LogLevel::info, [] { return std::string("a \"b\"\nc"); });
    base::log(Subsystem::roce, LogLevel::debug, [] { return std::string("not wanted"); });
  };
  CHECK(stderr_of(write) == "weft: roce: a \"b\" c\n");
  REQUIRE(set_log_levels("info,json"));
  const std::string line = stderr_of(write);
  INFO(line);
  CHECK(line.starts_with("{\"time\":"));
  CHECK(line.ends_with(",\"pid\":" + std::to_string(getpid()) +
                       ",\"level\":\"info\",\"subsystem\":\"roce\",\"text\":\"a \\\"b\\\" c\"}\n"));
  REQUIRE(set_log_levels(""));
}

TEST_CASE("what a call refuses is one line, of the call that the program made") {
  const Lines lines("info");
  const Result<Device> device = Device::open("roce+udp:lo,colour=red");
  REQUIRE_FALSE(device);
  REQUIRE(lines.all().size() == 1);
  CHECK(lines.all()[0] == "info api invalid_argument: " + device.error().message);
}

struct Party {
  explicit Party(const char* spec) : device(*Device::open(spec)), pd(*device.protection_domain()) {
    cq = *device.completion_queue({.capacity = 16});
    qp = *pd.queue_pair({.type = device.attributes().qp_type, .send_cq = cq, .recv_cq = cq});
    region = *pd.register_memory(memory, sizeof memory, Access::all);
  }
  alignas(64) char memory[64] = {};
  Device device;
  ProtectionDomain pd;
  CompletionQueue cq;
  QueuePair qp;
  MemoryRegion region;
};

TEST_CASE("a failed request is one line that says what to do") {
  for (const char* const spec : {"roce+shm:log", "srd+shm:log"}) {
    const Lines lines("info");
    Party a(spec), b(spec);
    Listener listener = *Listener::listen("127.0.0.1:0");
    std::thread other([&] { (void)listener.accept(b.qp).value(); });
    REQUIRE(connect("127.0.0.1:" + std::to_string(listener.port()), a.qp));
    other.join();
    const RKey gone = b.region.rkey();
    b.region = {};
    const Sge sge = a.region.sge(0, 8);
    SendRequest request{.id = 1, .opcode = Opcode::write, .sges = {&sge, 1}};
    request.remote_address = reinterpret_cast<uintptr_t>(b.memory);
    request.rkey = gone;  // an SRD queue pair has its default destination from connect()
    REQUIRE(a.qp.post_send(request));
    Completion c;
    REQUIRE(a.cq.wait({&c, 1}, Duration::from_s(10)) == 1);
    REQUIRE(c.status == Status::remote_access_error);
    const std::string text(reason(c.status));
    // The thread that made the progress writes the line after it has released the device's lock.
    for (int i = 0; i < 2000 && lines.with(text) == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    INFO(spec);
    for (const std::string& line : lines.all()) UNSCOPED_INFO(line);
    REQUIRE(lines.with(text) == 1);
    CHECK(lines.with(to_string(a.device.attributes().gid) + " queue pair " +
                     std::to_string(a.qp.number().value) + " to " +
                     to_string(b.device.attributes().gid) + " queue pair " +
                     std::to_string(b.qp.number().value) +
                     ": a request ended in remote_access_error: ") == 1);
    // The other side says it of its region; a queue pair of SRD stays as it is.
    const std::string told = " queue pair " + std::to_string(b.qp.number().value) +
                             ": qp_access_error: the peer named memory that it may not use here";
    if (a.device.attributes().qp_type == QpType::rc) CHECK(lines.with(told) == 1);
  }
}

TEST_CASE("a listener says which peer it refused and why") {
  const Lines lines("info");
  Party a("roce+shm:log"), b("srd+shm:log");
  Listener listener = *Listener::listen("127.0.0.1:0");
  const std::string address = "127.0.0.1:" + std::to_string(listener.port());
  std::thread client([&] {
    const Result<Connection> refused = connect(address, b.qp);
    CHECK_FALSE(refused);
  });
  for (int i = 0; i < 1000 && lines.with("info connect ") == 0; ++i) {
    CHECK_FALSE(listener.try_accept(a.qp));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  client.join();
  for (const std::string& line : lines.all()) UNSCOPED_INFO(line);
  CHECK(lines.with("info connect refused 127.0.0.1 port ") == 1);
  CHECK(lines.with("one side has a queue pair of type rc, the other of type srd") == 2);  // and api
}

}  // namespace
}  // namespace weft
