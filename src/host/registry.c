/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/memfd.h"
#include "base/rights.h"
#include "base/same_user.h"
#include "host/callers.h"
#include "host/name.h"
#include "host/registry_lock.h"
#include "host/services.h"
#include "host/slot.h"
#include "host/tuned.h"

#define REGISTRY_NAME "uroce-registry-7" /* the number is the layout's version */

/* Maps a memfd as the registry. NULL and errno. */
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

/* service == 0: all services of the process */
void listeners_remove(struct listeners *l, uint16_t slot, uint32_t service)
{
	uint32_t count = listeners_count(l);

	for (uint32_t i = count; i-- > 0;)
		if (l->listener[i].slot == slot && (!service || l->listener[i].service == service))
			l->listener[i] = l->listener[--count];
	l->count = count;
}

/* Clears the slots of a process: its first slot is no further one, and has no further ones yet. */
static void owners_remove(struct registry *r, uint16_t slot)
{
	for (uint32_t i = 0; i <= SLOTS; i++)
		if (atomic_load_explicit(&r->owner[i], memory_order_relaxed) == slot)
			atomic_store_explicit(&r->owner[i], 0, memory_order_relaxed);
	atomic_store_explicit(&r->owner[slot], 0, memory_order_relaxed);
}

/* Takes the memfd as the registry, and removes the entries of an earlier, dead process in this slot. 0 or -errno. */
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

/* Receives the memfd from the helper thread of a process. Works between containers that do not see each other's
 * processes. -ECONNRESET: the process is ending, so its name will be free. */
static int memory_by_asking(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int memory = -1;
	char byte;

	if (poll(&p, 1, ms) != 1)
		return -EACCES;
	rights_receive(fd, &byte, sizeof(byte), MSG_DONTWAIT, &memory, 1);
	return memory < 0 ? -ECONNRESET : memory;
}

static socklen_t service_address(struct sockaddr_un *address, uint16_t slot)
{
	return slot_abstract(address, "%u/registry/%u", geteuid(), slot);
}

/* Connects to the process of a slot; *who: its credentials. -ENOENT: it has no registry for this user; -EPERM: another
 * user has its name; or another -errno. */
static int registry_connect(uint16_t slot, struct ucred *who)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;

	if (fd < 0 || name_connect(fd, &address, service_address(&address, slot))) {
		int err = -errno;

		if (fd >= 0)
			close(fd);
		return err == -ECONNREFUSED ? -ENOENT : err;
	}
	if (same_user_peer(fd, who))
		return fd;
	name_say_foreign(&address, service_address(&address, slot), who->uid);
	close(fd);
	return -EPERM;
}

bool registry_is_offered(uint16_t slot)
{
	struct ucred who;
	int fd = registry_connect(slot, &who);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Gets the registry from the process of a slot. 0; -ENOENT, -EPERM: as registry_connect(); else the registry could not
 * be had. */
static int registry_from(struct steering *s, uint16_t slot, int ms)
{
	struct ucred who;
	int fd = registry_connect(slot, &who), memory;

	if (fd < 0)
		return fd;
	memory = memfd_of_process(who.pid, REGISTRY_NAME);
	if (memory < 0)
		memory = memory_by_asking(fd, ms);
	close(fd);
	return memory < 0 ? memory : take_registry(s, high_fd(memory));
}

/* Gets the registry from any process of this user and network namespace that has it, if another user has the name at
 * which it would be offered. */
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

/* Asks all processes for the registry. 0; -ENOENT: no process of this user has it; or why it was not had. */
static int ask_all(struct steering *s, int ms)
{
	bool foreign = false, folder = name_has_folder();
	int probe = slots_probe(), why = -ENOENT;

	for (unsigned below = 1; below < SLOTS && !registry_of(s); below++) {
		uint16_t slot = 1 + (s->slot->number - 1 + SLOTS - below) % SLOTS;
		int err = slots_have(probe, slot, folder) ? registry_from(s, slot, ms) : -ENOENT;

		foreign |= err == -EPERM;
		if (err != -EPERM && err != -ENOENT)
			why = err;
	}
	if (probe >= 0)
		close(probe);
	if (!registry_of(s) && foreign)
		registry_from_any(s);
	return registry_of(s) ? 0 : why;
}

/* Under the lock: each process that has the registry offers it, so if none does there is none. */
int find_registry(struct steering *s)
{
	int err = ask_all(s, ANSWER_MS);
	struct patience patience;

	if (err && err != -ENOENT)
		err = ask_all(s, ANSWER_LATE_MS);
	if (err == -ENOENT)
		err = make_registry(s);
	if (err)
		return err;
	patience = patience_of(LOCK_PATIENCE);
	lock_memory(s->memory, &patience);
	offer_registry(s);
	return 0;
}

void steering_serve(struct steering *s)
{
	int fd;

	while ((fd = callers_accept(atomic_load_explicit(&s->service, memory_order_acquire))) != -EAGAIN &&
	       fd != -EBUSY) {
		if (fd < 0)
			continue;
		rights_send(fd, "", 1, &s->memory, 1); /* a process that no longer waits does not get it */
		close(fd);
	}
}

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
