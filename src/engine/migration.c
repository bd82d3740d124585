/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/migration.h"

#include <errno.h>
#include <string.h>

#include "base/cause.h"
#include "base/trace.h"
#include "engine/alternate.h"
#include "engine/checks.h"
#include "engine/engine.h"
#include "engine/retry.h"

static const char *migration_text(enum ibv_mig_state state)
{
	static const char *const names[] = {"MIGRATED", "REARM", "ARMED"};

	return (size_t)state < ARRAY_SIZE(names) ? names[state] : "an unknown state";
}

static int migration_refuse(const struct qp *qp, enum ibv_mig_state to, const char *why)
{
	return because(CAUSE_MODIFY_VALUE, -EINVAL, "QP 0x%x: path_mig_state cannot go from %s to %s: %s",
		       qp->base.qp_num, migration_text(qp->attr.path_mig_state), migration_text(to), why);
}

int migration_check(const struct qp *qp, const struct ibv_qp_attr *a, int mask)
{
	enum ibv_mig_state from = qp->attr.path_mig_state;

	if (!(mask & IBV_QP_PATH_MIG_STATE))
		return 0;
	switch (a->path_mig_state) {
	case IBV_MIG_MIGRATED:
		return from == IBV_MIG_REARM ? migration_refuse(qp, IBV_MIG_MIGRATED, "it is armed by the peer first")
					     : 0;
	case IBV_MIG_REARM:
		return qp->attr.alt_port_num || mask & IBV_QP_ALT_PATH
			       ? 0
			       : migration_refuse(qp, IBV_MIG_REARM, "there is no alternate path (IBV_QP_ALT_PATH)");
	default:
		return migration_refuse(qp, a->path_mig_state, "a program asks for REARM or MIGRATED");
	}
}

void migration_set(struct qp *qp, enum ibv_mig_state state, uint64_t now)
{
	if (state == IBV_MIG_REARM) {
		hook_set(HOOK_MIGRATION, true);
		qp->migration_refused = false;
		migration_enter(qp, state, BY_PROGRAM);
	} else if (qp->attr.path_mig_state == IBV_MIG_ARMED) {
		migration_switch(qp, BY_PROGRAM);
		retry_on_path(qp, now);
	}
}

/* True if the packet came by this path. A ring does not tell its addresses. */
static bool is_by(const struct qp *qp, const struct path *path, const union ibv_gid *from, const uint8_t *to)
{
	if (!to)
		return path->local_peer && path->local_peer == qp->path.local_peer;
	return !memcmp(from, &path->dgid, sizeof(*from)) && !memcmp(to, &path->sgid, sizeof(path->sgid));
}

/* True for an answer to a request that was answered before. An XRC target answers from several processes, whose packets
 * may overtake each other: a late one may be older than the arming of the target. */
static bool is_late(const struct qp *qp, const struct packet *p)
{
	return !(opcode_info[p->opcode].flags & IS_REQUEST) && psn_diff(p->psn, qp->req.una) < 0;
}

/* Follows a peer that sends by the alternate path, as MigReq is set and this end is armed. */
static bool migration_follow(struct qp *qp, const struct packet *p, const union ibv_gid *from, const uint8_t *to,
			     uint64_t now)
{
	if (is_by(qp, &qp->alternate, from, to)) {
		migration_switch(qp, BY_PACKET);
		qp->hca->ops->qp_event(qp, IBV_EVENT_PATH_MIG);
		retry_on_path(qp, now);
		return true;
	}
	if (!qp->migration_refused && !is_late(qp, p)) {
		qp->migration_refused = true;
		qp->hca->ops->qp_event(qp, IBV_EVENT_PATH_MIG_ERR);
	}
	return false;
}

/* The expected PSN, as far as this process knows: the responder of a target may be in another one, which reports. */
static psn_t migration_due(const struct qp *qp)
{
	return qp->xrc && qp->xrc->delegation.to ? qp->xrc->delegation.expected : qp->resp.expected;
}

/* True if a packet is in step with the connection. A target has sent no requests. To a stranger who knows only the
 * addresses and the QP's number, one guess in 512 is true. */
static bool is_in_step(const struct qp *qp, const struct packet *p)
{
	bool request = opcode_info[p->opcode].flags & IS_REQUEST;
	return (request || !is_xrc_target(qp)) &&
	       psn_is_near(psn_diff(p->psn, request ? migration_due(qp) : qp->req.una));
}

bool engine_heed_path(struct qp *qp, const struct packet *p, const union ibv_gid *from, const uint8_t *to, uint64_t now)
{
	if (!qp_is_guarded(qp) || is_delegate(qp) || !qp_is_receiving(qp) || TRANSPORT(p->opcode) != qp->transport ||
	    !is_in_step(qp, p))
		return true;
	if (qp->attr.path_mig_state == IBV_MIG_ARMED)
		return !p->migrated || migration_follow(qp, p, from, to, now);
	if (!p->migrated && is_by(qp, &qp->path, from, to))
		migration_enter(qp, IBV_MIG_ARMED, BY_PACKET);
	return true;
}

void engine_mark(const struct qp *qp, struct tx_batch *batch)
{
	if (!qp_is_guarded(qp))
		return;
	for (uint32_t i = 0; i < batch->packets; i++)
		batch->tx[i].packet.migrated = false;
}
