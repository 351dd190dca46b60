// SPDX-License-Identifier: BSD-3-Clause
// Opening a device. A device is named by a string, PROVIDER[+PORT[:WHERE]][,key=value...]:
//
//   roce+udp:lo      RoCEv2 over UDP sockets; on lo every device claims its own 127/8 address
//   roce+udp:eth0    the same on a real interface; the devices of one user share its address
//   roce+udp:lo,udp.shared=1    127.0.0.1, shared likewise; another user gets the next of 127/8
//   roce+shm:job7    processes of one host that name the same job
//   ibverbs:mlx5_0   a device of the kernel; port=N and gid=N select its port and GID index
//   ibverbs:efa_0,srd    SRD on an EFA; its DeviceAttributes say which operations it has
//   libfabric:tcp+ofi_rxm   RC over a provider of libfabric, `+` for its `;`; node=ADDRESS of ours
//   roce+udp:lo,pcap=t.pcap,fault.loss=0.01    middleware, in the order in which it is written
//
// An unknown key is an error that lists the valid ones; only `srd` needs no value. An empty string
// stands for the environment variable WEFT_DEVICE, or roce+udp:lo.
//
// Congestion control of `roce` (RC SENDs, WRITEs and READ responses): cc=NAME selects a controller
// of lib/congestion, for example swift, dcqcn-nic+win or hpcc; cc_line_mbps=N, its initial rate
// (10000); cc_rtt_us=N, slightly above the unloaded round-trip time (50); cnp_interval_us=N, least
// time between CNPs to a queue pair (50; every device answers ECN marks), and cnp_dscp=N, their
// DSCP (48); pacing_quantum_us=N, time that a delayed flow may catch up on at once (10). Without cc
// a loss halves the bytes that may be in flight to one address. telemetry=1 enables in-band
// telemetry (lib/wire/INT.md) on connections whose peer supports it; hpcc, hpcc-pint, powertcp and
// dctcp imply it unless telemetry=0 is given. cc.PARAMETER=VALUE sets a parameter of the
// controller, for example cc.min_rate_mbps=10 (`weft_sim keys` lists them).
//
// Congestion control of `srd`, one controller per peer over all paths to it: cc=nscc (the default
// where the port can drop), rccc (receiver credit only), nscc+rccc, swift, dcqcn-nic and others.
// hpcc is hpcc-pint there: it uses one byte that switches write into SRD packets (lib/wire/SRD.md);
// without such switches it uses the device's own queue and counts acks_without_telemetry.
// cc=halved halves a window at a loss, cc=none keeps it. cc_line_mbps (100000), cc_rtt_us (50) and
// cc.PARAMETER as above. paths=N: UDP source ports to spray packets over (64; 1 on shared memory);
// path_policy= single, oblivious, bitmap, reps, mixed or plb selects among them; path_counters=1
// counts packets per path for Device::paths(). ack_every=N: packets per ACK (1, at most 64).
// police_credit=1: packets beyond the granted credit are dropped; all senders need (nscc+)rccc.
//
// icrc=off (`roce`; on by default) sends zero in place of the ICRC and accepts only such frames:
// for two weft devices with address translation between them, which invalidates every ICRC. Both
// sides must set it: otherwise each drops the other's packets (counter rx_icrc_error) and requests
// end in retry_exceeded. Then only the UDP checksum, if any, detects corruption. Each side names
// the peer by the source address of its received packets. When all packets of a peer fail the ICRC,
// a device prints one warning to stderr, unless WEFT_LOG=off is in the environment, and counts it
// in peers_failing_icrc.
//
// secure=psk (`roce` and `srd`; none by default) encrypts and authenticates every packet between
// two weft devices that both set it. Their keys are of the job secret WEFT_SECRET, or of the user's
// own key where there is none, and die with the process. Packets of peers without it are dropped
// and counted. Shared memory stays clear: the kernel guards it. See docs/security.md.
//
// throttle=0 (`roce`; 1 by default) disables the limit on reconnections after key violations. With
// it, the ninth RC queue pair to a peer within a second fails at RTR (busy; counter
// connects_throttled), and one per 125 ms is allowed from then on, so that keys cannot be guessed
// by reconnecting. Established connections are not affected.
//
// selective_repeat=0 (`roce`; 1 by default) makes RC go back N at a loss. With 1 on both sides of a
// connection of connect.hpp or cm.hpp, only what is missing is sent again (lib/wire/SACK.md).
// profile=connectx, bnxt, e810 or rxe (`roce`): as such a device does (docs/wire-habits.md).
//
// engines=N (1 by default, at most 64; ports udp and dpdk): N engines behind one address, each with
// its own lock, progress thread, socket or queue and range of queue pair numbers, so that threads
// do not contend (cq.hpp). Memory regions are valid on all engines; registration takes the lock of
// each. The connection manager (cm.hpp) runs on engine 0 for queue pairs of all. Such a device
// cannot invalidate regions (invalidates_regions below), and does not accept telemetry=1,
// single_thread=1 or rails=. pcap and tracer write a file per engine: FILE, FILE.1, FILE.2 ..
//
// Threads: every function of every object of this library may be called from any thread at any
// time, unless the device was opened with single_thread=1. Objects keep their parents alive: the
// order in which they are destroyed does not matter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/port.hpp"
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

// Capabilities and limits of a device.
struct DeviceAttributes {
  std::string spec{};            // the string it was opened with, defaults filled in
  std::string provider{};        // "roce"
  std::string port{};            // "udp"
  Gid gid{};                     // the device's address
  uint32_t max_mtu = 4096;       // largest path MTU in bytes
  uint32_t active_mtu = 4096;    // the path MTU that connect() chooses
  uint32_t max_qp = 0;           // queue pairs
  uint32_t max_qp_wr = 0;        // requests of a send or receive queue
  uint32_t max_sge = 0;          // scatter/gather entries of a request
  uint32_t max_inline = 0;       // bytes of inline data
  uint32_t max_cqe = 0;          // capacity of a completion queue
  uint32_t max_rd_atomic = 0;    // outstanding READs and atomics of a queue pair, per direction
  uint64_t max_message = 0;      // bytes
  uint64_t max_send = 0;         // bytes of a SEND: max_message, but less on an EFA
  QpType qp_type = QpType::rc;   // the usual type of its queue pairs
  uint64_t node_guid = 0;        // as an integer; see node_guid() below
  uint32_t interface_index = 0;  // of the network interface that it was opened on; 0: none
  // How many of each object an open device can have. On `roce` and `srd` memory and file
  // descriptors (one for each completion queue) may end first: then no_memory.
  uint32_t max_cq = 0;
  uint32_t max_pd = 0;
  uint32_t max_mr = 0;       // regions; on `roce` and `srd` together with windows
  uint32_t max_mw = 0;       // memory windows
  uint32_t max_ah = 0;       // address handles
  uint32_t max_srq = 0;      // shared receive queues
  uint32_t max_srq_wr = 0;   // receives of a shared receive queue
  uint32_t max_srq_sge = 0;  // scatter/gather entries of its receives
  uint32_t max_xrcd = 0;     // XRC domains
  uint64_t max_mr_size = 0;  // bytes of a region
  // Bits of the ICRC that are checked: 32, 16, or 0 (shared memory, or icrc=off).
  uint8_t integrity_bits = 0;
  bool by_reference = false;  // large payload is copied once, from the sender's memory
  bool pins_memory = false;   // registered pages stay pinned even after the program unmaps them
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
  bool has_iova = false;            // regions with addresses of their own: mr.hpp
  bool has_on_demand = false;       // Access::on_demand
  bool has_null_region = false;     // ProtectionDomain::null_region()
  bool resizes_srq = false;         // SharedReceiveQueue::resize()
  bool only_by_cm = false;          // iWARP: queue pairs are connected by weft/cm.hpp, not modify()
  // RC: a successful SEND or WRITE was executed by the peer. False (iWARP): it was sent; an error
  // at the peer ends the connection (CmEventType::disconnected), and outstanding requests complete
  // as flushed, unsignaled ones included.
  bool confirms = true;
  bool has_flush = false;           // RC, XRC: ATOMIC WRITE and FLUSH
  bool has_xrc = false;             // XRC queue pairs: srq.hpp
  bool has_rate_limit = false;      // QueuePairAttributes::rate_limit
  bool telemetry = false;           // supports in-band telemetry
  bool selective_repeat = false;    // RC: sends only what is lost again, where the peer has it too
  uint32_t engines = 1;             // see cq.hpp
  uint32_t paths = 1;               // SRD: UDP source ports that packets to a peer are spread over
  std::vector<Gid> further_gids{};  // SRD: its other addresses (rails); peers know it by `gid`
  // Path of the flight record, with the last packets and errors, for weft_postmortem; of engine 0.
  // It outlives the process if that crashes or a request fails. Empty: there is none.
  std::string flight_record{};
};

// State of a path of SRD. Data is sent on good paths; if there is none, on slow and dead ones too.
enum class PathHealth : uint8_t {
  good,
  slow,     // its round-trip time is more than twice that of the fastest
  dead,     // packets on it are lost
  probing,  // dead, and probed from time to time with a packet without payload
};
// The name as spelled above.
std::string_view name(PathHealth health) noexcept;

// Types of asynchronous events (verbs: ibv_get_async_event).
enum class EventType : uint8_t {
  qp_fatal,          // the queue pair is in ERR because of an internal error
  qp_request_error,  // the peer sent an invalid request; the QP is in ERR
  qp_access_error,   // the peer violated a memory right; the QP is in ERR
  comm_established,  // first packet arrived in RTR
  sq_drained,        // the send queue of a QP in SQD has drained
  // A QP with a shared receive queue, or an XRC target, is in ERR: it takes no more receives there.
  last_wqe_reached,
  srq_limit_reached,  // a shared receive queue has fewer receives than arm_limit() set
  cq_error,           // overrun: completions of this CQ are lost, its QPs go to ERR
  port_active,        // the network interface works again
  port_error,         // the interface is down: packets are lost and retransmitted later
  device_fatal,       // the device cannot be used any more
  // The device's address was removed from its interface, or added again: as port_error. On ibverbs:
  // any address of the port was added or removed.
  gid_change,
};
// The name as spelled above.
std::string_view name(EventType type) noexcept;

// An asynchronous event. It needs no acknowledgement.
struct AsyncEvent {
  EventType type = EventType::device_fatal;
  // For qp_*, comm_established, sq_drained and last_wqe_reached; on `roce` and `srd` also for
  // cq_error: the queue pair whose completion was the first to be lost.
  QpNum qp{};
  uint32_t shared_queue = 0;      // for srq_limit_reached: SharedReceiveQueue::number()
  uint32_t completion_queue = 0;  // for cq_error: CompletionQueue::number()
};

// One named counter of a device: packets, bytes, and one per drop reason.
struct Counter {
  std::string_view name{};
  uint64_t value = 0;
};

// SRD: a path to a peer: a UDP source port, which switches hash (ECMP), between two addresses.
struct PathReport {
  uint16_t source_port = 0;
  PathHealth health = PathHealth::good;
  Duration rtt{};  // smoothed; 0: not measured
  // With path_counters=1: packets sent on the path, lost on it, and marked by ECN.
  uint64_t sent = 0, lost = 0, marked = 0;
  // Devices with several addresses (rails): the addresses of the path.
  Gid source{}, destination{};
};

// A handle of an open device. Copies name the same device, which is closed when the last copy and
// the last object created from it are destroyed. A child process after fork() must open its own.
class Device {
 public:
  // Opens the device that `spec` names (see above). Errors: invalid_argument (the message says
  // which part is wrong and what is valid), not_found, not_supported, permission_denied,
  // address_in_use, io_error, no_memory.
  static Result<Device> open(std::string_view spec = {});

  // Capabilities and limits; they do not change.
  const DeviceAttributes& attributes() const noexcept;
  // Creates a protection domain: mr.hpp. Error: no_memory.
  Result<ProtectionDomain> protection_domain() const;
  // Creates a completion queue: cq.hpp. Errors: invalid_argument (capacity out of range, no such
  // engine), not_supported, no_memory.
  Result<CompletionQueue> completion_queue(const CompletionQueueOptions& options) const;
  // Creates an XRC domain: srq.hpp. `engine`: that of its targets and shared receive queues
  // (cq.hpp). Errors: not_supported (no XRC on this device), invalid_argument (no such engine).
  Result<XrcDomain> xrc_domain(uint32_t engine = 0) const;

  // The state of the port now: port.hpp. On `roce` and `srd` this asks the kernel about the network
  // interface; not for the data path. Error: io_error (ibverbs).
  Result<PortAttributes> query_port() const;
  // The GID table now: the device's own address with the index 0, then its further_gids, then the
  // other addresses of its network interface, IPv4 before IPv6. Packets of this device always carry
  // its own address. Indices of other addresses change when the interface gets or loses one. On
  // `ibverbs`: the table of the device. Error: io_error (ibverbs).
  Result<std::vector<GidTableEntry>> query_gid_table() const;

  // A descriptor that is readable while there is an asynchronous event. Owned by the device.
  int event_fd() const noexcept;
  // Takes the oldest asynchronous event, if there is one. Never blocks.
  std::optional<AsyncEvent> next_event() const;

  // Makes progress on each engine: receives packets, sends packets, runs timers, for a bounded
  // time. CompletionQueue::poll() does so for its engine; a program that waits on memory calls
  // progress() or wait_until(). Never blocks.
  void progress() const noexcept;

  // The current time on the clock of the device's timestamps. All `roce` and `srd` devices of a
  // process share one clock, whose epoch is arbitrary.
  Instant now() const noexcept;

  // Calls progress() until predicate() holds or `limit` has passed; true if it holds. For programs
  // that spin on memory which the peer writes.
  template <class Predicate>
  bool wait_until(Predicate predicate, Duration limit = Duration::from_s(1'000'000)) const;

  // SRD: the address of the peer with number Completion::source_peer. A device with more than 65536
  // peers forgets the least recently active ones and reuses their numbers.
  std::optional<Gid> peer_address(uint32_t source_peer) const;

  // SRD: the paths to the device with queue pair `number` at `address`. Empty if nothing was sent
  // there recently: a device keeps the paths of 64 idle peers.
  std::vector<PathReport> paths(const Gid& address, QpNum number) const;

  // A snapshot of all counters.
  std::vector<Counter> counters() const;

  // For providers.
  const std::shared_ptr<verbs::Context>& context() const noexcept { return context_; }

 private:
  explicit Device(std::shared_ptr<verbs::Context> context) : context_(std::move(context)) {}

  std::shared_ptr<verbs::Context> context_;
};

// The node GUID (EUI-64, as an integer) of the `roce` or `srd` device that `spec` names, without
// opening it. It is made from the host (machine-id and host name) and the part of the string before
// its keys, so it is the same in every process of the host and after a restart, and another one on
// another host. Errors: invalid_argument (not a device string), not_supported (`ibverbs`, whose
// devices have their own: DeviceAttributes::node_guid).
Result<uint64_t> node_guid(std::string_view spec);

// A device that could be opened on this machine, or the reason why it cannot.
struct DeviceListing {
  std::string spec{};  // a device string: "roce+udp:lo"
  bool usable = false;
  std::string reason{};  // why it is not usable
  // Opening it may interrupt other traffic of the interface for a moment (af_xdp on a NIC).
  // list_devices() does not open such a device to find out whether it is usable.
  bool disturbs = false;
};
// Whether list_devices() loads the modules of this machine: ports and providers that are shared
// objects beside libweft.so, say port_dpdk.so, which are loaded when a device of theirs is opened.
enum class LoadModules : bool { no, yes };

// Lists all providers and ports of this build, and those in modules of the machine. A module that
// is not loaded yet has one row, not usable, with its file or the package that brings it as reason;
// LoadModules::yes loads it (DPDK takes milliseconds), and then lists what it can open.
std::vector<DeviceListing> list_devices(LoadModules modules = LoadModules::no);

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
