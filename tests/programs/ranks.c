/* SPDX-License-Identifier: BSD-2-Clause */
/* An MPI program of any number of ranks: each sends its local peer messages of all sizes, gets those of the one before
 * it, writes into the local peer's window, and adds up with all. What arrives is checked. It is run by mpirun. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 4 << 20 };

static int rank, ranks;

static void require(int hazards, const char *what)
{
	if (hazards)
		return;
	fprintf(stderr, "rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char byte(int from, int size, int i)
{
	return (unsigned char)(from * 31 + size * 7 + i * 13);
}

static void fill(unsigned char *at, int size)
{
	for (int i = 0; i < size; i++)
		at[i] = byte(rank, size, i);
}

static int is_from(const unsigned char *at, int from, int size)
{
	for (int i = 0; i < size; i++)
		if (at[i] != byte(from, size, i))
			return 0;
	return 1;
}

int main(int argc, char **argv)
{
	unsigned char *out = malloc(LARGEST), *in = malloc(LARGEST), *window;
	int next, before;
	long one, sum;
	MPI_Win win;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	next = (rank + 1) % ranks;
	before = (rank + ranks - 1) % ranks;
	require(out && in, "no memory");
	for (int size = 1; size <= LARGEST; size *= 4) {
		fill(out, size);
		MPI_Sendrecv(out, size, MPI_BYTE, next, size, in, size, MPI_BYTE, before, size, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		require(is_from(in, before, size), "a message has wrong bytes");
	}
	MPI_Win_allocate(LARGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
	fill(out, LARGEST);
	MPI_Win_fence(0, win);
	MPI_Put(out, LARGEST, MPI_BYTE, next, 0, LARGEST, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	require(is_from(window, before, LARGEST), "the window has wrong bytes");
	MPI_Win_free(&win);
	one = rank + 1;
	MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	require(sum == ranks * (ranks + 1l) / 2, "the sum is wrong");
	if (rank == 0)
		printf("%d ranks agree\n", ranks);
	MPI_Finalize();
	free(out);
	free(in);
	return 0;
}
