// SPDX-License-Identifier: BSD-3-Clause
// From PyTorch's calls to weft's: which memory, how many elements, by which channel.
#include "lib/adapters/torch/process_group.hpp"

#include <algorithm>

namespace weft::torch_adapter {
namespace {

using c10d::OpType;

// PyTorch's lists have an entry for each device of a process; the CPU is one.
template <class T>
T& only(std::vector<T>& list, const char* operation) {
  TORCH_CHECK(list.size() == 1, "weft: ", operation, " takes one tensor from each rank, not ",
              list.size());
  return list[0];
}

std::vector<size_t> scaled(std::vector<size_t> counts, size_t factor) {
  for (size_t& count : counts) count *= factor;
  return counts;
}

bool all_equal(const std::vector<size_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

void check_counts(const std::vector<size_t>& counts, int ranks, int rank, size_t own,
                  const char* operation) {
  TORCH_CHECK(counts.size() == static_cast<size_t>(ranks), "weft: ", operation, " takes a list of ",
              ranks, " tensors, one for each rank, not of ", counts.size());
  TORCH_CHECK(counts[static_cast<size_t>(rank)] == own, "weft: ", operation, ": entry ", rank,
              " of the list has ", counts[static_cast<size_t>(rank)], " elements, but rank ", rank,
              "'s own tensor has ", own);
}

// The elements for each rank, of the rows of PyTorch's splits.
std::vector<size_t> split_counts(const at::Tensor& tensor, const std::vector<int64_t>& splits,
                                 int ranks) {
  c10d::checkSplitSizes(splits, tensor, ranks);
  const int64_t rows = tensor.size(0), row = rows > 0 ? tensor.numel() / rows : 0;
  std::vector<size_t> counts;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t own = splits.empty() ? rows / ranks : splits[static_cast<size_t>(rank)];
    counts.push_back(static_cast<size_t>(own * row));
  }
  return counts;
}

void check_types(const Array& in, const Array& out, const char* operation) {
  TORCH_CHECK(in.type() == out.type(), "weft: ", operation, ": input and output differ in type");
}

// The blocks of the root, one for each rank; nothing elsewhere. `own` is this rank's.
std::vector<size_t> root_counts(bool is_root, const Array& blocks, const Array& own, int ranks,
                                int rank, const char* operation) {
  if (!is_root) return std::vector<size_t>(static_cast<size_t>(ranks));
  std::vector<size_t> counts = blocks.counts();
  check_counts(counts, ranks, rank, own.size(), operation);
  check_types(blocks, own, operation);
  return counts;
}

}  // namespace

PendingPtr ProcessGroup::pending(OpType type, const char* title, Tensors outputs) const {
  return c10::make_intrusive<Pending>(rank_, type, title, std::move(outputs));
}

ProcessGroup::Started ProcessGroup::submit(const ChannelPtr& channel, PendingPtr pending,
                                           std::function<Operation(Communicator&)> issue,
                                           std::function<void()> finish) {
  channel->submit(pending, {std::move(issue), std::move(finish)});
  return pending;
}

std::vector<size_t> ProcessGroup::equal_counts(size_t all, const char* operation,
                                               const char* what) const {
  const size_t ranks = static_cast<size_t>(size_);
  TORCH_CHECK(all % ranks == 0, "weft: ", operation, ": the ", what, " has ", all,
              " elements, which is no multiple of the ", ranks, " ranks");
  return std::vector<size_t>(ranks, all / ranks);
}

// ---- one array in, one array out

ProcessGroup::Started ProcessGroup::broadcast(Tensors& tensors,
                                              const c10d::BroadcastOptions& options) {
  const Array array = Array::to_update("broadcast", {&only(tensors, "broadcast"), 1});
  const Moved as = moved(array.type());
  const uint32_t root = static_cast<uint32_t>(options.rootRank);
  return submit(
      everybody(), pending(OpType::BROADCAST, "weft:broadcast", tensors),
      [=, call = limited(options.timeout)](Communicator& group) {
        return group.broadcast(array.data(), array.data(), array.size() * as.per_element, as.type,
                               root, call);
      },
      [=] { array.unpack(); });
}

ProcessGroup::Started ProcessGroup::allreduce(Tensors& tensors,
                                              const c10d::AllreduceOptions& options) {
  only(tensors, "all_reduce");
  return all_reduce(OpType::ALLREDUCE, tensors, options);
}

ProcessGroup::Started ProcessGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return all_reduce(OpType::ALLREDUCE_COALESCED, tensors, options);
}

ProcessGroup::Started ProcessGroup::all_reduce(OpType type, Tensors& tensors,
                                               const c10d::AllreduceOptions& options) {
  const Array array = Array::to_update("all_reduce", tensors);
  const Reduced as = reduced(array.type(), options.reduceOp);
  return submit(
      everybody(), pending(type, "weft:all_reduce", tensors),
      [=, call = limited(options.timeout)](Communicator& group) {
        return group.all_reduce(array.data(), array.data(), array.size(), as.type, as.op, call);
      },
      [=] { array.unpack(); });
}

ProcessGroup::Started ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Array array = Array::to_update("reduce", {&only(tensors, "reduce"), 1});
  const Reduced as = reduced(array.type(), options.reduceOp);
  const bool is_root = options.rootRank == rank_;
  const uint32_t root = static_cast<uint32_t>(options.rootRank);
  return submit(
      everybody(), pending(OpType::REDUCE, "weft:reduce", tensors),
      [=, call = limited(options.timeout)](Communicator& group) {
        return group.reduce(array.data(), is_root ? array.data() : nullptr, array.size(), as.type,
                            as.op, root, call);
      },
      [=] {
        if (is_root) array.unpack();
      });
}

ProcessGroup::Started ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  return submit(
      everybody(), pending(OpType::BARRIER, "weft:barrier", {}),
      [call = limited(options.timeout)](Communicator& group) { return group.barrier(call); },
      nullptr);
}

// ---- gathering and scattering

ProcessGroup::Started ProcessGroup::allgather(Lists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  const Tensors& list = only(outputs, "all_gather");
  const at::Tensor& input = only(inputs, "all_gather");
  std::vector<size_t> counts = counts_of(list);
  check_counts(counts, size_, rank_, static_cast<size_t>(input.numel()), "all_gather");
  return all_gather(OpType::ALLGATHER, list, input, std::move(counts), options.timeout);
}

ProcessGroup::Started ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                    const c10d::AllgatherOptions& options) {
  std::vector<size_t> counts =
      equal_counts(static_cast<size_t>(output.numel()), "all_gather", "output");
  check_counts(counts, size_, rank_, static_cast<size_t>(input.numel()), "all_gather");
  return all_gather(OpType::_ALLGATHER_BASE, output, input, std::move(counts), options.timeout);
}

ProcessGroup::Started ProcessGroup::all_gather(OpType type, at::TensorList outputs,
                                               const at::Tensor& input, std::vector<size_t> counts,
                                               Milliseconds timeout) {
  const Array in = Array::to_read("all_gather", input);
  const Array out = Array::to_write("all_gather", outputs);
  check_types(in, out, "all_gather");
  const Moved as = moved(in.type());
  counts = scaled(std::move(counts), as.per_element);
  return submit(
      everybody(), pending(type, "weft:all_gather", outputs.vec()),
      [=, call = limited(timeout)](Communicator& group) {
        return all_equal(counts) ? group.all_gather(in.data(), out.data(), counts[0], as.type, call)
                                 : group.all_gather_v(in.data(), out.data(), counts, as.type, call);
      },
      [=] { out.unpack(); });
}

ProcessGroup::Started ProcessGroup::reduce_scatter(Tensors& outputs, Lists& inputs,
                                                   const c10d::ReduceScatterOptions& options) {
  const Tensors& list = only(inputs, "reduce_scatter");
  const at::Tensor& output = only(outputs, "reduce_scatter");
  std::vector<size_t> counts = counts_of(list);
  check_counts(counts, size_, rank_, static_cast<size_t>(output.numel()), "reduce_scatter");
  return reduce_scattered(OpType::REDUCE_SCATTER, output, list, std::move(counts), options);
}

ProcessGroup::Started ProcessGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  std::vector<size_t> counts =
      equal_counts(static_cast<size_t>(input.numel()), "reduce_scatter", "input");
  check_counts(counts, size_, rank_, static_cast<size_t>(output.numel()), "reduce_scatter");
  return reduce_scattered(OpType::_REDUCE_SCATTER_BASE, output, input, std::move(counts), options);
}

ProcessGroup::Started ProcessGroup::reduce_scattered(OpType type, const at::Tensor& output,
                                                     at::TensorList inputs,
                                                     std::vector<size_t> counts,
                                                     const c10d::ReduceScatterOptions& options) {
  const Array in = Array::to_read("reduce_scatter", inputs);
  const Array out = Array::to_write("reduce_scatter", output);
  check_types(in, out, "reduce_scatter");
  const Reduced as = reduced(in.type(), options.reduceOp);
  return submit(
      everybody(), pending(type, "weft:reduce_scatter", {output}),
      [=, call = limited(options.timeout)](Communicator& group) {
        return all_equal(counts)
                   ? group.reduce_scatter(in.data(), out.data(), counts[0], as.type, as.op, call)
                   : group.reduce_scatter_v(in.data(), out.data(), counts, as.type, as.op, call);
      },
      [=] { out.unpack(); });
}

// ---- all to all, and from or to one

struct ProcessGroup::Exchanged {
  at::ScalarType type;
  Array in, out;
  std::vector<size_t> send, receive;  // elements of PyTorch, for each rank
  Tensors outputs;
};

ProcessGroup::Started ProcessGroup::exchange(OpType type, const char* title, Exchanged blocks,
                                             Milliseconds timeout) {
  const Moved as = moved(blocks.type);
  blocks.send = scaled(std::move(blocks.send), as.per_element);
  blocks.receive = scaled(std::move(blocks.receive), as.per_element);
  return submit(
      everybody(), pending(type, title, blocks.outputs),
      [=, call = limited(timeout)](Communicator& group) {
        return group.all_to_all_v(blocks.in.data(), blocks.send, blocks.out.data(), blocks.receive,
                                  as.type, call);
      },
      [=] { blocks.out.unpack(); });
}

ProcessGroup::Started ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                  std::vector<int64_t>& output_splits,
                                                  std::vector<int64_t>& input_splits,
                                                  const c10d::AllToAllOptions& options) {
  const char* const name = "all_to_all";
  const Array in = Array::to_read(name, input), out = Array::to_write(name, output);
  check_types(in, out, name);
  return exchange(OpType::ALLTOALL_BASE, "weft:all_to_all",
                  {in.type(),
                   in,
                   out,
                   split_counts(input, input_splits, size_),
                   split_counts(output, output_splits, size_),
                   {output}},
                  options.timeout);
}

ProcessGroup::Started ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                             const c10d::AllToAllOptions& options) {
  const char* const name = "all_to_all";
  const Array in = Array::to_read(name, inputs), out = Array::to_write(name, outputs);
  check_types(in, out, "all_to_all");
  for (const Tensors* list : {&inputs, &outputs})
    TORCH_CHECK(list->size() == static_cast<size_t>(size_), "weft: all_to_all takes lists of ",
                size_, " tensors, one for each rank, not of ", list->size());
  return exchange(OpType::ALLTOALL, "weft:all_to_all",
                  {in.type(), in, out, in.counts(), out.counts(), outputs}, options.timeout);
}

ProcessGroup::Started ProcessGroup::gather(Lists& outputs, Tensors& inputs,
                                           const c10d::GatherOptions& options) {
  const bool is_root = options.rootRank == rank_;
  const Tensors list = is_root ? only(outputs, "gather") : Tensors();
  const Array in = Array::to_read("gather", {&only(inputs, "gather"), 1});
  const Array out = Array::to_write("gather", list);
  std::vector<size_t> send(static_cast<size_t>(size_));
  send.at(static_cast<size_t>(options.rootRank)) = in.size();
  return exchange(OpType::GATHER, "weft:gather",
                  {in.type(), in, out, std::move(send),
                   root_counts(is_root, out, in, size_, rank_, "gather"), list},
                  options.timeout);
}

ProcessGroup::Started ProcessGroup::scatter(Tensors& outputs, Lists& inputs,
                                            const c10d::ScatterOptions& options) {
  const bool is_root = options.rootRank == rank_;
  const Tensors list = is_root ? only(inputs, "scatter") : Tensors();
  const Array in = Array::to_read("scatter", list);
  const Array out = Array::to_write("scatter", {&only(outputs, "scatter"), 1});
  std::vector<size_t> receive(static_cast<size_t>(size_));
  receive.at(static_cast<size_t>(options.rootRank)) = out.size();
  return exchange(OpType::SCATTER, "weft:scatter",
                  {out.type(), in, out, root_counts(is_root, in, out, size_, rank_, "scatter"),
                   std::move(receive), outputs},
                  options.timeout);
}

// ---- from one to another

ProcessGroup::Started ProcessGroup::send(Tensors& tensors, int peer, int tag) {
  const Array array = Array::to_read("send", {&only(tensors, "send"), 1});
  return submit(
      pair_channel("send", rank_, peer, tag), pending(OpType::SEND, "weft:send", tensors),
      [=](Communicator& group) { return group.send(array.data(), array.bytes(), 1); }, nullptr);
}

ProcessGroup::Started ProcessGroup::recv(Tensors& tensors, int peer, int tag) {
  const Array array = Array::to_write("recv", {&only(tensors, "recv"), 1});
  return submit(
      pair_channel("recv", peer, rank_, tag), pending(OpType::RECV, "weft:recv", tensors),
      [=](Communicator& group) { return group.receive(array.data(), array.bytes(), 0); },
      [=] { array.unpack(); });
}

ProcessGroup::Started ProcessGroup::recvAnysource(Tensors&, int) {
  TORCH_CHECK(false, "weft: cannot receive from any source: name the rank in recv(src=...)");
}

}  // namespace weft::torch_adapter
