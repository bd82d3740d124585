/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions in memory that the program itself shares, of each kind: how local peers get there, that nobody is ended by a
 * file that gets shorter, and that all is given back. */
#include "memory/world.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/import.h"
#include "memory/maps.h"

#define HUGE (2u << 20)

/* Memory of one kind. */
struct memory {
	char *at;
	size_t size;
	int fd;	     /* -1: closed */
	int segment; /* -1: none */
};

static struct memory map_fd(int fd, size_t size)
{
	struct memory m = {.size = size, .fd = fd, .segment = -1};

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	m.at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return m;
}

static struct memory plain_memfd(void)
{
	return map_fd(memfd_create("uroce-test-lent", MFD_CLOEXEC | MFD_ALLOW_SEALING), LENGTH);
}

static struct memory sealed_memfd(void)
{
	struct memory m = plain_memfd();

	assert_int_equal(fcntl(m.fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return m;
}

static struct memory segment(void)
{
	struct memory m = {.size = LENGTH, .fd = -1, .segment = shmget(IPC_PRIVATE, LENGTH, IPC_CREAT | 0600)};

	assert_true(m.segment >= 0);
	m.at = shmat(m.segment, NULL, 0);
	assert_ptr_not_equal(m.at, MAP_FAILED);
	return m;
}

/* As most programs do, so that nothing is left when they are killed. */
static struct memory removed_segment(void)
{
	struct memory m = segment();

	assert_int_equal(shmctl(m.segment, IPC_RMID, NULL), 0);
	return m;
}

static struct memory shm_file(void)
{
	char name[] = "/dev/shm/uroce-test-XXXXXX";
	struct memory m = map_fd(mkstemp(name), LENGTH);

	unlink(name);
	return m;
}

static struct memory huge_memfd(void)
{
	return map_fd(memfd_create("uroce-test-lent", MFD_CLOEXEC | MFD_HUGETLB), HUGE);
}

static struct memory anonymous(void)
{
	return (struct memory){
		.size = LENGTH,
		.fd = -1,
		.segment = -1,
		.at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
	};
}

static void give_up(struct memory *m)
{
	if (m->segment >= 0)
		shmdt(m->at);
	else
		munmap(m->at, m->size);
	if (m->fd >= 0)
		close(m->fd);
	shmctl(m->segment, IPC_RMID, NULL);
}

static const struct kind {
	const char *name;
	struct memory (*make)(void);
	bool shrinks;
} kinds[] = {
	{"a memfd that cannot shrink", sealed_memfd, false},
	{"a memfd", plain_memfd, true},
	{"a segment", segment, false},
	{"a segment that has been removed", removed_segment, false},
	{"a file in /dev/shm", shm_file, true},
	{"a memfd of huge pages", huge_memfd, true},
	{"anonymous memory", anonymous, true},
};

/* What is there for the local peer to use: its handlers, process_vm, or neither. */
enum means { CATCHES, PROCESS_VM, KERNEL, MEANS };

static void begin_with(struct world *w, child_main *child, enum means means)
{
	world_catches = means == CATCHES;
	reach_no_process_vm = means == KERNEL;
	begin(w, child, true);
	world_catches = reach_no_process_vm = false;
	share_open_qp(w->own, QP, WRITE | READ, PD, PAIR);
}

/* There may be no huge pages here. */
static bool exists(const struct memory *m)
{
	if (m->at != MAP_FAILED)
		return true;
	close(m->fd);
	return false;
}

/* ---- each kind ---- */

/* 'm', 'k', 'p': it is mapped; the kernel copies; process_vm. 'n': it is out of reach. */
static char way_of(struct reach *r)
{
	struct reach_span span;
	char way;

	if (!reach_enter(r, &pair, key_of(1), IOVA, LENGTH, WRITE, &span))
		return 'n';
	way = span.at ? 'm' : span.guarded ? 'k' : 'p';
	reach_leave(r);
	return way;
}

/* Writes each byte of the parent's region when told to, if it can, and reads it again; says in which way. */
static void write_when_told(struct share *own, struct reach *parent, int socket)
{
	char word, way, bytes[LENGTH], back[LENGTH];

	while (read(socket, &word, 1) == 1 && word != 'e') {
		if (word == 't') {
			reach_tidy(parent);
			tell(socket, 't');
			continue;
		}
		way = way_of(parent);
		memset(bytes, word, sizeof(bytes));
		if (way != 'n' &&
		    !(put(parent, key_of(1), IOVA + 1, bytes, LENGTH - 1) &&
		      get(parent, key_of(1), IOVA + 1, back, LENGTH - 1) && !memcmp(bytes, back, LENGTH - 1)))
			way = '?';
		tell(socket, way);
	}
}

static bool is_filled(const char *at, char with)
{
	for (int i = 1; i < LENGTH; i++)
		if (at[i] != with)
			return false;
	return at[0] == '.';
}

static void bytes_come_into_each_kind(void **state)
{
	static const char expected[MEANS] = {[CATCHES] = 'm', [PROCESS_VM] = 'p', [KERNEL] = 'k'};

	for (enum means means = 0; means < MEANS; means++) {
		struct world w;

		begin_with(&w, write_when_told, means);
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
			struct memory m = kinds[i].make();
			struct exported where;
			char way;

			if (!exists(&m))
				continue;
			memset(m.at, '.', LENGTH);
			open_exported(w.own, m.at, 1, &where);
			/* without privileges, nobody opens anonymous memory */
			way = where.mapped ? kinds[i].shrinks ? expected[means] : 'm' : means == KERNEL ? 'n' : 'p';
			tell(w.socket, 'A' + (char)i);
			if (!hear(w.socket, way) || (way != 'n' && !is_filled(m.at, 'A' + (char)i)))
				fail_msg("%s: not by '%c', or the bytes are not there", kinds[i].name, way);
			close_exported(w.own, &where);
			give_up(&m);
		}
		end(&w, false);
	}
}

static void what_is_unmapped_is_still_the_region(void **state)
{
	struct memory m = sealed_memfd();
	struct exported where;
	struct world w;
	char *again;

	begin_with(&w, write_when_told, PROCESS_VM);
	open_exported(w.own, m.at, 1, &where);
	munmap(m.at, LENGTH);
	tell(w.socket, 'u');
	assert_true(hear(w.socket, 'm'));
	again = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, m.fd, 0);
	assert_int_equal(again[LENGTH - 1], 'u');
	close_exported(w.own, &where);
	munmap(again, LENGTH);
	close(m.fd);
	end(&w, false);
}

static void only_what_the_file_has_is_exported(void **state)
{
	struct share *s = make_share(1);
	int before = descriptors(), fd = memfd_create("uroce-test-lent", MFD_ALLOW_SEALING);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct exported all, end, behind;
	char *at;

	assert_int_equal(ftruncate(fd, (off_t)(3 * page - 100)), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	at = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	export_make(s, at, 8 * page, &all);
	assert_int_equal(all.offset, 0);
	assert_int_equal(all.mapped, 3 * page - 100);
	export_make(s, at + page + 1, 7 * page, &end);
	assert_int_equal(end.file, all.file);
	assert_int_equal(end.offset, page + 1);
	assert_int_equal(end.mapped, 2 * page - 101);
	export_make(s, at + 4 * page, page, &behind);
	assert_int_equal(behind.mapped, 0);
	export_release(s, behind.file);
	export_release(s, all.file);
	export_release(s, end.file);
	munmap(at, 8 * page);
	close(fd);
	assert_int_equal(descriptors(), before);
	share_destroy(s);
}

static void a_region_in_several_mappings_is_exported_as_far_as_they_are_one(void **state)
{
	struct share *s = make_share(1);
	int fd = memfd_create("uroce-test-lent", 0);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct exported where;
	char *at;

	assert_int_equal(ftruncate(fd, (off_t)(8 * page)), 0);
	at = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* a piece that the kernel lists for itself, and one of another place */
	assert_int_equal(madvise(at + 2 * page, page, MADV_DONTFORK), 0);
	assert_ptr_not_equal(mmap(at + 5 * page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
			     MAP_FAILED);
	for (int old = 0; old < 2; old++) {
		maps_old = old;
		export_make(s, at + 1, 8 * page - 1, &where);
		assert_int_equal(where.offset, 1);
		assert_int_equal(where.mapped, 5 * page - 1);
		export_release(s, where.file);
	}
	maps_old = false;
	munmap(at, 8 * page);
	close(fd);
	share_destroy(s);
}

static void private_files_and_devices_are_not_exported(void **state)
{
	struct share *s = make_share(1);
	int before = descriptors(), zero = open("/dev/zero", O_RDWR), fd = memfd_create("uroce-test-lent", 0);
	struct memory rows[] = {
		{.at = fresh(LENGTH)},
		{.at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0)},
		{.at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0)},
		{.at = mmap(NULL, LENGTH, PROT_READ, MAP_SHARED, fd, 0)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct exported where;

		export_make(s, rows[i].at, LENGTH, &where);
		if (where.mapped)
			fail_msg("row %zu is lent", i);
		export_release(s, where.file);
		munmap(rows[i].at, LENGTH);
	}
	close(zero);
	close(fd);
	assert_int_equal(descriptors(), before);
	share_destroy(s);
}

/* In processes of a user without privileges. */
static void export_by_all_means(void)
{
	char name[] = "/dev/shm/uroce-test-XXXXXX";
	struct share *s = make_share(1);
	struct exported where[4];
	struct memory m[4] = {plain_memfd(), plain_memfd(), anonymous(), map_fd(mkstemp(name), LENGTH)};

	close(m[1].fd); /* only /proc/self/map_files would have it */
	close(m[3].fd);
	for (int i = 0; i < 4; i++)
		export_make(s, m[i].at, LENGTH, &where[i]);
	unlink(name);
	_exit(where[0].mapped && !where[1].mapped && !where[2].mapped && where[3].mapped ? 0 : 1);
}

static void a_file_is_found_by_descriptor_and_by_path(void **state)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		if (getuid() == 0 && (setgid(65534) || setuid(65534) || prctl(PR_SET_DUMPABLE, 1)))
			_exit(2);
		export_by_all_means();
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}

static void a_segment_is_told_from_a_file_of_its_number(void **state)
{
	struct memory m = segment();
	struct share *s = make_share(1);

	for (int old = 0; old < 2; old++) {
		struct mapping found;
		struct maps maps;

		maps_old = old;
		assert_int_equal(maps_open(&maps), 0);
		assert_int_equal(maps_find(&maps, (uintptr_t)m.at, &found), 0);
		maps_close(&maps);
		assert_true(found.segment);
		assert_int_equal(found.inode, m.segment);
	}
	maps_old = false;
	if (s->arena) {
		struct stat st;
		struct mapping of_arena;

		assert_int_equal(fstat(arena_fd(s->arena), &st), 0);
		of_arena = (struct mapping){.shared = true, .inode = st.st_ino, .device_minor = st.st_dev & 0xff};
		assert_true(arena_has(s->arena, &of_arena));
		of_arena.segment = true;
		assert_false(arena_has(s->arena, &of_arena));
	}
	give_up(&m);
	share_destroy(s);
}

/* What the local peer says of a file: whether an access may fault, in spite of a seal. */
static void huge_pages_may_be_lacking(void **state)
{
	int fd[] = {memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING),
		    memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB)};
	int id[] = {shmget(IPC_PRIVATE, LENGTH, IPC_CREAT | 0600),
		    shmget(IPC_PRIVATE, HUGE, IPC_CREAT | 0600 | SHM_HUGETLB | SHM_NORESERVE)};
	struct share_table *table = calloc(1, sizeof(*table));

	assert_non_null(table);
	table->ipc = share_ipc();
	for (int huge = 0; huge < 2; huge++) {
		struct importer b = {.table = table, .pid = getpid(), .lock = LOCK_RANKED(IMPORT)};
		struct share_file *f = table->file;
		struct stat st;
		bool may_shrink;

		if (fd[huge] >= 0) {
			assert_int_equal(ftruncate(fd[huge], HUGE), 0);
			assert_int_equal(fcntl(fd[huge], F_ADD_SEALS, F_SEAL_SHRINK), 0);
			assert_int_equal(fstat(fd[huge], &st), 0);
			f[0] = (struct share_file){1, st.st_dev, st.st_ino, HUGE, fd[huge], SHARE_FILE, {0}};
			assert_non_null(import_at(&b, 1, 0, 8, &may_shrink));
			assert_int_equal(may_shrink, huge);
			close(fd[huge]);
		}
		if (id[huge] >= 0) {
			f[1] = (struct share_file){1,  0, (uint64_t)id[huge], huge ? HUGE : LENGTH, -1, SHARE_SEGMENT,
						   {0}};
			assert_non_null(import_at(&b, 2, 0, 8, &may_shrink));
			assert_int_equal(may_shrink, huge);
			assert_int_equal(shmctl(id[huge], IPC_RMID, NULL), 0);
		}
		import_close(&b);
	}
	free(table);
}

/* ---- races ---- */

/* Opens and closes a region again and again; once it is closed, nothing changes in it. */
static void close_while_others_write(struct world *w, const struct kind *kind)
{
	for (unsigned i = 0; i < rounds(200); i++) {
		struct memory m = kind->make();
		volatile char *seen;
		struct exported where;

		if (!exists(&m))
			return;
		seen = m.at + LENGTH / 2;
		memset(m.at, '.', LENGTH);
		open_exported(w->own, m.at, (uint8_t)(1 + i % 255), &where);
		for (int n = 0; i % 2 && where.mapped && *seen == '.' && n < 1000; n++)
			sched_yield();
		close_exported(w->own, &where);
		memset(m.at, '-', LENGTH);
		for (unsigned n = 0; n < 20; n++) {
			if (n % 4 == 0)
				sched_yield();
			for (int k = 0; k < LENGTH; k += 8)
				if (((volatile char *)m.at)[k] != '-')
					fail_msg("%s, round %u: somebody wrote after the region was closed", kind->name,
						 i);
		}
		give_up(&m);
	}
}

static void nobody_writes_to_a_closed_region(void **state)
{
	for (enum means means = 0; means < MEANS; means++) {
		struct world w;

		begin_with(&w, write_all_the_time, means);
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			close_while_others_write(&w, &kinds[i]);
		end(&w, false);
	}
}

/* The file gets shorter, and is unmapped, and mapped again, under the hands of who writes. */
static void who_writes_survives_what_happens_to_files(void **state)
{
	for (enum means means = 0; means < MEANS; means++) {
		struct world w;

		begin_with(&w, write_all_the_time, means);
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
			struct memory m = kinds[i].make();
			struct exported where;

			if (!exists(&m))
				continue;
			open_exported(w.own, m.at, 1, &where);
			for (unsigned n = 0; n < rounds(300); n++) {
				sched_yield();
				if (m.fd >= 0 && ftruncate(m.fd, 0) == 0)
					assert_int_equal(ftruncate(m.fd, (off_t)m.size), 0);
				if (m.segment < 0 && n % 8 == 0)
					assert_ptr_equal(mmap(m.at, m.size, PROT_NONE,
							      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
							 m.at);
			}
			close_exported(w.own, &where);
			give_up(&m);
		}
		end(&w, false);
	}
}

/* ---- giving back ---- */

static bool maps_of_have(pid_t pid, const char *word)
{
	char path[32], line[512];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps))
		found = strstr(line, word);
	if (maps)
		fclose(maps);
	return found;
}

static void note_release(void *count)
{
	++*(int *)count;
}

static void what_is_closed_is_given_back(void **state)
{
	struct memory m[] = {sealed_memfd(), segment()};
	static const char *const names[] = {"uroce-test-lent", "/SYSV"};
	int before = descriptors(), released = 0;
	struct world w;

	begin_with(&w, write_when_told, PROCESS_VM);
	share_on_release(w.own, note_release, &released);
	for (int i = 0; i < 2; i++) {
		struct exported where, other;

		open_exported(w.own, m[i].at, 1, &where);
		export_make(w.own, m[i].at, 1, &other);
		tell(w.socket, 'g');
		assert_true(hear(w.socket, 'm'));
		export_release(w.own, other.file);
		assert_int_equal(released, i);
		close_exported(w.own, &where);
		assert_int_equal(released, i + 1);
		tell(w.socket, 't');
		assert_true(hear(w.socket, 't'));
	}
	for (int i = 0; i < 2; i++) {
		struct shmid_ds ds;

		/* the child has a copy of what this process had mapped when it was forked, and no more */
		if (m[i].segment >= 0) {
			assert_int_equal(shmctl(m[i].segment, IPC_STAT, &ds), 0);
			assert_int_equal(ds.shm_nattch, 2);
		}
		assert_true(maps_of_have(w.pid, names[i]));
		give_up(&m[i]);
	}
	end(&w, false);
	assert_true(descriptors() <= before);
}

static void there_is_room_for_so_many_files(void **state)
{
	struct share *s = make_share(1);
	int before = descriptors();
	struct memory m[SHARE_FILES + 1];
	struct exported where[SHARE_FILES + 1];

	for (int i = 0; i <= SHARE_FILES; i++) {
		m[i] = plain_memfd();
		export_make(s, m[i].at, LENGTH, &where[i]);
		assert_int_equal(where[i].mapped, i < SHARE_FILES ? LENGTH : 0);
	}
	export_release(s, where[7].file);
	export_make(s, m[SHARE_FILES].at, LENGTH, &where[7]);
	assert_int_equal(where[7].mapped, LENGTH);
	for (int i = 0; i <= SHARE_FILES; i++) {
		export_release(s, where[i].file);
		give_up(&m[i]);
	}
	assert_int_equal(descriptors(), before);
	share_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_come_into_each_kind),
		cmocka_unit_test(what_is_unmapped_is_still_the_region),
		cmocka_unit_test(only_what_the_file_has_is_exported),
		cmocka_unit_test(a_region_in_several_mappings_is_exported_as_far_as_they_are_one),
		cmocka_unit_test(private_files_and_devices_are_not_exported),
		cmocka_unit_test(a_file_is_found_by_descriptor_and_by_path),
		cmocka_unit_test(a_segment_is_told_from_a_file_of_its_number),
		cmocka_unit_test(huge_pages_may_be_lacking),
		cmocka_unit_test(nobody_writes_to_a_closed_region),
		cmocka_unit_test(who_writes_survives_what_happens_to_files),
		cmocka_unit_test(what_is_closed_is_given_back),
		cmocka_unit_test(there_is_room_for_so_many_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
