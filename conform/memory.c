/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions, windows, and their keys. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conform.h"
#include "states.h"

#define PLACE	 65536u
#define LENGTH	 4096u
#define EVERY	 (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)
#define NO_RIGHT 0x40000000 /* a bit that means nothing */

/* A WRITE or a READ of 8 bytes at the far end. Returns its status. */
static enum ibv_wc_status reach(struct pair *p, enum ibv_wr_opcode opcode, uint64_t address, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = near->arena, .length = 8, .lkey = near->lkey};
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = address;
	wr.wr.rdma.rkey = rkey;
	expect_errno("ibv_post_send", post(&p->a, &wr), 0);
	return completion(near, p->a.scq).status;
}

static void expect_reach(const char *what, enum ibv_wc_status seen, enum ibv_wc_status expected)
{
	if (seen != expected)
		wrong("%s: %s", what, ibv_wc_status_str(seen));
}

/* Registers with these flags in this process; the error. */
static int registers(void *address, size_t length, int access)
{
	struct ibv_pd *pd = near->pd;
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(pd, address, length, access);
	if (mr) {
		ibv_dereg_mr(mr);
		return 0;
	}
	return errno ?: EIO;
}

static const struct {
	int access;
	bool is_refused;
	const char *name;
} rights[] = {
	{0, false, "none"},
	{IBV_ACCESS_LOCAL_WRITE, false, "local-write"},
	{IBV_ACCESS_REMOTE_READ, false, "remote-read"},
	{IBV_ACCESS_REMOTE_WRITE, true, "remote-write"},
	{IBV_ACCESS_REMOTE_ATOMIC, true, "remote-atomic"},
	{IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, false, "local-and-remote-write"},
	{IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, false, "all"},
	{IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_LOCAL_WRITE, false, "relaxed-ordering"},
	{NO_RIGHT | IBV_ACCESS_LOCAL_WRITE, true, "unknown"},
	{IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, true, "remote-write-and-read"},
};

static unsigned count_rights(void)
{
	return COUNT(rights);
}

static void right_rule(unsigned i, struct rule *r)
{
	snprintf(r->id, sizeof(r->id), "rights/reg/%s", rights[i].name);
	r->source = "ibv_reg_mr(3); Linux core: ib_check_mr_access()";
	snprintf(r->does, sizeof(r->does), "register memory with access 0x%x", (unsigned)rights[i].access);
	snprintf(r->expects, sizeof(r->expects), "%s", rights[i].is_refused ? "EINVAL" : "success");
}

static void check_right(unsigned i)
{
	static char page[8192];
	int error = registers(page, sizeof(page), rights[i].access);

	if (rights[i].is_refused && error == EOPNOTSUPP)
		unusual("EOPNOTSUPP");
	expect_errno("ibv_reg_mr", error, rights[i].is_refused ? EINVAL : 0);
}

struct group rights_group = {"rights", .counted = count_rights, .rule = right_rule, .check = check_right};

static void *map(int protection)
{
	void *m = mmap(NULL, 8192, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		wrong("mmap: %s", errno_name(errno));
	return m;
}

static void unmapped(void)
{
	char *m = map(PROT_READ | PROT_WRITE);

	munmap(m + 4096, 4096);
	expect_errno("ibv_reg_mr", registers(m, 8192, IBV_ACCESS_LOCAL_WRITE), EFAULT);
}

static void read_only(void)
{
	char *m = map(PROT_READ);

	expect_errno("ibv_reg_mr of read-only memory with LOCAL_WRITE", registers(m, 8192, IBV_ACCESS_LOCAL_WRITE),
		     EFAULT);
	expect_errno("ibv_reg_mr of read-only memory with REMOTE_READ", registers(m, 8192, IBV_ACCESS_REMOTE_READ), 0);
}

static void write_only(void)
{
	char *m = map(PROT_WRITE);

	expect_errno("ibv_reg_mr", registers(m, 8192, IBV_ACCESS_LOCAL_WRITE), 0);
}

static void inaccessible(void)
{
	int error = registers(map(PROT_NONE), 8192, IBV_ACCESS_REMOTE_READ);

	if (!error)
		unusual("it is registered, as by Linux before 6.2 (FOLL_FORCE)");
	expect_errno("ibv_reg_mr", error, EFAULT);
}

static void wraps(void)
{
	int error = registers((void *)(UINTPTR_MAX - 4095), 8192, IBV_ACCESS_LOCAL_WRITE);

	if (!error)
		wrong("a region that wraps around is registered");
	if (error != EINVAL && error != EFAULT && error != ENOMEM)
		wrong("%s", errno_name(error));
}

static void fields(void)
{
	static char page[8192];
	struct ibv_mr *mr = ibv_reg_mr(near->pd, page + 5, 4000, IBV_ACCESS_LOCAL_WRITE);

	if (!mr)
		wrong("ibv_reg_mr: %s", errno_name(errno));
	KEEP(near, mr, ibv_dereg_mr);
	expect("addr", mr->addr == page + 5, 1);
	expect("length", (long)mr->length, 4000);
	expect("pd", mr->pd == near->pd, 1);
	expect("context", mr->context == end_context(near), 1);
	if (mr->lkey == mr->rkey)
		unusual("lkey and rkey are equal");
}

static void overlap(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_mr *a, *b;
	uint32_t lkey, rkey[2];

	expect_errno("ibv_reg_mr", try_mr(far, PLACE, LENGTH, EVERY, &a, &lkey, &rkey[0]), 0);
	expect_errno("ibv_reg_mr", try_mr(far, PLACE + 100, LENGTH, EVERY, &b, &lkey, &rkey[1]), 0);
	expect_errno("ibv_dereg_mr", destroy(far, a), 0);
	expect_reach("by the other's key", reach(&p, IBV_WR_RDMA_WRITE, far->arena + PLACE + 100, rkey[1]),
		     IBV_WC_SUCCESS);
	expect_reach("by its own", reach(&p, IBV_WR_RDMA_WRITE, far->arena + PLACE, rkey[0]), IBV_WC_REM_ACCESS_ERR);
}

static void iova(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	static char page[4096];
	struct ibv_mr *mr = ibv_reg_mr_iova(near->pd, page, 4096, 0x7000, EVERY);
	struct ibv_sge sge = {.addr = 0x7010, .length = 8};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1};

	if (!mr)
		lacking("ibv_reg_mr_iova: %s", errno_name(errno));
	KEEP(near, mr, ibv_dereg_mr);
	memcpy(page + 16, "iova 7010", 8);
	sge.lkey = mr->lkey;
	wr.wr.rdma.remote_addr = far->arena + PLACE;
	wr.wr.rdma.rkey = far->rkey;
	expect_errno("ibv_post_send", post(&p.a, &wr), 0);
	expect_status(near, p.a.scq, 1, IBV_WC_SUCCESS);
	peek(far, PLACE, 8, page);
	if (memcmp(page, page + 16, 8) != 0)
		wrong("other bytes arrive");
}

static struct ibv_mr *rereg_region(uint32_t *rkey, int access)
{
	uint32_t lkey;
	struct ibv_mr *mr;

	expect_errno("ibv_reg_mr", try_mr(far, PLACE, LENGTH, access, &mr, &lkey, rkey), 0);
	return mr;
}

static void rereg(struct ibv_mr *mr, int flags, uint64_t offset, int access, uint32_t *rkey)
{
	int error = try_rereg(far, mr, flags, offset, LENGTH, access, rkey);

	if (error == EOPNOTSUPP || error == ENOSYS || (error == EINVAL && flags == IBV_REREG_MR_CHANGE_TRANSLATION))
		lacking("ibv_rereg_mr: %s", errno_name(error));
	expect_errno("ibv_rereg_mr", error, 0);
}

static void rereg_access(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	uint32_t rkey;
	struct ibv_mr *mr = rereg_region(&rkey, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);

	rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, 0, EVERY, &rkey);
	expect_reach("a WRITE, which is permitted now", reach(&p, IBV_WR_RDMA_WRITE, far->arena + PLACE, rkey),
		     IBV_WC_SUCCESS);
	rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, &rkey);
	expect_reach("a READ", reach(&p, IBV_WR_RDMA_READ, far->arena + PLACE, rkey), IBV_WC_SUCCESS);
	expect_reach("a WRITE, which is not any more", reach(&p, IBV_WR_RDMA_WRITE, far->arena + PLACE, rkey),
		     IBV_WC_REM_ACCESS_ERR);
}

static void rereg_translation(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	uint32_t rkey;
	struct ibv_mr *mr = rereg_region(&rkey, EVERY);

	rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, 4 * PLACE, EVERY, &rkey);
	expect_reach("the new place", reach(&p, IBV_WR_RDMA_WRITE, far->arena + 4 * PLACE, rkey), IBV_WC_SUCCESS);
	expect_reach("the old place", reach(&p, IBV_WR_RDMA_WRITE, far->arena + PLACE, rkey), IBV_WC_REM_ACCESS_ERR);
}

static void rereg_flags(void)
{
	uint32_t rkey;
	struct ibv_mr *mr = rereg_region(&rkey, EVERY);
	int error = try_rereg(far, mr, 0x70, PLACE, LENGTH, EVERY, &rkey);

	if (error == EOPNOTSUPP)
		unusual("EOPNOTSUPP");
	expect_errno("ibv_rereg_mr", error, EINVAL);
}

/* Windows. The far end binds them. */
struct window {
	struct pair p;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint32_t rkey;
};

static struct window make_window(enum ibv_mw_type type, int access)
{
	struct window w;
	uint32_t lkey, rkey;
	int error = try_mw(far, type, &w.mw, &w.rkey);

	if (error)
		lacking("windows of type %d: %s", type == IBV_MW_TYPE_1 ? 1 : 2, errno_name(error));
	w.p = make_pair(IBV_QPT_RC);
	expect_errno("ibv_reg_mr", try_mr(far, PLACE, LENGTH, access, &w.mr, &lkey, &rkey), 0);
	return w;
}

static int bind1(struct window *w, uint64_t offset, uint64_t length, int access)
{
	return bind_mw(&w->p.b, w->mw, w->mr, 9, offset, length, access, &w->rkey);
}

/* Binds a window of type 2 by a work request. Its new key is in `w`. */
static int bind2(struct window *w, uint64_t length, int access)
{
	struct ibv_send_wr wr = {.wr_id = 9, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};

	wr.bind_mw.mw = w->mw;
	wr.bind_mw.rkey = w->rkey = ibv_inc_rkey(w->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = w->mr, .addr = far->arena + PLACE, .length = length, .mw_access_flags = (unsigned)access};
	return post(&w->p.b, &wr);
}

static void mw_reach(void)
{
	struct window w = make_window(IBV_MW_TYPE_1, EVERY);

	expect_errno("ibv_bind_mw", bind1(&w, PLACE + 8, 16, IBV_ACCESS_REMOTE_WRITE), 0);
	expect("opcode", expect_status(far, w.p.b.scq, 9, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	expect_reach("inside", reach(&w.p, IBV_WR_RDMA_WRITE, far->arena + PLACE + 16, w.rkey), IBV_WC_SUCCESS);
	expect_reach("past its end", reach(&w.p, IBV_WR_RDMA_WRITE, far->arena + PLACE + 17, w.rkey),
		     IBV_WC_REM_ACCESS_ERR);
}

static void mw_right(void)
{
	struct window w = make_window(IBV_MW_TYPE_1, EVERY);

	expect_errno("ibv_bind_mw", bind1(&w, PLACE, 64, IBV_ACCESS_REMOTE_READ), 0);
	expect_status(far, w.p.b.scq, 9, IBV_WC_SUCCESS);
	expect_reach("a READ", reach(&w.p, IBV_WR_RDMA_READ, far->arena + PLACE, w.rkey), IBV_WC_SUCCESS);
	expect_reach("a WRITE", reach(&w.p, IBV_WR_RDMA_WRITE, far->arena + PLACE, w.rkey), IBV_WC_REM_ACCESS_ERR);
}

static void mw_again(void)
{
	struct window w = make_window(IBV_MW_TYPE_1, EVERY);
	uint32_t first;

	expect_errno("ibv_bind_mw", bind1(&w, PLACE, 64, IBV_ACCESS_REMOTE_WRITE), 0);
	expect_status(far, w.p.b.scq, 9, IBV_WC_SUCCESS);
	first = w.rkey;
	expect_errno("ibv_bind_mw", bind1(&w, PLACE, 64, IBV_ACCESS_REMOTE_WRITE), 0);
	expect_status(far, w.p.b.scq, 9, IBV_WC_SUCCESS);
	if (w.rkey == first)
		wrong("the R_Key is the same after another bind");
	expect_reach("by the new key", reach(&w.p, IBV_WR_RDMA_WRITE, far->arena + PLACE, w.rkey), IBV_WC_SUCCESS);
	expect_reach("by the old key", reach(&w.p, IBV_WR_RDMA_WRITE, far->arena + PLACE, first),
		     IBV_WC_REM_ACCESS_ERR);
}

static void mw_unbound(void)
{
	struct window w = make_window(IBV_MW_TYPE_1, EVERY);

	expect_errno("ibv_bind_mw", bind1(&w, PLACE, 64, IBV_ACCESS_REMOTE_WRITE), 0);
	expect_status(far, w.p.b.scq, 9, IBV_WC_SUCCESS);
	expect_errno("ibv_bind_mw", bind1(&w, PLACE, 0, 0), 0);
	expect_status(far, w.p.b.scq, 9, IBV_WC_SUCCESS);
	expect_reach("after it was unbound", reach(&w.p, IBV_WR_RDMA_WRITE, far->arena + PLACE, w.rkey),
		     IBV_WC_REM_ACCESS_ERR);
}

static void bind_is_refused(int region_access, uint64_t offset, uint64_t length, int access)
{
	struct window w = make_window(IBV_MW_TYPE_1, region_access);
	int error = bind1(&w, offset, length, access);

	if (error) {
		expect_errno("ibv_bind_mw", error, EINVAL);
		return;
	}
	expect_reach("the bind", completion(far, w.p.b.scq).status, IBV_WC_MW_BIND_ERR);
}

static void mw_no_bind(void)
{
	bind_is_refused(EVERY & ~IBV_ACCESS_MW_BIND, PLACE, 64, IBV_ACCESS_REMOTE_WRITE);
}

static void mw_past_region(void)
{
	bind_is_refused(EVERY, PLACE + LENGTH - 32, 64, IBV_ACCESS_REMOTE_WRITE);
}

static void mw_more_right(void)
{
	bind_is_refused(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND, PLACE, 64, IBV_ACCESS_REMOTE_WRITE);
}

static void mw2(struct window *w, int access)
{
	int error;

	*w = make_window(IBV_MW_TYPE_2, EVERY);
	error = bind2(w, 64, access);
	if (error)
		lacking("IBV_WR_BIND_MW: %s", errno_name(error));
	expect_status(far, w->p.b.scq, 9, IBV_WC_SUCCESS);
}

static void mw2_reach(void)
{
	struct window w;

	mw2(&w, IBV_ACCESS_REMOTE_WRITE);
	expect_reach("inside", reach(&w.p, IBV_WR_RDMA_WRITE, far->arena + PLACE + 56, w.rkey), IBV_WC_SUCCESS);
	expect_reach("past its end", reach(&w.p, IBV_WR_RDMA_WRITE, far->arena + PLACE + 57, w.rkey),
		     IBV_WC_REM_ACCESS_ERR);
}

static void mw2_local_invalidate(void)
{
	struct window w;
	struct ibv_send_wr wr = {.wr_id = 4, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
	int error;

	mw2(&w, IBV_ACCESS_REMOTE_WRITE);
	wr.invalidate_rkey = w.rkey;
	error = post(&w.p.b, &wr);
	if (error)
		lacking("IBV_WR_LOCAL_INV: %s", errno_name(error));
	expect("opcode", expect_status(far, w.p.b.scq, 4, IBV_WC_SUCCESS).opcode, IBV_WC_LOCAL_INV);
	expect_reach("after LOCAL_INV", reach(&w.p, IBV_WR_RDMA_WRITE, far->arena + PLACE, w.rkey),
		     IBV_WC_REM_ACCESS_ERR);
}

static void mw2_remote_invalidate(void)
{
	struct window w;
	struct ibv_send_wr wr = {.wr_id = 4, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_wc wc;
	int error;

	mw2(&w, IBV_ACCESS_REMOTE_WRITE);
	expect_errno("ibv_post_recv", post_receive(&w.p.b, 6, 0, 64), 0);
	wr.invalidate_rkey = w.rkey;
	error = post(&w.p.a, &wr);
	if (error)
		lacking("IBV_WR_SEND_WITH_INV: %s", errno_name(error));
	expect_status(near, w.p.a.scq, 4, IBV_WC_SUCCESS);
	wc = expect_status(far, w.p.b.rcq, 6, IBV_WC_SUCCESS);
	expect("IBV_WC_WITH_INV", (wc.wc_flags & IBV_WC_WITH_INV) != 0, 1);
	expect("invalidated_rkey", (long)wc.invalidated_rkey, (long)w.rkey);
	expect_reach("after SEND_WITH_INV", reach(&w.p, IBV_WR_RDMA_WRITE, far->arena + PLACE, w.rkey),
		     IBV_WC_REM_ACCESS_ERR);
}

static void invalidate_nothing(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_send_wr wr = {.wr_id = 4,
				 .opcode = IBV_WR_SEND_WITH_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = 0x12345600};
	enum ibv_wc_status status;
	int error;

	expect_errno("ibv_post_recv", post_receive(&p.b, 6, 0, 64), 0);
	error = post(&p.a, &wr);
	if (error)
		lacking("IBV_WR_SEND_WITH_INV: %s", errno_name(error));
	status = completion(near, p.a.scq).status;
	if (status != IBV_WC_REM_ACCESS_ERR && status != IBV_WC_REM_INV_REQ_ERR && status != IBV_WC_REM_OP_ERR &&
	    status != IBV_WC_RETRY_EXC_ERR)
		wrong("%s", ibv_wc_status_str(status));
	status = completion(far, p.b.rcq).status;
	if (status == IBV_WC_SUCCESS)
		wrong("the receive succeeds, though nothing is invalidated");
}

static void mw2_other_qp(void)
{
	struct window w;
	struct pair other = make_pair(IBV_QPT_RC);

	mw2(&w, IBV_ACCESS_REMOTE_WRITE);
	expect_reach("by another queue pair", reach(&other, IBV_WR_RDMA_WRITE, far->arena + PLACE, w.rkey),
		     IBV_WC_REM_ACCESS_ERR);
}

static void odp(void)
{
	struct pair p = make_pair(IBV_QPT_RC);
	struct ibv_device_attr_ex ex;
	uint32_t lkey, rkey;
	struct ibv_mr *mr;
	int error;

	if (ibv_query_device_ex(end_context(near), NULL, &ex) || !(ex.odp_caps.general_caps & IBV_ODP_SUPPORT))
		lacking("on-demand paging");
	error = try_mr(far, PLACE, LENGTH, EVERY | IBV_ACCESS_ON_DEMAND, &mr, &lkey, &rkey);
	if (error == EOPNOTSUPP || error == EINVAL)
		error = try_mr(far, PLACE, LENGTH, (EVERY & ~IBV_ACCESS_MW_BIND) | IBV_ACCESS_ON_DEMAND, &mr, &lkey,
			       &rkey);
	expect_errno("ibv_reg_mr", error, 0);
	if (ex.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_WRITE)
		expect_reach("a WRITE", reach(&p, IBV_WR_RDMA_WRITE, far->arena + PLACE, rkey), IBV_WC_SUCCESS);
	if (ex.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_READ)
		expect_reach("a READ", reach(&p, IBV_WR_RDMA_READ, far->arena + PLACE, rkey), IBV_WC_SUCCESS);
}

static void odp_lacking(void)
{
	static char page[4096];
	struct ibv_device_attr_ex ex;
	int error;

	if (!ibv_query_device_ex(end_context(near), NULL, &ex) && ex.odp_caps.general_caps & IBV_ODP_SUPPORT)
		lacking("a device without on-demand paging");
	error = registers(page, sizeof(page), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	if (!error)
		wrong("it is registered, though the device tells that it has no on-demand paging");
	if (error != EOPNOTSUPP && error != EINVAL)
		wrong("%s", errno_name(error));
}

static const struct row rows[] = {
	{"region/unmapped", "ibv_reg_mr(3); Linux core/umem.c: ib_umem_get()",
	 "register a page and one that is not mapped", "EFAULT", unmapped},
	{"region/read-only", "Linux core/umem.c: FOLL_WRITE if ib_access_writable()", "register read-only memory",
	 "EFAULT with LOCAL_WRITE, success without", read_only},
	{"region/write-only", "Linux core/umem.c: ib_umem_get()", "register memory of PROT_WRITE with LOCAL_WRITE",
	 "success", write_only},
	{"region/no-access", "Linux core/umem.c: ib_umem_get()", "register memory of PROT_NONE", "EFAULT",
	 inaccessible},
	{"region/wraps", "Linux core/umem.c: EINVAL if the address overflows", "register memory that wraps around",
	 "EINVAL", wraps},
	{"region/fields", "ibv_reg_mr(3): struct ibv_mr", "the fields of a region",
	 "as registered (lkey and rkey differ on most adapters)", fields},
	{"region/overlap", "IBTA 10.6.3", "two regions of the same memory, one is deregistered",
	 "the other's key is good", overlap},
	{"region/iova", "ibv_reg_mr_iova(3)", "a WRITE from a region with an address of its own", "its bytes", iova},
	{"rereg/access", "ibv_rereg_mr(3)", "change the access of a region, and back", "what is permitted changes",
	 rereg_access},
	{"rereg/translation", "ibv_rereg_mr(3)", "change the memory of a region", "the new place only",
	 rereg_translation},
	{"rereg/flags", "ibv_rereg_mr(3): EINVAL", "flags that there are not", "EINVAL", rereg_flags},
	{"window/reach", "IBTA 10.6.7.2; ibv_bind_mw(3)", "a WRITE in a window of type 1, and past its end",
	 "success, REM_ACCESS_ERR", mw_reach},
	{"window/right", "IBTA 10.6.7.2.2", "a READ and a WRITE by a window for READs", "success, REM_ACCESS_ERR",
	 mw_right},
	{"window/again", "IBTA 10.6.7.2.1", "bind a window of type 1 twice",
	 "a new R_Key each time; the old is invalid", mw_again},
	{"window/unbound", "ibv_bind_mw(3): length 0", "a WRITE by a window that was unbound", "REM_ACCESS_ERR",
	 mw_unbound},
	{"window/no-bind-right", "IBTA 10.6.7.2; ibv_bind_mw(3)", "bind to a region without MW_BIND",
	 "EINVAL or MW_BIND_ERR", mw_no_bind},
	{"window/past-region", "IBTA 10.6.7.2", "bind past the region's end", "EINVAL or MW_BIND_ERR", mw_past_region},
	{"window/more-right", "IBTA 10.6.7.2.2: local write", "a window for WRITEs of a region without LOCAL_WRITE",
	 "EINVAL or MW_BIND_ERR", mw_more_right},
	{"window2/reach", "IBTA 10.6.7.2; ibv_post_send(3)", "a WRITE in a window of type 2, and past its end",
	 "success, REM_ACCESS_ERR", mw2_reach},
	{"window2/local-inv", "IBTA 10.6.7.2.6", "LOCAL_INV of a window, then a WRITE by it", "success, REM_ACCESS_ERR",
	 mw2_local_invalidate},
	{"window2/send-with-inv", "IBTA 9.4.1.1, 10.6.7.2.6", "SEND_WITH_INV of a window, then a WRITE by it",
	 "WC_WITH_INV and its R_Key, REM_ACCESS_ERR", mw2_remote_invalidate},
	{"window2/invalidate-nothing", "IBTA 9.9.3.1: class J, no NAK", "SEND_WITH_INV of an R_Key that there is not",
	 "both fail; here RETRY_EXC_ERR, or a remote error", invalidate_nothing},
	{"window2/other-qp", "IBTA 10.6.7.2.5: type 2B", "a WRITE by a window of another queue pair", "REM_ACCESS_ERR",
	 mw2_other_qp},
	{"odp/reach", "ibv_reg_mr(3): IBV_ACCESS_ON_DEMAND; ibv_query_device_ex(3)",
	 "WRITE and READ of an on-demand region, as the attributes tell", "success", odp},
	{"odp/lacking", "ibv_reg_mr(3); Linux core: ib_check_mr_access()",
	 "register on demand where the attributes have none", "EOPNOTSUPP or EINVAL", odp_lacking},
	{0},
};

struct group memory_group = {"memory", .rows = rows};
