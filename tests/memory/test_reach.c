/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that reach into each other's memory: what is let in, what is kept out, and that nobody is inside any more
 * when a region or a QP has been closed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memfd.h"
#include "memory/world.h"

/* ---- what is let in ---- */

/* Opens a region, made shareable or not, with a page of a pattern, and waits to be told to go. */
static void be_visited(struct share *own, struct reach *parent, int socket)
{
	char *at = fresh(2 * LENGTH);
	struct shareable where;
	char *region = at + 100; /* the edges are not in whole pages */

	for (int i = 0; i < LENGTH; i++)
		region[i] = (char)(i * 3);
	open_region(own, region, 1, true, &where);
	share_open_qp(own, QP, WRITE | READ, PD, PAIR);
	tell(socket, 'o');
	while (!hear(socket, 'e')) {
		/* 'c': the region is closed; 'q': the QP; 'o': both are open, with another key; '1': the word that was
		 * written is there */
		close_region(own, region, &where);
		share_close_qp(own, QP);
		tell(socket, 'c');
		if (!hear(socket, 'o'))
			return;
		open_region(own, region, 2, true, &where);
		share_open_qp(own, QP, READ, PD, PAIR);
		tell(socket, 'o');
	}
}

static void bytes_come_and_go_by_either_way(void **state)
{
	char bytes[3 * 4096], there[3 * 4096];
	struct world w;

	begin(&w, be_visited, true);
	assert_true(hear(w.socket, 'o'));
	for (size_t length = 1; length <= sizeof(bytes); length = length < 40 ? length + 1 : length * 3 / 2) {
		static const uint64_t places[] = {0, 1, 7, 4096 - 101, 4096, 5000, LENGTH - sizeof(bytes)};

		for (size_t p = 0; p < ARRAY_SIZE(places); p++) {
			for (size_t i = 0; i < length; i++)
				bytes[i] = (char)(i * 5 + length + p);
			assert_true(put(w.child, key_of(1), IOVA + places[p], bytes, length));
			memset(there, 0, sizeof(there));
			assert_true(get(w.child, key_of(1), IOVA + places[p], there, length));
			assert_memory_equal(there, bytes, length);
		}
	}
	end(&w, false);
}

static void what_is_not_open_is_not_reached(void **state)
{
	struct reach_span span;
	char bytes[16] = {0};
	struct world w;
	const struct {
		struct reach_pair *pair;
		uint32_t key;
		uint64_t va, length;
		unsigned access;
		bool ok;
	} rows[] = {
		{&pair, key_of(1), IOVA, LENGTH, WRITE, true},
		{&pair, key_of(1), IOVA + LENGTH - 1, 1, READ, true},
		{&pair, key_of(1), IOVA + LENGTH, 1, READ, false},
		{&pair, key_of(1), IOVA - 1, 1, READ, false},
		{&pair, key_of(1), IOVA - 1, 2, READ, false},
		{&pair, key_of(1), IOVA, LENGTH + 1, READ, false},
		{&pair, key_of(1), IOVA + 1, LENGTH, READ, false},
		{&pair, key_of(1), IOVA + 1, UINT64_MAX, READ, false},
		{&pair, key_of(1), UINT64_MAX, 2, READ, false},
		{&pair, key_of(1), IOVA, 8, 1 << 3, false}, /* no atomics here */
		{&pair, key_of(2), IOVA, 8, READ, false},
		{&pair, key_of(1) ^ 1 << 20, IOVA, 8, READ, false},
		{&pair, 0, IOVA, 8, READ, false},
		{&stranger, key_of(1), IOVA, 8, READ, false},
	};

	begin(&w, be_visited, true);
	assert_true(hear(w.socket, 'o'));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool ok = reach_enter(w.child, rows[i].pair, rows[i].key, rows[i].va, rows[i].length, rows[i].access,
				      &span);

		if (ok)
			reach_leave(w.child);
		if (ok != rows[i].ok)
			fail_msg("row %zu", i);
	}
	tell(w.socket, 'c');
	assert_true(hear(w.socket, 'c'));
	assert_false(get(w.child, key_of(1), IOVA, bytes, 8));
	tell(w.socket, 'o');
	assert_true(hear(w.socket, 'o'));
	assert_false(get(w.child, key_of(1), IOVA, bytes, 8));
	assert_true(get(w.child, key_of(2), IOVA, bytes, 8));
	assert_false(put(w.child, key_of(2), IOVA, bytes, 8)); /* the QP lets read only now */

	/* who fetches what he was sent the name of needs no rights */
	assert_true(reach_enter(w.child, &pair, key_of(2), IOVA, 8, 0, &span));
	reach_leave(w.child);
	assert_true(reach_is_open(w.child, &pair));
	assert_false(reach_is_open(w.child, &stranger));
	tell(w.socket, 'c');
	assert_true(hear(w.socket, 'c'));
	assert_false(reach_is_open(w.child, &pair));
	tell(w.socket, 'o');
	assert_true(hear(w.socket, 'o'));
	reach_dead(w.child);
	assert_false(get(w.child, key_of(2), IOVA, bytes, 8));
	end(&w, false);
}

static void tables_of_others_are_refused(void **state)
{
	static const uint64_t table = sizeof(struct share_table), visitor = sizeof(((struct share_table *)0)->visitor);
	static const struct {
		uint64_t table, visitor;
	} rows[] = {{0, visitor}, {table, 0}, {table, visitor}, {table - 4096, visitor}, {table, visitor - 4096}};
	struct share *own = make_share(1);
	struct reach *r;
	int before = descriptors();

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd[SHARE_FDS] = {memfd_of_size("nonsense", 0, rows[i].table), -1,
				     memfd_of_size("nonsense", 0, rows[i].visitor)};

		assert_int_equal(reach_open(&r, own, fd, 2, getpid()), -EPROTO);
		assert_int_equal(descriptors(), before); /* they were taken over */
	}
	share_destroy(own);
}

/* A copy of a table, and of the visitors' part, in memory that may be cut at any time. */
static int copy_unsealed(int fd, size_t size)
{
	int copy = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char page[4096];

	assert_int_equal(ftruncate(copy, (off_t)size), 0);
	assert_int_equal(pread(fd, page, sizeof(page), 0), sizeof(page));
	assert_int_equal(pwrite(copy, page, sizeof(page), 0), sizeof(page));
	return copy;
}

static void tables_that_could_be_cut_are_refused(void **state)
{
	static const size_t size[SHARE_FDS] = {sizeof(struct share_table), 0,
					       sizeof(((struct share_table *)0)->visitor)};
	struct share *own = make_share(1), *other = make_share(2);
	struct reach *r;

	for (int which = 0; which < SHARE_FDS; which++) {
		int fd[SHARE_FDS];

		share_fds(other, fd);
		for (int i = 0; i < SHARE_FDS; i++)
			fd[i] = i == which && i == SHARE_FD_ARENA
					? copy_unsealed(fd[i], (size_t)EXTENTS << EXTENT_SHIFT)
				: i == which ? copy_unsealed(fd[i], size[i])
					     : dup(fd[i]);
		assert_int_equal(reach_open(&r, own, fd, 2, getpid()), -EPROTO);
	}
	share_destroy(other);
	share_destroy(own);
}

/* What a local peer may do with the descriptors that it is sent: nothing that ends or misleads another process. */
static void a_local_peer_can_neither_cut_nor_forge_a_table(void **state)
{
	struct share *own = make_share(1);
	int fd[SHARE_FDS];
	char byte = 1;
	void *at;

	share_fds(own, fd);
	for (int i = 0; i < SHARE_FDS; i++) {
		struct stat st;

		assert_int_equal(fstat(fd[i], &st), 0);
		assert_int_equal(ftruncate(fd[i], 0), -1);
		assert_int_equal(ftruncate(fd[i], st.st_size + 4096), -1);
		assert_int_equal(fcntl(fd[i], F_ADD_SEALS, F_SEAL_WRITE), -1); /* for those who come later */
	}
	assert_int_equal(write(fd[SHARE_FD_TABLE], &byte, 1), -1);
	at = mmap(NULL, sizeof(struct share_table), PROT_READ | PROT_WRITE, MAP_SHARED, fd[SHARE_FD_TABLE], 0);
	assert_ptr_equal(at, MAP_FAILED);
	at = mmap(NULL, sizeof(struct share_table), PROT_READ, MAP_SHARED, fd[SHARE_FD_TABLE], 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(mprotect(at, 4096, PROT_READ | PROT_WRITE), -1);
	munmap(at, sizeof(struct share_table));
	share_destroy(own);
}

/* What a broken local peer may say of a region whose key is right. None of it leads out of what is mapped. */
static void what_a_broken_table_says_of_regions_is_checked(void **state)
{
	static const uint64_t most = UINT64_MAX, extent = 1ull << EXTENT_SHIFT;
	static const struct share_region rows[] = {
		{.offset = extent - 8, .mapped = LENGTH},
		{.offset = extent, .mapped = LENGTH},
		{.offset = (uint64_t)EXTENTS << EXTENT_SHIFT, .mapped = LENGTH},
		{.offset = most, .mapped = most},
		{.offset = most - 7, .mapped = LENGTH},
		{.offset = 0, .mapped = most, .skip = UINT32_MAX},
		{.offset = 0, .mapped = LENGTH, .file = 1},
		{.offset = 0, .mapped = LENGTH, .file = SHARE_FILES},
		{.offset = 0, .mapped = LENGTH, .file = SHARE_FILES + 1},
		{.offset = most, .mapped = most, .file = UINT32_MAX},
	};
	struct share *own = make_share(1), *other = make_share(2);
	int fd[SHARE_FDS], copies[SHARE_FDS];
	char bytes[LENGTH];
	struct reach *r;

	share_fds(other, fd);
	for (int i = 0; i < SHARE_FDS; i++)
		copies[i] = dup(fd[i]);
	assert_int_equal(reach_open(&r, own, copies, 2, getpid()), 0);
	share_admit(other, 1, own->table->identity, getpid());
	fault_arm();
	share_open_qp(other, QP, WRITE | READ, PD, PAIR);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct share_region region = rows[i];
		uint8_t tag = (uint8_t)(i + 1);

		region.access = WRITE | READ;
		region.pd = PD;
		region.iova = IOVA;
		region.length = LENGTH;
		share_open_region(other, REGION, key_of(tag), &region);
		for (int again = 0; again < 3; again++)
			get(r, key_of(tag), IOVA + 8 * (unsigned)again, bytes, LENGTH - 64);
		share_close_region(other, REGION);
	}
	pair.qp = SHARE_QPS; /* of a QPN that no process has */
	assert_false(get(r, key_of(1), IOVA, bytes, 8));
	assert_false(reach_is_open(r, &pair));
	reach_close(r);
	share_destroy(other);
	share_destroy(own);
}

/* ---- races ---- */

/* Opens and closes a region again and again; once it is closed, nothing changes in it. */
static void close_while_others_write(struct world *w, bool may_move)
{
	char *at = fresh(LENGTH);
	unsigned writes = 0;

	share_open_qp(w->own, QP, WRITE, PD, PAIR);
	for (unsigned i = 0; i < rounds(600); i++) {
		volatile char *seen = at + LENGTH / 2;
		struct shareable where;

		memset(at, '.', LENGTH);
		open_region(w->own, at, (uint8_t)(1 + i % 255), may_move, &where);
		/* as often as not, it closes in the middle of something; once at least, however busy the machine is */
		for (int n = 0; i % 2 && *seen == '.' && (n < 100 || !writes); n++)
			sched_yield();
		for (unsigned n = 0; n < i % 97; n++)
			writes += *seen == 'x';
		close_region(w->own, at, &where);
		memset(at, '-', LENGTH);
		for (unsigned n = 0; n < 20; n++) {
			if (n % 4 == 0)
				sched_yield();
			for (int k = 0; k < LENGTH; k += 8)
				if (((volatile char *)at)[k] != '-')
					fail_msg("round %u: somebody wrote after the region was closed", i);
		}
	}
	assert_true(writes > 0);
	munmap(at, LENGTH);
}

static void nobody_writes_to_a_closed_region(void **state)
{
	struct world w;

	begin(&w, write_all_the_time, true);
	close_while_others_write(&w, true);
	end(&w, false);
}

static void nor_by_the_kernel(void **state)
{
	struct world w;

	begin(&w, write_all_the_time, true);
	if (reach_has_process_vm(w.child))
		close_while_others_write(&w, false);
	else
		print_message("# process_vm_writev is not allowed here\n");
	end(&w, false);
}

static void nor_without_membarrier(void **state)
{
	struct world w;

	begin(&w, write_all_the_time, false);
	close_while_others_write(&w, true);
	end(&w, false);
}

static void *write_in_a_thread(void *world)
{
	struct world *w = world;

	write_all_the_time(w->own, w->child, w->socket);
	return NULL;
}

/* The same within one process: here ThreadSanitizer sees both sides. */
static void nor_by_threads(void **state)
{
	struct world w = {.own = make_share(1)};
	pthread_t thread;
	int socket[2];

	assert_int_equal(reach_self(&w.child, w.own), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socket), 0);
	w.socket = socket[0];
	share_open_qp(w.own, QP, WRITE, PD, PAIR);
	assert_int_equal(pthread_create(&thread, NULL, write_in_a_thread, &w), 0);
	for (unsigned i = 0; i < rounds(600); i++) {
		struct shareable where;
		char *at = fresh(LENGTH);

		open_region(w.own, at, (uint8_t)(1 + i % 255), true, &where);
		for (unsigned n = 0; n < i % 7; n++)
			sched_yield();
		close_region(w.own, at, &where);
		memset(at, '-', LENGTH); /* a race, if anybody were inside */
		munmap(at, LENGTH);	 /* a crash */
	}
	close(socket[1]);
	pthread_join(thread, NULL);
	close(socket[0]);
	reach_close(w.child);
	share_destroy(w.own);
}

static void closed_qps_are_left_alone(void **state)
{
	char *at = fresh(LENGTH);
	struct shareable where;
	struct world w;

	begin(&w, write_all_the_time, true);
	open_region(w.own, at, 1, true, &where);
	for (unsigned i = 0; i < rounds(300); i++) {
		memset(at, '.', LENGTH);
		share_open_qp(w.own, QP, WRITE, PD, PAIR);
		for (unsigned n = 0; ((volatile char *)at)[LENGTH / 2] == '.' && n < 20; n++)
			sched_yield();
		share_close_qp(w.own, QP);
		share_settle(w.own);
		memset(at, '-', LENGTH);
		for (unsigned n = 0; n < 20; n++)
			for (int k = 0; k < LENGTH; k += 8)
				if (((volatile char *)at)[k] != '-')
					fail_msg("round %u: somebody wrote after the QP was closed", i);
	}
	close_region(w.own, at, &where);
	munmap(at, LENGTH);
	end(&w, false);
}

/* ---- death ---- */

static void die_inside(struct share *own, struct reach *parent, int socket)
{
	struct reach_span span;

	if (reach_enter(parent, &pair, key_of(1), IOVA, 8, WRITE, &span))
		kill(getpid(), SIGKILL);
}

static void who_is_killed_inside_is_not_waited_for(void **state)
{
	char *at = fresh(LENGTH);

	for (int i = 0; i < 20; i++) {
		struct shareable where;
		struct world w;
		char byte;

		begin(&w, die_inside, i % 2);
		open_region(w.own, at, 1, true, &where);
		share_open_qp(w.own, QP, WRITE, PD, PAIR);
		/* it may be too early for it, and then it just ends: that is the case without a visit */
		(void)!read(w.socket, &byte, 1);
		close_region(w.own, at, &where);
		end(&w, true);
	}
	munmap(at, LENGTH);
}

/* Opens a region, and waits for its end. */
static void live(struct share *own, struct reach *parent, int socket)
{
	struct shareable where;

	share_begin_life(own);
	open_region(own, fresh(LENGTH), 1, true, &where);
	share_open_qp(own, QP, WRITE | READ, PD, PAIR);
	tell(socket, 'o');
	hear(socket, 'e');
}

static void who_has_died_is_not_visited_any_more(void **state)
{
	struct world w;
	siginfo_t info;

	begin(&w, live, true);
	assert_true(hear(w.socket, 'o'));
	assert_true(put(w.child, key_of(1), IOVA, "x", 1));
	kill(w.pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)w.pid, &info, WEXITED | WNOWAIT), 0);
	assert_false(put(w.child, key_of(1), IOVA, "x", 1));
	end(&w, true);
}

static void another_in_its_place_starts_afresh(void **state)
{
	struct share *own = make_share(1), *other = make_share(2);
	struct share_visitor *v = &own->table->visitor[2];
	struct reach *r, *mine;
	int fd[SHARE_FDS];

	share_fds(other, fd);
	assert_int_equal(reach_open(&r, own, (int[SHARE_FDS]){dup(fd[0]), -1, dup(fd[2])}, 2, getpid()), 0);
	assert_int_equal(atomic_load(&v->admitted), other->table->identity);
	atomic_store(&v->hazard[4].count, 7); /* died inside */
	reach_dead(r);
	reach_dead(r);
	assert_int_equal(atomic_load(&v->admitted), 0);
	share_fds(own, fd);
	assert_int_equal(reach_open(&mine, other, (int[SHARE_FDS]){dup(fd[0]), -1, dup(fd[2])}, 1, getpid()), 0);
	assert_false(put(mine, key_of(1), IOVA, "x", 1)); /* expelled */
	share_settle(own);

	share_admit(own, 2, 4711, getpid());
	assert_int_equal(atomic_load(&v->hazard[4].count), 0);
	reach_dead(r); /* what is known of the old one says nothing of the new one */
	assert_int_equal(atomic_load(&v->admitted), 4711);
	share_settle(own);
	reach_close(r);
	reach_close(mine);
	share_destroy(own);
	share_destroy(other);
}

static void one_settling_does_for_all_that_was_closed(void **state)
{
	struct share *own = make_share(1);
	struct reach *self;
	uint64_t closed;

	share_open_qp(own, QP, WRITE, PD, PAIR);
	share_close_qp(own, QP);
	assert_true(share_has_settled(own, share_closed(own))); /* nobody may come */
	assert_int_equal(reach_self(&self, own), 0);
	share_open_qp(own, QP, WRITE, PD, PAIR);
	assert_false(share_has_settled(own, share_closed(own)));
	share_settle(own);
	closed = share_closed(own);
	assert_true(share_has_settled(own, closed));

	share_close_qp(own, QP);
	assert_int_equal(share_closed(own), closed + 1);
	share_close_qp(own, QP); /* it was */
	assert_int_equal(share_closed(own), closed + 1);
	assert_false(share_has_settled(own, closed + 1));
	share_settle(own);
	assert_true(share_has_settled(own, closed + 1));
	reach_close(self);
	share_destroy(own);
}

static void a_region_that_is_open_again_has_another_key(void **state)
{
	struct share *own = make_share(1);
	char *at = fresh(LENGTH);
	struct shareable where;
	struct reach *self;

	assert_int_equal(reach_self(&self, own), 0);
	open_region(own, at, 1, true, &where);
	share_open_qp(own, QP, WRITE | READ, PD, PAIR);
	share_close_region(own, REGION);
	assert_false(put(self, key_of(1), IOVA, "x", 1));
	share_settle(own);
	share_reopen_region(own, REGION, key_of(2));
	assert_false(put(self, key_of(1), IOVA, "x", 1));
	assert_true(put(self, key_of(2), IOVA, "y", 1));
	assert_int_equal(*at, 'y');
	close_region(own, at, &where);
	reach_close(self);
	share_destroy(own);
	munmap(at, LENGTH);
}

static bool again(struct reach *r, uint32_t key, uint64_t va, uint64_t length, unsigned access, const char *expected)
{
	char *at = reach_again(r, &pair, key, va, length, access);

	if (at)
		reach_leave(r);
	return at && at == expected;
}

static void who_comes_again_is_let_in_until_something_is_closed(void **state)
{
	const struct share_region elsewhere = {.access = WRITE, .pd = PD, .iova = IOVA, .length = LENGTH};
	struct share_region other = elsewhere;
	struct share *own = make_share(1);
	char *at = fresh(LENGTH), *there = fresh(LENGTH);
	struct shareable where;
	struct reach *self;
	char byte;
	const struct {
		uint32_t key;
		uint64_t va, length;
		unsigned access;
		const char *at;
	} rows[] = {
		{key_of(1), IOVA, LENGTH, WRITE | READ, at},
		{key_of(1), IOVA + 8, 8, WRITE, at + 8},
		{key_of(1), IOVA + LENGTH - 1, 1, READ, at + LENGTH - 1},
		{key_of(1), IOVA, 1, 0, at},
		{key_of(1), IOVA + LENGTH, 1, READ, NULL},
		{key_of(1), IOVA - 1, 1, READ, NULL},
		{key_of(1), IOVA - 1, 2, READ, NULL},
		{key_of(1), IOVA, LENGTH + 1, READ, NULL},
		{key_of(1), IOVA + 1, LENGTH, READ, NULL},
		{key_of(1), IOVA + 1, UINT64_MAX, READ, NULL},
		{key_of(1), UINT64_MAX, 2, READ, NULL},
		{key_of(1), IOVA, 8, 1 << 3, NULL}, /* no atomics here */
		{key_of(1), IOVA, 8, READ | 1 << 3, NULL},
		{key_of(2), IOVA, 8, READ, NULL},
		{0, IOVA, 8, READ, NULL},
	};

	assert_int_equal(reach_self(&self, own), 0);
	open_region(own, at, 1, true, &where);
	share_open_qp(own, QP, WRITE | READ, PD, PAIR);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) /* nobody has been anywhere yet */
		assert_null(reach_again(self, &pair, rows[i].key, rows[i].va, rows[i].length, rows[i].access));
	assert_true(put(self, key_of(1), IOVA, "x", 1));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (again(self, rows[i].key, rows[i].va, rows[i].length, rows[i].access, rows[i].at) != !!rows[i].at)
			fail_msg("row %zu", i);

	/* opening closes nothing; but rights that it takes away, or another peer */
	share_open_qp(own, QP, WRITE | READ, PD, PAIR);
	assert_true(again(self, key_of(1), IOVA, 8, READ, at));
	share_open_qp(own, QP, READ, PD, PAIR);
	assert_false(again(self, key_of(1), IOVA, 8, WRITE, at));
	assert_false(put(self, key_of(1), IOVA, "x", 1));
	assert_true(get(self, key_of(1), IOVA, &byte, 1));
	assert_true(again(self, key_of(1), IOVA, 8, READ, at));
	assert_false(again(self, key_of(1), IOVA, 8, WRITE,
			   at)); /* it is the same region, but what may be done with it is not */
	share_open_qp(own, QP, READ, PD + 1, PAIR);
	assert_false(again(self, key_of(1), IOVA, 8, READ, at));
	share_open_qp(own, QP, READ, PD, PAIR + 1);
	assert_false(again(self, key_of(1), IOVA, 8, READ, at));
	assert_false(get(self, key_of(1), IOVA, &byte, 1));

	/* the same key, of other memory */
	share_open_qp(own, QP, WRITE | READ, PD, PAIR);
	assert_true(put(self, key_of(1), IOVA, "y", 1));
	close_region(own, at, &where);
	assert_false(again(self, key_of(1), IOVA, 8, WRITE, at));
	other.address = (uintptr_t)there;
	share_open_region(own, REGION, key_of(1), &other);
	assert_false(again(self, key_of(1), IOVA, 8, WRITE, there)); /* not known yet */
	assert_true(put(self, key_of(1), IOVA, "z", 1));
	assert_true(again(self, key_of(1), IOVA, 8, WRITE, there));
	assert_int_equal(*at, 'y');
	assert_int_equal(*there, 'z');

	/* a process that is expelled, or dead */
	reach_dead(self);
	assert_false(again(self, key_of(1), IOVA, 8, WRITE, there));
	share_close_region(own, REGION);
	reach_close(self);
	share_destroy(own);
	munmap(at, LENGTH);
	munmap(there, LENGTH);
}

static void a_child_of_fork_changes_nothing(void **state)
{
	struct share *own = make_share(1);
	char *at = fresh(LENGTH);
	struct shareable where;
	struct reach *self;
	int status;
	pid_t pid;
	char byte;

	assert_int_equal(reach_self(&self, own), 0);
	open_region(own, at, 1, true, &where);
	share_open_qp(own, QP, WRITE | READ, PD, PAIR);
	pid = fork();
	if (!pid) {
		share_abandon(own);
		if (put(self, key_of(1), IOVA, "x", 1) || get(self, key_of(1), IOVA, &byte, 1))
			_exit(1);
		close_region(own, at, &where);
		share_close_qp(own, QP);
		share_open_qp(own, QP, 0, 0, 0);
		share_settle(own);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(put(self, key_of(1), IOVA, "x", 1));
	assert_int_equal(*at, 'x');
	close_region(own, at, &where);
	reach_close(self);
	share_destroy(own);
	munmap(at, LENGTH);
}

/* ---- threads ---- */

struct crowd {
	struct reach *reach;
	_Atomic int inside, refused;
	pthread_barrier_t all;
};

static void *enter_together(void *arg)
{
	struct crowd *c = arg;
	struct reach_span span;
	bool ok = reach_enter(c->reach, &pair, key_of(1), IOVA, 8, WRITE, &span);

	atomic_fetch_add(ok ? &c->inside : &c->refused, 1);
	pthread_barrier_wait(&c->all);
	if (ok)
		reach_leave(c->reach);
	return NULL;
}

static void threads_have_a_hazard_each_while_there_are_any(void **state)
{
	enum { THREADS = SHARE_HAZARDS + 10 };
	struct share *own = make_share(1);
	char *at = fresh(LENGTH);
	struct shareable where;
	pthread_t thread[THREADS];

	open_region(own, at, 1, true, &where);
	share_open_qp(own, QP, WRITE, PD, PAIR);
	for (int round = 0; round < 3; round++) { /* threads that end leave theirs to others */
		struct crowd c = {0};

		assert_int_equal(reach_self(&c.reach, own), 0);
		pthread_barrier_init(&c.all, NULL, THREADS);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&thread[i], NULL, enter_together, &c), 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		assert_int_equal(c.inside + c.refused, THREADS);
		assert_in_range(c.inside, SHARE_HAZARDS - 1, SHARE_HAZARDS); /* the main thread may have one */
		pthread_barrier_destroy(&c.all);
		reach_close(c.reach);
	}
	close_region(own, at, &where);
	share_destroy(own);
	munmap(at, LENGTH);
}

static void both_ends_compute_the_same_pair(void **state)
{
	static const uint8_t a[16] = {1, 2, 3}, b[16] = {1, 2, 4};

	assert_true(share_pair(a, 1, b, 2) == share_pair(a, 1, b, 2));
	assert_true(share_pair(a, 1, b, 2) != share_pair(b, 2, a, 1));
	assert_true(share_pair(a, 1, b, 2) != share_pair(a, 1, b, 3));
	assert_true(share_pair(a, 1, b, 2) != share_pair(a, 2, b, 2));
	assert_true(share_pair(a, 1, b, 2) != share_pair(a, 1, a, 2));
	assert_true(share_pair(a, 1, b, 2) != share_pair(b, 1, b, 2));
}

static void keys_are_split_as_they_are_made(void **state)
{
	struct key_code code = key_code(MIX, MASK);

	for (uint32_t i = 0; i < 1u << 24; i += 997)
		assert_int_equal(key_index(&code, key_make(&code, i, (uint8_t)i)), i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_come_and_go_by_either_way),
		cmocka_unit_test(what_is_not_open_is_not_reached),
		cmocka_unit_test(tables_of_others_are_refused),
		cmocka_unit_test(tables_that_could_be_cut_are_refused),
		cmocka_unit_test(a_local_peer_can_neither_cut_nor_forge_a_table),
		cmocka_unit_test(what_a_broken_table_says_of_regions_is_checked),
		cmocka_unit_test(nobody_writes_to_a_closed_region),
		cmocka_unit_test(nor_by_the_kernel),
		cmocka_unit_test(nor_without_membarrier),
		cmocka_unit_test(nor_by_threads),
		cmocka_unit_test(closed_qps_are_left_alone),
		cmocka_unit_test(who_is_killed_inside_is_not_waited_for),
		cmocka_unit_test(who_has_died_is_not_visited_any_more),
		cmocka_unit_test(another_in_its_place_starts_afresh),
		cmocka_unit_test(one_settling_does_for_all_that_was_closed),
		cmocka_unit_test(a_region_that_is_open_again_has_another_key),
		cmocka_unit_test(who_comes_again_is_let_in_until_something_is_closed),
		cmocka_unit_test(a_child_of_fork_changes_nothing),
		cmocka_unit_test(threads_have_a_hazard_each_while_there_are_any),
		cmocka_unit_test(both_ends_compute_the_same_pair),
		cmocka_unit_test(keys_are_split_as_they_are_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
