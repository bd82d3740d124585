/* Nothing: see the maps. SPDX-License-Identifier: BSD-2-Clause */
