/* SPDX-License-Identifier: BSD-2-Clause */
/* Reasons why an access by a key was refused: for messages, after the fact. Any thread may call; a region may change
 * meanwhile. */
#ifndef UROCE_KEY_FAULT_H
#define UROCE_KEY_FAULT_H

#include <stdbool.h>
#include <stdint.h>

struct hca;
struct pd;

/* Faults in the order of the causes from CAUSE_LKEY_UNKNOWN and CAUSE_RKEY_UNKNOWN on. */
enum key_fault {
	KEY_UNKNOWN,
	KEY_GONE, /* the key has ended: mr_find_gone() */
	KEY_DOMAIN,
	KEY_BOUNDS,
	KEY_RIGHTS,
	KEY_UNMAPPED, /* memory is not mapped; all else is right */
	KEY_KIND,     /* an rkey in place of an lkey, or the reverse */
};

enum { KEY_FAULT_TEXT = 400 };

/* A key, of an SGE or of a peer's request. */
struct key_used {
	uint32_t key;
	bool is_local;
};

/* The fault of an access to [va, va + length), and a clause that describes it. */
enum key_fault key_fault(struct hca *hca, const struct pd *pd, struct key_used used, uint64_t va, uint64_t length,
			 unsigned access, char text[KEY_FAULT_TEXT]);

/* Access rights as text: "LOCAL_WRITE|REMOTE_READ"; "none". */
const char *access_text(unsigned access, char text[128]);

#endif
