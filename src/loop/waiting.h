/* SPDX-License-Identifier: BSD-2-Clause */
/* The descriptor of the program's that is joined to the doorbell and the ports: what comes there makes it readable
 * (progress/waitfd.h). With l->receive. */
#ifndef UROCE_LOOP_WAITING_H
#define UROCE_LOOP_WAITING_H

#include <stdbool.h>

#include "loop/loop.h"

struct waitfd {
	struct loop *loop; /* constant */
	int fd;		   /* the epoll instance. Constant */
	bool rung;	   /* something has come since waitfd_was_rung(), so the descriptor may have been readable */
};

/* waiting_add(), waiting_remove(): a port, or the doorbell, comes or goes. waiting_watch(), waiting_unwatch(): adds a
 * descriptor to the epoll instance of `w`, or removes it. */
void waiting_add(struct loop *l, int fd) REQUIRES(l->receive);
void waiting_remove(struct loop *l, int fd) REQUIRES(l->receive);
void waiting_watch(const struct waitfd *w, int fd);
void waiting_unwatch(const struct waitfd *w, int fd);

#endif
