/* SPDX-License-Identifier: BSD-2-Clause */
/* fork(): one ordered table (base/fork.def) of what its parts do before and after it. liburoce.so.1 registers a single
 * handler of pthread_atfork(3), before the constructors of its own other files: so a program's handlers take the
 * program's locks before ours, and find in the child that ours are free. */
#ifndef UROCE_BASE_FORK_H
#define UROCE_BASE_FORK_H

enum fork_part {
#define FORK_PART(name, what) FORK_##name,
#include "base/fork.def"
#undef FORK_PART
	FORK_PARTS,
};

/* Each may be NULL. */
struct fork_handlers {
	void (*before)(void);
	void (*in_parent)(void);
	void (*in_child)(void);
};

/* From now on, or from the next fork on if one is under way, `handlers` are called; it is not copied. Any thread, with
 * any lock held. A constructor calls it for a part whose `before` takes locks, so that it is called at every fork. */
void fork_watch(enum fork_part part, const struct fork_handlers *handlers);

/* NULL: not registered. */
const struct fork_handlers *fork_handlers_of(enum fork_part part);

#endif
