// SPDX-License-Identifier: BSD-3-Clause
// See runner.hpp.
#include "tools/nccl_check/runner.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace weft::nccl_check {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNoDevice = 3;  // exit code of a rank

// In a rank's process.
void run_rule(const Rule& rule, Rank& rank) {
  RankRecord& own = rank.record();
  rank.random().seed(rank.settings().seed);  // whatever ran before
  State state = State::passed;
  try {
    rule.run(rank);
  } catch (const NotApplicable& reason) {
    state = State::not_applicable;
    rank.board().write_text(rank.number(), reason.text);
  } catch (const Failure& failure) {
    // Only the first counts: what the others see may follow from it.
    uint32_t none = 0;
    state = State::failed;
    if (rank.board().stopped.compare_exchange_strong(none, 1))
      rank.board().write_text(rank.number(), failure.text);
  } catch (const Stopped&) {
    state = State::failed;
  }
  own.state = state;
  ++own.step;
}

std::string describe_devices(Net& net, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const Facts facts = net.facts(i);
    text += (i == 0 ? "" : ", ") + facts.name + " (" + std::to_string(facts.speed_mbps) + " Mb/s)";
  }
  return text;
}

[[noreturn]] void run_rank(const Settings& settings, Board& board, int version, int number,
                           const std::vector<const Rule*>& rules, size_t first) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::unique_ptr<Net> net;
  try {
    board.write_place(number, "init()");
    net = load(settings.library, version);
    const nccl::Outcome ready = net->init();
    const int count = ready == nccl::Outcome::success ? net->devices() : 0;
    if (count == 0) {
      board.write_text(number, ready == nccl::Outcome::success
                                   ? "devices() says 0"
                                   : "init() returns " + name_of(ready));
      std::_Exit(kNoDevice);
    }
    if (settings.device >= count)
      throw Failure{"there is no device " + std::to_string(settings.device) + ", devices() says " +
                    std::to_string(count)};
    board.write_text(number, describe_devices(*net, count));
  } catch (const Failure& failure) {
    board.write_text(number, failure.text);
    std::_Exit(1);
  }
  Rank rank(settings, board, *net, number);
  RankRecord& own = board.ranks[static_cast<size_t>(number)];
  board.write_place(number, "");
  ++own.step;
  for (size_t done = 0; first + done < rules.size(); ++done) {
    while (board.allowed <= done) ::usleep(200);
    run_rule(*rules[first + done], rank);
    if (own.state == State::failed) std::_Exit(1);
  }
  while (board.allowed <= rules.size() - first) ::usleep(200);
  try {
    net->finalize();
  } catch (const Failure& failure) {
    board.write_text(number, failure.text);
    std::_Exit(1);
  }
  std::_Exit(0);
}

// The processes of all ranks, which end with this object.
class Batch {
 public:
  Batch(const Settings& settings, int version, const std::vector<const Rule*>& rules, size_t first)
      : settings_(settings), board_(Board::create()) {
    if (board_ == nullptr) why_unusable_ = "no shared memory";
    for (int number = 0; number < settings.ranks && why_unusable_.empty(); ++number) {
      const pid_t process = ::fork();
      if (process == 0) run_rank(settings, *board_, version, number, rules, first);
      if (process < 0)
        why_unusable_ = std::string("fork: ") + std::strerror(errno);
      else
        processes_.push_back({process, false, 0});
    }
  }
  ~Batch() {
    for (const Process& each : processes_)
      if (!each.ended) (void)::kill(each.id, SIGKILL);
    for (const Process& each : processes_)
      if (!each.ended) (void)::waitpid(each.id, nullptr, 0);
    if (board_ != nullptr) Board::destroy(board_);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Waits until each rank has reached `step` or ended. False: for longer than the limit no rank has
  // gone on.
  bool wait(uint32_t step) {
    const std::chrono::duration<double> limit(settings_.limit_s + (step == 1 ? 10 : 5));
    uint32_t seen = 0;
    for (auto last = Clock::now(); Clock::now() < last + limit;) {
      bool all = true;
      uint32_t waits = 0;
      for (const RankRecord& each : board_->ranks) waits += each.waits;
      if (waits != seen) last = Clock::now();
      seen = waits;
      for (size_t i = 0; i < processes_.size(); ++i)
        all = (has_ended(processes_[i]) || board_->ranks[i].step >= step) && all;
      if (all) return true;
      ::usleep(300);
    }
    return false;
  }
  void allow() {
    for (RankRecord& each : board_->ranks) each.state = State::runs;
    ++board_->allowed;
  }

  // What became of the rule that reached `step`, or did not: a rank that has died or hangs is named
  // before those that have failed, since that may follow from it.
  Verdict verdict(const Rule& rule, uint32_t step) {
    Verdict verdict{.rule = rule.name};
    for (size_t i = 0; i < processes_.size(); ++i) {
      const RankRecord& rank = board_->ranks[i];
      if (rank.state != State::runs || rank.step >= step) continue;
      if (rule.kills_last_rank && i + 1 == processes_.size() && was_killed(processes_[i])) continue;
      const bool died = has_ended(processes_[i]);
      return failed(rule, named(i) + (died ? " died" + cause(processes_[i]) : " hangs") +
                              (rank.place[0] != '\0' ? std::string(" in ") + rank.place : ""));
    }
    for (size_t i = 0; i < processes_.size(); ++i) {
      const RankRecord& rank = board_->ranks[i];
      if (rank.state == State::failed && rank.text[0] != '\0')
        return failed(rule, named(i) + ": " + rank.text);
      if (rank.state == State::failed) verdict.state = State::failed;  // stopped by another
      if (rank.state == State::not_applicable) {
        verdict.state = State::not_applicable;
        verdict.text = rank.text;
      }
      for (size_t f = 0; f < kMaxFigures; ++f)
        verdict.figures[f] = std::max(verdict.figures[f], rank.figures[f]);
    }
    if (verdict.state == State::failed) verdict.text = "a rank gave up without a reason";
    return verdict;
  }
  // Why the ranks, whose rules are over, have not ended well; empty if they have.
  std::string failure_at_end() {
    for (size_t i = 0; i < processes_.size(); ++i) {
      Process& process = processes_[i];
      if (!has_ended(process)) return named(i) + ": finalize() hangs";
      if (process.status == 0) continue;
      const char* const text = board_->ranks[i].text;
      return named(i) + (*text != '\0' ? ": " + std::string(text)
                                       : " died" + cause(process) + " in finalize()");
    }
    return "";
  }
  // The text of the first rank that has ended before it was ready, and its exit code.
  bool ended_early(std::string& text, int& code) {
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (!has_ended(processes_[i]) || board_->ranks[i].step != 0) continue;
      const int status = processes_[i].status;
      code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
      text = board_->ranks[i].text;
      if (WIFSIGNALED(status) || text.empty()) text = "init() dies" + cause(processes_[i]);
      return true;
    }
    return false;
  }
  void clear_texts() {
    for (size_t i = 0; i < processes_.size(); ++i) board_->write_text(static_cast<int>(i), "");
  }
  std::string devices() const { return board_->ranks[0].text; }
  // Empty: it is usable.
  const std::string& why_unusable() const { return why_unusable_; }

 private:
  struct Process {
    pid_t id;
    bool ended;
    int status;
  };

  static bool has_ended(Process& process) {
    if (!process.ended)
      process.ended = ::waitpid(process.id, &process.status, WNOHANG) == process.id;
    return process.ended;
  }
  static bool was_killed(Process& process) {
    return has_ended(process) && WIFSIGNALED(process.status) && WTERMSIG(process.status) == SIGKILL;
  }
  static std::string named(size_t rank) { return "rank " + std::to_string(rank); }
  static std::string cause(const Process& process) {
    if (WIFSIGNALED(process.status))
      return std::string(" of ") + ::strsignal(WTERMSIG(process.status));
    return " with exit code " + std::to_string(WEXITSTATUS(process.status));
  }
  static Verdict failed(const Rule& rule, std::string text) {
    return {.rule = rule.name, .state = State::failed, .text = std::move(text)};
  }

  const Settings& settings_;
  Board* board_;
  std::vector<Process> processes_;
  std::string why_unusable_;
};

// Runs rules from `at` on until one fails or kills a rank; sets `at` behind it. False: no device.
bool run_batch(const Settings& settings, const std::vector<const Rule*>& rules, size_t& at,
               VersionReport& report) {
  Batch batch(settings, report.version, rules, at);
  if (!batch.why_unusable().empty()) {
    report.has_device = true;  // as far as is known
    report.text = batch.why_unusable();
    return false;
  }
  const bool in_time = batch.wait(1);
  int code = 0;
  if (batch.ended_early(report.text, code) || !in_time) {
    if (!in_time) report.text = "init() hangs";
    report.has_device = code != kNoDevice;
    return false;
  }
  report.has_device = true;
  report.devices = batch.devices();
  batch.clear_texts();
  for (uint32_t step = 2; at < rules.size(); ++step) {
    const Rule& rule = *rules[at++];
    batch.allow();
    (void)batch.wait(step);
    report.verdicts.push_back(batch.verdict(rule, step));
    if (report.verdicts.back().state == State::failed || rule.kills_last_rank) return true;
    batch.clear_texts();
  }
  batch.allow();
  (void)batch.wait(UINT32_MAX);
  report.text = batch.failure_at_end();
  return true;
}

}  // namespace

bool VersionReport::passed() const {
  return has_device && text.empty() &&
         std::none_of(verdicts.begin(), verdicts.end(),
                      [](const Verdict& each) { return each.state == State::failed; });
}

VersionReport run_version(const Settings& settings, int version,
                          const std::vector<const Rule*>& rules) {
  VersionReport report{.version = version};
  size_t at = 0;
  do {
    if (!run_batch(settings, rules, at, report)) break;
  } while (at < rules.size());
  return report;
}

}  // namespace weft::nccl_check
