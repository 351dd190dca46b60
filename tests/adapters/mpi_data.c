/* SPDX-License-Identifier: BSD-3-Clause
 * Each rank sends to each, over sizes around the protocols' thresholds, and all reduce; every byte
 * is compared. mpi_test.py compiles it with the MPI at hand and starts it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

/* What rank `from` sends to rank `to` at position `at` of round `round`. */
static unsigned char byte_of(int from, int to, int round, size_t at) {
  return (unsigned char)(from * 31 + to * 17 + round * 7 + at * 13 + (at >> 8));
}

static void fail(const char* what, size_t size) {
  fprintf(stderr, "rank %d: wrong data in %s of %zu bytes\n", rank, what, size);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void exchange(size_t size, int round) {
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  unsigned char* const out = malloc(size + 1);
  unsigned char* const in = malloc(size + 1);
  for (size_t i = 0; i < size; ++i) out[i] = byte_of(rank, to, round, i);
  memset(in, 0xEE, size + 1);
  MPI_Sendrecv(out, (int)size, MPI_BYTE, to, round, in, (int)size, MPI_BYTE, from, round,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (size_t i = 0; i < size; ++i)
    if (in[i] != byte_of(from, rank, round, i)) fail("MPI_Sendrecv", size);
  if (in[size] != 0xEE) fail("MPI_Sendrecv, behind the end,", size);
  free(out);
  free(in);
}

static void reduce(int count) {
  long* const values = malloc(sizeof(long) * (size_t)count);
  for (int i = 0; i < count; ++i) values[i] = (long)i * (rank + 1);
  MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < count; ++i)
    if (values[i] != (long)i * ranks * (ranks + 1) / 2) fail("MPI_Allreduce", (size_t)count * 8);
  free(values);
}

/* One-sided: each rank puts its number into the next one's window and gets it back. */
static void put_and_get(void) {
  static int memory[2];  /* MPI_Win_allocate of Debian's MPICH puts elsewhere, over TCP as well */
  MPI_Win window;
  memory[0] = memory[1] = -1;
  MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  MPI_Put(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  if (memory[0] != (rank + ranks - 1) % ranks) fail("MPI_Put", sizeof(int));
  int got = -1;
  MPI_Get(&got, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  if (got != rank) fail("MPI_Get", sizeof(int));
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  const size_t sizes[] = {0, 1, 8, 100, 4096, 8191, 65536, 300000, 1 << 20};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int round = 0; round < 3; ++round)
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) exchange(sizes[i], round);
  for (int i = 0; i < 20; ++i) reduce(1 + i * i * 40);
  put_and_get();
  if (rank == 0) printf("%d ranks: all data as it should be\n", ranks);
  MPI_Finalize();
  return 0;
}
