/* SPDX-License-Identifier: BSD-2-Clause */
/* opendir() and related calls. A DIR of ours is a slot of an array, so its address tells it from the C library's. */
#include "sysfs/face.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

struct directory {
	_Atomic bool used;
	int fd;		   /* result of dirfd(); -1: not asked for yet */
	char *names;	   /* each ended by a 0 */
	size_t length, at; /* bytes of `names`, and position of readdir() */
	int dots;	   /* how many of "." and ".." have been returned */
	char path[PATH_MAX];
	struct dirent entry;
};

/* Slots; programs read these directories one by one. */
static struct directory directories[16];

static struct directory *directory_of(DIR *dir)
{
	struct directory *d = (struct directory *)dir;

	return d >= directories && d < directories + ARRAY_SIZE(directories) ? d : NULL;
}

/* Takes a free slot. NULL with EMFILE. */
static struct directory *directory_take(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
		if (!atomic_exchange_explicit(&directories[i].used, true,
					      memory_order_acquire)) /* pairs with directory_drop() */
			return &directories[i];
	errno = EMFILE;
	return NULL;
}

static void directory_drop(struct directory *d)
{
	free(d->names);
	atomic_store_explicit(&d->used, false, memory_order_release); /* pairs with directory_take() */
}

static DIR *directory_open_found(struct face *f, int fd)
{
	struct directory *d = NULL;

	if (f->node.kind != TREE_DIRECTORY)
		errno = ENOTDIR;
	else
		d = directory_take();
	if (!d) {
		free(f->node.text);
		return NULL;
	}
	d->fd = fd;
	d->names = f->node.text;
	d->length = f->node.length;
	d->at = 0;
	d->dots = 0;
	strcpy(d->path, f->path);
	return (DIR *)d;
}

PUBLIC DIR *opendir(const char *path)
{
	struct face f;
	enum finding found = face_find(&f, AT_FDCWD, path, true);

	return found == FACE_OURS ? directory_open_found(&f, -1) : found ? NULL : NEXT(opendir)(f.path);
}

PUBLIC DIR *fdopendir(int fd)
{
	struct face f;
	char path[PATH_MAX];

	if (!face_directory(fd, path))
		return NEXT(fdopendir)(fd);
	return face_find(&f, AT_FDCWD, path, true) == FACE_OURS ? directory_open_found(&f, fd) : NULL;
}

PUBLIC int dirfd(DIR *dir)
{
	struct directory *d = directory_of(dir);
	struct face f;

	if (!d)
		return NEXT(dirfd)(dir);
	if (d->fd < 0) {
		f.node.kind = TREE_DIRECTORY;
		f.path = d->path;
		d->fd = face_open(&f, O_RDONLY | O_CLOEXEC);
	}
	return d->fd;
}

PUBLIC int closedir(DIR *dir)
{
	struct directory *d = directory_of(dir);

	if (!d)
		return NEXT(closedir)(dir);
	if (d->fd >= 0)
		close(d->fd);
	directory_drop(d);
	return 0;
}

/* Next name, or NULL. */
static const char *next_name(struct directory *d)
{
	static const char *const dots[] = {".", ".."};
	const char *name;

	if (d->dots < 2)
		return dots[d->dots++];
	if (d->at >= d->length)
		return NULL;
	name = d->names + d->at;
	d->at += strlen(name) + 1;
	return name;
}

static bool directory_read_entry(struct directory *d, struct dirent *entry)
{
	const char *name = next_name(d);

	if (!name)
		return false;
	*entry = (struct dirent){
		.d_ino = 1, /* stat() returns the real one; 0 would mean no entry */
		.d_off = (off_t)(d->dots + d->at),
		.d_reclen = sizeof(*entry),
		.d_type = DT_UNKNOWN,
	};
	strncpy(entry->d_name, name, sizeof(entry->d_name) - 1);
	return true;
}

#define READDIR(name, type)                                                                    \
	PUBLIC struct type *name(DIR *dir)                                                     \
	{                                                                                      \
		struct directory *d = directory_of(dir);                                       \
                                                                                               \
		if (!d)                                                                        \
			return NEXT(name)(dir);                                                \
		return (struct type *)(directory_read_entry(d, &d->entry) ? &d->entry : NULL); \
	}
static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "one structure serves both names");
READDIR(readdir, dirent)
READDIR(readdir64, dirent64)

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* readdir_r: programs may still call it */
#define READDIR_R(name, type)                                                             \
	PUBLIC int name(DIR *dir, struct type *entry, struct type **result)               \
	{                                                                                 \
		struct directory *d = directory_of(dir);                                  \
                                                                                          \
		if (!d)                                                                   \
			return NEXT(name)(dir, entry, result);                            \
		*result = directory_read_entry(d, (struct dirent *)entry) ? entry : NULL; \
		return 0;                                                                 \
	}
READDIR_R(readdir_r, dirent)
READDIR_R(readdir64_r, dirent64)

/* A position is the number of dots returned plus the offset: the dots come first, so the sum is unique. */
PUBLIC long telldir(DIR *dir)
{
	struct directory *d = directory_of(dir);

	return d ? (long)(d->dots + d->at) : NEXT(telldir)(dir);
}

PUBLIC void seekdir(DIR *dir, long place)
{
	struct directory *d = directory_of(dir);

	if (!d) {
		NEXT(seekdir)(dir, place);
		return;
	}
	d->dots = (int)min_of(place, 2l);
	d->at = (size_t)(place - d->dots);
}

PUBLIC void rewinddir(DIR *dir)
{
	if (directory_of(dir))
		seekdir(dir, 0);
	else
		NEXT(rewinddir)(dir);
}

static void free_entries(struct dirent **entries, int count)
{
	while (count)
		free(entries[--count]);
	free(entries);
}

typedef int (*filter_fn)(const struct dirent *);
typedef int (*compare_fn)(const struct dirent **, const struct dirent **);

/* As scandir(): -1 with errno. */
static int scan(struct face *f, enum finding found, struct dirent ***list, filter_fn filter, compare_fn compare)
{
	DIR *dir = found == FACE_OURS ? directory_open_found(f, -1) : NULL;
	struct dirent **entries = NULL, **more, *e;
	int count = 0;

	if (!dir)
		return -1;
	while ((e = readdir(dir))) {
		if (filter && !filter(e))
			continue;
		more = reallocarray(entries, (size_t)count + 1, sizeof(*entries));
		if (more)
			entries = more;
		if (!more || !(entries[count] = malloc(sizeof(*e)))) {
			free_entries(entries, count);
			closedir(dir);
			errno = ENOMEM;
			return -1;
		}
		*entries[count++] = *e;
	}
	closedir(dir);
	if (compare && count)
		qsort(entries, (size_t)count, sizeof(*entries), (int (*)(const void *, const void *))compare);
	*list = entries;
	return count;
}

#define SCANDIR(name, type)                                                                                          \
	PUBLIC int name(const char *restrict path, struct type ***restrict list, int (*filter)(const struct type *), \
			int (*compare)(const struct type **, const struct type **))                                  \
	{                                                                                                            \
		struct face f;                                                                                       \
		enum finding found = face_find(&f, AT_FDCWD, path, true);                                            \
                                                                                                                     \
		if (!found)                                                                                          \
			return NEXT(name)(f.path, list, filter, compare);                                            \
		return scan(&f, found, (struct dirent ***)list, (filter_fn)filter, (compare_fn)compare);             \
	}
SCANDIR(scandir, dirent)
SCANDIR(scandir64, dirent64)
