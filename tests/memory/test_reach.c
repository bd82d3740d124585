/* Processes that reach into each other's memory: what is let in, what is kept out, and that nobody is inside any more when a
 * region or a QP has been closed. SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/adopt.h"
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

static unsigned rounds(unsigned n)
{
	const char *quick = getenv("UROCE_QUICK");

	return quick && *quick ? n / 20 + 1 : n;
}

static const struct reach_pair pair = {QP, PAIR};
static const struct reach_pair stranger = {QP, PAIR + 1};

static uint32_t key_of(uint8_t tag)
{
	struct key_code code = key_code(MIX, MASK);

	return key_make(&code, REGION, tag);
}

static char *fresh(size_t length)
{
	char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static struct share *make_share(uint8_t slot)
{
	struct share *s;

	assert_int_equal(share_create(&s, slot, MIX, MASK, 1000 + slot), 0);
	return s;
}

/* Opens a region of LENGTH bytes at `at`; *where is for close_region(). */
static void open_region(struct share *s, char *at, uint8_t tag, bool may_move, struct adopted *where)
{
	adopt(s->arena, at, LENGTH, may_move, where);
	share_open_region(s, REGION, key_of(tag),
			  &(struct share_region){
				  .access = WRITE | READ,
				  .pd = PD,
				  .iova = IOVA,
				  .length = LENGTH,
				  .address = (uintptr_t)at,
				  .offset = where->offset,
				  .mapped = where->mapped,
				  .skip = where->skip,
			  });
}

static void close_region(struct share *s, char *at, const struct adopted *where)
{
	if (share_close_region(s, REGION))
		share_settle(s);
	adopt_release(s->arena, at, LENGTH, where);
}

static bool put(struct reach *r, uint32_t key, uint64_t va, const void *bytes, size_t length)
{
	struct iovec from = {(void *)bytes, length};
	struct reach_span span;
	bool ok;

	if (!reach_enter(r, &pair, key, va, length, WRITE, &span))
		return false;
	ok = reach_write(r, &span, &from, 1, length);
	reach_leave(r);
	return ok;
}

static bool get(struct reach *r, uint32_t key, uint64_t va, void *bytes, size_t length)
{
	struct iovec to = {bytes, length};
	struct reach_span span;
	bool ok;

	if (!reach_enter(r, &pair, key, va, length, READ, &span))
		return false;
	ok = reach_read(r, &span, &to, 1, length);
	reach_leave(r);
	return ok;
}

/* ---- introductions ---- */

struct card {
	uint8_t slot;
	bool has_arena;
	pid_t pid;
};

static void show_card(int socket, struct share *s)
{
	struct card card = {.slot = s->slot, .pid = getpid()};
	struct iovec iov = {&card, sizeof(card)};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
	int fd[2];

	share_fds(s, fd);
	card.has_arena = fd[1] >= 0;
	m.msg_controllen = CMSG_SPACE((1 + card.has_arena) * sizeof(int));
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN((1 + card.has_arena) * sizeof(int));
	memcpy(CMSG_DATA(&control.header), fd, (1 + card.has_arena) * sizeof(int));
	assert_int_equal(sendmsg(socket, &m, 0), sizeof(card));
}

static struct reach *meet(int socket, struct share *own)
{
	struct card card;
	struct iovec iov = {&card, sizeof(card)};
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	int fd[2] = {-1, -1};
	struct reach *r;

	show_card(socket, own);
	assert_int_equal(recvmsg(socket, &m, 0), sizeof(card));
	memcpy(fd, CMSG_DATA(&control.header), (1 + card.has_arena) * sizeof(int));
	assert_int_equal(reach_open(&r, own, fd[0], fd[1], card.slot, card.pid), 0);
	return r;
}

static void tell(int socket, char word)
{
	assert_int_equal(write(socket, &word, 1), 1);
}

static bool hear(int socket, char word)
{
	char heard = 0;

	return read(socket, &heard, 1) == 1 && heard == word;
}

/* This process and a child that has memory of its own to visit, each introduced to the other. */
struct world {
	struct share *own;
	struct reach *child;
	pid_t pid;
	int socket;
};

typedef void child_main(struct share *own, struct reach *parent, int socket);

static void begin(struct world *w, child_main *child, bool with_barrier)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	w->pid = fork();
	assert_true(w->pid >= 0);
	w->socket = pair[w->pid != 0];
	close(pair[w->pid == 0]);
	w->own = make_share(w->pid ? 1 : 2);
	w->own->table->barrier &= with_barrier;
	w->child = meet(w->socket, w->own);
	tell(w->socket, 'm');
	if (!hear(w->socket, 'm')) /* each is admitted by the other */
		_exit(1);
	if (!w->pid) {
		child(w->own, w->child, w->socket);
		_exit(0);
	}
}

static void end(struct world *w, bool killed)
{
	int status;

	if (!killed)
		tell(w->socket, 'e');
	close(w->socket);
	assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
	if (!killed)
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	reach_close(w->child);
	share_destroy(w->own);
}

/* ---- what is let in ---- */

/* Opens a region, adopted or not, with a page of a pattern, and waits to be told to go. */
static void be_visited(struct share *own, struct reach *parent, int socket)
{
	char *at = fresh(2 * LENGTH);
	struct adopted where;
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
		const struct reach_pair *pair;
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
		bool ok = reach_enter(w.child, rows[i].pair, rows[i].key, rows[i].va, rows[i].length, rows[i].access, &span);

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

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void tables_of_others_are_refused(void **state)
{
	struct share *own = make_share(1);
	struct reach *r;
	int before = descriptors(), fd = memfd_create("nonsense", MFD_CLOEXEC);

	assert_int_equal(reach_open(&r, own, fd, -1, 2, getpid()), -EPROTO);
	fd = memfd_create("nonsense", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, sizeof(struct share_table)), 0);
	assert_int_equal(reach_open(&r, own, fd, dup(0), 2, getpid()), -EPROTO);
	assert_int_equal(descriptors(), before); /* they were taken over */
	share_destroy(own);
}

/* ---- races ---- */

/* Writes to whatever region of the parent is open, until the socket closes. Each byte that it writes is 'x'. */
static void write_all_the_time(struct share *own, struct reach *parent, int socket)
{
	char bytes[LENGTH];
	uint64_t word[512];

	memset(bytes, 'x', sizeof(bytes));
	memset(word, 0, sizeof(word));
	for (unsigned n = 0;; n++) {
		for (int tag = 1; tag < 256; tag++)
			put(parent, key_of((uint8_t)tag), IOVA + n % 3 * 8, bytes, n % 2 ? 64 : LENGTH - 16);
		if (n % 16 == 0 && recv(socket, word, sizeof(word), MSG_DONTWAIT) >= 0)
			return;
	}
}

/* Opens and closes a region again and again; once it is closed, nothing changes in it. */
static void close_while_others_write(struct world *w, bool may_move)
{
	char *at = fresh(LENGTH);
	unsigned writes = 0;

	share_open_qp(w->own, QP, WRITE, PD, PAIR);
	for (unsigned i = 0; i < rounds(600); i++) {
		volatile char *seen = at + LENGTH / 2;
		struct adopted where;

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
		struct adopted where;
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
	struct adopted where;
	struct world w;

	begin(&w, write_all_the_time, true);
	open_region(w.own, at, 1, true, &where);
	for (unsigned i = 0; i < rounds(300); i++) {
		memset(at, '.', LENGTH);
		share_open_qp(w.own, QP, WRITE, PD, PAIR);
		for (unsigned n = 0; ((volatile char *)at)[LENGTH / 2] == '.' && n < 20; n++)
			sched_yield();
		if (share_close_qp(w.own, QP))
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
		struct adopted where;
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

static void another_in_its_place_starts_afresh(void **state)
{
	struct share *own = make_share(1), *other = make_share(2);
	struct share_visitor *v = &own->table->visitor[2];
	struct reach *r, *mine;
	int fd[2];

	share_fds(other, fd);
	assert_int_equal(reach_open(&r, own, dup(fd[0]), -1, 2, getpid()), 0);
	assert_int_equal(atomic_load(&v->admitted), other->table->identity);
	atomic_store(&v->cell[4].count, 7); /* died inside */
	reach_dead(r);
	reach_dead(r);
	assert_int_equal(atomic_load(&v->admitted), 0);
	share_fds(own, fd);
	assert_int_equal(reach_open(&mine, other, dup(fd[0]), -1, 1, getpid()), 0);
	assert_false(put(mine, key_of(1), IOVA, "x", 1)); /* expelled */
	share_settle(own);

	share_admit(own, 2, 4711, getpid());
	assert_int_equal(atomic_load(&v->cell[4].count), 0);
	reach_dead(r); /* what is known of the old one says nothing of the new one */
	assert_int_equal(atomic_load(&v->admitted), 4711);
	share_settle(own);
	reach_close(r);
	reach_close(mine);
	share_destroy(own);
	share_destroy(other);
}

static void a_child_of_fork_changes_nothing(void **state)
{
	struct share *own = make_share(1);
	char *at = fresh(LENGTH);
	struct adopted where;
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

static void threads_have_a_cell_each_while_there_are_any(void **state)
{
	enum { THREADS = SHARE_CELLS + 10 };
	struct share *own = make_share(1);
	char *at = fresh(LENGTH);
	struct adopted where;
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
		assert_in_range(c.inside, SHARE_CELLS - 1, SHARE_CELLS); /* the main thread may have one */
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
		cmocka_unit_test(nobody_writes_to_a_closed_region),
		cmocka_unit_test(nor_by_the_kernel),
		cmocka_unit_test(nor_without_membarrier),
		cmocka_unit_test(nor_by_threads),
		cmocka_unit_test(closed_qps_are_left_alone),
		cmocka_unit_test(who_is_killed_inside_is_not_waited_for),
		cmocka_unit_test(another_in_its_place_starts_afresh),
		cmocka_unit_test(a_child_of_fork_changes_nothing),
		cmocka_unit_test(threads_have_a_cell_each_while_there_are_any),
		cmocka_unit_test(both_ends_compute_the_same_pair),
		cmocka_unit_test(keys_are_split_as_they_are_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
