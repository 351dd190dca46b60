// SPDX-License-Identifier: BSD-3-Clause
// Collectives, sends and receives: arguments are checked, and the call becomes one of weft in the
// thread of the communicator.
#include <initializer_list>

#include "lib/adapters/ccl/group.hpp"
#include "lib/adapters/ccl/reduction.hpp"
#include "lib/adapters/ccl/result.hpp"

namespace weft::ccl {
namespace {

// What all calls have.
struct Common {
  ncclComm_t handle;
  ncclDataType_t type;
  size_t count;
  cudaStream_t stream;
};

// The same, checked. What a job keeps is its call: it must not keep its communicator.
struct Wanted {
  DataType type = DataType::uint8;
  size_t count = 0;
  uint32_t root = 0;
};
struct Checked {
  CommPtr comm;
  Wanted call;
  uint32_t rank = 0, ranks = 1;
};

struct Buffer {
  const char* name;
  const void* memory;
};

// A call in a group that is wrong makes the group fail.
template <class Body>
ncclResult_t grouped(const char* function, Body body) {
  return call(
      [&]() -> Result<void> {
        const Result<void> done = body();
        if (!done) spoil_group(done.error());
        return done;
      },
      function);
}

Result<Checked> check(const Common& common, int root = 0) {
  if (common.handle == nullptr) return wrong("comm is NULL");
  const CommPtr& comm = common.handle->it;
  const Result<DataType> type = type_of(common.type);
  if (!type) return type.error();
  if (!in_group() && comm->config().blocking)  // of others the rank is not known yet
    if (const Result<void> open = comm->wait_until_open(); !open) return open.error();
  const uint32_t ranks = comm->size();
  if (root < 0 || static_cast<uint32_t>(root) >= ranks)
    return wrong("there is no rank " + std::to_string(root) + " of " + std::to_string(ranks));
  return Checked{comm, {*type, common.count, static_cast<uint32_t>(root)}, comm->rank(), ranks};
}

Result<void> check_buffers(const Checked& it, std::initializer_list<Buffer> needed) {
  for (const Buffer& buffer : needed)
    if (buffer.memory == nullptr && it.call.count > 0)
      return wrong(std::string(buffer.name) + " is NULL, with a count of " +
                   std::to_string(it.call.count));
  return {};
}

// Queues issue(Communicator&, input). Inputs of a reduction with a factor are multiplied in the
// thread of the communicator.
template <class Issue>
Result<void> reduce(const Common& common, const Checked& it, const Reduction& reduction,
                    const void* input, size_t input_count, Issue issue) {
  if (it.call.count == 0) return {};
  if (!reduction.factor)
    return enqueue(it.comm, common.stream,
                   [=](Communicator& group) { return issue(group, input); });
  const std::shared_ptr<std::vector<std::byte>> products =
      std::make_shared<std::vector<std::byte>>();
  return enqueue(it.comm, common.stream, [=, call = it.call](Communicator& group) {
    products->resize(input_count * size_of(call.type));
    multiply(*reduction.factor, input, products->data(), input_count);
    return issue(group, products->data());
  });
}

// Blocks of `count` elements between the root and each rank: all_to_all_v, where this rank's own
// block is left out if it is in place.
Result<void> from_or_to_root(const Common& common, const Checked& it, const void* input,
                             void* output, bool gather) {
  if (it.call.count == 0) return {};
  const bool is_root = it.rank == it.call.root;
  const size_t bytes = it.call.count * size_of(it.call.type);
  const auto* const in = static_cast<const std::byte*>(input);
  const auto* const out = static_cast<const std::byte*>(output);
  const bool in_place =
      is_root && (gather ? in == out + it.call.root * bytes : out == in + it.call.root * bytes);
  std::vector<size_t> one(it.ranks), all(it.ranks), places(it.ranks);
  one[it.call.root] = in_place ? 0 : it.call.count;
  for (uint32_t r = 0; r < it.ranks; ++r) {
    if (is_root) all[r] = r == it.rank && in_place ? 0 : it.call.count;
    places[r] = r * it.call.count;
  }
  const std::vector<size_t> none(it.ranks);
  return enqueue(it.comm, common.stream, [=, type = it.call.type](Communicator& group) {
    if (gather) return group.all_to_all_v(input, one, none, output, all, places, type);
    return group.all_to_all_v(input, all, places, output, one, none, type);
  });
}

Result<void> transfer(const Common& common, int peer, const void* send, void* receive) {
  const Result<Checked> it = check(common, peer);
  if (!it) return it.error();
  const void* const memory = send != nullptr ? send : receive;
  if (const Result<void> given = check_buffers(*it, {{"the buffer", memory}}); !given) return given;
  const size_t bytes = it->call.count * size_of(it->call.type);
  if (bytes == 0) return {};
  Transfer transfer{.peer = it->call.root};
  if (send != nullptr)
    transfer.send = send, transfer.send_bytes = bytes;
  else
    transfer.receive = receive, transfer.receive_bytes = bytes;
  return enqueue(it->comm, common.stream, transfer);
}

Result<void> all_reduce(const Common& common, const void* input, void* output, ncclRedOp_t op) {
  const Result<Checked> it = check(common);
  if (!it) return it.error();
  const Result<Reduction> reduction = reduction_of(op, it->call.type, *it->comm);
  if (!reduction) return reduction.error();
  if (const Result<void> given = check_buffers(*it, {{"sendbuff", input}, {"recvbuff", output}});
      !given)
    return given;
  return reduce(common, *it, *reduction, input, it->call.count,
                [=, call = it->call, op = reduction->op](Communicator& group, const void* from) {
                  return group.all_reduce(from, output, call.count, call.type, op);
                });
}

Result<void> reduce_to_root(const Common& common, const void* input, void* output, ncclRedOp_t op,
                            int root) {
  const Result<Checked> it = check(common, root);
  if (!it) return it.error();
  const Result<Reduction> reduction = reduction_of(op, it->call.type, *it->comm);
  if (!reduction) return reduction.error();
  void* const result = it->rank == it->call.root ? output : nullptr;
  const void* const needed = it->rank == it->call.root ? output : input;
  if (const Result<void> given = check_buffers(*it, {{"sendbuff", input}, {"recvbuff", needed}});
      !given)
    return given;
  return reduce(common, *it, *reduction, input, it->call.count,
                [=, call = it->call, op = reduction->op](Communicator& group, const void* from) {
                  return group.reduce(from, result, call.count, call.type, op, call.root);
                });
}

Result<void> reduce_scatter(const Common& common, const void* input, void* output, ncclRedOp_t op) {
  const Result<Checked> it = check(common);
  if (!it) return it.error();
  const Result<Reduction> reduction = reduction_of(op, it->call.type, *it->comm);
  if (!reduction) return reduction.error();
  if (const Result<void> given = check_buffers(*it, {{"sendbuff", input}, {"recvbuff", output}});
      !given)
    return given;
  return reduce(common, *it, *reduction, input, it->call.count * it->ranks,
                [=, call = it->call, op = reduction->op](Communicator& group, const void* from) {
                  return group.reduce_scatter(from, output, call.count, call.type, op);
                });
}

Result<void> broadcast(const Common& common, const void* input, void* output, int root) {
  const Result<Checked> it = check(common, root);
  if (!it) return it.error();
  const void* const source = it->rank == it->call.root ? input : output;
  if (const Result<void> given = check_buffers(*it, {{"sendbuff", source}, {"recvbuff", output}});
      !given)
    return given;
  if (it->call.count == 0) return {};
  return enqueue(it->comm, common.stream, [=, call = it->call](Communicator& group) {
    return group.broadcast(source, output, call.count, call.type, call.root);
  });
}

Result<void> all_gather(const Common& common, const void* input, void* output) {
  const Result<Checked> it = check(common);
  if (!it) return it.error();
  if (const Result<void> given = check_buffers(*it, {{"sendbuff", input}, {"recvbuff", output}});
      !given)
    return given;
  if (it->call.count == 0) return {};
  return enqueue(it->comm, common.stream, [=, call = it->call](Communicator& group) {
    return group.all_gather(input, output, call.count, call.type);
  });
}

Result<void> all_to_all(const Common& common, const void* input, void* output) {
  const Result<Checked> it = check(common);
  if (!it) return it.error();
  if (const Result<void> given = check_buffers(*it, {{"sendbuff", input}, {"recvbuff", output}});
      !given)
    return given;
  if (it->call.count == 0) return {};
  return enqueue(it->comm, common.stream, [=, call = it->call](Communicator& group) {
    return group.all_to_all(input, output, call.count, call.type);
  });
}

Result<void> gather_or_scatter(const Common& common, const void* input, void* output, int root,
                               bool gather) {
  const Result<Checked> it = check(common, root);
  if (!it) return it.error();
  const bool is_root = it->rank == it->call.root;
  const void* const both = gather ? input : output;
  const void* const in = is_root || gather ? input : both;
  const void* const out = is_root || !gather ? output : both;
  if (const Result<void> given = check_buffers(*it, {{"sendbuff", in}, {"recvbuff", out}}); !given)
    return given;
  return from_or_to_root(common, *it, input, output, gather);
}

}  // namespace
}  // namespace weft::ccl

using weft::ccl::grouped;

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return grouped(__func__, [&] {
    return weft::ccl::all_reduce({comm, datatype, count, stream}, sendbuff, recvbuff, op);
  });
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return grouped(__func__, [&] {
    return weft::ccl::reduce_to_root({comm, datatype, count, stream}, sendbuff, recvbuff, op, root);
  });
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return grouped(__func__, [&] {
    return weft::ccl::broadcast({comm, datatype, count, stream}, sendbuff, recvbuff, root);
  });
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return grouped(__func__, [&] {
    return weft::ccl::broadcast({comm, datatype, count, stream}, buff, buff, root);
  });
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return grouped(__func__, [&] {
    return weft::ccl::reduce_scatter({comm, datatype, recvcount, stream}, sendbuff, recvbuff, op);
  });
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return grouped(__func__, [&] {
    return weft::ccl::all_gather({comm, datatype, sendcount, stream}, sendbuff, recvbuff);
  });
}

ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return grouped(__func__, [&] {
    return weft::ccl::all_to_all({comm, datatype, count, stream}, sendbuff, recvbuff);
  });
}

ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return grouped(__func__, [&] {
    return weft::ccl::gather_or_scatter({comm, datatype, count, stream}, sendbuff, recvbuff, root,
                                        true);
  });
}

ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return grouped(__func__, [&] {
    return weft::ccl::gather_or_scatter({comm, datatype, count, stream}, sendbuff, recvbuff, root,
                                        false);
  });
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return grouped(__func__, [&] {
    return weft::ccl::transfer({comm, datatype, count, stream}, peer, sendbuff, nullptr);
  });
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return grouped(__func__, [&] {
    return weft::ccl::transfer({comm, datatype, count, stream}, peer, nullptr, recvbuff);
  });
}
