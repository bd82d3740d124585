/* Nothing: see libibverbs.map. SPDX-License-Identifier: BSD-2-Clause */
