/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of rules (rule.h) and their values. */
#ifndef UROCE_FAULT_RULE_WORDS_H
#define UROCE_FAULT_RULE_WORDS_H

#include "fault/rule.h"

struct rule_word {
	const char *name;
	uint32_t value;
};

struct rule_words {
	const struct rule_word *row;
	uint32_t count;
};

extern const struct rule_words rule_errnos;
extern const struct rule_words rule_statuses;	 /* enum ibv_wc_status */
extern const struct rule_words rule_naks;	 /* syndromes */
extern const struct rule_words rule_parts;	 /* enum rule_part */
extern const struct rule_words rule_durings;	 /* enum rule_during */
extern const struct rule_words rule_requests;	 /* enum ibv_wr_opcode */
extern const struct rule_words rule_completions; /* enum ibv_wc_opcode */
extern const struct rule_words rule_mads;	 /* connection management: low byte of the attribute */
extern const struct rule_words rule_uses;	 /* enum rule_use */
extern const struct rule_words rule_classes;	 /* packets whose opcode has all these flags */
extern const struct rule_words rule_transports;	 /* enum transport */

extern const char *const rule_event_name[RULE_EVENTS];
extern const char *const rule_action_name[RULE_ACTIONS];

/* First word of the value, or "?". */
const char *rule_word_of(const struct rule_words *words, uint64_t value);

#endif
