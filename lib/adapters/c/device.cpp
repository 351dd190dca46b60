// SPDX-License-Identifier: BSD-3-Clause
// C API: devices, what they are and count, and what can be opened here.
#include <cstdlib>

#include "lib/adapters/c/call.hpp"

using weft::c::call;
using weft::c::failed;

static_assert(static_cast<int>(weft::EventType::gid_change) == WEFT_EVENT_GID_CHANGE);
static_assert(static_cast<int>(weft::QpType::srd) == WEFT_QP_SRD);

weft_code weft_device_open(const char* spec, weft_device** device) {
  return call({{"device", device}}, [&] {
    return weft::c::made(weft::Device::open(spec != nullptr ? spec : ""), device);
  });
}

void weft_device_close(weft_device* device) { delete device; }

weft_code weft_device_query(const weft_device* device, weft_device_attributes* attributes) {
  return call({{"device", device}, {"attributes", attributes}}, [&] {
    const weft::DeviceAttributes& has = device->it.attributes();
    weft_device_attributes it{};
    it.spec = has.spec.c_str();
    it.provider = has.provider.c_str();
    it.port = has.port.c_str();
    it.gid = weft::c::gid_of(has.gid);
    it.max_mtu = has.max_mtu;
    it.active_mtu = has.active_mtu;
    it.max_qp = has.max_qp;
    it.max_qp_wr = has.max_qp_wr;
    it.max_sge = has.max_sge;
    it.max_inline = has.max_inline;
    it.max_cqe = has.max_cqe;
    it.max_rd_atomic = has.max_rd_atomic;
    it.max_message = has.max_message;
    it.qp_type = static_cast<weft_qp_type>(has.qp_type);
    it.engines = has.engines;
    it.has_uc = has.has_uc;
    it.has_ud = has.has_ud;
    it.has_atomics = has.has_atomics;
    it.has_immediate = has.has_immediate;
    it.has_read = has.has_read;
    it.has_write = has.has_write;
    it.has_write_add = has.has_write_add;
    it.has_ordered = has.has_ordered;
    it.has_dmabuf = has.has_dmabuf;
    it.has_flush = has.has_flush;
    return weft::c::fill(attributes, it, "weft_device_attributes");
  });
}

void weft_device_progress(const weft_device* device) {
  if (device != nullptr) device->it.progress();
}

int weft_device_event_fd(const weft_device* device) {
  return device != nullptr ? device->it.event_fd() : 0;
}

bool weft_device_next_event(const weft_device* device, weft_event* event) {
  bool found = false;
  (void)call({{"device", device}, {"event", event}}, [&] {
    const std::optional<weft::AsyncEvent> next = device->it.next_event();
    if (next)
      *event = {static_cast<weft_event_type>(next->type), next->qp.value, next->completion_queue};
    found = next.has_value();
    return WEFT_OK;
  });
  return found;
}

weft_code weft_device_peer_address(const weft_device* device, uint32_t source_peer, weft_gid* gid) {
  return call({{"device", device}, {"gid", gid}}, [&] {
    const std::optional<weft::Gid> address = device->it.peer_address(source_peer);
    if (!address)
      return failed(weft::Code::not_found,
                    "the device knows no peer with the number " + std::to_string(source_peer));
    *gid = weft::c::gid_of(*address);
    return WEFT_OK;
  });
}

namespace {

// One block of memory that free() frees: `count` rows, and behind them the texts that they name.
template <class Row>
class Block {
 public:
  Block(size_t count, size_t bytes_of_text)
      : rows_(static_cast<Row*>(std::malloc(count * sizeof(Row) + bytes_of_text + 1))),
        text_(reinterpret_cast<char*>(rows_ + count)) {
    if (rows_ == nullptr) throw std::bad_alloc();
  }
  Row* rows() const { return rows_; }
  // A copy of `text` in the block.
  const char* keep(std::string_view text) {
    char* const start = text_;
    text_ = std::copy(text.begin(), text.end(), text_);
    *text_++ = '\0';
    return start;
  }

 private:
  Row* rows_;
  char* text_;
};

}  // namespace

weft_code weft_device_counters(const weft_device* device, weft_counter** counters, size_t* count) {
  return call({{"device", device}, {"counters", counters}, {"count", count}}, [&] {
    const std::vector<weft::Counter> all = device->it.counters();
    size_t text = 0;
    for (const weft::Counter& counter : all) text += counter.name.size() + 1;
    Block<weft_counter> block(all.size(), text);
    for (size_t i = 0; i < all.size(); ++i)
      block.rows()[i] = {block.keep(all[i].name), all[i].value};
    *counters = block.rows();
    *count = all.size();
    return WEFT_OK;
  });
}

weft_code weft_list_devices(bool load_modules, weft_device_listing** listings, size_t* count) {
  return call({{"listings", listings}, {"count", count}}, [&] {
    const std::vector<weft::DeviceListing> all =
        weft::list_devices(load_modules ? weft::LoadModules::yes : weft::LoadModules::no);
    size_t text = 0;
    for (const weft::DeviceListing& one : all) text += one.spec.size() + one.reason.size() + 2;
    Block<weft_device_listing> block(all.size(), text);
    for (size_t i = 0; i < all.size(); ++i)
      block.rows()[i] = {block.keep(all[i].spec), block.keep(all[i].reason), all[i].usable};
    *listings = block.rows();
    *count = all.size();
    return WEFT_OK;
  });
}

void weft_free(void* block) { std::free(block); }
