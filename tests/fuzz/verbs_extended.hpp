// SPDX-License-Identifier: BSD-3-Clause
// Objects and calls of fuzz_verbs that few programs make: thread and parent domains, device memory,
// XRC, null regions and changed ones, receives of shared queues, events, tables of the port, and
// what no device in software has.
#pragma once

#include "tests/fuzz/verbs_objects.hpp"

namespace weft::fuzz {

class ExtendedObjects : public VerbsObjects {
 protected:
  void make_thread_domain(Input& input) {
    if (threads_.full()) return;
    ibv_td_init_attr attr{.comp_mask = input.take<uint8_t>() % 4 == 0 ? 1U : 0U};
    errno = 0;
    ibv_td* td = ibv_alloc_td(device(), &attr);
    if (made(td, attr.comp_mask != 0 ? EINVAL : 0, "ibv_alloc_td")) add(threads_, td, {});
  }

  void make_parent_domain(Input& input) {
    auto* domain = domains_.any(input);
    auto* td = threads_.any(input);
    if (domains_.full()) return;
    const auto number = input.take<uint8_t>();
    ibv_parent_domain_init_attr attr{};
    attr.pd = domain != nullptr ? domain->verbs : nullptr;
    attr.td = td != nullptr && number % 2 == 0 ? td->verbs : nullptr;
    constexpr uint32_t kUnprotected = 4, kUnknown = 8;
    attr.comp_mask = number / 2 % 16;
    int expected = attr.pd == nullptr ? EINVAL : 0;
    if ((attr.comp_mask & kUnprotected) != 0) expected = EOPNOTSUPP;
    if ((attr.comp_mask & kUnknown) != 0) expected = EINVAL;
    errno = 0;
    ibv_pd* pd = ibv_alloc_parent_domain(device(), &attr);
    if (!made(pd, expected, "ibv_alloc_parent_domain")) return;
    ++domain->users;
    if (attr.td != nullptr) ++td->users;
    add(domains_, pd, {.original = attr.pd, .td = attr.td});
  }

  void make_memory(Input& input) {
    if (memories_.full()) return;
    const auto number = input.take<uint16_t>();
    ibv_alloc_dm_attr attr{};
    attr.length = number % 8 == 0 ? 0 : number;
    attr.log_align_req = number % 16 == 1 ? 13 : number % 13;
    attr.comp_mask = number % 32 == 2 ? 1 : 0;
    const bool wrong = attr.length == 0 || attr.log_align_req > 12 || attr.comp_mask != 0;
    errno = 0;
    ibv_dm* dm = ibv_alloc_dm(device(), &attr);
    if (!made(dm, wrong ? EINVAL : 0, "ibv_alloc_dm")) return;
    add(memories_, dm, {});
    copy_memory(*dm, attr.length, input.take<uint16_t>());
  }

  void make_region_of_memory(Input& input) {
    auto* domain = domains_.any(input);
    auto* dm = memories_.any(input);
    if (domain == nullptr || dm == nullptr || regions_.full()) return;
    const auto number = input.take<uint16_t>();
    const bool zero_based = number % 8 != 0;
    const uint64_t offset = number % 16 == 1 ? uint64_t{1} << 40 : 0;
    const unsigned access = IBV_ACCESS_LOCAL_WRITE | (zero_based ? IBV_ACCESS_ZERO_BASED : 0);
    errno = 0;
    ibv_mr* mr = ibv_reg_dm_mr(domain->verbs, dm->verbs, offset, 1, access);
    if (!made(mr, zero_based && offset == 0 ? 0 : EINVAL, "ibv_reg_dm_mr")) return;
    ++domain->users, ++dm->users;
    add(regions_, mr, {.pd = domain->verbs, .dm = dm->verbs});
  }

  void make_null_region(Input& input) {
    auto* domain = domains_.any(input);
    if (domain == nullptr || regions_.full()) return;
    ibv_mr* mr = ibv_alloc_null_mr(domain->verbs);
    if (!made(mr, 0, "ibv_alloc_null_mr")) return;
    ++domain->users;
    add(regions_, mr, {.pd = domain->verbs});
  }

  void change_region(Input& input) {
    auto* region = regions_.any(input);
    auto* to = domains_.any(input);
    if (region == nullptr) return;
    const int flags = input.take<uint8_t>() % 16;
    const auto number = input.take<uint8_t>();
    ibv_pd* pd = to != nullptr && number % 4 != 0 ? to->verbs : nullptr;
    const size_t length = number / 4 % 4 == 0 ? 0 : 64;
    const int access = number / 16 % 4 == 0   ? 0
                       : number / 16 % 4 == 1 ? IBV_ACCESS_REMOTE_WRITE
                                              : IBV_ACCESS_LOCAL_WRITE;
    const auto has = [&](int flag) { return (flags & flag) != 0; };
    const bool input_wrong = !region->state.changeable || flags == 0 || has(8) ||
                             (has(IBV_REREG_MR_CHANGE_TRANSLATION) && length == 0) ||
                             (has(IBV_REREG_MR_CHANGE_PD) && pd == nullptr) ||
                             (access != 0 && !has(IBV_REREG_MR_CHANGE_ACCESS));
    const bool command_wrong = has(IBV_REREG_MR_CHANGE_ACCESS) && access == IBV_ACCESS_REMOTE_WRITE;
    const int expected = input_wrong     ? int{IBV_REREG_MR_ERR_INPUT}
                         : command_wrong ? int{IBV_REREG_MR_ERR_CMD}
                                         : 0;
    require(ibv_rereg_mr(region->verbs, flags, pd, memory.data(), length, access) == expected,
            "ibv_rereg_mr");
    if (expected != 0 || !has(IBV_REREG_MR_CHANGE_PD)) return;
    --domains_.of(region->state.pd).users, ++to->users;
    region->state.pd = pd;
  }

  void make_xrc_domain(Input& input) {
    if (xrc_domains_.full()) return;
    const auto number = input.take<uint8_t>();
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = number % 8 == 0 ? 1 << 20 : -1;
    attr.oflags = number % 8 == 1 ? 0 : O_CREAT;
    if (number % 8 == 2) attr.comp_mask = IBV_XRCD_INIT_ATTR_FD;
    errno = 0;
    ibv_xrcd* xrcd = ibv_open_xrcd(device(), &attr);
    const int expected = number % 8 == 0 ? EBADF : number % 8 < 3 ? EINVAL : 0;
    if (made(xrcd, expected, "ibv_open_xrcd")) add(xrc_domains_, xrcd, {});
  }

  void make_shared_of_xrc(Input& input) {
    auto* domain = domains_.any(input);
    auto* xrcd = xrc_domains_.any(input);
    auto* queue = queues_.any(input);
    if (domain == nullptr || shared_.full()) return;
    const auto number = input.take<uint8_t>();
    ibv_srq_init_attr_ex attr{};
    attr.attr = {.max_wr = number % 8 == 0 ? 0U : 16U, .max_sge = 1, .srq_limit = 0};
    attr.srq_type = number % 8 == 1 ? IBV_SRQT_TM : IBV_SRQT_XRC;
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    if (number % 8 == 2) attr.comp_mask &= ~uint32_t{IBV_SRQ_INIT_ATTR_PD};
    attr.pd = domain->verbs;
    attr.xrcd = xrcd != nullptr ? xrcd->verbs : nullptr;
    attr.cq = queue != nullptr ? queue->verbs : nullptr;
    int expected = attr.xrcd == nullptr || attr.cq == nullptr ? EINVAL : 0;
    if (number % 8 < 3) expected = number % 8 == 1 ? EOPNOTSUPP : EINVAL;
    errno = 0;
    ibv_srq* srq = ibv_create_srq_ex(device(), &attr);
    if (!made(srq, expected, "ibv_create_srq_ex")) return;
    ++domain->users, ++xrcd->users, ++queue->users;
    add(shared_, srq, {.pd = domain->verbs, .xrcd = xrcd->verbs, .cq = queue->verbs});
  }

  void post_shared_receive(Input& input) {
    auto* srq = shared_.any(input);
    if (srq == nullptr) return;
    ibv_sge entries[2] = {};
    ibv_recv_wr wr{};
    wr.sg_list = entries;
    wr.num_sge = input.take<uint8_t>() % 4 - 1;
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_srq_recv(srq->verbs, &wr, &bad);
    const bool wrong = wr.num_sge < 0 || wr.num_sge > 1;
    require(wrong ? error == EINVAL || error == ENOMEM : error == 0 || error == ENOMEM,
            "ibv_post_srq_recv");
    require(error == 0 || bad == &wr, "bad_wr of ibv_post_srq_recv");
    ibv_srq_attr has{};
    require(ibv_query_srq(srq->verbs, &has) == 0 && has.max_wr != 0 && has.max_sge == 1,
            "ibv_query_srq");
  }

  // Nothing blocks: the descriptors are O_NONBLOCK.
  void take_events(Input& input) {
    ibv_async_event event{};
    if (ibv_get_async_event(device(), &event) == 0)
      ibv_ack_async_event(&event);
    else
      require(errno == EAGAIN, "ibv_get_async_event");
    auto* channel = channels_.any(input);
    if (channel == nullptr) return;
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    if (ibv_get_cq_event(channel->verbs, &cq, &cq_context) != 0)
      return require(errno == EAGAIN, "ibv_get_cq_event");
    require(queues_.of(cq).state.channel == channel->verbs, "the channel of the queue");
    require(cq_context == cq->cq_context, "cq_context of ibv_get_cq_event");
    ibv_ack_cq_events(cq, 1);
  }

  void query_tables(Input& input) {
    const int port = input.take<uint8_t>() % 3;
    const int index = int{input.take<uint16_t>()} - 16;
    static const int length = [] {
      ibv_port_attr attr{};
      require(ibv_query_port(device(), 1, &attr) == 0, "ibv_query_port");
      return attr.gid_tbl_len;
    }();
    ibv_gid gid;
    const bool has_gid = port == 1 && index >= 0 && index < length;
    errno = 0;
    require(ibv_query_gid(device(), static_cast<uint8_t>(port), index, &gid) == (has_gid ? 0 : -1),
            "ibv_query_gid");
    require(has_gid || errno == EINVAL, "errno of ibv_query_gid");
    __be16 pkey = 0;
    const bool has_key = port == 1 && index == 0;
    require(
        ibv_query_pkey(device(), static_cast<uint8_t>(port), index, &pkey) == (has_key ? 0 : -1),
        "ibv_query_pkey");
  }

  void refused(Input& input) {
    errno = 0;
    const bool is_null = [&] {
      ibv_counters_init_attr counters{};
      ibv_wq_init_attr queue{};
      ibv_rwq_ind_table_init_attr table{};
      switch (input.take<uint8_t>() % 5) {
        case 0:
          return ibv_create_counters(device(), &counters) == nullptr;
        case 1:
          return ibv_create_wq(device(), &queue) == nullptr;
        case 2:
          return ibv_create_rwq_ind_table(device(), &table) == nullptr;
        case 3:
          return ibv_import_device(-1) == nullptr;
        default:
          return ibv_import_pd(device(), 1) == nullptr;
      }
    }();
    require(is_null && errno == EOPNOTSUPP, "what no device in software has");
  }

 private:
  void copy_memory(ibv_dm& dm, size_t size, uint16_t number) {
    const uint64_t offset = number % 64;
    const size_t length = number / 64 % 64;
    const bool wrong = offset % 4 != 0 || length % 4 != 0 || offset + length > size;
    require(ibv_memcpy_to_dm(&dm, offset, memory.data(), length) == (wrong ? EINVAL : 0),
            "ibv_memcpy_to_dm");
    require(ibv_memcpy_from_dm(memory.data(), &dm, offset, length) == (wrong ? EINVAL : 0),
            "ibv_memcpy_from_dm");
  }
};

}  // namespace weft::fuzz
