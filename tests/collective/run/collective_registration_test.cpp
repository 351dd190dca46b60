// SPDX-License-Identifier: BSD-3-Clause
// Lifetime of memory registrations, and memory that is remapped.
#include <sys/mman.h>

#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {
namespace {

uint64_t registrations(const Communicator& group) {
  const std::string text = group.prometheus();
  const size_t line = text.find("\nweft_collective_registrations_total{");
  if (line == std::string::npos) return UINT64_MAX;
  return std::strtoull(text.c_str() + text.find("} ", line) + 2, nullptr, 10);
}

struct Buffers {
  std::vector<float> in = std::vector<float>(20'000, 1.0F), out = in;
};

std::string sum(Communicator& group, Buffers& b, int times) {
  for (int i = 0; i < times; ++i) {
    const Result<void> done =
        group.all_reduce(b.in.data(), b.out.data(), b.in.size(), DataType::fp32).wait();
    if (!done) return done.error().message;
    if (b.out.back() != static_cast<float>(group.size())) return "wrong sum";
  }
  return "";
}

TEST_CASE("memory is registered once, or for each call, or by the caller") {
  for (const Registrations how :
       {Registrations::automatic, Registrations::kept, Registrations::per_call})
    for (const bool by_caller : {false, true})
      check_ranks(2, {.device = shm_device(), .registrations = how},
                  [&](Communicator& group) -> std::string {
                    Buffers buffers;
                    if (std::string wrong = sum(group, buffers, 1); !wrong.empty()) return wrong;
                    group.forget(buffers.in.data(), 1);
                    group.forget(buffers.out.data(), 1);
                    Registration in, out;
                    if (by_caller) {
                      in = *group.register_memory(buffers.in.data(), 4 * buffers.in.size());
                      out = *group.register_memory(buffers.out.data(), 4 * buffers.out.size());
                    }
                    const uint64_t before = registrations(group);
                    if (std::string wrong = sum(group, buffers, 5); !wrong.empty()) return wrong;
                    const uint64_t made = registrations(group) - before;
                    const uint64_t wanted = by_caller ? 0 : how == Registrations::per_call ? 10 : 2;
                    in = out = Registration();
                    if (std::string wrong = sum(group, buffers, 1); !wrong.empty()) return wrong;
                    const uint64_t later = registrations(group) - before - made;
                    const bool known = !by_caller && how != Registrations::per_call;
                    if (later != (known ? 0 : 2)) return "it outlived its owner";
                    return made == wanted ? "" : std::to_string(made) + " registrations";
                  });
}

TEST_CASE("memory remapped at a used address is read and written") {
  for (const std::string& provider : {std::string("roce"), std::string("srd")})
    check_ranks(2, {.device = shm_device(provider)}, [](Communicator& group) -> std::string {
      constexpr size_t kBytes = 1 << 20;
      void* wanted = nullptr;
      for (int32_t round = 1; round <= 5; ++round) {
        const int fixed = wanted != nullptr ? MAP_FIXED_NOREPLACE : 0;
        void* const memory = mmap(wanted, kBytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
        if (memory == MAP_FAILED) return "cannot map";
        wanted = memory;
        int32_t* const words = static_cast<int32_t*>(memory);
        std::fill(words, words + kBytes / 4, round);
        const Result<void> done =
            group.all_reduce(memory, memory, kBytes / 4, DataType::int32).wait();
        if (!done) return done.error().message;
        for (size_t i = 0; i < kBytes / 4; ++i)
          if (words[i] != 2 * round) return "wrong sum in round " + std::to_string(round);
        group.forget(memory, kBytes);
        munmap(memory, kBytes);
      }
      return "";
    });
}

TEST_CASE("a registration that ends during a call stays valid until the call ends") {
  for (const std::string& provider : {std::string("roce"), std::string("srd")})
    check_ranks(2, {.device = shm_device(provider), .registrations = Registrations::per_call},
                [](Communicator& group) -> std::string {
                  std::vector<float> data(1 << 20, 1.0F);
                  std::optional<Operation> call;
                  {
                    const Registration registered =
                        *group.register_memory(data.data(), 4 * data.size());
                    call = group.all_reduce(data.data(), data.data(), data.size(), DataType::fp32);
                  }
                  if (Result<void> done = call->wait(); !done) return done.error().message;
                  return data.back() == 2.0F && data.front() == 2.0F ? "" : "wrong sum";
                });
}

}  // namespace
}  // namespace weft::test
