/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and numbers of the trees, and kinds of nodes. */
#ifndef UROCE_DEVICE_TREE_NAMES_H
#define UROCE_DEVICE_TREE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* PCI domain of devices with one address, which no machine has. */
#define TREE_PCI_DOMAIN "f0ce"
#define TREE_PCI	"/sys/devices/pci" TREE_PCI_DOMAIN ":00"
/* Folder of NVIDIA's module that lets adapters access GPU memory, under its present and former name; programs look
 * for it before they register such memory. */
#define TREE_PEER_MODULE "/sys/module/nvidia_peermem"
#define TREE_PEER_MEMORY "/sys/kernel/mm/memory_peers/nv_mem"

/* Device numbers of the kernel: /dev/infiniband, and uverbs0. */
#define TREE_MAJOR 231
#define TREE_MINOR 192

enum tree_kind {
	TREE_DIRECTORY,
	TREE_FILE,
	TREE_LINK,
	TREE_DEVICE, /* character device */
};

#endif
