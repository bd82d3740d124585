/* SPDX-License-Identifier: BSD-2-Clause */
/* `uroce doctor`: checks what uroce needs of a machine, by using it. */
#include <cJSON.h>
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/address.h"
#include "base/base.h"
#include "base/config.h"
#include "tools/command.h"
#include "tools/library.h"
#include "tools/program.h"
#include "tools/run/devices.h"
#include "tools/run/gpu_here.h"
#include "tools/run/same_host.h"
#include "tools/terminal.h"
#include "tools/tuned.h"
#include "wire/crc.h"
#include "wire/packet.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define ADVICE	      25	/* column of texts */
#define BUFFER_WANTED (4 << 20) /* bytes: size that the udp link requests */

enum verdict {
	OK,
	WARN,
	FAIL,
};

static const char *const verdict_name[] = {[OK] = "ok", [WARN] = "warn", [FAIL] = "fail"};
static unsigned verdicts[FAIL + 1];
static cJSON *findings; /* list for --json; NULL: findings are printed at once */

/* Reports a finding. */
static void doctor_say(enum verdict verdict, const char *what, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds advice to the last finding. */
static void advise(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void doctor_print(enum verdict verdict, const char *what, const char *text)
{
	static const struct {
		enum style style;
		const char *word;
	} look[] = {[OK] = {GREEN, "ok"}, [WARN] = {YELLOW, "warn"}, [FAIL] = {RED, "FAIL"}};

	printf("%s%-5s%s %-18s ", style(look[verdict].style), look[verdict].word, style(PLAIN), what);
	print_wrapped(stdout, text, ADVICE, ADVICE);
	putchar('\n');
}

static void finding_add(enum verdict verdict, const char *what, const char *text)
{
	cJSON *finding = cJSON_CreateObject();

	cJSON_AddStringToObject(finding, "verdict", verdict_name[verdict]);
	cJSON_AddStringToObject(finding, "what", what);
	cJSON_AddStringToObject(finding, "text", text);
	cJSON_AddArrayToObject(finding, "advice");
	cJSON_AddItemToArray(findings, finding);
}

static void doctor_say(enum verdict verdict, const char *what, const char *format, ...)
{
	char *text;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		abort();
	va_end(ap);
	verdicts[verdict]++;
	(findings ? finding_add : doctor_print)(verdict, what, text);
	free(text);
}

static void advise(const char *format, ...)
{
	cJSON *last = findings ? cJSON_GetArrayItem(findings, cJSON_GetArraySize(findings) - 1) : NULL;
	char *text;
	va_list ap;

	va_start(ap, format);
	if (vasprintf(&text, format, ap) < 0)
		abort();
	va_end(ap);
	if (last) {
		cJSON_AddItemToArray(cJSON_GetObjectItem(last, "advice"), cJSON_CreateString(text));
	} else {
		printf("%*s%s", ADVICE, "", style(DIM));
		print_wrapped(stdout, text, ADVICE, ADVICE);
		printf("%s\n", style(PLAIN));
	}
	free(text);
}

static void check_system(void)
{
	struct utsname u;
	cpu_set_t set;
	int processors = 1;

	uname(&u);
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		processors = CPU_COUNT(&set);
	if (processors > 1) {
		doctor_say(OK, "system", "%s %s, %s, %d processors", u.sysname, u.release, u.machine, processors);
		return;
	}
	doctor_say(WARN, "system", "%s %s, %s, only one processor for this process", u.sysname, u.release, u.machine);
	advise("Programs that poll share it with their peers: expect milliseconds, not microseconds.");
}

static void check_library(void)
{
	const char *path = library_path(), *why = library_open();

	if (!why) {
		doctor_say(OK, "library", "%s", path);
		return;
	}
	doctor_say(FAIL, "library", "%s", why);
	advise("Build it (make) or install it (make install).");
}

/* On a system with musl, only programs of the second C library, glibc, have devices. */
static void check_libc(void)
{
	glob_t loaders;
	bool musl = !glob("/lib/ld-musl-*.so.1", 0, NULL, &loaders);

	globfree(&loaders);
	if (!access("/etc/alpine-release", F_OK)) {
		doctor_say(FAIL, "C library", "this system's programs are linked with musl, and find no device");
		advise("uroce needs glibc, 2.28 or later: use an image of Debian, Ubuntu or Fedora.");
		return;
	}
	doctor_say(OK, "C library", "glibc %s", gnu_get_libc_version());
	if (musl)
		advise("Programs that are linked with musl, which is here too, find no device.");
}

static int check_devices(struct device_view **views)
{
	const char *why = NULL;
	int count = devices_view(views, &why);

	if (count <= 0) {
		doctor_say(FAIL, "devices", "none%s%s", why ? ": " : "", why ? why : "");
		advise("Give an interface an address and set it up: ip link set lo up");
	} else {
		doctor_say(OK, "devices", "%d: a device for each interface that has an address", count);
	}
	return count;
}

static void explain_busy(const char *address, const union ibv_gid *gid)
{
	struct holder h = holder_of(gid);

	if (h.kernel) {
		doctor_say(FAIL, "port 4791", "%s: the kernel holds it (its Soft-RoCE, rdma_rxe)", address);
		advise("Remove its devices: rdma link; rdma link delete NAME, as root. Or use uroce in a network "
		       "namespace.");
	} else if (h.stranger) {
		doctor_say(FAIL, "port 4791", "%s: held by %s, process %d of yours, which does not use uroce", address,
			   h.program, (int)h.stranger);
		advise("End it: uroce needs UDP port 4791 of the addresses that it uses.");
	} else if (h.sockets && h.uid == geteuid()) {
		doctor_say(OK, "port 4791", "%s: shared with programs of yours that use uroce now", address);
	} else {
		doctor_say(FAIL, "port 4791", "%s: held by a program of user %u", address, h.uid);
		advise("One user at a time can use an address: ss -ulpn 'sport = 4791' names the program.");
	}
}

/* Sends a byte to this process: a firewall that drops it also drops packets between programs of this machine. */
static bool reaches_itself(int fd, const struct sockaddr_storage *a, socklen_t length)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char byte = 0;

	return sendto(fd, &byte, 1, 0, (const struct sockaddr *)a, length) == 1 && poll(&p, 1, ARRIVE_MS) == 1;
}

/* Binds without SO_REUSEPORT, so that it fails while programs use the port, and takes no packets from them. */
static void doctor_check_address(const struct ibv_gid_entry *gid)
{
	const char *address = gid_text(&gid->gid);
	struct sockaddr_storage a;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a;
	socklen_t length = gid_to_sockaddr(gid->gid.raw, ROCE_PORT, &a);
	int fd = socket(a.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (a.ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		v6->sin6_scope_id = gid->ndev_ifindex;
	if (fd < 0) {
		doctor_say(FAIL, "port 4791", "%s: socket: %s", address, strerror(errno));
		return;
	}
	if (bind(fd, (struct sockaddr *)&a, length) == 0) {
		if (reaches_itself(fd, &a, length)) {
			doctor_say(OK, "port 4791", "%s: free, and reachable from here", address);
		} else {
			doctor_say(WARN, "port 4791", "%s: free, but a packet that was sent to it did not arrive",
				   address);
			advise("Does a firewall drop UDP to port 4791? nft list ruleset; iptables -S");
		}
	} else if (errno == EADDRINUSE) {
		explain_busy(address, &gid->gid);
	} else if (errno == EADDRNOTAVAIL) {
		doctor_say(WARN, "port 4791", "%s: not usable yet (an IPv6 address that is still being checked?)",
			   address);
	} else {
		doctor_say(FAIL, "port 4791", "%s: %s", address, strerror(errno));
		if (errno == EACCES || errno == EPERM)
			advise("A sandbox (seccomp, SELinux, AppArmor) forbids it.");
	}
	close(fd);
}

static void check_device(const struct device_view *v)
{
	unsigned path_mtu = v->port.active_mtu ? 128u << v->port.active_mtu : 0;

	if (v->port.state != IBV_PORT_ACTIVE) {
		doctor_say(WARN, v->name, "interface %s is down", v->interface);
		advise("As root: ip link set %s up", v->interface);
		return;
	}
	doctor_say(path_mtu < 1024 ? WARN : OK, v->name, "interface %s, MTU %u: path MTU %u", v->interface,
		   v->interface_mtu, path_mtu);
	if (path_mtu < 4096)
		advise("An MTU of 4200 gives path MTU 4096, which is faster.");
	for (int i = 0; i < v->gids; i++)
		doctor_check_address(&v->gid[i]);
}

static void check_link(void)
{
	bool allowed = frames_are_allowed();

	if (config_enum(CONFIG_LINK) == LINK_UDP) {
		doctor_say(OK, "between hosts", "udp%s",
			   allowed ? "; UROCE_LINK=packet, which is faster, is allowed here" : "");
	} else if (allowed) {
		doctor_say(OK, "between hosts", "packet: uroce's own Ethernet frames; udp where there is no Ethernet");
	} else {
		doctor_say(WARN, "between hosts", "udp, since UROCE_LINK=packet lacks CAP_NET_RAW");
		advise("As root: setpriv --inh-caps +net_raw --ambient-caps +net_raw PROGRAM");
	}
}

static void check_offload(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
	bool segment, gro;

	if (fd < 0)
		return;
	segment = setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &on, sizeof(on)) == 0;
	gro = setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) == 0;
	close(fd);
	if (segment && gro) {
		doctor_say(OK, "packet trains", "UDP_SEGMENT and UDP_GRO");
		return;
	}
	doctor_say(WARN, "packet trains", "this kernel has no %s",
		   segment ? "UDP_GRO"
		   : gro   ? "UDP_SEGMENT"
			   : "UDP_SEGMENT and no UDP_GRO");
	advise("uroce works without, at one system call a packet: Linux 5.0 or later is several times faster.");
}

static void check_buffer(const char *what, int option, int force, const char *knob)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), size = BUFFER_WANTED;
	socklen_t length = sizeof(size);

	if (fd < 0)
		return;
	if (setsockopt(fd, SOL_SOCKET, force, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, option, &size, sizeof(size));
	getsockopt(fd, SOL_SOCKET, option, &size, &length);
	close(fd);
	size /= 2; /* Linux reports twice the requested size */
	if (size >= BUFFER_WANTED) {
		doctor_say(OK, what, "%d KiB", size >> 10);
		return;
	}
	doctor_say(WARN, what, "%d KiB; uroce uses up to %d KiB", size >> 10, BUFFER_WANTED >> 10);
	advise("Large transfers are faster with: sysctl -w net.core.%s=%d, as root", knob, BUFFER_WANTED);
}

static void check_crc(void)
{
	const struct crc_engine *engine = crc_init();

	/* the last engine, tables, is always available */
	if (engine != &crc_engines[crc_engine_count - 1]) {
		doctor_say(OK, "checksums", "by %s", engine->name);
		return;
	}
	doctor_say(WARN, "checksums", "by %s: this processor has no instructions that uroce knows", engine->name);
	advise("Installing ISA-L (package libisal2) may help.");
}

static void check_rendezvous(void)
{
	int err = same_host_try_name();

	if (!err) {
		doctor_say(OK, "rendezvous", "several programs on one address find each other");
	} else {
		doctor_say(FAIL, "rendezvous", "an abstract AF_UNIX socket: %s", strerror(-err));
		advise("A sandbox forbids it; programs on one address find each other that way.");
	}
}

static void check_same_host(void)
{
	struct same_host h;
	bool wanted;

	same_host_look(&h);
	wanted = h.way != SAME_HOST_UDP || !strcmp(h.why_slower, "UROCE_LOCAL is off");
	doctor_say(wanted ? OK : WARN, "same host", "%s: %s", same_host_word(h.way), same_host_says(h.way));
	advise("%s", same_host_why(&h));
}

/* Reports GPUs; nothing without one. */
static void check_gpu(void)
{
	struct gpu_here g = gpu_here_look();

	if (!g.vendor)
		return;
	doctor_say(OK, "GPU memory", "%s, %d GPU%s: programs can register its memory", g.vendor, g.gpus,
		   g.gpus == 1 ? "" : "s");
	advise("Between processes of this host the GPU copies it.");
}

static void check_locked_memory(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		doctor_say(OK, "locked memory", "unlimited (uroce locks none)");
	else
		doctor_say(OK, "locked memory", "%llu KiB, which does not matter: uroce locks none",
			   (unsigned long long)limit.rlim_cur >> 10);
}

static void check_surroundings(void)
{
	char line[256];
	int seccomp = 0;
	FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Seccomp: %d", &seccomp);
	if (file)
		fclose(file);
	if (seccomp || !access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK))
		doctor_say(OK, "container", "yes%s; other hosts must reach its UDP port 4791",
			   seccomp ? ", with a seccomp filter" : "");
	if (!access("/sys/module/rdma_rxe", F_OK))
		doctor_say(OK, "kernel's rxe",
			   "is loaded: programs see its devices without `uroce run`, uroce's with it");
}

/* Packages of others that the documents use. */
struct companion {
	const char *program, *library, *header; /* one of these shows that it is installed */
	const char *debian, *fedora;		/* its name */
	const char *use;
};

static const struct companion companions[] = {
	{.program = "ibv_rc_pingpong",
	 .debian = "ibverbs-utils",
	 .fedora = "libibverbs-utils",
	 .use = "ibv_devices and ibv_rc_pingpong, programs to begin with"},
	{.program = "ib_send_bw", .debian = "perftest", .fedora = "perftest", .use = "ib_send_bw, ib_write_lat: speed"},
	{.header = "/usr/include/infiniband/verbs.h",
	 .debian = "libibverbs-dev",
	 .fedora = "rdma-core-devel",
	 .use = "headers, to build programs of your own and the examples"},
	{.library = "libdw.so.1",
	 .debian = "libdw1",
	 .fedora = "elfutils-libs",
	 .use = "files and lines in what uroce check finds"},
	{.program = "tshark", .debian = "tshark", .fedora = "wireshark-cli", .use = "reads what uroce pcap writes"},
};

static bool companion_is_here(const struct companion *c)
{
	char path[PATH_MAX];
	void *library;

	if (c->program)
		return program_find(c->program, path, sizeof(path));
	if (c->header)
		return !access(c->header, R_OK);
	library = dlopen(c->library, RTLD_LAZY | RTLD_LOCAL);
	if (library)
		dlclose(library);
	return library;
}

/* uroce needs none of them, so what is missing is no warning. */
static void check_companions(void)
{
	bool is_fedora = access("/etc/debian_version", F_OK) && !access("/etc/redhat-release", F_OK);
	bool here[ARRAY_SIZE(companions)];
	char text[256] = "";
	int n = 0, missing = 0;

	for (size_t i = 0; i < ARRAY_SIZE(companions); i++) {
		here[i] = companion_is_here(&companions[i]);
		missing += !here[i];
		if (here[i])
			n += snprintf(text + n, sizeof(text) - n, "%s%s", n ? ", " : "",
				      is_fedora ? companions[i].fedora : companions[i].debian);
	}
	doctor_say(OK, "useful packages", "%s%s", n ? text : "none installed", missing && n ? "; not:" : "");
	for (size_t i = 0; i < ARRAY_SIZE(companions); i++)
		if (!here[i])
			advise("%s install %s: %s", is_fedora ? "dnf" : "apt",
			       is_fedora ? companions[i].fedora : companions[i].debian, companions[i].use);
}

static void check_all(void)
{
	struct device_view *views = NULL;
	int count;

	check_system();
	check_library();
	check_libc();
	count = check_devices(&views);
	for (int i = 0; i < count; i++)
		check_device(&views[i]);
	free(views);
	check_rendezvous();
	check_same_host();
	check_gpu();
	check_link();
	check_offload();
	check_buffer("receive buffer", SO_RCVBUF, SO_RCVBUFFORCE, "rmem_max");
	check_buffer("send buffer", SO_SNDBUF, SO_SNDBUFFORCE, "wmem_max");
	check_crc();
	check_locked_memory();
	check_surroundings();
	check_companions();
}

static void conclude(void)
{
	putchar('\n');
	if (verdicts[FAIL])
		printf("%sSomething that uroce needs is missing: see FAIL above.%s\n", style(BOLD), style(PLAIN));
	else if (verdicts[WARN])
		printf("%suroce works here%s, though not at its best: see warn above.\n", style(BOLD), style(PLAIN));
	else
		printf("%suroce works here.%s\n", style(BOLD), style(PLAIN));
}

/* {"verdict": the worst one, "findings": [{"verdict", "what", "text", "advice": [...]}]} */
static void conclude_json(void)
{
	cJSON *all = cJSON_CreateObject();
	char *text;

	cJSON_AddStringToObject(all, "verdict", verdict_name[verdicts[FAIL] ? FAIL : verdicts[WARN] ? WARN : OK]);
	cJSON_AddItemToObject(all, "findings", findings);
	text = cJSON_Print(all);
	puts(text ? text : "null");
	free(text);
	cJSON_Delete(all);
}

int doctor_command(const struct command *command, int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {0}};
	int c;

	while ((c = next_option(command, argc, argv, "j", options)) != -1) {
		if (c != 'j')
			return show_usage(command);
		findings = cJSON_CreateArray();
	}
	if (optind < argc)
		return wrong_usage(command, "unexpected argument '%s'", argv[optind]);
	check_all();
	(findings ? conclude_json : conclude)();
	return verdicts[FAIL] ? EXIT_FAILURE : EXIT_SUCCESS;
}
