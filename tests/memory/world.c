// SPDX-License-Identifier: BSD-2-Clause
#include "memory/world.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

bool world_catches;

unsigned rounds(unsigned n)
{
	const char *quick = getenv("UROCE_QUICK");

	return quick && *quick ? n / 20 + 1 : n;
}

_Thread_local struct reach_pair pair = {.pair = PAIR, .qp = QP};
_Thread_local struct reach_pair stranger = {.pair = PAIR + 1, .qp = QP};

uint32_t key_of(uint8_t tag)
{
	struct key_code code = key_code(MIX, MASK);

	return key_make(&code, REGION, tag);
}

char *fresh(size_t length)
{
	char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

struct share *make_share(uint8_t slot)
{
	struct share *s;

	pair = (struct reach_pair){.pair = PAIR, .qp = QP};
	stranger = (struct reach_pair){.pair = PAIR + 1, .qp = QP};
	assert_int_equal(share_create(&s, slot, MIX, MASK, 1000 + slot), 0);
	return s;
}

/* `r` says where others find it. */
static void publish(struct share *s, char *at, uint8_t tag, struct share_region *r)
{
	r->access = WRITE | READ;
	r->pd = PD;
	r->iova = IOVA;
	r->length = LENGTH;
	r->address = (uintptr_t)at;
	share_open_region(s, REGION, key_of(tag), r);
}

static void withdraw(struct share *s)
{
	share_close_region(s, REGION);
	share_settle(s);
}

void open_region(struct share *s, char *at, uint8_t tag, bool may_move, struct shareable *where)
{
	shareable_make(s->arena, at, LENGTH, may_move, where);
	publish(s, at, tag,
		&(struct share_region){.offset = where->offset, .mapped = where->mapped, .skip = where->skip});
}

void close_region(struct share *s, char *at, const struct shareable *where)
{
	withdraw(s);
	shareable_release(s->arena, at, LENGTH, where);
}

void open_exported(struct share *s, char *at, uint8_t tag, struct exported *where)
{
	export_make(s, at, LENGTH, where);
	publish(s, at, tag,
		&(struct share_region){.offset = where->offset, .mapped = where->mapped, .file = where->file});
}

void close_exported(struct share *s, const struct exported *where)
{
	withdraw(s);
	export_release(s, where->file);
}

/* A copy may fault. */
struct copy {
	struct reach *r;
	const struct reach_span *span;
	const struct iovec *iov;
	bool writes, done;
};

static void copy(void *arg)
{
	struct copy *c = arg;

	c->done = c->writes ? reach_write(c->r, c->span, c->iov, 1, c->iov->iov_len)
			    : reach_read(c->r, c->span, c->iov, 1, c->iov->iov_len);
}

bool put(struct reach *r, uint32_t key, uint64_t va, const void *bytes, size_t length)
{
	struct iovec from = {(void *)bytes, length};
	struct reach_span span;
	struct copy c = {r, &span, &from, .writes = true};
	char *at = reach_again(r, &pair, key, va, length, WRITE);
	bool ok;

	if (at) {
		ok = fault_copy_any(at, bytes, length);
		reach_leave(r);
		return ok;
	}
	if (!reach_enter(r, &pair, key, va, length, WRITE, &span))
		return false;
	ok = fault_try(copy, &c) && c.done;
	reach_leave(r);
	return ok;
}

bool get(struct reach *r, uint32_t key, uint64_t va, void *bytes, size_t length)
{
	struct iovec to = {bytes, length};
	struct reach_span span;
	struct copy c = {r, &span, &to};
	char *at = reach_again(r, &pair, key, va, length, READ);
	bool ok;

	if (at) {
		ok = fault_copy_any(bytes, at, length);
		reach_leave(r);
		return ok;
	}
	if (!reach_enter(r, &pair, key, va, length, READ, &span))
		return false;
	ok = fault_try(copy, &c) && c.done;
	reach_leave(r);
	return ok;
}

/* ---- introductions ---- */

struct card {
	uint8_t slot;
	bool has_arena;
	pid_t pid;
};

/* ... and the descriptors that come with it: of its table, the visitors' part, and its arena if it has one. */
union descriptors {
	struct cmsghdr header;
	char room[CMSG_SPACE(SHARE_FDS * sizeof(int))];
};

void show_card(int socket, struct share *s)
{
	struct card card = {.slot = s->slot, .pid = getpid()};
	struct iovec iov = {&card, sizeof(card)};
	union descriptors control = {0};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
	int fd[SHARE_FDS], sent[SHARE_FDS];

	share_fds(s, fd);
	sent[0] = fd[SHARE_FD_TABLE];
	sent[1] = fd[SHARE_FD_VISITOR];
	sent[2] = fd[SHARE_FD_ARENA];
	card.has_arena = sent[2] >= 0;
	m.msg_controllen = CMSG_SPACE((2 + card.has_arena) * sizeof(int));
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN((2 + card.has_arena) * sizeof(int));
	memcpy(CMSG_DATA(&control.header), sent, (2 + card.has_arena) * sizeof(int));
	assert_int_equal(sendmsg(socket, &m, 0), sizeof(card));
}

struct reach *meet(int socket, struct share *own)
{
	struct card card;
	struct iovec iov = {&card, sizeof(card)};
	union descriptors control = {0};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	int got[SHARE_FDS] = {-1, -1, -1};
	struct reach *r;

	show_card(socket, own);
	assert_int_equal(recvmsg(socket, &m, 0), sizeof(card));
	memcpy(got, CMSG_DATA(&control.header), (2 + card.has_arena) * sizeof(int));
	assert_int_equal(
		reach_open(&r, own,
			   (int[SHARE_FDS]){
				   [SHARE_FD_TABLE] = got[0], [SHARE_FD_VISITOR] = got[1], [SHARE_FD_ARENA] = got[2]},
			   card.slot, card.pid),
		0);
	return r;
}

void tell(int socket, char word)
{
	assert_int_equal(write(socket, &word, 1), 1);
}

bool hear(int socket, char word)
{
	char heard = 0;

	return read(socket, &heard, 1) == 1 && heard == word;
}

void begin(struct world *w, child_main *child, bool with_barrier)
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
		if (world_catches)
			fault_arm();
		child(w->own, w->child, w->socket);
		_exit(0);
	}
}

void end(struct world *w, bool killed)
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

int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* ---- a visitor ---- */

void write_all_the_time(struct share *own, struct reach *parent, int socket)
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
