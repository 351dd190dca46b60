// SPDX-License-Identifier: BSD-3-Clause
// Streams on terms: what both sides learn if their terms differ, and that bytes which someone has
// changed, replayed, reflected or made up are errors, never a message.
#include "tests/crypto/dialogue.hpp"

namespace weft::crypto {

TEST_CASE("both sides receive each other's message where their terms agree") {
  const SecretFile secret;
  for (const Terms& terms :
       {terms_of(secret.security()), terms_of({.insecure = true}), terms_of({})}) {
    Dialogue dialogue(terms, terms);
    dialogue.run();
    CHECK_FALSE(dialogue.a.error);
    CHECK_FALSE(dialogue.b.error);
    CHECK(dialogue.a.received == kAnswers);
    CHECK(dialogue.b.received == kAsks);
    const bool clear = dialogue.sent[0].find(kAsks) != std::string::npos;
    CHECK(clear == (terms.mode == Mode::clear));
  }
}

TEST_CASE("where terms differ, both sides name what differs") {
  const SecretFile one, other;
  const Terms job = terms_of(one.security()), other_job = terms_of(other.security());
  const Terms clear = terms_of({.insecure = true}), user = terms_of({});
  Terms other_user = user;
  other_user.fingerprint[0] ^= 1;
  const Terms none = *terms_for({}, Purpose::connect, kElsewhere);
  const Terms store = terms_of(one.security(), Purpose::store);
  const struct {
    const Terms& connecting;
    const Terms& listening;
    Code code;
    const char* text;
  } rows[] = {{job, other_job, Code::permission_denied, "same secret in WEFT_SECRET"},
              {job, user, Code::permission_denied, "give both sides WEFT_SECRET, or none"},
              {user, job, Code::permission_denied, "give both sides WEFT_SECRET, or none"},
              {user, other_user, Code::permission_denied, "run both as one user of one host"},
              {job, clear, Code::permission_denied, "say `insecure` on both sides or on none"},
              {clear, job, Code::permission_denied, "say `insecure` on both sides or on none"},
              {clear, user, Code::permission_denied, "say `insecure` on both sides or on none"},
              {user, none, Code::permission_denied, "same secret in WEFT_SECRET, or say"},
              {clear, none, Code::permission_denied, "say `insecure` on both sides"},
              {job, store, Code::invalid_argument, "check host and port"}};
  for (const auto& row : rows) {
    Dialogue dialogue(row.connecting, row.listening);
    dialogue.run();
    for (const End* end : {&dialogue.a, &dialogue.b}) {
      INFO(row.text);
      REQUIRE(end->error);
      CHECK(end->error->code == row.code);
      CHECK(end->error->message.find(row.text) != std::string::npos);
      CHECK(end->received.empty());
    }
  }
}

TEST_CASE("another version and what is no weft are named") {
  const Terms clear = terms_of({.insecure = true});
  for (const auto& [at, text] : {std::pair{size_t{0}, "no weft connection"},
                                 std::pair{size_t{5}, "of the connection protocol, this side 3"}}) {
    Dialogue dialogue(clear, clear);
    dialogue.run([&, at = at](int, size_t first, std::string& bytes) {
      if (first == 0) bytes[at] = static_cast<char>(bytes[at] ^ 1);
    });
    REQUIRE(dialogue.a.error);
    REQUIRE(dialogue.b.error);
    CHECK(dialogue.a.error->message.find(text) != std::string::npos);
    CHECK(dialogue.b.error->message.find(text) != std::string::npos);
  }
}

// Of legacy_record_version of the first record, the only field that TLS 1.3 neither reads nor
// protects (RFC 8446 5.1).
constexpr size_t kUnreadByte = sizeof(TermsBytes) + 2;

TEST_CASE("no changed byte of the exchange is taken for what the peer said") {
  const SecretFile secret;
  const Terms terms = terms_of(secret.security());
  Dialogue whole(terms, terms);
  whole.run();
  for (int from = 0; from < 2; ++from) {
    const size_t size = whole.sent[static_cast<size_t>(from)].size();
    REQUIRE(size > 200);
    for (size_t i = 0; i < size; ++i) {
      Dialogue dialogue(terms, terms);
      dialogue.run([&](int sender, size_t first, std::string& bytes) {
        if (sender == from && i >= first && i - first < bytes.size())
          bytes[i - first] = static_cast<char>(bytes[i - first] ^ (1 << i % 8));
      });
      INFO("byte " << i << " of side " << from);
      // A changed length may leave the receiver waiting: the time limit ends that.
      const End& receiver = from == 0 ? dialogue.b : dialogue.a;
      if (i == kUnreadByte)
        CHECK(receiver.received == (from == 0 ? kAsks : kAnswers));
      else
        CHECK(receiver.received.empty());
      const End& sender = from == 0 ? dialogue.a : dialogue.b;
      CHECK((sender.received.empty() || sender.received == (from == 0 ? kAnswers : kAsks)));
    }
  }
}

TEST_CASE("a recorded exchange convinces neither side") {
  const SecretFile secret;
  const Terms terms = terms_of(secret.security());
  Dialogue recorded(terms, terms);
  recorded.run();
  REQUIRE(recorded.b.received == kAsks);
  for (int from = 0; from < 2; ++from) {
    Dialogue replay(terms, terms);
    replay.run([&](int sender, size_t first, std::string& bytes) {
      if (sender == from) bytes = first == 0 ? recorded.sent[static_cast<size_t>(from)] : "";
    });
    End& fooled = from == 0 ? replay.b : replay.a;
    REQUIRE(fooled.error);
    CHECK(fooled.error->code == Code::permission_denied);
    CHECK(fooled.error->message.find("replayed") != std::string::npos);
    CHECK(fooled.received.empty());
  }
}

TEST_CASE("a side's own bytes convince it of nothing") {
  const SecretFile secret;
  const Terms terms = terms_of(secret.security());
  for (const Side side : {Side::connecting, Side::listening}) {
    End end(side, terms, kAsks);
    Dialogue other(terms, terms);
    for (int i = 0; i < 8 && !end.error; ++i) {
      end.advance();
      std::string own = end.sent();
      if (side == Side::listening && i == 0) own = std::string(text_of(terms.bytes()));
      end.give(own);
    }
    CHECK_FALSE(end.established());
    CHECK(end.received.empty());
  }
}

TEST_CASE("who knows the terms and no secret is refused") {
  const SecretFile secret;
  const Terms terms = terms_of(secret.security());
  Terms guessed = terms;
  guessed.key[0] ^= 1;
  for (const bool connecting : {true, false}) {
    Dialogue dialogue(connecting ? guessed : terms, connecting ? terms : guessed);
    dialogue.run();
    for (const End* end : {&dialogue.a, &dialogue.b}) {
      REQUIRE(end->error);
      CHECK(end->error->message.find("another secret") != std::string::npos);
      CHECK_FALSE(end->established());
    }
  }
}

// threat:A34
TEST_CASE("terms that are made weaker on the way end the exchange") {
  const SecretFile secret;
  const Terms job = terms_of(secret.security());
  for (const Mode mode : {Mode::clear, Mode::user, Mode::none}) {
    Dialogue dialogue(job, job);
    dialogue.run([&](int, size_t first, std::string& bytes) {
      if (first == 0) bytes[6] = static_cast<char>(mode);
    });
    CHECK(dialogue.a.error);
    CHECK(dialogue.b.error);
    CHECK(dialogue.a.received.empty());
    CHECK(dialogue.b.received.empty());
  }
}

TEST_CASE("before a peer has shown that it has the secret, it can make us hold 4 KiB at most") {
  const SecretFile secret;
  const Terms terms = terms_of(secret.security());
  End end(Side::listening, terms, kAnswers);
  // The begin of a ClientHello of 16 MiB, in records of 1 KiB.
  std::string record("\x16\x03\x01\x04\x00", 5);
  end.give(std::string(text_of(terms.bytes())) + record + std::string("\x01\xff\xff\xff", 4) +
           std::string(1020, 'x'));
  size_t given = 1024;
  for (; given < 64 * 1024 && !end.error; given += 1024) {
    end.advance();
    end.give(record + std::string(1024, 'x'));
  }
  REQUIRE(end.error);
  CHECK(given <= 8 * 1024);
}

TEST_CASE("terms depend on where the peer is and what is given") {
  const SecretFile secret;
  CHECK(terms_of({}).mode == Mode::user);
  CHECK(terms_of({.insecure = true}).mode == Mode::clear);
  CHECK(terms_of(secret.security()).mode == Mode::job);
  CHECK(terms_for({}, Purpose::connect, kElsewhere)->mode == Mode::none);
  CHECK(terms_for(secret.security(), Purpose::connect, kElsewhere)->mode == Mode::job);
  CHECK(terms_for({.insecure = true}, Purpose::connect, kElsewhere)->mode == Mode::clear);
}

}  // namespace weft::crypto
