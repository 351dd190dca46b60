// SPDX-License-Identifier: BSD-3-Clause
// What protection (secure=psk) costs. One thread owns both ends of a stream of WRITEs: a clear one,
// a protected one, and in the same turns the cipher alone, which seals and opens as many bytes in
// packets of the path MTU. All in bytes per second of this thread's processor time, which other
// programs on the machine do not change much.
//
//   weft_secure [srd+udp:lo [SIZE...]]       4096 and 65536 if no size is given
//
// A line for each size: the three rates, protected / clear, and protected / what a stream could
// have at best, 1 / (1/clear + 1/cipher).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <vector>

#include "bench/perftest/both_ends.hpp"
#include "bench/perftest/command_line.hpp"
#include "lib/crypto/library.hpp"
#include "providers/port/secure/secure_port.hpp"

namespace {

using namespace weft;
using bench::Side;

constexpr int kRounds = 9;
constexpr double kSeconds = 0.2;
constexpr size_t kInFlight = 256 * 1024;  // bytes

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Stream {
  Stream(const std::string& spec, uint32_t size)
      : a(spec, size / 8 + 1), b(spec, size / 8 + 1), size(size) {
    bench::connect_pair(a, b);
  }

  // Bytes per second of processor time.
  double run() {
    const Sge source = a.region.sge(0, size);
    SendRequest request{.opcode = Opcode::write, .sges = {&source, 1}};
    request.remote_address = reinterpret_cast<uint64_t>(b.word(0));
    request.rkey = b.region.rkey();
    const size_t depth = std::clamp<size_t>(kInFlight / size, 2, 64);
    Completion done[64];
    size_t open = 0;
    double bytes = 0;
    const double begin = processor_seconds();
    double now = begin;
    while (now < begin + kSeconds || open != 0) {
      for (; open < depth && now < begin + kSeconds; ++open)
        if (!a.qp.post_send(request)) std::exit(1);
      (void)b.cq.poll(done);  // runs its engine
      const size_t got = a.cq.poll(done);
      for (size_t i = 0; i < got; ++i)
        if (done[i].status != Status::success) {
          std::fprintf(stderr, "weft_secure: %s\n", std::string(name(done[i].status)).c_str());
          std::exit(1);
        }
      open -= got;
      bytes += static_cast<double>(got) * size;
      now = processor_seconds();
    }
    return bytes / (processor_seconds() - begin);
  }

  Side a, b;
  const uint32_t size;
};

// Bytes per second that are sealed, and opened again, in packets of `length`.
double cipher_rate(crypto::Aead& aead, size_t length) {
  std::vector<std::byte> clear(length), sealed(length + crypto::kAeadTag), opened(length);
  const std::byte associated[48] = {};
  crypto::Nonce nonce{};
  double bytes = 0;
  const double begin = processor_seconds();
  while (processor_seconds() < begin + kSeconds) {
    for (int i = 0; i < 64; ++i) {
      ++nonce[0];
      if (!aead.seal(nonce, associated, clear, sealed.data()) ||
          !aead.open(nonce, associated, sealed, opened.data()))
        std::exit(1);
      bytes += static_cast<double>(length);
    }
  }
  return bytes / (processor_seconds() - begin);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const std::string& spec, uint32_t size) {
  Stream clear(spec, size), sealed(spec + ",secure=psk", size);
  const std::unique_ptr<crypto::Aead> aead = bench::need(
      bench::need(crypto::load_library())->open_aead(secure::preferred_cipher(), crypto::Key{}));
  const size_t packet = std::min(size, clear.a.device.attributes().active_mtu);
  std::vector<double> of_clear, of_sealed, of_cipher, ratio, of_best;
  for (int round = 0; round <= kRounds; ++round) {
    const double one = clear.run(), other = sealed.run(), bare = cipher_rate(*aead, packet);
    if (round == 0) continue;  // warm
    of_clear.push_back(one);
    of_sealed.push_back(other);
    of_cipher.push_back(bare);
    ratio.push_back(other / one);
    of_best.push_back(other * (1 / one + 1 / bare));
  }
  std::printf(
      "%8u B: clear %6.0f MB/s, protected %6.0f MB/s, cipher alone %6.0f MB/s, "
      "protected/clear %.2f, of the best %.2f\n",
      size, median(of_clear) / 1e6, median(of_sealed) / 1e6, median(of_cipher) / 1e6, median(ratio),
      median(of_best));
}

}  // namespace

int main(int argc, char** argv) {
  std::string device = "srd+udp:lo";
  std::vector<uint32_t> sizes = {4096, 65536};
  CLI::App app("weft_secure: what protection (secure=psk) costs, per second of processor time.");
  app.option_defaults()->always_capture_default();
  app.add_option("device", device, "Device string, without secure=");
  app.add_option("sizes", sizes, "Bytes of a WRITE")->check(CLI::Range(8u, 1u << 24));
  if (const auto ended = weft::bench::read_command_line(app, argc, argv)) return *ended;
  for (const uint32_t size : sizes) measure(device, size);
  return 0;
}
