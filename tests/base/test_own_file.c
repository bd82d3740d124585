// SPDX-License-Identifier: BSD-2-Clause
// Files that are kept in a folder in which everybody can write, as /tmp is.
#include "base/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

enum { OTHER = 12345 };

static char folder[] = "/tmp/uroce-own-file-XXXXXX";
static char why[OWN_FILE_WHY];

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void holds(const char *path, const char *text)
{
	char got[64] = "";
	int fd = open(path, O_RDONLY | O_NONBLOCK);

	assert_return_code(fd, errno);
	assert_true(read(fd, got, sizeof(got) - 1) >= 0);
	assert_string_equal(got, text);
	close(fd);
}

static void is_not_there(const char *path)
{
	struct stat st;

	assert_true(lstat(path, &st) && errno == ENOENT);
}

/* What another user makes is made by root and given away. */
static void give_away(const char *path)
{
	if (lchown(path, OTHER, OTHER))
		return; /* skip() of cmocka is a failure to meson */
}

static void write_to(const char *path, int flags, const char *text)
{
	int fd = own_file_open(path, O_WRONLY | O_CREAT | flags, 0666, why);

	if (fd < 0)
		fail_msg("%s: %s", path, why);
	assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void refused(const char *path, int flags, mode_t mode, int err, const char *says)
{
	assert_int_equal(own_file_open(path, flags, mode, why), err);
	if (!strstr(why, says))
		fail_msg("%s: '%s' is not: %s", path, why, says);
}

/* To write it, to append to it, to read and write it, and only to read it. */
static void refused_in_every_way(const char *path, const char *says)
{
	static const int ways[] = {O_WRONLY | O_CREAT | O_TRUNC, O_WRONLY | O_CREAT | O_APPEND, O_RDWR | O_CREAT,
				   O_RDONLY};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		refused(path, ways[i], 0600, -EPERM, says);
}

static void own_files_are_used(void **state)
{
	FILE *f;

	write_to("a", 0, "1234");
	write_to("a", O_APPEND, "5");
	holds("a", "12345");
	write_to("./a", O_TRUNC, "6");
	holds("a", "6");
	f = own_file_stream("a", why);
	assert_true(f && fputs("stream", f) >= 0 && !fclose(f));
	holds("a", "stream");
	assert_int_equal(mkdir("d", 0700), 0);
	write_to("d/../d//b", 0, "x");
	holds("d/b", "x");
	refused("none", O_RDONLY, 0, -ENOENT, "No such file");
}

static void files_of_others_are_not(void **state)
{
	put("theirs", "theirs", 0666);
	give_away("theirs");
	refused_in_every_way("theirs", "it belongs to user 12345: remove it, or name another file");
	assert_null(own_file_stream("theirs", why));
	holds("theirs", "theirs");
}

/* It would be waited for, if its owner does not open it as well. */
static void fifos_of_others_hold_up_nobody(void **state)
{
	int end;

	assert_int_equal(mkfifo("pipe", 0600), 0);
	assert_int_equal(chmod("pipe", 0666), 0);
	give_away("pipe");
	refused("pipe", O_RDONLY, 0600, -EPERM, "belongs to user 12345");
	refused("pipe", O_WRONLY | O_CREAT, 0600, -ENXIO, "FIFO");
	end = open("pipe", O_RDONLY | O_NONBLOCK);
	refused_in_every_way("pipe", "belongs to user 12345");
	close(end);
}

static void own_fifos_are_used(void **state)
{
	char got[8] = "";
	int end;

	assert_int_equal(mkfifo("own-pipe", 0600), 0);
	end = open("own-pipe", O_RDONLY | O_NONBLOCK);
	write_to("own-pipe", O_APPEND, "text");
	assert_int_equal(read(end, got, sizeof(got)), 4);
	close(end);
}

static void links_of_others_are_not_followed(void **state)
{
	put("precious", "precious", 0600);
	assert_int_equal(symlink("precious", "to-file"), 0);
	assert_int_equal(symlink("made-by-link", "to-nothing"), 0);
	assert_int_equal(symlink(".", "to-folder"), 0);
	assert_int_equal(symlink("to-file", "own-to-theirs"), 0);
	give_away("to-file");
	give_away("to-nothing");
	give_away("to-folder");
	refused_in_every_way("to-file", "'to-file' is a symbolic link of user 12345: name the file that is meant");
	refused_in_every_way("own-to-theirs", "'to-file' is a symbolic link of user 12345");
	refused_in_every_way("to-nothing", "'to-nothing' is a symbolic link");
	refused_in_every_way("to-folder/precious", "'to-folder' is a symbolic link");
	refused_in_every_way("to-folder/new", "'to-folder' is a symbolic link");
	holds("precious", "precious");
	is_not_there("made-by-link");
	is_not_there("new");
}

static void own_links_are_followed(void **state)
{
	char path[200], here[100];

	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(mkdir("e", 0700), 0);
	assert_int_equal(symlink("e/new", "own-to-new"), 0);
	write_to("own-to-new", 0, "new");
	holds("e/new", "new");
	assert_int_equal(symlink("e", "own-to-folder"), 0);
	write_to("own-to-folder/new", O_APPEND, "er");
	snprintf(path, sizeof(path), "%s/own-to-folder/../own-to-new", here);
	assert_int_equal(symlink(path, "own-to-own"), 0);
	write_to("own-to-own", O_APPEND, "!");
	holds("e/new", "newer!");
	assert_int_equal(symlink("round", "round"), 0);
	refused("round", O_WRONLY | O_CREAT, 0600, -ELOOP, "oo many");
}

static void hard_links_are_not_followed(void **state)
{
	put("secret", "secret", 0600);
	assert_int_equal(link("secret", "second"), 0);
	refused_in_every_way("second", "it has 2 names (hard links)");
	assert_int_equal(unlink("second"), 0);
	write_to("secret", O_APPEND, "!");
	holds("secret", "secret!");
}

static void what_others_may_write_is_not_private(void **state)
{
	put("shared", "shared", 0620);
	refused_in_every_way("shared", "other users can write to it: chmod go-w it");
	write_to("shared", O_APPEND, "!");
	holds("shared", "shared!");
	assert_int_equal(chmod("shared", 0644), 0);
	assert_return_code(own_file_open("shared", O_RDWR, 0600, why), errno);
}

static void devices_and_descriptors_are_used(void **state)
{
	char path[64], got[16] = "";
	int fd[2], file;

	write_to("/dev/null", O_TRUNC, "x");
	assert_int_equal(pipe(fd), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd[1]);
	write_to(path, O_APPEND, "1");
	snprintf(path, sizeof(path), "/dev/fd/%d", fd[1]);
	write_to(path, O_TRUNC, "2");
	assert_int_equal(symlink(path, "own-to-descriptor"), 0);
	write_to("own-to-descriptor", 0, "3");
	assert_int_equal(read(fd[0], got, sizeof(got)), 3);
	assert_string_equal(got, "123");
	file = open("redirected", O_RDWR | O_CREAT, 0600);
	give_away("redirected"); /* the shell has opened it: it is meant */
	snprintf(path, sizeof(path), "/dev/fd/%d", file);
	write_to(path, O_APPEND, "1234");
	write_to(path, O_TRUNC, "5");
	holds("redirected", "5");
	write_to("/proc/self/cwd/there", 0, "6");
	holds("there", "6");
}

static void no_file_is_an_error(void **state)
{
	char longer[5000];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	refused(longer, O_WRONLY | O_CREAT, 0600, -ENAMETOOLONG, "too long");
	longer[300] = 0;
	refused(longer, O_WRONLY | O_CREAT, 0600, -ENAMETOOLONG, "too long");
	refused("", O_WRONLY | O_CREAT, 0600, -ENOENT, "No such file");
	refused("/", O_WRONLY | O_CREAT, 0600, -EISDIR, "directory");
	refused(".", O_WRONLY | O_CREAT, 0600, -EISDIR, "directory");
	refused("new/", O_WRONLY | O_CREAT, 0600, -EISDIR, "directory");
	refused("/dev/null/x", O_WRONLY | O_CREAT, 0600, -ENOTDIR, "directory");
	refused("nowhere/x", O_WRONLY | O_CREAT, 0600, -ENOENT, "No such file");
}

/* No descriptor of the walk stays open. */
static void nothing_stays_open(void **state)
{
	int before = dup(0);

	close(before);
	own_file_open("to-folder/precious", O_RDONLY, 0600, why);
	own_file_open("/proc/self/cwd/theirs", O_RDONLY, 0600, why);
	own_file_open("nowhere/x", O_RDONLY, 0600, why);
	close(own_file_open("own-to-own", O_RDONLY, 0600, why));
	assert_int_equal(dup(0), before);
	close(before);
}

static int enter_folder(void **state)
{
	return !mkdtemp(folder) || chmod(folder, 01777) || chdir(folder);
}

static int leave_folder(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return chdir("/") || system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_files_are_used),
		cmocka_unit_test(files_of_others_are_not),
		cmocka_unit_test(fifos_of_others_hold_up_nobody),
		cmocka_unit_test(own_fifos_are_used),
		cmocka_unit_test(links_of_others_are_not_followed),
		cmocka_unit_test(own_links_are_followed),
		cmocka_unit_test(hard_links_are_not_followed),
		cmocka_unit_test(what_others_may_write_is_not_private),
		cmocka_unit_test(devices_and_descriptors_are_used),
		cmocka_unit_test(no_file_is_an_error),
		cmocka_unit_test(nothing_stays_open),
	};
	return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
