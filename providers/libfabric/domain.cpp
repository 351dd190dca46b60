// SPDX-License-Identifier: BSD-3-Clause
// See domain.hpp.
#include "providers/libfabric/domain.hpp"

#include "lib/memory/guarded_copy.hpp"
#include "providers/libfabric/qp.hpp"

namespace weft::libfabric {

namespace {

uint64_t rights_of(Access access) noexcept {
  uint64_t rights = FI_SEND | FI_RECV | FI_WRITE | FI_READ;
  if (has(access, Access::remote_write)) rights |= FI_REMOTE_WRITE;
  if (has(access, Access::remote_read)) rights |= FI_REMOTE_READ;
  if (has(access, Access::remote_atomic)) rights |= FI_REMOTE_WRITE | FI_REMOTE_READ;
  return rights;
}

Result<void> check_rights(Access access) {
  constexpr Access kOthers = Access::on_demand | Access::flush_global | Access::flush_persistent |
                             Access::window_bind | Access::zero_based;
  if ((access & kOthers) != Access::none)
    return Error{Code::not_supported,
                 "provider libfabric registers with local_write, remote_write, remote_read and "
                 "remote_atomic only: leave the other rights out, or use a roce device"};
  const bool changes = has(access, Access::remote_write) || has(access, Access::remote_atomic);
  if (changes && !has(access, Access::local_write))  //= roce:C-OPS-89
    return Error{Code::invalid_argument,
                 "remote_write and remote_atomic need local_write too (IBTA 10.6.3.3)"};
  return {};
}

}  // namespace

Result<std::shared_ptr<verbs::Region>> Domain::register_memory(void* base, size_t size,
                                                               uint64_t iova, Access access) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  if (const Result<void> ok = check_rights(access); !ok) return ok.error();
  if (iova != reinterpret_cast<uintptr_t>(base))
    return Error{Code::not_supported,
                 "provider libfabric registers memory under its own address only "
                 "(DeviceAttributes::has_iova)"};
  const Result<void> mapped =
      memory::verify_mapped(base, size, {.write = has(access, Access::local_write)});
  if (!mapped) return mapped.error();
  const Context::Control control(context_);
  fid_mr* raw = nullptr;
  if (const int code =
          fi_mr_reg(&context_.domain(), base, size, rights_of(access), 0, 0, 0, &raw, nullptr);
      code != 0)
    return error_of(code, "libfabric did not register " + std::to_string(size) + " bytes");
  Owned<fid_mr> owned(raw);
  if (const uint64_t key = fi_mr_key(raw); key > UINT32_MAX)
    return Error{Code::not_supported, "libfabric gave the region the key " + std::to_string(key) +
                                          ", and keys of weft have 32 bits: use another provider"};
  return std::shared_ptr<verbs::Region>(
      new Region(shared_from_this(), std::move(owned), base, size, access));
}

Result<std::shared_ptr<verbs::Srq>> Domain::create_srq(const SharedReceiveQueueOptions&) {
  return Error{Code::not_supported,
               "provider libfabric has no shared receive queues: post to each queue pair, or use a "
               "roce device"};
}

Result<std::shared_ptr<verbs::Qp>> Domain::create_qp(const QueuePairOptions& options) {
  if (context_.forked()) return Error{Code::permission_denied, kForked};
  return Qp::create(shared_from_this(), options);
}

Region::Region(std::shared_ptr<Domain> domain, Owned<fid_mr> raw, void* memory, size_t bytes,
               Access access)
    : domain_(std::move(domain)), raw_(std::move(raw)), access_(access) {
  base = memory;
  size = bytes;
  iova = reinterpret_cast<uintptr_t>(memory);
  rkey = RKey{static_cast<uint32_t>(fi_mr_key(raw_.get()))};
  lkey = domain_->context().enter(*this);
}

Region::~Region() {
  domain_->context().leave(lkey);
  if (domain_->context().forked()) {
    (void)raw_.release();
    return;
  }
  const Context::Control control(domain_->context());
  raw_.reset();
}

}  // namespace weft::libfabric
