/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/slot.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/high_fd.h"
#include "base/base.h"
#include "base/log.h"
#include "loop/name_owner.h"

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

socklen_t slot_address(struct sockaddr_un *address, uint8_t number)
{
	return slot_abstract(address, "slot/%u", number);
}

int slots_probe(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

bool slots_have(int probe, uint8_t number)
{
	struct sockaddr_un address;
	/* other errors say nothing about the process */
	bool dead = probe >= 0 && connect(probe, (struct sockaddr *)&address, slot_address(&address, number)) &&
		    errno == ECONNREFUSED;

	return !dead;
}

bool slot_is_alive(uint8_t number)
{
	int fd = slots_probe();
	bool alive = slots_have(fd, number);

	if (fd >= 0)
		close(fd);
	return alive;
}

int slot_check_user(int connection, pid_t *pid)
{
	struct ucred who;
	socklen_t size = sizeof(who);

	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) || who.uid != geteuid())
		return -EACCES;
	if (pid)
		*pid = who.pid;
	return 0;
}

static int open_slot(struct slot *slot)
{
	int one = 1;

	slot->fd = high_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	/* senders are checked: see handover_receive() */
	return slot->fd < 0 || setsockopt(slot->fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) ? -errno : 0;
}

/* A process of any user may have bound such names. */
static void say_slots_taken(void)
{
	struct sockaddr_un address;
	uid_t uid;

	for (unsigned i = 1; i <= SLOTS; i++) {
		if (name_is_foreign(&address, slot_address(&address, (uint8_t)i), &uid)) {
			log_error("there are %u slots for processes that use uroce, of all users: slot %u is user %u's "
				  "(ss -xap "
				  "| grep uroce/slot shows the programs)",
				  SLOTS, i, uid);
			return;
		}
	}
}

int slot_claim(struct slot *slot)
{
	unsigned first;
	int err;

	if (open_slot(slot))
		goto err;
	/* starts at random: a stranger who forges a packet has to guess the slot as well */
	if (getrandom(&first, sizeof(first), 0) != sizeof(first))
		first = (unsigned)getpid();
	for (unsigned i = 0; i < SLOTS; i++) {
		struct sockaddr_un address;
		uint8_t number = 1 + (first % SLOTS + i) % SLOTS;

		if (!bind(slot->fd, (struct sockaddr *)&address, slot_address(&address, number))) {
			slot->number = number;
			return 0;
		}
		if (errno != EADDRINUSE)
			goto err;
	}
	say_slots_taken();
	errno = EUSERS;
err:
	err = -errno;
	if (slot->fd >= 0)
		slot_release(slot);
	return err;
}

void slot_release(struct slot *slot)
{
	close(slot->fd);
	*slot = (struct slot){.fd = -1};
}
