// SPDX-License-Identifier: BSD-3-Clause
// Collectives: operations that all processes of a group call together, above the verbs of this
// library. Every process opens the same store and creates a communicator with its rank:
//
//   auto store = *weft::Store::open("tcp:127.0.0.1:5000", rank == 0);
//   auto group = *weft::Communicator::create(*store, rank, ranks, {.device = "roce+udp:lo"});
//   auto sum = group.all_reduce(mine.data(), total.data(), mine.size(), weft::DataType::fp32);
//   ... compute ...
//   if (auto done = sum.wait(); !done) std::puts(done.error().message.c_str());
//
// Calls of operations are non-blocking and return an Operation. What blocks: create(), split(),
// shrink() and grow(), which meet other processes in the store and connect anew; learn(), which is
// an operation and the wait for it; wait() and wait_for(), as long as they say; and the end of a
// communicator. While split(), grow() and learn() wait for the ranks of this communicator they make
// progress, here, for all its operations; while they, create() and shrink() connect they make none:
// by then none of these ranks is in need of that. They make none for other communicators: end what
// is in progress there, or give each a thread. Operations of one communicator run one after
// the other in the order of the calls, which is to be the same on all ranks; those of another
// traffic class (CallOptions) pass them. They make progress in progress(), test() and wait() of any
// operation. Buffers belong to the operation until it is done.
//
// Results are the same bits in every run of the same communicator, size and call; with
// Numerics::any also for every size of the buffers and every algorithm.
//
// When a rank dies, leaves, or calls something else, no call hangs and nothing aborts: all
// operations in progress and all later ones fail, on every surviving rank, with an error that names
// the rank, the operation and its sequence number (failure() has the same as data). The buffers of
// failed operations hold anything. Then the communicator is of no more use, but for shrink(), which
// makes a new one of the ranks that live.
//
// Threads: a communicator and its operations belong to one thread at a time.
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

// What the bits of reductions depend on. All ranks get the same ones from an all_reduce, whatever
// is promised; but nothing is promised of the sign of a zero from min and max, and of NaNs' bits.
enum class Numerics : uint8_t {
  fast,  // also on which contribution comes first: no promise from one call to the next. Where each
         // rank adds up what all give it (`direct`: reduce_scatter, large all_reduce), a rank that
         // comes late holds up nobody's sums; rings, halving, doubling and trees wait for it all
         // the same. Over srd such contributions are not added by the transport, but by the ranks
  run,   // on the inputs, the ranks, the size and the algorithm: the same in every run
  any,   // on the inputs alone: contributions are added in the order of ranks, whatever the size,
         // the algorithm, the path, and what was lost
};
std::string_view name(Numerics numerics) noexcept;

// How long memory that calls name stays registered with the device, unless register_memory() has
// said so. Small pieces are copied and never are.
enum class Registrations : uint8_t {
  automatic,  // per_call where the device pins memory (DeviceAttributes::pins_memory), else kept
  per_call,   // while the call is in progress: any memory may be freed and mapped anew afterwards
  kept,       // the last 16, by address, until the communicator ends or forget(). On a device that
              // pins memory, pages that are mapped anew at the same address are not those that it
              // reads and writes: tell forget() before memory is unmapped.
};

// Attributes of a communicator at creation.
struct CommunicatorOptions {
  std::string device;      // as for Device::open; empty: WEFT_DEVICE, or roce+udp:lo
  std::string name = "0";  // tells apart communicators that share a store; not to be used again
  Numerics numerics = Numerics::run;
  // The network between the ranks, for choosing algorithms by predicted time: a TOML file, or the
  // name of one of scenarios/collectives below the current directory. Rank r is chip r; the same on
  // all ranks. Empty: choice by size. Groups made by split() and shrink() choose by size.
  std::string topology;
  Duration limit = Duration::from_s(300);         // for each operation, from its call on
  Duration connect_limit = Duration::from_s(30);  // for create()
  // When this rank's communicator fails it writes dump() to the file DUMP.NAME.RANK (a '/' in the
  // name becomes '-'). Empty: what WEFT_COLLECTIVE_DUMP in the environment says, or no file.
  std::string dump;
  // A rank whose transport is silent for so long is dead; on srd a `patience_ms` of the device
  // wins. With the time until it is asked, 50 ms, the usual value finds a dead host within half a
  // second, and takes a process for dead that a crowded machine lets starve for so long, or that a
  // debugger stops: give such jobs seconds. The end of a process is seen without
  // it, usually in tens of milliseconds.
  Duration patience = Duration::from_ms(300);
  // Of calls that do not say; 0 first: collective_types.hpp. The same on all ranks.
  uint32_t traffic_class = 2;
  // Other classes that calls may have: CallOptions::traffic_class. Each is a lane of its own, with
  // a queue pair, slots and memory for each peer. The same on all ranks.
  std::vector<uint32_t> more_classes = {};
  Registrations registrations = Registrations::automatic;
  // Pieces in progress to each peer, 2 to 1024, rounded up to a power of two, and no more than the
  // device has requests and completions for (max_qp_wr, max_cqe); the same on all ranks.
  uint32_t slots = 16;
  uint32_t slot_bytes = 64 * 1024;  // a multiple of 64, at most 1 MiB; the same on all ranks
};

// Attributes of one call.
struct CallOptions {
  std::string_view algorithm = {};  // empty: chosen by size; the same on all ranks
  // From the call on, the wait for its turn behind earlier calls too: an operation that is not done
  // by then fails with timed_out, as the whole communicator does, for what other ranks have done of
  // it is not known. Zero: CommunicatorOptions::limit.
  Duration limit = {};
  // Empty: CommunicatorOptions::traffic_class. Else that or one of more_classes (invalid_argument).
  // The same on all ranks. A combine() has the class of its dispatch().
  std::optional<uint32_t> traffic_class = {};
};

// Why a communicator has failed.
struct Failure {
  Code code = Code::peer_failed;  // or mismatch, timed_out, io_error, bad_state (revoked)
  uint32_t rank = 0;              // which rank died, or called something else
  Collective collective = Collective::barrier;
  uint64_t sequence = 0;  // of the operation that was in progress, from 1
  std::string text;       // one sentence with all of this
};

// A call in progress. Copies name the same call. It goes on if all of them are destroyed.
class Operation {
 public:
  // Makes progress; true when done. Errors: peer_failed, mismatch, timed_out, and those of a call
  // with wrong arguments: invalid_argument, not_found, not_supported.
  Result<bool> test();
  // Makes progress until the operation is done. Sleeps if nothing happens for long.
  Result<void> wait();
  // The same for `limit` at most; false if the operation goes on then.
  Result<bool> wait_for(Duration limit);
  // True when it is done, without making progress.
  bool done() const noexcept;
  // To be called when it is done, with what wait() returns: from within progress(), test(), wait()
  // or wait_for() of any operation of the communicator, or at once if it is done already. It may
  // make calls of the communicator, but must not throw. Any number of them, in their order.
  void then(std::function<void(const Result<void>&)> callback);
  // Takes this one call back, on all ranks; no answer is needed, and the communicator goes on. The
  // operation ends with `canceled`, which names it, its sequence number and the rank that canceled,
  // on every rank that has not done it by then, also where it has not been called yet: a rank that
  // is done before it hears keeps its result. Buffers of a canceled operation hold anything. It is
  // done, and the buffers are the caller's, when no rank reads or writes them any more: wait() for
  // it. Over srd that takes the ranks that were invited to write there to make progress; over roce
  // it does not. The first rank to cancel counts if several do. No error if the operation is done.
  // exchange(), send() and receive() have no sequence number, since the others match them by their
  // order alone. They are canceled on this rank only, and as long as nothing of them has moved: a
  // receive, or an exchange that only receives, until its first piece is taken; one that sends,
  // while it waits for those before it. It is then as if it had not been called: what the other
  // rank sends, or waits for, meets the next call. After that they go on (bad_state): the other
  // rank's half could not be told from what follows it. Where ranks waited in a circle just before,
  // the communicator may still fail with mismatch for that.
  // Errors: bad_state, as said.
  Result<void> cancel(std::string_view reason = {});
  // The name of the chosen algorithm; empty if the call was wrong.
  std::string_view algorithm() const noexcept;
  // What the model of the network said that it takes, zero if none was asked; and what it took from
  // its turn to its end, zero until then.
  Duration predicted() const noexcept;
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

// Memory that stays registered for the calls of a communicator, until this is destroyed; calls that
// are in progress then keep it until they are done. The memory belongs to the caller, and is not to
// be unmapped before.
class Registration {
 public:
  Registration() = default;

 private:
  friend class Communicator;
  explicit Registration(std::shared_ptr<collective::Registered> registered)
      : registered_(std::move(registered)) {}
  std::shared_ptr<collective::Registered> registered_;
};

// A group of ranks and its operations. Every rank calls the same operations in the same order.
class Communicator {
 public:
  // Blocks until all ranks have called it. Errors: invalid_argument (also: the store knows the name
  // already), timed_out (some rank did not come), and those of Device::open and connect.
  static Result<Communicator> create(Store& store, uint32_t rank, uint32_t ranks,
                                     const CommunicatorOptions& options = {});
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  // Waits until the other ranks have received what was sent, at most two seconds.
  ~Communicator();

  uint32_t rank() const noexcept;
  uint32_t size() const noexcept;

  // A communicator of the ranks that give the same colour, ordered by key, then by rank. Blocks
  // until all ranks of this one have called it. A rank that is to be alone gives a colour of its
  // own. Options are those of this communicator, which goes on. Errors: those of create() and
  // wait().
  Result<Communicator> split(Store& store, int64_t colour, int64_t key = 0);

  // A communicator of the survivors, in the order of their ranks. To be called by all of them after
  // a failure; blocks until they have agreed who is there and are connected. Processes that have
  // ended are known at once; any other rank, whatever it was blamed for, has `patience` to come.
  // One that comes later is told that it is left out (peer_failed). The store must have survived:
  // one that rank 0 serves has not if rank 0 is dead. If a rank dies meanwhile, those left agree
  // anew, or the new communicator fails: shrink that one. Of a device of several rails (srd's
  // rails=) those whose address is gone are left out, here, in split() and in grow(): by all ranks,
  // if one has lost it and others are left to all. After an error of the store call it again.
  // Errors: those of create() and of the store.
  Result<Communicator> shrink(Store& store, Duration patience = Duration::from_s(5));

  // A communicator of these ranks, with the numbers they have, and of new ones: each of those calls
  // create() with a number from size() to ranks - 1, the same `ranks`, `name` and other options but
  // without a `topology`, in a store that all reach. Blocks until the ranks of this one have met in
  // a barrier, an operation of its own in the sequence, and then until all have come. This
  // communicator goes on. Rails whose address is gone are left out as in shrink(): devices of new
  // ranks are to begin with one that is left. Errors: those of create() and wait().
  Result<Communicator> grow(Store& store, uint32_t ranks, const std::string& name);

  // Ends all operations in progress and all later ones, on every rank, with bad_state and an error
  // that says who revoked and why: to get ranks out of calls that they would wait in. One operation
  // alone is taken back by Operation::cancel(). After revoke(), shrink() makes a new communicator,
  // of all ranks if all are alive.
  void revoke(std::string_view reason = {}) noexcept;

  // After split() and shrink(): the ranks that ranks 0, 1 .. had before. Empty after create().
  std::span<const uint32_t> members() const noexcept;
  // The same, but the ranks that they had in the group that create() made, however many splits and
  // shrinks ago.
  std::span<const uint32_t> origins() const noexcept;

  // Counts are those of collective_types.hpp. In place: `input` is where this rank's elements have
  // their place in `output`, or the other way round for reduce_scatter; other overlaps are errors.
  // Buffers that only the root reads or writes may be null elsewhere.
  Operation all_reduce(const void* input, void* output, size_t count, DataType type,
                       ReduceOp op = ReduceOp::sum, const CallOptions& options = {});
  Operation reduce_scatter(const void* input, void* output, size_t count, DataType type,
                           ReduceOp op = ReduceOp::sum, const CallOptions& options = {});
  Operation all_gather(const void* input, void* output, size_t count, DataType type,
                       const CallOptions& options = {});
  Operation broadcast(const void* input, void* output, size_t count, DataType type, uint32_t root,
                      const CallOptions& options = {});
  Operation reduce(const void* input, void* output, size_t count, DataType type, ReduceOp op,
                   uint32_t root, const CallOptions& options = {});
  Operation all_to_all(const void* input, void* output, size_t count, DataType type,
                       const CallOptions& options = {});
  Operation barrier(const CallOptions& options = {});
  // A call of this communicator that is done, once more, with the same buffers and options, without
  // checking and planning anew. To be called by all ranks, or they call the same again. Not for
  // exchanges and forms with blocks (not_supported).
  Operation repeat(const Operation& done);

  // Blocks of different sizes, which may be zero; they lie one after the other in the order of
  // ranks. Counts are read during the call and are the same on all ranks.
  Operation all_gather_v(const void* input, void* output, std::span<const size_t> counts,
                         DataType type, const CallOptions& options = {});
  Operation reduce_scatter_v(const void* input, void* output, std::span<const size_t> counts,
                             DataType type, ReduceOp op = ReduceOp::sum,
                             const CallOptions& options = {});
  // send_counts[r] elements go to rank r, receive_counts[r] come from it: what that rank says it
  // sends, or the call ends in a mismatch. Not in place.
  Operation all_to_all_v(const void* input, std::span<const size_t> send_counts, void* output,
                         std::span<const size_t> receive_counts, DataType type,
                         const CallOptions& options = {});
  // The same for blocks that lie anywhere: displacements[r] is the first element of rank r's block.
  // Blocks that are received may not overlap; gaps between them are left as they are. An
  // all_gather_v into displaced blocks copies once more; its input may lie anywhere in the output.
  Operation all_gather_v(const void* input, void* output, std::span<const size_t> counts,
                         std::span<const size_t> displacements, DataType type,
                         const CallOptions& options = {});
  Operation all_to_all_v(const void* input, std::span<const size_t> send_counts,
                         std::span<const size_t> send_displacements, void* output,
                         std::span<const size_t> receive_counts,
                         std::span<const size_t> receive_displacements, DataType type,
                         const CallOptions& options = {});
  // As the first all_to_all_v when a rank does not know what comes: counts are exchanged first
  // (which is an operation of its own in the sequence) and are in receive_counts when this one is
  // done, which belongs to it until then. `output` holds `capacity` elements; when they are too few
  // on some rank, the operation is invalid_argument on all ranks, and the communicator goes on.
  Operation all_to_all_v_discovered(const void* input, std::span<const size_t> send_counts,
                                    void* output, size_t capacity, std::span<size_t> receive_counts,
                                    DataType type, const CallOptions& options = {});

  // Tokens to experts and back: collective_moe.hpp. Counts of the choices are exchanged first,
  // which is an operation of its own in the sequence; between racks one more follows, and a combine
  // is three. combine() may be called before dispatch() is done.
  Operation dispatch(const DispatchCall& call, Routing& routing, const CallOptions& options = {});
  Operation combine(const CombineCall& call, const Routing& routing,
                    const CallOptions& options = {});

  // Any sends and receives at once, which may wait for each other. Between two ranks they meet in
  // order; their sizes are the same, or the receiver ends in a mismatch. So do two ranks that wait,
  // in calls of their own, to receive from each other, and up to 50 that do so in a circle. A
  // transfer of no bytes is none. Only the ranks that are named take part. With this rank itself:
  // what it sends it receives in the same call, in order, and of the same sizes (invalid_argument);
  // from and to the same place, or apart.
  Operation exchange(std::span<const Transfer> transfers, const CallOptions& options = {});
  Operation send(const void* data, size_t bytes, uint32_t peer, const CallOptions& options = {});
  Operation receive(void* data, size_t bytes, uint32_t peer, const CallOptions& options = {});

  // What calls took goes into the choice of algorithms: from now on the model's times are the
  // medians of the last 31 calls since the last learn(), by algorithm and size, where there are
  // any; a call takes from the first rank that comes to the last that is done, so let them come
  // together: calls one after the other, before the work begins. Blocks
  // until all ranks have called it; all go on to choose the same. With other algorithms, reductions
  // may have other bits than before, but for Numerics::any. Errors: not_supported without a
  // `topology`, and those of wait().
  Result<void> learn();

  // Registers memory for all later calls whose buffers lie in it, as far as it lives. Local: the
  // other ranks need not do the same. Errors: those of ProtectionDomain::register_memory.
  Result<Registration> register_memory(void* memory, size_t bytes);
  // Registrations that earlier calls have left (Registrations::kept) and that touch this memory
  // end, or when the calls that use them are done: to be called before memory is unmapped.
  void forget(const void* memory, size_t bytes) noexcept;

  // One bounded turn for all operations in progress.
  void progress() noexcept;
  // To wait in an event loop: if arm() returns true there is nothing to do, and fd() gets readable
  // when there is; wait for it, but 10 ms at most while operations are in progress, since dead
  // ranks and limits are looked for in progress(). If it returns false call progress() first.
  bool arm() noexcept;
  int fd() const noexcept;  // owned by the communicator
  std::optional<Failure> failure() const;
  // The last 256 operations of this rank as Chrome trace JSON, for ui.perfetto.dev: when each was
  // issued, began and ended, by which algorithm, what was predicted, and whether it failed; and the
  // last 4096 pieces that it sent and received. Times are those of the host's monotonic clock, so
  // the traces of ranks on one host fit together.
  std::string trace() const;
  // The same, and what is in progress, for `weft_coll merge`, which lays the dumps of all ranks
  // side by side and says who is late, which link is slow, and who called something else. JSON.
  std::string dump() const;
  // Totals since the beginning in Prometheus' text format: operations, failures, bytes and time by
  // kind, pieces. Labels: communicator, rank, ranks, operation, direction.
  std::string prometheus() const;

 private:
  explicit Communicator(std::shared_ptr<collective::Team> team);
  std::shared_ptr<collective::Team> team_;
};

}  // namespace weft
