// SPDX-License-Identifier: BSD-2-Clause
/* What a program that does nothing else gets out of the same sockets: the yardsticks for bench/run.
 *
 *   yardstick probe                         ns that a cache line takes from core to core: near or far
 *   yardstick latency [NSA NSB IPA IPB]     half round trip of a bare UDP ping-pong, ns (median)
 *   yardstick stream BYTES [NSA ...]        payload GB/s, UDP_SEGMENT to UDP_GRO, one copy, ICRC at both ends
 *   yardstick batch [NSA ...]               M packets/s of the size of a 64-byte SEND, the same way
 *   yardstick copy BYTES                    GB/s of memcpy() from one mapping of shared memory to another
 *   yardstick wake                          ns to wake a thread on the other core through an eventfd
 *
 * The client runs on CPU 0 and the server on CPU 1, as bench/run places the programs that are compared with
 * it. No priority, no privilege beyond entering the namespaces that were asked for. Prints one number. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum {
	BTH = 12,
	ICRC = 4,
	TRAIN_BYTES = 65000,
	TRAIN_PACKETS = 64,
	MESSAGE = 65536,     /* the buffer that is sent again and again, as ib_write_bw -s 65536 does */
	WINDOW = 512 * 1024, /* bytes on the way */
	SMALL = BTH + 64 + ICRC,
	SOCKET_BUFFER = 4 << 20,
	LATENCY_ROUNDS = 20000,
	PROBE_ROUNDS = 4000,
};
#define STREAM_NS 200000000ull

/* One line per writer. */
struct shared {
	_Alignas(128) _Atomic uint64_t a;
	_Alignas(128) _Atomic uint64_t b;
	_Alignas(128) _Atomic bool stop;
	_Atomic bool ready;
	uint64_t bad;
};

static struct shared *shared;
static int sock[2];
static struct sockaddr_in address[2];
static size_t payload; /* bytes in each packet of a stream */

static void die(const char *what)
{
	fprintf(stderr, "yardstick: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set); /* one processor only: then it stays where it is */
}

static pid_t start(void (*server)(void))
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(1);
		server();
		_exit(0);
	}
	pin(0);
	return pid;
}

static void finish(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) < 0 || status)
		die("server failed");
}

static int open_socket(int side, const char *ns, const char *ip)
{
	int fd, size = SOCKET_BUFFER, mode = IP_PMTUDISC_DO;
	socklen_t length = sizeof(address[0]);
	char path[256];

	if (ns) {
		snprintf(path, sizeof(path), "/var/run/netns/%s", ns);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || setns(fd, CLONE_NEWNET))
			die(path);
		close(fd);
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		die("socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &mode, sizeof(mode));
	address[side].sin_family = AF_INET;
	if (inet_pton(AF_INET, ip, &address[side].sin_addr) != 1 || bind(fd, (void *)&address[side], length) ||
	    getsockname(fd, (void *)&address[side], &length))
		die(ip);
	return fd;
}

static void open_sockets(char **arg)
{
	for (int side = 0; side < 2; side++)
		sock[side] =
			arg[0] ? open_socket(side, arg[side], arg[2 + side]) : open_socket(side, NULL, "127.0.0.1");
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t median(uint64_t *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

/* ---- probe ---- */

static void probe_server(void)
{
	for (uint64_t i = 1; i <= PROBE_ROUNDS; i++) {
		while (atomic_load_explicit(&shared->a, memory_order_acquire) != i)
			relax();
		atomic_store_explicit(&shared->b, i, memory_order_release);
	}
}

/* The shortest of several stretches: what others do on these cores can only lengthen one. */
static double probe(char **arg)
{
	pid_t pid = start(probe_server);
	uint64_t best = UINT64_MAX, begin = now();

	(void)arg;
	for (uint64_t i = 1; i <= PROBE_ROUNDS; i++) {
		atomic_store_explicit(&shared->a, i, memory_order_release);
		while (atomic_load_explicit(&shared->b, memory_order_acquire) != i)
			relax();
		if (i % 100)
			continue;
		uint64_t end = now();
		if (end - begin < best)
			best = end - begin;
		begin = end;
	}
	finish(pid);
	return (double)best / 200;
}

/* ---- latency ---- */

static void bounce_send(int side)
{
	static char out[SMALL];

	if (sendto(sock[side], out, SMALL, 0, (void *)&address[!side], sizeof(address[0])) != SMALL)
		die("sendto");
}

static void bounce_receive(int side)
{
	struct sockaddr_in from;
	socklen_t length = sizeof(from);
	char in[2048];

	while (recvfrom(sock[side], in, sizeof(in), 0, (void *)&from, &length) != SMALL)
		;
}

static void latency_server(void)
{
	for (int i = 0; i < LATENCY_ROUNDS; i++) {
		bounce_receive(1);
		bounce_send(1);
	}
}

static double latency(char **arg)
{
	static uint64_t sample[LATENCY_ROUNDS];
	pid_t pid;

	open_sockets(arg);
	pid = start(latency_server);
	for (int i = 0; i < LATENCY_ROUNDS; i++) {
		uint64_t begin = now();
		bounce_send(0);
		bounce_receive(0);
		sample[i] = now() - begin;
	}
	finish(pid);
	return (double)median(sample, LATENCY_ROUNDS) / 2;
}

/* ---- wake ---- */

static int wake_fd[2];

static void wake_server(void)
{
	uint64_t v;

	for (int i = 0; i < 1000; i++)
		if (read(wake_fd[0], &v, sizeof(v)) != sizeof(v) || write(wake_fd[1], &v, sizeof(v)) != sizeof(v))
			die("eventfd");
}

static double wake(char **arg)
{
	uint64_t sample[1000], v = 1;
	pid_t pid;

	(void)arg;
	for (int i = 0; i < 2; i++)
		wake_fd[i] = eventfd(0, EFD_CLOEXEC);
	pid = start(wake_server);
	for (int i = 0; i < 1000; i++) {
		uint64_t begin = now();
		if (write(wake_fd[0], &v, sizeof(v)) != sizeof(v) || read(wake_fd[1], &v, sizeof(v)) != sizeof(v))
			die("eventfd");
		sample[i] = now() - begin;
	}
	finish(pid);
	return (double)median(sample, 1000) / 2;
}

/* ---- stream ---- */

static uint32_t icrc(const uint8_t *bth, const uint8_t *data)
{
	uint8_t head[48]; /* 8 bytes of ones, the masked IP and UDP headers, the BTH */

	memset(head, 0xff, 36);
	memcpy(head + 36, bth, BTH);
	return crc32_gzip_refl(crc32_gzip_refl(0, head, sizeof(head)), data, payload);
}

static void stream_server(void)
{
	static uint8_t train[4][65536] __attribute__((aligned(64))), message[MESSAGE] __attribute__((aligned(64)));
	size_t segment = BTH + payload + ICRC, offset = 0;
	uint64_t packets = 0;
	struct mmsghdr m[4] = {0};
	struct iovec iov[4];
	int one = 1;

	if (setsockopt(sock[1], IPPROTO_UDP, UDP_GRO, &one, sizeof(one)))
		die("UDP_GRO");
	for (int i = 0; i < 4; i++) {
		iov[i] = (struct iovec){train[i], sizeof(train[i])};
		m[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
	}
	atomic_store(&shared->ready, true);
	while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
		int n = recvmmsg(sock[1], m, 4, MSG_DONTWAIT, NULL);

		for (int i = 0; i < n; i++) {
			for (size_t at = 0; at + segment <= m[i].msg_len; at += segment, packets++) {
				const uint8_t *p = train[i] + at;
				uint32_t psn, crc;

				memcpy(message + offset, p + BTH, payload);
				memcpy(&psn, p + 8, sizeof(psn));
				memcpy(&crc, p + BTH + payload, sizeof(crc));
				if (psn != (uint32_t)packets || crc != icrc(p, message + offset))
					shared->bad++;
				offset = (offset + payload) % MESSAGE;
			}
		}
		atomic_store_explicit(&shared->b, packets, memory_order_release);
	}
}

/* Packets per ns, less the first fifth of the time. */
static double stream_rate(char **arg)
{
	static uint8_t message[MESSAGE] __attribute__((aligned(64)));
	static uint8_t head[TRAIN_PACKETS][BTH], tail[TRAIN_PACKETS][ICRC];
	struct iovec iov[TRAIN_PACKETS * 3];
	char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
	size_t segment = BTH + payload + ICRC, offset = 0;
	uint64_t window, sent = 0, begin, warm = 0, warm_packets = 0, t;
	uint32_t train = (uint32_t)(TRAIN_BYTES / segment);
	pid_t pid;

	open_sockets(arg);
	if (train > TRAIN_PACKETS)
		train = TRAIN_PACKETS;
	window = WINDOW / segment;
	for (size_t i = 0; i < MESSAGE; i++)
		message[i] = (uint8_t)(i * 7 + (i >> 12));
	struct msghdr h = {.msg_name = &address[1],
			   .msg_namelen = sizeof(address[1]),
			   .msg_iov = iov,
			   .msg_iovlen = 3 * train,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);
	c->cmsg_level = IPPROTO_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
	memcpy(CMSG_DATA(c), &(uint16_t){(uint16_t)segment}, sizeof(uint16_t));

	pid = start(stream_server);
	while (!atomic_load(&shared->ready))
		relax();
	begin = now();
	while ((t = now()) - begin < STREAM_NS) {
		uint64_t patience = t + 50000000;

		if (!warm && t - begin > STREAM_NS / 5) {
			warm = t;
			warm_packets = atomic_load(&shared->b);
		}
		while (sent + train - atomic_load_explicit(&shared->b, memory_order_acquire) > window)
			if (now() > patience)
				break; /* lost: counted as bad below */
		for (uint32_t k = 0; k < train; k++, offset = (offset + payload) % MESSAGE) {
			uint32_t psn = (uint32_t)sent + k, crc;

			memcpy(head[k] + 8, &psn, sizeof(psn));
			crc = icrc(head[k], message + offset);
			memcpy(tail[k], &crc, sizeof(crc));
			iov[3 * k] = (struct iovec){head[k], BTH};
			iov[3 * k + 1] = (struct iovec){message + offset, payload};
			iov[3 * k + 2] = (struct iovec){tail[k], ICRC};
		}
		if (sendmsg(sock[0], &h, 0) < 0 && errno != EAGAIN)
			die("sendmsg");
		sent += train;
	}
	double rate = (double)(atomic_load(&shared->b) - warm_packets) / (double)(now() - warm);
	atomic_store(&shared->stop, true);
	finish(pid);
	if (shared->bad)
		fprintf(stderr, "yardstick: %llu bad packets\n", (unsigned long long)shared->bad);
	return rate;
}

static double stream(char **arg)
{
	payload = (size_t)atoi(arg[0] ? arg[0] : "4096");
	return stream_rate(arg[0] ? arg + 1 : arg) * (double)payload;
}

static double batch(char **arg)
{
	payload = SMALL - BTH - ICRC;
	return stream_rate(arg) * 1000;
}

/* ---- copy ---- */

static char *map_shared(int fd, size_t size)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);

	if (at == MAP_FAILED)
		die("mmap");
	return at;
}

/* The buffer is the same each time, as with perftest. */
static double copy(char **arg)
{
	size_t size = strtoul(arg[0] ? arg[0] : "65536", NULL, 0);
	int fd[2] = {memfd_create("from", MFD_CLOEXEC), memfd_create("to", MFD_CLOEXEC)};
	uint64_t begin, bytes = 0, end;
	char *from, *to;

	if (fd[0] < 0 || fd[1] < 0 || ftruncate(fd[0], (off_t)size) || ftruncate(fd[1], (off_t)size))
		die("memfd_create");
	pin(0);
	from = map_shared(fd[0], size);
	to = map_shared(fd[1], size);
	begin = now();
	do {
		for (int i = 0; i < 16; i++, bytes += size) {
			memcpy(to, from, size);
			__asm__ volatile("" : : "r"(to), "r"(from) : "memory"); /* each is done */
		}
		end = now();
	} while (end - begin < STREAM_NS);
	return (double)bytes / (double)(end - begin);
}

static const struct yardstick {
	const char *name;
	double (*measure)(char **arg);
} yardsticks[] = {
	{"probe", probe}, {"latency", latency}, {"stream", stream}, {"batch", batch}, {"wake", wake}, {"copy", copy},
};

int main(int argc, char **argv)
{
	alarm(60); /* a hang must not hold a core */
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (shared == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; argc > 1 && i < sizeof(yardsticks) / sizeof(yardsticks[0]); i++) {
		if (strcmp(yardsticks[i].name, argv[1]) == 0) {
			printf("%.4g\n", yardsticks[i].measure(argv + 2));
			return 0;
		}
	}
	fprintf(stderr,
		"usage: yardstick probe | latency | stream BYTES | batch | wake | copy BYTES [NSA NSB IPA IPB]\n");
	return 2;
}
