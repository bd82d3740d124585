/* SPDX-License-Identifier: BSD-2-Clause */
/* Any message with any descriptors, where a local peer may send one: as a greeting; as an answer to a command; as the
 * registry of slots and services, with any bytes in it, which is then used. Nothing stays open of what is refused, and
 * nothing taken can block or fault. Seeds: corpus/rights, made by rights-seeds.py. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/control_call.h"
#include "base/memfd.h"
#include "base/rights.h"
#include "base/stat_read.h"
#include "host/introduction.h"
#include "host/services.h"
#include "host/slot.h"
#include "host/steering.h"
#include "link/link.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { GREETING, ANSWER, REGISTRY, RECEIVERS };

static const uint64_t room = sizeof(struct registry);

static struct slot own, peer;
static struct link port = {.ops = NULL, .socket = -1};
static int listener = -1;    /* the peer's, for the registry; -1: names are not this process's alone */
static const uint8_t *bytes; /* of the message; of changes of the registry */
static size_t length;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what the peer's thread reads */
static int sent[RIGHTS_MOST];
static unsigned count;

static int lowest_free(void)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

	close(fd);
	return fd;
}

/* Changes: three bytes say where, one how many follow. */
static void fill_registry(int fd)
{
	char *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	require(at != MAP_FAILED);
	for (size_t i = 0; i + 4 <= length;) {
		uint64_t to = (bytes[i] | bytes[i + 1] << 8 | bytes[i + 2] << 16) % room;
		size_t n = min_of(min_of((size_t)bytes[i + 3], length - i - 4), (size_t)(room - to));

		memcpy(at + to, bytes + i + 4, n);
		i += 4 + n;
	}
	munmap(at, room);
}

static int make_descriptor(uint8_t kind)
{
	int fd = -1, s[2];

	switch (kind % 9) {
	case 0:
		fd = memfd_of_size("sealed", 0, room);
		require(fd >= 0);
		fill_registry(fd);
		return fd;
	case 1:
		fd = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		require(!ftruncate(fd, (off_t)room));
		return fd;
	case 2:
		fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
		if (fd >= 0 && !ftruncate(fd, 2 << 20))
			fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
		return fd >= 0 ? fd : dup(0);
	case 3:
		return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	case 4:
		return eventfd(0, EFD_CLOEXEC);
	case 5:
		require(!pipe2(s, O_CLOEXEC));
		break;
	case 6:
		require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s));
		break;
	case 7:
		fd = memfd_of_size("short", 0, 100);
		require(fd >= 0 && write(fd, bytes, min_of(length, (size_t)100)) >= 0);
		return fd;
	default:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	close(s[0]);
	return s[1];
}

/* ---- the receivers ---- */

static int connection_with_message(size_t most)
{
	int s[2];

	require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s));
	require(!rights_send(s[0], bytes, min_of(length, most), sent, count));
	close(s[0]);
	return s[1];
}

static void receive_greeting(void)
{
	int fd = connection_with_message(1000);
	struct introduction in;

	if (!introduction_receive(fd, &in))
		require(in.greeting.slot && in.greeting.slot <= SLOTS && in.fd[GREETING_RING] >= 0);
	introduction_close(&in);
	close(fd);
}

static void receive_answer(void)
{
	char answer[256];
	int given, fd = control_take_answer(connection_with_message(5000), answer, sizeof(answer), &given,
					    clock_now() + SEC);
	struct stat_process p;
	struct stat st;

	require(fd >= 0 || given < 0);
	if (given >= 0) {
		require(!fstat(given, &st) && S_ISREG(st.st_mode) && count == 1);
		(void)stat_read(given, &p);
		stat_free(&p);
		close(given);
	}
	if (fd >= 0)
		close(fd);
}

static void *give_registry(void *arg)
{
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		pthread_mutex_lock(&lock);
		rights_send(fd, "", 1, sent, count);
		pthread_mutex_unlock(&lock);
		close(fd);
	}
	return arg;
}

static bool is_alive(uint16_t slot)
{
	require(slot && slot <= SLOT_LAST);
	return slot & 1;
}

static void nothing(void *arg)
{
}

static void close_nothing(struct link *l)
{
}

static int open_port(const union ibv_gid *gid, uint16_t slot, struct link **link)
{
	*link = &port;
	return 0;
}

static void use_registry(struct steering *s, struct services *services)
{
	const _Atomic uint16_t *owners = steering_owners(s);
	union ibv_gid to = {.raw = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
	struct link *link;
	struct steered place;

	for (uint64_t id = 0; id < 4; id++) {
		services_owner(services, &to, id, is_alive);
		services_claim(services, own.number, &to, id, (enum gsi_claim)id, is_alive);
		services_release(services, own.number, &to, id);
	}
	steering_listen(s, 5, true);
	steering_own(s, 7);
	require(owners);
	require(!steering_open(s, &place, &to, open_port, &link));
	steering_renew(&place);
	place.settled = true;
	for (uint64_t i = 0; i < 8; i++)
		steering_stray(&place, peer.number, SEC * i);
	steering_silence(&place, 60 * SEC);
	steering_close(&place, nothing, NULL);
}

static void receive_registry(void)
{
	struct services *services;
	struct steering s;
	int entered;

	if (listener < 0)
		return;
	steering_init(&s, &own);
	entered = steering_enter(&s, &services);
	if (entered >= 0) {
		steering_leave(entered);
		use_registry(&s, services);
	}
	steering_fini(&s);
}

/* ---- */

static void make_port(void)
{
	static const struct link_ops ops = {.close = close_nothing};
	int one = 1;

	port.ops = &ops;
	port.gid = (union ibv_gid){.raw = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
	port.socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	require(!setsockopt(port.socket, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)));
}

static void begin(void)
{
	struct sockaddr_un address;
	pthread_t thread;
	socklen_t size;

	if (unshare(CLONE_NEWNET))
		return;
	require(!slot_claim(&own) && !slot_claim(&peer));
	make_port();
	size = slot_abstract(&address, "%u/registry/%u", geteuid(), peer.number);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	require(!bind(listener, (struct sockaddr *)&address, size) && !listen(listener, 4));
	require(!pthread_create(&thread, NULL, give_registry, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const receive[])(void) = {receive_greeting, receive_answer, receive_registry};
	static bool begun;
	static int before;

	if (!begun)
		begin();
	begun = true;
	if (size < 2 || size - 2 < data[1] % (RIGHTS_MOST + 1))
		return 0;
	pthread_mutex_lock(&lock);
	count = data[1] % (RIGHTS_MOST + 1);
	bytes = data + 2 + count;
	length = size - 2 - count;
	for (unsigned i = 0; i < count; i++)
		sent[i] = make_descriptor(data[2 + i]);
	pthread_mutex_unlock(&lock);
	receive[data[0] % RECEIVERS]();
	pthread_mutex_lock(&lock);
	while (count)
		close(sent[--count]);
	pthread_mutex_unlock(&lock);
	if (!before)
		before = lowest_free();
	require(lowest_free() <= before + 1); /* the peer's thread may not have closed its connection yet */
	return 0;
}
