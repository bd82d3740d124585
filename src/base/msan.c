// SPDX-License-Identifier: BSD-2-Clause
#include "base/msan.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OUR_OPTION "poison_in_malloc=0" /* option that `uroce run` sets */

extern void __msan_unpoison(const volatile void *at, size_t size) __attribute__((weak)); /* the program's */

void (*msan_unpoison)(const volatile void *at, size_t size);

static struct {
	void (*poison)(const volatile void *at, size_t size);
	intptr_t (*test)(const volatile void *at, size_t size);
	void (*copy)(const volatile void *to, const volatile void *from, size_t size);
	void (*disable)(void);
	void (*enable)(void);
	void (*poison_in_malloc)(int on);
} msan;

void msan_spoil(const volatile void *at, size_t size)
{
	if (msan_is_there())
		msan.poison(at, size);
}

const char *msan_first_unset(const volatile void *at, size_t size)
{
	intptr_t offset = msan_is_there() && size ? msan.test(at, size) : -1;

	return offset < 0 ? NULL : (const char *)at + offset;
}

void msan_copied(const volatile void *to, const volatile void *from, size_t size)
{
	if (msan_is_there())
		msan.copy(to, from, size);
}

void msan_pause(void)
{
	if (msan_is_there())
		msan.disable();
}

void msan_resume(void)
{
	if (msan_is_there())
		msan.enable();
}

/* ---- calls of the C library ---- */

/* MemorySanitizer stands in front of the C library and looks at what each call is given. It has not seen our stores, so
 * it would take our arguments for uninitialised. So our calls go to the C library itself, but for those that
 * MemorySanitizer has to know of; and memory that we allocate is initialised. */

#ifdef __x86_64__
#define RELOCATES_SLOT(type) ((type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_JUMP_SLOT)
#elif defined(__aarch64__)
#define RELOCATES_SLOT(type) ((type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_JUMP_SLOT)
#else
#define RELOCATES_SLOT(type) ((void)(type), false)
#endif

static struct {
	void *(*malloc)(size_t size);
	void *(*realloc)(void *memory, size_t size);
	void *(*reallocarray)(void *memory, size_t count, size_t size);
	void *(*aligned_alloc)(size_t align, size_t size);
} theirs;

static void *clean(void *memory, size_t size)
{
	msan_wrote(memory, size);
	return memory;
}

static void *clean_malloc(size_t size)
{
	return clean(theirs.malloc(size), size);
}

static void *clean_realloc(void *memory, size_t size)
{
	return clean(theirs.realloc(memory, size), size);
}

static void *clean_reallocarray(void *memory, size_t count, size_t size)
{
	return clean(theirs.reallocarray(memory, count, size), count * size);
}

static void *clean_aligned_alloc(size_t align, size_t size)
{
	return clean(theirs.aligned_alloc(align, size), size);
}

static char *clean_strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = clean_malloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

static const struct {
	const char *name;
	void *call; /* replacement; NULL: MemorySanitizer's own stays */
	void **theirs;
} kept[] = {
	{"malloc", clean_malloc, (void **)&theirs.malloc},
	{"realloc", clean_realloc, (void **)&theirs.realloc},
	{"reallocarray", clean_reallocarray, (void **)&theirs.reallocarray},
	{"aligned_alloc", clean_aligned_alloc, (void **)&theirs.aligned_alloc},
	{"strdup", clean_strdup, NULL},
	{"calloc", NULL, NULL}, /* initialised as it is */
	{"free", NULL, NULL},
	{"mmap", NULL, NULL},
	{"mmap64", NULL, NULL},
	{"munmap", NULL, NULL},
	{"shmat", NULL, NULL},
	{"fork", NULL, NULL},
	{"pthread_create", NULL, NULL},
	{"pthread_join", NULL, NULL},
	{"pthread_key_create", NULL, NULL},
	{"sigaction", NULL, NULL},
	{"__cxa_atexit", NULL, NULL},
};

/* The value for the slot of that symbol. */
static void *call_for(const char *name, void *now, void *libc)
{
	void *real;

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		if (strcmp(kept[i].name, name))
			continue;
		if (kept[i].theirs)
			*kept[i].theirs = now;
		return kept[i].call ?: now;
	}
	real = dlsym(libc, name) ?: dlsym(RTLD_NEXT, name); /* before glibc 2.34 it is several libraries */
	return real ?: now;
}

/* The pointers to functions of others that the linker has put into this library. */
struct slots {
	uintptr_t base;
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Rela) * rows[2];
	size_t bytes[2];
	const void *sanitizer; /* the program that has MemorySanitizer */
	void *libc;
};

static bool is_in(const void *call, const void *object)
{
	Dl_info info;

	return call && dladdr(call, &info) && info.dli_fbase == object;
}

static void redirect(const struct slots *s, const ElfW(Rela) * row)
{
	const ElfW(Sym) *symbol = &s->symbols[ELF64_R_SYM((uint64_t)row->r_info)];
	void **slot = (void **)(s->base + row->r_offset);

	if (RELOCATES_SLOT(ELF64_R_TYPE((uint64_t)row->r_info)) && symbol->st_shndx == SHN_UNDEF &&
	    is_in(*slot, s->sanitizer))
		*slot = call_for(s->names + symbol->st_name, *slot, s->libc);
}

/* The address of an entry: the dynamic linker may have made it absolute. */
static const void *address_in(const struct slots *s, const ElfW(Dyn) * d)
{
	return (const void *)(d->d_un.d_ptr < s->base ? s->base + d->d_un.d_ptr : d->d_un.d_ptr);
}

static void find_slots(struct slots *s, const ElfW(Dyn) * d)
{
	for (; d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB:
			s->symbols = address_in(s, d);
			break;
		case DT_STRTAB:
			s->names = address_in(s, d);
			break;
		case DT_RELA:
			s->rows[0] = address_in(s, d);
			break;
		case DT_RELASZ:
			s->bytes[0] = d->d_un.d_val;
			break;
		case DT_JMPREL:
			s->rows[1] = address_in(s, d);
			break;
		case DT_PLTRELSZ:
			s->bytes[1] = d->d_un.d_val;
			break;
		default:
			break;
		}
}

static void redirect_all(const struct slots *s)
{
	for (int i = 0; i < 2; i++)
		for (size_t n = 0; n < s->bytes[i] / sizeof(ElfW(Rela)); n++)
			redirect(s, &s->rows[i][n]);
}

/* The slots are read-only since the library was loaded. */
static int redirect_in(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct slots *s = arg;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = 0, end = 0;

	(void)size;
	if (info->dlpi_addr != s->base)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
			start = (s->base + info->dlpi_phdr[i].p_vaddr) & -page;
			end = (s->base + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz) & -page;
		}
	if (start < end && mprotect((void *)start, end - start, PROT_READ | PROT_WRITE))
		return 1;
	redirect_all(s);
	if (start < end)
		mprotect((void *)start, end - start, PROT_READ);
	return 1;
}

static void call_past_sanitizer(void)
{
	struct slots s = {0};
	struct link_map *map;
	Dl_info own, program;

	if (!dladdr1((const void *)call_past_sanitizer, &own, (void **)&map, RTLD_DL_LINKMAP) ||
	    !dladdr((const void *)msan_unpoison, &program))
		return;
	s.base = map->l_addr;
	s.sanitizer = program.dli_fbase;
	s.libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	if (!s.libc)
		return;
	find_slots(&s, map->l_ld);
	if (s.symbols && s.names)
		dl_iterate_phdr(redirect_in, &s);
}

/* ---- the start ---- */

/* The constructors of other libraries allocate memory and pass it to the C library, which MemorySanitizer would report;
 * so `uroce run` lets it take allocated memory for initialised until now. */
static void begin_to_watch_malloc(void)
{
	const char *options = getenv("MSAN_OPTIONS"), *behind;

	if (!options || strncmp(options, OUR_OPTION, strlen(OUR_OPTION)))
		return;
	behind = options + strlen(OUR_OPTION);
	if (msan.poison_in_malloc && !strstr(behind, "poison_in_malloc="))
		msan.poison_in_malloc(1);
}

/* Among the first constructors of this library, which is called after those of most others. */
__attribute__((constructor(101))) static void msan_start(void)
{
	static const struct {
		void **to;
		const char *name;
	} symbols[] = {
		{(void **)&msan.poison, "__msan_poison"},
		{(void **)&msan.test, "__msan_test_shadow"},
		{(void **)&msan.copy, "__msan_copy_shadow"},
		{(void **)&msan.disable, "__msan_scoped_disable_interceptor_checks"},
		{(void **)&msan.enable, "__msan_scoped_enable_interceptor_checks"},
	};

	if (!__msan_unpoison)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++)
		if (!(*symbols[i].to = dlsym(RTLD_DEFAULT, symbols[i].name)))
			return;
	msan_unpoison = __msan_unpoison;
	msan.poison_in_malloc = (void (*)(int))dlsym(RTLD_DEFAULT, "__msan_set_poison_in_malloc");
	call_past_sanitizer();
	begin_to_watch_malloc();
}
