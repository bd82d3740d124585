/* SPDX-License-Identifier: BSD-2-Clause */
/* Looks at the adapter's files through every call that liburoce-sysfs.so answers, and at others through the
 * same calls. Run by test_sysfs.sh, under `uroce run`, with UROCE_DEVICES=lo. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS /* open() and open64() are to be two calls */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define IB    "/sys/class/infiniband"
#define LEVEL IB "/uroce0/node_type"
#define LINK  IB "/uroce0/device/net/lo"
#define GONE  IB "/uroce0/nothing"
#define NODE  "/dev/infiniband/uverbs0"

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
ssize_t __readlink_chk(const char *path, char *buffer, size_t size, size_t room);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *buffer, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);

static int number, failures;

static void check_that(bool hazards, const char *what, int line)
{
	number++;
	failures += !hazards;
	printf("%sok %d - line %d: %s\n", hazards ? "" : "not ", number, line, what);
	if (!hazards)
		printf("# errno %d, %s\n", errno, strerror(errno));
}
#define check(...) check_that((__VA_ARGS__), #__VA_ARGS__, __LINE__)

/* The call fails, with that errno. */
#define check_fails(error, ...) check((errno = 0, (__VA_ARGS__)) && errno == (error))

static bool reads(int fd, const char *text)
{
	char got[4096];
	ssize_t n = read(fd, got, sizeof(got) - 1);

	close(fd);
	got[n > 0 ? n : 0] = 0;
	return n > 0 && strcmp(got, text) == 0;
}

static bool file_reads(FILE *f, const char *text)
{
	char got[256] = "";

	if (!f)
		return false;
	bool same = fgets(got, sizeof(got), f) && strcmp(got, text) == 0;

	fclose(f);
	return same;
}

static void files_open(void)
{
	const char *text = "1: CA\n";
	int dir = open(IB, O_RDONLY | O_DIRECTORY), class = open("/sys/class", O_RDONLY | O_DIRECTORY);
	int device = openat(dir, "uroce0", O_RDONLY | O_CLOEXEC);

	check(dir >= 0 && class >= 0 && device >= 0);
	check(reads(open(LEVEL, O_RDONLY), text));
	check(reads(open64(LEVEL, O_RDONLY), text));
	check(reads(openat(AT_FDCWD, LEVEL, O_RDONLY), text));
	check(reads(openat64(-1, LEVEL, O_RDONLY), text));
	check(reads(openat(dir, "uroce0/node_type", O_RDONLY), text));
	check(reads(openat(device, "node_type", O_RDONLY), text));
	check(reads(openat(device, "../uroce0/./node_type", O_RDONLY), text));
	check(reads(openat(class, "infiniband/uroce0//node_type", O_RDONLY), text));
	check(reads(__open_2(LEVEL, O_RDONLY), text));
	check(reads(__open64_2(LEVEL, O_RDONLY), text));
	check(reads(__openat_2(dir, "uroce0/node_type", O_RDONLY), text));
	check(reads(__openat64_2(dir, "uroce0/node_type", O_RDONLY), text));
	check(file_reads(fopen(LEVEL, "r"), text));
	check(file_reads(fopen64(LEVEL, "re"), text));
	check(chdir("/sys/class") == 0 && reads(open("infiniband/uroce0/node_type", O_RDONLY), text));
	check(chdir("/") == 0);
	check(reads(open(LINK "/ifindex", O_RDONLY), "1\n"));
	check(reads(openat(device, "device/net/lo/ifindex", O_RDONLY), "1\n"));
	check(reads(open(IB "/uroce0/ports/1/gids/0", O_RDONLY), "0000:0000:0000:0000:0000:ffff:7f00:0001\n"));
	check(reads(open(IB "/uroce0/ports/1/gid_attrs/types/0", O_RDONLY), "RoCE v2\n"));
	check(reads(open(IB "/uroce0/ports/1/gid_attrs/ndevs/0", O_RDONLY), "lo\n"));
	check(reads(open("/sys/class/infiniband_verbs/uverbs0/ibdev", O_RDONLY), "uroce0\n"));
	check(reads(open("/sys/class/infiniband_verbs/uverbs0/dev", O_RDONLY), "231:192\n"));
	check(close(open(NODE, O_RDWR)) == 0);

	check_fails(EINVAL, open(IB "/uroce0/ports/1/gid_attrs/types/63", O_RDONLY) == -1);
	check_fails(ENOENT, open(IB "/uroce0/ports/1/gid_attrs/types/64", O_RDONLY) == -1);
	check_fails(ENOENT, open(GONE, O_RDONLY) == -1);
	check_fails(ENOENT, open(GONE, O_RDONLY | O_CREAT, 0600) == -1);
	check_fails(ENOENT, openat(dir, "nothing", O_RDONLY) == -1);
	check_fails(ENOENT, !fopen(GONE, "r"));
	check_fails(ENOENT, open(IB "_mad/abi_version", O_RDONLY) == -1);
	check_fails(ENOENT, open(IB "/uroce0/ports/2", O_RDONLY) == -1);
	check_fails(EACCES, open(LEVEL, O_RDWR) == -1);
	check_fails(EACCES, !fopen(LEVEL, "r+"));
	check_fails(EACCES, !fopen(LEVEL, "w"));
	check_fails(ENOTDIR, open(LEVEL, O_RDONLY | O_DIRECTORY) == -1);
	check_fails(EISDIR, open(IB, O_WRONLY) == -1);
	check_fails(ELOOP, open(LINK, O_RDONLY | O_NOFOLLOW) == -1);
	close(dir);
	close(class);
	close(device);
}

static void files_are_described(void)
{
	int dir = open(IB "/uroce0", O_RDONLY);
	struct stat st, again;
	struct stat64 st64;
	struct statx x;

	check(stat(LEVEL, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0444);
	check(lstat(LEVEL, &again) == 0 && again.st_ino == st.st_ino && again.st_dev == st.st_dev);
	check(fstatat(dir, "node_type", &again, 0) == 0 && again.st_ino == st.st_ino);
	check(stat64(LEVEL, &st64) == 0 && st64.st_ino == st.st_ino);
	check(lstat64(LEVEL, &st64) == 0 && st64.st_ino == st.st_ino);
	check(fstatat64(dir, "node_type", &st64, 0) == 0 && st64.st_ino == st.st_ino);
	check(statx(dir, "node_type", 0, STATX_BASIC_STATS, &x) == 0 && x.stx_ino == st.st_ino && S_ISREG(x.stx_mode));
	check(stat(IB "/uroce0", &st) == 0 && S_ISDIR(st.st_mode));
	check(fstat(dir, &again) == 0 && S_ISDIR(again.st_mode) && again.st_ino == st.st_ino);
	check(fstat64(dir, &st64) == 0 && S_ISDIR(st64.st_mode));
	check(fstatat(dir, "", &again, AT_EMPTY_PATH) == 0 && again.st_ino == st.st_ino);
	check(statx(dir, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &x) == 0 && x.stx_ino == st.st_ino);
	check(lstat(LINK, &st) == 0 && S_ISLNK(st.st_mode));
	check(stat(LINK, &st) == 0 && S_ISDIR(st.st_mode));
	check(stat("/sys/class/net/lo", &again) == 0 && again.st_ino == st.st_ino && again.st_dev == st.st_dev);
	check(lstat(LINK "/", &again) == 0 && again.st_ino == st.st_ino);
	check(stat(NODE, &st) == 0 && S_ISCHR(st.st_mode) && major(st.st_rdev) == 231 && minor(st.st_rdev) == 192);
	check_fails(ENOENT, stat(GONE, &st) == -1);
	check_fails(ENOENT, statx(dir, "nothing", 0, STATX_BASIC_STATS, &x) == -1);
	check_fails(ENOENT, stat("/dev/infinibandwagon", &st) == -1);

	check(access(NODE, R_OK | W_OK) == 0);
	check(access(LEVEL, R_OK) == 0);
	check(faccessat(dir, "node_type", R_OK, 0) == 0);
	check(eaccess(NODE, R_OK | W_OK) == 0 && euidaccess(NODE, R_OK | W_OK) == 0);
	check(access(LINK "/ifindex", R_OK) == 0);
	check_fails(EACCES, access(LEVEL, W_OK) == -1);
	check_fails(EACCES, faccessat(dir, "node_type", X_OK, 0) == -1);
	check_fails(ENOENT, access(GONE, F_OK) == -1);
	check_fails(EOPNOTSUPP, getxattr(LEVEL, "user.x", NULL, 0) == -1);
	check_fails(EOPNOTSUPP, lgetxattr(LEVEL, "user.x", NULL, 0) == -1);
	check_fails(EOPNOTSUPP, listxattr(LEVEL, NULL, 0) == -1);
	check_fails(EOPNOTSUPP, llistxattr(LEVEL, NULL, 0) == -1);
	close(dir);
}

static void links_are_followed(void)
{
	int dir = open(IB "/uroce0/device/net", O_RDONLY);
	const char *to = "/sys/class/net/lo";
	char text[PATH_MAX] = "", *made;
	ssize_t n = (ssize_t)strlen(to);

	check(readlink(LINK, text, sizeof(text)) == n && memcmp(text, to, (size_t)n) == 0);
	check(readlinkat(dir, "lo", text, sizeof(text)) == n);
	check(readlinkat(AT_FDCWD, LINK, text, 4) == 4);
	check(__readlink_chk(LINK, text, sizeof(text), sizeof(text)) == n);
	check(__readlinkat_chk(dir, "lo", text, sizeof(text), sizeof(text)) == n);
	check(readlink(IB "/uroce0/device/driver", text, sizeof(text)) > 0);
	check_fails(EINVAL, readlink(LEVEL, text, sizeof(text)) == -1);
	check_fails(ENOENT, readlink(GONE, text, sizeof(text)) == -1);
	check(realpath("/sys/class/infiniband/../infiniband//uroce0/.", text) && strcmp(text, IB "/uroce0") == 0);
	check((made = realpath(IB "/uroce0/", NULL)) && strcmp(made, IB "/uroce0") == 0);
	free(made);
	check((made = canonicalize_file_name(LEVEL)) && strcmp(made, LEVEL) == 0);
	free(made);
	check(__realpath_chk(LEVEL, text, sizeof(text)) == text);
	check(realpath(LINK, text) && strcmp(text, "/sys/devices/virtual/net/lo") == 0);
	check_fails(ENOENT, !realpath(GONE, text));
	close(dir);
}

static int count_names(DIR *d)
{
	int n = 0;

	while (readdir(d))
		n++;
	return n;
}

static int is_port_file(const struct dirent *e)
{
	return e->d_name[0] == 's'; /* sm_lid, sm_sl, state */
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void directories_are_read(void)
{
	struct dirent one, *e, **list = NULL;
	struct dirent64 *e64;
	DIR *d = opendir(IB), *theirs = opendir("/proc/self");
	int fd, inner;
	long place;

	check(d && theirs);
	check((e = readdir(d)) && strcmp(e->d_name, ".") == 0);
	check((e = readdir(d)) && strcmp(e->d_name, "..") == 0);
	place = telldir(d);
	check((e = readdir(d)) && strcmp(e->d_name, "uroce0") == 0);
	check(!readdir(d));
	seekdir(d, place);
	check((e64 = readdir64(d)) && strcmp(e64->d_name, "uroce0") == 0);
	rewinddir(d);
	check(count_names(d) == 3);
	rewinddir(d);
	check(readdir_r(d, &one, &e) == 0 && e == &one && strcmp(one.d_name, ".") == 0);
	check(count_names(theirs) > 10);
	fd = dirfd(d);
	check((inner = openat(fd, "uroce0/ports", O_RDONLY)) >= 0);
	check(closedir(d) == 0);
	check_fails(EBADF, fcntl(fd, F_GETFD) == -1);
	check((d = fdopendir(inner)) && dirfd(d) == inner && count_names(d) == 3);
	check(closedir(d) == 0);
	check(fcntl(dirfd(theirs), F_GETFD) != -1 && closedir(theirs) == 0);
	check((d = opendir(LINK)) && count_names(d) > 10 && closedir(d) == 0);
	check(scandir(IB "/uroce0/ports/1", &list, is_port_file, alphasort) == 3);
	check(strcmp(list[0]->d_name, "sm_lid") == 0 && strcmp(list[2]->d_name, "state") == 0);
	for (int i = 0; i < 3; i++)
		free(list[i]);
	free(list);
	check((d = opendir(IB "/uroce0/ports/1/gids")) && count_names(d) == 2 + 64 && closedir(d) == 0);
	check_fails(ENOENT, !opendir(GONE));
	check_fails(ENOTDIR, !opendir(LEVEL));
	for (int i = 0; i < 16; i++)
		if (!opendir(IB))
			failures++;
	check_fails(EMFILE, !opendir(IB)); /* those above are left open */
}

/* What there was before is as it was. */
static void others_are_left_alone(void)
{
	char path[] = "/tmp/infiniband-XXXXXX";
	struct stat st, again;
	int fd = mkstemp(path);

	check(fd >= 0 && write(fd, "x", 1) == 1);
	check(reads(open(path, O_RDONLY), "x"));
	check(fstat(fd, &st) == 0 && stat(path, &again) == 0 && st.st_ino == again.st_ino);
	check(unlink(path) == 0);
	check_fails(ENOENT, open(path, O_RDONLY) == -1);
	check((fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0640)) >= 0 && fstat(fd, &st) == 0 &&
	      (st.st_mode & 0777) == 0640);
	check(unlink(path) == 0 && close(fd) == 0);
	check((fd = open("/tmp", O_TMPFILE | O_RDWR, 0600)) >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode));
	close(fd);
	check_fails(ENOENT, open("", O_RDONLY) == -1);
	check_fails(ENOENT, !opendir(""));
}

/* The tree and the verbs tell the same. */
static void verbs_agree(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct stat st;
	char path[512];

	check(list && list[0] && stat(list[0]->ibdev_path, &st) == 0 && stat(list[0]->dev_path, &st) == 0);
	snprintf(path, sizeof(path), "/dev/infiniband/%s", list[0]->dev_name);
	check(access(path, R_OK | W_OK) == 0);
	ibv_free_device_list(list);
}

int main(void)
{
	umask(0);
	files_open();
	files_are_described();
	links_are_followed();
	directories_are_read();
	others_are_left_alone();
	verbs_agree();
	printf("1..%d\n", number);
	return failures != 0;
}
