// SPDX-License-Identifier: BSD-2-Clause
/* Two queue pairs of this process that are connected to each other, by UDP or by the local link. For tests: any
 * failure ends the test. */
#ifndef TEST_LOOP_PAIR_H
#define TEST_LOOP_PAIR_H

#include "base/clock.h"
#include "loop/helper.h"
#include "loop/loop.h"
#include "port/gsi.h"
#include "port/local_link.h"
#include "port/ports.h"
#include "port/receive.h"
#include "port/run.h"
#include "progress/poll.h"
#include "progress/wait.h"

struct CMUnitTest;

extern const struct hca_ops pair_ops;
extern int pair_event; /* eventfd that an armed CQ writes to */

struct pair {
	struct hca *hca;
	struct pd pd;
	struct cq cq[2];
	struct qp *qp[2];
	struct mr *mr;
	char bytes[2][64];
};

union ibv_gid pair_gid(const char *ipv4);
void pair_open(struct pair *p);
void pair_close(struct pair *p);
void pair_post_receive(struct pair *p, int i);
void pair_post_send(struct pair *p, int i, const char *text);
void pair_post_write(struct pair *p, int i);
struct cqe pair_poll_for(struct pair *p, int i);
void pair_round_trip(struct pair *p);
/* Each test by UDP, then each by the local link (this process with itself). */
int pair_run_tests(const struct CMUnitTest *tests, size_t count);

#endif
