// SPDX-License-Identifier: BSD-3-Clause
// Executes steps (play.hpp).
#include "tools/script/play.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

namespace weft::script {

namespace {

// An expectation failed.
struct Failure {
  std::string why;
};

std::string time_text(Duration d) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f us", static_cast<double>(d.ps) / 1e6);
  return text;
}

std::string status_text(const Outcome& o) {
  return std::string(o.receive ? "receive " : "send ") + std::string(name(o.status)) +
         " id=" + std::to_string(o.id) + " bytes=" + std::to_string(o.bytes) +
         " imm=" + std::to_string(o.imm);
}

class Player {
 public:
  Player(Stage& stage, const PlayOptions& options, Played& played)
      : stage_(stage), options_(options), played_(played) {}

  void step(const Action& action) {
    std::visit([this](const auto& a) { act(a); }, action);
    if (!std::holds_alternative<Nothing>(action) && !std::holds_alternative<Wait>(action))
      last_ = stage_.now();
  }

  // No unexpected packet or completion may be left.
  void finish() {
    if (const auto received = stage_.expect({})) surplus(*received);
    if (const auto outcome = stage_.done({}))
      throw Failure{"unexpected completion at the end: " + status_text(*outcome)};
  }

 private:
  void note(const std::string& text) {
    if (played_.trace.size() < 2000)
      played_.trace.push_back(time_text(stage_.now() - start_) + "  " + text);
  }
  [[noreturn]] void surplus(const ReceivedPacket& received) {
    throw Failure{"unexpected packet: " + describe(received, meeting_, false)};
  }
  Duration limit(const Window& window) const {
    if (!window.most) return options_.patience;
    return stage_.exact() ? *window.most : *window.most + options_.slack;
  }
  void check_least(const Window& window) {
    const Duration took = stage_.now() - last_;
    const Duration slack = stage_.exact() ? Duration{} : options_.slack;
    if (took + slack < window.least) throw Failure{"arrived too early, after " + time_text(took)};
  }

  void act(const QpText& qp) {
    meeting_ = stage_.meet(qp, options_.peer_first, options_.end_first);
    start_ = stage_.now();
  }

  void act(const Say& say) {
    Draft draft;
    const Bytes frame = compose(say.packet, meeting_, draft);
    ReceivedPacket copy{frame, {}, 0, true, {}};
    note("> " + describe(copy, meeting_, true));
    stage_.say(frame, meeting_, draft);
  }

  void act(const Expect& expect) {
    std::vector<const PacketText*> left;
    for (const PacketText& packet : expect.packets) left.push_back(&packet);
    while (!left.empty()) {
      const std::optional<ReceivedPacket> received = stage_.expect(limit(expect.window));
      if (!received) throw Failure{"no packet within " + time_text(limit(expect.window))};
      note("< " + describe(*received, meeting_, false));
      std::string why;
      const auto same = std::find_if(left.begin(), left.end(), [&](const PacketText* text) {
        why = mismatch(*text, *received, meeting_);
        return why.empty();
      });
      if (same == left.end())
        throw Failure{(left.size() > 1 ? "matches none of the lines of any .. end" : why) +
                      "\n  received: < " + describe(*received, meeting_, false)};
      left.erase(same);
    }
    check_least(expect.window);
  }

  void act(const Nothing& nothing) {
    const Duration time =
        stage_.exact() ? nothing.time : std::max(nothing.time, Duration::from_ms(30));
    if (const auto received = stage_.expect(time)) surplus(*received);
    if (const auto outcome = stage_.done({}))
      throw Failure{"unexpected completion: " + status_text(*outcome)};
  }

  void act(const Wait& wait) { stage_.wait(wait.time); }
  void act(const Fill& fill) { stage_.fill(fill.offset, fill.data); }

  void act(const Memory& memory) {
    const Bytes found = stage_.memory(memory.offset, memory.data.size());
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] == memory.data[i]) continue;
      char text[96];
      std::snprintf(text, sizeof text, "byte @%llu is 0x%02x, not 0x%02x",
                    static_cast<unsigned long long>(memory.offset + i),
                    static_cast<unsigned>(found[i]), static_cast<unsigned>(memory.data[i]));
      throw Failure{text};
    }
  }

  void act(const Post& post) { stage_.post(post, meeting_); }
  void act(const Receive& receive) { stage_.receive(receive); }

  void act(const Done& done) {
    const std::optional<Outcome> outcome = next(done.receive, limit(done.window));
    if (!outcome) throw Failure{"no completion within " + time_text(limit(done.window))};
    note("done " + status_text(*outcome));
    if (outcome->status != done.status || (done.id && outcome->id != *done.id) ||
        (done.bytes && outcome->bytes != *done.bytes) || (done.imm && outcome->imm != *done.imm))
      throw Failure{"the completion is: " + status_text(*outcome)};
    check_least(done.window);
  }

  // Completions of the send and the receive queue are not ordered.
  std::optional<Outcome> next(bool receive, Duration limit) {
    std::vector<Outcome>& kept = kept_[receive];
    if (!kept.empty()) {
      const Outcome first = kept.front();
      kept.erase(kept.begin());
      return first;
    }
    const Instant end = stage_.now() + limit;
    while (auto outcome = stage_.done(std::max(Duration{}, end - stage_.now()))) {
      if (outcome->receive == receive) return outcome;
      kept_[outcome->receive].push_back(*outcome);
    }
    return {};
  }

  // Skips checks that the end does not support.
  template <class Ask>
  void ask(Ask&& question) {
    try {
      question();
    } catch (const NotSupportedByEnd& unsupported) {
      note(std::string("(not checked: ") + unsupported.what() + ")");
    }
  }

  void act(const Virtual&) {
    if (!stage_.exact()) throw NotSupportedByEnd("needs virtual time");
  }
  void act(const Modify& modify) { stage_.modify(modify.state); }
  void act(const State& state) {
    ask([&] {
      const QpState found = stage_.state();
      if (found != state.state) throw Failure{"the state is " + std::string(name(found))};
    });
  }
  void act(const Count& count) {
    ask([&] {
      const uint64_t found = stage_.count(count.name);
      if (found != count.value) throw Failure{count.name + " is " + std::to_string(found)};
    });
  }
  void act(const Event& event) {
    ask([&] {
      const std::string found = stage_.event();
      if (found != event.name)
        throw Failure{found.empty() ? "there is no event" : "the event is " + found};
    });
  }

  Stage& stage_;
  const PlayOptions& options_;
  Played& played_;
  Meeting meeting_;
  Instant start_, last_;
  std::map<bool, std::vector<Outcome>> kept_;
};

}  // namespace

Played play(const Script& script, Stage& stage, const PlayOptions& options) {
  Played played;
  Player player(stage, options, played);
  const Step* current = nullptr;
  try {
    for (const Step& step : script.steps) {
      current = &step;
      player.step(step.action);
    }
    player.finish();
  } catch (const Failure& failure) {
    played.verdict = Verdict::failed;
    played.why = failure.why;
  } catch (const NotSupportedByEnd& unsupported) {
    played.verdict = Verdict::skipped;
    played.why = unsupported.what();
  } catch (const std::exception& complaint) {
    played.verdict = Verdict::failed;
    played.why = complaint.what();
  }
  if (played.verdict != Verdict::passed && current) {
    played.line = current->line;
    played.why =
        "line " + std::to_string(current->line) + ": " + current->text + "\n  " + played.why;
  }
  return played;
}

}  // namespace weft::script
