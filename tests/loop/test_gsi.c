// SPDX-License-Identifier: BSD-2-Clause
// QP 1: a MAD reaches the process that it is for, to whichever process of an address the kernel gives it.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "host/services.h"
#include "port/gsi.h"
#include "port/ports.h"
#include "progress/life.h"
#include "loop/netns.h"
#include "wire/cm_mad.h"

enum {
	TO = 0,	      /* in a MAD, two bytes: the slot that it is for, 0: who listens for SERVICE */
	NUMBER = 2,   /* ... and which one it is */
	MESSAGE = 16, /* ... which of connection management, and the service that it asks for: two bytes each */
	WANTED = 38,
	SERVICE = 4711,
	CHILDREN = 3,
	BURST = 64, /* more than the queue of an AF_UNIX socket takes, and less than a UDP socket's buffer */
};

static union ibv_gid here, elsewhere, sender; /* one of these two */
static int report = -1;			      /* in a child: where it tells of the MADs that it gets */

static uint16_t owner(const struct gsi_mad *mad)
{
	uint16_t slot;

	memcpy(&slot, mad->bytes + TO, sizeof(slot));
	return slot ?: gsi_owner(mad->to, SERVICE);
}

static void receive(const struct gsi_mad *mad)
{
	assert_memory_equal(mad->from, &sender, sizeof(sender));
	assert_memory_equal(mad->to, &here, sizeof(here));
	assert_int_equal(mad->src_qpn, GSI_QPN);
	assert_int_equal(mad->bytes[MAD_BYTES - 1], 99);
	if (report >= 0 && write(report, &mad->bytes[NUMBER], 1) != 1)
		_exit(1);
}

static const struct gsi_ops ops = {owner, receive};

static void nothing(void)
{
}

static const struct hca_ops hca_ops = {(void *)nothing, (void *)nothing, (void *)nothing};

static struct path join(void)
{
	struct path path = {.sgid = report < 0 ? sender : here, .dgid = here};

	gsi_serve(&ops);
	assert_non_null(loop_get(&hca_ops));
	assert_int_equal(loop_attach(&path), 0);
	return path;
}

struct child {
	pid_t pid;
	uint16_t slot;
	int from, to; /* pipes: its slot, then the numbers of MADs; a byte tells it to end */
};

static void live(int from, int to, bool listens)
{
	uint16_t slot;

	report = to;
	join();
	slot = gsi_slot();
	if (listens && gsi_claim(&here, SERVICE, GSI_LISTENS))
		_exit(1);
	if (write(to, &slot, sizeof(slot)) != sizeof(slot) || read(from, &slot, 1) != 1)
		_exit(1);
	_exit(0);
}

static struct child start(bool listens)
{
	int up[2], down[2];
	struct child c;

	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	assert_int_equal(pipe2(down, O_CLOEXEC), 0);
	c.pid = fork();
	if (c.pid == 0) {
		close(down[1]);
		live(down[0], up[1], listens);
	}
	close(up[1]);
	close(down[0]);
	c.from = up[0];
	c.to = down[1];
	assert_int_equal(read(c.from, &c.slot, sizeof(c.slot)), sizeof(c.slot));
	return c;
}

static void finish(struct child *c)
{
	int status;

	assert_int_equal(write(c->to, "", 1), 1);
	close(c->to);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	assert_int_equal(status, 0);
	close(c->from);
}

static void send_mad(const struct path *path, uint16_t to, uint8_t number)
{
	uint8_t mad[MAD_BYTES] = {[NUMBER] = number, [MAD_BYTES - 1] = 99};

	memcpy(mad + TO, &to, sizeof(to));
	assert_int_equal(gsi_send(path, GSI_QPN, mad, 0), 0);
}

static void expect_mad(const struct child *c, uint8_t number)
{
	uint8_t got;

	assert_int_equal(read(c->from, &got, 1), 1);
	assert_int_equal(got, number);
}

static void leave(struct path *path)
{
	struct hca *hca = loop_get(&hca_ops);

	loop_detach(path);
	loop_put(hca);
	loop_put(hca);
}

static void mads_reach_whom_they_are_for(void **state)
{
	struct child child[CHILDREN];
	struct path path;

	for (int i = 0; i < CHILDREN; i++)
		child[i] = start(i == 1);
	path = join();
	for (int n = 0; n < 60; n++) {
		send_mad(&path, child[n % CHILDREN].slot, n);
		expect_mad(&child[n % CHILDREN], n);
		send_mad(&path, 0, n); /* by its service */
		expect_mad(&child[1], n);
	}
	assert_int_equal(gsi_owner(&here, SERVICE), child[1].slot);
	assert_int_equal(gsi_claim(&here, SERVICE, GSI_BOUND), -EADDRINUSE);
	finish(&child[1]);
	assert_int_equal(gsi_owner(&here, SERVICE), 0); /* it was not given back, but he is gone */
	assert_int_equal(gsi_claim(&here, SERVICE, GSI_BOUND), 0);
	gsi_release(&here, SERVICE);
	finish(&child[0]);
	finish(&child[2]);
	leave(&path);
}

static void send_request(const struct path *path, uint8_t number)
{
	uint8_t mad[MAD_BYTES] = {
		[NUMBER] = number,    [MESSAGE + 1] = CM_REQ, [WANTED] = SERVICE >> 8, [WANTED + 1] = SERVICE & 255,
		[MAD_BYTES - 1] = 99,
	};

	assert_int_equal(gsi_send(path, GSI_QPN, mad, 0), 0);
}

/* Handed over by others, most would be lost while he does not look. */
static void many_requests_at_once_reach_who_listens(void **state)
{
	struct child child[CHILDREN];
	struct path path;

	sender = elsewhere; /* an address of its own: the children's programs are theirs alone */
	for (int i = 0; i < CHILDREN; i++)
		child[i] = start(i == 1);
	path = join();
	kill(child[1].pid, SIGSTOP);
	assert_int_equal(waitpid(child[1].pid, NULL, WUNTRACED), child[1].pid);
	for (int n = 0; n < BURST; n++)
		send_request(&path, n);
	kill(child[1].pid, SIGCONT);
	for (int n = 0; n < BURST; n++)
		expect_mad(&child[1], n);
	for (int i = 0; i < CHILDREN; i++)
		finish(&child[i]);
	leave(&path);
	sender = here;
}

/* The kernel gives its share to the one that is stopped: those are lost, but not for ever. */
static void a_stopped_process_does_not_swallow_all(void **state)
{
	struct child child[2] = {start(false), start(false)};
	struct path path = join();
	uint8_t got;

	kill(child[0].pid, SIGSTOP);
	assert_int_equal(waitpid(child[0].pid, NULL, WUNTRACED), child[0].pid);
	for (int n = 0; n < 64; n++)
		send_mad(&path, child[1].slot, n);
	/* one in three goes astray: that all of them do has a chance of 1 in 3^64 */
	assert_int_equal(read(child[1].from, &got, 1), 1);
	kill(child[0].pid, SIGCONT);
	finish(&child[0]);
	finish(&child[1]);
	leave(&path);
}

static void what_cannot_be_sent_is_told(void **state)
{
	struct path nowhere = {.sgid = here, .dgid = here};
	uint8_t mad[MAD_BYTES] = {0};

	assert_int_equal(gsi_slot(), 0);
	assert_int_equal(gsi_send(&nowhere, GSI_QPN, mad, 0), -EINVAL);
	assert_int_equal(gsi_claim(&here, SERVICE, GSI_BOUND), -ENODEV);
	assert_int_equal(gsi_owner(&here, SERVICE), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_be_sent_is_told),
		cmocka_unit_test(mads_reach_whom_they_are_for),
		cmocka_unit_test(many_requests_at_once_reach_who_listens),
		cmocka_unit_test(a_stopped_process_does_not_swallow_all),
	};

	netns_enter();
	inet_pton(AF_INET6, "::ffff:127.0.0.1", here.raw);
	inet_pton(AF_INET6, "::ffff:127.0.0.2", elsewhere.raw);
	sender = here;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
