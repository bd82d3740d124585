// SPDX-License-Identifier: BSD-2-Clause
/* threads: some threads post to one queue pair and poll one completion queue, all at the same time, while
 * another makes and destroys queue pairs and regions of the same device. Every request completes once. */
#include <pthread.h>
#include <stdatomic.h>

#include "rc.h"

enum { THREADS = 4, EACH = 5000, DEPTH = 32, SIZE = 4096 };

static struct rc a, b;
static atomic_int tickets = DEPTH, completed;
static atomic_uchar times[THREADS * EACH];

static void *poster(void *arg)
{
	int first = (int)(intptr_t)arg * EACH, posted = 0;
	struct ibv_sge piece = rc_piece(&a, 0, 1000);
	struct ibv_send_wr *bad;
	struct ibv_wc wc[8];
	int n;

	while (atomic_load(&completed) < THREADS * EACH) {
		if (posted < EACH && atomic_fetch_sub(&tickets, 1) > 0) {
			struct ibv_send_wr wr = {.wr_id = first + posted++,
						 .opcode = IBV_WR_RDMA_WRITE,
						 .sg_list = &piece,
						 .num_sge = 1,
						 .wr.rdma = {b.me.address, b.me.rkey}};
			ZERO(ibv_post_send(a.qp, &wr, &bad));
		} else if (posted < EACH) {
			atomic_fetch_add(&tickets, 1);
		}
		MUST((n = ibv_poll_cq(a.cq, 8, wc)) >= 0);
		for (int i = 0; i < n; i++) {
			rc_expect(wc[i], IBV_WC_RDMA_WRITE);
			atomic_fetch_add(&times[wc[i].wr_id], 1);
		}
		atomic_fetch_add(&tickets, n);
		atomic_fetch_add(&completed, n);
	}
	return NULL;
}

static void *maker(void *arg)
{
	struct rc c, d;

	(void)arg;
	while (atomic_load(&completed) < THREADS * EACH) {
		rc_open(&c, &a, 0, SIZE);
		rc_open(&d, &a, 0, SIZE);
		rc_connect_pair(&c, &d);
		rc_post(&c, IBV_WR_RDMA_WRITE, 0, 0, SIZE);
		rc_expect(rc_poll(&c), IBV_WC_RDMA_WRITE);
		rc_post(&c, IBV_WR_RDMA_WRITE, 0, 0, SIZE); /* and destroys it while this is on its way */
		rc_close(&c);
		rc_close(&d);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS + 1];

	rc_open(&a, NULL, 0, SIZE);
	rc_open(&b, &a, 0, SIZE);
	rc_connect_pair(&a, &b);
	for (intptr_t i = 0; i <= THREADS; i++)
		ZERO(pthread_create(&thread[i], NULL, i < THREADS ? poster : maker, (void *)i));
	for (int i = 0; i <= THREADS; i++)
		ZERO(pthread_join(thread[i], NULL));
	for (int i = 0; i < THREADS * EACH; i++)
		MUST(times[i] == 1);
	rc_close(&b);
	rc_close(&a);
	printf("%d requests completed once\n", THREADS * EACH);
	return 0;
}
