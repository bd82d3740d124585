/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/run/same_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/address.h"
#include "base/base.h"
#include "base/config.h"
#include "base/memfd.h"
#include "base/ptracer.h"
#include "wire/packet.h"

static const struct {
	const char *word, *says;
} ways[] = {
	[SAME_HOST_DIRECT] = {"direct", "programs of one user map what the peer registers"},
	[SAME_HOST_PROCESS_VM] = {"process_vm", "programs of one user reach each other's memory by process_vm"},
	[SAME_HOST_RINGS] = {"rings", "programs of one user copy through rings in shared memory"},
	[SAME_HOST_UDP] = {"udp", "programs talk over UDP"},
	[SAME_HOST_NONE] = {"none", "programs of this user cannot use this address"},
};
static_assert(ARRAY_SIZE(ways) == SAME_HOST_NONE + 1, "one for each");

const char *same_host_word(enum same_host_way way)
{
	return ways[way].word;
}

const char *same_host_says(enum same_host_way way)
{
	return ways[way].says;
}

/* Size of shared memory to try: rings, and the table of registered memory (memory/share.h). */
#define RINGS (1u << 20)
#define TABLE (160u << 20)

static int same_host_share(uint64_t bytes)
{
	int fd = memfd_of_size("uroce-look", MFD_ALLOW_SEALING, bytes);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static void say_unshared(char *why, size_t room, int err)
{
	if (err == -EFBIG)
		snprintf(why, room, "the size of files is limited (ulimit -f)");
	else
		snprintf(why, room, "memfd_create: %s", strerror(-err));
}

/* Lets the kernel choose the name: another user could have taken any other. */
int same_host_try_name(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int err = fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a.sun_family)) ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return err;
}

/* Tests for the rings, and the name by which processes find each other. False with `why`. */
static bool has_rings(char *why, size_t room)
{
	int err = same_host_share(RINGS);

	if (!config_bool(CONFIG_LOCAL)) {
		snprintf(why, room, "UROCE_LOCAL is off");
		return false;
	}
	if (err) {
		say_unshared(why, room, err);
		return false;
	}
	err = same_host_try_name();
	if (err)
		snprintf(why, room, "they do not find each other: an abstract AF_UNIX socket: %s", strerror(-err));
	return !*why;
}

/* Tests the conditions of memory/shareable.h, except for the number of the program's threads. */
static bool has_mappings(char *why, size_t room)
{
	struct rlimit limit;

	if (!config_bool(CONFIG_ADOPT))
		snprintf(why, room, "UROCE_ADOPT is off");
	else if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur != RLIM_INFINITY)
		snprintf(why, room, "the size of files is limited (ulimit -f)");
	else if (access("/proc/self/pagemap", R_OK) || access("/proc/self/maps", R_OK))
		snprintf(why, room, "/proc/self/maps or pagemap cannot be read: %s", strerror(errno));
	return !*why;
}

/* Reads a word of a process that is neither parent nor child. 0 or an errno. */
static int read_of(pid_t pid)
{
	static char secret = 42;
	char byte = 0;
	struct iovec here = {&byte, 1}, there = {&secret, 1};

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == 1 && byte == secret ? 0 : errno;
}

/* Tries between two children, as a parent may have more rights. 0 or an errno. */
static int try_process_vm(void)
{
	pid_t target, reader = -1;
	int status = 0, ready[2], err;
	char byte;

	if (pipe2(ready, O_CLOEXEC))
		return errno;
	target = fork();
	err = errno;
	if (target == 0) {
		ptracer_allow(); /* as programs under uroce do */
		close(ready[1]);
		pause();
		_exit(0);
	}
	close(ready[1]);
	if (target > 0 && read(ready[0], &byte, 1) == 0) { /* end of file: the other process has closed its end */
		reader = fork();
		err = errno;
	}
	close(ready[0]);
	if (reader == 0)
		_exit(read_of(target));
	if (reader > 0 && waitpid(reader, &status, 0) == reader)
		err = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM; /* a seccomp filter may kill */
	if (target > 0) {
		kill(target, SIGKILL);
		waitpid(target, NULL, 0);
	}
	return err;
}

static bool has_process_vm(char *why, size_t room)
{
	FILE *yama = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int err = try_process_vm(), scope = 0, unshared = same_host_share(TABLE);

	if (yama && fscanf(yama, "%d", &scope) != 1)
		scope = 0;
	if (yama)
		fclose(yama);
	if (unshared)
		say_unshared(why, room, unshared);
	else if (err && scope)
		snprintf(why, room, "kernel.yama.ptrace_scope is %d%s", scope,
			 scope == 1 ? " (UROCE_PTRACER=any allows programs of this user)" : "");
	else if (err)
		snprintf(why, room, "process_vm_readv: %s", strerror(err));
	return !*why;
}

void same_host_look(struct same_host *h)
{
	*h = (struct same_host){.way = SAME_HOST_UDP};
	if (!has_rings(h->why_slower, sizeof(h->why_slower)))
		return;
	h->process_vm = has_process_vm(h->why_no_process_vm, sizeof(h->why_no_process_vm));
	h->way = has_mappings(h->why_slower, sizeof(h->why_slower)) ? SAME_HOST_DIRECT
		 : h->process_vm				    ? SAME_HOST_PROCESS_VM
								    : SAME_HOST_RINGS;
}

const char *same_host_why(const struct same_host *h)
{
	static char text[sizeof(h->why_slower) + sizeof(h->why_no_process_vm) + 64];

	*text = 0;
	if (h->way == SAME_HOST_UDP)
		snprintf(text, sizeof(text), "No shared memory: %s.", h->why_slower);
	else if (h->way == SAME_HOST_PROCESS_VM)
		snprintf(text, sizeof(text), "Nothing is mapped: %s.", h->why_slower);
	else if (h->way == SAME_HOST_RINGS)
		snprintf(text, sizeof(text), "Nothing is mapped: %s; nor by process_vm: %s.", h->why_slower,
			 h->why_no_process_vm);
	else if (h->process_vm)
		snprintf(text, sizeof(text), "What cannot be mapped is reached by process_vm.");
	else
		snprintf(text, sizeof(text), "What cannot be mapped goes through rings, not by process_vm: %s.",
			 h->why_no_process_vm);
	return text;
}

/* /proc/net has addresses as words in host byte order. */
static bool same_host_is_held(const char *text, const union ibv_gid *address)
{
	bool v4 = gid_is_ipv4(address->raw);
	const uint8_t *raw = v4 ? address->raw + 12 : address->raw;
	size_t words = strlen(text) / 8;
	char expected[33] = "";

	if (strspn(text, "0") == 8 * words)
		return true; /* wildcard */
	for (size_t i = 0; i < (v4 ? 1u : 4u); i++) {
		uint32_t word;

		memcpy(&word, raw + 4 * i, 4);
		snprintf(expected + 8 * i, 9, "%08X", word);
	}
	return !strcasecmp(text, expected);
}

static bool process_has_socket(pid_t pid, unsigned long inode)
{
	char path[300], expected[40], target[40];
	struct dirent *e;
	bool found = false;
	DIR *list;

	snprintf(expected, sizeof(expected), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	list = opendir(path);
	while (list && !found && (e = readdir(list))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[max_of(n, (ssize_t)0)] = 0;
		found = !strcmp(target, expected);
	}
	if (list)
		closedir(list);
	return found;
}

static pid_t process_of_socket(unsigned long inode)
{
	DIR *list = opendir("/proc");
	struct dirent *e;
	pid_t found = 0;

	while (list && !found && (e = readdir(list))) {
		pid_t pid = atoi(e->d_name);

		if (pid > 0 && process_has_socket(pid, inode))
			found = pid;
	}
	if (list)
		closedir(list);
	return found;
}

/* True if the process does not have the library loaded. False if unknown. */
static bool process_is_stranger(pid_t pid)
{
	char path[40], line[4352];
	bool stranger = true;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return false;
	while (stranger && fgets(line, sizeof(line), maps))
		stranger = !strstr(line, "/liburoce");
	fclose(maps);
	return stranger;
}

/* Looks for a program of this user that holds the port. */
static void look_at_holder(unsigned long inode, struct holder *h)
{
	pid_t pid = process_of_socket(inode);
	char path[40];
	FILE *name;

	if (!pid || !process_is_stranger(pid))
		return;
	h->stranger = pid;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	name = fopen(path, "re");
	if (!name || !fgets(h->program, sizeof(h->program), name))
		snprintf(h->program, sizeof(h->program), "?");
	h->program[strcspn(h->program, "\n")] = 0;
	if (name)
		fclose(name);
}

static void find_holders(const char *path, const union ibv_gid *address, struct holder *h)
{
	FILE *file = fopen(path, "re");
	char line[512], local[33];

	while (file && fgets(line, sizeof(line), file)) {
		unsigned port, uid;
		unsigned long inode;

		if (sscanf(line, " %*d: %32[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %u %*d %lu", local, &port, &uid,
			   &inode) != 4 ||
		    port != ROCE_PORT || !same_host_is_held(local, address))
			continue;
		if (inode == 0) {
			h->kernel = true;
			continue;
		}
		h->sockets++;
		h->uid = uid;
		if (uid == geteuid())
			look_at_holder(inode, h);
	}
	if (file)
		fclose(file);
}

struct holder holder_of(const union ibv_gid *address)
{
	struct holder h = {0};

	find_holders("/proc/net/udp", address, &h);
	find_holders("/proc/net/udp6", address, &h);
	return h;
}
