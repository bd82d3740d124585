/* SPDX-License-Identifier: BSD-2-Clause */
/* Parent domains and their allocators, imports, and regions without memory of their own. */
#include "verbs/fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KINDS = 5 };

/* An allocator that counts, and what it is to do. */
struct source {
	struct ibv_pd *pd; /* that it expects to be named */
	bool fails, leaves;
	int made[KINDS], freed[KINDS];
};

static void *give(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
	struct source *s = context;
	void *at = NULL;

	assert_ptr_equal(pd, s->pd);
	assert_in_range(type, 1, KINDS - 1);
	if (s->fails)
		return NULL;
	if (s->leaves)
		return IBV_ALLOCATOR_USE_DEFAULT;
	s->made[type]++;
	assert_int_equal(posix_memalign(&at, alignment, size), 0);
	memset(at, 0, size);
	return at;
}

static void take(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
	struct source *s = context;

	assert_ptr_equal(pd, s->pd);
	s->freed[type]++;
	free(at);
}

static struct ibv_pd *parent(struct ibv_pd *pd, struct ibv_td *td, struct source *s)
{
	struct ibv_parent_domain_init_attr a = {.pd = pd, .td = td};
	struct ibv_pd *p;

	if (s) {
		a.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
		a.alloc = give;
		a.free = take;
		a.pd_context = s;
	}
	p = ibv_alloc_parent_domain(context, &a);
	if (s)
		s->pd = p;
	return p;
}

static void what_is_asked_for_is_checked(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_td_init_attr ta = {0}, wrong = {1};
	struct ibv_td *td = ibv_alloc_td(context, &ta);
	struct ibv_parent_domain_init_attr none = {0}, odd = {.pd = pd, .comp_mask = 4},
					   half = {.pd = pd,
						   .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
						   .alloc = give};
	struct ibv_pd *p, *q;

	assert_non_null(td);
	assert_errno(ibv_alloc_td(context, &wrong), EOPNOTSUPP);
	assert_errno(ibv_alloc_parent_domain(context, &none), EINVAL);
	assert_errno(ibv_alloc_parent_domain(context, &odd), EOPNOTSUPP);
	assert_errno(ibv_alloc_parent_domain(context, &half), EINVAL);
	assert_non_null(p = parent(pd, td, NULL));
	assert_non_null(q = parent(p, NULL, NULL)); /* of a parent domain: "any function accepting a PD" */
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(p), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(q), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static struct ibv_cq *cq_in(struct ibv_pd *pd)
{
	struct ibv_cq_init_attr_ex a = {.cqe = 10, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = pd};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &a);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static struct ibv_srq *srq_in(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 4, .max_sge = 1}};

	return ibv_create_srq(pd, &a);
}

static void queues_get_their_memory_from_the_allocator(void **state)
{
	const struct ibv_qp_cap cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	struct source s = {0};
	struct ibv_pd *pd = ibv_alloc_pd(context), *p = parent(pd, NULL, &s);
	struct ibv_srq_attr more = {.max_wr = 100};
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	for (int i = 0; i < 2; i++) { /* the second time, the allocator leaves it to us */
		s.leaves = i;
		assert_non_null(cq = cq_in(p));
		assert_non_null(srq = srq_in(p));
		assert_non_null(qp = make_qp(p, cq, &cap));
		assert_int_equal(ibv_resize_cq(cq, 1000), 0);
		assert_int_equal(ibv_modify_srq(srq, &more, IBV_SRQ_MAX_WR), 0);
		assert_int_equal(ibv_dealloc_pd(p), EBUSY);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		assert_int_equal(ibv_dealloc_pd(p), EBUSY);
		assert_int_equal(ibv_destroy_srq(srq), 0);
		assert_int_equal(ibv_dealloc_pd(p), EBUSY);
		assert_int_equal(ibv_destroy_cq(cq), 0);
	}
	assert_int_equal(s.made[1], 1); /* send, receive, shared receive, completion: as uroce(7) says */
	assert_int_equal(s.made[2], 1);
	assert_int_equal(s.made[3], 2);
	assert_int_equal(s.made[4], 2);
	assert_memory_equal(s.made, s.freed, sizeof(s.made));
	assert_int_equal(ibv_dealloc_pd(p), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void an_allocator_may_have_nothing(void **state)
{
	const struct ibv_qp_cap cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	struct source s = {.fails = true};
	struct ibv_pd *pd = ibv_alloc_pd(context), *p = parent(pd, NULL, &s);
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);

	assert_errno(cq_in(p), ENOMEM);
	assert_errno(cq_in(pd), EINVAL); /* a parent domain is asked for */
	assert_errno(srq_in(p), ENOMEM);
	assert_errno(make_qp(p, cq, &cap), ENOMEM);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(p), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* A QP of the parent domain, memory of the PD, and the other way round. */
static void a_parent_domain_is_as_good_as_its_pd(void **state)
{
	const struct ibv_qp_cap cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	struct side *s = *state;
	struct ibv_pd *p = parent(s[1].pd, NULL, NULL);
	struct ibv_mr *mr = ibv_reg_mr(p, s[1].memory, MEMORY, ALL_ACCESS);
	struct ibv_qp *plain = s[1].qp, *qp = make_qp(p, s[1].cq, &cap);

	assert_ptr_equal(qp->pd, p);
	assert_ptr_equal(mr->pd, p);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp *peer = i ? plain : qp;
		struct ibv_sge sge = piece(&s[0], 0, 8);
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {(uintptr_t)s[1].memory, i ? mr->rkey : s[1].mr->rkey}};

		bring(s[0].qp, peer, IBV_QPS_RESET);
		bring(s[0].qp, peer, IBV_QPS_RTS);
		bring(peer, s[0].qp, IBV_QPS_RTS);
		assert_int_equal(side_send(&s[0], &wr), 0);
		assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(p), 0);
}

static void objects_can_be_imported(void **state)
{
	struct side *s = *state;
	struct ibv_context *stranger = ibv_open_device(context->device),
			   *other = ibv_import_device(dup(context->cmd_fd));
	struct ibv_mr *mr, *gone;
	struct ibv_pd *pd;

	assert_non_null(other);
	assert_ptr_equal(other->device, context->device);
	assert_errno(ibv_import_pd(stranger, s[0].pd->handle), ENOENT);
	assert_errno(ibv_import_pd(other, 12345678), ENOENT);
	assert_non_null(pd = ibv_import_pd(other, s[0].pd->handle));
	assert_ptr_equal(pd->context, other);
	assert_errno(ibv_import_mr(pd, 12345678), ENOENT);
	assert_non_null(mr = ibv_import_mr(pd, s[0].mr->handle));
	assert_int_equal(mr->lkey, s[0].mr->lkey);
	assert_int_equal(mr->rkey, s[0].mr->rkey);
	assert_int_equal(mr->length, s[0].mr->length);
	assert_null(mr->addr);
	ibv_unimport_mr(mr);
	gone = ibv_reg_mr(s[0].pd, s[0].memory, 8, 0);
	assert_non_null(mr = ibv_import_mr(pd, gone->handle));
	assert_int_equal(ibv_dereg_mr(mr), 0); /* either end may */
	assert_errno(ibv_import_mr(pd, gone->handle), ENOENT);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(other), 0);
	assert_int_equal(ibv_close_device(stranger), 0);
}

/* What was made with it may even outlive it. */
static void an_imported_pd_protects_as_its_own(void **state)
{
	const struct ibv_qp_cap cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
	struct side *s = *state;
	struct ibv_context *other = ibv_import_device(dup(context->cmd_fd));
	struct ibv_pd *pd = ibv_import_pd(other, s[1].pd->handle);
	struct ibv_cq *cq = ibv_create_cq(other, 10, NULL, NULL, 0);
	struct ibv_qp *qp = make_qp(pd, cq, &cap);

	bring(s[0].qp, qp, IBV_QPS_RTS);
	bring(qp, s[0].qp, IBV_QPS_RTS);
	strcpy(s[0].memory, "shared");
	assert_int_equal(side_write(&s[0], &s[1], 8), 0); /* by the key that the other context gave */
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_string_equal(s[1].memory, "shared");
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

static void not_every_descriptor_is_a_device(void **state)
{
	int file = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_errno(ibv_import_device(file), EINVAL);
	close(file);
	assert_errno(ibv_import_device(file), EBADF);
}

static void a_null_region_is_zeros_and_a_drain(void **state)
{
	struct side *s = *state;
	struct ibv_mr *none = ibv_alloc_null_mr(s[0].pd);
	struct ibv_sge list[2] = {piece(&s[0], 0, 8), {0xdead0000, 4000, none->lkey}};
	struct ibv_send_wr wr = {.sg_list = list,
				 .num_sge = 2,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)s[1].memory, s[1].mr->rkey}};

	assert_non_null(none);
	connect_sides(s);
	memset(s[0].memory, 'a', 16);
	memset(s[1].memory, 'b', 5000);
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(s[1].memory, s[0].memory, 8);
	for (int i = 8; i < 4008; i++)
		assert_int_equal(s[1].memory[i], 0);
	assert_int_equal(s[1].memory[4008], 'b');
	memset(s[1].memory, 'c', 5000);
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(s[0].memory, s[1].memory, 8);
	assert_int_equal(ibv_dereg_mr(none), 0);
	/* no peer may use it */
	none = ibv_alloc_null_mr(s[1].pd);
	wr.num_sge = 1;
	wr.wr.rdma.rkey = none->rkey;
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(none), 0);
}

/* Nothing here exports a dma-buf, so this is about all that is none. */
static void only_a_dma_buf_is_one(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	int file = memfd_create("no dma-buf", MFD_CLOEXEC);
	static const struct {
		uint64_t offset, iova;
		size_t length;
		int access;
	} rows[] = {
		{0, 0, 4096, 0},
		{0, 0, 0, 0},
		{1, 2, 8, 0}, /* not the same place in a page */
		{0, 0, 4096, 1 << 30},
		{0, 0, 4096, IBV_ACCESS_ON_DEMAND},
		{0, 0, 4096, IBV_ACCESS_REMOTE_WRITE},
		{UINT64_MAX - 4095, 0, 8192, 0},
	};

	assert_int_equal(ftruncate(file, 4096), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_errno(ibv_reg_dmabuf_mr(pd, rows[i].offset, rows[i].length, rows[i].iova, file, rows[i].access),
			     EINVAL);
	close(file);
	/* what NCCL asks without a descriptor, to know whether memory of GPUs can be registered: it cannot */
	assert_errno(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, file, 0), EOPNOTSUPP);
	assert_errno(ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0), EOPNOTSUPP);
	assert_errno(ibv_reg_dmabuf_mr(NULL, 0, 4096, 0, file, 0), EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

int main(void)
{
#define WITH_SIDES(name) cmocka_unit_test_setup_teardown(name, open_sides, close_sides)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_asked_for_is_checked),
		cmocka_unit_test(queues_get_their_memory_from_the_allocator),
		cmocka_unit_test(an_allocator_may_have_nothing),
		WITH_SIDES(a_parent_domain_is_as_good_as_its_pd),
		WITH_SIDES(objects_can_be_imported),
		WITH_SIDES(an_imported_pd_protects_as_its_own),
		cmocka_unit_test(not_every_descriptor_is_a_device),
		WITH_SIDES(a_null_region_is_zeros_and_a_drain),
		cmocka_unit_test(only_a_dma_buf_is_one),
	};

	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
