/* SPDX-License-Identifier: BSD-3-Clause
 * The few functions of CUDA's run time that programs written to NCCL's API call, for memory of the
 * host: with them such a program, if it has no kernels, is compiled for a machine without a GPU.
 * Memory of the device is memory of the host, copies are done before the call returns, and streams
 * are those of weft/nccl_compat.h. There are as many devices as WEFT_CUDA_DEVICES says, 8 if it
 * says nothing.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "weft/nccl_compat.h"

typedef enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorUnknown = 999 } cudaError_t;
enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
#define cudaStreamDefault 0
#define cudaStreamNonBlocking 1

static inline cudaError_t weft_cuda_result(ncclResult_t result) {
  return result == ncclSuccess ? cudaSuccess : cudaErrorUnknown;
}

static inline const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaSuccess) return "no error";
  return error == cudaErrorMemoryAllocation ? "out of memory" : ncclGetLastError(NULL);
}
static inline cudaError_t cudaGetLastError(void) { return cudaSuccess; }

static inline cudaError_t cudaGetDeviceCount(int* count) {
  const char* const said = getenv("WEFT_CUDA_DEVICES");
  *count = said != NULL ? atoi(said) : 8;
  return cudaSuccess;
}
static inline cudaError_t cudaSetDevice(int device) {
  (void)device;
  return cudaSuccess;
}

static inline cudaError_t weft_cuda_malloc(void** memory, size_t bytes) {
  return ncclMemAlloc(memory, bytes) == ncclSuccess ? cudaSuccess : cudaErrorMemoryAllocation;
}
/* CUDA's is a template in C++, so that a pointer to any pointer may be given. */
#define cudaMalloc(memory, bytes) weft_cuda_malloc((void**)(memory), (bytes))
#define cudaMallocHost(memory, bytes) weft_cuda_malloc((void**)(memory), (bytes))
static inline cudaError_t cudaFree(void* memory) { return weft_cuda_result(ncclMemFree(memory)); }
static inline cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }

static inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return weft_cuda_result(weft_stream_create(stream));
}
static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  (void)flags;
  return cudaStreamCreate(stream);
}
static inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return weft_cuda_result(weft_stream_destroy(stream));
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return weft_cuda_result(weft_stream_synchronize(stream));
}
static inline cudaError_t cudaDeviceSynchronize(void) { return cudaStreamSynchronize(NULL); }

static inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                                     enum cudaMemcpyKind kind) {
  (void)kind;
  const cudaError_t before = cudaStreamSynchronize(NULL);
  memmove(to, from, bytes);
  return before;
}
static inline cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  const cudaError_t before = cudaStreamSynchronize(NULL);
  memset(to, value, bytes);
  return before;
}
/* After what the stream holds; the call waits for it. */
static inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                                          enum cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind;
  const cudaError_t before = cudaStreamSynchronize(stream);
  memmove(to, from, bytes);
  return before;
}
static inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const cudaError_t before = cudaStreamSynchronize(stream);
  memset(to, value, bytes);
  return before;
}
