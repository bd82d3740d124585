/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/list.h"

struct member {
	int value;
	struct list link;
};

static int value_of(struct list *l)
{
	return container_of(l, struct member, link)->value;
}

static void members_leave_in_the_order_they_came(void **state)
{
	struct member m[5];
	struct list head;

	list_init(&head);
	assert_true(list_empty(&head));
	assert_null(list_pop(&head));
	for (int i = 0; i < 5; i++) {
		m[i].value = i;
		list_append(&head, &m[i].link);
	}
	for (int i = 0; i < 5; i++)
		assert_int_equal(value_of(list_pop(&head)), i);
	assert_true(list_empty(&head));
}

static void removing_twice_does_no_harm(void **state)
{
	struct member m[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
	struct list head;

	list_init(&head);
	for (int i = 0; i < 3; i++)
		list_append(&head, &m[i].link);
	list_remove(&m[1].link);
	assert_true(list_empty(&m[1].link));
	list_remove(&m[1].link);
	assert_int_equal(value_of(list_pop(&head)), 0);
	assert_int_equal(value_of(list_pop(&head)), 2);
	assert_null(list_pop(&head));
}

static void a_member_may_go_while_all_are_visited(void **state)
{
	struct member m[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
	struct list head;
	int seen = 0;

	list_init(&head);
	for (int i = 0; i < 4; i++)
		list_append(&head, &m[i].link);
	list_each_safe (l, &head) {
		seen++;
		if (value_of(l) % 2)
			list_remove(l);
	}
	assert_int_equal(seen, 4);
	seen = 0;
	list_each (l, &head) {
		assert_int_equal(value_of(l), 2 * seen);
		seen++;
	}
	assert_int_equal(seen, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_leave_in_the_order_they_came),
		cmocka_unit_test(removing_twice_does_no_harm),
		cmocka_unit_test(a_member_may_go_while_all_are_visited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
