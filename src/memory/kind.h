/* SPDX-License-Identifier: BSD-2-Clause */
/* Kinds of memory that plain loads and stores cannot access, or not without more: one table of operations. A region
 * has a kind (object/mr.h); nothing but this table knows what it is. Any thread may call. */
#ifndef UROCE_KIND_H
#define UROCE_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu_memory;

enum memory_kind {
	MEMORY_PLAIN,  /* loads and stores, in a try (fault.h): not in the table */
	MEMORY_NULL,   /* no memory: reads give zeros, writes are discarded */
	MEMORY_PAGED,  /* on demand: it may not be present (guarded.h) */
	MEMORY_DMABUF, /* of another device, mapped here: each access is announced to its exporter */
	MEMORY_GPU,    /* of a GPU: only its driver can copy (gpu.h) */
	MEMORY_KINDS
};

/* What an access needs beside the address. */
union memory_handle {
	int dmabuf;		/* MEMORY_DMABUF: the descriptor */
	struct gpu_memory *gpu; /* MEMORY_GPU */
};

/* RDMA atomics: FETCH AND ADD, or COMPARE AND SWAP. */
struct memory_atomic {
	char *at; /* 8 bytes, aligned */
	bool is_add;
	uint64_t compare, swap_add;
	uint64_t before; /* out */
};

/* False: the memory is not present, or not writable. `at`: its address, as the program registered it. */
struct memory_ops {
	bool (*read)(union memory_handle h, void *to, const char *at, size_t length);
	/* the last bytes are stored last, as by copy_in_order() */
	bool (*write)(union memory_handle h, char *at, const void *from, size_t length);
	bool (*atomic)(union memory_handle h, struct memory_atomic *a);
	uint32_t ahead; /* bytes that may be read along with those of a packet, as they cost no more; 0: none */
};

extern const struct memory_ops memory_ops[MEMORY_KINDS];

/* The same for MEMORY_PLAIN. */
bool memory_atomic_plain(struct memory_atomic *a);

#endif
