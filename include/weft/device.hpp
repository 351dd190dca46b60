// SPDX-License-Identifier: BSD-3-Clause
// Opening a device. A device is named by a string, PROVIDER[+PORT[:WHERE]][,key=value...]:
//
//   roce+udp:lo      RoCEv2 over UDP sockets; on lo every device claims its own 127/8 address
//   roce+udp:eth0    the same on a real interface
//   roce+shm:job7    processes of one host that name the same job
//   ibverbs:mlx5_0   a device of the kernel; port=N and gid=N choose of its ports and addresses
//   ibverbs:efa_0,srd    an EFA, which speaks SRD: what a program of `srd` may ask of it is in its
//                    DeviceAttributes
//   roce+udp:lo,pcap=t.pcap,fault.loss=0.01    middleware, in the order in which it is written
//
// An unknown key is an error that lists the valid ones; only `srd` needs no value. An empty
// string means the environment variable WEFT_DEVICE, or roce+udp:lo.
//
// Congestion control of `roce` (RC SENDs, WRITEs and READ responses): cc=NAME, a controller of
// lib/congestion, say swift, dcqcn-nic+win or hpcc; cc_line_mbps=N, the rate it starts at (10000);
// cc_rtt_us=N, a bit above the unloaded round trip (50); cnp_interval_us=N, the
// least time between two CNPs to one queue pair (50; every device answers marks with CNPs);
// pacing_quantum_us=N, how much time a flow that was held up may catch up on in one burst (10).
// Without cc a loss halves what may be on the way to one address. telemetry=1 lets the device carry
// what switches say of themselves (lib/wire/INT.md) on connections whose other side has it too;
// hpcc, hpcc-pint, powertcp and dctcp imply it, unless telemetry=0 is said. cc.PARAMETER=VALUE sets
// a parameter of the controller, say cc.min_rate_mbps=10 (`weft_sim keys` lists them).
//
// Congestion control of `srd`, one controller per peer over all paths to it: cc=nscc (default where
// the port can drop), rccc (only what the receiver grants), nscc+rccc, swift, dcqcn-nic and others;
// hpcc is hpcc-pint there: it lives on one byte that switches write into SRD packets
// (lib/wire/SRD.md), and where none does heeds its own queue and counts acks_without_telemetry;
// cc=halved halves a window at a loss, cc=none keeps it. cc_line_mbps (100000), cc_rtt_us (50) and
// cc.PARAMETER as above. paths=N: UDP source ports to spread over (64, on memory 1); path_policy=
// single, oblivious, bitmap, reps, mixed or plb chooses among them; path_counters=1 counts packets
// per path for Device::paths(). ack_every=N: packets that one ACK answers (1, at most 64).
// police_credit=1: nothing is executed beyond what was granted; all senders need (nscc+)rccc.
//
// icrc=off (`roce`; on by default) leaves the ICRC zero, and takes no frame that has one: for two
// weft devices with address translation on the way, which makes every ICRC wrong. Both sides must
// say so: whoever does not drops all of ours and we drop theirs (counter rx_icrc_error), and what
// is posted ends in retry_exceeded. What is damaged on the way is then found by the UDP checksum
// alone, if by anything. Each side names the other by the address that its packets come from. Where
// all packets of a peer fail, a device says so once on stderr, unless the environment has
// WEFT_LOG=off, and counts it in peers_failing_icrc.
//
// throttle=0 (`roce`; 1 by default) lets a peer connect again at once however often it has used a
// wrong key. Else the ninth RC queue pair for it within a second fails on its way to RTR (busy;
// counter connects_throttled), and from then on one in 125 ms may be tried: nobody guesses keys by
// connecting again and again. Queue pairs that are connected are left alone.
//
// engines=N (1 by default, at most 64; ports udp and dpdk): N engines behind one address, each with
// a lock, a progress thread, a socket or queue and a share of the queue pair numbers of its own, so
// that threads do not meet: cq.hpp says how queues are placed. Regions are good on all engines;
// registering takes the lock of each. The connection manager (cm.hpp) is on engine 0, for queue
// pairs of all. Such a device has no invalidation of regions (invalidates_regions below), and takes
// neither telemetry=1 nor single_thread=1 nor rails=. pcap and tracer write a file for each engine:
// FILE, FILE.1, FILE.2 ..
//
// Threads: every call on every object of this library may be made from any thread at any time,
// unless the device was opened with single_thread=1. Objects keep their parents alive: the order
// in which they are destroyed does not matter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/result.hpp"
#include "weft/types.hpp"
#include "weft/units.hpp"

namespace weft {

namespace verbs {
class Context;
}

class ProtectionDomain;
class CompletionQueue;
class XrcDomain;
struct CompletionQueueOptions;

// What a device can do, and its limits.
struct DeviceAttributes {
  std::string spec;            // the string it was opened with, defaults filled in
  std::string provider;        // "roce"
  std::string port;            // "udp"
  Gid gid;                     // its address
  uint32_t max_mtu = 4096;     // largest path MTU in bytes
  uint32_t active_mtu = 4096;  // the path MTU that connect() chooses
  uint32_t max_qp = 0;
  uint32_t max_qp_wr = 0;
  uint32_t max_sge = 0;
  uint32_t max_inline = 0;  // bytes
  uint32_t max_cqe = 0;
  uint32_t max_rd_atomic = 0;
  uint64_t max_message = 0;     // bytes
  uint64_t max_send = 0;        // bytes of a SEND: max_message, but less on an EFA
  QpType qp_type = QpType::rc;  // of its queue pairs, unless a program has other wishes
  uint8_t integrity_bits =
      0;  // bits of the ICRC that are checked: 32, 16, or 0 = memory bus, or icrc=off
  bool by_reference = false;  // large payload is pulled once from the sender's memory
  bool pins_memory = false;   // registered pages stay where they are, even if they are unmapped
  bool invalidates_regions = true;  // send_with_invalidate takes keys of register_memory
  bool has_uc = true;               // UC queue pairs
  bool has_ud = true;               // UD queue pairs
  bool has_atomics = true;          // FETCH_ADD and COMPARE_SWAP
  bool has_immediate = true;        // the opcodes with immediate data
  bool has_read = true;             // READ
  bool has_write = true;            // WRITE
  bool has_write_add = false;       // SRD: WRITE_ADD
  bool has_ordered = false;         // SRD: SendFlags::ordered
  bool has_dmabuf = false;          // ProtectionDomain::register_dmabuf()
  bool only_by_cm = false;          // iWARP: queue pairs are connected by weft/cm.hpp, not modify()
  // RC: a SEND or WRITE that succeeded has been executed by the peer. false, iWARP: it has left;
  // what the peer refuses ends the connection (CmEventType::disconnected), and then what is
  // outstanding completes as flushed, requests that are not signaled too if nobody knows of them.
  bool confirms = true;
  bool has_flush = false;         // RC, XRC: ATOMIC WRITE and FLUSH
  bool has_xrc = false;           // XRC queue pairs: srq.hpp
  bool telemetry = false;         // can carry in-band telemetry to peers that can too
  uint32_t engines = 1;           // see cq.hpp
  uint32_t paths = 1;             // SRD: UDP source ports that packets to a peer are spread over
  std::vector<Gid> further_gids;  // SRD: its other addresses (rails); peers know it by `gid`
};

// Of one path of SRD. Data goes on good ones; where all others are slow or dead, on those too.
enum class PathHealth : uint8_t {
  good,
  slow,     // takes more than twice as long as the fastest
  dead,     // loses what is sent on it
  probing,  // dead, and tried now and then with an empty packet
};
std::string_view name(PathHealth health) noexcept;

enum class EventType : uint8_t {
  qp_fatal,          // the queue pair cannot go on
  qp_request_error,  // the peer sent an invalid request; the QP is in ERR
  qp_access_error,   // the peer violated a memory right; the QP is in ERR
  comm_established,  // first packet arrived in RTR
  sq_drained,
  // A QP with a shared receive queue, or an XRC target, is in ERR: it takes no more receives there.
  last_wqe_reached,
  srq_limit_reached,  // a shared receive queue has fewer receives than arm_limit() said
  cq_error,           // overrun: completions of this CQ are lost, its QPs go to ERR
  port_active,        // the interface below works again
  port_error,         // it does not: what is sent is lost, and retried as what a network loses
  device_fatal,
  // The device's address left its interface, or came back: as with port_error. On ibverbs: any
  // address of the port came or went.
  gid_change,
};
std::string_view name(EventType type) noexcept;

struct AsyncEvent {
  EventType type = EventType::device_fatal;
  QpNum qp;                   // for qp_*, comm_established, sq_drained and last_wqe_reached
  uint32_t shared_queue = 0;  // for srq_limit_reached: SharedReceiveQueue::number()
};

// One named counter of a device: packets, bytes, and one per drop reason.
struct Counter {
  std::string_view name;
  uint64_t value = 0;
};

// SRD: one of the paths to a peer: a UDP source port that switches hash, between two addresses.
struct PathReport {
  uint16_t source_port = 0;
  PathHealth health = PathHealth::good;
  Duration rtt;  // smoothed; 0: not measured
  // Packets, where the device was opened with path_counters=1: that went this way, that did not
  // arrive on it, and that met ECN.
  uint64_t sent = 0, lost = 0, marked = 0;
  // Of devices with several addresses (rails).
  Gid source, destination;
};

// An open device. Copies name the same device; it closes when the last copy and the last object
// made from it are gone.
class Device {
 public:
  // Errors: invalid_argument (bad string: says which part and what is valid), not_found, not
  // _supported, permission_denied, address_in_use, io_error.
  static Result<Device> open(std::string_view spec = {});

  const DeviceAttributes& attributes() const noexcept;
  Result<ProtectionDomain> protection_domain() const;
  // Errors: invalid_argument (a capacity that no queue can have, no such engine), no_memory.
  Result<CompletionQueue> completion_queue(const CompletionQueueOptions& options) const;
  // See srq.hpp. `engine`: where its targets and shared receive queues are (cq.hpp). Errors:
  // not_supported (no XRC on this device), invalid_argument (no such engine).
  Result<XrcDomain> xrc_domain(uint32_t engine = 0) const;

  // A descriptor that is readable while an asynchronous event waits. Owned by the device.
  int event_fd() const noexcept;
  // The next asynchronous event, if there is one.
  std::optional<AsyncEvent> next_event() const;

  // Runs one bounded turn of each engine: packets in, packets out, timers. Polling a completion
  // queue does it too, for its engine; a program that waits on memory calls it, or wait_until.
  void progress() const noexcept;

  // Now, on the device's clock, which its timestamps are of. Its epoch is of this process and its
  // own; all `roce` and `srd` devices of a process share one clock.
  Instant now() const noexcept;

  // Runs progress() until predicate() holds or `limit` has passed; true if it holds.
  // This is how a program spins on memory that the peer writes.
  template <class Predicate>
  bool wait_until(Predicate predicate, Duration limit = Duration::from_s(1'000'000)) const;

  // SRD: the address that Completion::source_peer stands for. A device that hears from more than
  // 65536 peers forgets those that were silent for longest, and uses their numbers again.
  std::optional<Gid> peer_address(uint32_t source_peer) const;

  // SRD: what is known of the paths to the device that has queue pair `number` at `address`. Empty
  // if nothing was sent there lately: a device keeps this for 64 peers that are at rest.
  std::vector<PathReport> paths(const Gid& address, QpNum number) const;

  // A snapshot of all counters.
  std::vector<Counter> counters() const;

  const std::shared_ptr<verbs::Context>& context() const noexcept { return context_; }

 private:
  explicit Device(std::shared_ptr<verbs::Context> context) : context_(std::move(context)) {}

  std::shared_ptr<verbs::Context> context_;
};

// The port kinds that this build knows, with what each can open on this machine or why it cannot.
struct DeviceListing {
  std::string spec;  // "roce+udp:lo"
  bool usable = false;
  std::string reason;  // why not
  // Opening it may interrupt the interface's other traffic for a moment (af_xdp on a NIC): `usable`
  // was found out without, and it should be opened only if it is wanted.
  bool disturbs = false;
};
std::vector<DeviceListing> list_devices();

template <class Predicate>
bool Device::wait_until(Predicate predicate, Duration limit) const {
  if (predicate()) return true;
  Instant deadline = Instant::never();
  for (uint32_t turn = 1;; ++turn) {
    progress();
    if (predicate()) return true;
    if (turn % 1024 != 0) continue;  // a clock read costs as much as a turn
    if (deadline.is_never()) deadline = now() + limit;
    if (now() > deadline) return false;
  }
}

}  // namespace weft
