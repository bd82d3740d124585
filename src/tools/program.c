/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/base.h"
#include "base/config.h"
#include "tools/command.h"
#include "tools/library.h"

static bool is_program(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return false;
	if (S_ISREG(st.st_mode) && access(path, X_OK) == 0)
		return true;
	errno = EACCES;
	return false;
}

bool program_find(const char *name, char *path, size_t room)
{
	const char *places = getenv("PATH");
	int error = ENOENT;

	if (strchr(name, '/')) {
		snprintf(path, room, "%s", name);
		return is_program(path);
	}
	for (const char *p = places ? places : "/usr/local/bin:/usr/bin:/bin"; *name;) {
		size_t n = strcspn(p, ":");

		snprintf(path, room, "%.*s%s%s", (int)n, p, n ? "/" : "./", name);
		if (is_program(path))
			return true;
		if (errno == EACCES)
			error = EACCES;
		if (!p[n])
			break;
		p += n + 1;
	}
	errno = error;
	return false;
}

static bool is_privileged(const char *path)
{
	struct stat st;
	char value[64];

	if (stat(path, &st))
		return false;
	/* changes of privilege to the kernel, for which ld.so ignores LD_PRELOAD */
	return ((st.st_mode & S_ISUID) && st.st_uid != getuid()) ||
	       ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid()) ||
	       (geteuid() != 0 && getxattr(path, "security.capability", value, sizeof(value)) > 0);
}

/* Objection to the dynamic loader in PT_INTERP, such as /lib/ld-musl-x86_64.so.1. */
static const char *refusal_of_loader(int fd, const Elf64_Phdr *interp)
{
	char path[PATH_MAX] = "";

	if (pread(fd, path, sizeof(path) - 1, (off_t)interp->p_offset) < 0 || !strstr(path, "/ld-musl-"))
		return NULL;
	return "is linked with musl, where liburoce.so.1 needs glibc: build it on a system with glibc (Debian, Ubuntu, "
	       "Fedora; no Alpine)";
}

static const char *refusal_of_elf(int fd, const Elf64_Ehdr *h)
{
	Elf64_Phdr segment;

	if (h->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
		return "is a program of another word size than liburoce.so.1";
	for (int i = 0; i < h->e_phnum; i++) {
		off_t at = (off_t)h->e_phoff + (off_t)i * h->e_phentsize;

		if (pread(fd, &segment, sizeof(segment), at) != sizeof(segment))
			return NULL;
		if (segment.p_type == PT_INTERP)
			return refusal_of_loader(fd, &segment);
	}
	return "is linked statically: there is no dynamic loader that could put uroce in front of its libraries";
}

static const char *refusal(const char *path, int depth)
{
	union {
		Elf64_Ehdr elf;
		char text[PATH_MAX];
	} head = {0};
	const char *why = NULL;
	int fd;
	ssize_t n;

	if (is_privileged(path))
		return "is setuid, setgid or has file capabilities: the dynamic loader then ignores LD_PRELOAD. "
		       "Run a copy of it without them (cp makes one)";
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL; /* perhaps executable but not readable: the kernel decides */
	n = pread(fd, &head, sizeof(head) - 1, 0);
	if (n > (ssize_t)sizeof(head.elf) && !memcmp(head.elf.e_ident, ELFMAG, SELFMAG)) {
		why = refusal_of_elf(fd, &head.elf);
	} else if (n > 2 && head.text[0] == '#' && head.text[1] == '!' && depth < 4) {
		char *interpreter = head.text + 2 + strspn(head.text + 2, " \t");

		interpreter[strcspn(interpreter, " \t\n")] = 0;
		why = refusal(interpreter, depth + 1);
	}
	close(fd);
	return why;
}

const char *program_refuses_preload(const char *path)
{
	return refusal(path, 0);
}

int program_execute(const struct command *command, const char *path, char **argv)
{
	execv(path, argv);
	complain(command, "%s: %s", path, strerror(errno));
	return EXIT_CANNOT_RUN;
}

int program_has_no_library(const struct command *command)
{
	complain(command, "liburoce.so.1 is neither beside this program nor in %s", UROCE_LIBDIR);
	return EXIT_CANNOT_RUN;
}

/* A name that is unknown is told by the library. */
static void complain_of_value(enum config_fault fault, const char *text, void *arg)
{
	if (fault == CONFIG_WRONG)
		complain(arg, "%s", text);
}

int program_prepare(const struct command *command, const char *name, char path[PATH_MAX])
{
	const char *why;

	if (!config_is_right(complain_of_value, (void *)command))
		return EXIT_USAGE;
	if (!program_find(name, path, PATH_MAX)) {
		int error = errno;

		complain(command, "%s: %s", name,
			 error == EACCES     ? "is not executable"
			 : strchr(name, '/') ? strerror(error)
					     : "is not in PATH (is its package installed?)");
		return error == EACCES ? EXIT_CANNOT_RUN : EXIT_NOT_FOUND;
	}
	why = program_refuses_preload(path);
	if (why) {
		complain(command, "%s %s", path, why);
		return EXIT_CANNOT_RUN;
	}
	if (library_preload())
		return program_has_no_library(command);
	return 0;
}

int program_run(const struct command *command, char **argv)
{
	char path[PATH_MAX];

	return program_prepare(command, argv[0], path) ?: program_execute(command, path, argv);
}

/* Tests that a file can be read, or created. 0 or an errno. */
static int can_open(const char *path, bool is_read)
{
	char folder[2 * PATH_MAX];
	struct stat st;

	if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return -1;
	}
	if (is_read || !access(path, F_OK))
		return access(path, is_read ? R_OK : W_OK);
	snprintf(folder, sizeof(folder), "%s", path);
	return access(dirname(folder), W_OK | X_OK);
}

int program_set_explain(void)
{
	char own[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

	own[max_of(n, 0)] = 0;
	return n <= 0 ? 0 : setenv("UROCE_EXPLAIN", own, 1); /* without /proc nobody is explained */
}

int program_set_file(const struct command *command, const char *variable, const char *file, bool is_read)
{
	char path[2 * PATH_MAX], here[PATH_MAX] = "";

	if (file[0] == '/' || getcwd(here, sizeof(here))) {
		snprintf(path, sizeof(path), "%s%s%s", here, *here ? "/" : "", file);
		if (!can_open(path, is_read))
			return setenv(variable, path, 1) ? EXIT_FAILURE : 0;
	}
	return complain(command, "%s: %s", file, strerror(errno));
}
