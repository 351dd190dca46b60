/* SPDX-License-Identifier: BSD-3-Clause
 * NCCL's API over memory of the host: four ranks in one process sum a number, as a program for
 * four GPUs does it. docs/nccl-compat.md
 */
#include <nccl.h>
#include <stdio.h>

enum { RANKS = 4 };

static int failed(void) {
  fprintf(stderr, "%s\n", ncclGetLastError(NULL));
  return 1;
}

int main(void) {
  ncclComm_t comms[RANKS];
  cudaStream_t streams[RANKS];
  float* sums[RANKS];
  if (ncclCommInitAll(comms, RANKS, NULL) != ncclSuccess) return failed();
  for (int rank = 0; rank < RANKS; ++rank) {
    if (cudaMalloc(&sums[rank], sizeof(float)) != cudaSuccess) return failed();
    if (cudaStreamCreate(&streams[rank]) != cudaSuccess) return failed();
    *sums[rank] = (float)(rank + 1);
  }

  ncclGroupStart();
  for (int rank = 0; rank < RANKS; ++rank)
    ncclAllReduce(sums[rank], sums[rank], 1, ncclFloat, ncclSum, comms[rank], streams[rank]);
  if (ncclGroupEnd() != ncclSuccess) return failed();
  for (int rank = 0; rank < RANKS; ++rank)
    if (cudaStreamSynchronize(streams[rank]) != cudaSuccess) return failed();
  printf("the sum of %d ranks is %g\n", RANKS, (double)*sums[0]);

  for (int rank = 0; rank < RANKS; ++rank) {
    ncclCommDestroy(comms[rank]);
    cudaStreamDestroy(streams[rank]);
    cudaFree(sums[rank]);
  }
  return 0;
}
