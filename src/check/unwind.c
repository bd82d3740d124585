/* SPDX-License-Identifier: BSD-2-Clause */
/* Frame descriptions of .eh_frame (DWARF 5, 6.4; LSB 5, 10.6), as far as code of C and C++ compilers needs them: the
 * canonical frame address (CFA) from the stack or the frame pointer, the return address and the frame pointer in
 * memory. backtrace(3) reads them again for each frame, which takes 120 ns. */
#include "check/unwind.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "check/tuned.h"
#include "memory/fault.h"

#if defined(__x86_64__)
enum { REG_SP = 7, REG_FP = 6, REG_RA = 16 };
#define READ_REGISTERS(r) \
	__asm__ volatile("lea 0(%%rip), %0; mov %%rsp, %1; mov %%rbp, %2" : "=r"((r)->pc), "=r"((r)->sp), "=r"((r)->fp))
#elif defined(__aarch64__)
enum { REG_SP = 31, REG_FP = 29, REG_RA = 30 };
#define READ_REGISTERS(r) \
	__asm__ volatile("adr %0, .; mov %1, sp; mov %2, x29" : "=r"((r)->pc), "=r"((r)->sp), "=r"((r)->fp))
#elif defined(__s390x__)
enum { REG_SP = 15, REG_FP = 11, REG_RA = 14 };
#define READ_REGISTERS(r) \
	__asm__ volatile("larl %0, .; lgr %1, %%r15; lgr %2, %%r11" : "=r"((r)->pc), "=r"((r)->sp), "=r"((r)->fp))
#else
enum { REG_SP = 1, REG_FP = 2, REG_RA = 3 };
#define READ_REGISTERS(r) (*(r) = (struct registers){0})
#endif

#ifdef __clang__
#define NOT_SANITIZED __attribute__((no_sanitize("address", "thread")))
#else
#define NOT_SANITIZED __attribute__((no_sanitize_address, no_sanitize_thread))
#endif

enum how { HOW_UNKNOWN, HOW_LAST, HOW_SP, HOW_FP, HOW_AT_FP };

/* How to get from a frame to its caller's. */
struct rule {
	uint64_t how : 3;	  /* enum how: the base of the CFA, or that there is no caller */
	uint64_t fp_is_kept : 1;  /* the frame pointer is the caller's; else it is stored */
	int64_t ra : 18, fp : 18; /* where the caller's are stored; words from the CFA, of `fp` under HOW_AT_FP from
				     the frame pointer */
	int64_t cfa : 24;	  /* bytes from the base */
};
static_assert(sizeof(struct rule) == 8, "a rule is stored at once");

struct registers {
	uintptr_t pc, sp, fp;
};

/* Rules that are kept. `key`: the address, xor the rule: a rule that another thread replaces fits no address. */
static struct {
	_Atomic uint64_t key, rule;
} kept[RULES];

/* As in libgcc's unwind-dw2-fde.h; the ABI is libgcc's. */
struct bases {
	void *text, *data, *function;
};
static const uint8_t *(*find_fde)(void *pc, struct bases *bases); /* constant after unwind_start() */

/* ---- one frame description ---- */

struct reader {
	const uint8_t *at, *end;
};

static uint64_t read_bytes(struct reader *r, uint32_t size)
{
	uint64_t value = 0;

	if ((size_t)(r->end - r->at) < size) {
		r->at = r->end;
		return 0;
	}
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	memcpy((char *)&value + sizeof(value) - size, r->at, size);
#else
	memcpy(&value, r->at, size);
#endif
	r->at += size;
	return value;
}

static uint64_t read_uleb(struct reader *r)
{
	uint64_t value = 0;
	uint32_t shift = 0;

	for (uint8_t byte = 0x80; byte & 0x80 && r->at < r->end; shift += 7) {
		byte = *r->at++;
		value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
	}
	return value;
}

static int64_t read_sleb(struct reader *r)
{
	const uint8_t *from = r->at;
	uint64_t value = read_uleb(r);
	uint32_t bits = (uint32_t)(r->at - from) * 7;

	if (bits && bits < 64 && r->at[-1] & 0x40)
		value |= ~0ull << bits;
	return (int64_t)value;
}

enum place { PLACE_SAME, PLACE_STORED, PLACE_BY_FP, PLACE_UNDEFINED, PLACE_OTHER };

/* A row of the table. */
struct row {
	enum how how;
	int64_t cfa;
	enum place place[2]; /* of the return address and the frame pointer */
	int64_t at[2];
};

enum { ROWS = 8 };

struct table {
	struct reader code;
	uint64_t code_factor;
	int64_t data_factor;
	uint64_t pc, target; /* bytes from the start of the function */
	struct row row, first, stack[ROWS];
	uint32_t depth;
	bool is_understood;
};

static void set_place(struct table *t, uint64_t reg, enum place place, int64_t at)
{
	if (reg == REG_RA || reg == REG_FP) {
		t->row.place[reg == REG_FP] = place;
		t->row.at[reg == REG_FP] = at;
	} else if (reg == REG_SP && place != PLACE_SAME) {
		t->is_understood = false;
	}
}

static void set_base(struct table *t, uint64_t reg)
{
	t->row.how = reg == REG_SP ? HOW_SP : reg == REG_FP ? HOW_FP : HOW_UNKNOWN;
}

/* A function that aligns its stack has both of these: a frame pointer of the aligned frame, beside which gcc stores
 * the caller's and the address of the CFA. */
enum { OP_BREG0 = 0x70, OP_DEREF = 0x06 };

static struct reader read_expression(struct table *t)
{
	uint64_t length = read_uleb(&t->code);
	struct reader r = {t->code.at, t->code.at + min_of(length, (uint64_t)(t->code.end - t->code.at))};

	t->code.at = r.end;
	return r;
}

/* "What is stored at FP + n". */
static void set_base_by_expression(struct table *t)
{
	struct reader r = read_expression(t);

	t->row.how = HOW_UNKNOWN;
	if (read_bytes(&r, 1) != OP_BREG0 + REG_FP)
		return;
	t->row.cfa = read_sleb(&r);
	if (read_bytes(&r, 1) == OP_DEREF && r.at == r.end)
		t->row.how = HOW_AT_FP;
}

/* "Stored at FP + n". */
static void set_place_by_expression(struct table *t)
{
	uint64_t reg = read_uleb(&t->code);
	struct reader r = read_expression(t);
	bool by_fp = read_bytes(&r, 1) == OP_BREG0 + REG_FP;
	int64_t at = read_sleb(&r);

	set_place(t, reg, by_fp && reg == REG_FP && r.at == r.end ? PLACE_BY_FP : PLACE_OTHER, at);
}

static void remember(struct table *t)
{
	if (t->depth == ROWS)
		t->is_understood = false;
	else
		t->stack[t->depth++] = t->row;
}

static void restore(struct table *t, uint64_t reg)
{
	int i = reg == REG_FP;

	set_place(t, reg, t->first.place[i], t->first.at[i]);
}

/* An instruction without an operand in its first byte. */
static void step_extended(struct table *t, uint8_t code)
{
	struct reader *r = &t->code;
	uint64_t reg = 0;

	switch (code) {
	case 0x02: /* advance_loc1 */
	case 0x03: /* advance_loc2 */
	case 0x04: /* advance_loc4 */
		t->pc += read_bytes(r, 1u << (code - 2)) * t->code_factor;
		return;
	case 0x05: /* offset_extended */
		reg = read_uleb(r);
		set_place(t, reg, PLACE_STORED, (int64_t)read_uleb(r) * t->data_factor);
		return;
	case 0x11: /* offset_extended_sf */
		reg = read_uleb(r);
		set_place(t, reg, PLACE_STORED, read_sleb(r) * t->data_factor);
		return;
	case 0x06: /* restore_extended */
		restore(t, read_uleb(r));
		return;
	case 0x07: /* undefined */
	case 0x08: /* same_value */
		set_place(t, read_uleb(r), code == 0x07 ? PLACE_UNDEFINED : PLACE_SAME, 0);
		return;
	case 0x0a:
		remember(t);
		return;
	case 0x0b: /* restore_state */
		t->is_understood &= t->depth > 0;
		t->row = t->stack[t->depth ? --t->depth : 0];
		return;
	case 0x0c: /* def_cfa */
		set_base(t, read_uleb(r));
		t->row.cfa = (int64_t)read_uleb(r);
		return;
	case 0x0d: /* def_cfa_register */
		set_base(t, read_uleb(r));
		return;
	case 0x0e: /* def_cfa_offset */
		t->row.cfa = (int64_t)read_uleb(r);
		return;
	case 0x0f: /* def_cfa_expression */
		set_base_by_expression(t);
		return;
	case 0x09: /* register: stored in another one */
		reg = read_uleb(r);
		read_uleb(r);
		set_place(t, reg, PLACE_OTHER, 0);
		return;
	case 0x10: /* expression */
		set_place_by_expression(t);
		return;
	case 0x16: /* val_expression */
		reg = read_uleb(r);
		read_expression(t);
		set_place(t, reg, PLACE_OTHER, 0);
		return;
	case 0x00: /* nop */
	case 0x2d: /* AARCH64_negate_ra_state: the address is signed; see plain_address() */
		return;
	case 0x2e: /* GNU_args_size */
		read_uleb(r);
		return;
	default:
		t->is_understood = false;
	}
}

static void run_table(struct table *t)
{
	while (t->is_understood && t->code.at < t->code.end && t->pc <= t->target) {
		uint8_t byte = *t->code.at++, operand = byte & 0x3f;

		if (byte >> 6 == 1) /* advance_loc */
			t->pc += operand * t->code_factor;
		else if (byte >> 6 == 2) /* offset */
			set_place(t, operand, PLACE_STORED, (int64_t)read_uleb(&t->code) * t->data_factor);
		else if (byte >> 6 == 3)
			restore(t, operand);
		else
			step_extended(t, byte);
	}
}

static struct reader record_at(const uint8_t *at)
{
	uint32_t length;

	memcpy(&length, at, sizeof(length));
	return (struct reader){at + sizeof(length), at + sizeof(length) + (length == UINT32_MAX ? 0 : length)};
}

/* Size of a pointer of that encoding; 0: not known. */
static uint32_t encoded_size(uint8_t encoding)
{
	static const uint8_t sizes[8] = {sizeof(void *), 0, 2, 4, 8};

	return sizes[encoding & 7];
}

/* Reads the CIE. Returns the encoding of its pointers; 0xff: not understood. */
static uint8_t read_cie(const uint8_t *at, struct table *t)
{
	enum { NONE = 0xff };
	struct reader r = record_at(at);
	const char *letters;
	uint8_t version, encoding = 0;
	uint64_t rest;

	read_bytes(&r, 4);
	version = (uint8_t)read_bytes(&r, 1);
	letters = (const char *)r.at;
	while (read_bytes(&r, 1))
		;
	t->code_factor = read_uleb(&r);
	t->data_factor = read_sleb(&r);
	if ((version == 1 ? read_bytes(&r, 1) : read_uleb(&r)) != REG_RA || *letters != 'z')
		return NONE;
	rest = read_uleb(&r);
	t->code = (struct reader){r.at + min_of(rest, (uint64_t)(r.end - r.at)), r.end};
	for (letters++; *letters; letters++) {
		if (*letters == 'R')
			encoding = (uint8_t)read_bytes(&r, 1);
		else if (*letters == 'P')
			r.at += encoded_size((uint8_t)read_bytes(&r, 1));
		else if (*letters == 'L')
			read_bytes(&r, 1);
		else if (*letters != 'B') /* S: the frame of a signal */
			return NONE;
	}
	return encoding;
}

static struct rule rule_of_row(const struct row *row)
{
	enum { WORD = sizeof(void *) };
	enum place fp_place = row->how == HOW_AT_FP ? PLACE_BY_FP : PLACE_STORED;
	bool fp_is_kept = row->place[1] == PLACE_SAME || row->place[1] == PLACE_UNDEFINED;
	struct rule rule = {
		.how = row->how,
		.fp_is_kept = fp_is_kept,
		.ra = row->at[0] / WORD,
		.fp = row->at[1] / WORD,
		.cfa = row->cfa,
	};

	if (row->place[0] == PLACE_UNDEFINED)
		return (struct rule){.how = HOW_LAST};
	if (row->place[0] != PLACE_STORED || !(fp_is_kept || row->place[1] == fp_place) || rule.cfa != row->cfa ||
	    rule.ra * WORD != row->at[0] || rule.fp * WORD != row->at[1])
		rule.how = HOW_UNKNOWN;
	return rule;
}

static struct rule rule_read(uintptr_t pc)
{
	struct rule unknown = {.how = HOW_UNKNOWN};
	struct bases bases = {0};
	const uint8_t *fde = find_fde ? find_fde((void *)pc, &bases) : NULL;
	struct table t = {.is_understood = true};
	struct reader r;
	uint8_t encoding;
	uint32_t delta;

	if (!fde)
		return unknown;
	r = record_at(fde);
	delta = (uint32_t)(read_bytes(&r, 4));
	encoding = read_cie(fde + 4 - (int32_t)delta, &t);
	if (encoding == 0xff || !encoded_size(encoding))
		return unknown;
	run_table(&t);
	t.first = t.row;
	read_bytes(&r, encoded_size(encoding));
	read_bytes(&r, encoded_size(encoding));
	r.at += min_of(read_uleb(&r), (uint64_t)(r.end - r.at));
	t.code = r;
	t.pc = 0;
	t.target = pc - (uintptr_t)bases.function;
	run_table(&t);
	return t.is_understood ? rule_of_row(&t.row) : unknown;
}

/* ---- a stack ---- */

static struct rule rule_of(uintptr_t pc)
{
	size_t i = (pc ^ pc >> 12) % RULES;
	uint64_t word = atomic_load_explicit(&kept[i].rule, memory_order_relaxed);
	struct rule rule;

	if ((atomic_load_explicit(&kept[i].key, memory_order_relaxed) ^ word) != pc) {
		rule = rule_read(pc);
		memcpy(&word, &rule, sizeof(word));
		atomic_store_explicit(&kept[i].rule, word, memory_order_relaxed);
		atomic_store_explicit(&kept[i].key, word ^ pc, memory_order_relaxed);
	}
	memcpy(&rule, &word, sizeof(rule));
	return rule;
}

/* Without the signature of pointer authentication. */
static uintptr_t plain_address(uintptr_t ra)
{
#ifdef __aarch64__
	register uintptr_t lr __asm__("x30") = ra;

	__asm__("hint #7" : "+r"(lr)); /* xpaclri; nothing, where there is none */
	return lr;
#else
	return ra;
#endif
}

struct walk {
	void **frame;
	uint32_t most, count;
	struct registers at;
	const struct unwind_copy *copy; /* NULL: the stack of this thread */
};

/* The word stored `offset` words from the address; 0 if the copy does not have it. */
NOT_SANITIZED static uintptr_t word_at(const struct walk *w, uintptr_t at, int64_t offset)
{
	uintptr_t word, from = at + (uintptr_t)offset * sizeof(word);

	if (likely(!w->copy))
		return *(const volatile uintptr_t *)from;
	from -= w->copy->sp;
	if (from > w->copy->length || w->copy->length - from < sizeof(word))
		return 0;
	memcpy(&word, w->copy->bytes + from, sizeof(word));
	return word;
}

static void walk_up(void *arg)
{
	struct walk *w = arg;
	struct registers *at = &w->at;

	for (struct rule rule = rule_of(at->pc); rule.how != HOW_LAST; rule = rule_of(at->pc - 1)) {
		uintptr_t cfa = (rule.how == HOW_SP ? at->sp : at->fp) + (uintptr_t)(intptr_t)rule.cfa;

		if (rule.how == HOW_UNKNOWN) {
			w->count = 0;
			return;
		}
		if (rule.how == HOW_AT_FP)
			cfa = word_at(w, cfa, 0);
		at->sp = cfa;
		at->pc = plain_address(word_at(w, cfa, rule.ra));
		if (!rule.fp_is_kept)
			at->fp = word_at(w, rule.how == HOW_AT_FP ? at->fp : cfa, rule.fp);
		if (!at->pc || w->count == w->most)
			return;
		w->frame[w->count++] = (void *)at->pc;
	}
}

uint32_t unwind(void **frame, uint32_t most)
{
	struct walk w = {.frame = frame, .most = most};

	READ_REGISTERS(&w.at);
	return find_fde && fault_try(walk_up, &w) ? w.count : 0;
}

uint32_t unwind_copied(const struct unwind_copy *copy, void **frame, uint32_t most)
{
	struct walk w = {.frame = frame, .most = most, .count = 1, .at = {copy->pc, copy->sp, copy->fp}, .copy = copy};

	frame[0] = (void *)copy->pc;
	if (find_fde)
		walk_up(&w);
	return max_of(w.count, 1u);
}

static int count_unloads(struct dl_phdr_info *info, size_t size, void *unloads)
{
	(void)size;
	*(unsigned long long *)unloads = info->dlpi_subs;
	return 1;
}

void unwind_start(void)
{
	void *libgcc = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);

	if (libgcc)
		*(void **)&find_fde = dlsym(libgcc, "_Unwind_Find_FDE");
}

void unwind_refresh(void)
{
	static _Atomic unsigned long long seen;
	unsigned long long unloads = 0;

	dl_iterate_phdr(count_unloads, &unloads);
	if (unloads == atomic_exchange(&seen, unloads))
		return;
	for (size_t i = 0; i < RULES; i++) {
		atomic_store_explicit(&kept[i].key, 0, memory_order_relaxed);
		atomic_store_explicit(&kept[i].rule, 0, memory_order_relaxed);
	}
}
