// SPDX-License-Identifier: BSD-3-Clause
// Runs the calls and measures them.
#include "tools/coll/measure.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "lib/base/clock.hpp"
#include "lib/collective/plan/algorithm.hpp"
#include "tools/coll/background_calls.hpp"
#include "tools/coll/experts.hpp"
#include "tools/coll/paced_calls.hpp"
#include "tools/coll/reference.hpp"
#include "tools/coll/trace.hpp"

namespace weft::bench {
namespace {

double cpu_us() { return static_cast<double>(std::clock()) * 1e6 / CLOCKS_PER_SEC; }

class Measurement {
 public:
  Measurement(const CollOptions& options, Communicator& group)
      : options_(options),
        group_(group),
        ranks_(group.size()),
        rank_(group.rank()),
        partners_(partners_of(options, ranks_, rank_)),
        layer_(options, group),
        algorithm_(options.algorithm) {}

  // Calls every applicable algorithm at this size, for learn().
  Result<void> run_all_algorithms(uint64_t bytes) {
    for (const collective::Algorithm& algorithm : collective::algorithms()) {
      if (!is_candidate(algorithm, options_.collective, ranks_)) continue;
      algorithm_ = algorithm.name;
      if (Result<CollRow> row = run(bytes, 0); !row) return row.error();
    }
    algorithm_ = options_.algorithm;
    return {};
  }

  // The first error ends the run: the communicator has failed then.
  Result<CollRow> run(uint64_t bytes, uint64_t number) {
    CollRow row;
    row.count = count_for(options_, ranks_, bytes);
    row.bytes = bytes_for(options_, ranks_, row.count);
    kills_itself_ = options_.faults.kill == rank_ && number == 1;
    if (uses_experts(options_.collective)) {
      if (Result<void> ready = layer_.prepare(row.count); !ready) return ready.error();
    } else {
      in_.resize(row.bytes + 8);
      out_.resize(row.bytes + 8);
      count_blocks(row.count);
    }
    for (const bool in_place : {false, true}) {
      if (in_place && !has_in_place(options_.collective)) break;
      Result<CollFigure> figure = measure(row.count, in_place);
      if (!figure) return figure.error();
      (in_place ? row.in_place : row.out_of_place) = *figure;
    }
    return row;
  }

 private:
  void place_buffers(uint64_t count, bool in_place) {
    if (uses_experts(options_.collective)) return;
    const collective::Shape shape = shape_of(options_, ranks_, count);
    const bool has_own =
        collective::gathers(options_.collective) || collective::scatters(options_.collective);
    const uint64_t own =
        has_own ? collective::rank_block(shape, rank_).offset * size_of(options_.type) : 0;
    input_ = in_.data();
    output_ = out_.data();
    if (!in_place) return;
    if (collective::scatters(options_.collective)) {
      output_ = input_ + own;
    } else {
      input_ = output_ + own;
    }
  }

  // Computes the counts for the _v forms.
  void count_blocks(uint64_t count) {
    const std::vector<uint64_t> counts = shape_of(options_, ranks_, count).blocks.counts;
    send_counts_.assign(counts.begin(), counts.end());
    if (options_.collective != Collective::all_to_all_v) return;
    send_counts_.resize(ranks_);
    receive_counts_.resize(ranks_);
    for (uint32_t r = 0; r < ranks_; ++r) {
      send_counts_[r] = counts[rank_ * ranks_ + r];
      receive_counts_[r] = counts[r * ranks_ + rank_];
    }
  }

  Operation start(uint64_t count) {
    const CollOptions& o = options_;
    const CallOptions call{.algorithm = algorithm_, .traffic_class = o.traffic_class};
    switch (o.collective) {
      case Collective::reduce_scatter:
        return group_.reduce_scatter(input_, output_, count, o.type, o.op, call);
      case Collective::all_gather:
        return group_.all_gather(input_, output_, count, o.type, call);
      case Collective::broadcast:
        return group_.broadcast(input_, output_, count, o.type, o.root, call);
      case Collective::reduce:
        return group_.reduce(input_, output_, count, o.type, o.op, o.root, call);
      case Collective::all_to_all:
        return group_.all_to_all(input_, output_, count, o.type, call);
      case Collective::all_gather_v:
        return group_.all_gather_v(input_, output_, send_counts_, o.type, call);
      case Collective::reduce_scatter_v:
        return group_.reduce_scatter_v(input_, output_, send_counts_, o.type, o.op, call);
      case Collective::all_to_all_v:
        if (o.discover)
          return group_.all_to_all_v_discovered(input_, send_counts_, output_, count * ranks_,
                                                receive_counts_, o.type, call);
        return group_.all_to_all_v(input_, send_counts_, output_, receive_counts_, o.type, call);
      case Collective::exchange:
        return exchange(count * size_of(o.type), call);
      case Collective::barrier:
        return group_.barrier(call);
      case Collective::dispatch:
      case Collective::combine:
        return layer_.start(call);
      default:
        return group_.all_reduce(input_, output_, count, o.type, o.op, call);
    }
  }

  Operation exchange(size_t bytes, const CallOptions& call) {
    const Transfer send{.peer = partners_.target, .send = input_, .send_bytes = bytes};
    const Transfer receive{.peer = partners_.source, .receive = output_, .receive_bytes = bytes};
    return group_.exchange({{send, receive}}, call);
  }

  Result<CollFigure> measure(uint64_t count, bool in_place) {
    place_buffers(count, in_place);
    CollFigure figure;
    if (options_.check) {
      Result<uint64_t> wrong = verify(count);
      if (!wrong) return wrong.error();
      figure.wrong = *wrong;
    }
    std::fill(in_.begin(), in_.end(), std::byte{0});  // repeated sums would overflow
    std::fill(out_.begin(), out_.end(), std::byte{0});
    std::vector<double> times(options_.iterations);
    BackgroundCalls background(group_, options_.background.bytes,
                               options_.background.traffic_class);
    if (options_.background.bytes > 0)
      if (Result<void> started = background.start(background_call_count()); !started)
        return started.error();
    const base::Clock& clock = base::Clock::process();
    PacedCalls paced(group_, options_.every_us);
    for (uint32_t i = 0; i < options_.warmup + options_.iterations; ++i) {
      if (i == options_.warmup) {
        if (Result<void> met = group_.barrier().wait(); !met) return met.error();
        if (Result<void> made = paced.start(); !made) return made.error();
        figure.cpu_us = cpu_us();
      }
      if (options_.faults.late == rank_ && i >= options_.warmup) usleep(options_.faults.late_us);
      const Duration late = paced.wait_for_next();
      const Instant begin = clock.now() - late;
      Operation operation = start(count);
      if (kills_itself_ && i == options_.warmup) die(operation);
      if (Result<void> done = operation.wait(); !done) return done.error();
      if (i >= options_.warmup)
        times[i - options_.warmup] = static_cast<double>((clock.now() - begin).ps) / 1e6;
      if (i + 1 < options_.warmup + options_.iterations) continue;
      figure.algorithm = operation.algorithm();
      figure.predicted_us = static_cast<double>(operation.predicted().ps) / 1e6;
    }
    figure.cpu_us = (cpu_us() - figure.cpu_us) / options_.iterations / ranks_;
    if (options_.background.bytes > 0) {
      Result<std::optional<double>> done = background.stop();
      if (!done) return done.error();
      figure.background_gbps = *done;
      if (!*done && rank_ == 0)
        std::fprintf(
            stderr,
            "the background calls (--background) ended early: the last calls ran without them\n");
    }
    double& cpu = figure.cpu_us;
    if (Result<void> summed = group_.all_reduce(&cpu, &cpu, 1, DataType::fp64).wait(); !summed)
      return summed.error();
    Result<void> slowest =
        group_.all_reduce(times.data(), times.data(), times.size(), DataType::fp64, ReduceOp::max)
            .wait();
    if (!slowest) return slowest.error();
    std::sort(times.begin(), times.end());
    for (const double time : times) figure.average_us += time / static_cast<double>(times.size());
    figure.p50_us = times[(times.size() - 1) / 2];
    figure.p99_us = times[(times.size() * 99 + 99) / 100 - 1];
    return figure;
  }

  // Runs one call with the test pattern. Returns the number of wrong elements on all ranks.
  Result<uint64_t> verify(uint64_t count) {
    const bool of_experts = uses_experts(options_.collective);
    if (of_experts) {
      layer_.fill();
    } else {
      std::memset(in_.data(), 0xAA, in_.size());
      std::memset(out_.data(), 0xAA, out_.size());
      fill_input(options_, ranks_, rank_, count, input_);
    }
    if (Result<void> done = start(count).wait(); !done) return done.error();
    int64_t wrong = static_cast<int64_t>(
        of_experts ? layer_.count_wrong() : count_wrong(options_, ranks_, rank_, count, output_));
    Result<void> summed = group_.all_reduce(&wrong, &wrong, 1, DataType::int64).wait();
    if (!summed) return summed.error();
    return static_cast<uint64_t>(wrong);
  }

  // More than can complete during the measurement.
  uint32_t background_call_count() const {
    constexpr uint32_t kMinCallUs = 100;  // shortest time of a background call
    return (options_.warmup + options_.iterations) * (1 + options_.every_us / kMinCallUs);
  }

  void die(Operation& operation) {
    (void)operation.test();
    std::fprintf(stderr, "rank %u kills itself\n", rank_);
    kill(getpid(), SIGKILL);
  }

  const CollOptions& options_;
  Communicator& group_;
  uint32_t ranks_, rank_;
  Partners partners_;
  ExpertLayer layer_;
  std::string algorithm_;  // empty: chosen by the library
  bool kills_itself_ = false;
  std::vector<std::byte> in_, out_;
  std::vector<size_t> send_counts_, receive_counts_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
};

int print_error(uint32_t rank, const Error& error) {
  std::fprintf(stderr, "rank %u: %s\n", rank, error.message.c_str());
  return 1;
}

// Runs all algorithms at all sizes before the measurement, and applies the correction.
Result<void> learn(Measurement& measurement, const CollOptions& options, Communicator& group) {
  for (uint64_t bytes = options.min_bytes; bytes <= options.max_bytes;
       bytes = size_after(options, bytes)) {
    if (Result<void> tried = measurement.run_all_algorithms(bytes); !tried) return tried;
    if (bytes == 0 && options.step_bytes == 0) break;
  }
  return group.learn();
}

}  // namespace

int measure_collective(const CollOptions& options, const Placement& placement) {
  const bool first = placement.rank == 0;
  Result<std::unique_ptr<Store>> store =
      placement.ranks > 1
          ? Store::open(placement.store, first, Duration::from_s(30), options.communicator.security)
          : Store::open("file:/tmp", first);
  if (!store) return print_error(placement.rank, store.error());
  Result<Communicator> group =
      Communicator::create(**store, placement.rank, placement.ranks, options.communicator);
  if (!group) return print_error(placement.rank, group.error());
  if (first) print_coll_head(options, placement, options.communicator.device);
  Measurement measurement(options, *group);
  if (options.learn)
    if (Result<void> learned = learn(measurement, options, *group); !learned)
      return print_error(placement.rank, learned.error());
  std::vector<CollRow> rows;
  uint64_t wrong = 0;
  for (uint64_t bytes = options.min_bytes; bytes <= options.max_bytes;
       bytes = size_after(options, bytes)) {
    Result<CollRow> row = measurement.run(bytes, rows.size());
    if (!row && !options.files.trace.empty()) (void)write_own_trace(*group, options.files.trace);
    if (!row) return print_error(placement.rank, row.error());
    wrong += row->out_of_place.wrong + row->in_place.wrong;
    if (first) print_coll_row(options, placement.ranks, *row);
    rows.push_back(*row);
    if (bytes == 0 && options.step_bytes == 0) break;
  }
  if (first) print_coll_foot(options, placement.ranks, rows);
  if (!options.files.trace.empty())
    if (Result<void> written = write_merged_trace(*group, options.files.trace); !written)
      return print_error(placement.rank, written.error());
  if (Result<void> written = write_own_records(*group, options); !written)
    return print_error(placement.rank, written.error());
  if (first && !options.files.json.empty())
    if (Result<void> written = write_coll_json(options, placement.ranks, rows); !written)
      return print_error(placement.rank, written.error());
  return wrong == 0 ? 0 : 1;
}

}  // namespace weft::bench
