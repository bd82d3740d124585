/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that is killed, in whatever state its connection is, or that runs another program: its peer on this host
 * gets to know, at once. */
#include "cm/id.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "loop/netns.h"

enum {
	CLIENTS = 24,
};

/* Until when a client goes, before it waits to be killed. */
enum until {
	ASKED,	  /* its REQ has been sent */
	ANSWERED, /* it has been told of the REP, and does not answer */
	CONNECTED,
	GONE,	/* as it is told to go on: it connects and is dead */
	SERVES, /* it is no client: it accepts one, and writes which events come then */
	HOLDS,	/* it is a server that does not answer */
	HOPES,	/* it writes which event answers its REQ */
};

struct order {
	struct sockaddr_in from, to;
	enum until until;
};

static struct rdma_event_channel *channel;

static struct rdma_cm_event *next(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	assert_int_equal(rdma_get_cm_event(channel, &e), 0);
	if (e->event != type)
		fail_msg("%s (%d) instead of %s", rdma_event_str(e->event), e->status, rdma_event_str(type));
	return e;
}

static struct rdma_cm_id *expect(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *e = next(type);
	struct rdma_cm_id *id = e->id;

	assert_int_equal(e->status, status);
	rdma_ack_cm_event(e);
	return id;
}

/* ---- in the child: no QP, so that the application itself answers ---- */

static void wait_for(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	if (rdma_get_cm_event(channel, &e) || e->event != type)
		_exit(1);
	rdma_ack_cm_event(e);
}

static void serve(const struct sockaddr_in *at, int events, bool answers)
{
	struct sockaddr_in address = *at;
	struct rdma_conn_param p = {.qp_num = 18};
	struct rdma_cm_id *listener;
	struct rdma_cm_event *e;

	channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&address) || rdma_listen(listener, 1))
		_exit(1);
	address.sin_port = rdma_get_src_port(listener);
	if (write(events, &address, sizeof(address)) != sizeof(address) || rdma_get_cm_event(channel, &e) ||
	    (answers && rdma_accept(e->id, &p)) || (!answers && write(events, "", 1) != 1) || rdma_ack_cm_event(e))
		_exit(1);
	while (!rdma_get_cm_event(channel, &e) && write(events, &e->event, sizeof(e->event)) > 0)
		rdma_ack_cm_event(e);
	_exit(1);
}

static void live(const struct order *o, int ready, int order)
{
	struct rdma_conn_param p = {.qp_num = 17, .retry_count = 7};
	struct rdma_cm_id *id;
	sigset_t set;
	int got;

	channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, (struct sockaddr *)&o->from, (struct sockaddr *)&o->to, 60000))
		_exit(1);
	wait_for(RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, 60000))
		_exit(1);
	wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (rdma_connect(id, &p))
		_exit(1);
	if (o->until == HOPES) {
		struct rdma_cm_event *e;

		if (write(ready, "", 1) != 1 || rdma_get_cm_event(channel, &e) ||
		    write(ready, &(int[]){(int)e->event, e->status}, 2 * sizeof(int)) < 0)
			_exit(1);
		pause();
	}
	if (o->until > ASKED)
		wait_for(RDMA_CM_EVENT_CONNECT_RESPONSE);
	if (o->until == CONNECTED && rdma_establish(id))
		_exit(1);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (write(ready, "", 1) != 1)
		_exit(1);
	if (o->until == GONE) {
		char byte;

		if (read(order, &byte, 1) == 1 && !rdma_establish(id))
			kill(getpid(), SIGKILL);
		_exit(1);
	}
	sigwait(&set, &got);
	execlp("sleep", "sleep", "1000", NULL);
	_exit(1);
}

/* ---- in the parent ---- */

struct client {
	pid_t pid;
	int ready, order;
};

/* Made before there are threads: a sanitizer may not survive fork() later. */
static struct client clients[CLIENTS];
static int used;

static void make_clients(void)
{
	for (int i = 0; i < CLIENTS; i++) {
		int up[2], down[2];
		struct order o;

		if (pipe2(up, O_CLOEXEC) || pipe2(down, O_CLOEXEC))
			exit(1);
		clients[i].pid = fork();
		if (clients[i].pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(up[0]);
			close(down[1]);
			for (int j = 0; j < i; j++)
				close(clients[j].order);
			if (read(down[0], &o, sizeof(o)) != sizeof(o))
				_exit(0);
			if (o.until == SERVES || o.until == HOLDS)
				serve(&o.to, up[1], o.until == SERVES);
			live(&o, up[1], down[0]);
		}
		close(up[1]);
		close(down[0]);
		clients[i].ready = up[0];
		clients[i].order = down[1];
	}
}

static struct client start(const struct sockaddr_in *to, enum until until, uint32_t source)
{
	struct order o = {.from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(source)}, .to = *to, .until = until};
	struct client c;
	char byte;

	assert_true(used < CLIENTS);
	c = clients[used++];
	assert_int_equal(write(c.order, &o, sizeof(o)), sizeof(o));
	if (until == ASKED)
		assert_int_equal(read(c.ready, &byte, 1), 1);
	return c;
}

static void await(struct client *c)
{
	char byte;

	assert_int_equal(read(c->ready, &byte, 1), 1);
}

static void stop(struct client *c, int signal)
{
	kill(c->pid, signal);
	if (signal == SIGSTOP)
		waitpid(c->pid, NULL, WUNTRACED);
	else
		waitpid(c->pid, NULL, 0);
	if (signal == SIGKILL)
		close(c->ready);
}

struct server {
	struct rdma_cm_id *listener;
	struct sockaddr_in address;
};

static struct server listen_here(void)
{
	struct server s = {.address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};

	assert_non_null(channel = rdma_create_event_channel());
	assert_int_equal(rdma_create_id(channel, &s.listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(s.listener, (struct sockaddr *)&s.address), 0);
	s.address.sin_port = rdma_get_src_port(s.listener);
	assert_int_equal(rdma_listen(s.listener, 10), 0);
	return s;
}

static void finish(struct server *s, struct rdma_cm_id *id)
{
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(s->listener), 0);
	rdma_destroy_event_channel(channel);
}

static void accept_it(struct rdma_cm_id *id)
{
	struct rdma_conn_param p = {.qp_num = 18};

	assert_int_equal(rdma_accept(id, &p), 0);
}

/* A client has gone so far, and this end with it. */
static struct rdma_cm_id *admit_from(struct server *s, struct client *c, enum until until, uint32_t source)
{
	struct rdma_cm_id *id;

	*c = start(&s->address, until, source);
	id = expect(RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (until > ASKED)
		accept_it(id);
	if (until > ANSWERED)
		expect(RDMA_CM_EVENT_ESTABLISHED, 0);
	if (until > ASKED)
		await(c);
	return id;
}

static struct rdma_cm_id *admit(struct server *s, struct client *c, enum until until)
{
	return admit_from(s, c, until, INADDR_LOOPBACK);
}

static void await_end(struct rdma_cm_id *id)
{
	enum connection_state state;

	do {
		lock_take(&cm.lock);
		state = id_of(id)->connection->state;
		lock_drop(&cm.lock);
		sched_yield();
	} while (state == CM_REQ_RECEIVED);
}

static void killed_after_its_request(void **state)
{
	struct rdma_conn_param p = {.qp_num = 18};
	struct server s = listen_here();
	struct client c;
	struct rdma_cm_id *id = admit(&s, &c, ASKED);

	stop(&c, SIGKILL);
	await_end(id);
	assert_int_equal(rdma_accept(id, &p), -1); /* which is how the application learns of it */
	finish(&s, id);
}

static void killed_with_our_reply(void **state)
{
	struct server s = listen_here();
	struct client c;
	struct rdma_cm_id *id = admit(&s, &c, ANSWERED);

	stop(&c, SIGKILL);
	assert_ptr_equal(expect(RDMA_CM_EVENT_REJECTED, 28), id); /* as in Linux: core/cm.c, cm_destroy_id() */
	finish(&s, id);
}

static void killed_when_connected(void **state)
{
	struct server s = listen_here();
	struct client c;
	struct rdma_cm_id *id = admit(&s, &c, CONNECTED);

	stop(&c, SIGKILL);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED, 0), id);
	expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	finish(&s, id);
}

static void killed_at_another_address(void **state)
{
	struct server s = listen_here();
	struct client c;
	struct rdma_cm_id *id = admit_from(&s, &c, CONNECTED, INADDR_LOOPBACK + 1);

	stop(&c, SIGKILL);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED, 0), id);
	finish(&s, id);
}

static void another_program_in_its_place(void **state)
{
	struct server s = listen_here();

	for (uint32_t i = 0; i < 2; i++) {
		struct client c;
		struct rdma_cm_id *id = admit_from(&s, &c, CONNECTED, INADDR_LOOPBACK + i);

		kill(c.pid, SIGUSR1);
		assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED, 0), id);
		assert_int_equal(rdma_destroy_id(id), 0);
		stop(&c, SIGKILL);
	}
	assert_int_equal(rdma_destroy_id(s.listener), 0);
	rdma_destroy_event_channel(channel);
}

static void killed_instead_of_parting(void **state)
{
	struct server s = listen_here();
	struct client c;
	struct rdma_cm_id *id = admit(&s, &c, CONNECTED);

	stop(&c, SIGSTOP);
	assert_int_equal(rdma_disconnect(id), 0);
	stop(&c, SIGKILL);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED, 0), id);
	finish(&s, id);
}

/* The next one at the same port, and the next: nothing of the dead is in the way. */
static void listeners_outlive_their_clients(void **state)
{
	struct server s = listen_here();

	for (int i = 0; i < 5; i++) {
		struct client c;
		struct rdma_cm_id *id = admit(&s, &c, CONNECTED);

		stop(&c, SIGKILL);
		assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED, 0), id);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	assert_int_equal(rdma_destroy_id(s.listener), 0);
	rdma_destroy_event_channel(channel);
}

/* What it has sent comes before the end, by either link (between two addresses UDP), also if both are seen at once: by
 * a server that has been stopped meanwhile. */
static void killed_as_it_connected(void **state)
{
	for (int by_udp = 0; by_udp < 2; by_udp++) {
		struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		struct client server = start(&to, SERVES, INADDR_LOOPBACK), client;
		enum rdma_cm_event_type event[2];

		assert_int_equal(read(server.ready, &to, sizeof(to)), sizeof(to));
		client = start(&to, GONE, INADDR_LOOPBACK + by_udp);
		await(&client);
		stop(&server, SIGSTOP);
		assert_int_equal(write(client.order, "", 1), 1);
		waitpid(client.pid, NULL, 0);
		kill(server.pid, SIGCONT);
		for (int i = 0; i < 2; i++)
			assert_int_equal(read(server.ready, &event[i], sizeof(event[i])), sizeof(event[i]));
		assert_string_equal(rdma_event_str(event[0]), rdma_event_str(RDMA_CM_EVENT_ESTABLISHED));
		assert_string_equal(rdma_event_str(event[1]), rdma_event_str(RDMA_CM_EVENT_DISCONNECTED));
		close(client.ready);
		stop(&server, SIGKILL);
	}
}

/* The client sees that the server has its request when the server is dead already. It must not wait for the time that
 * the server has asked for. */
static void killed_as_it_asked_for_time(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct client server = start(&to, HOLDS, INADDR_LOOPBACK), client;
	int event[2];

	assert_int_equal(read(server.ready, &to, sizeof(to)), sizeof(to));
	stop(&server, SIGSTOP);
	client = start(&to, HOPES, INADDR_LOOPBACK);
	await(&client);
	usleep(80000); /* the request is repeated after 50 ms */
	stop(&client, SIGSTOP);
	kill(server.pid, SIGCONT);
	await(&server);
	usleep(20000); /* the repeated one is answered by an MRA */
	stop(&server, SIGKILL);
	kill(client.pid, SIGCONT);
	assert_int_equal(read(client.ready, event, sizeof(event)), sizeof(event));
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)event[0]), rdma_event_str(RDMA_CM_EVENT_REJECTED));
	assert_int_equal(event[1], 28); /* of the dead, and not of the process that the next request comes to */
	stop(&client, SIGKILL);
}

/* A copy of the descriptor that holds a process's slot, or -1. */
static int copy_of_slot(pid_t pid)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), found = -1;

	for (int n = 0; process >= 0 && found < 0 && n < 4096; n++) {
		int fd = (int)syscall(SYS_pidfd_getfd, process, n, 0);
		struct sockaddr_un a;
		socklen_t size = sizeof(a);

		memset(&a, 0, sizeof(a));
		if (fd >= 0 && !getsockname(fd, (struct sockaddr *)&a, &size) && a.sun_family == AF_UNIX &&
		    !strncmp(a.sun_path + 1, "uroce/slot/", 11))
			found = fd;
		else if (fd >= 0)
			close(fd);
	}
	close(process);
	return found;
}

/* A process that ends closes its descriptors one by one. On a busy machine it may be long between that of the
 * connection and that of the slot. */
static void killed_and_slow_to_end(void **state)
{
	struct server s = listen_here();
	struct client c;
	struct rdma_cm_id *id = admit(&s, &c, CONNECTED);
	int slot = copy_of_slot(c.pid);
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};

	assert_true(slot >= 0);
	stop(&c, SIGKILL);
	assert_int_equal(poll(&p, 1, 100), 0);
	close(slot);
	assert_int_equal(poll(&p, 1, 5000), 1);
	assert_ptr_equal(expect(RDMA_CM_EVENT_DISCONNECTED, 0), id);
	finish(&s, id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_after_its_request),	   cmocka_unit_test(killed_with_our_reply),
		cmocka_unit_test(killed_when_connected),	   cmocka_unit_test(killed_instead_of_parting),
		cmocka_unit_test(killed_at_another_address),	   cmocka_unit_test(another_program_in_its_place),
		cmocka_unit_test(listeners_outlive_their_clients), cmocka_unit_test(killed_as_it_connected),
		cmocka_unit_test(killed_as_it_asked_for_time),	   cmocka_unit_test(killed_and_slow_to_end),
	};

	netns_enter();
	setenv("UROCE_DEVICES", "127.0.0.1..127.0.0.2", 1);
	make_clients();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
