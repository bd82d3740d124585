/* SPDX-License-Identifier: BSD-2-Clause */
/* What sysfs says of a port: packets, and what has gone wrong. */
#include "verbs/fixture.h"

#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

enum {
	LENGTH = 8000,
	PACKETS = 8, /* at path MTU 1024 */
};

static unsigned long long counter(const char *name)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1", ibv_get_device_name(context->device));
	assert_true(ibv_read_sysfs_file(path, name, text, sizeof(text)) > 0);
	return strtoull(text, NULL, 10);
}

static int open_connected(void **state)
{
	struct side *s;

	if (open_sides(state))
		return -1;
	s = *state;
	bring(s[0].qp, s[1].qp, IBV_QPS_RTS);
	bring(s[1].qp, s[0].qp, IBV_QPS_RTS);
	return 0;
}

static void a_port_counts_its_packets(void **state)
{
	static const char *const sent[] = {"counters/port_xmit_packets", "counters/port_rcv_packets",
					   "hw_counters/sent_pkts", "hw_counters/rcvd_pkts"};
	unsigned long long before[ARRAY_SIZE(sent)], data = counter("counters/port_xmit_data"),
						     received = counter("counters/port_rcv_data");
	struct side *s = *state;

	for (size_t i = 0; i < ARRAY_SIZE(sent); i++)
		before[i] = counter(sent[i]);
	assert_int_equal(side_write(&s[0], &s[1], LENGTH), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS);
	/* both ends are here: the packets and, at least, an ACK; on a slow machine, some again */
	for (size_t i = 0; i < ARRAY_SIZE(sent); i++)
		assert_in_range(counter(sent[i]) - before[i], PACKETS + 1, 3 * PACKETS);
	assert_in_range(counter("counters/port_xmit_data") - data, LENGTH / 4, 3 * LENGTH / 4);
	assert_in_range(counter("counters/port_rcv_data") - received, LENGTH / 4, 3 * LENGTH / 4);
}

static void what_was_counted_stays_when_a_port_is_closed(void **state)
{
	unsigned long long before, after;
	void *sides;

	assert_int_equal(open_connected(&sides), 0);
	a_port_counts_its_packets(&sides);
	before = counter("counters/port_xmit_packets");
	assert_int_equal(close_sides(&sides), 0);
	assert_int_equal(close_context(NULL), 0);
	assert_int_equal(open_context(NULL), 0);
	after = counter("counters/port_xmit_packets");
	assert_true(before > PACKETS && after >= before);
}

static void a_message_without_a_receive_is_counted(void **state)
{
	unsigned long long none = counter("hw_counters/out_of_buffer"), naks = counter("hw_counters/rnr_nak_retry_err"),
			   spent = counter("hw_counters/retry_rnr_exceeded_err");
	struct side *s = *state;
	struct ibv_sge sge = piece(&s[0], 0, 100);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_qp_attr a;

	bring(s[0].qp, s[1].qp, IBV_QPS_RESET);
	bring(s[0].qp, s[1].qp, IBV_QPS_RTR);
	a = attributes(IBV_QPS_RTS, s[1].qp);
	a.sq_psn = s[0].qp->qp_num & 0xfff;
	a.rnr_retry = 1;
	assert_int_equal(ibv_modify_qp(s[0].qp, &a, RTS_MASK), 0);
	assert_int_equal(side_send(&s[0], &wr), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
	/* on a slow machine a probe asks once more */
	assert_in_range(counter("hw_counters/out_of_buffer") - none, 2, 8);
	assert_int_equal(counter("hw_counters/rnr_nak_retry_err") - naks, 2);
	assert_int_equal(counter("hw_counters/retry_rnr_exceeded_err") - spent, 1);
}

static void a_peer_that_does_not_answer_is_counted(void **state)
{
	unsigned long long late = counter("hw_counters/local_ack_timeout_err"),
			   spent = counter("hw_counters/retry_exceeded_err");
	struct side *s = *state;

	bring(s[1].qp, s[0].qp, IBV_QPS_RESET);
	assert_int_equal(side_write(&s[0], &s[1], LENGTH), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(counter("hw_counters/local_ack_timeout_err") - late, 8); /* the retries, and the last */
	assert_int_equal(counter("hw_counters/retry_exceeded_err") - spent, 1);
}

/* The peer expects what comes after; then what has been acknowledged long ago. */
static void requests_out_of_their_order_are_counted(void **state)
{
	unsigned long long gaps = counter("hw_counters/out_of_sequence"),
			   again = counter("hw_counters/duplicate_request");
	struct side *s = *state;
	struct ibv_qp_attr a;

	bring(s[1].qp, s[0].qp, IBV_QPS_RESET);
	bring(s[1].qp, s[0].qp, IBV_QPS_INIT);
	a = attributes(IBV_QPS_RTR, s[0].qp);
	a.rq_psn = (s[0].qp->qp_num + 1) & 0xfff;
	assert_int_equal(ibv_modify_qp(s[1].qp, &a, RTR_MASK), 0);
	assert_int_equal(side_write(&s[0], &s[1], 100), 0);
	assert_int_equal(next(s[0].cq).status, IBV_WC_SUCCESS); /* as of something that has come before */
	assert_true(counter("hw_counters/duplicate_request") > again);

	bring(s[1].qp, s[0].qp, IBV_QPS_RESET);
	bring(s[1].qp, s[0].qp, IBV_QPS_INIT);
	a.rq_psn = s[0].qp->qp_num & 0xfff;
	assert_int_equal(ibv_modify_qp(s[1].qp, &a, RTR_MASK), 0);
	assert_int_equal(side_write(&s[0], &s[1], 100), 0);
	assert_int_not_equal(next(s[0].cq).status, IBV_WC_SUCCESS); /* it is asked for what it has forgotten */
	assert_true(counter("hw_counters/out_of_sequence") > gaps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_port_counts_its_packets, open_connected, close_sides),
		cmocka_unit_test(what_was_counted_stays_when_a_port_is_closed),
		cmocka_unit_test_setup_teardown(a_message_without_a_receive_is_counted, open_connected, close_sides),
		cmocka_unit_test_setup_teardown(a_peer_that_does_not_answer_is_counted, open_connected, close_sides),
		cmocka_unit_test_setup_teardown(requests_out_of_their_order_are_counted, open_connected, close_sides),
	};

	setenv("UROCE_LOCAL", "off", 1); /* what goes through shared memory is no packet of the port's */
	enter_namespace();
	return cmocka_run_group_tests(tests, open_context, close_context);
}
