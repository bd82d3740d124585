/* SPDX-License-Identifier: BSD-2-Clause */
/* Why the guardian is a copy of this process that then drops nearly everything: an executable of its own would need
 * a path, which a container or chroot(2) may not have. A process that shares this one's memory (CLONE_VM) could drop
 * it afterwards; but the kernel ends it, too, when the OOM killer chooses this process or, before Linux 5.16, when
 * this process dumps core. So memory is shared only if the page tables would take long to copy.
 *
 * How the guardian is started: a middle process that shares memory (like vfork(2), so it is cheap) starts it and
 * ends. So the guardian is not this process's child, and has no rseq(2) area, which the kernel would write to. If
 * orphans come to this process (pid 1, or a subreaper), the guardian becomes a child that only __WALL finds. */
#include "cm/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/high_fd.h"
#include "base/log.h"
#include "cm/machine.h"
#include "cm/state.h"
#include "cm/tuned.h"
#include "link/netif.h"
#include "link/udp.h"
#include "port/gsi.h"

#ifdef HAVE_MEMCHECK
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9; the same on all architectures */
#endif

#define MIDDLE_STACK 65536u
#define STACK	     16384u
#define TOP	     (1ul << 62) /* beyond all addresses of a process */

enum { PIPE, IPV4, IPV6, DESCRIPTORS }; /* descriptor numbers in the guardian */

/* Message for one peer. Written under cm.lock; read by the guardian after the writer's end. */
struct words {
	volatile uint32_t ready; /* 0: no message, or being written */
	int socket;
	struct msghdr message;
	struct iovec iov;
	struct sockaddr_in6 to; /* or a sockaddr_in */
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(int))];
	uint8_t datagram[GSI_DATAGRAM];
};

struct range {
	uintptr_t from, to;
};

/* Memory shared by both processes, at one address. */
static struct guardian {
	_Alignas(16) uint8_t middle_stack[MIDDLE_STACK];
	_Alignas(16) uint8_t stack[STACK];
	int fd[DESCRIPTORS];	    /* numbers in this process; -1: none */
	uint16_t port[DESCRIPTORS]; /* ports of the sockets */
	uint32_t descriptors;	    /* size of this process's descriptor table, for kernels without close_range(2) */
	bool shares;		    /* the guardian shares memory with this process, which is too large to be copied */
	bool is_child;		    /* orphans would become this process's children */
	uintptr_t page;
	struct range kept[2]; /* parts of memory that the guardian keeps: this struct, and code; in order */
	sigset_t all;
	struct timespec pause;
	char byte;
	volatile uint32_t settled; /* a futex: the guardian has dropped all of this process's resources */
	volatile uint32_t used;	   /* words from here on have never been used */
	struct words words[CONNECTION_LIMIT];
} * table;					      /* NULL: not needed yet */
static struct guardian *guardian GUARDED_BY(cm.lock); /* the table; NULL: no guardian reads it */
static int life = -1; /* this process's end of the pipe: the guardian reads until it is closed */
/* Inotify descriptors, which delay the end of pid 1 of a PID namespace, as the kernel kills all others of the
 * namespace after it. Closing one takes a jiffy or more, as the kernel waits until its watch is unused. An ending
 * process closes the highest descriptor first: so the pipe, then these, and the guardian has that time. More
 * descriptors would help on a busy machine, but a user may have only 128. -1: none. */
static int delay[2] = {-1, -1};

/* ---- in the guardian: system calls only, as there is no libc and no thread-local storage ---- */

#if defined(__x86_64__)
#define raw(number, a, b, c, d)                                                                                    \
	({                                                                                                         \
		register long raw_d __asm__("r10") = (long)(d);                                                    \
		long raw_result;                                                                                   \
		__asm__ volatile("syscall"                                                                         \
				 : "=a"(raw_result)                                                                \
				 : "a"((long)(number)), "D"((long)(a)), "S"((long)(b)), "d"((long)(c)), "r"(raw_d) \
				 : "rcx", "r11", "memory");                                                        \
		raw_result;                                                                                        \
	})
#elif defined(__aarch64__)
#define raw(number, a, b, c, d)                                                        \
	({                                                                             \
		register long raw_number __asm__("x8") = (long)(number);               \
		register long raw_a __asm__("x0") = (long)(a);                         \
		register long raw_b __asm__("x1") = (long)(b);                         \
		register long raw_c __asm__("x2") = (long)(c);                         \
		register long raw_d __asm__("x3") = (long)(d);                         \
		__asm__ volatile("svc 0"                                               \
				 : "+r"(raw_a)                                         \
				 : "r"(raw_number), "r"(raw_b), "r"(raw_c), "r"(raw_d) \
				 : "memory");                                          \
		raw_a;                                                                 \
	})
#endif

#ifdef raw
#ifndef __has_attribute
#define __has_attribute(x) 0
#endif
#if __has_attribute(no_stack_protector)
#define UNPROTECTED no_stack_protector
#else
#define UNPROTECTED
#endif
#if __has_attribute(disable_sanitizer_instrumentation)
#define UNSANITIZED disable_sanitizer_instrumentation
#else
#define UNSANITIZED no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined")
#endif
#define BARE __attribute__((UNPROTECTED, UNSANITIZED, no_instrument_function))

/* Unmaps all memory but the two ranges. Where the kernel refuses (a part that may not be unmapped, or no such
 * addresses), by halves. Inline, as guard() calls no function: returning may need a shadow stack, which is unmapped. */
BARE static inline __attribute__((always_inline)) void give_up_memory(const struct guardian *g)
{
	for (int i = 0; i < 3; i++) {
		uintptr_t at = i ? g->kept[i - 1].to : 0, end = i < 2 ? g->kept[i].from : TOP, step = end - at;

		while (at < end) {
			long err = raw(SYS_munmap, at, step, 0, 0);

			if (err && step > g->page) {
				step = (step / 2 + g->page - 1) & -g->page;
				continue;
			}
			if (err == -EINVAL)
				break; /* the end of all addresses */
			at += step;
			step = end - at;
		}
	}
}

BARE __attribute__((noinline)) static int guard(void *arg)
{
	struct guardian *g = arg;

	raw(SYS_rt_sigprocmask, SIG_BLOCK, &g->all, 0, 8);
	raw(SYS_setsid, 0, 0, 0, 0);
	raw(SYS_chdir, "/", 0, 0, 0);
	raw(SYS_prctl, PR_SET_NAME, "uroce-guardian", 0, 0);
	for (int i = 0; i < DESCRIPTORS; i++)
		if (g->fd[i] < 0 || raw(SYS_dup3, g->fd[i], i, 0, 0) < 0)
			raw(SYS_close, i, 0, 0, 0);
	if (raw(SYS_close_range, DESCRIPTORS, -1u, 0, 0))
		for (uint32_t fd = DESCRIPTORS; fd < g->descriptors; fd++)
			raw(SYS_close, fd, 0, 0, 0);
	if (!g->shares)
		give_up_memory(g);
	g->settled = 1;
	raw(SYS_futex, &g->settled, FUTEX_WAKE, 1, 0);
	while (raw(SYS_read, PIPE, &g->byte, 1, 0) < 0)
		;
	for (uint32_t round = 0; round < GUARDIAN_ROUNDS; round++) {
		bool any = false;

		for (uint32_t i = 0; i < g->used; i++) {
			if (!g->words[i].ready)
				continue;
			raw(SYS_sendmsg, g->words[i].socket, &g->words[i].message, MSG_NOSIGNAL, 0);
			any = true;
		}
		if (!any || round == GUARDIAN_ROUNDS - 1)
			break;
		if (g->shares && !round)
			give_up_memory(g);
		raw(SYS_nanosleep, &g->pause, 0, 0, 0);
		g->pause.tv_nsec = GUARDIAN_PAUSE;
	}
	for (;;)
		raw(SYS_exit_group, 0, 0, 0, 0);
	return 0;
}

/* ---- in the middle: shares the memory of this process, whose thread waits ---- */

int __clone(int (*function)(void *), void *stack, int flags, void *arg, ...);

static int middle(void *arg)
{
	struct guardian *g = arg;

	int flags = CLONE_UNTRACED | (g->is_child ? CLONE_PARENT : 0) | (g->shares ? CLONE_VM : 0);

	return __clone(guard, g->stack + STACK, flags, g) < 0 ? errno : 0;
}

/* ---- in this process ---- */

/* Finds the read-only parts of the library, which are neither private memory nor a copy of it. */
static int find_code(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct range code = {UINTPTR_MAX, 0};
	bool has_guard = false;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD || p->p_flags & PF_W)
			continue;
		has_guard |= (uintptr_t)guard - from < p->p_memsz;
		code.from = min_of(code.from, from);
		code.to = max_of(code.to, from + p->p_memsz);
	}
	if (has_guard)
		*(struct range *)arg = code;
	return has_guard;
}

/* A number of /proc/self/status, or `otherwise`. */
static uint32_t status_of(const char *format, uint32_t otherwise)
{
	uint32_t value = otherwise;
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, format, &value) == 1)
			break;
	if (f)
		fclose(f);
	return value;
}

/* True if the table takes a small part of the addresses that the process may have (ulimit -v). */
static bool may_take_addresses(void)
{
	struct rlimit most;

	return getrlimit(RLIMIT_AS, &most) || most.rlim_cur / GUARDIAN_PART > sizeof(struct guardian);
}

static struct guardian *make_table(void)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct guardian *g = MAP_FAILED;
	struct range own, code = {0, 0};

	if (may_take_addresses())
		g = mmap(NULL, sizeof(*g), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (g == MAP_FAILED)
		return NULL;
	own = (struct range){(uintptr_t)g, (uintptr_t)(g + 1)};
	dl_iterate_phdr(find_code, &code);
	g->page = page;
	g->kept[0] = own.from < code.from ? own : code;
	g->kept[1] = own.from < code.from ? code : own;
	for (int i = 0; i < 2; i++)
		g->kept[i] = (struct range){g->kept[i].from & -page, (g->kept[i].to + page - 1) & -page};
	memset(&g->all, 0xff, sizeof(g->all));
	return g;
}

static int open_descriptors(struct guardian *g)
{
	int ends[2];

	for (int i = IPV4; i <= IPV6; i++) {
		struct sockaddr_in6 a; /* an IPv4 address has its port at the same offset */
		socklen_t size = sizeof(a);

		g->fd[i] = link_udp_sender(i == IPV4 ? AF_INET : AF_INET6);
		g->port[i] =
			g->fd[i] < 0 || getsockname(g->fd[i], (struct sockaddr *)&a, &size) ? 0 : ntohs(a.sin6_port);
	}
	for (int i = 0; i < 2 && getpid() == 1; i++) {
		delay[i] = high_fd(inotify_init1(IN_CLOEXEC));
		if (delay[i] >= 0)
			inotify_add_watch(delay[i], "/", IN_DELETE_SELF);
	}
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	g->fd[PIPE] = high_fd(ends[0]);
	life = high_fd(ends[1]);
	for (int i = 0; i < DESCRIPTORS; i++)
		if (g->fd[i] >= 0 && g->fd[i] < DESCRIPTORS)
			return -EMFILE; /* dup3() would close the descriptor */
	return 0;
}

/* Waits until the guardian has closed its copies of descriptors; before, this process would seem to live on if it
 * was killed. */
static void await_settled(struct guardian *g)
{
	const struct timespec patience = {.tv_sec = 1};

	while (!g->settled && (!syscall(SYS_futex, &g->settled, FUTEX_WAIT, 0, &patience) || errno == EINTR))
		;
}

static int clone_it(struct guardian *g)
{
	int subreaper = 0, status = 0;
	sigset_t before;
	pid_t pid;

	prctl(PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
	g->is_child = subreaper || getpid() == 1;
	g->descriptors = status_of("FDSize: %" SCNu32, 65536);
	g->shares = status_of("RssAnon: %" SCNu32, 0) > GUARDIAN_LARGE;
	g->settled = 0;
	g->pause = (struct timespec){.tv_nsec = GUARDIAN_FIRST};
	pthread_sigmask(SIG_SETMASK, &g->all, &before);
	pid = __clone(middle, g->middle_stack + MIDDLE_STACK, CLONE_VM | CLONE_VFORK | CLONE_UNTRACED, g);
	status = pid < 0 ? errno : 0;
	if (pid > 0 && waitpid(pid, &status, __WALL) == pid)
		status = WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
	if (!status)
		await_settled(g);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -status;
}

static void let_go(void)
{
	if (life >= 0)
		close(life);
	for (int i = 0; i < 2; i++)
		if (delay[i] >= 0)
			close(delay[i]);
	life = delay[0] = delay[1] = -1;
}

static bool is_there(void)
{
	struct pollfd p = {.fd = life};

	return life >= 0 && poll(&p, 1, 0) == 0; /* POLLERR: the pipe has no reader any more */
}

static int make_guardian(struct guardian *g)
{
	int err;

	memset(g->fd, 0xff, sizeof(g->fd));
	err = open_descriptors(g) ?: clone_it(g);
	for (int i = 0; i < DESCRIPTORS; i++)
		if (g->fd[i] >= 0)
			close(g->fd[i]);
	return err;
}

void guardian_start(void)
{
	int err;

	if (is_there() || !config_bool(CONFIG_GUARDIAN) ||
	    RUNNING_ON_VALGRIND) /* valgrind does not know such a process */
		return;
	lock_take(&cm.lock);
	guardian = NULL;
	lock_drop(&cm.lock);
	let_go();
	table = table ?: make_table();
	if (!table)
		return;
	err = make_guardian(table);
	if (err) {
		log_info("the guardian cannot be started, so peers on other hosts get no DREQ if this process is "
			 "killed: %s",
			 strerror(-err));
		let_go();
		return;
	}
	lock_take(&cm.lock);
	guardian = table;
	machine_last_words(&cm);
	lock_drop(&cm.lock);
}

static void add_control(struct msghdr *m, int level, int type, const void *value, size_t size)
{
	struct cmsghdr *c = (struct cmsghdr *)((char *)m->msg_control + m->msg_controllen);

	*c = (struct cmsghdr){.cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(size)};
	memcpy(CMSG_DATA(c), value, size);
	m->msg_controllen += CMSG_SPACE(size);
}

static void address_words(struct words *w, const struct cm_address *a)
{
	int traffic_class = a->traffic_class;
	bool is_ipv4 = address_is_ipv4(&a->remote);

	w->message =
		(struct msghdr){.msg_name = &w->to, .msg_iov = &w->iov, .msg_iovlen = 1, .msg_control = w->control};
	if (is_ipv4) {
		struct in_pktinfo from = {0};
		struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};

		memcpy(&to.sin_addr, a->remote.raw + 12, 4);
		memcpy(&from.ipi_spec_dst, a->local.raw + 12, 4);
		memcpy(&w->to, &to, sizeof(to));
		w->message.msg_namelen = sizeof(to);
		add_control(&w->message, IPPROTO_IP, IP_PKTINFO, &from, sizeof(from));
	} else {
		struct in6_pktinfo from = {0};

		w->to = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT)};
		if (address_is_link_local(&a->local))
			w->to.sin6_scope_id = from.ipi6_ifindex = (uint32_t)netif_of_address(&a->local);
		memcpy(&w->to.sin6_addr, a->remote.raw, 16);
		memcpy(&from.ipi6_addr, a->local.raw, 16);
		w->message.msg_namelen = sizeof(w->to);
		add_control(&w->message, IPPROTO_IPV6, IPV6_PKTINFO, &from, sizeof(from));
	}
	if (traffic_class)
		add_control(&w->message, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6, is_ipv4 ? IP_TOS : IPV6_TCLASS,
			    &traffic_class, sizeof(traffic_class));
}

void guardian_keep(const struct connection *c, const uint8_t mad[CM_MAD_BYTES])
{
	struct guardian *g = guardian;
	struct words *w;

	if (!g)
		return;
	w = &g->words[c->index];
	if (!mad && c->index >= g->used)
		return; /* page never touched */
	w->ready = 0;
	w->socket = address_is_ipv4(&c->address.remote) ? IPV4 : IPV6;
	if (!mad || !g->port[w->socket])
		return;
	/* if the process is killed before the store, the words are not ready */
	atomic_thread_fence(memory_order_release);
	address_words(w, &c->address);
	w->iov = (struct iovec){
		w->datagram, gsi_encode(&c->address.local, &c->address.remote, g->port[w->socket], mad, w->datagram)};
	atomic_thread_fence(memory_order_release);
	w->ready = 1;
	g->used = max_of(g->used, c->index + 1);
}

void guardian_forget(void)
{
	let_go();
	if (table)
		munmap(table, sizeof(*table));
	table = guardian = NULL;
}

#else

void guardian_start(void)
{
}

void guardian_keep(const struct connection *c, const uint8_t mad[CM_MAD_BYTES])
{
}

void guardian_forget(void)
{
}

#endif
