// SPDX-License-Identifier: BSD-3-Clause
// The process group of PyTorch 1.13 over weft's collectives: tensors of the CPU, one in each list
// where PyTorch has lists of them for several devices. Calls return at once; one thread, a channel,
// carries them out in order. Sends and receives have channels of their own, one for each direction
// and tag between two ranks that use it, so that they wait for nothing but each other.
//
// A call that is wrong throws at once, and the group goes on. When a rank dies, comes too late or
// calls something else, waiting for the call throws a std::runtime_error (RuntimeError in Python)
// that names rank and operation, on every rank, and so do all later calls of the group.
#pragma once

#include <map>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>

#include "lib/adapters/torch/array.hpp"
#include "lib/adapters/torch/channel.hpp"

namespace weft::torch_adapter {

class ProcessGroup : public c10d::ProcessGroup {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;
  using Milliseconds = std::chrono::milliseconds;
  using Started = c10::intrusive_ptr<c10d::Work>;

  // Blocks until all ranks have called it, `timeout` at most, which is also the limit of each call
  // that has none of its own. Throws std::runtime_error.
  ProcessGroup(c10::intrusive_ptr<c10d::Store> store, int rank, int size, Milliseconds timeout);
  ~ProcessGroup() override;
  // Ends what is in progress, on all ranks, and joins all threads. Calls throw then.
  void close();

  const std::string getBackendName() const override { return "weft"; }

  Started broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Started allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Started allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  Started reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Started allgather(Lists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  Started _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  Started gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Started scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override;
  Started reduce_scatter(Tensors& outputs, Lists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  Started _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  Started alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override;
  Started alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  Started barrier(const c10d::BarrierOptions& options) override;
  Started send(Tensors& tensors, int peer, int tag) override;
  Started recv(Tensors& tensors, int peer, int tag) override;
  Started recvAnysource(Tensors& tensors, int tag) override;

 private:
  using ChannelPtr = std::shared_ptr<Channel>;
  struct Exchanged;  // an all-to-all of blocks of any sizes
  struct Meeting {   // of the ranks of a channel
    std::string name, operation;
    uint32_t rank, ranks;    // in the channel
    std::vector<int> peers;  // their ranks in the group; empty: the same
  };

  CallOptions limited(Milliseconds timeout) const;
  ChannelPtr everybody() const;
  PendingPtr pending(c10d::OpType type, const char* title, Tensors outputs) const;
  Started submit(const ChannelPtr& channel, PendingPtr pending,
                 std::function<Operation(Communicator&)> issue, std::function<void()> finish);
  Started all_reduce(c10d::OpType type, Tensors& tensors, const c10d::AllreduceOptions& options);
  Started all_gather(c10d::OpType type, at::TensorList outputs, const at::Tensor& input,
                     std::vector<size_t> counts, Milliseconds timeout);
  Started reduce_scattered(c10d::OpType type, const at::Tensor& output, at::TensorList inputs,
                           std::vector<size_t> counts, const c10d::ReduceScatterOptions& options);
  Started exchange(c10d::OpType type, const char* title, Exchanged blocks, Milliseconds timeout);
  Result<void> agree(Store& store);
  Result<Communicator> meet(const Meeting& meeting, const std::atomic<bool>& closing);
  ChannelPtr pair_channel(const char* operation, int from, int to, int tag);
  std::vector<size_t> equal_counts(size_t all, const char* operation, const char* what) const;

  c10::intrusive_ptr<c10d::Store> store_;
  Duration timeout_;
  std::string id_, device_;                                // once the first channel is open
  mutable std::mutex mutex_;                               // of what follows
  std::map<std::tuple<int, int, int>, ChannelPtr> pairs_;  // from, to, tag
  ChannelPtr all_;                                         // null once it is closed
};

}  // namespace weft::torch_adapter
