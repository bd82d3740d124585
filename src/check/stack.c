/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames are named by elfutils' libdw if installed, else by dladdr(3). */
#include "check/stack.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/msan.h"
#include "check/python.h"
#include "check/unwind.h"

#define OURS_MOST 16 /* max frames of uroce above the program's */
#define BUCKETS	  1024

struct code {
	const void *in; /* an address of it */
	uintptr_t start, end;
};
static struct code ours, libc; /* constant after stack_start() */

static struct stack *_Atomic stacks[BUCKETS]; /* the stacks do not change, so they are read without the lock */
static struct lock stacks_lock = LOCK_RANKED(CHECK_STACKS);

/* ---- taking ---- */

static bool is_of(const struct code *code, const void *frame)
{
	return (uintptr_t)frame >= code->start && (uintptr_t)frame < code->end;
}

bool stack_is_ours(const void *frame)
{
	return is_of(&ours, frame);
}

bool stack_is_libc(const void *frame)
{
	return is_of(&libc, frame);
}

static int find_code(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct code *code = arg;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD || (uintptr_t)code->in < start || (uintptr_t)code->in >= start + p->p_memsz)
			continue;
		code->start = start;
		code->end = start + p->p_memsz;
		return 1;
	}
	return 0;
}

static uint64_t stack_hash(void *const *frame, uint32_t depth)
{
	uint64_t hash = depth;

	for (uint32_t i = 0; i < depth; i++)
		hash = (hash ^ (uintptr_t)frame[i]) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 32;
}

static bool stack_is(const struct stack *s, uint64_t hash, void *const *frame, uint32_t depth, const char *python)
{
	return s->hash == hash && s->depth == depth && !memcmp(s->frame, frame, depth * sizeof(*frame)) &&
	       !strcmp(s->python ? s->python : "", python);
}

static struct stack *stack_find(struct stack *s, uint64_t hash, void *const *frame, uint32_t depth, const char *python)
{
	while (s && !stack_is(s, hash, frame, depth, python))
		s = s->next;
	return s;
}

static const struct stack *stack_intern(void *const *frame, uint32_t depth, const char *python)
{
	uint64_t hash = stack_hash(frame, depth);
	struct stack *_Atomic *bucket = &stacks[hash % BUCKETS];
	/* acquire: pairs with the release below */
	struct stack *first = atomic_load_explicit(bucket, memory_order_acquire);
	struct stack *s = stack_find(first, hash, frame, depth, python);

	if (likely(s))
		return s;
	lock_take(&stacks_lock);
	first = atomic_load_explicit(bucket, memory_order_relaxed);
	s = stack_find(first, hash, frame, depth, python);
	if (!s && (s = malloc(sizeof(*s) + depth * sizeof(*frame)))) {
		s->hash = hash;
		s->depth = depth;
		s->python = *python ? strdup(python) : NULL;
		memcpy(s->frame, frame, depth * sizeof(*frame));
		s->next = first;
		atomic_store_explicit(bucket, s, memory_order_release);
	}
	lock_drop(&stacks_lock);
	return s;
}

const struct stack *stack_of(void *const *frame, uint32_t depth)
{
	return stack_intern(frame, depth, "");
}

const struct stack *stack_here(void)
{
	void *frame[STACK_DEPTH + OURS_MOST];
	int count = (int)unwind(frame, ARRAY_SIZE(frame)), from = 0;
	char python[PYTHON_TEXT];

	if (unlikely(!count))
		count = backtrace(frame, ARRAY_SIZE(frame));
	while (from < count && !stack_is_ours(frame[from])) /* frames of a sanitizer's backtrace() */
		from++;
	while (from < count && stack_is_ours(frame[from]))
		from++;
	count = min_of(count - from, STACK_DEPTH);
	if (count <= 0)
		return NULL;
	python_frame(python, sizeof(python));
	return stack_intern(frame + from, (uint32_t)count, python);
}

/* ---- naming ---- */

/* As in libdwfl.h, so that elfutils is not needed to build: the ABI has not changed since 2005. */
struct dwfl_callbacks {
	int (*find_elf)(void);
	int (*find_debuginfo)(void);
	int (*section_address)(void);
	char **debuginfo_path;
};

struct dwarf_die {
	void *addr, *cu, *abbrev;
	long padding;
};
struct dwarf_attribute {
	unsigned code, form;
	unsigned char *value;
	void *cu;
};
enum { DW_TAG_INLINED_SUBROUTINE = 0x1d, DW_AT_COMP_DIR = 0x1b, DW_AT_CALL_FILE = 0x58, DW_AT_CALL_LINE = 0x59 };

static struct {
	void *(*begin)(const struct dwfl_callbacks *);
	int (*linux_proc_report)(void *dwfl, pid_t pid);
	int (*report_end)(void *dwfl, void *, void *);
	void *(*addrmodule)(void *dwfl, uint64_t address);
	const char *(*module_addrname)(void *module, uint64_t address);
	struct dwarf_die *(*module_addrdie)(void *module, uint64_t address, uint64_t *bias);
	struct dwarf_die *(*module_nextcu)(void *module, struct dwarf_die *last, uint64_t *bias);
	int (*haspc)(struct dwarf_die *unit, uint64_t address);
	void *(*getsrc_die)(struct dwarf_die *unit, uint64_t address);
	const char *(*linesrc)(void *line, uint64_t *, uint64_t *);
	int (*lineno)(void *line, int *number);
	int (*getscopes)(struct dwarf_die *unit, uint64_t address, struct dwarf_die **scopes);
	int (*tag)(struct dwarf_die *die);
	struct dwarf_attribute *(*attr)(struct dwarf_die *die, unsigned name, struct dwarf_attribute *to);
	int (*formudata)(struct dwarf_attribute *attribute, uint64_t *value);
	const char *(*formstring)(struct dwarf_attribute *attribute);
	int (*getsrcfiles)(struct dwarf_die *unit, void **files, size_t *count);
	const char *(*filesrc)(void *files, size_t index, uint64_t *, uint64_t *);
	void *session;
} dw;
static struct lock dw_lock = LOCK_RANKED(CHECK_DW);

static bool dw_load(void *library)
{
	static char *path;
	static struct dwfl_callbacks callbacks;
	const struct {
		void **to;
		const char *name;
	} symbols[] = {
		{(void **)&dw.begin, "dwfl_begin"},
		{(void **)&dw.linux_proc_report, "dwfl_linux_proc_report"},
		{(void **)&dw.report_end, "dwfl_report_end"},
		{(void **)&dw.addrmodule, "dwfl_addrmodule"},
		{(void **)&dw.module_addrname, "dwfl_module_addrname"},
		{(void **)&dw.module_addrdie, "dwfl_module_addrdie"},
		{(void **)&dw.module_nextcu, "dwfl_module_nextcu"},
		{(void **)&dw.haspc, "dwarf_haspc"},
		{(void **)&dw.getsrc_die, "dwarf_getsrc_die"},
		{(void **)&dw.linesrc, "dwarf_linesrc"},
		{(void **)&dw.lineno, "dwarf_lineno"},
		{(void **)&dw.getscopes, "dwarf_getscopes"},
		{(void **)&dw.tag, "dwarf_tag"},
		{(void **)&dw.attr, "dwarf_attr"},
		{(void **)&dw.formudata, "dwarf_formudata"},
		{(void **)&dw.formstring, "dwarf_formstring"},
		{(void **)&dw.getsrcfiles, "dwarf_getsrcfiles"},
		{(void **)&dw.filesrc, "dwarf_filesrc"},
		{(void **)&callbacks.find_elf, "dwfl_linux_proc_find_elf"},
		{(void **)&callbacks.find_debuginfo, "dwfl_standard_find_debuginfo"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		if (!(*symbols[i].to = dlsym(library, symbols[i].name)))
			return false;
	callbacks.debuginfo_path = &path;
	dw.session = dw.begin(&callbacks);
	return dw.session;
}

void stack_start(void)
{
	void *frame[1], *library;

	msan_pause();
	library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
	ours.in = (const void *)find_code;
	libc.in = dlsym(RTLD_NEXT, "gnu_get_libc_version"); /* no sanitizer has one of that name */
	dl_iterate_phdr(find_code, &ours);
	dl_iterate_phdr(find_code, &libc);
	unwind_start();
	backtrace(frame, 1); /* loads the unwinder now rather than inside an allocation or a handler */
	if (library && !dw_load(library))
		dw.session = NULL;
	msan_resume();
}

/* The module of an address. If none has it, the list of loaded modules is read again. */
static void *dw_module(uint64_t address)
{
	void *module = dw.addrmodule(dw.session, address);

	if (module)
		return module;
	if (dw.linux_proc_report(dw.session, getpid()) || dw.report_end(dw.session, NULL, NULL))
		return NULL;
	return dw.addrmodule(dw.session, address);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

struct frame_view {
	char function[128];
	char path[512]; /* of the source file; else where in the module it is */
	int line;	/* 0: unknown */
	char module[128];
};

static bool is_verbs_header(const char *path)
{
	const char *file = last_part(path);

	return !strcmp(file, "verbs.h") || !strcmp(file, "rdma_verbs.h");
}

static bool die_number(struct dwarf_die *die, unsigned name, uint64_t *value)
{
	struct dwarf_attribute attribute;

	return dw.attr(die, name, &attribute) && !dw.formudata(&attribute, value);
}

/* The compilation unit of the address, which is then relative to `bias`. Code from clang has no index of units. */
static struct dwarf_die *unit_of(void *module, uint64_t address, uint64_t *bias)
{
	struct dwarf_die *unit = dw.module_addrdie(module, address, bias);

	if (unit)
		return unit;
	while ((unit = dw.module_nextcu(module, unit, bias)))
		if (dw.haspc(unit, address - *bias) > 0)
			return unit;
	return NULL;
}

/* Names of files may be relative to the folder of the compilation. */
static void set_path(struct dwarf_die *unit, const char *file, struct frame_view *view)
{
	struct dwarf_attribute attribute;
	const char *folder = NULL;

	if (*file != '/' && dw.attr(unit, DW_AT_COMP_DIR, &attribute))
		folder = dw.formstring(&attribute);
	snprintf(view->path, sizeof(view->path), "%s%s%s", folder ?: "", folder ? "/" : "", file);
}

/* Replaces a function that verbs.h inlines by its caller. */
static void leave_inlined(struct dwarf_die *unit, uint64_t address, struct frame_view *view)
{
	struct dwarf_die *scopes = NULL;
	uint64_t number, line;
	const char *file;
	void *files;
	size_t known;
	int count;

	if (dw.getsrcfiles(unit, &files, &known))
		return;
	count = dw.getscopes(unit, address, &scopes);
	for (int i = 0; i < count && is_verbs_header(view->path); i++) {
		if (dw.tag(&scopes[i]) != DW_TAG_INLINED_SUBROUTINE ||
		    !die_number(&scopes[i], DW_AT_CALL_LINE, &line) ||
		    !die_number(&scopes[i], DW_AT_CALL_FILE, &number))
			continue;
		file = dw.filesrc(files, number, NULL, NULL);
		set_path(unit, file ?: "?", view);
		view->line = (int)line;
	}
	free(scopes);
}

static void look_at_line(struct dwarf_die *unit, uint64_t address, struct frame_view *view)
{
	void *line = dw.getsrc_die(unit, address);
	const char *file = line ? dw.linesrc(line, NULL, NULL) : NULL;

	if (!file || dw.lineno(line, &view->line))
		return;
	set_path(unit, file, view);
	if (is_verbs_header(view->path))
		leave_inlined(unit, address, view);
}

static void look_by_dw(uint64_t address, struct frame_view *view)
{
	struct dwarf_die *unit;
	const char *name;
	uint64_t bias;
	void *module;

	lock_take(&dw_lock);
	msan_pause();
	module = dw.session ? dw_module(address) : NULL;
	name = module ? dw.module_addrname(module, address) : NULL;
	if (name)
		snprintf(view->function, sizeof(view->function), "%s", name);
	unit = module ? unit_of(module, address, &bias) : NULL;
	if (unit)
		look_at_line(unit, address - bias, view);
	msan_resume();
	lock_drop(&dw_lock);
}

/* The call stands before its return address. */
static void frame_look(void *frame, struct frame_view *view)
{
	Dl_info info;

	*view = (struct frame_view){0};
	look_by_dw((uintptr_t)frame - 1, view);
	if (!dladdr((char *)frame - 1, &info))
		return;
	snprintf(view->module, sizeof(view->module), "%s", info.dli_fname ? last_part(info.dli_fname) : "");
	if (!*view->function && info.dli_sname)
		snprintf(view->function, sizeof(view->function), "%s", info.dli_sname);
	if (!view->line)
		snprintf(view->path, sizeof(view->path), "%.100s+0x%zx", view->module,
			 (size_t)((char *)frame - 1 - (char *)info.dli_fbase));
}

void stack_frame_text(void *frame, char *text, size_t room)
{
	struct frame_view view;
	const char *file;

	frame_look(frame, &view);
	file = last_part(view.path);
	if (view.line)
		snprintf(text, room, "%s (%s:%d)", *view.function ? view.function : "?", file, view.line);
	else
		snprintf(text, room, "%s (%s)", *view.function ? view.function : "?", file);
}

int stack_frame_place(void *frame, char *path, size_t room)
{
	struct frame_view view;

	frame_look(frame, &view);
	snprintf(path, room, "%s", view.path);
	return is_verbs_header(view.path) ? 0 : view.line; /* not inlined without optimization */
}

void stack_frame_names(void *frame, char *function, char *module, size_t room)
{
	struct frame_view view;

	frame_look(frame, &view);
	snprintf(function, room, "%s", view.function);
	snprintf(module, room, "%s", view.module);
}
