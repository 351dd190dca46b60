// SPDX-License-Identifier: BSD-3-Clause
// Links between two ranks in one thread: bytes on the wire, arrivals and completions.
#include <thread>

#include "lib/collective/run/link.hpp"
#include "lib/collective/run/peer_connections.hpp"
#include "tests/collective/run/collective_ranks.hpp"

namespace weft::test {
namespace {

using collective::Call;
using collective::Link;
using collective::LinkShape;
using collective::PeerConnections;
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
      Result<PeerConnections> connections =
          PeerConnections::connect(*store, rank, 2, {.device = device, .shape = shape});
      if (connections) connections_[rank].emplace(std::move(*connections));
    };
    std::thread other(join, 1);
    join(0);
    other.join();
    std::filesystem::remove_all(directory);
    REQUIRE(connections_[0]);
    REQUIRE(connections_[1]);
  }

  Link& link(uint32_t rank) { return *connections_[rank]->links.front(); }
  void send(const Call& call, std::span<const std::byte> payload, uint32_t pieces = 1,
            uint32_t from = 0) {
    turns_until([&] { return link(from).can_send(); });
    REQUIRE(link(from).send(call, pieces, payload, nullptr, 0));
  }
  // By reference; its step is in `finished` when the memory may be overwritten.
  void send_by_reference(const Call& call, const MemoryRegion& payload, uint32_t pieces,
                         uint32_t step) {
    turns_until([&] { return link(0).can_send(); });
    const LKey key = payload.lkey();
    REQUIRE(link(0).send(call, pieces, {static_cast<std::byte*>(payload.address()), payload.size()},
                         &key, step));
  }
  MemoryRegion registered(std::span<std::byte> memory) {
    return *connections_[0]->pd.register_memory(memory.data(), memory.size(), Access::none);
  }
  // Bytes that the receiver gets for one piece, without acknowledgements of others.
  uint64_t bytes_of(const std::function<void()>& send_piece) {
    for (int i = 0; i < 20; ++i) turn();
    const uint64_t before = bytes_received();
    send_piece();
    turns_until([&] { return link(1).head() != nullptr; });
    return bytes_received() - before;
  }
  // Polls both ranks.
  void turn() {
    for (std::optional<PeerConnections>& connections : connections_) {
      Completion completions[8];
      const size_t n = connections->cq.poll(completions);
      for (size_t i = 0; i < n; ++i) {
        const Link::Event event = connections->links.front()->on_completion(completions[i]);
        REQUIRE(!event.error);
        if (event.finished_step != collective::kNoStep) finished.push_back(event.finished_step);
      }
    }
  }
  void turns_until(const std::function<bool()>& done) {
    for (int i = 0; i < 1'000'000 && !done(); ++i) turn();
    REQUIRE(done());
  }
  uint64_t bytes_received() const {
    for (const Counter& counter : connections_[1]->device.counters())
      if (std::string(counter.name) == "rx_bytes") return counter.value;
    FAIL("no such counter");
    return 0;
  }

  std::vector<uint32_t> finished;  // steps

 private:
  std::optional<PeerConnections> connections_[2];
};

constexpr uint64_t kFrame = 12 + 16 + 4;  // BTH, RETH, immediate data

Call call_number(uint64_t sequence) {
  return {.sequence = sequence, .count = 2, .collective = Collective::all_reduce};
}

TEST_CASE(
    "a piece like the one before it is sent without its header, which the receiver restores") {
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
    // Acknowledgements of earlier pieces may arrive with it.
    const bool headed = pair.bytes_received() - before >= kFrame + sizeof(PieceHeader);
    CHECK(headed == (sequence == 1));
    pair.link(1).consume();
    pair.turn();
  }
}

TEST_CASE("pieces of any length arrive, whether copied inline or through a staging slot") {
  Pair pair({.slots = 4});
  const size_t most = pair.link(0).copy_limit(true);
  CHECK(most == collective::kOversubscribedCopyLimit);
  std::vector<std::byte> data(most);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  uint64_t sequence = 0;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{191}, size_t{192}, size_t{193},
                             size_t{256}, size_t{257}, size_t{collective::kCopyLimit}, most})
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

TEST_CASE("an oversubscribed rank copies at most a slot, and over SRD no more than usual") {
  CHECK(Pair({.payload = 16 * 1024}).link(0).copy_limit(true) == 16 * 1024);
  CHECK(Pair({.payload = 1024}).link(0).copy_limit(true) == collective::kCopyLimit);
  Pair srd({}, "srd");
  CHECK(srd.link(0).copy_limit(true) == srd.link(0).copy_limit());
}

TEST_CASE("mostly unsignaled pieces fill the ring many times") {
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

// Credit returns with pieces of the other direction only: so few go one way that no message is sent
// for it. If its 16 bits were expanded wrongly once, the link would be out of credit for good.
TEST_CASE("credit is right beyond 65,536 pieces without a header") {
  Pair pair({.slots = 16, .payload = 64});
  constexpr uint64_t kRounds = 10'000, kTogether = 7;
  const uint64_t received = pair.bytes_received();
  for (uint64_t round = 0; round < kRounds; ++round)
    for (const uint32_t from : {0U, 1U}) {
      for (uint64_t i = 0; i < kTogether; ++i)
        pair.send(call_number(1), std::as_bytes(std::span(&round, 1)), 1, from);
      for (uint64_t i = 0; i < kTogether; ++i) {
        pair.turns_until([&] { return pair.link(1 - from).head() != nullptr; });
        REQUIRE(std::memcmp(pair.link(1 - from).head_payload(), &round, sizeof round) == 0);
        pair.link(1 - from).consume();
      }
    }
  constexpr uint64_t kPieces = kRounds * kTogether;
  CHECK(kPieces > 65'536);
  CHECK(pair.bytes_received() - received < kPieces * sizeof(PieceHeader) + kFrame * kPieces);
}

TEST_CASE("a sequence number that is too far ahead is sent with a header") {
  Pair pair({.slots = 4});
  uint64_t sequence = 1;
  for (const auto& [on, headed] : std::vector<std::pair<uint64_t, bool>>{
           {0, true}, {1, false}, {0x7FFF, false}, {0x8000, true}, {1, false}, {1 << 20, true}}) {
    sequence += on;
    CAPTURE(on, sequence);
    const std::byte one{1};
    const uint64_t bytes = pair.bytes_of([&] { pair.send(call_number(sequence), {&one, 1}); });
    CHECK((bytes >= kFrame + sizeof(PieceHeader)) == headed);
    CHECK(pair.link(1).head()->call == call_number(sequence));
    pair.link(1).consume();
  }
}

TEST_CASE("pieces sent by reference omit their header, too") {
  Pair pair({.slots = 4});
  std::vector<std::byte> data(60'000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  uint32_t step = 0;
  for (const size_t bytes : {size_t{1}, size_t{192}, size_t{4097}, data.size()}) {
    const MemoryRegion region = pair.registered({data.data(), bytes});
    uint64_t headed = 0;
    for (const uint32_t lent : {1, 2, 3}) {
      CAPTURE(bytes, lent);
      ++step;
      const uint64_t came = pair.bytes_of([&] {
        pair.send_by_reference(call_number(step), region, static_cast<uint32_t>(bytes), step);
      });
      CHECK(pair.link(1).head()->call == call_number(step));
      CHECK(pair.link(1).head()->bytes == bytes);
      CHECK(std::memcmp(pair.link(1).head_payload(), data.data(), bytes) == 0);
      if (lent == 1) headed = came;
      CHECK(came == headed - (lent == 1 ? 0 : sizeof(PieceHeader)));
      pair.turns_until([&] { return !pair.finished.empty(); });
      CHECK(pair.finished == std::vector<uint32_t>{step});
      pair.finished.clear();
      pair.link(1).consume();
    }
  }
  CHECK(!pair.link(0).reads_caller_memory());
}

TEST_CASE("links that a device cannot hold are refused, and the message says what it holds") {
  const DeviceAttributes device{.spec = "srd+x:y", .max_qp_wr = 256, .max_cqe = 4096};
  const auto message = [&](const LinkShape& shape, uint32_t links) {
    const Result<void> fits = collective::check_links(shape, links, device);
    if (fits) return std::string();
    CHECK(fits.error().code == Code::invalid_argument);
    return fits.error().message;
  };
  CHECK(message({.slots = 128}, 1) == "");
  CHECK(contains(message({.slots = 129}, 1),
                 "256 slots take 276 requests of a queue pair, and "
                 "srd+x:y has 256"));
  CHECK(message({.slots = 16}, 4096 / collective::completions_per_link({.slots = 16})) == "");
  CHECK(contains(message({.slots = 16}, 4096 / collective::completions_per_link({.slots = 16}) + 1),
                 "completions, and srd+x:y has 4096"));
  CHECK(contains(message({.slots = 16}, UINT32_MAX), "has 4096"));
  for (const LinkShape& shape :
       {LinkShape{.slots = 1}, LinkShape{.slots = 1025}, LinkShape{.slots = UINT32_MAX},
        LinkShape{.payload = 0}, LinkShape{.payload = 100}, LinkShape{.payload = 2 << 20}})
    CHECK(contains(message(shape, 1), "slots: 2 to 1024"));
}

TEST_CASE("the maximum number of slots works") {
  Pair pair({.slots = collective::kMaxSlots, .payload = 64},
            GENERATE(as<std::string>{}, "roce", "srd"));
  for (uint64_t i = 0; i < collective::kMaxSlots; ++i)
    pair.send(call_number(i), std::as_bytes(std::span(&i, 1)));
  for (uint64_t i = 0; i < collective::kMaxSlots; ++i) {
    pair.turns_until([&] { return pair.link(1).head() != nullptr; });
    REQUIRE(std::memcmp(pair.link(1).head_payload(), &i, sizeof i) == 0);
    pair.link(1).consume();
  }
}

TEST_CASE("flush_unsignaled() makes the link idle after unsignaled pieces") {
  Pair pair({.slots = 16});
  const std::byte one{1};
  pair.send(call_number(1), {&one, 1});
  pair.turns_until([&] { return pair.link(1).head() != nullptr; });
  for (int i = 0; i < 100; ++i) pair.turn();
  CHECK(!pair.link(0).idle());
  pair.link(0).flush_unsignaled();
  pair.turns_until([&] { return pair.link(0).idle(); });
}

}  // namespace
}  // namespace weft::test
