/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/steering.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/high_fd.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/rights.h"
#include "base/same_user.h"
#include "host/registry.h"
#include "host/registry_lock.h"
#include "host/slot.h"
#include "host/steering_program.h"
#include "host/tuned.h"
#include "link/netif.h"

/* ---- the program ---- */

static int install(const struct steering_order *o, struct sock_filter *code, int fd)
{
	struct sock_fprog program;

	memset(&program, 0, sizeof(program)); /* the gap between its members as well, for memcheck */
	program.filter = code;
	program.len = steering_program(o, code);
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) ? -errno : 0;
}

/* Installs the program. Without it (the kernel may refuse), packets are handed over. */
static void attach(struct steering *s, const struct group *g, int fd)
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
	/* ENOMEM: the program is longer than net.core.optmem_max */
	while (order.most && install(&order, code, fd) == -ENOMEM)
		order.most /= 2;
	free(code);
}

/* ---- the mirror ---- */

/* True if the entry was never used: then neither was any later one. Each entry has a page, and reading it would cost a
 * page fault. */
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

/* Index of `slot` in the group, or SLOTS. */
static uint32_t find_member(const struct group *g, uint16_t slot)
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

/* Removes the member at `place`, as the kernel does when that socket is closed. */
static void remove_member(struct group *g, uint32_t place)
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

/* Reads the inodes of this namespace's UDP sockets with our port. False: not known. */
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
	return list->count && bsearch(&inode, list->inode, list->count, sizeof(inode), compare_inodes);
}

static uint64_t steering_inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* Removes dead processes from the mirror. The order of their deaths is not known; misrouted packets will show a wrong
 * guess. */
static bool prune(struct group *g)
{
	struct inodes alive = {0};
	bool is_ipv4 = address_is_ipv4(&g->gid), any = false;

	if (g->count && read_inodes(&alive, is_ipv4 ? "/proc/self/net/udp" : "/proc/self/net/udp6")) {
		if (alive.count)
			qsort(alive.inode, alive.count, sizeof(*alive.inode), compare_inodes);
		for (uint32_t i = 0, tries = 0; i < group_count(g) && tries < SLOTS; tries++) {
			if (has_inode(&alive, g->member[i].inode)) {
				i++;
			} else {
				remove_member(g, i);
				any = true;
			}
		}
	}
	free(alive.inode);
	g->pruned = clock_now();
	return any;
}

/* Prunes, not too often, before a process is added or removed. Mistakes are repaired when packets go astray. */
static void prune_now_and_then(struct group *g)
{
	if (group_count(g) < CROWD || clock_now() - g->pruned >= PRUNE_INTERVAL)
		prune(g);
}

/* ---- a process's links ---- */

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
	attach(s, g, place->link->socket);
}

int steering_open(struct steering *s, struct steered *place, const union ibv_gid *gid, steering_opener *open,
		  struct link **link)
{
	int lock = registry_lock(s->memory, LOCK_PATIENCE), err;

	if (lock >= 0 && !registry_of(s))
		find_registry(s);
	err = open(gid, s->slot->number, link);
	if (!err) {
		*place = (struct steered){.steering = s, .link = *link};
		if (lock >= 0 && registry_of(s))
			steering_join(place);
	}
	registry_unlock(lock);
	return err;
}

/* A socket that closes installs the program for those that stay, as installing it later would take another process.
 * Until the socket is closed, packets for the one that moves into its place arrive here, and `drain` hands them over;
 * as it does with packets that came here while no process steered. */
void steering_close(struct steered *place, void (*drain)(void *arg), void *arg)
{
	struct steering *s = place->steering;
	int lock = registry_of(s) ? registry_lock(s->memory, LOCK_PATIENCE) : -1;
	struct group *g = lock >= 0 ? steering_find_group(registry_of(s), &place->link->gid) : NULL;

	if (g && find_member(g, s->slot->number) < SLOTS) {
		prune_now_and_then(g);
		remove_member(g, find_member(g, s->slot->number));
		attach(s, g, place->link->socket);
	}
	drain(arg);
	place->link->ops->close(place->link);
	registry_unlock(lock);
}

/* Repairs the mirror: our socket is where the program expects the one of `slot`, so the two change places. */
static void correct(struct group *g, uint16_t own, uint16_t slot)
{
	uint32_t mine = find_member(g, own), theirs = find_member(g, slot);
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
	int lock = registry_lock(s->memory, 0); /* no waiting, as packets wait: the lock's holder repairs too */
	struct group *g = lock >= 0 ? steering_find_group(registry_of(s), &place->link->gid) : NULL;

	if (g && g->count) {
		if (!prune(g))
			correct(g, s->slot->number, slot);
		attach(s, g, place->link->socket);
	}
	registry_unlock(lock);
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
	lock = registry_lock(s->memory, 0);
	g = lock >= 0 ? steering_find_group(registry_of(s), &place->link->gid) : NULL;
	if (g && g->count && prune(g))
		attach(s, g, place->link->socket);
	registry_unlock(lock);
}

/* ---- services ---- */

int steering_enter(struct steering *s, struct services **services)
{
	int lock = registry_lock(s->memory, LOCK_PATIENCE), err;

	if (lock < 0)
		return lock;
	err = registry_of(s) ? 0 : find_registry(s);
	if (err) {
		log_error("the list of services and slots, of which the processes of a user share one, cannot be had: "
			  "%s%s",
			  strerror(-err), err == -EFBIG ? " (ulimit -f)" : "");
		registry_unlock(lock);
		return err;
	}
	*services = &registry_of(s)->services;
	return lock;
}

void steering_leave(int lock)
{
	registry_unlock(lock);
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
		attach(s, g, place->link->socket);
}

struct services *steering_services(struct steering *s)
{
	struct registry *r = registry_of(s);

	return r ? &r->services : NULL;
}
