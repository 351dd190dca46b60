/* SPDX-License-Identifier: BSD-3-Clause
 * Collectives for programs that are written to NCCL's API, over memory of the host: the functions
 * of libweft-ccl.so. Names, arguments and values are NCCL's (2.30), so that a program is compiled
 * again, not changed: with include/weft/nccl in its path its <nccl.h> is this header, and its
 * <cuda_runtime.h> a small one for the host. docs/nccl-compat.md says how, and what differs.
 *
 * Rules of all functions:
 * - Buffers are memory of the host and belong to the call until its stream has passed it.
 * - Collectives, ncclSend and ncclRecv return when they are queued on their stream. Calls of one
 *   stream are carried out in order, and calls of one communicator in the order in which they were
 *   made, which must be the same on all ranks. Each communicator has a thread that does it.
 * - Errors. What is wrong with the arguments is returned at once. What fails later is returned by
 *   weft_stream_synchronize() and ncclCommGetAsyncError(), and every later call of the communicator
 *   fails alike: destroy, abort or shrink it. ncclGetLastError() is the sentence that goes with it.
 *   When a rank dies or aborts, the calls of all others end in ncclRemoteError. No call hangs for
 *   that reason and none ends the process.
 * - Threads. Any function may be called from any thread; calls of one communicator from one thread
 *   at a time. A communicator is freed once, by ncclCommDestroy() or ncclCommAbort().
 * - The device is that of WEFT_DEVICE (docs/device-strings.md), the same on all ranks, or
 *   roce+udp:lo, which reaches the processes of this host.
 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of NCCL whose API this is. */
#define NCCL_MAJOR 2
#define NCCL_MINOR 30
#define NCCL_PATCH 7
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 23007
#define NCCL_VERSION(X, Y, Z) \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

/* ---- values ---------------------------------------------------------------------------------- */

/* What a call returned. */
typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1, /* never */
  ncclSystemError = 2,        /* a system call or the network failed */
  ncclInternalError = 3,
  ncclInvalidArgument = 4, /* an argument is wrong: ncclGetLastError() names it */
  ncclInvalidUsage = 5,    /* a call at the wrong time, or ranks that made different calls */
  ncclRemoteError = 6,     /* another rank died, left or aborted */
  ncclInProgress = 7,      /* of a communicator with blocking = 0: ask again */
  ncclTimeout = 8,         /* a rank has not called in time */
  ncclNumResults = 9
} ncclResult_t;

/* Types of elements. */
typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/* Reductions. Types of 16 and 8 bits are added in fp32 and rounded once; collective_types.hpp says
 * what else is promised. Values from ncclNumOps on are made by ncclRedOpCreatePreMulSum(). */
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = INT_MAX
} ncclRedOp_t;

/* When the scalar of ncclRedOpCreatePreMulSum() is read. */
typedef enum {
  ncclScalarDevice = 0,       /* when a call that uses the reduction is carried out */
  ncclScalarHostImmediate = 1 /* before ncclRedOpCreatePreMulSum() returns */
} ncclScalarResidence_t;

/* A communicator of this process, which is one rank of it. */
typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL

/* What the ranks of a new communicator share; the program carries it to them. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/* A queue of calls; CUDA's name stands for it. NULL is a queue of its own for each thread and
 * communicator. */
typedef struct CUstream_st* cudaStream_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR -1

/* Attributes of a communicator, set to NCCL_CONFIG_INITIALIZER first. `blocking`: 0 makes creation
 * and ncclCommFinalize() return ncclInProgress at once, and ncclCommGetAsyncError() says when they
 * are done. `netName`: a device string of weft (default: WEFT_DEVICE). `trafficClass`: 0, the
 * highest priority, to 3 (default: 2). The others have no
 * meaning on the host and are ignored. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
} ncclConfig_t;

#define WEFT_CCL_CONFIG_MAGIC 0xcafebeefU
#define NCCL_CONFIG_INITIALIZER                                                            \
  {                                                                                        \
    sizeof(ncclConfig_t), WEFT_CCL_CONFIG_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,               \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,               \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,               \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,               \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                \
  }

/* Flags of ncclCommShrink() and ncclCommRevoke(). */
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01 /* ends the calls in progress first, also those of a failed one */
#define NCCL_REVOKE_DEFAULT 0x00

/* ---- texts ----------------------------------------------------------------------------------- */

/* NCCL_VERSION_CODE of this library. */
ncclResult_t ncclGetVersion(int* version);
/* What a result means. Static. */
const char* ncclGetErrorString(ncclResult_t result);
/* Why `comm` has failed; for NULL and a communicator that works, why the last call that failed in
 * this thread did. "" if none. Valid until the communicator is freed, or the next failure in this
 * thread. */
const char* ncclGetLastError(ncclComm_t comm);

/* ---- streams --------------------------------------------------------------------------------- */

/* Creates a stream. Free: weft_stream_destroy(). */
ncclResult_t weft_stream_create(cudaStream_t* stream);
/* Frees the handle; what is queued is carried out. */
ncclResult_t weft_stream_destroy(cudaStream_t stream);
/* Waits until all that is queued has been carried out. NULL: on all NULL streams of this thread.
 * Returns the first failure since it was called last. */
ncclResult_t weft_stream_synchronize(cudaStream_t stream);
/* ncclInProgress while something is queued, otherwise as weft_stream_synchronize(). */
ncclResult_t weft_stream_query(cudaStream_t stream);

/* ---- communicators --------------------------------------------------------------------------- */

/* Makes what the ranks of one communicator share. The process serves their rendezvous, from a free
 * port at the device's address, until it ends. */
ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);

/* Creates a communicator of `nranks` ranks; blocks until all have called it, two minutes at most.
 * Free: ncclCommDestroy() or ncclCommAbort(). In a group it is created at ncclGroupEnd(). */
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config);
/* The same; the first of the ids is used. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int nranks, int rank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config);
/* Creates all `ndev` ranks of a communicator in this process. `devlist` (NULL: 0, 1 ..) is what
 * ncclCommCuDevice() returns. */
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ndev, const int* devlist);

/* Creates a communicator of the ranks with the same colour, ordered by key, then by rank. All ranks
 * of `comm` call it. NCCL_SPLIT_NOCOLOR: this rank gets NULL. `config` NULL: that of `comm`. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config);
/* Creates a communicator of the ranks that the list does not name, in their order. They call it
 * with the same list, the others do not. Works after a failure with NCCL_SHRINK_ABORT. */
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);

/* Waits until the calls of the communicator are carried out; no call is taken afterwards. */
ncclResult_t ncclCommFinalize(ncclComm_t comm);
/* The same, and frees it. */
ncclResult_t ncclCommDestroy(ncclComm_t comm);
/* Ends the calls in progress, on all ranks, and frees it. */
ncclResult_t ncclCommAbort(ncclComm_t comm);
/* Ends the calls in progress, on all ranks; ncclCommShrink() works afterwards. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);

/* Stores the first failure of the communicator, ncclInProgress while it is being created, or
 * ncclSuccess. A rank that dies is noticed without a call, within a second. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Memory aligned to pages. Free: ncclMemFree(). */
ncclResult_t ncclMemAlloc(void** ptr, size_t size);
ncclResult_t ncclMemFree(void* ptr);
/* Registers memory with the device for all calls of the communicator whose buffers are in it, until
 * ncclCommDeregister() or the end of the communicator. A local call. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);

/* ---- reductions of one's own ----------------------------------------------------------------- */

/* Makes a sum of inputs that are multiplied by *scalar, of `datatype`, for calls of `comm` with
 * that type. Products are rounded to the type before they are added. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- collectives ----------------------------------------------------------------------------- */

/* In place: the same buffer, or, where one buffer is `nranks` times the other, the part of this
 * rank in the larger one (Gather, Scatter: of the root). Counts are in elements. */

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
/* `recvbuff` may be NULL on ranks other than the root. */
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
/* `sendbuff` may be NULL on ranks other than the root. */
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream);
/* `sendbuff` has nranks * recvcount elements. */
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
/* `recvbuff` has nranks * sendcount elements. */
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* Both buffers have nranks * count elements, and do not overlap. */
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* `recvbuff`, of the root only, has nranks * count elements. */
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream);
/* `sendbuff`, of the root only, has nranks * count elements. */
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);

/* Between two ranks sends and receives are matched in order; counts must be equal. Those of a group
 * progress together. */
ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);

/* ---- groups ---------------------------------------------------------------------------------- */

/* From ncclGroupStart() on, calls of this thread are collected; the outermost ncclGroupEnd() queues
 * them: of each communicator its collectives in order, then all its sends and receives at once. A
 * call whose arguments are wrong makes ncclGroupEnd() return its error, and nothing is queued. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

#ifdef __cplusplus
}
#endif
