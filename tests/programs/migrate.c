// SPDX-License-Identifier: BSD-2-Clause
/* migrate PORT [HOST]: a connection with an alternate path. The client's end of the primary path goes dead while the
 * two talk; the connection goes on by the alternate one, both ends are told, nothing is lost. Then the alternate path
 * is the old one, and the server goes back to it because it wants to. GID indices 0 and 1 are the two paths. */
#include "rc.h"

#include "../../include/uroce.h"

#define LENGTH 20000u /* of a message: several packets */

struct both {
	struct rc rc;
	union ibv_gid here[2], there[2];
	uint32_t sent, received;
	bool is_client;
};

static struct ibv_qp_attr look(struct rc *rc)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	ZERO(ibv_query_qp(rc->qp, &a, IBV_QP_PATH_MIG_STATE | IBV_QP_AV | IBV_QP_ALT_PATH, &init));
	return a;
}

/* The program asks for it; `index` is that of the alternate path, -1: it stays as it is. */
static void migrate(struct both *b, enum ibv_mig_state state, int index)
{
	struct ibv_qp_attr a = {
		.path_mig_state = state,
		.alt_port_num = 1,
		.alt_timeout = 14,
		.alt_ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = index == 1, .hop_limit = 64}},
	};

	a.alt_ah_attr.grh.dgid = b->there[index == 1];
	ZERO(ibv_modify_qp(b->rc.qp, &a, IBV_QP_PATH_MIG_STATE | (index < 0 ? 0 : IBV_QP_ALT_PATH)));
}

static void fill(uint8_t *at, uint32_t n)
{
	for (uint32_t i = 0; i < LENGTH; i++)
		at[i] = (uint8_t)(n * 7 + i);
}

/* A message each way. Those of this end stand at 0, those that it gets at LENGTH. */
static void talk(struct both *b)
{
	struct rc *rc = &b->rc;
	static uint8_t wanted[LENGTH];

	rc_post_receive(rc, LENGTH, LENGTH);
	MUST(rc_barrier(rc));
	fill(rc->memory, b->sent++);
	rc_post(rc, IBV_WR_SEND, 0, 0, LENGTH);
	for (int i = 0; i < 2; i++)
		ZERO(rc_poll(rc).status);
	fill(wanted, b->received++);
	MUST(!memcmp(rc->memory + LENGTH, wanted, LENGTH));
}

/* A WRITE and a READ to where the peer has nothing else. */
static void access_peer(struct both *b)
{
	struct rc *rc = &b->rc;
	size_t from = 2 * LENGTH, to = 3 * LENGTH + (b->is_client ? LENGTH : 0);

	fill(rc->memory + from, b->sent);
	rc_post(rc, IBV_WR_RDMA_WRITE, from, to, LENGTH);
	rc_expect(rc_poll(rc), IBV_WC_RDMA_WRITE);
	memset(rc->memory, 0, LENGTH);
	rc_post(rc, IBV_WR_RDMA_READ, 0, to, LENGTH);
	rc_expect(rc_poll(rc), IBV_WC_RDMA_READ);
	MUST(!memcmp(rc->memory, rc->memory + from, LENGTH));
}

static void arm(struct both *b, int index)
{
	MUST(rc_barrier(&b->rc));
	migrate(b, IBV_MIG_REARM, index);
	MUST(rc_barrier(&b->rc)); /* the peer's packets say that it has an alternate path as well */
	talk(b);
	talk(b);
	MUST(look(&b->rc).path_mig_state == IBV_MIG_ARMED);
}

static void expect_event(struct both *b, enum ibv_event_type type)
{
	struct ibv_async_event e;

	do {
		MUST(!ibv_get_async_event(b->rc.context, &e));
		ibv_ack_async_event(&e);
	} while (e.event_type == IBV_EVENT_COMM_EST);
	MUST(e.event_type == type && e.element.qp == b->rc.qp);
}

static void expect_path(struct both *b, int index)
{
	struct ibv_qp_attr a = look(&b->rc);

	MUST(a.path_mig_state == IBV_MIG_MIGRATED);
	MUST(!memcmp(&a.ah_attr.grh.dgid, &b->there[index], sizeof(a.ah_attr.grh.dgid)));
	MUST(a.ah_attr.grh.sgid_index == index);
	MUST(!memcmp(&a.alt_ah_attr.grh.dgid, &b->there[!index], sizeof(a.ah_attr.grh.dgid)));
}

/* Of the client: nothing passes by the primary path from now on. */
static void partition(struct both *b)
{
	char text[INET6_ADDRSTRLEN], rule[100], why[UROCE_WHY];

	MUST(inet_ntop(AF_INET, b->there[0].raw + 12, text, sizeof(text)));
	snprintf(rule, sizeof(rule), "packet peer %s: partition", text);
	if (uroce_fault_add(rule, why, sizeof(why)) > 0)
		return;
	fprintf(stderr, "%s\n", why);
	exit(1);
}

static void meet(struct both *b, const char *host, const char *port)
{
	struct rc *rc = &b->rc;

	rc_open(rc, NULL, 0, 8 * LENGTH);
	for (int i = 0; i < 2; i++)
		ZERO(ibv_query_gid(rc->context, 1, i, &b->here[i]));
	rc_meet(rc, host, port);
	MUST(send(rc->tcp, b->here, sizeof(b->here), 0) == sizeof(b->here));
	MUST(recv(rc->tcp, b->there, sizeof(b->there), MSG_WAITALL) == sizeof(b->there));
}

int main(int argc, char **argv)
{
	struct both b = {.is_client = argc > 2};

	MUST(argc > 1);
	meet(&b, argc > 2 ? argv[2] : NULL, argv[1]);
	talk(&b);
	arm(&b, 1);
	access_peer(&b);

	MUST(rc_barrier(&b.rc));
	if (b.is_client)
		partition(&b);
	MUST(rc_barrier(&b.rc));
	talk(&b);
	expect_event(&b, IBV_EVENT_PATH_MIG);
	expect_path(&b, 1);
	access_peer(&b);
	printf("migrated\n");

	MUST(rc_barrier(&b.rc));
	if (b.is_client)
		uroce_fault_clear();
	arm(&b, -1); /* the two have changed places */
	MUST(rc_barrier(&b.rc));
	if (!b.is_client)
		migrate(&b, IBV_MIG_MIGRATED, -1);
	MUST(rc_barrier(&b.rc));
	talk(&b);
	if (b.is_client)
		expect_event(&b, IBV_EVENT_PATH_MIG);
	expect_path(&b, 0);
	access_peer(&b);
	MUST(rc_barrier(&b.rc));
	printf("and back\n");
	return 0;
}
