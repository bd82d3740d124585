/* SPDX-License-Identifier: BSD-2-Clause */
/* A hostile local peer: another process of this user, as the kernel sees it, that says and writes what it wants. It
 * introduces itself, with descriptors that may be wrong; writes records into its ring, and into the words of both
 * rings; changes the table of its memory, and the files that it exports, while this process accesses them; and goes.
 *
 * It costs its own connections. The connections of this process to others live, no byte outside the regions changes,
 * and no descriptor is left behind. Seeds: corpus/local, made by local-seeds.py. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memfd.h"
#include "link/ring.h"
#include "host/callers.h"
#include "host/introduction.h"
#include "host/slot.h"
#include "loop/loop.h"
#include "port/local.h"
#include "port/local_link.h"
#include "port/local_peer.h"
#include "memory/fault.h"
#include "memory/reach.h"
#include "memory/shareable.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum kind {
	GREET,	/* with the descriptors of a set in `value`; the bytes change the greeting, from `at` on */
	RECORD, /* the next one in the ring; `value` & 1: its size as the bytes say, 2: for a QP as they say */
	WORDS,	/* of a ring: `value` & 1: ours; which word in the rest */
	TABLE,	/* the bytes go into the entry `value` of the table, from `at` on */
	SEND,	/* the connected queue pair posts a request, to what the table shows; which region in the high bits */
	SLEEP,	/* the process looks whether it may sleep */
	PART,	/* the peer closes its connections */
	RESIZE, /* the exported file has `value` eighths of its size */
	SIGNAL, /* the program installs a handler of SIGBUS of its own */
	KINDS
};

struct step {
	uint8_t kind, value, at, length;
};

enum {
	PEER_QP = 5,
	REGION = 7, /* the index of the first in the table: in the arena, a file, a segment, and a long one */
	REGIONS = 4,
	HEADER = 64, /* bytes */
	LENGTH = 64 << 10,
	LONG = 8 << 20,
	ADDRESS = 64 << 20,
	PD = 1,
	ALL = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	MIX = 0x1234567,
	MASK = 0xabcdef,
	CALLS = 4,
	HIGH = 512, /* where base/high_fd.c puts them */
	KEPT = 24,  /* descriptors that the library may keep: sockets to peers by UDP */
};

static struct {
	struct slot slot;
	struct qp *qp, *ud;   /* connected to the peer; anybody's */
	int listener;	      /* the peer's */
	int call[CALLS];      /* from the peer to this process; -1: none */
	int heard;	      /* this process's to the peer, accepted; -1: none */
	struct ring to, from; /* the peer's view of both rings */
	struct share *share;  /* the peer's table */
	int arena;	      /* the memory that it shares */
	int file;	      /* exported; it may shrink */
	int segment;	      /* exported, of SysV */
	uint32_t key[REGIONS];
	uint64_t serial;	/* of the last file */
	uint8_t header[HEADER]; /* the first fields of the table, as they were */
	int free_fd[2];		/* the lowest free descriptors, after the first input */
} peer = {.call = {-1, -1, -1, -1}, .heard = -1};

/* ---- the peer ---- */

static uint32_t qpn_of_peer(void)
{
	return (uint32_t)peer.slot.number << SLOT_SHIFT | PEER_QP;
}

/* What the peer shows of that QP. */
static uint32_t index_of_peer(void)
{
	return qpn_of_peer() & (SHARE_QPS - 1);
}

static void make_peer(void)
{
	struct key_code code = key_code(MIX, MASK);

	reach_no_process_vm = true; /* the peer is this process: only its shared memory is another's */
	peer.qp = world_make_qp(IBV_QPT_RC);
	peer.ud = world_make_qp(IBV_QPT_UD);
	require(!slot_claim(&peer.slot));
	peer.listener = introduction_listen(peer.slot.number);
	require(peer.listener >= 0);
	require(!share_create(&peer.share, peer.slot.number, MIX, MASK, 0x1234567));
	/* not share->arena: that is this process's */
	peer.arena = memfd_of_size("arena", 0, (uint64_t)EXTENTS << EXTENT_SHIFT);
	require(peer.arena >= 0);
	peer.file = memfd_create("exported", MFD_CLOEXEC);
	peer.segment = shmget(IPC_PRIVATE, LENGTH, IPC_CREAT | 0600);
	require(peer.file >= 0 && peer.segment >= 0 && shmat(peer.segment, NULL, 0) != MAP_FAILED);
	shmctl(peer.segment, IPC_RMID, NULL); /* it goes with this process */
	for (uint32_t i = 0; i < REGIONS; i++)
		peer.key[i] = key_make(&code, REGION + i, 1);
	memcpy(peer.header, peer.share->table, sizeof(peer.header));
}

static void fill_files(void)
{
	struct share_file *f = peer.share->table->file;
	struct stat st;

	require(!ftruncate(peer.file, LENGTH) && !fstat(peer.file, &st));
	memset(f, 0, sizeof(peer.share->table->file));
	f[0] = (struct share_file){.device = st.st_dev, .inode = st.st_ino, .bytes = LENGTH, .fd = peer.file};
	f[1] = (struct share_file){.inode = (uint64_t)peer.segment, .bytes = LENGTH, .fd = -1, .kind = SHARE_SEGMENT};
	for (int i = 0; i < 2; i++) /* new ones for each input */
		atomic_store_explicit(&f[i].serial, ++peer.serial, memory_order_release);
}

/* As an honest peer would have it. */
static void fill_table(void)
{
	const uint8_t *gid = world.port->link->gid.raw;
	struct share *own = world.loop->hca.share;

	memcpy(peer.share->table, peer.header, sizeof(peer.header));
	memset(&peer.share->table->qp[index_of_peer()], 0, sizeof(struct share_qp));
	fill_files();
	for (uint32_t i = 0; i < REGIONS; i++) {
		uint64_t length = i == 3 ? LONG : LENGTH;
		const struct share_region r = {.access = ALL,
					       .pd = PD,
					       .iova = ADDRESS,
					       .length = length,
					       .address = ADDRESS,
					       .offset = i == 3 ? 5ull << EXTENT_SHIFT : 0,
					       .mapped = length,
					       .file = i == 3 ? 0 : i};

		share_open_region(peer.share, REGION + i, peer.key[i], &r);
	}
	share_open_qp(peer.share, index_of_peer(), ALL, PD, share_pair(gid, qpn_of_peer(), gid, peer.qp->base.qp_num));
	share_admit(peer.share, own->slot, own->table->identity, getpid());
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* This process sees the end of a connection. */
static void see_ends(void)
{
	struct loop *l = world.loop;
	struct local_peer *n = l->local.by_slot[peer.slot.number];
	int in = n ? n->in : -1, out = n ? n->out : -1;

	list_each_safe (i, &l->local.callers)
		local_serve_connection(l, container_of(i, struct caller, link)->fd);
	if (in >= 0)
		local_serve_connection(l, in);
	n = l->local.by_slot[peer.slot.number];
	if (out >= 0 && n && n->out == out)
		local_serve_connection(l, out);
}

static void part(void)
{
	for (int i = 0; i < CALLS; i++)
		close_fd(&peer.call[i]);
	close_fd(&peer.heard);
	if (peer.to.words)
		ring_unmap(&peer.to);
	if (peer.from.words)
		ring_unmap(&peer.from);
	peer.to = peer.from = (struct ring){0};
	see_ends();
	world_run();
}

/* Takes the call of this process. */
static void hear(void)
{
	struct introduction in;
	int fd = callers_accept(peer.listener);

	if (fd < 0)
		return;
	if (!introduction_receive(fd, &in)) {
		if (peer.from.words)
			ring_unmap(&peer.from);
		peer.from = (struct ring){0};
		require(!ring_map(&peer.from, in.fd[GREETING_RING]));
		introduction_close(&in);
	}
	close_fd(&peer.heard);
	peer.heard = fd;
}

/* ---- what it does ---- */

/* The set of descriptors: two bits for each, what it is. */
static int descriptor(int which, unsigned how)
{
	int fds[SHARE_FDS], fd;

	share_fds(peer.share, fds);
	switch (how & 3) {
	case 1: /* memory that may change its size */
		fd = memfd_create("loose", MFD_CLOEXEC);
		require(fd >= 0 && !ftruncate(fd, 1 << 20));
		return fd;
	case 2: /* the other's */
		which = (which + 1) % GREETING_FDS;
		break;
	case 3:
		return -1;
	}
	return which == GREETING_RING	    ? ring_memory(LOCAL_RING)
	       : which == GREETING_ARENA    ? dup(peer.arena)
	       : which == GREETING_DOORBELL ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
					    : dup(fds[which - GREETING_TABLES]);
}

static int *free_call(void)
{
	for (int i = 0; i < CALLS; i++)
		if (peer.call[i] < 0)
			return &peer.call[i];
	return NULL;
}

static void greet(const struct step *s, const uint8_t *bytes)
{
	struct greeting g = {
		.magic = GREETING_MAGIC, .bytes = sizeof(g), .slot = peer.slot.number, .flags = GREETING_HAS_TABLES};
	int fd[GREETING_FDS], *call = free_call();
	pid_t pid;

	if (!call)
		return;
	memcpy((char *)&g + s->at % sizeof(g), bytes, min_of((size_t)s->length, sizeof(g) - s->at % sizeof(g)));
	for (int i = 0; i < GREETING_FDS; i++)
		fd[i] = descriptor(i, i == GREETING_DOORBELL ? s->at >> 7 : s->value >> 2 * i);
	if (fd[0] >= 0 || fd[1] >= 0 || fd[2] >= 0 || fd[3] >= 0 || fd[4] >= 0)
		*call = introduction_call(world.loop->slot.number, &g, fd, &pid);
	if (*call >= 0 && !peer.to.words && fd[GREETING_RING] >= 0 && ring_map(&peer.to, fd[GREETING_RING]))
		peer.to = (struct ring){0};
	for (int i = 0; i < GREETING_FDS; i++)
		close_fd(&fd[i]);
	local_serve_listener(world.loop);
	see_ends();
	hear();
}

static void put_record(const struct step *s, const uint8_t *bytes)
{
	struct record *r;
	uint32_t size = max_of((uint32_t)s->length + 8u, (uint32_t)sizeof(struct ring_mark));

	if (!peer.to.words)
		return;
	r = (struct record *)ring_next(&peer.to);
	memcpy(&r->bytes, bytes, s->length);
	if (!(s->value & 2))
		r->qpn = (s->value & 4 ? peer.ud : peer.qp)->base.qp_num;
	if (!(s->value & 8))
		r->psn = peer.qp->resp.expected.v;
	if (s->value & 1 && s->length >= sizeof(r->bytes))
		size = r->bytes;
	ring_publish(&peer.to, size);
}

static void change_words(const struct step *s, const uint8_t *bytes)
{
	struct ring *r = s->value & 1 ? &peer.from : &peer.to;
	uint64_t word = 0;

	if (!r->words)
		return;
	memcpy(&word, bytes, min_of((size_t)s->length, sizeof(word)));
	switch (s->value >> 1 & 3) {
	case 0:
		r->words->key = word;
		break;
	case 1:
		atomic_store_explicit(&r->words->head, word, memory_order_relaxed);
		break;
	case 2:
		atomic_store_explicit(&r->words->sleeps, (uint32_t)word, memory_order_relaxed);
		break;
	default:
		atomic_store_explicit(&r->words->wanted, (uint32_t)word, memory_order_relaxed);
	}
}

static void change_table(const struct step *s, const uint8_t *bytes)
{
	struct share_table *t = peer.share->table;
	struct {
		void *at;
		size_t size;
	} entries[] =
		{
			{&t->qp[index_of_peer()], sizeof(t->qp[0])},
			{&t->region[REGION], sizeof(t->region[0])},
			{&t->file[0], sizeof(t->file[0])},
			{&t->visitor[world.loop->slot.number], 16},
			{t, HEADER},
			{&t->region[REGION + 1], sizeof(t->region[0])},
			{&t->region[REGION + 2], sizeof(t->region[0])},
			{&t->region[REGION + 3], sizeof(t->region[0])},
			{&t->file[1], sizeof(t->file[0])},
		},
	  *e = &entries[s->value % ARRAY_SIZE(entries)];
	size_t from = s->at % e->size;

	memcpy((char *)e->at + from, bytes, min_of((size_t)s->length, e->size - from));
}

static void post(const struct step *s)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE,	     IBV_WR_RDMA_READ,		IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	enum ibv_wr_opcode opcode = opcodes[(s->value & 15) % ARRAY_SIZE(opcodes)];
	uint32_t region = s->value >> 4 & 3, step = region == 3 ? LONG / 256 : 256;

	world_post_receive(peer.qp);
	world_post_send(peer.qp, opcode, 8u * s->length, ADDRESS + (uint64_t)step * s->at + (s->value >> 6),
			peer.key[region]);
}

/* Of a program that does not expect one. */
static void own_handler(int signal)
{
	abort();
}

static void install_handler(void)
{
	const struct sigaction own = {.sa_handler = own_handler};

	require(!sigaction(SIGBUS, &own, NULL));
}

/* Returns the bytes that it used. */
static size_t happen(const struct step *s, const uint8_t *bytes)
{
	switch (s->kind % KINDS) {
	case GREET:
		greet(s, bytes);
		break;
	case RECORD:
		put_record(s, bytes);
		break;
	case WORDS:
		change_words(s, bytes);
		break;
	case TABLE:
		change_table(s, bytes);
		break;
	case SEND:
		post(s);
		return 0;
	case SLEEP:
		lock_take(&world.loop->receive);
		local_sleep(world.loop);
		lock_drop(&world.loop->receive);
		local_tidy(world.loop);
		return 0;
	case RESIZE:
		require(!ftruncate(peer.file, LENGTH / 8 * s->value));
		return 0;
	case SIGNAL:
		install_handler();
		return 0;
	default:
		part();
		return 0;
	}
	return s->length;
}

static void begin(void)
{
	world_renew();
	fault_arm();
	world.loop->local.refused[peer.slot.number / 64] &= ~(1ull << peer.slot.number % 64);
	fill_table();
	world_begin_again(peer.qp);
	world_begin_again(peer.ud);
	world_connect(peer.qp, qpn_of_peer());
	hear();
}

static void require_descriptors(void)
{
	for (int i = 0; i < 2; i++) {
		int fd = fcntl(peer.listener, F_DUPFD_CLOEXEC, i ? HIGH : 0);

		require(fd >= 0 && (!peer.free_fd[i] || fd <= peer.free_fd[i] + KEPT));
		if (!peer.free_fd[i])
			peer.free_fd[i] = fd;
		close(fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = data + size;
	uint8_t bytes[UINT8_MAX + 1];
	struct step s;

	if (!world.context) {
		world_make();
		make_peer();
	}
	begin();
	while ((size_t)(end - data) >= sizeof(s)) {
		memcpy(&s, data, sizeof(s));
		data += sizeof(s);
		s.length = (uint8_t)min_of((size_t)s.length, (size_t)(end - data));
		memcpy(bytes, data, s.length);
		data += happen(&s, bytes);
		world_run();
		world_require_memory();
	}
	part();
	world_begin_again(peer.qp); /* its path lets go of the peer */
	require(!world.loop->local.by_slot[peer.slot.number]);
	world_require_connections();
	require_descriptors();
	return 0;
}
