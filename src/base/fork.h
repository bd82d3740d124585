/* SPDX-License-Identifier: BSD-2-Clause */
/* fork(): one ordered table (base/fork.def) of what each part of uroce does before and after. liburoce.so.1 registers a
 * single pthread_atfork(3) handler, before the constructors of its other files. So the handlers of a program take the
 * program's locks before uroce takes its own; in the child they run after uroce has released its own. */
#ifndef UROCE_BASE_FORK_H
#define UROCE_BASE_FORK_H

enum fork_part {
#define FORK_PART(name, what) FORK_##name,
#include "base/fork.def"
#undef FORK_PART
	FORK_PARTS,
};

/* Handlers of a part. Each may be NULL. */
struct fork_handlers {
	void (*before)(void);
	void (*in_parent)(void);
	void (*in_child)(void);
};

/* Registers `handlers`, which is not copied. They are called from now on, or from the next fork on if a fork is under
 * way. Any thread may call, with any lock held. A part whose `before` takes locks registers in a constructor, so that
 * it is called at every fork. */
void fork_watch(enum fork_part part, const struct fork_handlers *handlers);

/* The handlers of a part; NULL: not registered. */
const struct fork_handlers *fork_handlers_of(enum fork_part part);

#endif
