/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of the tools: unit; purpose. None was measured: they only end what would never end. */
#ifndef UROCE_TOOLS_TUNED_H
#define UROCE_TOOLS_TUNED_H

#define ARRIVE_MS	 1000	    /* ms for doctor's datagram on loopback to arrive */
#define SCENE_SECONDS	 "120"	    /* s for the two programs of a scene to end */
#define READY_MS	 20	    /* ms between two looks at whether a server listens */
#define PRINTED_PATIENCE SEC	    /* ns; for a server to listen after it has printed */
#define STOP_PATIENCE	 (2 * SEC)  /* ns; for a server to end by itself when its client failed, and at SIGTERM */
#define REPORT_PATIENCE	 (10 * SEC) /* ns; for processes that the checked program leaves to end */

#endif
