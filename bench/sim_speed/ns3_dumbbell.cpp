// SPDX-License-Identifier: BSD-3-Clause
// The dumbbell in ns-3, as thin as ns-3 can be: point-to-point devices whose packets are forwarded
// by a table, without IP, sockets or traces. Built only where Debian's libns3-dev is installed, and
// never installed itself. C++17: ns-3's headers are no C++20.
#include <ns3/core-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>

#include <vector>

#include "bench/sim_speed/dumbbell.hpp"

namespace weft::bench {
namespace {

// Who a packet is for, and whether it is a reply.
class Label : public ns3::Header {
 public:
  Label() = default;
  Label(uint16_t to, uint16_t from, bool reply) : to_(to), from_(from), reply_(reply) {}
  static ns3::TypeId GetTypeId() {
    static const ns3::TypeId id = ns3::TypeId("weft::bench::Label").SetParent<ns3::Header>();
    return id;
  }
  ns3::TypeId GetInstanceTypeId() const override { return GetTypeId(); }
  uint32_t GetSerializedSize() const override { return 5; }
  void Serialize(ns3::Buffer::Iterator at) const override {
    at.WriteHtonU16(to_);
    at.WriteHtonU16(from_);
    at.WriteU8(reply_);
  }
  uint32_t Deserialize(ns3::Buffer::Iterator at) override {
    to_ = at.ReadNtohU16();
    from_ = at.ReadNtohU16();
    reply_ = at.ReadU8() != 0;
    return 5;
  }
  void Print(std::ostream&) const override {}

  uint16_t to_ = 0;
  uint16_t from_ = 0;
  bool reply_ = false;
};

constexpr uint32_t kLabelAndPpp = 5 + 2;

class Network {
 public:
  explicit Network(const Dumbbell& d) : d_(d), hosts_(2 * d.pairs), left_(d.pairs) {
    nodes_.Create(hosts_ + 2);
    for (uint32_t host = 0; host < hosts_; ++host)
      join(host, hosts_ + (host >= d.pairs), d.host_mbps);
    join(hosts_, hosts_ + 1, d.middle_mbps);
    for (uint32_t i = 0; i < d.pairs; ++i) {
      left_[i] = d.packets_per_pair;
      ns3::Simulator::Schedule(ns3::NanoSeconds(10 * i), &Network::send_data, this, i);
    }
  }
  uint64_t delivered() const { return delivered_; }

 private:
  void join(uint32_t a, uint32_t b, uint32_t mbps) {
    const auto channel = ns3::CreateObject<ns3::PointToPointChannel>();
    channel->SetAttribute("Delay", ns3::TimeValue(ns3::NanoSeconds(d_.delay_ns)));
    ns3::Ptr<ns3::NetDevice> ends[2];
    for (uint32_t i = 0; i < 2; ++i) {
      const auto device = ns3::CreateObject<ns3::PointToPointNetDevice>();
      device->SetAddress(ns3::Mac48Address::Allocate());
      device->SetDataRate(ns3::DataRate(mbps * 1'000'000ULL));
      device->SetQueue(ns3::CreateObject<ns3::DropTailQueue<ns3::Packet>>());
      device->Attach(channel);
      nodes_.Get(i == 0 ? a : b)->AddDevice(device);
      device->SetReceiveCallback(ns3::MakeCallback(&Network::receive, this));
      ends[i] = device;
    }
    if (a < hosts_) {
      nic_.push_back(ends[0]);
      down_.push_back(ends[1]);
    } else {
      across_[0] = ends[0];
      across_[1] = ends[1];
    }
  }
  void send_data(uint32_t host) {
    if (left_[host] == 0) return;
    --left_[host];
    send(host, host + d_.pairs, d_.packet_bytes, false);
    const double ns = d_.packet_bytes * 8000.0 / d_.host_mbps;
    ns3::Simulator::Schedule(ns3::PicoSeconds(static_cast<int64_t>(ns * 1000)), &Network::send_data,
                             this, host);
  }
  void send(uint32_t from, uint32_t to, uint32_t bytes, bool reply) {
    const ns3::Ptr<ns3::Packet> packet = ns3::Create<ns3::Packet>(bytes - kLabelAndPpp);
    packet->AddHeader(Label(static_cast<uint16_t>(to), static_cast<uint16_t>(from), reply));
    nic_[from]->Send(packet, nic_[from]->GetBroadcast(), 0x0800);
  }
  bool receive(ns3::Ptr<ns3::NetDevice> device, ns3::Ptr<const ns3::Packet> packet, uint16_t,
               const ns3::Address&) {
    const uint32_t node = device->GetNode()->GetId() - nodes_.Get(0)->GetId();
    Label label;
    packet->PeekHeader(label);
    if (node >= hosts_) {
      const uint32_t side = node - hosts_;
      const bool here = (label.to_ >= d_.pairs) == (side == 1);
      const ns3::Ptr<ns3::NetDevice>& out = here ? down_[label.to_] : across_[side];
      out->Send(packet->Copy(), out->GetBroadcast(), 0x0800);
    } else if (!label.reply_) {
      ++delivered_;
      send(label.to_, label.from_, d_.reply_bytes, true);
    }
    return true;
  }

  const Dumbbell d_;
  const uint32_t hosts_;
  ns3::NodeContainer nodes_;
  std::vector<ns3::Ptr<ns3::NetDevice>> nic_;   // by host
  std::vector<ns3::Ptr<ns3::NetDevice>> down_;  // by host: its switch's end
  ns3::Ptr<ns3::NetDevice> across_[2];          // by switch
  std::vector<uint64_t> left_;
  uint64_t delivered_ = 0;
};

}  // namespace

Speed run_ns3(const Dumbbell& dumbbell) {
  Network network(dumbbell);
  const double begin = processor_seconds();
  ns3::Simulator::Run();
  Speed speed;
  speed.delivered = network.delivered();
  speed.events = ns3::Simulator::GetEventCount();
  speed.seconds = processor_seconds() - begin;
  ns3::Simulator::Destroy();
  return speed;
}

}  // namespace weft::bench
