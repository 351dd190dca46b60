// SPDX-License-Identifier: BSD-3-Clause
// Links between two ranks of one thread: what goes over the wire, what arrives, and when it is
// done.
#include <thread>

#include "lib/collective/link.hpp"
#include "lib/collective/mesh.hpp"
#include "tests/unit/collective_ranks.hpp"

namespace weft::test {
namespace {

using collective::Call;
using collective::Link;
using collective::LinkShape;
using collective::Mesh;
using collective::PieceHeader;

class Pair {
 public:
  explicit Pair(const LinkShape& shape, const std::string& provider = "roce") {
    char directory[] = "/tmp/weft-links-XXXXXX";
    REQUIRE(mkdtemp(directory) != nullptr);
    const std::string device = shm_device(provider) + ",single_thread=1";
    const auto join = [&](uint32_t rank) {
      const std::unique_ptr<Store> store =
          std::move(*Store::open(std::string("file:") + directory, false));
      Result<Mesh> mesh = Mesh::connect(*store, rank, 2, {.device = device, .shape = shape});
      if (mesh) meshes_[rank].emplace(std::move(*mesh));
    };
    std::thread other(join, 1);
    join(0);
    other.join();
    std::filesystem::remove_all(directory);
    REQUIRE(meshes_[0]);
    REQUIRE(meshes_[1]);
  }

  Link& link(uint32_t rank) { return *meshes_[rank]->links.front(); }
  void send(const Call& call, std::span<const std::byte> payload, uint32_t pieces = 1) {
    turns_until([&] { return link(0).can_send(); });
    REQUIRE(link(0).send(call, pieces, payload, nullptr, 0));
  }
  // What both have to do.
  void turn() {
    for (std::optional<Mesh>& mesh : meshes_) {
      Completion completions[8];
      const size_t n = mesh->cq.poll(completions);
      for (size_t i = 0; i < n; ++i) REQUIRE(!mesh->links.front()->handle(completions[i]).error);
    }
  }
  void turns_until(const std::function<bool()>& done) {
    for (int i = 0; i < 1'000'000 && !done(); ++i) turn();
    REQUIRE(done());
  }
  uint64_t bytes_received() const {
    for (const Counter& counter : meshes_[1]->device.counters())
      if (std::string(counter.name) == "rx_bytes") return counter.value;
    FAIL("no such counter");
    return 0;
  }

 private:
  std::optional<Mesh> meshes_[2];
};

Call call_number(uint64_t sequence) {
  return {.sequence = sequence, .count = 2, .collective = Collective::all_reduce};
}

TEST_CASE("a piece like the one before it goes without its header, and arrives with it") {
  constexpr uint64_t kFrame = 12 + 16 + 4;  // BTH, RETH, immediate data
  Pair pair({.slots = 3});
  const uint64_t value = 0x0123456789ABCDEF;
  const std::span<const std::byte> payload = std::as_bytes(std::span(&value, 1));
  for (uint64_t sequence = 1; sequence < 40; ++sequence) {
    pair.turns_until([&] { return pair.link(0).can_send(); });
    const uint64_t before = pair.bytes_received();
    pair.send(call_number(sequence), payload);
    pair.turns_until([&] { return pair.link(1).head() != nullptr; });
    const PieceHeader& header = *pair.link(1).head();
    CHECK(header.call == call_number(sequence));
    CHECK(header.bytes == sizeof value);
    CHECK(header.pieces == 1);
    CHECK(std::memcmp(pair.link(1).head_payload(), &value, sizeof value) == 0);
    // Acknowledgements of what came before may come with it.
    const bool headed = pair.bytes_received() - before >= kFrame + sizeof(PieceHeader);
    CHECK(headed == (sequence == 1));
    pair.link(1).consume();
    pair.turn();
  }
}

TEST_CASE("pieces of any length arrive, whether they are copied at the post or kept") {
  Pair pair({.slots = 4});
  std::vector<std::byte> data(collective::kCopiedBytes);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  uint64_t sequence = 0;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{191}, size_t{192}, size_t{193},
                             size_t{256}, size_t{257}, data.size()})
    for (const uint32_t pieces : {1, 1, 2}) {  // without a header the second time
      CAPTURE(bytes, pieces);
      pair.send(call_number(++sequence), {data.data(), bytes}, pieces);
      pair.turns_until([&] { return pair.link(1).head() != nullptr; });
      CHECK(pair.link(1).head()->bytes == bytes);
      CHECK(pair.link(1).head()->pieces == pieces);
      CHECK(std::memcmp(pair.link(1).head_payload(), data.data(), bytes) == 0);
      pair.link(1).consume();
      pair.turn();
    }
}

TEST_CASE("pieces that few completions speak for fill the ring again and again") {
  const uint32_t slots = GENERATE(2u, 7u, 8u, 16u);
  const std::string provider = GENERATE(as<std::string>{}, "roce", "srd");
  CAPTURE(slots, provider);
  Pair pair({.slots = slots}, provider);
  constexpr uint64_t kPieces = 500;
  uint64_t sent = 0, received = 0;
  for (int turns = 0; received < kPieces; ++turns, pair.turn()) {
    REQUIRE(turns < 1'000'000);
    for (; sent < kPieces && pair.link(0).can_send(); ++sent)
      pair.send(call_number(sent), std::as_bytes(std::span(&sent, 1)));
    for (; pair.link(1).head() != nullptr; ++received) {
      CHECK(pair.link(1).head()->call.sequence == received);
      CHECK(std::memcmp(pair.link(1).head_payload(), &received, sizeof received) == 0);
      pair.link(1).consume();
    }
  }
}

TEST_CASE("whether the last pieces are done is known when it is asked") {
  Pair pair({.slots = 16});
  const std::byte one{1};
  pair.send(call_number(1), {&one, 1});
  pair.turns_until([&] { return pair.link(1).head() != nullptr; });
  for (int i = 0; i < 100; ++i) pair.turn();
  CHECK(!pair.link(0).idle());
  pair.link(0).ask_if_done();
  pair.turns_until([&] { return pair.link(0).idle(); });
}

}  // namespace
}  // namespace weft::test
