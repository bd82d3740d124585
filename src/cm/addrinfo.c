/* SPDX-License-Identifier: BSD-2-Clause */
/* Name resolution: rdma_getaddrinfo() on top of getaddrinfo(3). */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_cma.h>
#include <errno.h>

#include "base/msan.h"
#include "fault/inject.h"
#include "device/front.h"

static const struct {
	int rai, ai;
} flags[] = {
	{RAI_PASSIVE, AI_PASSIVE},
	{RAI_NUMERICHOST, AI_NUMERICHOST},
};

static void to_ai(const struct rdma_addrinfo *rai, struct addrinfo *ai)
{
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (rai->ai_flags & flags[i].rai)
			ai->ai_flags |= flags[i].ai;
	ai->ai_family = rai->ai_family;
	if (rai->ai_qp_type)
		ai->ai_socktype = rai->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM;
	if (rai->ai_port_space == RDMA_PS_TCP)
		ai->ai_protocol = IPPROTO_TCP;
	else if (rai->ai_port_space == RDMA_PS_UDP || rai->ai_port_space == RDMA_PS_IPOIB)
		ai->ai_protocol = IPPROTO_UDP;
}

/* Errno for an error of getaddrinfo(3). (rdma-core's rdma_getaddrinfo() returns the error itself, contrary to its
 * man page.) */
static int error_of(int result)
{
	switch (result) {
	case EAI_SYSTEM:
		return errno;
	case EAI_MEMORY:
		return ENOMEM;
	case EAI_FAMILY:
	case EAI_SOCKTYPE:
	case EAI_BADFLAGS:
		return EINVAL;
	case EAI_AGAIN:
		return EAGAIN;
	default:
		return ENODATA;
	}
}

static int copy_address(struct sockaddr **to, socklen_t *length, const struct sockaddr *from, socklen_t n)
{
	if (!from || !n)
		return 0;
	*to = malloc(n);
	if (!*to)
		return ENOMEM;
	memcpy(*to, from, n);
	*length = n;
	return 0;
}

static int copy_name(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? ENOMEM : 0;
}

static int from_ai(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints, const struct addrinfo *ai)
{
	bool is_dgram = ai->ai_socktype == SOCK_DGRAM;

	rai->ai_family = ai->ai_family;
	rai->ai_qp_type = hints->ai_qp_type ?: is_dgram ? IBV_QPT_UD : IBV_QPT_RC;
	rai->ai_port_space = hints->ai_port_space
				     ?: ai->ai_protocol == IPPROTO_UDP || is_dgram ? RDMA_PS_UDP
										   : RDMA_PS_TCP;
	if (hints->ai_flags & RAI_PASSIVE)
		return copy_address(&rai->ai_src_addr, &rai->ai_src_len, ai->ai_addr, ai->ai_addrlen)
			       ?: copy_name(&rai->ai_src_canonname, ai->ai_canonname);
	return copy_address(&rai->ai_dst_addr, &rai->ai_dst_len, ai->ai_addr, ai->ai_addrlen)
		       ?: copy_name(&rai->ai_dst_canonname, ai->ai_canonname);
}

/* 0; -1 with errno; or the error of getaddrinfo(), with errno set. */
static int addrinfo_resolve(const char *node, const char *service, const struct rdma_addrinfo *hints,
			    struct rdma_addrinfo *rai)
{
	struct addrinfo want = {0}, *found;
	int result, error;

	to_ai(hints, &want);
	result = getaddrinfo(node, service, &want, &found);
	if (result) {
		errno = error_of(result);
		return result;
	}
	error = from_ai(rai, hints, found);
	freeaddrinfo(found);
	return error ? fail_minus(error) : 0;
}

static int addrinfo_fill(const char *node, const char *service, const struct rdma_addrinfo *hints,
			 struct rdma_addrinfo *rai)
{
	int error = 0;

	rai->ai_flags = hints->ai_flags & RAI_PASSIVE;
	if (node || service) {
		int result = addrinfo_resolve(node, service, hints, rai);

		if (result)
			return result;
	} else {
		rai->ai_family = hints->ai_family;
		rai->ai_qp_type = hints->ai_qp_type;
		rai->ai_port_space = hints->ai_port_space;
		error = copy_address(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
	}
	if (!error && !rai->ai_src_len)
		error = copy_address(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	return error ? fail_minus(error) : 0;
}

PUBLIC int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			    struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo no_hints;
	struct rdma_addrinfo *rai;
	int result;

	if (inject_call(CALL_rdma_getaddrinfo))
		return -1;
	if (!node && !service && !hints)
		return fail_minus(EINVAL);
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return fail_minus(ENOMEM);
	result = addrinfo_fill(node, service, hints ?: &no_hints, rai);
	if (result)
		rdma_freeaddrinfo(rai);
	else
		*res = rai;
	msan_wrote(res, sizeof(*res));
	return result;
}

PUBLIC void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
		res = next;
	}
}
