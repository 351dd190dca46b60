/* SPDX-License-Identifier: BSD-3-Clause
 * A program of NCCL's API and nothing else: one rank of RANKS, or with the case "threads" all of
 * them. Every result is compared with what it must be.
 *
 *   ccl_calls CASE RANK RANKS FILE    FILE: where rank 0 puts the id, for the others
 *
 * Cases: data, groups, communicators, threads, kill, abort. It prints "done" at the end.
 */
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;

static void fail(int line, const char* what, const char* why) {
  printf("rank %d, line %d: %s: %s\n", rank, line, what, why);
  exit(1);
}
#define MUST(call)                                   \
  do {                                               \
    const ncclResult_t said = (call);                \
    if (said != ncclSuccess) {                       \
      printf("%s: ", ncclGetErrorString(said));      \
      fail(__LINE__, #call, ncclGetLastError(NULL)); \
    }                                                \
  } while (0)
#define SAYS(call, wanted)                                     \
  do {                                                         \
    const ncclResult_t said = (call);                          \
    if (said != (wanted)) {                                    \
      printf("%d, %s: ", (int)said, ncclGetErrorString(said)); \
      fail(__LINE__, #call, ncclGetLastError(NULL));           \
    }                                                          \
  } while (0)
#define TRUE(condition)                                    \
  do {                                                     \
    if (!(condition)) fail(__LINE__, #condition, "false"); \
  } while (0)

/* ---- elements: small numbers, which all types hold exactly ----------------------------------- */

static size_t size_of(int type) {
  static const size_t sizes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[type];
}

/* A float of `exponent` and `mantissa` bits. */
static double decoded(unsigned bits, int exponent, int mantissa) {
  const unsigned fraction = bits & ((1u << mantissa) - 1);
  const int e = (int)(bits >> mantissa & ((1u << exponent) - 1));
  const int bias = (1 << (exponent - 1)) - 1;
  double value = e == 0 ? fraction : fraction + (double)(1u << mantissa);
  for (int power = (e == 0 ? 1 : e) - bias - mantissa; power != 0; power += power < 0 ? 1 : -1)
    value = power < 0 ? value / 2 : value * 2;
  return bits >> (exponent + mantissa) & 1 ? -value : value;
}

static double get(int type, const void* at) {
  switch (type) {
    case ncclInt8:
      return *(const int8_t*)at;
    case ncclUint8:
      return *(const uint8_t*)at;
    case ncclInt32:
      return *(const int32_t*)at;
    case ncclUint32:
      return *(const uint32_t*)at;
    case ncclInt64:
      return (double)*(const int64_t*)at;
    case ncclUint64:
      return (double)*(const uint64_t*)at;
    case ncclFloat16:
      return decoded(*(const uint16_t*)at, 5, 10);
    case ncclFloat32:
      return *(const float*)at;
    case ncclFloat64:
      return *(const double*)at;
    case ncclBfloat16:
      return decoded(*(const uint16_t*)at, 8, 7);
    case ncclFloat8e4m3:
      return decoded(*(const uint8_t*)at, 4, 3);
    default:
      return decoded(*(const uint8_t*)at, 5, 2);
  }
}

/* Searches the encoding of a number from 0 to 3. */
static unsigned encoded(int value, int exponent, int mantissa) {
  unsigned bits = 0;
  while (decoded(bits, exponent, mantissa) != value) ++bits;
  return bits;
}

static void set(int type, void* at, int value) {
  static unsigned known[ncclNumTypes][4];
  static int filled;
  for (; filled < 4; ++filled) {
    known[ncclFloat16][filled] = encoded(filled, 5, 10);
    known[ncclBfloat16][filled] = encoded(filled, 8, 7);
    known[ncclFloat8e4m3][filled] = encoded(filled, 4, 3);
    known[ncclFloat8e5m2][filled] = encoded(filled, 5, 2);
  }
  switch (type) {
    case ncclInt32:
    case ncclUint32:
      *(uint32_t*)at = (uint32_t)value;
      break;
    case ncclInt64:
    case ncclUint64:
      *(uint64_t*)at = (uint64_t)value;
      break;
    case ncclFloat32:
      *(float*)at = (float)value;
      break;
    case ncclFloat64:
      *(double*)at = value;
      break;
    case ncclFloat16:
    case ncclBfloat16:
      *(uint16_t*)at = (uint16_t)known[type][value];
      break;
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      *(uint8_t*)at = (uint8_t)known[type][value];
      break;
    default:
      *(uint8_t*)at = (uint8_t)value;
  }
}

/* What rank r gives as its element i: 1 or 2, so that sums and products of four are exact. */
static int given(int r, size_t i) {
  const unsigned mixed = ((unsigned)r * 77u + (unsigned)i + 1u) * 2654435761u;
  return 1 + (int)(mixed >> 29 & 1);
}

static double reduced(size_t i, int type, int op) {
  double value = given(0, i);
  for (int r = 1; r < ranks; ++r) {
    const double next = given(r, i);
    if (op == ncclProd)
      value *= next;
    else if (op == ncclMax)
      value = next > value ? next : value;
    else if (op == ncclMin)
      value = next < value ? next : value;
    else
      value += next;
  }
  if (op != ncclAvg) return value;
  value /= ranks;
  return type <= ncclUint64 ? (double)(long)value : value;
}

/* ---- operations x types x in place or not x sizes ---------------------------------------------
 */

enum {
  all_reduce,
  reduce_,
  reduce_scatter,
  broadcast,
  bcast,
  all_gather,
  all_to_all,
  gather,
  scatter,
  send_receive,
  operations
};
static const char* const names[operations] = {
    "AllReduce", "Reduce",   "ReduceScatter", "Broadcast", "Bcast",
    "AllGather", "AlltoAll", "Gather",        "Scatter",   "SendRecv"};

struct test {
  int operation, type, op, in_place, root;
  size_t count;
};

static void wrong(const struct test* t, size_t i, double is, double wanted) {
  printf(
      "rank %d: %s, type %d, op %d, in place %d, root %d, count %zu: element %zu is %g, not %g\n",
      rank, names[t->operation], t->type, t->op, t->in_place, t->root, t->count, i, is, wanted);
  exit(1);
}

/* Element i of what this rank must have, or -1. */
static double expected(const struct test* t, size_t i) {
  const size_t n = t->count;
  switch (t->operation) {
    case all_reduce:
      return reduced(i, t->type, t->op);
    case reduce_:
      return rank == t->root ? reduced(i, t->type, t->op) : -1;
    case reduce_scatter:
      return reduced((size_t)rank * n + i, t->type, t->op);
    case broadcast:
    case bcast:
      return given(t->root, i);
    case all_gather:
      return given((int)(i / n), i % n);
    case all_to_all:
      return given((int)(i / n), (size_t)rank * n + i % n);
    case gather:
      return rank == t->root ? given((int)(i / n), i % n) : -1;
    case scatter:
      return given(t->root, (size_t)rank * n + i);
    default:
      return given((rank + ranks - 1) % ranks, i);
  }
}

static ncclResult_t call(const struct test* t, const void* in, void* out, ncclComm_t comm,
                         cudaStream_t stream) {
  const ncclDataType_t type = (ncclDataType_t)t->type;
  const ncclRedOp_t op = (ncclRedOp_t)t->op;
  switch (t->operation) {
    case all_reduce:
      return ncclAllReduce(in, out, t->count, type, op, comm, stream);
    case reduce_:
      return ncclReduce(in, rank == t->root ? out : NULL, t->count, type, op, t->root, comm,
                        stream);
    case reduce_scatter:
      return ncclReduceScatter(in, out, t->count, type, op, comm, stream);
    case broadcast:
      return ncclBroadcast(rank == t->root ? in : NULL, out, t->count, type, t->root, comm, stream);
    case bcast:
      return ncclBcast(out, t->count, type, t->root, comm, stream);
    case all_gather:
      return ncclAllGather(in, out, t->count, type, comm, stream);
    case all_to_all:
      return ncclAlltoAll(in, out, t->count, type, comm, stream);
    case gather:
      return ncclGather(in, out, t->count, type, t->root, comm, stream);
    case scatter:
      return ncclScatter(in, out, t->count, type, t->root, comm, stream);
    default:
      MUST(ncclGroupStart());
      MUST(ncclSend(in, t->count, type, (rank + 1) % ranks, comm, stream));
      MUST(ncclRecv(out, t->count, type, (rank + ranks - 1) % ranks, comm, stream));
      return ncclGroupEnd();
  }
}

static int has_larger_input(int operation) {
  return operation == reduce_scatter || operation == all_to_all || operation == scatter;
}
static int has_larger_output(int operation) {
  return operation == all_gather || operation == all_to_all || operation == gather;
}

static void check(const struct test* t, char* first, char* second, ncclComm_t comm,
                  cudaStream_t stream) {
  const size_t width = size_of(t->type), shift = (size_t)rank * t->count * width;
  const size_t inputs = t->count * (size_t)(has_larger_input(t->operation) ? ranks : 1);
  const size_t outputs = t->count * (size_t)(has_larger_output(t->operation) ? ranks : 1);
  char *in = first, *out = second;
  if (t->in_place && has_larger_input(t->operation))
    out = in + shift;
  else if (t->in_place && has_larger_output(t->operation))
    in = (out = first) + shift;
  else if (t->in_place || t->operation == bcast)
    out = in;
  const int gives = t->operation != bcast || rank == t->root;
  if (out != in) memset(out, 0, outputs * width);
  if (!gives) memset(in, 0, inputs * width);
  for (size_t i = 0; gives && i < inputs; ++i) set(t->type, in + i * width, given(rank, i));
  MUST(call(t, in, out, comm, stream));
  MUST(weft_stream_synchronize(stream));
  for (size_t i = 0; i < outputs; ++i) {
    const double wanted = expected(t, i), is = get(t->type, out + i * width);
    if (wanted >= 0 && is != wanted) wrong(t, i, is, wanted);
  }
}

static int may_be_in_place(int operation) {
  return operation != all_to_all && operation != send_receive && operation != bcast;
}

static long check_types(struct test t, char* first, char* second, ncclComm_t comm,
                        cudaStream_t stream) {
  long calls = 0;
  const int reductions = t.operation <= reduce_scatter ? ncclNumOps : 1;
  for (t.type = 0; t.type < ncclNumTypes; ++t.type)
    for (t.op = 0; t.op < reductions; ++t.op)
      for (t.in_place = 0; t.in_place <= may_be_in_place(t.operation); ++t.in_place, ++calls) {
        t.root = (int)(calls % ranks);
        check(&t, first, second, comm, stream);
      }
  return calls;
}

static void data(ncclComm_t comm) {
  static const size_t sizes[] = {0, 1, 255, 20011};
  const size_t most = 20011 * sizeof(double) * (size_t)ranks;
  void *first, *second, *handle;
  cudaStream_t stream;
  long calls = 0;
  MUST(ncclMemAlloc(&first, most));
  MUST(ncclMemAlloc(&second, most));
  MUST(ncclCommRegister(comm, first, most, &handle));
  MUST(weft_stream_create(&stream));
  struct test t = {0};
  for (t.operation = 0; t.operation < operations; ++t.operation)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
      t.count = sizes[i];
      calls += check_types(t, first, second, comm, i % 2 == 0 ? stream : NULL);
    }
  MUST(ncclCommDeregister(comm, handle));
  SAYS(ncclCommDeregister(comm, handle), ncclInvalidArgument);
  MUST(weft_stream_destroy(stream));
  MUST(ncclMemFree(first));
  MUST(ncclMemFree(second));
  printf("%ld calls\n", calls);
}

/* ---- groups, streams, reductions of one's own, wrong arguments --------------------------------
 */

static void pre_mul_sum(ncclComm_t comm) {
  for (int type = 0; type < ncclNumTypes; ++type)
    for (int when = 0; when < 2; ++when) {
      char scalar[8], in[64], out[64];
      const size_t width = size_of(type);
      ncclRedOp_t op;
      set(type, scalar, 2);
      for (int i = 0; i < 8; ++i) set(type, in + (size_t)i * width, given(rank, (size_t)i));
      MUST(ncclRedOpCreatePreMulSum(&op, scalar, (ncclDataType_t)type, (ncclScalarResidence_t)when,
                                    comm));
      TRUE(op >= ncclNumOps);
      MUST(ncclAllReduce(in, out, 8, (ncclDataType_t)type, op, comm, NULL));
      MUST(ncclAllReduce(in, in, 8, (ncclDataType_t)type, op, comm, NULL));
      MUST(weft_stream_synchronize(NULL));
      for (int i = 0; i < 8; ++i) {
        TRUE(get(type, out + (size_t)i * width) == 2 * reduced((size_t)i, type, ncclSum));
        TRUE(get(type, in + (size_t)i * width) == 2 * reduced((size_t)i, type, ncclSum));
      }
      const ncclDataType_t other = type == ncclInt8 ? ncclInt32 : ncclInt8;
      SAYS(ncclAllReduce(in, out, 1, other, op, comm, NULL), ncclInvalidArgument);
      MUST(ncclRedOpDestroy(op, comm));
      SAYS(ncclRedOpDestroy(op, comm), ncclInvalidArgument);
      SAYS(ncclAllReduce(in, out, 1, (ncclDataType_t)type, op, comm, NULL), ncclInvalidArgument);
    }
}

/* All to all by sends and receives, mixed with collectives, and nested. */
static void mixed_group(ncclComm_t comm) {
  int in[64], out[64], sum = 0, gathered[16];
  for (int r = 0; r < ranks; ++r) in[r] = rank * 100 + r;
  MUST(ncclGroupStart());
  for (int r = 0; r < ranks; ++r) {
    MUST(ncclGroupStart());
    if (rank == 0 && r == 0) MUST(ncclAllReduce(&rank, &sum, 1, ncclInt, ncclSum, comm, NULL));
    MUST(ncclSend(in + r, 1, ncclInt, r, comm, NULL));
    MUST(ncclRecv(out + r, 1, ncclInt, r, comm, NULL));
    MUST(ncclGroupEnd());
  }
  if (rank != 0) MUST(ncclAllReduce(&rank, &sum, 1, ncclInt, ncclSum, comm, NULL));
  MUST(ncclAllGather(&rank, gathered, 1, ncclInt, comm, NULL));
  MUST(ncclGroupEnd());
  MUST(weft_stream_synchronize(NULL));
  TRUE(sum == ranks * (ranks - 1) / 2);
  for (int r = 0; r < ranks; ++r) TRUE(out[r] == r * 100 + rank && gathered[r] == r);
}

/* A stream orders calls of two communicators: the second sum needs the result of the first. */
static void ordered(ncclComm_t comm) {
  static int values[40000];
  ncclComm_t other;
  cudaStream_t stream;
  MUST(weft_stream_create(&stream));
  MUST(ncclCommSplit(comm, 0, -rank, &other, NULL));
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 40000; ++i) values[i] = 1;
    MUST(ncclAllReduce(values, values, 40000, ncclInt, ncclSum, comm, stream));
    MUST(ncclAllReduce(values, values, 40000, ncclInt, ncclSum, other, stream));
    const ncclResult_t now = weft_stream_query(stream);
    TRUE(now == ncclSuccess || now == ncclInProgress);
    MUST(weft_stream_synchronize(stream));
    MUST(weft_stream_query(stream));
    for (int i = 0; i < 40000; ++i) TRUE(values[i] == ranks * ranks);
  }
  MUST(ncclCommDestroy(other));
  MUST(weft_stream_destroy(stream));
}

static void wrong_arguments(ncclComm_t comm) {
  int value = 1, sum = 0;
  SAYS(ncclAllReduce(NULL, &sum, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidArgument);
  TRUE(strstr(ncclGetLastError(NULL), "ncclAllReduce: sendbuff is NULL") != NULL);
  SAYS(ncclAllReduce(&value, &sum, 1, ncclNumTypes, ncclSum, comm, NULL), ncclInvalidArgument);
  SAYS(ncclAllReduce(&value, &sum, 1, ncclInt, (ncclRedOp_t)77, comm, NULL), ncclInvalidArgument);
  SAYS(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, NULL, NULL), ncclInvalidArgument);
  SAYS(ncclBroadcast(&value, &sum, 1, ncclInt, ranks, comm, NULL), ncclInvalidArgument);
  SAYS(ncclBroadcast(&value, &sum, 1, ncclInt, -1, comm, NULL), ncclInvalidArgument);
  SAYS(ncclSend(&value, 1, ncclInt, ranks, comm, NULL), ncclInvalidArgument);
  SAYS(ncclGroupEnd(), ncclInvalidUsage);
  MUST(ncclGroupStart());
  MUST(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, comm, NULL));
  SAYS(ncclAllReduce(&value, NULL, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidArgument);
  SAYS(ncclGroupEnd(), ncclInvalidArgument);
  MUST(weft_stream_synchronize(NULL));
  TRUE(sum == 0);
  ncclUniqueId nonsense = {{0}};
  ncclComm_t none = comm;
  SAYS(ncclCommInitRank(&none, 1, nonsense, 0), ncclInvalidArgument);
  TRUE(none == NULL);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.trafficClass = 9;
  SAYS(ncclCommSplit(comm, 0, 0, &none, &config), ncclInvalidArgument);
  config.magic = 0;
  SAYS(ncclCommSplit(comm, 0, 0, &none, &config), ncclInvalidArgument);
  MUST(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, comm, NULL));
  MUST(weft_stream_synchronize(NULL));
  TRUE(sum == ranks);
}

static void groups(ncclComm_t comm) {
  mixed_group(comm);
  pre_mul_sum(comm);
  ordered(comm);
  wrong_arguments(comm);
}

/* ---- communicators ----------------------------------------------------------------------------
 */

static int sum_of(ncclComm_t comm) {
  int sum = 0;
  MUST(ncclAllReduce(&rank, &sum, 1, ncclInt, ncclSum, comm, NULL));
  MUST(weft_stream_synchronize(NULL));
  return sum;
}

static void await(ncclComm_t comm, ncclResult_t wanted) {
  ncclResult_t state = ncclInProgress;
  for (int i = 0; i < 20000 && state != wanted; ++i) {
    MUST(ncclCommGetAsyncError(comm, &state));
    if (state != wanted) usleep(1000);
  }
  if (state != wanted) fail(__LINE__, ncclGetErrorString(state), ncclGetLastError(comm));
}

static void communicators(ncclComm_t comm) {
  int value, version;
  ncclComm_t other, again;
  MUST(ncclGetVersion(&version));
  TRUE(version == NCCL_VERSION_CODE && version >= NCCL_VERSION(2, 30, 0));
  MUST(ncclCommUserRank(comm, &value));
  TRUE(value == rank);
  MUST(ncclCommCount(comm, &value));
  TRUE(value == ranks);
  MUST(ncclCommCuDevice(comm, &value));
  TRUE(value == 0);

  /* Odd and even ranks apart, in reverse order. */
  MUST(ncclCommSplit(comm, rank % 2, -rank, &other, NULL));
  int mine = 0, own = 0;
  for (int r = rank % 2; r < ranks; r += 2) mine += r, own += r > rank;
  MUST(ncclCommUserRank(other, &value));
  TRUE(value == own && sum_of(other) == mine);
  MUST(ncclCommDestroy(other));
  MUST(ncclCommSplit(comm, rank == 0 ? NCCL_SPLIT_NOCOLOR : 3, 0, &other, NULL));
  TRUE((other == NULL) == (rank == 0));
  if (other != NULL) TRUE(sum_of(other) == ranks * (ranks - 1) / 2);

  /* Without the last rank, whose call would be wrong. */
  int last = ranks - 1;
  if (rank == last)
    SAYS(ncclCommShrink(comm, &last, 1, &again, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
  else
    MUST(ncclCommShrink(comm, &last, 1, &again, NULL, NCCL_SHRINK_DEFAULT));
  if (rank != last) {
    TRUE(sum_of(again) == (ranks - 1) * (ranks - 2) / 2);
    MUST(ncclCommFinalize(again));
    SAYS(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, again, NULL), ncclInvalidUsage);
    MUST(ncclCommDestroy(again));
  }
  if (other != NULL) MUST(ncclCommDestroy(other));

  /* One that does not block. */
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.trafficClass = 1;
  SAYS(ncclCommSplit(comm, 0, rank, &other, &config), ncclInProgress);
  await(other, ncclSuccess);
  TRUE(sum_of(other) == ranks * (ranks - 1) / 2);
  SAYS(ncclCommFinalize(other), ncclInProgress);
  await(other, ncclSuccess);
  MUST(ncclCommDestroy(other));
}

/* All ranks in one thread. */
static void threads(void) {
  ncclComm_t comms[8];
  int sums[8], values[8], value;
  static const int devices[8] = {7, 6, 5, 4, 3, 2, 1, 0};
  cudaStream_t streams[8];
  MUST(ncclCommInitAll(comms, ranks, devices));
  for (int r = 0; r < ranks; ++r) {
    MUST(ncclCommCuDevice(comms[r], &value));
    TRUE(value == devices[r]);
    MUST(cudaStreamCreate(&streams[r]) == cudaSuccess ? ncclSuccess : ncclInternalError);
    values[r] = r + 1;
  }
  for (int round = 0; round < 3; ++round) {
    memset(sums, 0, sizeof sums);
    MUST(ncclGroupStart());
    for (int r = 0; r < ranks; ++r)
      MUST(ncclAllReduce(values + r, sums + r, 1, ncclInt, ncclSum, comms[r],
                         round == 0 ? NULL : streams[r]));
    MUST(ncclGroupEnd());
    if (round == 0) MUST(weft_stream_synchronize(NULL));
    for (int r = 0; r < ranks; ++r) MUST(weft_stream_synchronize(streams[r]));
    for (int r = 0; r < ranks; ++r) TRUE(sums[r] == ranks * (ranks + 1) / 2);
  }
  for (int r = 0; r < ranks; ++r) {
    MUST(ncclCommDestroy(comms[r]));
    MUST(weft_stream_destroy(streams[r]));
  }
}

/* ---- failures ---------------------------------------------------------------------------------
 */

/* The last rank dies while the others wait for it; they go on without it. */
static void killed(ncclComm_t comm) {
  int last = ranks - 1, value = 1, sum;
  sum_of(comm);
  if (rank == last) raise(SIGKILL);
  MUST(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, comm, NULL));
  await(comm, ncclRemoteError);
  TRUE(weft_stream_synchronize(NULL) == ncclRemoteError);
  char name[16];
  snprintf(name, sizeof name, "rank %d", last);
  TRUE(strstr(ncclGetLastError(comm), name) != NULL);
  SAYS(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, comm, NULL), ncclRemoteError);
  ncclComm_t rest;
  MUST(ncclCommShrink(comm, &last, 1, &rest, NULL, NCCL_SHRINK_ABORT));
  TRUE(sum_of(rest) == (ranks - 1) * (ranks - 2) / 2);
  MUST(ncclCommDestroy(rest));
  MUST(ncclCommAbort(comm));
}

/* Rank 0 gives up a call that the last rank never makes. */
static void aborted(ncclComm_t comm) {
  int value = 1, sum;
  ncclComm_t other;
  MUST(ncclCommSplit(comm, 0, rank, &other, NULL));
  if (rank != ranks - 1) MUST(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, other, NULL));
  if (rank == 0) {
    usleep(50000);
    MUST(ncclCommAbort(other));
    TRUE(weft_stream_synchronize(NULL) != ncclSuccess);
  } else {
    await(other, ncclRemoteError);
    TRUE(strstr(ncclGetLastError(other), "rank 0") != NULL);
    MUST(ncclCommAbort(other));
  }
  weft_stream_synchronize(NULL);
  TRUE(sum_of(comm) == ranks * (ranks - 1) / 2);
  /* Revoked, it can still be shrunk. */
  MUST(ncclCommSplit(comm, 0, rank, &other, NULL));
  if (rank == 0) MUST(ncclCommRevoke(other, NCCL_REVOKE_DEFAULT));
  await(other, rank == 0 ? ncclInvalidUsage : ncclRemoteError);
  MUST(ncclCommAbort(other));
}

/* ------------------------------------------------------------------------------------------------
 */

static ncclUniqueId shared_id(const char* path) {
  ncclUniqueId id;
  char fresh[512];
  snprintf(fresh, sizeof fresh, "%s.new", path);
  if (rank == 0) {
    MUST(ncclGetUniqueId(&id));
    FILE* const file = fopen(fresh, "wb");
    TRUE(file != NULL && fwrite(&id, sizeof id, 1, file) == 1 && fclose(file) == 0);
    TRUE(rename(fresh, path) == 0);
    return id;
  }
  for (int i = 0; i < 30000; ++i, usleep(1000)) {
    FILE* const file = fopen(path, "rb");
    if (file == NULL) continue;
    TRUE(fread(&id, sizeof id, 1, file) == 1);
    fclose(file);
    return id;
  }
  fail(__LINE__, path, "is not there");
  return id;
}

int main(int argc, char** argv) {
  TRUE(argc == 5);
  const char* const name = argv[1];
  rank = atoi(argv[2]);
  ranks = atoi(argv[3]);
  if (strcmp(name, "threads") == 0) {
    threads();
    printf("done\n");
    return 0;
  }
  ncclComm_t comm;
  MUST(ncclCommInitRank(&comm, ranks, shared_id(argv[4]), rank));
  if (strcmp(name, "kill") == 0) {
    killed(comm);
    printf("done\n");
    return 0;
  }
  if (strcmp(name, "data") == 0)
    data(comm);
  else if (strcmp(name, "groups") == 0)
    groups(comm);
  else if (strcmp(name, "communicators") == 0)
    communicators(comm);
  else if (strcmp(name, "abort") == 0)
    aborted(comm);
  else
    fail(__LINE__, name, "no such case");
  MUST(ncclCommDestroy(comm));
  printf("done\n");
  return 0;
}
