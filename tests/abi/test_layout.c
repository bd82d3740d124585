/* SPDX-License-Identifier: BSD-2-Clause */
/* The layouts that programs were compiled against, and the traps in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <stdlib.h>

/* Machines differ in the size of what the C library keeps in a mutex and a condition; releases, in what they have
 * appended. */
#if defined(__x86_64__) && RDMA_CORE == 44
#define SIZE(type, bytes)	  _Static_assert(sizeof(struct type) == (bytes), "sizeof(struct " #type ")");
#define FIELD(type, field, where) _Static_assert(offsetof(struct type, field) == (where), #type "." #field);
#include "layout.def"
#endif

static struct ibv_context *context;

static int open_first(void **state)
{
	struct ibv_device **list;

	setenv("UROCE_DEVICES", "lo", 1);
	list = ibv_get_device_list(NULL);
	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	ibv_free_device_list(list);
	return context ? 0 : -1;
}

static int close_it(void **state)
{
	return ibv_close_device(context);
}

static void the_word_behind_a_device_is_zero(void **state)
{
	/* libmlx5 and libefa look there whether the device is theirs */
	assert_null(*(void **)((char *)context->device + 664));
}

static void the_context_is_an_extended_one(void **state)
{
	assert_ptr_equal(context->abi_compat, (void *)UINTPTR_MAX);
	assert_int_equal(verbs_get_ctx(context)->sz, sizeof(struct verbs_context));
}

static void every_operation_is_there(void **state)
{
	struct verbs_context *v = verbs_get_ctx(context);
	void **op = (void **)v;

	for (size_t i = 0; i < offsetof(struct verbs_context, sz) / sizeof(*op); i++) {
		size_t at = i * sizeof(*op);

		if (at == offsetof(struct verbs_context, priv) ||
		    at == offsetof(struct verbs_context, ABI_placeholder1) ||
		    at == offsetof(struct verbs_context, ABI_placeholder2) ||
		    at == offsetof(struct verbs_context, _ABI_placeholder3))
			continue;
		if (!op[i])
			fail_msg("the operation at %zu is NULL", at);
	}
}

/* verbs.h calls these without a look. */
static void operations_that_nobody_checks_are_there(void **state)
{
	struct ibv_context_ops *o = &context->ops;

	assert_true(o->alloc_mw && o->bind_mw && o->dealloc_mw && o->poll_cq && o->req_notify_cq);
	assert_true(o->post_srq_recv && o->post_send && o->post_recv);
}

static void a_port_is_told_in_every_size(void **state)
{
	struct verbs_context *v = verbs_get_ctx(context);
	union {
		struct ibv_port_attr attr;
		unsigned char bytes[64];
	} full, part;
	const size_t sizes[] = {48, 52, 56};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(&full, 0xaa, sizeof(full));
		memset(&part, 0xaa, sizeof(part));
		assert_int_equal(v->query_port(context, 1, &full.attr, 56), 0);
		assert_int_equal(v->query_port(context, 1, &part.attr, sizes[i]), 0);
		assert_memory_equal(&full, &part, sizes[i]);
		for (size_t b = sizes[i]; b < sizeof(part); b++)
			assert_int_equal(part.bytes[b], 0xaa);
	}
	assert_int_equal(v->query_port(context, 1, &full.attr, 40), EINVAL);
}

static void a_gid_entry_is_told_in_every_size(void **state)
{
	struct ibv_gid_entry e, table[64];
	unsigned char big[64 * 40], small[64];
	ssize_t n;

	assert_int_equal(_ibv_query_gid_ex(context, 1, 0, &e, 0, sizeof(e)), 0);
	memset(small, 0xaa, sizeof(small));
	assert_int_equal(_ibv_query_gid_ex(context, 1, 0, (void *)small, 0, 24), 0);
	assert_memory_equal(small, &e, 24);
	assert_int_equal(small[24], 0xaa);
	n = _ibv_query_gid_table(context, table, 64, 0, sizeof(table[0]));
	assert_true(n > 0);
	memset(big, 0xaa, sizeof(big));
	assert_int_equal(_ibv_query_gid_table(context, (void *)big, 64, 0, 40), n);
	for (ssize_t i = 0; i < n; i++) {
		assert_memory_equal(big + i * 40, &table[i], sizeof(table[0]));
		assert_memory_equal(big + i * 40 + 32, "\0\0\0\0\0\0\0\0", 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_word_behind_a_device_is_zero),
		cmocka_unit_test(the_context_is_an_extended_one),
		cmocka_unit_test(every_operation_is_there),
		cmocka_unit_test(operations_that_nobody_checks_are_there),
		cmocka_unit_test(a_port_is_told_in_every_size),
		cmocka_unit_test(a_gid_entry_is_told_in_every_size),
	};

	return cmocka_run_group_tests(tests, open_first, close_it);
}
