/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a message to a local peer's QP goes, by what that shows of its receives: memory/delivery.c. */
#include <sys/mman.h>

#include "memory/world.h"

/* Shows a receive at the next position. */
static void show_receive(struct share *own, uint64_t address, uint32_t length, uint32_t key)
{
	struct share_receive *ring;
	struct share_qp *qp = share_qp_entry(own, QP, &ring);
	uint32_t at = atomic_load(&qp->receives);

	ring[at % SHARE_RECEIVES] = (struct share_receive){address, length, key};
	atomic_store(&qp->receives, at + 1);
}

/* Where a message goes; NULL: nowhere. It takes the receive. */
static char *deliver(struct reach *r, struct reach_pair *to, uint64_t length)
{
	char *at = reach_deliver(r, to, length);

	if (at) {
		to->receives.next++;
		reach_leave(r);
	}
	return at;
}

static void a_message_goes_where_a_receive_is_shown(void **state)
{
	enum { LOCAL = 1 };
	struct share_region region = {.access = LOCAL, .pd = PD, .iova = IOVA, .length = LENGTH};
	struct reach_pair to = pair, of_another = stranger;
	struct share *own = make_share(1);
	char *at = fresh(LENGTH);
	struct reach *self;
	const struct {
		uint64_t address;
		uint32_t length, key;
		uint64_t bytes;
		const char *at;
	} rows[] = {
		{IOVA, 64, key_of(1), 64, at},
		{IOVA + 64, LENGTH - 64, key_of(1), LENGTH - 64, at + 64},
		{IOVA + LENGTH - 8, 64, key_of(1), 8, at + LENGTH - 8}, /* only what is stored must be in the region */
		{IOVA + LENGTH - 8, 64, key_of(1), 9, NULL},
		{IOVA, 64, key_of(1), 65, NULL}, /* too short */
		{IOVA - 1, 64, key_of(1), 64, NULL},
		{UINT64_MAX, 64, key_of(1), 64, NULL},
		{IOVA, UINT32_MAX, key_of(1), UINT32_MAX, NULL},
		{IOVA, 64, key_of(2), 64, NULL},
		{0, 0, 0, 1, NULL}, /* of several pieces */
	};

	assert_int_equal(reach_self(&self, own), 0);
	region.address = (uintptr_t)at;
	share_open_region(own, REGION, key_of(1), &region);
	assert_null(deliver(self, &to, 64)); /* no QP */
	share_open_qp(own, QP, 0, PD, PAIR);
	assert_null(deliver(self, &to, 64)); /* no receive */
	for (int again = 0; again < 2 * SHARE_RECEIVES / (int)ARRAY_SIZE(rows); again++)
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			show_receive(own, rows[i].address, rows[i].length, rows[i].key);
			assert_null(deliver(self, &of_another, rows[i].bytes));
			if (deliver(self, &to, rows[i].bytes) != rows[i].at)
				fail_msg("row %zu", i);
			to.receives.next += !rows[i].at;
		}
	assert_null(deliver(self, &to, 1));

	/* nothing is stored, whatever the receive says */
	show_receive(own, 0, 0, 0);
	assert_non_null(deliver(self, &to, 0));

	/* another domain, a region that may not be written to, one that is closed, a QP that is closed */
	for (int i = 0; i < 4; i++) {
		show_receive(own, IOVA, 64, key_of(1));
		share_close_region(own, REGION);
		region.pd = PD + (i == 0);
		region.access = i == 1 ? 0 : LOCAL;
		if (i != 2)
			share_open_region(own, REGION, key_of(1), &region);
		if (i == 3)
			share_close_qp(own, QP);
		assert_null(deliver(self, &to, 64));
		to.receives.next++;
	}
	share_close_region(own, REGION);
	reach_close(self);
	share_destroy(own);
	munmap(at, LENGTH);
}

/* As engine/deliver.h does. */
static void note_carried(struct reach_pair *to)
{
	to->receives.next++;
	to->receives.carried = ++to->receives.psns;
	to->receives.unstored = true;
}

static void a_record_carries_what_is_not_mapped(void **state)
{
	enum { LOCAL = 1 };
	struct share_region region = {.access = LOCAL, .pd = PD, .iova = IOVA, .length = LENGTH};
	struct reach_pair to = pair;
	struct share *own = make_share(1);
	char *at = fresh(LENGTH);
	struct share_receive *ring;
	struct share_qp *qp;
	struct reach *self;
	static const struct {
		uint32_t key;
		uint64_t length, bytes;
		bool is_carried;
	} rows[] = {
		{1, LENGTH, REACH_CARRY_MOST, true},
		{1, LENGTH, REACH_CARRY_MOST + 1, false},
		{1, 64, 64, true},
		{1, 64, 65, false},
		{1, LENGTH + 1, LENGTH + 1, false},
		{2, 64, 64, false},
	};

	reach_maps_nothing = true;
	assert_int_equal(reach_self(&self, own), 0);
	region.address = (uintptr_t)at;
	share_open_region(own, REGION, key_of(1), &region);
	share_open_qp(own, QP, 0, PD, PAIR);
	qp = share_qp_entry(own, QP, &ring);
	assert_true(reach_has_stored(self, &to));
	for (int again = 0; again < 3; again++)
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			show_receive(own, IOVA, (uint32_t)rows[i].length, key_of((uint8_t)rows[i].key));
			assert_null(reach_deliver(self, &to, rows[i].bytes));
			if (reach_carry(self, &to, rows[i].bytes) != rows[i].is_carried)
				fail_msg("row %zu", i);
			if (rows[i].is_carried)
				reach_leave(self);
			note_carried(&to);
			assert_false(reach_has_stored(self, &to));
			atomic_store(&qp->stored, to.receives.psns);
			assert_true(reach_has_stored(self, &to));
		}

	/* a peer that has begun anew has stored nothing of what was delivered to it before */
	show_receive(own, IOVA, 64, key_of(1));
	assert_true(reach_carry(self, &to, 64));
	reach_leave(self);
	note_carried(&to);
	qp->life++;
	atomic_store(&qp->stored, to.receives.psns);
	assert_false(reach_has_stored(self, &to));
	reach_maps_nothing = false; /* what is mapped is carried no more */
	qp->life--;
	share_close_region(own, REGION);
	share_open_region(own, REGION, key_of(1), &region);
	show_receive(own, IOVA, 64, key_of(1));
	assert_false(reach_carry(self, &to, 64));
	assert_ptr_equal(deliver(self, &to, 64), at);
	share_close_region(own, REGION);
	reach_close(self);
	share_destroy(own);
	munmap(at, LENGTH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_goes_where_a_receive_is_shown),
		cmocka_unit_test(a_record_carries_what_is_not_mapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
