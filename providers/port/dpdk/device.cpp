// SPDX-License-Identifier: BSD-3-Clause
// Opening and closing an Ethernet device of DPDK. See device.hpp.
#define ALLOW_EXPERIMENTAL_API  // interrupt sources of our own are not stable yet in DPDK 22.11

#include "providers/port/dpdk/device.hpp"

#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_mbuf.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <future>
#include <mutex>
#include <set>
#include <utility>

#include "lib/memory/guarded_copy.hpp"
#include "providers/port/dpdk/kernel_interface.hpp"
#include "providers/port/dpdk/memif.hpp"
#include "providers/port/dpdk/no_sigpipe.hpp"
#include "providers/port/dpdk/pci.hpp"
#include "providers/port/dpdk/pool.hpp"
#include "providers/port/dpdk/vhost.hpp"
#include "providers/port/ethernet/framing.hpp"

namespace weft::port::dpdk {
namespace {

constexpr uint16_t kDescriptors = 1024;

constexpr uint32_t kIpHeader = 40;     // IPv6
constexpr uint32_t kLinkHeaders = 18;  // Ethernet, VLAN

// Drivers that move frames of any length whatever MTU they claim: wires inside this machine, and
// those that leave it to the kernel's interface.
bool carries_any_length(const std::string& name) {
  for (const char* const driver : {"net_memif", "net_ring", "net_null", "net_af_packet"})
    if (name.rfind(driver, 0) == 0) return true;
  return false;
}

// The names of this process's devices.
struct Names {
  std::mutex mutex;
  std::set<std::string> taken;
  unsigned next = 0;
};
Names& names() {
  static Names* const all = new Names;  // devices may be closed by static destructors
  return *all;
}

// A driver's name needs a number that makes it a device of its own. Error: a device has this name.
Result<std::string> take_name(const std::string& device) {
  const std::lock_guard<std::mutex> lock(names().mutex);
  const bool is_driver = device.rfind("net_", 0) == 0 || device.rfind("virtio_user", 0) == 0;
  const bool unnumbered = is_driver && std::isdigit(static_cast<unsigned char>(device.back())) == 0;
  std::string name = device;
  while (unnumbered && (name == device || names().taken.count(name) != 0))
    name = device + std::to_string(names().next++);
  if (names().taken.insert(name).second) return name;
  return Error{Code::address_in_use,
               "dpdk: a device of this process is " + name +
                   " already: close that first, or name a driver with another number, or none"};
}

void release_name(const std::string& name) {
  const std::lock_guard<std::mutex> lock(names().mutex);
  names().taken.erase(name);
}

// Waits until the interrupt thread has handled its current events: an event of a descriptor that
// was closed meanwhile would be taken for one of the next descriptor with that number, and the
// driver would block on it. A new event source is handled after the current events.
void let_events_pass() {
  const int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
  rte_intr_handle* const source = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  struct Pass {
    std::atomic<int> fd{-1};
    std::promise<void> done;
  } pass;
  pass.fd.store(fd, std::memory_order_release);  // DPDK's lock orders it, which TSan cannot see
  const auto on_interrupt = [](void* argument) {
    Pass& p = *static_cast<Pass*>(argument);
    eventfd_t count;
    if (eventfd_read(p.fd.load(std::memory_order_acquire), &count) == 0) p.done.set_value();
  };
  const bool good = fd >= 0 && source != nullptr && rte_intr_fd_set(source, fd) == 0 &&
                    rte_intr_type_set(source, RTE_INTR_HANDLE_EXT) == 0 &&
                    rte_intr_callback_register(source, on_interrupt, &pass) == 0;
  if (good) {
    pass.done.get_future().wait();
    while (rte_intr_callback_unregister(source, on_interrupt, &pass) == -EAGAIN) usleep(10);
  }
  rte_intr_instance_free(source);
  if (fd >= 0) close(fd);
}

// Drivers talk to their peers on the EAL's interrupt thread, without a lock that would keep others
// from closing the device meanwhile: so it is closed there. Without that thread, here.
template <class Function>
void on_control_thread(Function function) {
  struct Call {
    Function function;
    std::promise<void> done;
  } call{std::move(function), {}};
  // DPDK hands the call over under a lock of its own, which a thread sanitizer does not see.
  static std::mutex alarm_mutex;
  { const std::lock_guard<std::mutex> push(alarm_mutex); }
  const auto run = [](void* argument) {
    { const std::lock_guard<std::mutex> accept(alarm_mutex); }
    Call& c = *static_cast<Call*>(argument);
    c.function();
    c.done.set_value();
  };
  if (rte_thread_is_intr() || rte_eal_alarm_set(1, run, &call) != 0) return call.function();
  call.done.get_future().wait();
  let_events_pass();
}

struct Burst {
  uint16_t port, queue;
  rte_mbuf** buffers;
  uint16_t count, done;

  // False: the memory of the rings was unmapped during the call.
  template <uint16_t (*kMove)(uint16_t, uint16_t, rte_mbuf**, uint16_t)>
  bool guarded() noexcept {
    return memory::run_guarded(
        [](void* argument) {
          Burst& b = *static_cast<Burst*>(argument);
          b.done = kMove(b.port, b.queue, b.buffers, b.count);
        },
        this);
  }
};

std::string text_of(int error) { return rte_strerror(error < 0 ? -error : error); }

}  // namespace

Device::~Device() {
  if (process_ != getpid()) {
    (void)steering_.release();  // the rules are those of the parent
    (void)memif_reconnect_.release();
    return;
  }
  const NoSigpipe here;
  if (configured_) await_link();
  if (configured_ || attached_) on_control_thread([this] { detach(); });
  for (const Queue& queue : queues_) rte_mempool_free(queue.pool);
  if (!name_.empty()) release_name(name_);
}

void Device::await_link() const {
  if (!connects_to_.empty()) memif_await_link(connects_to_, [this] { return link_is_up(); });
}

void Device::detach() noexcept {
  steering_.reset();
  memif_reconnect_.reset();
  if (promiscuous_) (void)rte_eth_promiscuous_disable(port_);
  if (multicast_ >= 0) (void)close(multicast_);
  if (configured_) {
    (void)rte_eth_dev_stop(port_);
    (void)rte_eth_dev_close(port_);
  }
  if (attached_) (void)rte_eal_hotplug_remove(bus_, name_.c_str());
  if (!listens_at_.empty()) memif_closed(listens_at_);
}

Result<std::shared_ptr<Device>> Device::open(const Options& options) {
  if (options.is_pci)
    if (const Result<void> found = find_pci_device(options.device); !found) return found.error();
  if (const Result<void> started = start_eal(options); !started) return started.error();
  if (needs_huge_pages(options) && rte_eal_has_hugepages() == 0)
    return Error{
        Code::no_memory,
        "dpdk: net_af_xdp needs huge pages: the kernel drops frames that cross from one "
        "page to another elsewhere; as root: echo 220 > /proc/sys/vm/nr_hugepages, or take "
        "net_af_packet, which needs none"};
  const NoSigpipe here;
  std::shared_ptr<Device> device(new Device);
  if (const Result<void> done = device->attach(options); !done) return done.error();
  if (const Result<void> done = device->configure(options); !done) return done.error();
  device->await_link();
  return device;
}

Result<void> Device::attach(const Options& options) {
  process_ = getpid();
  memif_ = is_memif(options);
  over_interface_ = is_over_interface(options);
  if (memif_) memory::install_fault_guard();
  driver_holds_buffers_ = device_argument(options, "zero-copy") == "yes" || options.queues > 1;
  Result<std::string> name = take_name(options.device);
  if (!name) return name.error();
  name_ = *std::move(name);
  bus_ = options.is_pci ? "pci" : "vdev";
  // The arguments of the EAL may have brought it.
  const bool there = rte_eth_dev_get_port_by_name(name_.c_str(), &port_) == 0;
  if (!there)
    if (const Result<void> plugged = plug(options); !plugged) return plugged;
  attached_ = true;
  connects_to_ = memif_connects_to(options);
  listens_at_ = memif_listens_at(options);
  if (!listens_at_.empty()) memif_opened(listens_at_);
  if (rte_eth_dev_get_port_by_name(name_.c_str(), &port_) != 0)
    return Error{Code::not_found, "dpdk: \"" + name_ + "\" is not a network device"};
  return {};
}

Result<void> Device::plug(const Options& options) const {
  const int result = rte_eal_hotplug_add(bus_, name_.c_str(), options.device_arguments.c_str());
  if (result == 0) return {};
  if (options.is_pci) return pci_refusal(name_, text_of(result));
  if (lacks_rights(options))
    return Error{
        Code::permission_denied,
        "dpdk: " + options.device + " with \"" + options.device_arguments +
            "\" needs root, or CAP_NET_RAW and CAP_NET_ADMIN and an interface that exists; "
            "net_memif and net_vhost need no rights"};
  return Error{Code::not_found,
               "dpdk: no device \"" + options.device + "\" with arguments \"" +
                   options.device_arguments + "\": " + text_of(result) +
                   "; try net_memif, net_tap, net_af_packet (dpdk.iface=NAME), a PCI address"};
}

Result<void> Device::configure(const Options& options) {
  rte_eth_dev_info info{};
  if (const int result = rte_eth_dev_info_get(port_, &info); result != 0)
    return Error{Code::io_error, "dpdk: " + name_ + " cannot be queried: " + text_of(result)};
  const uint16_t most = std::min(info.max_rx_queues, info.max_tx_queues);
  if (options.queues > most)
    return Error{Code::not_supported, "dpdk: " + name_ + " has " + std::to_string(most) +
                                          " queues each way, and engines=" +
                                          std::to_string(options.queues) + " needs as many"};
  const auto queues = static_cast<uint16_t>(options.queues);
  const uint32_t wanted = options.mtu + kIpHeader + ethernet::transport_headers(options.udp_port);
  uint16_t now = 1500;
  (void)rte_eth_dev_get_mtu(port_, &now);
  mtu_ = carries_any_length(name_) ? wanted : std::min<uint32_t>(wanted, info.max_mtu);
  rte_eth_conf conf{};
  conf.rxmode.mtu = carries_any_length(name_) ? now : mtu_;
  if (options.offload.value_or(options.is_pci))
    conf.rxmode.offloads =
        info.rx_offload_capa & (RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_SCATTER);
  if (queues > 1) {  // a device that can spread flows
    conf.rx_adv_conf.rss_conf.rss_hf =
        info.flow_type_rss_offloads & (RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP);
    if (conf.rx_adv_conf.rss_conf.rss_hf != 0) conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
  }
  int result = rte_eth_dev_configure(port_, queues, queues, &conf);
  // Only for the MTU's sake: net_vhost that found its socket taken would say yes the second time.
  if (result == -EINVAL || result == -ENOTSUP) {
    conf.rxmode.mtu = mtu_ = now;
    result = rte_eth_dev_configure(port_, queues, queues, &conf);
  }
  if (result != 0)
    return Error{
        Code::io_error,
        "dpdk: " + name_ + " cannot be configured: " + text_of(result) +
            (is_vhost(options)
                 ? "; dpdk.iface must name a socket that this user may make: is its folder "
                   "there and writable?"
                 : "")};
  configured_ = true;
  if (const uint32_t passes = interface_mtu(options); passes != 0) mtu_ = std::min(mtu_, passes);
  queues_.resize(queues);
  for (uint16_t queue = 0; queue < queues; ++queue)
    if (const Result<void> done = set_up_queue(options, queue); !done) return done;
  if (queues > 1) {
    Result<std::unique_ptr<HandOver>> hand_over = HandOver::create(name_, queues);
    if (!hand_over) return hand_over.error();
    hand_over_ = std::move(*hand_over);
    steering_ = std::make_unique<Steering>(port_, queues, static_cast<uint16_t>(options.vlan));
  }
  result = rte_eth_dev_start(port_);
  if (result != 0)
    return Error{Code::io_error, "dpdk: " + name_ + " does not start: " + text_of(result)};
  join_all_multicast(options);
  // Drivers over a kernel interface go by that interface's MTU, whatever was configured.
  if (!carries_any_length(name_) && rte_eth_dev_get_mtu(port_, &now) == 0 && now < mtu_) mtu_ = now;
  rte_ether_addr mac{};
  (void)rte_eth_macaddr_get(port_, &mac);
  std::copy_n(mac.addr_bytes, mac_.size(), mac_.begin());
  if (!connects_to_.empty())
    memif_reconnect_ = std::make_unique<MemifReconnect>(*this, connects_to_);
  return {};
}

// Solicited-node groups, above all. What a driver changes of an interface of the kernel would stay
// after this process. Drivers that have no promiscuous mode pass all frames.
void Device::join_all_multicast(const Options& options) {
  if (over_interface_) {
    multicast_ = hold_multicast(options);
  } else if (rte_eth_promiscuous_get(port_) == 0) {
    promiscuous_ = rte_eth_promiscuous_enable(port_) == 0;
  }
}

Result<void> Device::set_up_queue(const Options& options, uint16_t queue) {
  uint16_t rx = kDescriptors, tx = kDescriptors;
  (void)rte_eth_dev_adjust_nb_rx_tx_desc(port_, &rx, &tx);
  const uint32_t frame = std::max(mtu_ + kLinkHeaders + 64, least_buffer(options));
  room_ = std::max<uint32_t>(frame, RTE_MBUF_DEFAULT_DATAROOM);
  // A memif that copies has its buffers moved by the thread that calls it and by no other.
  const Result<rte_mempool*> pool =
      make_pool("weft" + std::to_string(queue) + "_" + name_,
                {buffers_needed(options, rx, tx), room_, memif_ && !driver_holds_buffers_});
  if (!pool) return pool.error();
  queues_[queue].pool = *pool;
  int result = rte_eth_rx_queue_setup(port_, queue, rx, SOCKET_ID_ANY, nullptr, *pool);
  if (result == 0) result = rte_eth_tx_queue_setup(port_, queue, tx, SOCKET_ID_ANY, nullptr);
  if (result == 0) return {};
  return Error{Code::io_error, "dpdk: " + name_ + " does not start: " + text_of(result)};
}

uint16_t Device::receive(uint16_t queue, rte_mbuf** buffers, uint16_t room) noexcept {
  if (!memif_) return rte_eth_rx_burst(port_, queue, buffers, room);
  if (pauses(queue)) return 0;
  Burst burst{port_, queue, buffers, room, 0};
  if (burst.guarded<rte_eth_rx_burst>()) return burst.done;
  queues_[queue].faulted = true;
  return 0;
}

uint16_t Device::send(uint16_t queue, rte_mbuf** buffers, uint16_t count) noexcept {
  if (!memif_) return rte_eth_tx_burst(port_, queue, buffers, count);
  if (pauses(queue)) return 0;
  Burst burst{port_, queue, buffers, count, 0};
  if (burst.guarded<rte_eth_tx_burst>()) return burst.done;
  queues_[queue].faulted = true;  // unknown which of the mbufs are free already
  return count;
}

void Device::reclaim(uint16_t queue, std::span<rte_mbuf* const> held) noexcept {
  queues_[queue].faulted = false;
  if (!driver_holds_buffers_) dpdk::reclaim(queues_[queue].pool, held);
}

unsigned Device::free_buffers(uint16_t queue) const noexcept {
  return rte_mempool_avail_count(queues_[queue].pool);
}

bool Device::link_is_up() const noexcept {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(port_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

}  // namespace weft::port::dpdk
