/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that are introduced to each other, for tests: this one, and a child that has memory of its own to visit. */
#ifndef UROCE_TESTS_MEMORY_WORLD_H
#define UROCE_TESTS_MEMORY_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/types.h>

#include "memory/shareable.h"
#include "memory/fault.h"
#include "memory/export.h"
#include "memory/reach.h"

enum {
	WRITE = 1 << 1, /* as enum ibv_access_flags has them */
	READ = 1 << 2,
	LENGTH = 64 << 10,
	IOVA = 0x5000,
	PD = 7,
	PAIR = 99,
	QP = 3,
	REGION = 5,
	MIX = 0x1234567,
	MASK = 0xabcdef,
};

/* Of each thread, as they keep in mind where the last visit was; as new after make_share(). */
extern _Thread_local struct reach_pair pair, stranger;

unsigned rounds(unsigned n); /* fewer where a sanitizer makes all slow */
uint32_t key_of(uint8_t tag);
char *fresh(size_t length); /* private memory */
int descriptors(void);	    /* how many this process has */
struct share *make_share(uint8_t slot);

/* Opens a region of LENGTH bytes at `at`; *where is for close_region(). */
void open_region(struct share *s, char *at, uint8_t tag, bool may_move, struct shareable *where);
void close_region(struct share *s, char *at, const struct shareable *where);
/* The same for memory that the program shares. */
void open_exported(struct share *s, char *at, uint8_t tag, struct exported *where);
void close_exported(struct share *s, const struct exported *where);

bool put(struct reach *r, uint32_t key, uint64_t va, const void *bytes, size_t length);
bool get(struct reach *r, uint32_t key, uint64_t va, void *bytes, size_t length);

void show_card(int socket, struct share *s);
struct reach *meet(int socket, struct share *own);
void tell(int socket, char word);
bool hear(int socket, char word);

struct world {
	struct share *own;
	struct reach *child;
	pid_t pid;
	int socket;
};

typedef void child_main(struct share *own, struct reach *parent, int socket);

extern bool world_catches; /* children install their handlers: fault_arm() */

/* The child ends when child_main() returns; it is told 'e' by end(), which waits for it. */
void begin(struct world *w, child_main *child, bool with_barrier);
void end(struct world *w, bool killed);

/* A child: writes to whatever region of the parent is open, until the socket closes. Each byte that it writes is 'x'.
 */
void write_all_the_time(struct share *own, struct reach *parent, int socket);

#endif
