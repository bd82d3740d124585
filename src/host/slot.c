/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/slot.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/base.h"
#include "base/high_fd.h"
#include "base/log.h"
#include "base/qpn.h"
#include "host/name.h"
#include "host/name_owner.h"

socklen_t slot_abstract(struct sockaddr_un *address, const char *format, ...)
{
	char *name = address->sun_path + 1; /* an abstract name starts with a zero byte and ends only by its length */
	size_t room = sizeof(address->sun_path) - 1;
	va_list args;
	int n;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(name, room, "uroce/");
	va_start(args, format);
	n += vsnprintf(name + n, room - n, format, args);
	va_end(args);
	assert((size_t)n < room);
	return offsetof(struct sockaddr_un, sun_path) + 1 + n;
}

socklen_t slot_address(struct sockaddr_un *address, uint16_t number)
{
	return slot_abstract(address, "slot/%u", number);
}

int slots_probe(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

bool slots_have(int probe, uint16_t number, bool in_folder)
{
	struct sockaddr_un address;
	socklen_t size = slot_address(&address, number);
	int failed = probe >= 0 && (in_folder ? name_connect(probe, &address, size)
					      : connect(probe, (struct sockaddr *)&address, size));

	return !failed || errno != ECONNREFUSED; /* other errors say nothing about the process */
}

/* The name in the folder counts first: another user may bind the abstract name of a dead process. */
bool slot_is_alive(uint16_t number)
{
	struct sockaddr_un address;
	socklen_t size = slot_address(&address, number);
	int fd = slots_probe();
	bool alive = slots_have(fd, number, true);
	uid_t uid;

	if (fd >= 0)
		close(fd);
	return alive && (!name_is_foreign(&address, size, &uid) || name_is_in_folder(&address, size));
}

static int open_slot(struct slot *slot)
{
	int one = 1;

	slot->fd = high_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	/* senders are checked: see handover_receive() */
	return slot->fd < 0 || setsockopt(slot->fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) ? -errno : 0;
}

/* Logs why no slot is free: processes of any user may have bound the names. */
static void say_slots_taken(void)
{
	uid_t uid;
	unsigned foreign = names_foreign("uroce/slot/", &uid);

	if (!foreign || name_has_folder())
		log_error("all %u slots of this network namespace are in use, one for each process and for each 8192 "
			  "queue pairs beyond the first: end a program that uses uroce",
			  SLOTS);
	else
		log_error(
			"%u of the %u slots of this network namespace, one for each process, are bound by other users, "
			"as user %u (ss -xap | grep uroce/slot shows the programs), and none is left: let "
			"XDG_RUNTIME_DIR name a folder in which only you can write; then uroce needs none of them",
			foreign, SLOTS, uid);
}

/* Binds the abstract name. A process that has the name in the folder has the slot too. */
static int claim_abstract(struct slot *slot, uint16_t number)
{
	struct sockaddr_un address;
	socklen_t size = slot_address(&address, number);

	if (bind(slot->fd, (struct sockaddr *)&address, size))
		return -errno;
	if (!name_is_in_folder(&address, size))
		return 0;
	close(slot->fd); /* a bound socket keeps its name */
	return open_slot(slot) ?: -EADDRINUSE;
}

/* Binds the name in the folder, while another user has the abstract one. That user may drop it, and another process of
 * this user claim it, at the same time: each of the two looks for the other after it has its own name. */
static int claim_in_folder(struct slot *slot, uint16_t number)
{
	struct sockaddr_un address;
	socklen_t size = slot_address(&address, number);
	uid_t uid;
	int err;

	if (!name_is_foreign(&address, size, &uid))
		return -EADDRINUSE;
	err = name_bind_in_folder(slot->fd, &address, size);
	if (err)
		return err;
	if (name_is_foreign(&address, size, &uid)) {
		name_say_foreign(&address, size, uid);
		return 0;
	}
	close(slot->fd);
	return open_slot(slot) ?: -EADDRINUSE;
}

/* Tries every `step`th slot from `first` on. 0; -EUSERS: none is free; or another -errno. */
static int claim_any(struct slot *slot, unsigned first, unsigned step, int (*claim)(struct slot *slot, uint16_t number))
{
	for (unsigned i = 0; i <= SLOTS; i += step) {
		uint16_t number = (first + i) & SLOTS;
		int err = number ? claim(slot, number) : -EADDRINUSE;

		if (!err)
			slot->number = number;
		if (err != -EADDRINUSE)
			return err;
	}
	return -EUSERS;
}

/* Claims a slot, from a random one on: to forge a packet, one has to guess the slot too. */
static int claim_of(struct slot *slot, uint32_t part, unsigned step)
{
	unsigned first;
	int err;

	*slot = (struct slot){0};
	err = open_slot(slot);
	if (getrandom(&first, sizeof(first), 0) != sizeof(first))
		first = (unsigned)getpid();
	first = first / step * step + part;
	if (!err)
		err = claim_any(slot, first, step, claim_abstract);
	if (err == -EUSERS)
		err = claim_any(slot, first, step, claim_in_folder);
	if (err == -EUSERS)
		say_slots_taken();
	if (err && slot->fd >= 0)
		slot_release(slot);
	return err;
}

int slot_claim(struct slot *slot)
{
	return claim_of(slot, 0, 1);
}

int slot_claim_more(struct slot *slot, uint32_t part)
{
	struct slot more;
	int err = claim_of(&more, part, SLOT_PARTS);

	if (err)
		return err;
	shutdown(more.fd, SHUT_RD); /* a process that does not know the owner sends in vain, and learns it */
	slot->more[part] = more.fd + 1;
	return more.number;
}

void slot_release(struct slot *slot)
{
	close(slot->fd);
	for (uint32_t i = 0; i < SLOT_PARTS; i++)
		if (slot->more[i])
			close(slot->more[i] - 1);
	*slot = (struct slot){.fd = -1};
}
