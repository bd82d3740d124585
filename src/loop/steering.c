/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/steering.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/rights.h"
#include "base/same_user.h"
#include "link/netif.h"
#include "loop/callers.h"
#include "loop/name.h"
#include "loop/name_owner.h"
#include "loop/services.h"

#define REGISTRY_NAME	"uroce-registry-7" /* the number is the layout's version */
#define GROUPS		64		   /* addresses that are steered; packets to others are handed over */
#define LOCK_PATIENCE	(2 * SEC)	   /* the lock's holder may have been stopped by a debugger */
#define ANSWER_MS	200
#define STRAYS		4	    /* as many cannot all have been in flight during a change ... */
#define REPAIR_INTERVAL (10 * MSEC) /* ... and repairs are no more frequent than this */
#define PRUNE_INTERVAL	(10 * MSEC) /* of so many processes, each that starts does not look for the dead ... */
#define CROWD		64	    /* ... as that takes each of them 1 us for every other */

struct member {
	uint64_t inode; /* of its socket: tells a dead process from its successor in the same slot */
	uint16_t slot;
};

/* Guarded by names_lock(), except the generation. */
struct group {
	union ibv_gid gid;
	_Atomic uint32_t generation; /* counts changes; relaxed: a hint */
	uint32_t count;		     /* 0: the entry is free */
	uint64_t pruned;	     /* ns: the last time that the dead were removed */
	struct member member[SLOTS];
};

/* Guarded by names_lock(). A listener for which there is no room, or that a dead process left, costs a handover. */
struct listeners {
	uint32_t count;
	struct steering_listener listener[STEERING_LISTENERS];
};

struct registry {
	_Atomic uint16_t owner[SLOTS + 1]; /* of further slots: the first slot of their process; 0: a first slot, or
					      free. Written with the lock held; relaxed: see hca_owner() */
	struct group group[GROUPS];
	struct listeners listeners;
	struct services services;
};

/* Broken processes of this user may have written anything here, and may go on: counts are read once, and limited to
 * the room there is. */
static uint32_t group_count(const struct group *g)
{
	return min_of(*(const volatile uint32_t *)&g->count, (uint32_t)SLOTS);
}

static uint32_t listeners_count(const struct listeners *l)
{
	return min_of(*(const volatile uint32_t *)&l->count, STEERING_LISTENERS);
}

static struct registry *registry_of(struct steering *s)
{
	return atomic_load_explicit(&s->registry, memory_order_acquire); /* pairs with take_registry() */
}

/* ---- the program ---- */

static int install(const struct steering_order *o, struct sock_filter *code, int fd)
{
	struct sock_fprog program = {.filter = code, .len = steering_program(o, code)};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) ? -errno : 0;
}

/* Without the program (the kernel may refuse it), packets are handed over. */
static void steering_attach(struct steering *s, const struct group *g, int fd)
{
	struct registry *r = registry_of(s);
	struct sock_filter *code;
	uint16_t slots[SLOTS], owners[SLOTS + 1];
	struct steering_order order = {
		.slots = slots,
		.owners = owners,
		.count = group_count(g),
		.listener = r->listeners.listener,
		.listeners = listeners_count(&r->listeners),
		.most = STEERING_SLOTS,
	};

	if (order.count < 2)
		return; /* a single socket gets everything */
	code = malloc(STEERING_PROGRAM * sizeof(*code));
	if (!code)
		return;
	for (uint32_t i = 0; i < order.count; i++)
		slots[i] = g->member[i].slot;
	for (uint32_t i = 0; i <= SLOTS; i++)
		owners[i] = atomic_load_explicit(&r->owner[i], memory_order_relaxed);
	/* ENOMEM: it is longer than net.core.optmem_max */
	while (order.most && install(&order, code, fd) == -ENOMEM)
		order.most /= 2;
	free(code);
}

/* ---- the lock ---- */

/* A name that one process at a time can bind. Any user can bind it, though: then a file takes its place. While the two
 * change places, two processes may have one each. So the registry, which only processes of this user have, is always
 * locked as well. */

static _Atomic bool names_locked; /* by a thread of this process. Acquire and release pair with each other */
static int locked_memory = -1;	  /* the memfd of the registry that it has locked. Guarded by the lock */

#define WAIT_MIN (100 * USEC)
#define WAIT_MAX (10 * MSEC)

/* Of a thread that waits for a lock. Many processes may: each waits longer from time to time, at random, and does not
 * give up while the lock changes hands. */
struct patience {
	uint64_t patience, began, give_up;
	uint64_t look; /* when the next look is due at who has the name */
	pid_t holder;  /* at the last look; 0: unknown */
};

static struct patience patience_begin(uint64_t patience)
{
	uint64_t now = clock_now();

	return (struct patience){.patience = patience, .began = now, .give_up = now + patience};
}

/* False: the lock is not to be had. Nothing signals that it is free, so its callers poll. */
static bool names_wait(struct patience *p)
{
	uint64_t now = clock_now(), most = min_of(WAIT_MIN + (now - p->began) / 4, WAIT_MAX);

	if (now >= p->give_up)
		return false;
	/* the clock's last digits are random enough */
	nanosleep(&(struct timespec){.tv_nsec = (long)(most / 2 + now % most)}, NULL);
	return true;
}

/* In place of the name, which another user has: the lock of a file that only this one can have; or, without a folder,
 * any descriptor: then the registry's lock has to do. -EAGAIN: its holder does not release it. */
static int lock_file(int socket, struct patience *p)
{
	int fd = name_lock_file();

	if (fd < 0)
		return socket;
	close(socket);
	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (!names_wait(p)) {
			close(fd);
			return -EAGAIN;
		}
	}
	return fd;
}

/* Whether another user has the name. If it is a process of this one, another one than the last time, waiting goes on:
 * it does not stand still. */
static bool look_at_holder(const struct sockaddr_un *address, socklen_t size, struct patience *p, uid_t *uid)
{
	struct ucred who;
	uint64_t now = clock_now();
	bool ours;
	int fd;

	if (now < p->look)
		return false;
	p->look = now + (now - p->began) + WAIT_MIN;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	if (connect(fd, (const struct sockaddr *)address, size)) {
		close(fd); /* it is free again, or its owner does not listen, or has no room, as ours do */
		return name_is_foreign(address, size, uid);
	}
	ours = same_user_peer(fd, &who);
	close(fd);
	if (who.pid != p->holder)
		p->give_up = now + p->patience;
	p->holder = who.pid;
	*uid = who.uid;
	return !ours;
}

/* A socket that has the name, or what lock_file() has; or -EAGAIN: its holder does not release it. */
static int bind_lock(struct patience *p)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t size = slot_abstract(&address, "%u/lock", geteuid());
	uid_t uid;

	if (fd < 0)
		return -errno;
	while (bind(fd, (struct sockaddr *)&address, size)) {
		int err = -errno;

		if (err == -EADDRINUSE && look_at_holder(&address, size, p, &uid)) {
			name_say_foreign(&address, size, uid);
			return lock_file(fd, p);
		}
		if (err != -EADDRINUSE || !names_wait(p)) {
			close(fd);
			return err == -EADDRINUSE ? -EAGAIN : err;
		}
	}
	listen(fd, SLOTS); /* others learn who has it: look_at_holder() */
	return fd;
}

/* The kernel drops this lock when the process ends. False: its holder does not release it. */
static bool lock_memory(int memory, struct patience *p)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	while (memory >= 0 && fcntl(memory, F_SETLK, &whole)) {
		if (errno != EAGAIN && errno != EACCES)
			return true; /* this kernel cannot lock it: the name has to do */
		if (!names_wait(p))
			return false;
	}
	locked_memory = memory;
	return true;
}

static void names_unlock(int lock)
{
	struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

	if (lock < 0)
		return;
	if (locked_memory >= 0)
		fcntl(locked_memory, F_SETLK, &whole);
	locked_memory = -1;
	atomic_store_explicit(&names_locked, false, memory_order_release);
	close(lock);
}

/* Returns the lock for names_unlock(), or -EAGAIN: its holder does not release it; or another -errno. */
static int names_lock(const struct steering *s, uint64_t patience)
{
	struct patience p = patience_begin(patience);
	int fd = bind_lock(&p);

	if (fd < 0)
		return fd;
	while (atomic_exchange_explicit(&names_locked, true, memory_order_acquire)) {
		if (!names_wait(&p)) {
			close(fd);
			return -EAGAIN;
		}
	}
	if (lock_memory(s->memory, &p))
		return fd;
	names_unlock(fd);
	return -EAGAIN;
}

/* ---- the mirror ---- */

/* Entries are taken in order, so after one that was never used all are unused. Each has a page of its own, and
 * reading it would cost a page fault. */
static bool never_was(const struct group *g)
{
	return !g->count && !atomic_load_explicit(&g->generation, memory_order_relaxed);
}

static struct group *steering_find_group(struct registry *r, const union ibv_gid *gid)
{
	struct group *spare = NULL;

	for (struct group *g = r->group; g < r->group + GROUPS; g++) {
		if (g->count && g->count <= SLOTS && !memcmp(&g->gid, gid, sizeof(*gid)))
			return g;
		if (!g->count && !spare)
			spare = g;
		if (never_was(g))
			break;
	}
	if (spare)
		spare->gid = *gid;
	return spare;
}

/* Its place; SLOTS: none. */
static uint32_t steering_find_member(const struct group *g, uint16_t slot)
{
	uint32_t count = group_count(g);

	for (uint32_t i = 0; i < count; i++)
		if (g->member[i].slot == slot)
			return i;
	return SLOTS;
}

static void changed(struct group *g)
{
	atomic_fetch_add_explicit(&g->generation, 1, memory_order_relaxed);
}

/* Does what the kernel does when the socket at that place is closed. */
static void steering_remove_member(struct group *g, uint32_t place)
{
	uint32_t count = group_count(g);

	if (place >= count)
		return;
	g->member[place] = g->member[count - 1];
	g->count = count - 1;
	changed(g);
}

struct inodes {
	uint32_t count;
	uint64_t *inode;
};

/* The UDP sockets of this namespace with our port. False: not known. */
static bool read_inodes(struct inodes *list, const char *path)
{
	FILE *f = fopen(path, "rce");
	char line[512];

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		unsigned port;
		unsigned long long inode;
		uint64_t *more;

		if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %*s %*s %llu", &port, &inode) != 2 ||
		    port != ROCE_PORT)
			continue;
		more = realloc(list->inode, (list->count + 1) * sizeof(*more));
		if (!more) {
			fclose(f);
			return false;
		}
		list->inode = more;
		list->inode[list->count++] = inode;
	}
	fclose(f);
	return true;
}

static int compare_inodes(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static bool has_inode(const struct inodes *list, uint64_t inode)
{
	return bsearch(&inode, list->inode, list->count, sizeof(inode), compare_inodes);
}

static uint64_t steering_inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* Removes dead processes from the mirror. The order of their deaths is not known; if it was another one, misrouted
 * packets will show it. */
static bool prune(struct group *g)
{
	struct inodes alive = {0};
	bool is_ipv4 = address_is_ipv4(&g->gid), any = false;

	if (g->count && read_inodes(&alive, is_ipv4 ? "/proc/self/net/udp" : "/proc/self/net/udp6")) {
		qsort(alive.inode, alive.count, sizeof(*alive.inode), compare_inodes);
		for (uint32_t i = 0, tries = 0; i < group_count(g) && tries < SLOTS; tries++) {
			if (has_inode(&alive, g->member[i].inode)) {
				i++;
			} else {
				steering_remove_member(g, i);
				any = true;
			}
		}
	}
	free(alive.inode);
	g->pruned = clock_now();
	return any;
}

/* Before another process is entered, or this one removed. What it leaves is repaired when packets go astray. */
static void prune_now_and_then(struct group *g)
{
	if (group_count(g) < CROWD || clock_now() - g->pruned >= PRUNE_INTERVAL)
		prune(g);
}

/* ---- getting the registry ---- */

/* NULL: errno. */
static struct registry *map_registry(int memory)
{
	void *p;

	if (!memfd_is_ours(memory, sizeof(struct registry))) {
		errno = EACCES;
		return NULL;
	}
	p = mmap(NULL, sizeof(struct registry), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* `service` 0: all services of that process. */
static void listeners_remove(struct listeners *l, uint16_t slot, uint32_t service)
{
	uint32_t count = listeners_count(l);

	for (uint32_t i = count; i-- > 0;)
		if (l->listener[i].slot == slot && (!service || l->listener[i].service == service))
			l->listener[i] = l->listener[--count];
	l->count = count;
}

/* A first slot: it is nobody's further one, and has none yet. */
static void owners_remove(struct registry *r, uint16_t slot)
{
	for (uint32_t i = 0; i <= SLOTS; i++)
		if (atomic_load_explicit(&r->owner[i], memory_order_relaxed) == slot)
			atomic_store_explicit(&r->owner[i], 0, memory_order_relaxed);
	atomic_store_explicit(&r->owner[slot], 0, memory_order_relaxed);
}

/* Removes what an earlier process in this slot, now dead, has left. 0 or -errno. */
static int take_registry(struct steering *s, int memory)
{
	struct registry *r = map_registry(memory);

	if (!r) {
		int err = -errno;

		close(memory);
		return err;
	}
	s->memory = memory;
	services_forget(&r->services, s->slot->number);
	listeners_remove(&r->listeners, s->slot->number, 0);
	owners_remove(r, s->slot->number);
	atomic_store_explicit(&s->registry, r, memory_order_release); /* pairs with registry_of() */
	return 0;
}

/* From the helper thread of a process: works between containers that do not see each other's processes. */
static int memory_by_asking(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int memory = -1;
	char byte;

	if (poll(&p, 1, ANSWER_MS) == 1)
		rights_receive(fd, &byte, sizeof(byte), MSG_DONTWAIT, &memory, 1);
	return memory;
}

static socklen_t service_address(struct sockaddr_un *address, uint16_t slot)
{
	return slot_abstract(address, "%u/registry/%u", geteuid(), slot);
}

/* 0: *s has the registry; -ENOENT: that process has none for this user; -EPERM: another user has its name; else the
 * registry could not be had. */
static int registry_from(struct steering *s, uint16_t slot)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), memory;
	struct sockaddr_un address;
	struct ucred who;

	if (fd < 0 || name_connect(fd, &address, service_address(&address, slot))) {
		int err = -errno;

		if (fd >= 0)
			close(fd);
		return err == -ECONNREFUSED ? -ENOENT : err;
	}
	if (!same_user_peer(fd, &who)) {
		name_say_foreign(&address, service_address(&address, slot), who.uid);
		close(fd);
		return -EPERM;
	}
	memory = memfd_of_process(who.pid, REGISTRY_NAME);
	if (memory < 0)
		memory = memory_by_asking(fd);
	close(fd);
	if (memory < 0)
		return -EACCES;
	return take_registry(s, high_fd(memory));
}

/* From any process of this user and network namespace that has it: for when another user has the name at which the
 * registry would be offered. */
static void registry_from_any(struct steering *s)
{
	int memory = memfd_of_any(REGISTRY_NAME, sizeof(struct registry));

	if (memory >= 0)
		take_registry(s, high_fd(memory));
}

static int make_registry(struct steering *s)
{
	int memory = memfd_of_size(REGISTRY_NAME, 0, sizeof(struct registry));

	return memory < 0 ? memory : take_registry(s, memory);
}

static void offer_registry(struct steering *s)
{
	int fd = high_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	struct sockaddr_un address;

	if (fd >= 0 && (name_bind(fd, &address, service_address(&address, s->slot->number)) || listen(fd, SLOTS))) {
		close(fd);
		fd = -1;
	}
	/* pairs with steering_serve() in the helper thread, which then sees `memory` */
	atomic_store_explicit(&s->service, fd, memory_order_release);
}

/* Under the lock: each process that has the registry offers it, so if none does there is none. */
static int find_registry(struct steering *s)
{
	int probe = slots_probe(), why = -EACCES;
	bool seen = false, foreign = false, folder = name_has_folder();
	struct patience patience;

	for (unsigned below = 1; below < SLOTS && !registry_of(s); below++) {
		uint16_t slot = 1 + (s->slot->number - 1 + SLOTS - below) % SLOTS;
		int err = slots_have(probe, slot, folder) ? registry_from(s, slot) : -ENOENT;

		foreign |= err == -EPERM;
		if (err != -EPERM && err != -ENOENT) {
			seen = true;
			why = err;
		}
	}
	if (probe >= 0)
		close(probe);
	if (!registry_of(s) && foreign)
		registry_from_any(s);
	if (!registry_of(s) && !seen)
		why = make_registry(s);
	if (!registry_of(s))
		return why ?: -EACCES;
	patience = patience_begin(LOCK_PATIENCE);
	lock_memory(s->memory, &patience);
	offer_registry(s);
	return 0;
}

void steering_serve(struct steering *s)
{
	int fd;

	while ((fd = callers_accept(atomic_load_explicit(&s->service, memory_order_acquire))) != -EAGAIN) {
		if (fd < 0)
			continue;
		rights_send(fd, "", 1, &s->memory, 1); /* a process that does not wait for it does not get it */
		close(fd);
	}
}

/* ---- a process's links ---- */

void steering_init(struct steering *s, const struct slot *slot)
{
	*s = (struct steering){.slot = slot, .memory = -1, .service = -1};
}

void steering_fini(struct steering *s)
{
	if (registry_of(s))
		munmap(registry_of(s), sizeof(struct registry));
	if (s->service >= 0)
		close(s->service);
	if (s->memory >= 0)
		close(s->memory);
	steering_init(s, s->slot);
}

static void steering_join(struct steered *place)
{
	struct steering *s = place->steering;
	struct group *g = steering_find_group(registry_of(s), &place->link->gid);
	uint32_t count;

	if (!g)
		return;
	prune_now_and_then(g);
	count = group_count(g);
	if (count == SLOTS)
		return;
	g->member[count] = (struct member){.inode = steering_inode_of(place->link->socket), .slot = s->slot->number};
	g->count = count + 1;
	changed(g);
	steering_attach(s, g, place->link->socket);
}

int steering_open(struct steering *s, struct steered *place, const union ibv_gid *gid, steering_opener *open,
		  struct link **link)
{
	int lock = names_lock(s, LOCK_PATIENCE), err;

	if (lock >= 0 && !registry_of(s))
		find_registry(s);
	err = open(gid, s->slot->number, link);
	if (!err) {
		*place = (struct steered){.steering = s, .link = *link};
		if (lock >= 0 && registry_of(s))
			steering_join(place);
	}
	names_unlock(lock);
	return err;
}

/* The socket that closes installs the program for those that stay: afterwards that would take another process.
 * Until then, packets for the socket that moves into this place arrive here, and `drain` hands them over. So it
 * does with packets that came here because no process steers. */
void steering_close(struct steered *place, void (*drain)(void *arg), void *arg)
{
	struct steering *s = place->steering;
	int lock = registry_of(s) ? names_lock(s, LOCK_PATIENCE) : -1;
	struct group *g = lock >= 0 ? steering_find_group(registry_of(s), &place->link->gid) : NULL;

	if (g && steering_find_member(g, s->slot->number) < SLOTS) {
		prune_now_and_then(g);
		steering_remove_member(g, steering_find_member(g, s->slot->number));
		steering_attach(s, g, place->link->socket);
	}
	drain(arg);
	place->link->ops->close(place->link);
	names_unlock(lock);
}

/* Our socket is where the program expects the one of `slot`: so the two change places in the mirror. */
static void correct(struct group *g, uint16_t own, uint16_t slot)
{
	uint32_t mine = steering_find_member(g, own), theirs = steering_find_member(g, slot);
	struct member m;

	if (mine == SLOTS || theirs == SLOTS)
		return;
	m = g->member[mine];
	g->member[mine] = g->member[theirs];
	g->member[theirs] = m;
	changed(g);
}

static void repair(struct steered *place, uint16_t slot)
{
	struct steering *s = place->steering;
	int lock = names_lock(s, 0); /* packets wait, so this does not: the lock's holder is repairing as well */
	struct group *g = lock >= 0 ? steering_find_group(registry_of(s), &place->link->gid) : NULL;

	if (g && g->count) {
		if (!prune(g))
			correct(g, s->slot->number, slot);
		steering_attach(s, g, place->link->socket);
	}
	names_unlock(lock);
}

void steering_stray(struct steered *place, uint16_t slot, uint64_t now)
{
	struct registry *r = registry_of(place->steering);
	struct group *g = NULL;
	uint32_t generation;

	for (uint32_t i = 0; r && i < GROUPS && !g; i++)
		if (r->group[i].count && !memcmp(&r->group[i].gid, &place->link->gid, sizeof(place->link->gid)))
			g = &r->group[i];
	if (!g)
		return;
	/* packets that an older program steered say nothing about the present one */
	generation = atomic_load_explicit(&g->generation, memory_order_relaxed);
	if (generation != place->generation) {
		place->generation = generation;
		place->settled = false;
		place->strays = 0;
	}
	if (!place->settled || ++place->strays < STRAYS || now - place->repaired < REPAIR_INTERVAL)
		return;
	place->strays = 0;
	repair(place, slot);
	place->repaired = now;
	place->generation = atomic_load_explicit(&g->generation, memory_order_relaxed);
	place->settled = false;
}

void steering_silence(struct steered *place, uint64_t now)
{
	struct steering *s = place->steering;
	struct group *g;
	int lock;

	if (!registry_of(s) || now - place->repaired < REPAIR_INTERVAL)
		return;
	place->repaired = now;
	lock = names_lock(s, 0);
	g = lock >= 0 ? steering_find_group(registry_of(s), &place->link->gid) : NULL;
	if (g && g->count && prune(g))
		steering_attach(s, g, place->link->socket);
	names_unlock(lock);
}

/* ---- services ---- */

int steering_enter(struct steering *s, struct services **services)
{
	int lock = names_lock(s, LOCK_PATIENCE), err;

	if (lock < 0)
		return lock;
	err = registry_of(s) ? 0 : find_registry(s);
	if (err) {
		log_error("the list of services and slots, of which the processes of a user share one, cannot be had: "
			  "%s%s",
			  strerror(-err), err == -EFBIG ? " (ulimit -f)" : "");
		names_unlock(lock);
		return err;
	}
	*services = &registry_of(s)->services;
	return lock;
}

void steering_leave(int lock)
{
	names_unlock(lock);
}

void steering_listen(struct steering *s, uint64_t service, bool listens)
{
	struct listeners *l = &registry_of(s)->listeners;
	struct steering_listener new = {.service = (uint32_t)service, .slot = s->slot->number};
	uint32_t count;

	listeners_remove(l, new.slot, new.service);
	count = listeners_count(l);
	if (listens && count < STEERING_LISTENERS) {
		l->listener[count] = new;
		l->count = count + 1;
	}
}

void steering_own(struct steering *s, uint16_t further)
{
	struct registry *r = registry_of(s);

	atomic_store_explicit(&r->owner[further & SLOTS], s->slot->number, memory_order_relaxed);
}

const _Atomic uint16_t *steering_owners(struct steering *s)
{
	struct registry *r = registry_of(s);

	return r ? r->owner : NULL;
}

void steering_renew(struct steered *place)
{
	struct steering *s = place->steering;
	struct group *g = steering_find_group(registry_of(s), &place->link->gid);

	if (g && g->count)
		steering_attach(s, g, place->link->socket);
}

struct services *steering_services(struct steering *s)
{
	struct registry *r = registry_of(s);

	return r ? &r->services : NULL;
}
