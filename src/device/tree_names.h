/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and numbers in the trees of files that the kernel has for an adapter, and the kinds of their nodes. */
#ifndef UROCE_DEVICE_TREE_NAMES_H
#define UROCE_DEVICE_TREE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* The PCI functions that devices with one address have: of a domain that machines do not have. */
#define TREE_PCI_DOMAIN "f0ce"
#define TREE_PCI	"/sys/devices/pci" TREE_PCI_DOMAIN ":00"
/* What NVIDIA's module that lets adapters access memory of GPUs leaves, today and formerly: programs look there before
 * they register such memory. */
#define TREE_PEER_MODULE "/sys/module/nvidia_peermem"
#define TREE_PEER_MEMORY "/sys/kernel/mm/memory_peers/nv_mem"

/* Device numbers of the kernel: of /dev/infiniband, and of uverbs0 */
#define TREE_MAJOR 231
#define TREE_MINOR 192

enum tree_kind {
	TREE_DIRECTORY,
	TREE_FILE,
	TREE_LINK,
	TREE_DEVICE, /* a character device */
};

#endif
