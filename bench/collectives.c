/* SPDX-License-Identifier: BSD-2-Clause */
/* MPI's collective operations, for `bench/run --rows contended,mpich`: mpicc collectives.c, mpirun. Rank 0 prints a
 * line for each: its name, and the time of one in microseconds. Each is repeated until it has taken MOST seconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 0.4 /* seconds */
enum { LARGEST = 1 << 20, EACH = 4096 /* bytes from each to each */ };

static char *in, *out;

static void barrier(int bytes)
{
	(void)bytes;
	MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(int bytes)
{
	MPI_Allreduce(in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void all_to_all(int bytes)
{
	MPI_Alltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static const struct operation {
	const char *name;
	void (*run)(int bytes);
	int bytes;
} operations[] = {
	{"barrier", barrier, 0},
	{"allreduce_8", allreduce, 8},
	{"allreduce_8K", allreduce, 8 << 10},
	{"allreduce_1M", allreduce, LARGEST},
	{"alltoall_4K", all_to_all, EACH},
};

static double run(const struct operation *o, int times)
{
	double begin;

	MPI_Barrier(MPI_COMM_WORLD);
	begin = MPI_Wtime();
	for (int i = 0; i < times; i++)
		o->run(o->bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Wtime() - begin;
}

/* Rank 0 decides for all of them how often. */
static double measure(const struct operation *o)
{
	int times = 1;
	double took;

	run(o, times); /* connects */
	while ((took = run(o, times)), MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD), took < MOST)
		times = took > MOST / 100 ? (int)(times * MOST / took * 1.2) + 1 : times * 10;
	return took / times * 1e6;
}

int main(int argc, char **argv)
{
	int rank, ranks;
	size_t room;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	room = (size_t)ranks * EACH > LARGEST ? (size_t)ranks * EACH : LARGEST;
	in = malloc(room);
	out = malloc(room);
	if (!in || !out)
		MPI_Abort(MPI_COMM_WORLD, 1);
	memset(in, 0, room);
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		double us = measure(&operations[i]);

		if (rank == 0)
			printf("%s %.2f\n", operations[i].name, us);
		fflush(stdout); /* for those who do not await the end */
	}
	MPI_Finalize();
	return 0;
}
