/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/base.h"

#define NAME	     "liburoce.so.1"
#define SYSFS_NAME   "liburoce-sysfs.so"
#define RSOCKET_NAME "liburoce-rsocket.so"
#define THROUGH_NAME "liburoce-through.so"

struct library library;
static bool goes_through;

/* Directory of this program. Without /proc, as given in argv. */
static bool find_directory(char directory[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", directory, PATH_MAX - 1);
	char *slash;

	if (n >= 0)
		directory[n] = 0;
	else if (!realpath((const char *)getauxval(AT_EXECFN), directory))
		return false;
	slash = strrchr(directory, '/');
	if (slash)
		*slash = 0;
	return slash;
}

const char *library_path(void)
{
	static char path[PATH_MAX + 64];
	static const char *const places[] = {"/", "/../lib/", "/../lib/x86_64-linux-gnu/", "/../lib/aarch64-linux-gnu/",
					     "/../lib64/"};
	char directory[PATH_MAX];
	bool known = find_directory(directory);

	for (size_t i = 0; known && i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%s%s" NAME, directory, places[i]);
		if (access(path, R_OK) == 0)
			return path;
	}
	snprintf(path, sizeof(path), "%s/" NAME, UROCE_LIBDIR);
	return access(path, R_OK) == 0 ? path : NULL;
}

/* A file beside this program in a build directory, one folder below in an installation; NULL if not built. */
static const char *beside(const char *library, const char *name)
{
	static char path[PATH_MAX + 64];
	static const char *const places[] = {"", "uroce/"};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%.*s%s%s", (int)(strrchr(library, '/') + 1 - library), library, places[i],
			 name);
		if (access(path, R_OK) == 0)
			return path;
	}
	return NULL;
}

/* Sets the variable to `parts` and its previous value, separated by colons. 0 or -1. */
static int put_first(const char *variable, const char *const *parts, size_t count)
{
	const char *before = getenv(variable);
	char *value = NULL;
	size_t size;
	FILE *out = open_memstream(&value, &size);
	int err;

	if (!out)
		return -1;
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s%s", i ? ":" : "", parts[i]);
	if (before && *before)
		fprintf(out, ":%s", before);
	err = fclose(out) ?: setenv(variable, value, 1);
	free(value);
	return err;
}

/* True if rdma-core is installed. Looks in the C library's directory, as loading it with its dependencies would take
 * longer than all else that `uroce run` does. */
static bool has_rdma_core(void)
{
	char path[PATH_MAX];
	const char *end;
	void *theirs;
	Dl_info libc;

	if (dladdr(dlsym(RTLD_DEFAULT, "getenv"), &libc) && (end = strrchr(libc.dli_fname, '/'))) {
		snprintf(path, sizeof(path), "%.*s/libibverbs.so.1", (int)(end - libc.dli_fname), libc.dli_fname);
		if (access(path, R_OK) == 0)
			return true;
	}
	theirs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
	return theirs && dlclose(theirs) == 0;
}

/* Adds the directory of substitutes for rdma-core's libraries, for programs linked with them: of the build, or the
 * installation. */
static int library_stand_in(const char *library)
{
	static const char *const places[] = {"src/dropin", "uroce"};
	char path[PATH_MAX + 64], *end;

	if (has_rdma_core())
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%.*s%s/libibverbs.so.1", (int)(strrchr(library, '/') + 1 - library),
			 library, places[i]);
		if (access(path, R_OK))
			continue;
		end = strrchr(path, '/');
		*end = 0;
		return put_first("LD_LIBRARY_PATH", (const char *[]){path}, 1);
	}
	return 0; /* the dynamic loader prints what is missing */
}

/* Makes ThreadSanitizer in a program ignore the library, whose synchronization it does not see. A sanitizer build
 * needs no such option. */
static int ignore_ourselves(void)
{
	return *UROCE_SANITIZER_LIBRARY
		       ? 0
		       : put_first("TSAN_OPTIONS", (const char *[]){"ignore_noninstrumented_modules=1"}, 1);
}

/* MemorySanitizer takes memory that other libraries' constructors allocate for uninitialised, and stops the program;
 * src/base/msan.c switches it on after them. */
static int watch_malloc_later(void)
{
	return put_first("MSAN_OPTIONS", (const char *[]){"poison_in_malloc=0"}, 1);
}

void library_go_through(void)
{
	goes_through = true;
}

static int preload_through(const char *path)
{
	const char *through = beside(path, THROUGH_NAME), *before = getenv("LD_PRELOAD");
	const char *parts[2];
	size_t count = 0;

	if (!through)
		return -1;
	if (before && strstr(before, through))
		return 0;
	if (*UROCE_SANITIZER_LIBRARY)
		parts[count++] = UROCE_SANITIZER_LIBRARY;
	parts[count++] = through;
	return put_first("ASAN_OPTIONS", (const char *[]){"verify_asan_link_order=0"}, 1)
		       ?: ignore_ourselves() ?: put_first("LD_PRELOAD", parts, count);
}

int library_preload(void)
{
	const char *path = library_path(), *before = getenv("LD_PRELOAD"), *sysfs;
	const char *parts[3];
	size_t count = 0;

	if (!path)
		return -1;
	if (goes_through)
		return preload_through(path);
	if (before && strstr(before, path))
		return 0; /* `uroce run` inside another */
	if (*UROCE_SANITIZER_LIBRARY)
		parts[count++] = UROCE_SANITIZER_LIBRARY;
	parts[count++] = path;
	sysfs = beside(path, SYSFS_NAME);
	if (sysfs)
		parts[count++] = sysfs;
	/* AddressSanitizer in a program insists on being the first library, but also works behind libraries without
	 * malloc() */
	return put_first("ASAN_OPTIONS", (const char *[]){"verify_asan_link_order=0"}, 1)
		       ?: ignore_ourselves() ?: watch_malloc_later() ?: put_first("LD_PRELOAD", parts, count) ?: library_stand_in(path);
}

/* Put behind the library, which it needs; the order matters only to a sanitizer. */
int library_preload_rsocket(void)
{
	const char *path = library_path(), *rsocket = path ? beside(path, RSOCKET_NAME) : NULL;
	const char *before = getenv("LD_PRELOAD");
	char *value;
	int err;

	if (!rsocket)
		return -1;
	if (before && strstr(before, rsocket))
		return 0;
	if (asprintf(&value, "%s%s%s", before ? before : "", before && *before ? ":" : "", rsocket) < 0)
		return -1;
	err = setenv("LD_PRELOAD", value, 1);
	free(value);
	return err;
}

const char *library_open(void)
{
	static const struct {
		const char *name;
		void **to;
	} wanted[] = {
		{"ibv_get_device_list", (void **)&library.get_device_list},
		{"ibv_free_device_list", (void **)&library.free_device_list},
		{"ibv_open_device", (void **)&library.open_device},
		{"ibv_close_device", (void **)&library.close_device},
		{"ibv_query_device", (void **)&library.query_device},
		{"ibv_query_port", (void **)&library.query_port},
		{"uroce_link_set", (void **)&library.link_set},
		{"_ibv_query_gid_table", (void **)&library.query_gid_table},
	};
	const char *path = library_path();
	void *handle;

	if (!path)
		return NAME " is neither beside this program nor where it was installed";
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return dlerror();
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		*wanted[i].to = dlsym(handle, wanted[i].name);
		if (!*wanted[i].to)
			return dlerror();
	}
	return NULL;
}
