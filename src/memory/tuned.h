/* SPDX-License-Identifier: BSD-2-Clause */
/* Tuned constants of memory: unit; purpose; what was measured, and where. Sizes of shared tables stand beside their
 * layout. */
#ifndef UROCE_MEMORY_TUNED_H
#define UROCE_MEMORY_TUNED_H

/* shareable and imported memory */
#define EXTENT_MAX   (1ull << 34)  /* bytes of an extent that moves: querying the pages of more takes too long */
#define MOVE_BYTES   (16u << 20)   /* bytes moved at once, which exist twice for a moment */
#define PRIVATES     1024	   /* pieces of open regions that must not move; not measured */
#define IDLE_EXTENTS 8		   /* extents without a region that start a collection, at first ... */
#define IDLE_BYTES   (64ull << 20) /* ... or bytes of them */
#define VIEW_LEAST   (2ull << 20)  /* bytes mapped of a local peer's extent at once: a huge page */
#define SHARE_YIELDS 256	   /* yields of an owner until it checks whether a visitor is alive */

/* GPU memory: docs/gpu.md, "Measured" */
#define GPU_STAGING (4ul << 20)	  /* bytes of pinned memory for each context */
#define GPU_PIECE   (512ul << 10) /* bytes of a copy: the GPU copies one while the processor copies another */
#define DIRECT_PUT  (16ul << 10)  /* bytes from which the driver is faster with the program's memory, to a GPU ... */
#define DIRECT_GET  (2ul << 20)	  /* ... and from one */

#endif
