/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of later rdma-core than the headers that this is built with. */
#include "library/newer.h"

#include <string.h>
#include <unistd.h>

#include "verbs/fixture.h"

static void a_region_by_attributes_is_like_any_other(void **state)
{
	struct side *s = *state;
	struct mr_init_attr attr = {
		.length = MEMORY, .access = ALL_ACCESS, .comp_mask = MR_ATTR_ADDR, .addr = s[1].memory};
	struct ibv_mr *plain = reg_mr_ex(s[1].pd, &attr), *moved, *old = s[1].mr;
	struct ibv_sge from = piece(&s[0], 0, 5);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = &from, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};

	connect_sides(s);
	attr.comp_mask |= MR_ATTR_IOVA;
	attr.iova = 0x10000;
	moved = reg_mr_ex(s[1].pd, &attr);
	assert_non_null(plain);
	assert_non_null(moved);
	assert_ptr_equal(plain->addr, s[1].memory);
	assert_int_equal(plain->length, MEMORY);
	s[1].mr = plain;
	memcpy(s[0].memory, "plain", 5);
	assert_int_equal(side_write(&s[0], &s[1], 5), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(s[1].memory, "plain", 5);
	memcpy(s[0].memory, "moved", 5);
	wr.wr.rdma.remote_addr = 0x10000 + 100;
	wr.wr.rdma.rkey = moved->rkey;
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(s[1].memory + 100, "moved", 5);
	assert_int_equal(ibv_dereg_mr(plain), 0);
	assert_int_equal(ibv_dereg_mr(moved), 0);
	s[1].mr = old;
}

static void its_attributes_are_checked(void **state)
{
	struct side *s = *state;
	const struct {
		uint64_t mask;
		int error;
	} rows[] = {
		{0, EINVAL},
		{MR_ATTR_IOVA, EINVAL},
		{MR_ATTR_ADDR | MR_ATTR_FD, EINVAL},
		{MR_ATTR_ADDR | MR_ATTR_FD_OFFSET, EINVAL},
		{MR_ATTR_FD, EINVAL},
		{MR_ATTR_ADDR | MR_ATTR_BUF, EINVAL}, /* of NULL */
		{MR_ATTR_ADDR | MR_ATTR_DMAH, EOPNOTSUPP},
		{MR_ATTR_ADDR | MR_ATTR_BUF << 1, EINVAL},
		{MR_ATTR_FD | MR_ATTR_FD_OFFSET, EOPNOTSUPP},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_errno(reg_mr_ex(s[0].pd, &(struct mr_init_attr){.length = 4096,
								       .comp_mask = rows[i].mask,
								       .addr = s[0].memory,
								       .fd = -1}),
			     rows[i].error);
	assert_errno(
		reg_mr_ex(NULL, &(struct mr_init_attr){.length = 1, .comp_mask = MR_ATTR_ADDR, .addr = s[0].memory}),
		EINVAL);
	assert_errno(reg_mr_ex(s[0].pd, NULL), EINVAL);
	assert_errno(reg_mr_ex(s[0].pd, &(struct mr_init_attr){.length = 1,
							       .comp_mask = MR_ATTR_ADDR,
							       .addr = s[0].memory,
							       .access = IBV_ACCESS_REMOTE_WRITE}),
		     EINVAL);
}

static void buffers_are_registered_by_their_handle(void **state)
{
	const size_t size = 10000;
	struct side *s = *state;
	struct buf *buf = NULL;
	char *memory = alloc_buf(s[0].pd, size, &buf);
	struct ibv_mr *whole = reg_buf_mr(s[0].pd, buf, memory, size, ALL_ACCESS),
		      *part = reg_buf_mr(s[0].pd, buf, memory + 4096, 100, 0);

	assert_int_equal((uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
	assert_non_null(whole);
	assert_non_null(part);
	assert_ptr_equal(part->addr, memory + 4096);
	assert_errno(reg_buf_mr(s[0].pd, buf, memory, size + 1, 0), EINVAL);
	assert_errno(reg_buf_mr(s[0].pd, buf, memory - 1, 1, 0), EINVAL);
	assert_errno(reg_buf_mr(s[0].pd, buf, memory + 1, SIZE_MAX, 0), EINVAL);
	assert_errno(reg_buf_mr(s[1].pd, buf, memory, size, 0), EINVAL);
	errno = 0;
	assert_int_equal(export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, ENODATA);
	assert_errno(alloc_buf(s[0].pd, 0, &buf), EINVAL);
	assert_errno(alloc_buf(NULL, 1, &buf), EINVAL);
	assert_int_equal(ibv_dereg_mr(whole), 0);
	assert_int_equal(ibv_dereg_mr(part), 0);
	free_buf(buf);
}

static void a_port_has_a_speed(void **state)
{
	uint64_t speed = 0;

	assert_int_equal(query_port_speed(context, 1, &speed), 0);
	assert_int_equal(speed, 250); /* loopback does not say: 25 Gb/s */
	assert_int_equal(query_port_speed(context, 2, &speed), EINVAL);
	assert_int_equal(query_port_speed(context, 1, NULL), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_region_by_attributes_is_like_any_other, open_sides, close_sides),
		cmocka_unit_test_setup_teardown(its_attributes_are_checked, open_sides, close_sides),
		cmocka_unit_test_setup_teardown(buffers_are_registered_by_their_handle, open_sides, close_sides),
		cmocka_unit_test(a_port_has_a_speed),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
