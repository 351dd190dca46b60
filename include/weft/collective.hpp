// SPDX-License-Identifier: BSD-3-Clause
// Collectives: operations that all processes (ranks) of a group call together. Every process opens
// the same store and creates a communicator with its rank:
//
//   auto store = *weft::Store::open("tcp:127.0.0.1:5000", rank == 0);
//   auto group = *weft::Communicator::create(*store, rank, ranks, {.device = "roce+udp:lo"});
//   auto sum = group.all_reduce(mine.data(), total.data(), mine.size(), weft::DataType::fp32);
//   ... compute ...
//   if (auto done = sum.wait(); !done) std::puts(done.error().message.c_str());
//
// Operations are non-blocking and return an Operation. They make progress in progress(), and in
// test() and wait() of any operation of the communicator. Operations of one communicator are
// executed in the order of the calls, which must be the same on all ranks; operations of different
// traffic classes (CallOptions) are not ordered. Buffers belong to the operation until it is done.
//
// Blocking calls: create(), split(), shrink() and grow(), which exchange addresses through the
// store and connect; learn(); wait() and wait_for(); the destructor of a communicator. split(),
// grow() and learn() make progress for the operations of this communicator while they wait for its
// ranks, and none while they connect, as create() and shrink(). They make no progress for other
// communicators: complete operations there first, or use a thread for each.
//
// Results are bitwise the same in every run with the same communicator, size and call; with
// Numerics::any also for every size of the buffers and every algorithm.
//
// When a rank fails, leaves, or calls a different operation, no call hangs or aborts: all
// operations in progress and later ones fail on every surviving rank, with an error that names the
// rank, the operation and its sequence number (failure() returns the same as data). The buffers of
// failed operations are undefined. The only useful call then is shrink(), which creates a
// communicator of the survivors.
//
// Threads: a communicator and its operations may be used by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/collective_moe.hpp"
#include "weft/collective_types.hpp"
#include "weft/result.hpp"
#include "weft/store.hpp"
#include "weft/units.hpp"

namespace weft {

namespace collective {
class Team;
struct Registered;
struct Task;
}  // namespace collective

// Reproducibility of reductions: what the bits of a result depend on. All ranks always get the same
// bits from an all_reduce. The sign of a zero from min and max, and the bits of NaNs, are
// undefined.
enum class Numerics : uint8_t {
  // On the order of arrival too: results may differ between calls. With algorithm `direct`
  // (reduce_scatter, large all_reduce) a late rank does not delay the summation of the others;
  // rings,
  // halving, doubling and trees wait for it. Over srd the ranks add, not the transport.
  fast,
  // On the inputs, the ranks, the size and the algorithm: the same in every run.
  run,
  // On the inputs alone: contributions are added in the order of ranks, for every size, algorithm
  // and
  // path, whatever packets are lost.
  any,
};
// The name as spelled above.
std::string_view name(Numerics numerics) noexcept;

// How long buffers stay registered with the device, if register_memory() was not called. Small
// pieces are copied and need no registration.
enum class Registrations : uint8_t {
  automatic,  // per_call if the device pins memory (DeviceAttributes::pins_memory), else kept
  per_call,   // during the call: buffers may be unmapped afterwards
  // The last 16, by address, until forget() or the end of the communicator. A device that pins
  // memory does not access pages that are mapped later at the same address: call forget() before
  // unmapping.
  kept,
};

// Attributes of a communicator at creation.
struct CommunicatorOptions {
  std::string device{};    // as for Device::open; empty: WEFT_DEVICE, or roce+udp:lo
  std::string name = "0";  // distinguishes communicators that share a store; must not be reused
  Numerics numerics = Numerics::run;
  // The network between the ranks, to select algorithms by predicted time: a TOML file, or the name
  // of one in scenarios/collectives, which comes with weft. Rank r is chip r. The same on all
  // ranks. Empty: selection by size, as in groups made by split() and shrink().
  std::string topology{};
  Duration limit = Duration::from_s(300);         // for each operation, from its call on
  Duration connect_limit = Duration::from_s(30);  // for create()
  // When the communicator fails it writes dump() to the file DUMP.NAME.RANK (a '/' in the name
  // becomes '-'). Empty: WEFT_COLLECTIVE_DUMP of the environment, or no file.
  std::string dump{};
  // The dead peer timeout: a rank without packets for so long has failed; on srd the device's
  // `patience_ms`, if given, is used instead. The default detects a failed host within half a
  // second (with 50 ms until it is probed), but takes a process that is stopped for so long, by
  // overload or a debugger, for failed: use seconds for such jobs. The end of a process is detected
  // without it, usually in tens of milliseconds.
  Duration patience = Duration::from_ms(300);
  // The default class of calls: collective_types.hpp. The same on all ranks.
  uint32_t traffic_class = 2;
  // Further classes for CallOptions::traffic_class. Each has a queue pair, slots and memory per
  // peer. The same on all ranks.
  std::vector<uint32_t> more_classes = {};
  Registrations registrations = Registrations::automatic;
  // Pieces in flight to each peer, 2 to 1024, rounded up to a power of two, and limited by
  // max_qp_wr and max_cqe of the device. The same on all ranks.
  uint32_t slots = 16;
  uint32_t slot_bytes = 64 * 1024;  // a multiple of 64, at most 1 MiB; the same on all ranks
  Security security{};              // who may be a rank, of connections; Store::open has its own
};

// Attributes of one call.
struct CallOptions {
  std::string_view algorithm = {};  // empty: selected automatically; the same on all ranks
  // The time limit from the call on, queueing behind earlier calls included. When it expires, the
  // operation and the communicator fail with timed_out, because the state of other ranks is
  // unknown. Zero: CommunicatorOptions::limit.
  Duration limit = {};
  // Empty: CommunicatorOptions::traffic_class. Must be that or one of more_classes. The same on all
  // ranks. A combine() has the class of its dispatch().
  std::optional<uint32_t> traffic_class = {};
};

// Why a communicator has failed.
struct Failure {
  Code code = Code::peer_failed;  // or mismatch, timed_out, io_error, bad_state (revoked)
  uint32_t rank = 0;              // the rank that failed or called a different operation
  Collective collective = Collective::barrier;
  uint64_t sequence = 0;  // of the operation that was in progress, from 1
  std::string text{};     // one sentence with all of this
};

// A handle of a call. Copies name the same call, which continues if all of them are destroyed.
class Operation {
 public:
  // Makes progress; true when the operation is done. Errors: peer_failed, mismatch, timed_out,
  // canceled, and those of wrong arguments: invalid_argument, not_found, not_supported.
  Result<bool> test();
  // Makes progress until the operation is done; sleeps when there is no progress for long.
  Result<void> wait();
  // The same for at most `limit`; false if the operation is still in progress.
  Result<bool> wait_for(Duration limit);
  // Whether it is done, without making progress.
  bool done() const noexcept;
  // Adds a callback that gets the result of the operation: called from progress(), test(), wait()
  // or wait_for() of any operation of the communicator, or at once if the operation is done. It may
  // call functions of the communicator, but must not throw. Callbacks are called in order.
  void then(std::function<void(const Result<void>&)> callback);
  // Cancels the operation on all ranks; the communicator remains usable. The operation ends with
  // `canceled` on every rank that has not completed it, also if it has not been called there yet; a
  // rank that completes it before it learns of the cancellation keeps its result. The error names
  // the operation, its sequence number and the rank that canceled (the first, if several do).
  // Buffers of a canceled operation are undefined; wait() for it before reusing them. Over srd this
  // takes progress of the ranks that may still write there; over roce it does not. No error if the
  // operation is done.
  //
  // exchange(), send() and receive() have no sequence number, because ranks match them by their
  // order. They are canceled on this rank only, and only before data has moved: a receive, or an
  // exchange that only receives, until its first piece has arrived; one that sends, while it is
  // queued behind earlier calls. The peer then matches the next call instead. Later the error is
  // bad_state and the operation continues. If ranks waited for each other in a cycle just before,
  // the communicator may still fail with mismatch.
  Result<void> cancel(std::string_view reason = {});
  // The name of the selected algorithm; empty if the arguments were wrong.
  std::string_view algorithm() const noexcept;
  // The duration that the model of the network predicted; zero without a model.
  Duration predicted() const noexcept;
  // The duration from the start of execution to the end; zero before the end.
  Duration took() const noexcept;

 private:
  friend class Communicator;
  Operation(std::shared_ptr<collective::Team> team, std::shared_ptr<collective::Task> task)
      : team_(std::move(team)), task_(std::move(task)) {}
  std::shared_ptr<collective::Team> team_;
  std::shared_ptr<collective::Task> task_;
};

// One send, one receive, or both, of exchange(). Sizes in bytes.
struct Transfer {
  uint32_t peer = 0;
  const void* send = nullptr;
  size_t send_bytes = 0;
  void* receive = nullptr;
  size_t receive_bytes = 0;
};

// A registration of memory for the calls of a communicator, until it is destroyed and the calls in
// progress that use it are done. The caller must not unmap the memory before.
class Registration {
 public:
  Registration() = default;

 private:
  friend class Communicator;
  explicit Registration(std::shared_ptr<collective::Registered> registered)
      : registered_(std::move(registered)) {}
  std::shared_ptr<collective::Registered> registered_;
};

// A group of ranks and its operations. Every rank calls the same operations in the same order. One
// thread at a time.
class Communicator {
 public:
  // Creates a communicator of `ranks` ranks; blocks until all have called it. Errors:
  // invalid_argument (also: the name is in use in the store), timed_out (a rank did not call), and
  // those of Device::open() and connect().
  static Result<Communicator> create(Store& store, uint32_t rank, uint32_t ranks,
                                     const CommunicatorOptions& options = {});
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  // Waits until the other ranks have received what was sent, at most two seconds.
  ~Communicator();

  // The number of this rank, 0 .. size() - 1.
  uint32_t rank() const noexcept;
  // The number of ranks.
  uint32_t size() const noexcept;

  // Creates a communicator of the ranks with the same colour, ordered by key, then by rank (MPI:
  // MPI_Comm_split). Blocks until all ranks of this one have called it. It has the options of this
  // communicator, which remains usable. Errors: those of create() and wait().
  Result<Communicator> split(Store& store, int64_t colour, int64_t key = 0);

  // Creates a communicator of the survivors after a failure, in the order of their ranks (ULFM:
  // MPIX_Comm_shrink). All survivors must call it; blocks until they agree on the members and are
  // connected. Ranks whose process has ended are excluded at once; any other rank has `patience` to
  // call it, and gets peer_failed if it calls later. The store must be available: one served by
  // rank 0 is not if rank 0 has failed. If a rank fails meanwhile, the others agree again, or the
  // new communicator fails: shrink that one. Rails (srd's rails=) whose address was removed are
  // left out, here, in split() and in grow(), by all ranks, if every rank has another. After an
  // error of the store call it again. Errors: those of create() and of the store.
  Result<Communicator> shrink(Store& store, Duration patience = Duration::from_s(5));

  // Creates a communicator of these ranks, which keep their numbers, and new ones: each new rank
  // calls create() with a number from size() to ranks - 1, the same `ranks`, `name` and options,
  // without a `topology`, and a store that all can reach. Blocks in a barrier of this communicator,
  // which is an operation of the sequence, and then until all ranks have called. This communicator
  // remains usable. Rails are left out as in shrink(): devices of new ranks must begin with a
  // remaining one. Errors: those of create() and wait().
  Result<Communicator> grow(Store& store, uint32_t ranks, const std::string& name);

  // Fails all operations in progress and later ones, on every rank, with bad_state and an error
  // that names this rank and the reason (ULFM: MPIX_Comm_revoke): it releases ranks that would
  // wait. To end a single operation, see Operation::cancel(). After revoke(), shrink() creates a
  // new communicator, of all ranks if all are alive.
  void revoke(std::string_view reason = {}) noexcept;

  // After split() and shrink(): the numbers that ranks 0, 1 .. had before. Empty after create().
  std::span<const uint32_t> members() const noexcept;
  // The numbers that they had in the group made by create(), before all splits and shrinks.
  std::span<const uint32_t> origins() const noexcept;

  // Collective operations; counts are in elements, see collective_types.hpp. In place: `input` is
  // the position of this rank's elements in `output`, for reduce_scatter the reverse; other
  // overlaps are errors. Buffers that only the root uses may be null on other ranks.
  //
  // The reduction of the inputs of all ranks, in the outputs of all.
  Operation all_reduce(const void* input, void* output, size_t count, DataType type,
                       ReduceOp op = ReduceOp::sum, const CallOptions& options = {});
  // Block r of the reduction, in the output of rank r.
  Operation reduce_scatter(const void* input, void* output, size_t count, DataType type,
                           ReduceOp op = ReduceOp::sum, const CallOptions& options = {});
  // The inputs of all ranks in the order of ranks, in the outputs of all.
  Operation all_gather(const void* input, void* output, size_t count, DataType type,
                       const CallOptions& options = {});
  // The input of the root, in the outputs of all.
  Operation broadcast(const void* input, void* output, size_t count, DataType type, uint32_t root,
                      const CallOptions& options = {});
  // The reduction of the inputs of all ranks, in the output of the root.
  Operation reduce(const void* input, void* output, size_t count, DataType type, ReduceOp op,
                   uint32_t root, const CallOptions& options = {});
  // Block r of the input to rank r, for all r.
  Operation all_to_all(const void* input, void* output, size_t count, DataType type,
                       const CallOptions& options = {});
  // Completes when all ranks have called it.
  Operation barrier(const CallOptions& options = {});
  // Repeats a completed call of this communicator with the same buffers and options, without
  // checking and planning again. Other ranks may repeat() or make the same call. Error:
  // not_supported for exchanges and the _v forms.
  Operation repeat(const Operation& done);

  // Blocks of different sizes, which may be zero, contiguous in the order of ranks. Counts are read
  // during the call and are the same on all ranks.
  //
  // As all_gather().
  Operation all_gather_v(const void* input, void* output, std::span<const size_t> counts,
                         DataType type, const CallOptions& options = {});
  // As reduce_scatter().
  Operation reduce_scatter_v(const void* input, void* output, std::span<const size_t> counts,
                             DataType type, ReduceOp op = ReduceOp::sum,
                             const CallOptions& options = {});
  // Sends send_counts[r] elements to rank r and receives receive_counts[r] from it. Error mismatch
  // if that differs from what rank r sends. Not in place.
  Operation all_to_all_v(const void* input, std::span<const size_t> send_counts, void* output,
                         std::span<const size_t> receive_counts, DataType type,
                         const CallOptions& options = {});
  // The same for blocks at any place: displacements[r] is the first element of rank r's block.
  // Received blocks must not overlap; gaps between them are not written. An all_gather_v into
  // displaced blocks makes an additional copy; its input may overlap the output in any way.
  Operation all_gather_v(const void* input, void* output, std::span<const size_t> counts,
                         std::span<const size_t> displacements, DataType type,
                         const CallOptions& options = {});
  Operation all_to_all_v(const void* input, std::span<const size_t> send_counts,
                         std::span<const size_t> send_displacements, void* output,
                         std::span<const size_t> receive_counts,
                         std::span<const size_t> receive_displacements, DataType type,
                         const CallOptions& options = {});
  // As the first all_to_all_v, for ranks that do not know the receive counts: counts are exchanged
  // first, which is another operation of the sequence, and are written to receive_counts, which
  // belongs to the operation until it is done. `output` has room for `capacity` elements; if that
  // is too small on a rank, the operation fails with invalid_argument on all ranks, and the
  // communicator remains usable.
  Operation all_to_all_v_discovered(const void* input, std::span<const size_t> send_counts,
                                    void* output, size_t capacity, std::span<size_t> receive_counts,
                                    DataType type, const CallOptions& options = {});

  // Tokens to experts and back: collective_moe.hpp. dispatch() exchanges counts first, which is
  // another operation of the sequence; with the algorithm "racks" dispatch takes one more, and
  // combine takes three. combine() may be called before dispatch() is done.
  Operation dispatch(const DispatchCall& call, Routing& routing, const CallOptions& options = {});
  // The outputs of experts back to the ranks of their tokens.
  Operation combine(const CombineCall& call, const Routing& routing,
                    const CallOptions& options = {});

  // Any number of sends and receives at once. Between two ranks they are matched in order; if the
  // sizes differ, the receiver gets mismatch. So do ranks that wait to receive from each other in
  // separate calls, in cycles of up to 50 ranks. Transfers of zero bytes are ignored. Only the
  // named ranks take part. Transfers with this rank itself are matched within the call, in order,
  // and must have equal sizes (invalid_argument); source and destination are the same or do not
  // overlap.
  Operation exchange(std::span<const Transfer> transfers, const CallOptions& options = {});
  // An exchange() of one send.
  Operation send(const void* data, size_t bytes, uint32_t peer, const CallOptions& options = {});
  // An exchange() of one receive.
  Operation receive(void* data, size_t bytes, uint32_t peer, const CallOptions& options = {});

  // Uses measured durations for the selection of algorithms: from now on the model's times are the
  // medians of the last 31 calls since the last learn(), by algorithm and size, where there are
  // any. A call lasts from the first rank that calls to the last that completes, so measure calls
  // that all ranks make at the same time, such as a warm-up. Blocks until all ranks have called it;
  // all select the same algorithms. Reductions may then have other bits, except with Numerics::any.
  // Errors: not_supported without a `topology`, and those of wait().
  Result<void> learn();

  // Registers memory for all later calls whose buffers are in it, while the Registration exists. A
  // local call. Errors: those of ProtectionDomain::register_memory().
  Result<Registration> register_memory(void* memory, size_t bytes);
  // Ends registrations kept by earlier calls (Registrations::kept) that overlap this memory, after
  // the calls in progress that use them. Call it before memory is unmapped.
  void forget(const void* memory, size_t bytes) noexcept;

  // Makes progress on all operations, for a bounded time.
  void progress() noexcept;
  // For event loops. True: there is nothing to do until fd() is readable; wait for it, at most 10
  // ms while operations are in progress, because progress() detects failed ranks and time limits.
  // False: call progress() first.
  bool arm() noexcept;
  // The descriptor for arm(). Owned by the communicator.
  int fd() const noexcept;
  // Why the communicator has failed; empty if it has not.
  std::optional<Failure> failure() const;
  // The last 256 operations of this rank as Chrome trace JSON, for ui.perfetto.dev: times of call,
  // start and end, algorithm, predicted duration and error; and the last 4096 pieces sent and
  // received. Times are of the host's monotonic clock, so traces of ranks on one host can be
  // merged.
  std::string trace() const;
  // The same and the operations in progress as JSON, for `weft_coll merge`, which compares the
  // dumps of all ranks and finds stragglers, slow links and mismatched calls.
  std::string dump() const;
  // Totals since creation in Prometheus' text format: operations, failures, bytes and time by kind,
  // and pieces. Labels: communicator, rank, ranks, operation, direction.
  std::string prometheus() const;

 private:
  explicit Communicator(std::shared_ptr<collective::Team> team);
  std::shared_ptr<collective::Team> team_;
};

}  // namespace weft
