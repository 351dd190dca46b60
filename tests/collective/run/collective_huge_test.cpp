// SPDX-License-Identifier: BSD-3-Clause
// A buffer larger than 4 GiB, from one rank to another over shared memory. Needs WEFT_TEST_LONG and
// 11 GB of free memory.
#include <sys/mman.h>

#include <fstream>

#include "tests/collective/run/collective_ranks.hpp"
#include "tests/support/skip.hpp"

namespace weft::test {
namespace {

constexpr size_t kHuge = (size_t{4} << 30) + 1;

// Memory from mmap, returned to the system at once.
class Pages {
 public:
  Pages()
      : memory_(mmap(nullptr, kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(memory_ != MAP_FAILED);
  }
  ~Pages() { munmap(memory_, kHuge); }
  Pages(const Pages&) = delete;
  uint8_t* data() const { return static_cast<uint8_t*>(memory_); }

 private:
  void* memory_;
};

uint64_t free_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;)
    if (uint64_t kilobytes = 0; word == "MemAvailable:" && file >> kilobytes)
      return kilobytes * 1024;
  return 0;
}

// Different bytes in every page, and around the 4 GiB boundary.
uint64_t word_at(size_t i) { return i * 0x9E3779B97F4A7C15 | 1; }

void fill(uint8_t* memory) {
  for (size_t i = 0; i + 8 <= kHuge; i += 4096) {
    const uint64_t word = word_at(i);
    std::memcpy(memory + i, &word, 8);
  }
  memory[kHuge - 1] = 77;
}

std::string compare(const uint8_t* memory) {
  for (size_t i = 0; i + 8 <= kHuge; i += 4096) {
    const uint64_t word = word_at(i);
    if (std::memcmp(memory + i, &word, 8) != 0) return "byte " + std::to_string(i) + " is wrong";
  }
  return memory[kHuge - 1] == 77 ? "" : "the last byte is wrong";
}

TEST_CASE("a broadcast of 4 GiB and a byte") {
  if (std::getenv("WEFT_TEST_LONG") == nullptr)
    WEFT_SKIP("a broadcast of 4 GiB and a byte", "WEFT_TEST_LONG is not set");
  if (free_bytes() < uint64_t{11} << 30)
    WEFT_SKIP("a broadcast of 4 GiB and a byte", "it needs 11 GB of free memory");
  check_ranks(2, {.device = shm_device(), .patience = Duration::from_s(10)},
              [](Communicator& group) -> std::string {
                const Pages pages;
                if (group.rank() == 0) fill(pages.data());
                const Result<void> done =
                    group.broadcast(pages.data(), pages.data(), kHuge, DataType::uint8, 0).wait();
                return done ? compare(pages.data()) : done.error().message;
              });
}

}  // namespace
}  // namespace weft::test
