/* SPDX-License-Identifier: BSD-2-Clause */
/* Nothing: see the maps. */
