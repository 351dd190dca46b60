// SPDX-License-Identifier: BSD-3-Clause
// The switch spins while frames move and naps when nothing has for a millisecond. Commands come as
// lines of the standard input, whose end is none, and of a FIFO. A line per second, and one at the
// end, says what each port did.
#include "tools/switch/serve.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <sstream>
#include <utility>

#include "lib/base/clock.hpp"
#include "tools/switch/udp_hosts.hpp"

namespace weft::bench {
namespace {

constexpr const char* kCommands =
    "commands: blackhole HOST | loss HOST SHARE | trim HOST SHARE | delay HOST MICROSECONDS | heal "
    "HOST | quit\n"
    "faults hit what goes to HOST\n";

volatile std::sig_atomic_t stopped = 0;

void stop(int) { stopped = 1; }

class Server {
 public:
  // `control`: of a file that gives commands beside the standard input; -1: none.
  Server(const Shape& shape, UdpHosts& hosts, sim::Switch& device, int control)
      : shape_(shape),
        hosts_(hosts),
        device_(device),
        before_(shape.hosts.size()),
        sources_{{STDIN_FILENO, {}}, {control, {}}} {}

  void run() {
    const base::Clock& clock = base::Clock::process();
    Instant busy = clock.now(), told = busy, looked = busy;
    while (stopped == 0) {
      const Instant now = clock.now();
      if (hosts_.turn(device_, now) || device_.inside() != 0) busy = now;
      if (now - busy > Duration::from_ms(1)) ::usleep(50);
      if (now - looked > Duration::from_ms(50)) {
        looked = now;
        read_commands();
      }
      if (now - told < Duration::from_s(1)) continue;
      tell(now - told);
      told = now;
    }
    tell(clock.now() - told);
  }

 private:
  struct Source {
    int descriptor = -1;
    std::string line;  // as far as it has come
  };

  void read_commands() {
    for (Source& source : sources_) {
      pollfd in{source.descriptor, POLLIN, 0};
      while (source.descriptor >= 0 && stopped == 0 && ::poll(&in, 1, 0) > 0) {
        char byte = 0;
        if (::read(source.descriptor, &byte, 1) <= 0) {
          source.descriptor = -1;
        } else if (byte != '\n') {
          source.line += byte;
        } else {
          obey(std::exchange(source.line, {}));
        }
      }
    }
  }

  void obey(const std::string& line) {
    std::istringstream words(line);
    std::string verb, address;
    double value = -1;
    words >> verb >> address >> value;
    if (verb.empty()) return;
    if (verb == "quit") {
      stopped = 1;
      return;
    }
    const Result<uint32_t> host = shape_.host(address);
    if (!host) {
      std::printf("%s\n%s", host.error().message.c_str(), kCommands);
      return;
    }
    sim::SwitchFault fault = device_.fault(*host);
    if (verb == "blackhole")
      fault.blackhole = true;
    else if (verb == "heal")
      fault = {};
    else if (verb == "loss" && value >= 0 && value <= 1)
      fault.loss_ppm = static_cast<uint32_t>(value * 1e6);
    else if (verb == "trim" && value >= 0 && value <= 1)
      fault.trim_ppm = static_cast<uint32_t>(value * 1e6);
    else if (verb == "delay" && value >= 0 && value <= 60e6)
      fault.delay = Duration{static_cast<int64_t>(value * 1e6)};
    else
      std::printf("%s", kCommands);
    device_.set_fault(*host, fault);
  }

  void tell(Duration passed) {
    const double us = static_cast<double>(passed.ps) / 1e6;
    for (uint32_t i = 0; i < device_.ports(); ++i) {
      const uint64_t bytes = device_.sent_bytes(i) - before_[i];
      before_[i] = device_.sent_bytes(i);
      std::printf("%s %8.1f Mb/s of %u, queue %6.1f KB   ", shape_.hosts[i].c_str(),
                  static_cast<double>(bytes) * 8 / us, device_.mbps(i),
                  device_.queue_bytes(i) / 1024.0);
    }
    const sim::Switch::Counters& c = device_.counters();
    std::printf(
        "marked %llu dropped %llu faulted %llu trimmed %llu strays %llu\n",
        static_cast<unsigned long long>(c.marked), static_cast<unsigned long long>(c.dropped),
        static_cast<unsigned long long>(c.faulted), static_cast<unsigned long long>(c.trimmed),
        static_cast<unsigned long long>(hosts_.counters().strays));
    std::fflush(stdout);
  }

  const Shape& shape_;
  UdpHosts& hosts_;
  sim::Switch& device_;
  std::vector<uint64_t> before_;
  std::vector<Source> sources_;  // of commands
};

int complain(const Error& error) {
  std::fprintf(stderr, "weft_switch: %s\n", error.message.c_str());
  return 1;
}

// A FIFO that any process may write commands into while the switch runs.
Result<int> open_control(const std::string& path) {
  if (path.empty()) return -1;
  (void)::mkfifo(path.c_str(), 0600);
  struct stat kind {};
  const int descriptor = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (descriptor >= 0 && ::fstat(descriptor, &kind) == 0 && S_ISFIFO(kind.st_mode))
    return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  return Error{Code::invalid_argument,
               "--control " + path + ": is no FIFO, or cannot be made: name a new path"};
}

}  // namespace

int serve(const Shape& shape, const std::string& control) {
  const Result<int> commands = open_control(control);
  if (!commands) return complain(commands.error());
  const Result<sim::SwitchOptions> options = shape.options();
  if (!options) return complain(options.error());
  Result<std::unique_ptr<UdpHosts>> hosts = UdpHosts::open(shape.hosts);
  if (!hosts) return complain(hosts.error());
  Result<std::unique_ptr<sim::Switch>> device =
      sim::Switch::make(*options, (*hosts)->pool(), base::Clock::process().now());
  if (!device) return complain(device.error());
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
  std::printf("open devices as roce+udp:%s,udp.switched=1[,cc=hpcc], or srd+udp\n%s",
              shape.hosts[0].c_str(), kCommands);
  std::fflush(stdout);
  Server(shape, **hosts, **device, *commands).run();
  if (!control.empty()) ::unlink(control.c_str());
  return 0;
}

}  // namespace weft::bench
