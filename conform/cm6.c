/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection management by AF_INET6. */
#include <arpa/inet.h>
#include <string.h>

#include "conform.h"
#include "connect.h"
#include "states.h"

/* An IPv6 address of the device, of more than a link; lacking() if it has none. The far end has its own. */
static struct sockaddr_storage address6(const struct end *e, uint16_t port)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_storage storage = {0};

	memcpy(&a.sin6_addr, e->gid6.raw, sizeof(a.sin6_addr));
	if (IN6_IS_ADDR_UNSPECIFIED(&a.sin6_addr))
		lacking("an IPv6 address");
	memcpy(&storage, &a, sizeof(a));
	return storage;
}

static struct sockaddr_storage text6(const char *text)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6};
	struct sockaddr_storage storage = {0};

	inet_pton(AF_INET6, text, &a.sin6_addr);
	memcpy(&storage, &a, sizeof(a));
	return storage;
}

static struct sockaddr_storage any(int family, uint16_t port)
{
	struct sockaddr_storage storage = {.ss_family = (sa_family_t)family};

	((struct sockaddr_in *)&storage)->sin_port = htons(port); /* sin6_port is there, too */
	return storage;
}

static int bind_only6(struct end *e, struct rdma_cm_id *id, struct sockaddr_storage address)
{
	struct cm_call c = call_of(CM_OPTION, id);

	c.level = RDMA_OPTION_ID;
	c.name = RDMA_OPTION_ID_AFONLY;
	c.value = 1;
	expect_errno("AFONLY", cm_do(e, &c), 0);
	return bind_at(e, id, address);
}

static uint16_t listen_to(struct rdma_cm_id *id, int error)
{
	struct cm_call c = call_of(CM_PORT, id);

	expect_errno("rdma_bind_addr", error, 0);
	expect_errno("rdma_listen", simple(far, CM_LISTEN, id), 0);
	cm_do(far, &c);
	return c.port;
}

/* Connects by that address as far as the event at the client: ESTABLISHED or REJECTED. */
static void connect_by(struct sockaddr_storage address, struct rdma_cm_id *listener, enum rdma_cm_event_type expected)
{
	struct two t = {.listener = listener};

	make_qp(near, IBV_QPT_RC);
	t.client = resolve_at(RDMA_PS_TCP, address);
	t.a = queue_pair(near, t.client, RDMA_PS_TCP);
	if (expected == RDMA_CM_EVENT_ESTABLISHED) {
		request(&t, 0);
		accept_with(&t, 0);
	} else {
		struct cm_call c = connect_call(&t, 0);

		expect_errno("rdma_connect", cm_do(near, &c), 0);
	}
	event(near, expected);
}

static void connects(void)
{
	struct rdma_cm_id *id = make_id(far, RDMA_PS_TCP);
	uint16_t port = listen_to(id, bind_at(far, id, address6(far, 0)));

	connect_by(address6(far, port), id, RDMA_CM_EVENT_ESTABLISHED);
}

static void any_takes_both(void)
{
	struct rdma_cm_id *id = make_id(far, RDMA_PS_TCP);
	uint16_t port = listen_to(id, bind_at(far, id, any(AF_INET6, 0)));

	connect_by(address6(far, port), id, RDMA_CM_EVENT_ESTABLISHED);
	event(far, RDMA_CM_EVENT_ESTABLISHED);
	connect_by(address_at(far, port), id, RDMA_CM_EVENT_ESTABLISHED);
}

static void only_takes_one(void)
{
	struct rdma_cm_id *id = make_id(far, RDMA_PS_TCP);
	uint16_t port = listen_to(id, bind_only6(far, id, any(AF_INET6, 0)));

	connect_by(address_at(far, port), id, RDMA_CM_EVENT_REJECTED);
	connect_by(address6(far, port), id, RDMA_CM_EVENT_ESTABLISHED);
}

static void one_port_each(void)
{
	struct rdma_cm_id *six = make_id(far, RDMA_PS_TCP), *four = make_id(far, RDMA_PS_TCP);
	uint16_t port = listen_to(six, bind_only6(far, six, any(AF_INET6, 0)));

	listen_to(four, bind_at(far, four, any(AF_INET, port)));
}

static void one_port_both(void)
{
	struct rdma_cm_id *six = make_id(far, RDMA_PS_TCP), *four = make_id(far, RDMA_PS_TCP);
	uint16_t port = listen_to(six, bind_at(far, six, any(AF_INET6, 0)));
	int error = bind_at(far, four, any(AF_INET, port));

	if (!error)
		error = simple(far, CM_LISTEN, four);
	expect_errno("a second listener", error, EADDRNOTAVAIL);
}

static void other_family(void)
{
	struct rdma_cm_id *id = make_id(near, RDMA_PS_TCP);
	struct cm_call c = call_of(CM_ADDRESS, id);

	c.address = address6(near, 7);
	expect_errno("rdma_bind_addr", bind_at(near, id, address_at(near, 0)), 0);
	expect_errno("rdma_resolve_addr", cm_do(near, &c), EINVAL);
}

static void not_ours(void)
{
	expect_errno("rdma_bind_addr", bind_at(near, make_id(near, RDMA_PS_TCP), text6("2001:db8::77")),
		     EADDRNOTAVAIL); /* of no host: RFC 3849 */
}

static const char wild[] = "Linux core/cma.c: cma_listen_on_all(), cma_match_private_data()";

static const struct row rows[] = {
	{"connect/address", "rdma_cm(7)", "connect and accept by an IPv6 address", "ESTABLISHED", connects},
	{"connect/any", wild, "listen at ::; connect by IPv6, and by IPv4", "ESTABLISHED, both", any_takes_both},
	{"connect/only", "rdma_set_option(3): AFONLY", "listen at :: with AFONLY; connect by IPv4, and by IPv6",
	 "REJECTED; ESTABLISHED", only_takes_one},
	{"port/only", "rdma_set_option(3): AFONLY", "listen at :: with AFONLY, and at 0.0.0.0 and the same port",
	 "success", one_port_each},
	{"port/both", "Linux core/cma.c: cma_check_port()", "listen at ::, and at 0.0.0.0 and the same port",
	 "EADDRNOTAVAIL", one_port_both},
	{"address/other-family", "Linux core/cma.c: rdma_resolve_addr(), cma_family()",
	 "bind to an IPv4 address, resolve an IPv6 address", "EINVAL", other_family},
	{"address/not-ours", "Linux core/addr.c: rdma_translate_ip()", "bind to an IPv6 address of no interface",
	 "EADDRNOTAVAIL", not_ours},
	{0},
};

struct group cm6_group = {"cm6", .rows = rows};
