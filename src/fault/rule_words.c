/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/rule_words.h"

#include <errno.h>
#include <infiniband/verbs.h>

#include "wire/packet.h"

const char *const rule_event_name[RULE_EVENTS] = {
	[RULE_PACKET] = "packet", [RULE_POST] = "post", [RULE_COMPLETE] = "complete", [RULE_ONESIDED] = "onesided",
	[RULE_CALL] = "call",	  [RULE_MAD] = "mad",	[RULE_TIME] = "time",	      [RULE_MEMORY] = "memory",
};

const char *const rule_action_name[RULE_ACTIONS] = {
	[DO_DROP] = "drop",	    [DO_DUPLICATE] = "duplicate",
	[DO_DELAY] = "delay",	    [DO_REORDER] = "reorder",
	[DO_CORRUPT] = "corrupt",   [DO_TRUNCATE] = "truncate",
	[DO_RATE] = "rate",	    [DO_PARTITION] = "partition",
	[DO_NAK] = "nak",	    [DO_RNR] = "rnr",
	[DO_REVOKE] = "revoke",	    [DO_REFUSE] = "refuse",
	[DO_STATUS] = "status",	    [DO_OVERRUN] = "overrun",
	[DO_WAKE] = "wake",	    [DO_LAST_FIRST] = "last-first",
	[DO_REJECT] = "reject",	    [DO_STOP] = "stop",
	[DO_KILL] = "kill",	    [DO_PORT_DOWN] = "port-down",
	[DO_GID_GONE] = "gid-gone", [DO_FATAL] = "fatal",
};

#define ERRNO(name)         \
	{                   \
#name, name \
	}
static const struct rule_word errnos[] = {
	ERRNO(EPERM),	   ERRNO(ENOENT),	 ERRNO(EINTR),	   ERRNO(EIO),		ERRNO(EAGAIN),
	ERRNO(ENOMEM),	   ERRNO(EACCES),	 ERRNO(EFAULT),	   ERRNO(EBUSY),	ERRNO(EEXIST),
	ERRNO(ENODEV),	   ERRNO(EINVAL),	 ERRNO(ENFILE),	   ERRNO(EMFILE),	ERRNO(ENOSPC),
	ERRNO(ERANGE),	   ERRNO(ENOSYS),	 ERRNO(ENODATA),   ERRNO(EOPNOTSUPP),	ERRNO(EADDRINUSE),
	ERRNO(ENOBUFS),	   ERRNO(ENETUNREACH),	 ERRNO(ETIMEDOUT), ERRNO(ECONNREFUSED), ERRNO(EHOSTUNREACH),
	ERRNO(ECONNRESET), ERRNO(EADDRNOTAVAIL), ERRNO(ENETDOWN),
};

#define STATUS(name)                 \
	{                            \
#name, IBV_WC_##name \
	}
static const struct rule_word statuses[] = {
	STATUS(SUCCESS),       STATUS(LOC_LEN_ERR),	STATUS(LOC_QP_OP_ERR),	   STATUS(LOC_PROT_ERR),
	STATUS(WR_FLUSH_ERR),  STATUS(MW_BIND_ERR),	STATUS(BAD_RESP_ERR),	   STATUS(LOC_ACCESS_ERR),
	STATUS(REM_OP_ERR),    STATUS(REM_INV_REQ_ERR), STATUS(REM_ACCESS_ERR),	   STATUS(RETRY_EXC_ERR),
	STATUS(REM_ABORT_ERR), STATUS(FATAL_ERR),	STATUS(RNR_RETRY_EXC_ERR), STATUS(RESP_TIMEOUT_ERR),
	STATUS(GENERAL_ERR),
};

static const struct rule_word naks[] = {
	{"sequence", NAK_SEQUENCE},
	{"invalid", NAK_INVALID_REQUEST},
	{"access", NAK_REMOTE_ACCESS},
	{"operation", NAK_REMOTE_OPERATION},
};

static const struct rule_word parts[] = {{"payload", PART_PAYLOAD}, {"header", PART_HEADER}, {"icrc", PART_ICRC}};

static const struct rule_word durings[] = {
	{"INIT", WHILE_INIT},
	{"RTR", WHILE_RTR},
	{"RTS", WHILE_RTS},
	{"SQD", WHILE_SQD},
	{"SQE", WHILE_SQE},
	{"ERR", WHILE_ERR},
	{"port-down", WHILE_PORT_DOWN},
	{"gid-gone", WHILE_GID_GONE},
};

#define WR(name)                     \
	{                            \
#name, IBV_WR_##name \
	}
static const struct rule_word requests[] = {
	WR(SEND),
	WR(SEND_WITH_IMM),
	WR(SEND_WITH_INV),
	WR(RDMA_READ),
	WR(RDMA_WRITE),
	WR(RDMA_WRITE_WITH_IMM),
	WR(BIND_MW),
	WR(LOCAL_INV),
	WR(ATOMIC_CMP_AND_SWP),
	WR(ATOMIC_FETCH_AND_ADD),
	WR(ATOMIC_WRITE),
	{"READ", IBV_WR_RDMA_READ},
	{"WRITE", IBV_WR_RDMA_WRITE},
};

#define WC(name)                     \
	{                            \
#name, IBV_WC_##name \
	}
static const struct rule_word completions[] = {
	WC(SEND),
	WC(RDMA_WRITE),
	WC(RDMA_READ),
	WC(COMP_SWAP),
	WC(FETCH_ADD),
	WC(BIND_MW),
	WC(LOCAL_INV),
	WC(RECV),
	WC(RECV_RDMA_WITH_IMM),
	WC(ATOMIC_WRITE),
	{"READ", IBV_WC_RDMA_READ},
	{"WRITE", IBV_WC_RDMA_WRITE},
};

/* Attribute ids of connection management. */
static const struct rule_word mads[] = {
	{"REQ", 0x10},	{"MRA", 0x11},	    {"REJ", 0x12},	{"REP", 0x13}, {"RTU", 0x14}, {"DREQ", 0x15},
	{"DREP", 0x16}, {"SIDR_REQ", 0x17}, {"SIDR_REP", 0x18}, {"LAP", 0x19}, {"APR", 0x1a},
};

static const struct rule_word uses[] = {{"READ", USE_READ}, {"WRITE", USE_WRITE}, {"ATOMIC", USE_ATOMIC}};

static const struct rule_word classes[] = {
	{"REQUEST", IS_REQUEST},
	{"RESPONSE", IS_RESPONSE},
	{"SEND", IS_SEND},
	{"WRITE", IS_WRITE},
	{"READ", IS_READ | IS_REQUEST},
	{"READ_RESPONSE", IS_READ | IS_RESPONSE},
	{"ATOMIC", IS_ATOMIC | IS_REQUEST},
	{"FIRST", IS_FIRST},
	{"LAST", IS_LAST},
};

static const struct rule_word transports[] = {
	{"RC", TRANSPORT_RC}, {"UC", TRANSPORT_UC}, {"UD", TRANSPORT_UD}, {"XRC", TRANSPORT_XRC}};

#define WORDS(table)                     \
	{                                \
		table, ARRAY_SIZE(table) \
	}
const struct rule_words rule_errnos = WORDS(errnos);
const struct rule_words rule_statuses = WORDS(statuses);
const struct rule_words rule_naks = WORDS(naks);
const struct rule_words rule_parts = WORDS(parts);
const struct rule_words rule_durings = WORDS(durings);
const struct rule_words rule_requests = WORDS(requests);
const struct rule_words rule_completions = WORDS(completions);
const struct rule_words rule_mads = WORDS(mads);
const struct rule_words rule_uses = WORDS(uses);
const struct rule_words rule_classes = WORDS(classes);
const struct rule_words rule_transports = WORDS(transports);

const char *rule_word_of(const struct rule_words *words, uint64_t value)
{
	for (uint32_t i = 0; i < words->count; i++)
		if (words->row[i].value == value)
			return words->row[i].name;
	return "?";
}
